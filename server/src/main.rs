//! `escale-server`: see [`escale_server::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    match escale_server::cli::run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("escale-server: {error}\n  {}", error.code().cure());
            ExitCode::FAILURE
        }
    }
}
