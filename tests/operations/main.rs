//! Operations against the model of the server: exactly once, conflicts, the journal and its sweeper, bad input, and how
//! long queues fare.

#[path = "../support/mod.rs"]
mod support;

mod bad_input;
mod conflicts;
mod driver;
mod drain;
mod journal;
mod once;
