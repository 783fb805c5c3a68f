//! Sorts the failures of a store by the reaction that they need. No other module does.
//!
//! `src/web/idb/failure.rs` turns the browser's exceptions into codes; this module turns codes into kinds.

use crate::error::{Code, Error};

/// The reaction that a failure needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No room is left: the same batch can succeed once there is some.
    Full,
    /// The handle is no longer usable: it is dropped, and the store is opened again.
    Handle,
    /// A newer version of the code has upgraded the store: a retry is useless.
    TooNew,
    /// Any other failure: the session retries later.
    Other,
}

impl Failure {
    /// The kind of an error that a store gave.
    pub fn of(error: &Error) -> Self {
        match error.code() {
            Code::StorageFull => Failure::Full,
            Code::StorageClosed => Failure::Handle,
            Code::StoreTooNew => Failure::TooNew,
            _ => Failure::Other,
        }
    }
}
