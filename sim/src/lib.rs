//! The simulator: sessions with the real core, instances with the real server, and everything between and below them
//! simulated from one seed.
//!
//! The world (clients, network, devices, the checks) is the one of `tests/rules`, where a model of the server stands in
//! the place of the engine: it is the same source, named here by its path. What is here is the server's side (`server`,
//! over `tap` and `database`), the plans, and how many seeds are played. docs/testing.md says how to use it.

mod clock;
mod database;
mod fiber;
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
