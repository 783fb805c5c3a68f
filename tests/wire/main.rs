//! The wire: messages in both formats, their bounds, and bytes that are none.

#![cfg(not(target_family = "wasm"))] // needs a machine
#![allow(clippy::pedantic)] // a test says what it must, at whatever length

mod bounds;
mod damage;
mod fixtures;
mod hash;
mod messages;
#[allow(dead_code)] // what plays its seeds one by one
#[path = "../support/seeds.rs"]
mod seeds;
mod strategies;
mod values;
