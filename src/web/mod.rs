//! The browser's side of the core: it performs the effects that the core requests, with the browser's own
//! APIs. Compiled for wasm32 only.
//!
//! Nothing here makes a decision: these modules open, read, write, send, listen and wake. Every module works
//! in a page, in a worker and in Node. A feature that the environment lacks is noticed when it is called, and
//! is a named error.

mod bindings;
pub mod driver;
pub mod idb;
pub mod platform;
pub mod tabs;
pub mod transport;

pub use platform::require_secure_context;

#[cfg(test)]
wasm_bindgen_test::wasm_bindgen_test_configure!(run_in_browser);
