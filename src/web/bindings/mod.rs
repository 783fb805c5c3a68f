//! The functions and types that JavaScript calls (js/src/wasm/core.ts). They only convert; every method takes
//! `&self` and plain values.

mod application;
mod core;
mod error;
mod host;
mod inspect;
mod open;
mod options;
mod status;
mod wipe;
mod writes;
