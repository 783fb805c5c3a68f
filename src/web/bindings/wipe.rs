//! Wipes a store that no session has open.

use wasm_bindgen::prelude::*;

use super::error::thrown;
use crate::crypto::store_name;
use crate::web::idb::IdbDevice;

/// Deletes everything on the device for an org and account. It reads no records, so neither a forgotten
/// passphrase nor damage prevents it. A store that a session has open is left as it is.
#[wasm_bindgen]
pub async fn wipe(org: String, account: String) -> Result<(), JsValue> {
    IdbDevice::new().delete_unused(&store_name(&org, &account)).await.map_err(thrown)
}
