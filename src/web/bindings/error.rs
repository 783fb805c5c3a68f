//! Errors as they cross.

use serde::Serialize;
use wasm_bindgen::prelude::*;

use crate::error::{Code, Error};

/// An error in the shape of `CoreError`.
#[derive(Serialize)]
pub(super) struct ErrorJson {
    code: &'static str,
    kind: crate::error::Kind,
    retryable: bool,
    message: String,
    cure: &'static str,
}

impl From<&Error> for ErrorJson {
    fn from(error: &Error) -> Self {
        let code = error.code();
        ErrorJson {
            code: code.as_str(),
            kind: code.kind(),
            retryable: code.is_retryable(),
            message: error.detail().to_owned(),
            cure: code.cure(),
        }
    }
}

/// What is thrown.
pub(super) fn thrown(error: Error) -> JsValue {
    serde_wasm_bindgen::to_value(&ErrorJson::from(&error)).unwrap_or(JsValue::NULL)
}

/// Every code with its kind and cure, as JSON.
#[wasm_bindgen]
pub fn error_codes() -> String {
    #[derive(Serialize)]
    struct CodeJson {
        code: &'static str,
        kind: crate::error::Kind,
        retryable: bool,
        cure: &'static str,
    }
    let json = |code: &Code| CodeJson {
        code: code.as_str(),
        kind: code.kind(),
        retryable: code.is_retryable(),
        cure: code.cure(),
    };
    serde_json::to_string(&Code::ALL.iter().map(json).collect::<Vec<_>>()).unwrap_or_default()
}

/// The package's version.
#[wasm_bindgen]
pub fn version() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}
