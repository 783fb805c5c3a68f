//! What the server promises, rule by rule.
//!
//! `r4_`, `r6_`, `r8_` and `r11_` run random histories (proptest) on several instances with clocks of their own, and compare
//! what a session holds in the end with a `BTreeMap` that went through the same writes. A failing history is printed
//! with its seed, which `PROPTEST_RNG_SEED` takes back. The other modules drive a real instance over HTTP and
//! WebSocket. Nothing waits for time to pass: clocks are set, and events are waited for.
#![allow(clippy::unwrap_used, missing_docs)]

mod auth;
mod bad_input;
mod cli;
mod client;
mod hints;
mod import;
mod journal;
mod limits;
mod operating;
mod operations;
mod pages;
mod provider;
mod r11_once;
mod r12_order;
mod r4_clocks;
mod r6_horizon;
mod r8_epoch;
mod session;
mod site_key;
mod sweep;
mod world;
mod writes;
