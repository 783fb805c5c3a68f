//! A fault at every call to the store. Each scenario is played with the k-th call failing, for k = 1, 2, 3
//! and so on, until it passes without a fault. The faults are all those of browsers' storage. Then everything
//! recovers, and the promises are checked.

#![cfg(not(target_family = "wasm"))] // needs a machine
#![allow(clippy::pedantic, clippy::print_stdout)] // a test may need many lines

mod check;
mod client;
mod device;
mod every_call;
mod healing;
mod mark;
mod scenarios;
