//! Converts records and keys between the core's types and IndexedDB's.

use js_sys::{Array, Uint8Array};
use wasm_bindgen::JsValue;
use web_sys::IdbKeyRange;

use crate::store::RecordKey;
use crate::web::platform::bytes::bytes_of;

/// The object store of the header, which is the one record of its table.
pub(super) const HEADER_TABLE: &str = "h";

/// The key of the header.
pub(super) fn header_key() -> JsValue {
    JsValue::from(0)
}

/// A binary key. IndexedDB compares such keys as unsigned bytes, as [`RecordKey`] does.
pub(super) fn to_key(key: &RecordKey) -> JsValue {
    Uint8Array::from(key.0.as_slice()).into()
}

/// The key of a record, unless other code wrote it.
pub(super) fn from_key(key: &JsValue) -> Option<RecordKey> {
    let bytes = bytes_of(key)?;
    let mut key = [0; 16];
    (bytes.length() == 16).then(|| {
        bytes.copy_to(&mut key);
        RecordKey(key)
    })
}

/// The bytes of a record. A value of another type, which other code must have written, reads as no bytes at
/// all. No seal opens that, so the core handles it as damage.
pub(super) fn from_value(value: &JsValue) -> Vec<u8> {
    bytes_of(value).map(|bytes| bytes.to_vec()).unwrap_or_default()
}

/// The result of a read by key: the bytes of the record, if there is one.
pub(super) fn record_of(value: &JsValue) -> Option<Vec<u8>> {
    (!value.is_undefined()).then(|| from_value(value))
}

/// All binary keys after that one; without one, all of them.
pub(super) fn range_after(after: Option<&JsValue>) -> Result<IdbKeyRange, JsValue> {
    // No record has the empty key, and fake-indexeddb, with which applications test, refuses it as a bound.
    let first: JsValue = Uint8Array::new_with_length(1).into();
    // IndexedDB orders every array key after every binary key.
    let end = Array::new();
    IdbKeyRange::bound_with_lower_open_and_upper_open(after.unwrap_or(&first), &end, after.is_some(), true)
}
