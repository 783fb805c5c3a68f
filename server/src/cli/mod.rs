//! The command line.

mod account;
mod backup;
mod files;
mod log;
mod private;
mod run;
mod schema;
mod sweep;

pub use run::{run, run_with};
