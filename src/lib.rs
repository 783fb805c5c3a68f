//! Escale: the core of an SDK for web applications that work with no network.
//!
//! This crate is plain Rust without input or output: identity and values ([`model`]), the wire ([`codec`]), keys and
//! seals ([`crypto`]), the memory of a session ([`memory`]), its layout on a device ([`storage`], [`store`]), and the
//! machine that decides ([`sync`]). The browser's driver lives in `web` and is compiled for wasm32 only. Users import
//! the npm package; this crate is its core, and what the reference server shares with it. ARCHITECTURE.md is the map.
//!
//! ```
//! use escale::model::{Def, Name, sha_s};
//! let section = Def::collection(&Name::new("Package")?, &Name::new("section")?, &["games"])?;
//! assert_eq!(section.to_string(), format!("Package/section@{}", sha_s("games")));
//! # Ok::<(), escale::Error>(())
//! ```

pub mod codec;
pub mod crypto;
mod error;
pub mod journal;
pub mod limits;
pub mod memory;
pub mod model;
pub mod storage;
pub mod store;
pub mod sync;
#[cfg(target_family = "wasm")]
pub mod web;

pub use error::{Code, Error, Kind, Result};
