//! Whom the driver tells, and what.

use js_sys::Promise;

use crate::crypto::DerivedKey;
use crate::error::Error;
use crate::model::Value;

/// Whom the driver tells.
pub trait Host {
    /// These defs changed, those ids are of no use any more.
    fn changed(&self, defs: &[String], gone: &[u32]);
    /// The status changed.
    fn status(&self);
    /// News of an operation.
    fn operation(&self, news: &News<'_>);
    /// X, as it was derived, or derived anew: enough to open again what is open.
    fn derived(&self, _x: &DerivedKey) {}
    /// A token is wanted; `None` where the application has none.
    fn token(&self, refused: bool) -> Promise;
}

/// News of an operation.
#[derive(Clone, Copy, Debug)]
pub enum News<'a> {
    /// It is on the device; in incognito, in memory.
    Saved {
        /// Which.
        id: &'a str,
        /// Whether there is a device.
        on_device: bool,
    },
    /// The server has executed it.
    Accepted {
        /// Which.
        id: &'a str,
        /// The version that it gave.
        v: u64,
        /// What it returned.
        value: Option<&'a Value>,
    },
    /// It was given up.
    Failed {
        /// Which.
        id: &'a str,
        /// Why.
        error: &'a Error,
    },
    /// The server refused it: it is parked.
    Refused {
        /// Which.
        id: &'a str,
        /// Why.
        error: &'a Error,
    },
    /// Another one stands in its place.
    Amended {
        /// Which.
        id: &'a str,
        /// By which.
        by: &'a str,
    },
}
