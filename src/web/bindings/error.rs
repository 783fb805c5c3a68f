//! Errors in the form that JavaScript gets.

use serde::Serialize;
use wasm_bindgen::prelude::*;

use crate::codec::Presence::Required;
use crate::codec::{Encode, Writer};
use crate::error::Error;

/// An error in the shape of `CoreError`.
#[derive(Serialize)]
pub(super) struct ErrorJson {
    code: String,
    kind: crate::error::Kind,
    retryable: bool,
    message: String,
    cure: &'static str,
}

impl Encode for ErrorJson {
    fn encode(&self, out: &mut Writer) {
        out.record(&[
            ("code", Required, &self.code),
            ("kind", Required, &self.kind),
            ("retryable", Required, &self.retryable),
            ("message", Required, &self.message),
            ("cure", Required, &self.cure),
        ]);
    }
}

impl From<&Error> for ErrorJson {
    fn from(error: &Error) -> Self {
        let code = error.code();
        ErrorJson {
            code: error.name().to_owned(),
            kind: error.kind(),
            retryable: error.kind().is_retryable(),
            message: error.detail().to_owned(),
            cure: code.cure(),
        }
    }
}

/// The value that JavaScript gets thrown.
pub(super) fn thrown(error: Error) -> JsValue {
    serde_wasm_bindgen::to_value(&ErrorJson::from(&error)).unwrap_or(JsValue::NULL)
}
