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

mod auth;
mod bad_input;
mod chance;
mod cli;
mod client;
mod cluster;
mod device;
mod empty_org;
mod engine;
mod fire_floods;
mod fire_network;
mod fire_orgs;
mod fire_tokens;
mod hints;
mod import;
mod journal;
mod kills;
mod limits;
mod operating;
mod operations;
mod outside;
mod page;
mod patience;
mod proof;
mod provider;
mod r11_once;
mod r12_lasting;
mod r12_order;
mod r4_clocks;
mod r6_horizon;
mod r8_cluster;
mod r8_epoch;
#[allow(dead_code)] // the part that plays seeds one by one
#[path = "../../../tests/support/seeds.rs"]
mod seeds;
mod session;
mod site_key;
mod sweep;
mod world;
