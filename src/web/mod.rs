//! The browser's side: what the core asks for, done with the browser's means. Compiled for wasm32 only.
//!
//! Nothing here decides: it opens, reads, writes, sends, listens and wakes. Every module works in a page, in a
//! worker and in Node; what an environment lacks is found out when it is called, and is a named error.

pub mod adapter;
pub mod address;
mod bindings;
mod channel;
pub mod cipher;
mod claim;
pub mod clock;
pub mod driver;
mod global;
pub mod http;
pub mod idb;
pub mod kdf;
mod locks;
mod panic;
mod promise;
pub mod reply;
pub mod server;
pub mod signals;
pub mod socket;
pub mod tabs;
pub mod timers;
mod words;

pub use global::require_secure_context;

#[cfg(test)]
wasm_bindgen_test::wasm_bindgen_test_configure!(run_in_browser);
