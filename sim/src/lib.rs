//! The simulator: sessions run the real core, server instances run the real engine, and everything else is
//! simulated from one seed.
//!
//! The world (clients, network, devices, the checks) is shared with `tests/rules`, where a model of the
//! server replaces the engine. `support` includes that source by its path. This crate adds the server's side
//! (`server`, over `tap` and `database`), the plans, and the run over many seeds. docs/testing.md says how to
//! use it.

mod clock;
mod database;
mod fiber;
mod instance;
mod plans;
mod record;
mod run;
mod server;
#[allow(dead_code, clippy::pedantic, clippy::unwrap_used, missing_docs)]
// some of it is for tests/rules alone
mod support;
mod tap;

pub use run::{Report, replay, sweep, trace};
pub use support::plan::Action;
