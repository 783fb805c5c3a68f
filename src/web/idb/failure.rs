//! The browser's exceptions to named errors. Only the exception's name crosses: its message may repeat keys.

use wasm_bindgen::JsValue;
use web_sys::IdbTransaction;

use crate::error::{Code, Error};
use crate::web::global::{exception_name, property};

/// What the exception means for the store; `what` says what was being done.
pub(super) fn of_exception(what: &str, exception: &JsValue) -> Error {
    of_name(what, &exception_name(exception))
}

/// As [`of_exception`], for the name of an exception.
pub(super) fn of_name(what: &str, name: &str) -> Error {
    let code = match name {
        "QuotaExceededError" => Code::StorageFull,
        "VersionError" => Code::StoreTooNew,
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
