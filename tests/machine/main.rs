//! The sync machine with a clock that the test sets: delays, the socket, pulls, tokens, expiry, the device.

#![cfg(not(target_family = "wasm"))] // needs a machine
#![allow(clippy::pedantic)] // a test may need many lines

mod backoff;
mod contact;
mod device;
mod epochs;
mod handles;
mod harness;
mod harness_with_device;
mod life;
mod loads;
mod marks;
mod operations;
mod org;
mod pages;
mod pulls;
mod reference;
mod socket;
mod token;
mod wrong;
