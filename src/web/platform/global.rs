//! The globals that the environment offers, looked up when they are needed. A page, a worker and Node differ
//! in the globals that they have, and naming a missing one throws.

use js_sys::{Function, Reflect};
use wasm_bindgen::{JsCast, JsValue};

use crate::error::{Code, Result, fail};

/// The property of that name, unless it is missing or null, or reading it throws.
pub(crate) fn property(object: &JsValue, name: &str) -> Option<JsValue> {
    let value = Reflect::get(object, &JsValue::from_str(name)).ok()?;
    (!value.is_undefined() && !value.is_null()).then_some(value)
}

/// The method of that name, if there is one.
pub(crate) fn method(object: &JsValue, name: &str) -> Option<Function> {
    property(object, name)?.dyn_into().ok()
}

/// The global of that name, if there is one.
pub(crate) fn global(name: &str) -> Option<JsValue> {
    property(&js_sys::global(), name)
}

/// The name of an exception (`QuotaExceededError`, `TypeError`...), never its message: a message could repeat
/// data of the application.
pub(crate) fn exception_name(exception: &JsValue) -> String {
    match property(exception, "name").and_then(|name| name.as_string()) {
        Some(name) if !name.is_empty() => name.chars().take(64).collect(),
        _ => "an unnamed exception".to_owned(),
    }
}

/// `crypto.subtle`, which browsers give to secure contexts alone.
pub(crate) fn subtle() -> Option<JsValue> {
    property(&global("crypto")?, "subtle")
}

/// Error: `insecure_context` if nothing could be encrypted here: a page served over plain http by another
/// machine.
pub fn require_secure_context() -> Result<()> {
    match subtle() {
        Some(_) => Ok(()),
        None => fail(Code::InsecureContext, "crypto.subtle is missing: this is not a secure context"),
    }
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::*;

    #[wasm_bindgen_test]
    fn the_tests_run_in_a_secure_context() {
        require_secure_context().expect("localhost is one");
    }

    #[wasm_bindgen_test]
    fn what_is_missing_is_none_and_an_exception_shows_its_name_alone() {
        assert!(global("noSuchThing").is_none());
        assert!(property(&JsValue::UNDEFINED, "x").is_none(), "reading from undefined throws");
        let error = js_sys::TypeError::new("a secret");
        assert_eq!(exception_name(&error), "TypeError");
        assert_eq!(exception_name(&JsValue::from_str("a secret")), "an unnamed exception");
    }
}
