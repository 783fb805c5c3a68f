//! Requests over HTTP, with gloo-net. The answer's body is read piece by piece, so that no answer can fill
//! the memory.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use gloo_net::http::{Request, Response};
use js_sys::{Promise, Uint8Array};
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{
    AbortController, ReadableStreamDefaultReader, ReferrerPolicy, RequestCredentials, RequestRedirect,
};

use crate::codec::Format;
use crate::error::{Code, Error, Result, fail};
use crate::limits::REPLY_BYTES_MAX;
use crate::web::platform::bytes::bytes_of;
use crate::web::platform::clock::{now_ms, parse_date_ms};
use crate::web::platform::global::property;
use crate::web::platform::timers::Timer;

/// The longest wait that a server can ask for. A longer one is a mistake, or the device's clock is wrong.
const RETRY_AFTER_MS_MAX: u64 = 60 * 60_000;

/// A request to send.
pub struct Post<'a> {
    /// The address.
    pub url: &'a str,
    /// The bearer token, on servers that ask for one.
    pub token: Option<&'a str>,
    /// The form of the body, and of the answer that is requested.
    pub format: Format,
    /// The body.
    pub body: &'a [u8],
    /// Milliseconds of silence after which the request fails: before the answer, and between two pieces of
    /// it. So a long answer over a slow line has its time.
    pub timeout_ms: u64,
}

/// An answer with any status.
#[derive(Clone, Debug)]
pub struct HttpReply {
    /// The status.
    pub status: u16,
    /// The form of the body, if it is one of the protocol's forms.
    pub format: Option<Format>,
    /// The media type as it came, shortened; for messages.
    pub content_type: String,
    /// How long the server asks the client to wait.
    pub retry_after_ms: Option<u64>,
    /// The body.
    pub body: Vec<u8>,
}

/// Aborts a request that is under way, including its body. Clones abort the same request.
#[derive(Clone, Default)]
pub struct Abort {
    controller: Option<AbortController>,
    reason: Rc<Cell<Option<Reason>>>,
}

#[derive(Clone, Copy)]
enum Reason {
    Asked,
    Timeout,
    TooLarge,
}

impl Abort {
    /// An abort for one call of [`post`].
    pub fn new() -> Self {
        // `AbortController` is missing only in environments without fetch.
        Abort { controller: AbortController::new().ok(), reason: Rc::default() }
    }

    /// Aborts the request; the call fails with `closed`. Does nothing once the request has ended.
    pub fn abort(&self) {
        self.stop(Reason::Asked);
    }

    /// Fails with `closed` once the request is aborted: then it need not begin.
    pub(super) fn check(&self) -> Result<()> {
        if self.reason.get().is_some() { Err(self.explain("")) } else { Ok(()) }
    }

    fn stop(&self, reason: Reason) {
        if self.reason.get().is_none() {
            self.reason.set(Some(reason));
            if let Some(controller) = &self.controller {
                controller.abort();
            }
        }
    }

    /// The error of a request that broke off.
    fn explain(&self, broken: impl Into<String>) -> Error {
        match self.reason.get() {
            Some(Reason::Asked) => Error::new(Code::Closed, "the request was given up"),
            Some(Reason::Timeout) => Error::new(Code::Timeout, "the server fell silent"),
            Some(Reason::TooLarge) => {
                Error::new(Code::TooLarge, format!("an answer of more than {REPLY_BYTES_MAX} bytes"))
            }
            None => Error::new(Code::Offline, broken),
        }
    }
}

