//! Turns the browser's exceptions into named errors; no other module knows them. `crate::store::Failure`
//! decides how to react to each kind. Only the exception's name is kept: its message may repeat keys.

use wasm_bindgen::JsValue;
use web_sys::IdbTransaction;

use crate::error::{Code, Error};
use crate::web::platform::global::{exception_name, property};

/// The error that an exception means for the store. The argument `what` names the action that failed.
pub(super) fn of_exception(what: &str, exception: &JsValue) -> Error {
    let message = property(exception, "message").and_then(|message| message.as_string()).unwrap_or_default();
    // Safari gives some of these exceptions no name of their own.
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
        // Only fences are written with `add`; all other records are put.
        "ConstraintError" => Code::Deposed,
        // The connection was closed under us, which Firefox also reports after a full disk. Or the browser's
        // own storage failed. The handle can no longer be used.
        "InvalidStateError" | "UnknownError" => Code::StorageClosed,
        _ => Code::StorageFailed,
    };
    Error::new(code, format!("{what}: {name}"))
}

/// Why a request failed, from its `error` event. If the browser gave no event, from the exception itself.
pub(super) fn of_event(what: &str, event: &JsValue) -> Error {
    let exception = property(event, "target").and_then(|request| property(&request, "error"));
    of_exception(what, exception.as_ref().unwrap_or(event))
}

/// Why a transaction failed, from its `error` or `abort` event. The transaction's own reason comes first. A
/// full disk aborts it with a reason and without a failed request. And all requests of an aborted transaction
/// fail with `AbortError`, which says nothing.
pub(super) fn of_transaction(what: &str, transaction: &IdbTransaction, event: &JsValue) -> Error {
    match transaction.error() {
        Some(exception) => of_exception(what, &exception),
        None => of_event(what, event),
    }
}
