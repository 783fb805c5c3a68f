//! The rules R1 to R15 of the design, and later ones, each by its name.

#![cfg(not(target_family = "wasm"))] // needs a machine
#![allow(clippy::pedantic, clippy::print_stdout)] // a test may need many lines

mod budget;
mod damage;
mod files;
mod format;
mod histories;
mod local;
mod regressions;
mod sealed;
mod secrecy;
mod store;
mod trees;
mod upgrades;
mod versioned_set;
mod writes;
