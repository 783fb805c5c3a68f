//! A WebSocket, through its events. `channel.rs` uses it.
//!
//! It uses web-sys, not gloo-net: gloo-net's socket sends bytes as a Blob, has no event for having opened,
//! and lets a message of any length into memory.

use std::rc::Rc;

use js_sys::{Function, JsString, Uint8Array};
use wasm_bindgen::prelude::*;
use web_sys::{BinaryType, CloseEvent, MessageEvent, WebSocket};

use crate::codec::Format;
use crate::error::{Code, Error, Result, fail};
use crate::limits::REPLY_BYTES_MAX;
use crate::web::platform::bytes::bytes_of;
use crate::web::platform::global::{exception_name, global};

/// The code of a close without a reason: the network failed, or no server listens there.
pub const CLOSED_ABNORMALLY: u16 = 1006;

/// Our code for a message that is over its bound. Its range tells our closes from the server's.
const TOO_BIG: u16 = 4413;

/// A message: binary frames are msgpack, text frames JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A binary frame.
    Binary(Vec<u8>),
    /// A text frame.
    Text(String),
}

/// The events of a socket, in this order: opened at most once, then messages, then closed once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SocketEvent {
    /// The socket can send.
    Opened,
    /// A message came.
    Message(Frame),
    /// The socket is closed, or the connection failed.
    Closed {
        /// The code; [`CLOSED_ABNORMALLY`] if none was given.
        code: u16,
        /// The reason as text; empty if none was given.
        reason: String,
    },
}

/// A WebSocket. Dropping it closes it, and no event follows.
pub struct Socket {
    raw: WebSocket,
    // Keep the callbacks alive for the browser.
    _on_open: Closure<dyn FnMut()>,
    _on_message: Closure<dyn FnMut(MessageEvent)>,
    _on_close: Closure<dyn FnMut(CloseEvent)>,
}

impl Frame {
    /// A message in that form; text must be UTF-8, as the codec writes it.
    pub fn new(format: Format, bytes: Vec<u8>) -> Result<Self> {
        match format {
            Format::Msgpack => Ok(Frame::Binary(bytes)),
            Format::Json => String::from_utf8(bytes)
                .map(Frame::Text)
                .map_err(|_| Error::new(Code::Internal, "a text frame that is not UTF-8")),
        }
    }

    /// Its form and its bytes.
    pub fn parts(&self) -> (Format, &[u8]) {
        match self {
            Frame::Binary(bytes) => (Format::Msgpack, bytes),
            Frame::Text(text) => (Format::Json, text.as_bytes()),
        }
    }
}

impl Socket {
    /// Whether the environment has WebSockets (Node has them since version 22).
    pub fn is_supported() -> bool {
        global("WebSocket").is_some()
    }

    /// Connects. Events come later, never during this call. A connection that fails is `Closed` without
    /// `Opened`.
    ///
    /// Errors: `not_supported` if there are no WebSockets. `bad_option` if the page may not open this one:
    /// because of its address, of the page's policy, or of a page over https and a socket without TLS.
    pub fn open(url: &str, on: impl Fn(SocketEvent) + 'static) -> Result<Self> {
        if !Self::is_supported() {
            return fail(
                Code::NotSupported,
                "there are no WebSockets here: changes come by regular pulls only",
            );
        }
        let raw = WebSocket::new(url).map_err(|exception| {
            let name = exception_name(&exception);
            Error::new(Code::BadOption, format!("the page may not open the server's socket: {name}"))
        })?;
        raw.set_binary_type(BinaryType::Arraybuffer);
        let on: Rc<dyn Fn(SocketEvent)> = Rc::new(on);
        let on_open = Closure::<dyn FnMut()>::new({
            let on = Rc::clone(&on);
            move || on(SocketEvent::Opened)
        });
        let on_message = Closure::<dyn FnMut(MessageEvent)>::new({
            let (on, raw) = (Rc::clone(&on), raw.clone());
            move |event: MessageEvent| match frame_of(&event.data()) {
                Some(frame) => on(SocketEvent::Message(frame)),
                None => close(&raw, TOO_BIG),
            }
        });
        let on_close = Closure::<dyn FnMut(CloseEvent)>::new(move |event: CloseEvent| {
            on(SocketEvent::Closed { code: event.code(), reason: event.reason() });
        });
        // An `error` event says nothing, and `close` follows it.
        raw.set_onopen(Some(on_open.as_ref().unchecked_ref()));
        raw.set_onmessage(Some(on_message.as_ref().unchecked_ref()));
        raw.set_onclose(Some(on_close.as_ref().unchecked_ref()));
        Ok(Socket { raw, _on_open: on_open, _on_message: on_message, _on_close: on_close })
    }

    /// Sends a message; `offline` if the socket is not open.
    pub fn send(&self, frame: &Frame) -> Result<()> {
        if self.raw.ready_state() != WebSocket::OPEN {
            return fail(Code::Offline, "the socket is not open");
        }
        let sent = match frame {
            Frame::Binary(bytes) => self.raw.send_with_js_u8_array(&Uint8Array::from(bytes.as_slice())),
            Frame::Text(text) => self.raw.send_with_str(text),
        };
        sent.map_err(|exception| {
            Error::new(Code::Offline, format!("the socket did not send: {}", exception_name(&exception)))
        })
    }

    /// Closes with that code: 1000, or 3000 to 4999. Browsers refuse other codes, and the socket then closes
    /// without one. `Closed` follows, with the code that the server answers.
    pub fn close(&self, code: u16) {
        close(&self.raw, code);
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let none: Option<&Function> = None;
        self.raw.set_onopen(none);
        self.raw.set_onmessage(none);
        self.raw.set_onclose(none);
        close(&self.raw, 1000);
    }
}

fn close(raw: &WebSocket, code: u16) {
    if raw.close_with_code(code).is_err() {
        // Without a code, closing cannot fail.
        let _ = raw.close();
    }
}

/// The message, unless it is over its bound.
fn frame_of(data: &JsValue) -> Option<Frame> {
    if let Some(bytes) = bytes_of(data) {
        (bytes.length() as usize <= REPLY_BYTES_MAX).then(|| Frame::Binary(bytes.to_vec()))
    } else {
        let text = data.dyn_ref::<JsString>()?;
        (text.length() as usize <= REPLY_BYTES_MAX).then(|| Frame::Text(String::from(text)))
    }
}

#[cfg(test)]
mod tests;
