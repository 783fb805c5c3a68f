//! Commits transactions explicitly, so that a frozen page leaves none open.
//!
//! By itself, a transaction ends once the page has received the event of its last request. A frozen page does
//! not receive it, and would make every other tab wait. `commit()` ends the transaction without the page.
//!
//! The standard says that such a transaction writes nothing if a request fails. Firefox then writes the other
//! requests all the same, if the last one does not fail. A fence would then protect nothing, and half a batch
//! could be written. So each page tests the browser once, before it relies on `commit()`. If the test fails,
//! transactions that write end by themselves.

use std::cell::Cell;

use js_sys::Uint8Array;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::spawn_local;
use web_sys::{IdbDatabase, IdbTransaction, IdbTransactionMode};

use super::records::HEADER_TABLE;
use crate::web::platform::patience::{SILENT_MS, answer};
use crate::web::platform::promise::Deferred;

/// The key of the test's record, which never stays. It is neither the header's key nor a fence's.
const TRIAL: &str = "trial";

thread_local! {
    /// The result of the test, once known: whether an explicit commit writes everything or nothing.
    static IS_WHOLE: Cell<Option<bool>> = const { Cell::new(None) };
}

/// Ends a transaction that only reads.
#[allow(deprecated)] // in web-sys alone, which read an old draft; the standard and the browsers keep it
pub(super) fn end_reading(transaction: &IdbTransaction) {
    // If this throws, the transaction is already ending.
    let _ = transaction.commit();
}

/// Whether an explicitly committed transaction is known to write everything or nothing.
pub(super) fn is_whole() -> bool {
    IS_WHOLE.get() == Some(true)
}

/// Ends a transaction that writes, if it is known to write everything or nothing.
pub(super) fn end_writing(transaction: &IdbTransaction) {
    if is_whole() {
        end_reading(transaction);
    }
}

/// Waits for a transaction's end: true if it was written, false if it was aborted because a key was taken,
/// `None` if it failed otherwise, or gives no answer.
async fn is_written(transaction: &IdbTransaction) -> Option<bool> {
    let done = Deferred::new();
    transaction.set_oncomplete(Some(&done.resolve));
    transaction.set_onabort(Some(&done.reject));
    match answer(SILENT_MS, &done.promise).await {
        Ok(event) => event.map(|_| true),
        Err(_) => transaction.error().filter(|error| error.name() == "ConstraintError").map(|_| false),
    }
}

/// The same test on a database that is being opened, while the caller waits for other things.
pub(super) fn learn_ahead(database: &IdbDatabase) {
    let database = database.clone();
    let mode = IdbTransactionMode::Readwrite;
    spawn_local(learn(move || database.transaction_with_str_and_mode(HEADER_TABLE, mode).ok()));
}

/// Runs the test that [`end_writing`] relies on, with a transaction that must fail. Until it is over, nothing
/// is relied on. `begin` begins a transaction that writes to the header's table.
pub(super) async fn learn(begin: impl Fn() -> Option<IdbTransaction>) {
    if IS_WHOLE.get().is_some() {
        return;
    }
    let trial = JsValue::from_str(TRIAL);
    let begin = || {
        let transaction = begin()?;
        let table = transaction.object_store(HEADER_TABLE).ok()?;
        Some((transaction, table))
    };
    let Some((transaction, table)) = begin() else { return };
    let bytes = Uint8Array::new_with_length(0);
    // The second request fails, because the key is taken, and the third would succeed. Firefox looks at the
    // last one alone.
    let requests = [
        table.add_with_key(&bytes, &trial),
        table.add_with_key(&bytes, &trial),
        table.put_with_key(&bytes, &trial),
    ];
    end_reading(&transaction);
    if requests.iter().any(Result::is_err) {
        return;
    }
    let written = is_written(&transaction).await;
    IS_WHOLE.set(written.map(|written| !written));
    if written == Some(true)
        && let Some((transaction, table)) = begin()
    {
        let _ = table.delete(&trial);
        is_written(&transaction).await;
    }
}
