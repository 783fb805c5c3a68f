//! The interface through which the driver reports to its owner. In the product the owner is the application,
//! behind `src/web/bindings/host.rs`.

use js_sys::Promise;

use crate::crypto::DerivedKey;
use crate::error::Error;
use crate::journal::Signal;
use crate::model::Value;

/// The receiver of the driver's callbacks.
pub trait Host {
    /// These defs changed, and these ids are no longer in use.
    fn changed(&self, defs: &[String], gone: &[u32]);
    /// The status changed.
    fn status(&self);
    /// Another tab has ended the session, by this signal.
    fn closed(&self, signal: Signal);
    /// Something happened to an operation.
    fn operation(&self, news: &News<'_>);
    /// Operations wait for a word on these objects of files, and on no others.
    fn files(&self, _needed: &[String]) {}
    /// X was derived from the passphrase, at opening or after a change. X is enough to open the same store
    /// again.
    fn derived(&self, _x: &DerivedKey) {}
    /// Requests a token; the promise gives no string if the application has none. `refused` is true if the
    /// server refused the last token.
    fn token(&self, refused: bool) -> Promise;
}

/// An event in the life of an operation.
#[derive(Clone, Copy, Debug)]
pub enum News<'a> {
    /// The operation is on the device; in incognito, in memory.
    Saved {
        /// The operation's id.
        id: &'a str,
        /// Whether the session has a device.
        on_device: bool,
    },
    /// The server has executed it.
    Accepted {
        /// The operation's id.
        id: &'a str,
        /// The version that the server assigned.
        v: u64,
        /// The value that the operation returned.
        value: Option<&'a Value>,
    },
    /// The operation ended without effect: the session discarded it.
    Failed {
        /// The operation's id.
        id: &'a str,
        /// Why.
        error: &'a Error,
    },
    /// The server refused the operation. It is parked until the application decides.
    Refused {
        /// The operation's id.
        id: &'a str,
        /// Why.
        error: &'a Error,
    },
    /// Another operation replaces this one.
    Amended {
        /// The id of the replaced operation.
        id: &'a str,
        /// The id of the new operation.
        by: &'a str,
    },
}
