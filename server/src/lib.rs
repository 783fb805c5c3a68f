//! The reference server of Escale: something real for the SDK to talk to, and small enough to put in production.
//!
//! [`provider`] stores and finds, [`engine`] decides (versions, pulls, pages, refusals), [`http`] carries, and
//! [`cli`] is the command line. Dependencies point that way: `cli` -> `http` -> `engine` -> `provider`. The
//! protocol is in docs/protocol.md; types that go over the wire are those of the crate `escale`.

pub mod cli;
mod cli_sweep;
pub mod clock;
pub mod engine;
pub mod http;
pub mod import;
pub mod mark;
pub mod provider;
pub mod seal;
pub mod settings;
pub mod sweep;