/// Sends a POST and reads the whole answer.
///
/// It sends no credentials and no referrer. No cache answers a POST, so the request does not mention caches:
/// with `no-store`, Chromium sends a preflight before each request, however long the server lets it keep the
/// result.
///
/// Errors: `bad_option` (an address or a token that cannot be sent), `offline`, `timeout`, `too_large`,
/// `closed` once aborted. An answer of any status is no error here: see [`super::reply::sync_reply`].
pub async fn post(post: Post<'_>, abort: &Abort) -> Result<HttpReply> {
    abort.check()?;
    let request = build(&post, abort)?;
    let watch = Watch::start(post.timeout_ms, abort);
    let response = request.send().await.map_err(|_| {
        // The browser does not say which: a page could otherwise probe other machines.
        abort.explain("no network, no such server, or one that does not allow this page's origin")
    })?;
    watch.restart();
    let (status, headers) = (response.status(), response.headers());
    let content_type = headers.get("content-type").unwrap_or_default();
    let retry_after_ms = headers.get("retry-after").and_then(|text| retry_after_ms(&text, now_ms()));
    let body = read(&response, &watch, abort).await?;
    Ok(HttpReply {
        status,
        format: Format::from_content_type(&content_type),
        content_type: content_type.chars().filter(char::is_ascii_graphic).take(60).collect(),
        retry_after_ms,
        body,
    })
}

fn build(post: &Post<'_>, abort: &Abort) -> Result<Request> {
    let media = post.format.content_type();
    let mut builder = Request::post(post.url)
        .header("Content-Type", media)
        .header("Accept", media)
        .credentials(RequestCredentials::Omit)
        .redirect(RequestRedirect::Follow)
        .referrer_policy(ReferrerPolicy::NoReferrer)
        .abort_signal(abort.controller.as_ref().map(AbortController::signal).as_ref());
    if let Some(token) = post.token {
        // gloo-net throws if a header cannot be sent.
        if token.is_empty() || !token.bytes().all(|b| b.is_ascii_graphic()) {
            return fail(Code::BadOption, "`token` is empty or has characters that a header cannot carry");
        }
        builder = builder.header("Authorization", &format!("Bearer {token}"));
    }
    builder
        .body(Uint8Array::from(post.body))
        .map_err(|_| Error::new(Code::BadOption, "`server` is not an address that can be fetched"))
}

/// The timer of a request, started again each time data arrives.
struct Watch {
    timeout_ms: u64,
    abort: Abort,
    timer: RefCell<Option<Timer>>,
}

impl Watch {
    fn start(timeout_ms: u64, abort: &Abort) -> Self {
        let watch = Watch { timeout_ms, abort: abort.clone(), timer: RefCell::default() };
        watch.restart();
        watch
    }

    fn restart(&self) {
        let abort = self.abort.clone();
        let timer = Timer::after(self.timeout_ms, move || abort.stop(Reason::Timeout));
        *self.timer.borrow_mut() = Some(timer);
    }
}

async fn read(response: &Response, watch: &Watch, abort: &Abort) -> Result<Vec<u8>> {
    let broken = || abort.explain("the connection broke in the middle of the answer");
    let Some(stream) = response.body() else { return Ok(Vec::new()) };
    let reader: ReadableStreamDefaultReader = stream.get_reader().unchecked_into();
    let mut body = Vec::new();
    loop {
        let promise: Promise = reader.read().unchecked_into();
        let piece: JsValue = JsFuture::from(promise).await.map_err(|_| broken())?;
        watch.restart();
        if property(&piece, "done").is_some_and(|done| done.is_truthy()) {
            return Ok(body);
        }
        let bytes = property(&piece, "value").and_then(|value| bytes_of(&value)).ok_or_else(broken)?;
        let start = body.len();
        if start + bytes.length() as usize > REPLY_BYTES_MAX {
            abort.stop(Reason::TooLarge);
            return Err(broken());
        }
        body.resize(start + bytes.length() as usize, 0);
        bytes.copy_to(&mut body[start..]);
    }
}

/// Retry-After, in its two forms: seconds, or a date of HTTP.
fn retry_after_ms(text: &str, now_ms: u64) -> Option<u64> {
    let text = text.trim();
    let ms = if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        text.parse::<u64>().unwrap_or(u64::MAX).saturating_mul(1_000)
    } else {
        parse_date_ms(text)?.saturating_sub(now_ms)
    };
    Some(ms.min(RETRY_AFTER_MS_MAX))
}

/// Seconds, as an adapter's rejection carries them.
pub(super) fn retry_after_seconds(seconds: f64) -> Option<u64> {
    (seconds.is_finite() && seconds >= 0.0).then(|| ((seconds * 1_000.0) as u64).min(RETRY_AFTER_MS_MAX))
}

#[cfg(test)]
mod tests;
