//! The server's promises, rule by rule.
//!
//! `r4_`, `r6_`, `r8_` and `r11_` run random histories (proptest) on several instances with separate clocks.
//! They compare a session's final contents with a `BTreeMap` that took the same writes. `session` is a
//! session as small as the rules allow, `device` the machine that browsers run. A failing history is printed
//! with its seed, which `ESCALE_SEED` accepts.
//!
//! The other modules drive a real instance over HTTP and WebSocket. Nothing waits for time to pass: tests set
//! clocks, and wait for events.
#![allow(clippy::unwrap_used, missing_docs)]

mod accounts;
mod crowd;
mod engine;
mod files;
mod fire;
mod operating;
mod requests;
mod rights;
mod rules;
mod sealed;
mod support;
