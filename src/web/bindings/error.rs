//! Errors in the form that JavaScript gets.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use js_sys::Promise;
use serde::Serialize;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::future_to_promise;

use crate::codec::Presence::Required;
use crate::codec::{Encode, Writer};
use crate::error::{Error, Result};

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

/// The value for JavaScript. wasm-bindgen returns text and lists by way of the wasm's memory, with more glue.
pub(super) fn value(result: Result<impl Into<JsValue>>) -> std::result::Result<JsValue, JsValue> {
    result.map(Into::into).map_err(thrown)
}

/// A future that is going to be a promise. It is boxed, because each future's own type would have the code of a promise of
/// its own.
type Waiting<T> = Pin<Box<dyn Future<Output = T>>>;

/// A promise of the future's value, or of its error in the form that JavaScript gets.
pub(super) fn promise_of(future: Waiting<Result<JsValue>>) -> Promise {
    promise_or_thrown(Box::pin(async move { future.await.map_err(thrown) }))
}

/// The future's value if nothing is left to wait for, or a promise of it.
pub(super) fn value_or_promise_of(
    mut future: Waiting<Result<JsValue>>,
) -> std::result::Result<JsValue, JsValue> {
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value.map_err(thrown),
        Poll::Pending => Ok(promise_of(future).into()),
    }
}

/// A promise of a future whose error JavaScript made, or may get as it is.
pub(super) fn promise_or_thrown(future: Waiting<std::result::Result<JsValue, JsValue>>) -> Promise {
    future_to_promise(future)
}
