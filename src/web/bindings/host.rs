//! The application's host object: the core calls its functions to report and to request a token.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use js_sys::{Array, Function, Promise, Uint8Array, Uint32Array};
use wasm_bindgen::prelude::*;

use super::error::ErrorJson;
use super::status::status_json;
use crate::codec::Presence::{Optional, Required};
use crate::codec::{Encode, Writer, write_json};
use crate::crypto::DerivedKey;
use crate::error::{Code, Error, Result};
use crate::journal::Signal;
use crate::web::driver::{Driver, Host, News};
use crate::web::platform::global::method;
use crate::web::tabs::signals::word_of;

/// The host object that was passed to `open`.
pub(super) struct JsHost {
    object: JsValue,
    changed: Function,
    status: Function,
    token: Function,
    operation: Function,
    driver: Rc<RefCell<Weak<Driver>>>,
}

impl JsHost {
    /// Wraps the host object. `driver` is empty until the driver exists.
    pub(super) fn new(object: JsValue, driver: Rc<RefCell<Weak<Driver>>>) -> Result<Self> {
        let get = |name: &str| {
            method(&object, name)
                .ok_or_else(|| Error::new(Code::BadOption, format!("the host lacks `{name}`")))
        };
        let (changed, status, token) = (get("changed")?, get("status")?, get("token")?);
        let operation = get("operation")?;
        Ok(JsHost { object, changed, status, token, operation, driver })
    }
}

impl Host for JsHost {
    fn derived(&self, x: &DerivedKey) {
        if let Some(derived) = method(&self.object, "derived") {
            let _ = derived.call1(&self.object, &Uint8Array::from(x.as_bytes().as_slice()));
        }
    }

    fn files(&self, needed: &[String]) {
        if let Some(files) = method(&self.object, "files") {
            let _ = files.call1(&self.object, &texts(needed));
        }
    }

    fn changed(&self, defs: &[String], gone: &[u32]) {
        let defs = texts(defs);
        // An exception of the host's callback is the host's own to report.
        let _ = self.changed.call2(&self.object, &defs, &Uint32Array::from(gone));
    }

    fn status(&self) {
        let Some(driver) = self.driver.borrow().upgrade() else { return };
        let Ok(json) = driver.with(|machine| status_json(&machine.status())) else { return };
        let _ = self.status.call1(&self.object, &JsValue::from_str(&json));
    }

    fn closed(&self, signal: Signal) {
        let json = ["\"", word_of(signal), "\""].concat();
        let _ = self.status.call1(&self.object, &JsValue::from_str(&json));
    }

    fn operation(&self, news: &News<'_>) {
        let json = write_json(&NewsJson(news)).unwrap_or_default();
        let _ = self.operation.call1(&self.object, &JsValue::from_str(&json));
    }

    fn token(&self, refused: bool) -> Promise {
        match self.token.call1(&self.object, &JsValue::from_bool(refused)) {
            Ok(token) => Promise::resolve(&token),
            Err(exception) => Promise::reject(&exception),
        }
    }
}

pub(super) fn texts(texts: &[String]) -> Array {
    texts.iter().map(|text| JsValue::from_str(text)).collect()
}

/// An event of an operation, in the form that JavaScript gets.
struct NewsJson<'a>(&'a News<'a>);

impl Encode for NewsJson<'_> {
    fn encode(&self, out: &mut Writer) {
        match *self.0 {
            News::Saved { id, on_device } => {
                let saved_in = if on_device { "device" } else { "memory" };
                out.record(&[
                    ("kind", Required, &"saved"),
                    ("id", Required, &id),
                    ("where", Required, &saved_in),
                ]);
            }
            News::Accepted { id, v, value } => out.record(&[
                ("kind", Required, &"accepted"),
                ("id", Required, &id),
                ("v", Required, &v),
                ("value", Optional, &value),
            ]),
            News::Failed { id, error } => failure("failed", id, error, out),
            News::Refused { id, error } => failure("refused", id, error, out),
            News::Amended { id, by } => {
                out.record(&[("kind", Required, &"amended"), ("id", Required, &id), ("by", Required, &by)]);
            }
        }
    }
}

fn failure(kind: &str, id: &str, error: &Error, out: &mut Writer) {
    let error = ErrorJson::from(error);
    out.record(&[("kind", Required, &kind), ("id", Required, &id), ("error", Required, &error)]);
}
