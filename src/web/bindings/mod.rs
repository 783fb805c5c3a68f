//! What JavaScript sees (js/src/core.ts): conversions only. Every method takes `&self` and plain values.

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
