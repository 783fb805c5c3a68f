//! Bytes that JavaScript gives.

use js_sys::{ArrayBuffer, Reflect, Uint8Array};
use wasm_bindgen::{JsCast, JsValue};

/// The bytes of an `ArrayBuffer` or a `Uint8Array`; `None` for any other value.
///
/// `instanceof` knows the classes of this realm only. Under jsdom, and between frames, values come from another one.
pub fn bytes_of(value: &JsValue) -> Option<Uint8Array> {
    if let Some(bytes) = value.dyn_ref::<Uint8Array>() {
        return Some(bytes.clone());
    }
    // An object that holds no bytes gives none, and has another length than it says.
    let length = Reflect::get(value, &"byteLength".into()).ok()?.as_f64()? as u32;
    let bytes = Uint8Array::new(value);
    let is_empty_buffer = || ArrayBuffer::is_view(value) || value.is_instance_of::<ArrayBuffer>();
    (bytes.length() == length && (length > 0 || is_empty_buffer())).then_some(bytes)
}
