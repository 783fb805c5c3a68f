//! The browser's exceptions to named errors: the one place that knows them; what to do about each kind is decided by
//! `crate::store::Failure`. Only the exception's name crosses: its message may repeat keys.

use wasm_bindgen::JsValue;
use web_sys::IdbTransaction;

use crate::error::{Code, Error};
use crate::web::global::{exception_name, property};

/// What the exception means for the store; `what` says what was being done.
pub(super) fn of_exception(what: &str, exception: &JsValue) -> Error {
    let message = property(exception, "message").and_then(|message| message.as_string()).unwrap_or_default();
    // Safari gives some of these without a name of their own.
    if ["Indexed Database server lost", "in-progress transaction", "backing store"]
        .iter()
        .any(|known| message.contains(known))
    {
        return of_name(what, "UnknownError");
    }
    of_name(what, &exception_name(exception))
}

/// As [`of_exception`], for the name of an exception.
pub(super) fn of_name(what: &str, name: &str) -> Error {
    let code = match name {
        "QuotaExceededError" => Code::StorageFull,
        "VersionError" => Code::StoreTooNew,
        // Only fences are added; all else is put.
        "ConstraintError" => Code::Deposed,
        // The connection was closed under us (Firefox says so too once it has met a full disk), or the browser's own
        // storage failed: the handle is of no use any more.
        "InvalidStateError" | "UnknownError" => Code::StorageClosed,
        _ => Code::StorageFailed,
    };
    Error::new(code, format!("{what}: {name}"))
}

/// Why a request failed, from its `error` event (or, where the browser gave none, from the exception itself).
pub(super) fn of_event(what: &str, event: &JsValue) -> Error {
    let exception = property(event, "target").and_then(|request| property(&request, "error"));
    of_exception(what, exception.as_ref().unwrap_or(event))
}

/// Why a transaction failed, from its `error` or `abort` event. The transaction's own reason comes first: a full
/// disk aborts with a reason and no failed request, and the requests of an aborted transaction all fail with
/// `AbortError`, which tells nothing.
pub(super) fn of_transaction(what: &str, transaction: &IdbTransaction, event: &JsValue) -> Error {
    match transaction.error() {
        Some(exception) => of_exception(what, &exception),
        None => of_event(what, event),
    }
}
