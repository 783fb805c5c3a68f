//! The wire: messages in both formats, their bounds, and invalid bytes.

#![cfg(not(target_family = "wasm"))] // needs a machine
#![allow(clippy::pedantic)] // a test may need many lines

mod bounds;
mod damage;
mod fixtures;
mod hash;
mod json;
mod messages;
mod references;
mod values;
