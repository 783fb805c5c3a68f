//! The sync machine against a clock that the test moves: delays, the socket, pulls, tokens, ends of life, the device.

#![cfg(not(target_family = "wasm"))] // needs a machine
#![allow(clippy::pedantic)] // a test says what it must, at whatever length

mod harness;
mod harness_with_device;
#[allow(dead_code)] // what all tests may use
#[path = "../support/seeds.rs"]
mod seeds;

mod backoff;
mod device;
mod epochs;
mod life;
mod marks;
mod org;
mod pages;
mod pulls;
mod repair;
mod socket;
mod token;
mod wrong;
