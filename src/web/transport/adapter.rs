//! A server reached through the application's own object, the *adapter*, which has `sync` and, perhaps,
//! `listen`.
//!
//! Its messages are judged like those of the network. They may be objects in the protocol's JSON form (in
//! which bytes may also be a `Uint8Array`), JSON text, or msgpack bytes.

use std::cell::Cell;
use std::rc::Rc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use js_sys::{Array, Function, JSON, Object, Promise, Reflect};
use wasm_bindgen::prelude::*;

use super::http::retry_after_seconds;
use super::reply::{checked, is_of_the_wire, of_status};
use crate::codec::{Decode, Format, ServerFrame, SyncReply, SyncRequest, decode, encode};
use crate::error::{Code, Error, Result, fail};
use crate::limits::{REPLY_BYTES_MAX, line_ms};
use crate::model::Def;
use crate::sync::Refusal;
use crate::web::platform::bytes::bytes_of;
use crate::web::platform::global::{exception_name, method, property};
use crate::web::platform::patience::within;

/// An application's adapter.
pub struct Adapter {
    object: JsValue,
    sync: Function,
    listen: Option<Function>,
}

/// A call of the adapter's `listen` that is in force. Dropping it stops the listening; no frame follows.
pub struct Listening {
    active: Rc<Cell<bool>>,
    stop: Option<Function>,
}

impl Adapter {
    /// Wraps an adapter object. Error: `bad_option` if the object is none.
    pub fn new(object: JsValue) -> Result<Self> {
        let Some(sync) = method(&object, "sync") else {
            return fail(Code::BadOption, "`server` is an adapter without a function `sync`");
        };
        let listen = match property(&object, "listen") {
            None => None,
            Some(listen) => match listen.dyn_into() {
                Ok(listen) => Some(listen),
                Err(_) => return fail(Code::BadOption, "`listen` of the adapter is not a function"),
            },
        };
        Ok(Adapter { object, sync, listen })
    }

    /// Whether the adapter can listen for changes.
    pub fn can_listen(&self) -> bool {
        self.listen.is_some()
    }

    /// Sends a request. A rejection is understood by its `code`, else by its `status` (of HTTP), with
    /// `retryAfter` in seconds. Any other rejection counts as no network. `timeout` if there is no answer
    /// within `timeout_ms` and the time of the request's bytes.
    pub async fn sync(
        &self,
        request: &SyncRequest,
        timeout_ms: u64,
    ) -> std::result::Result<SyncReply, Refusal> {
        let (request, bytes) = to_object(request)?;
        let answer = self.sync.call1(&self.object, &request).map_err(|e| of_rejection(&e))?;
        // `Promise.resolve` accepts values, promises and every object that has a `then`.
        match within(timeout_ms + line_ms(bytes), &Promise::resolve(&answer)).await {
            Ok(None) => Err(Error::new(Code::Timeout, "the adapter gave no answer").into()),
            Ok(Some(answer)) => checked(read(&answer)),
            Err(exception) => Err(of_rejection(&exception)),
        }
    }

    /// Listens for changes of these defs; `None` if the adapter cannot. `on` gets every frame, or the error
    /// of a frame that cannot be read.
    pub fn listen(
        &self,
        defs: &[Def],
        on: impl Fn(Result<ServerFrame>) + 'static,
    ) -> std::result::Result<Option<Listening>, Refusal> {
        let Some(listen) = &self.listen else { return Ok(None) };
        let active = Rc::new(Cell::new(true));
        let callback = Closure::<dyn Fn(JsValue)>::new({
            let active = Rc::clone(&active);
            move |frame: JsValue| {
                if active.get() {
                    on(read(&frame).and_then(checked_frame));
                }
            }
        });
        let defs: Array = defs.iter().map(|def| JsValue::from_str(&def.to_string())).collect();
        // The adapter may keep the callback longer than we keep the `Listening`. The engine frees it with the
        // adapter's last reference to it.
        let stop =
            listen.call2(&self.object, &defs, &callback.into_js_value()).map_err(|e| of_rejection(&e))?;
        Ok(Some(Listening { active, stop: stop.dyn_into().ok() }))
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.active.set(false);
        if let Some(stop) = &self.stop {
            // An adapter that fails to stop is ignored from now on all the same.
            let _ = stop.call0(&JsValue::UNDEFINED);
        }
    }
}

