//! The simulator: sessions run the real core, server instances run the real engine, and everything else is
//! simulated from one seed.
//!
//! The world (clients, network, devices, the checks) is that of `testkit`. `tests/rules` uses it too, where a
//! model of the server replaces the engine. This crate adds the server's side (`server`, over `tap` and
//! `database`), the plans, and the run over many seeds. docs/testing.md says how to use it.

mod clock;
mod database;
mod fiber;
mod files;
mod instance;
mod plans;
mod record;
mod run;
mod server;
mod store;
mod tap;

pub use escale_testkit::plan::Action;
pub use run::{Report, replay, sweep, trace};
