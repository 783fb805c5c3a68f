//! What a failed call to a store means for whoever holds it: the one place that sorts them.
//!
//! The browser's exceptions are brought to codes in `src/web/idb/failure.rs`; from there on these kinds decide.

use crate::error::{Code, Error};

/// What a failure asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No room is left: the same batch can succeed once there is some.
    Full,
    /// The handle is of no use any more: it is dropped, never used again, and the store opened anew.
    Handle,
    /// Somebody with a newer version of the code has upgraded the store: there is nothing to try again.
    TooNew,
    /// Anything else: tried again later.
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
