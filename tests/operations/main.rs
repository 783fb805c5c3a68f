//! Operations against the model of the server: exactly once, conflicts, the journal and its sweeper, bad
//! input, and long queues.

#![cfg(not(target_family = "wasm"))] // needs a machine
#![allow(clippy::pedantic, clippy::print_stdout)] // a test may need many lines

mod alone;
mod bad_input;
mod conflicts;
mod driver;
mod ends;
mod faulty;
mod journal;
mod limits;
mod naming;
mod numbers;
mod once;
mod order;
mod own;
mod sending;
mod sessions;
mod sweeps;
mod unchanged;
