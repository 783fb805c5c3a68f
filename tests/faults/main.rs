//! A fault at every call to the store: each scenario is played until it passes untouched, the k-th call failing, for
//! k = 1, 2, 3 and so on, in each way that browsers' storage fails. Then everything heals, and what was promised is
//! checked.

#![cfg(not(target_family = "wasm"))] // needs a machine
#![allow(clippy::pedantic, clippy::print_stdout)] // a test says what it must, at whatever length

#[path = "../support/mod.rs"]
#[allow(dead_code, unused_imports)] // Its world is for tests/rules.
mod support;

mod check;
mod client;
mod device;
mod every_call;
mod healing;
mod mark;
mod scenarios;
