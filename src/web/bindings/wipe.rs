//! Wipes a store that no session has open.

use js_sys::Promise;
use wasm_bindgen::prelude::*;

use super::error::promise_of;
use crate::crypto::store_name;
use crate::web::idb::IdbDevice;

/// Deletes everything on the device for an org and account. It reads no records, so neither a forgotten
/// passphrase nor damage prevents it. A store that a session has open is left as it is.
#[wasm_bindgen]
pub fn wipe(org: String, account: String) -> Promise {
    promise_of(Box::pin(async move {
        IdbDevice::new().delete_unused(&store_name(&org, &account)).await.map(|()| JsValue::UNDEFINED)
    }))
}
