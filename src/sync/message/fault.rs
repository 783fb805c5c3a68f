//! The errors that faults of the server mean.

use crate::codec::Fault;
use crate::error::{Code, Error, Kind};
use crate::limits::NAME_CHARS_MAX;

/// The error for a fault. A code that this version does not know is the server's own code if the application
/// handles it (kinds A, N, S). For other kinds, the session acts by the kind.
pub fn error_of(fault: &Fault) -> Error {
    let detail: String = fault.message.chars().take(500).collect();
    match (Code::parse(&fault.code), fault.kind) {
        (Some(code), _) => Error::new(code, detail),
        (None, kind @ (Kind::A | Kind::N | Kind::S)) if !fault.code.is_empty() => {
            let own: String = fault.code.chars().take(NAME_CHARS_MAX).collect();
            Error::new(Code::ServerRefused, detail).named(&own, kind)
        }
        (None, Kind::C) => Error::new(Code::Contention, detail),
        (None, Kind::O) => Error::new(Code::Unavailable, detail),
        (None, Kind::D) => Error::new(Code::WrongProtocol, detail),
        (None, _) => Error::new(Code::ServerError, detail),
    }
}

/// The error that an outcome describes.
pub fn error_of_outcome(code: &str, detail: &str) -> Error {
    Error::new(Code::parse(code).unwrap_or(Code::Internal), detail)
}
