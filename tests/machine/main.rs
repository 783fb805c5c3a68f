//! The sync machine against a clock that the test moves: delays, the socket, pulls, tokens, ends of life, the device.

#![cfg(not(target_family = "wasm"))] // needs a machine
#![allow(clippy::pedantic)] // a test says what it must, at whatever length

mod bench;
mod desk;

mod backoff;
mod device;
mod epochs;
mod life;
mod marks;
mod pages;
mod pulls;
mod repair;
mod socket;
mod token;
