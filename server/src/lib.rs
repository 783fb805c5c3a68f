//! The reference server of Escale: a real server to test the SDK against, and small enough for production.
//!
//! [`provider`] stores and finds. [`engine`] decides: versions, pulls, pages, refusals. [`http`] transports,
//! and [`cli`] is the command line. Dependencies point in one direction: `cli` -> `http` -> `engine` ->
//! `provider`. The protocol is in docs/protocol.md; the types of its messages are those of the crate
//! `escale`.

pub mod accounts;
pub mod backup;
pub mod cli;
pub mod clock;
pub mod database;
pub mod engine;
mod figures;
mod file_stamp;
pub mod files;
pub mod http;
pub mod import;
mod lock;
pub mod mark;
pub mod provider;
pub mod rights;
pub mod seal;
pub mod settings;
mod spans;
pub mod sweep;
pub mod values;
