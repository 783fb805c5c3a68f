//! Ending transactions at once.
//!
//! A transaction ends by itself once the page has heard of its last request, which a page that stands still does not: it
//! would keep every other tab waiting. `commit()` ends it without the page. The standard has it write nothing where a
//! request fails; Firefox then writes the other requests of the transaction all the same, if the last of them does not
//! fail: a fence would fence nothing, and half a batch be written. So whether a browser keeps to it is tried, once for each page, before it is
//! relied on; where it does not, transactions end by themselves.

use std::cell::Cell;

use js_sys::Uint8Array;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::{JsFuture, spawn_local};
use web_sys::{IdbDatabase, IdbTransaction, IdbTransactionMode};

use super::records::HEADER_TABLE;
use super::store::IdbStore;
use crate::store::Durability;
use crate::web::promise::Deferred;

/// The record of the trial, which never stays: a key that is neither the header's nor a fence's.
const TRIAL: &str = "trial";

thread_local! {
    static IS_WHOLE: Cell<Option<bool>> = const { Cell::new(None) };
}

/// Ends a transaction that only reads.
#[allow(deprecated)] // in web-sys alone, which read an old draft; the standard and the browsers keep it
pub(super) fn end_reading(transaction: &IdbTransaction) {
    // Where it fails, the transaction is on its way out.
    let _ = transaction.commit();
}

/// Whether a browser that was told to end a transaction writes all of it or nothing.
pub(super) fn is_whole() -> bool {
    IS_WHOLE.get() == Some(true)
}

/// Ends a transaction that writes, where that is known to write all of it or nothing.
pub(super) fn end_writing(transaction: &IdbTransaction) {
    if is_whole() {
        end_reading(transaction);
    }
}

/// Waits for a transaction's end: whether it was written, or given up for a key that was taken; `None` where it failed
/// otherwise.
async fn is_written(transaction: &IdbTransaction) -> Option<bool> {
    let done = Deferred::new();
    transaction.set_oncomplete(Some(&done.resolve));
    transaction.set_onabort(Some(&done.reject));
    match JsFuture::from(done.promise).await {
        Ok(_) => Some(true),
        Err(_) => transaction.error().filter(|error| error.name() == "ConstraintError").map(|_| false),
    }
}

/// Finds out what [`end_writing`] relies on, by a transaction that must fail. Before it is known, nothing is relied on.
pub(super) async fn learn(store: &IdbStore) {
    try_out(|| store.begin(&[HEADER_TABLE], "readwrite", Durability::Relaxed).ok()).await;
}

/// The same of a database that is being opened, while other things are waited for.
pub(super) fn learn_ahead(database: &IdbDatabase) {
    let database = database.clone();
    let mode = IdbTransactionMode::Readwrite;
    spawn_local(try_out(move || database.transaction_with_str_and_mode(HEADER_TABLE, mode).ok()));
}

async fn try_out(begin: impl Fn() -> Option<IdbTransaction>) {
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
    // The second one fails, for the key is taken, and the third would not: Firefox goes by the last one alone.
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
