//! The outcome of an operation, and the faults of one.
// A fault is as large as the information that the session needs. Refusals are rare.
#![allow(clippy::result_large_err)]

use escale::codec::Fault;
use escale::model::schema::Class;
use escale::model::{Pk, Value};
use escale::{Code, Error, Result};

use crate::engine::records::record::Properties;

/// The outcome of an operation: a value for the session, or the fault that refuses it. A fault of kind C, O
/// or X is not stored, and the session sends the operation again; for C and X, up to `TRIES_MAX`
/// times.
pub type Ran = std::result::Result<Option<Value>, Fault>;

/// The phase of a fault that arose while the operation ran.
pub(in crate::engine) const WORKING: u8 = 1;

/// Codes about a session's order. The faults of an operation itself may not carry them.
const RESERVED: [Code; 4] = [Code::SessionReused, Code::OrderGap, Code::OrderHeld, Code::Forgotten];

/// The fault of a function of the application, which may give any code but those about a session's order.
pub(in crate::engine) fn own_fault(name: &str, fault: Fault) -> Fault {
    match Code::parse(&fault.code) {
        Some(code) if RESERVED.contains(&code) => {
            tracing::error!(
                name,
                code = fault.code,
                "an operation's fault has a code that is not its to give"
            );
            Fault { phase: WORKING, ..Fault::new(Code::Internal, "the operation failed") }
        }
        // It did start, even if the fault was made with an earlier phase.
        _ => Fault { phase: fault.phase.max(WORKING), ..fault },
    }
}

/// The pk and the key properties of a key.
pub(in crate::engine) fn key_map(class: &Class, key: &[&str]) -> Result<(Pk, Properties)> {
    let pk = class.pk_of(key)?;
    let map = class.key().iter().zip(key).map(|(name, part)| (name.as_str().to_owned(), Value::from(*part)));
    Ok((pk, map.collect()))
}

/// The fault for an error that arose while the operation ran.
pub(in crate::engine) fn working(error: Error) -> Fault {
    fault_of(&error, WORKING)
}

/// The fault for an error. Details of internal errors go to the log, not to the caller; the session retries.
pub(in crate::engine) fn fault_of(error: &Error, phase: u8) -> Fault {
    let fault = match error.code() {
        // The service is closed until there is room again. The operation itself is not at fault.
        Code::StorageFull => {
            tracing::error!(%error, "an operation finds no room");
            Fault::new(Code::Unavailable, "the server has no room left; its log says more")
        }
        Code::Internal | Code::StorageFailed => {
            tracing::error!(%error, "an operation failed");
            Fault::new(Code::ServerError, "the server failed; its log says more")
        }
        _ => Fault::from(error),
    };
    Fault { phase, ..fault }
}
