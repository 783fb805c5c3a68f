//! The application's side, called back.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use js_sys::{Array, Function, Promise, Uint32Array};
use wasm_bindgen::prelude::*;

use super::status::status_json;
use crate::error::{Code, Error, Result};
use crate::web::driver::{Driver, Host};
use crate::web::global::method;

/// The host object of `open`.
pub(super) struct JsHost {
    object: JsValue,
    changed: Function,
    status: Function,
    token: Function,
    driver: Rc<RefCell<Weak<Driver>>>,
}

impl JsHost {
    /// The host, if the object is one. `driver` is filled in once there is one.
    pub(super) fn new(object: JsValue, driver: Rc<RefCell<Weak<Driver>>>) -> Result<Self> {
        let get = |name: &str| {
            method(&object, name)
                .ok_or_else(|| Error::new(Code::BadOption, format!("the host lacks `{name}`")))
        };
        let (changed, status, token) = (get("changed")?, get("status")?, get("token")?);
        Ok(JsHost { object, changed, status, token, driver })
    }
}

impl Host for JsHost {
    fn changed(&self, defs: &[String], gone: &[u32]) {
        let defs: Array = defs.iter().map(|def| JsValue::from_str(def)).collect();
        // What the host throws is its own to report.
        let _ = self.changed.call2(&self.object, &defs, &Uint32Array::from(gone));
    }

    fn status(&self) {
        let driver = self.driver.borrow().upgrade();
        if let Some(json) =
            driver.and_then(|driver| driver.with(|machine| status_json(&machine.status())).ok())
        {
            let _ = self.status.call1(&self.object, &JsValue::from_str(&json));
        }
    }

    fn token(&self, refused: bool) -> Promise {
        match self.token.call1(&self.object, &JsValue::from_bool(refused)) {
            Ok(token) => Promise::resolve(&token),
            Err(exception) => Promise::reject(&exception),
        }
    }
}
