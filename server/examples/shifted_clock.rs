//! A server whose clock is ahead or behind, for the conformance kit. It shows how the server behaves if a clock is set
//! back, and that it forgets tombstones and results in time.
//!
//! ```text
//! cargo run -p escale-server --example shifted_clock -- SCHEMA FOLDER ADDRESS OFFSET_MS [TOKENS]
//! ```
//!
//! Tombstones and results are kept for a day. So a start with an offset of two days forgets them.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use escale::model::schema::Schema;
use escale::{Code, Error, Result};
use escale_server::clock::{Clock, SystemClock};
use escale_server::engine::{Engine, Opening};
use escale_server::http::{ServeOptions, Tokens, start};
use escale_server::seal::Seal;
use escale_server::settings::Settings;

struct Shifted {
    clock: Arc<dyn Clock>,
    offset_ms: i64,
}

impl Clock for Shifted {
    fn now_ms(&self) -> u64 {
        self.clock.now_ms().saturating_add_signed(self.offset_ms)
    }

    fn elapsed_ms(&self) -> u64 {
        self.clock.elapsed_ms()
    }

    fn pass(&self, ms: u64) -> bool {
        self.clock.pass(ms)
    }
}

fn main() -> ExitCode {
    match run(&std::env::args().skip(1).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("shifted_clock: {error}\n  {}", error.code().cure());
            ExitCode::FAILURE
        }
    }
}

fn bad(message: impl ToString) -> Error {
    Error::new(Code::BadOption, message.to_string())
}

fn run(args: &[String]) -> Result<()> {
    let [schema, folder, address, offset_ms, tokens @ ..] = args else {
        return Err(bad("SCHEMA FOLDER ADDRESS OFFSET_MS [TOKENS]"));
    };
    let schema = Schema::from_json(&std::fs::read_to_string(schema).map_err(bad)?)?;
    let settings = Settings { retention_days: 1, results_days: 1, ..Settings::default() };
    let clock = Shifted { clock: SystemClock::shared(), offset_ms: offset_ms.parse().map_err(bad)? };
    let opening = Opening { schema, settings, seal: Seal::clear(), clock: Arc::new(clock) };
    let engine = Engine::open(Path::new(folder), opening)?;
    // A server purges once it has started. The script waits for the address, and so needs the purge to be over by then.
    engine.purge()?;
    let mut options = ServeOptions::new(Arc::new(engine), address);
    if let [tokens] = tokens {
        options.tokens = Tokens::from_file(tokens.into())?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(bad)?;
    runtime.block_on(async {
        let mut terminated =
            tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).map_err(bad)?;
        let running = start(options).await?;
        writeln!(std::io::stdout(), "listening on http://{}", running.address).map_err(bad)?;
        terminated.recv().await;
        running.stop().await;
        Ok(())
    })
}
