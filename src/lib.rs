//! Escale: the core of an SDK for web applications that work without a network.
//!
//! This crate is plain Rust without input or output:
//! - identity and values are in [`model`], the wire in [`codec`], keys and seals in [`crypto`];
//! - the memory of a session is in [`memory`], its layout on a device in [`storage`] and [`store`];
//! - the machine that decides is in [`sync`].
//!
//! The browser's driver is in `web` and is compiled for wasm32 only. Users import the npm package. This crate
//! is its core, and the reference server shares parts of it. ARCHITECTURE.md is the map.
//!
//! ```
//! use escale::model::{Def, Name, sha_s};
//! let section = Def::collection(&Name::new("Package")?, &Name::new("section")?, &["games"])?;
//! assert_eq!(section.to_string(), format!("Package/section@{}", sha_s("games")));
//! # Ok::<(), escale::Error>(())
//! ```

pub mod codec;
pub mod crypto;
#[cfg(not(target_family = "wasm"))]
mod decimal;
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

#[cfg(target_family = "wasm")]
use web::platform::decimal;

/// Whether this is the package's wasm: JavaScript then has some of the texts.
const IS_WASM: bool = cfg!(target_family = "wasm");

pub use error::{Code, Error, Kind, Result};
