//! Promises whose two functions are passed to the browser as event handlers.
//!
//! An event handler made of a Rust closure must be kept until the event and freed after it. The functions of
//! a promise belong to the JavaScript engine. So nothing is leaked and nothing is freed too soon, even if the
//! future that waits is dropped.

use js_sys::{Function, Promise};

/// A promise, and the functions that settle it.
pub(crate) struct Deferred {
    pub(crate) promise: Promise,
    pub(crate) resolve: Function,
    pub(crate) reject: Function,
}

impl Deferred {
    pub(crate) fn new() -> Self {
        let mut functions = None;
        let promise = Promise::new(&mut |resolve, reject| functions = Some((resolve, reject)));
        // The executor runs before the constructor returns.
        let (resolve, reject) = functions.expect("the executor has run");
        Deferred { promise, resolve, reject }
    }
}