/// The message as a plain object, in the protocol's JSON form.
fn to_object(request: &SyncRequest) -> Result<(JsValue, usize)> {
    let internal = |_| Error::new(Code::Internal, "a request that is no JSON");
    let text = String::from_utf8(encode(Format::Json, request)?).map_err(|_| internal(JsValue::NULL))?;
    Ok((JSON::parse(&text).map_err(internal)?, text.len()))
}

/// Reads a message in any of the three forms.
fn read<T: Decode>(message: &JsValue) -> Result<T> {
    if let Some(text) = message.as_string() {
        return decode(Format::Json, text.as_bytes(), REPLY_BYTES_MAX).map_err(of_adapter);
    }
    if let Some(bytes) = bytes_of(message) {
        if bytes.length() as usize > REPLY_BYTES_MAX {
            return fail(Code::TooLarge, "the adapter's message is over its bound");
        }
        return decode(Format::Msgpack, &bytes.to_vec(), REPLY_BYTES_MAX).map_err(of_adapter);
    }
    if !message.is_object() {
        return fail(Code::Malformed, "the adapter gave neither an object, nor text, nor bytes");
    }
    let text = to_json(message)?;
    decode(Format::Json, text.as_bytes(), REPLY_BYTES_MAX).map_err(of_adapter)
}

fn of_adapter(error: Error) -> Error {
    error.at("the adapter's message")
}

/// The JSON text of an object. `JSON.stringify` makes it, not a walk from here: cycles, getters that throw
/// and numbers of the wrong type then end in an exception that can be caught. And the decoder that bounds the
/// network's messages bounds these too.
fn to_json(object: &JsValue) -> Result<String> {
    let replacer = Closure::<dyn Fn(JsValue, JsValue) -> std::result::Result<JsValue, JsValue>>::new(
        |_key: JsValue, value: JsValue| {
            if let Some(number) = value.as_f64() {
                // JSON would silently make it null.
                return if number.is_finite() { Ok(value) } else { Err(JsValue::from_str("not finite")) };
            }
            match bytes_of(&value) {
                Some(bytes) => {
                    let escaped = Object::new();
                    let text = URL_SAFE_NO_PAD.encode(bytes.to_vec());
                    Reflect::set(&escaped, &"$bytes".into(), &text.into())?;
                    Ok(escaped.into())
                }
                None => Ok(value),
            }
        },
    );
    let function: &Function = replacer.as_ref().unchecked_ref();
    let text = JSON::stringify_with_replacer(object, function)
        .map_err(|_| Error::new(Code::Malformed, "the adapter's object cannot be read as JSON"))?;
    // `undefined` if the object's own `toJSON` gives nothing.
    JsValue::from(text)
        .as_string()
        .ok_or_else(|| Error::new(Code::Malformed, "the adapter's object is no message"))
}

fn checked_frame(frame: ServerFrame) -> Result<ServerFrame> {
    if let ServerFrame::Parts(parts) = &frame {
        parts.check()?;
    }
    Ok(frame)
}

/// The refusal that a rejection stands for. The exception's message is left out: it may repeat the
/// application's data.
fn of_rejection(exception: &JsValue) -> Refusal {
    let number = |name| property(exception, name).and_then(|value| value.as_f64());
    let code = property(exception, "code").and_then(|code| code.as_string());
    let code = code.and_then(|code| Code::parse(&code)).filter(|code| is_of_the_wire(*code));
    let status =
        number("status").filter(|status| (400.0..600.0).contains(status)).map(|status| status as u16);
    let error = match (code, status) {
        (Some(code), _) => Error::new(code, "the adapter said so"),
        // A 404 of HTTP may mean an unknown path or an unknown org. From an adapter it means the org.
        (None, Some(404)) => Error::new(Code::UnknownOrg, "the adapter's server answered 404"),
        (None, Some(status)) => of_status(status, None, "an adapter's rejection"),
        (None, None) => {
            Error::new(Code::Offline, format!("the adapter failed with {}", exception_name(exception)))
        }
    };
    Refusal { error, retry_after_ms: number("retryAfter").and_then(retry_after_seconds) }
}

#[cfg(test)]
mod tests;
