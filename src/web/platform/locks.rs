//! The browser's locks between tabs (Web Locks). Node and browsers before 2022 have none.

use js_sys::{Function, Object, Promise};
use wasm_bindgen::prelude::*;

use super::global::{global, property};

#[wasm_bindgen]
extern "C" {
    // Bound here because web-sys keeps the lock manager among its unstable interfaces. Every user of this
    // crate would have to set a compiler flag for them.
    pub type LockManager;
    #[wasm_bindgen(method, catch)]
    pub fn request(
        this: &LockManager,
        name: &str,
        options: &Object,
        callback: &Function,
    ) -> std::result::Result<Promise, JsValue>;
}

/// The lock manager, if there is one.
pub fn manager() -> Option<LockManager> {
    property(&global("navigator")?, "locks").map(JsCast::unchecked_into)
}
