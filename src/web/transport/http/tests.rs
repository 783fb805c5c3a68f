//! Requests against a `fetch` replacement, which can fail in every way.

use js_sys::{Function, Reflect};
use wasm_bindgen_test::wasm_bindgen_test;

use super::*;

/// A global that is replaced for the length of a test.
struct Replaced {
    name: &'static str,
    original: JsValue,
}

impl Replaced {
    fn fetch(body: &str) -> Self {
        let function = Function::new_with_args("request", body);
        let scope = js_sys::global();
        let original = Reflect::get(&scope, &"fetch".into()).expect("fetch");
        Reflect::set(&scope, &"fetch".into(), &function).expect("replaced");
        Replaced { name: "fetch", original }
    }
}

impl Drop for Replaced {
    fn drop(&mut self) {
        let _ = Reflect::set(&js_sys::global(), &self.name.into(), &self.original);
    }
}

const URL: &str = "http://server.test/demo/sync";

fn request(token: Option<&str>) -> Post<'_> {
    Post { url: URL, token, format: Format::Msgpack, body: &[1, 2, 3], timeout_ms: 60_000 }
}

#[wasm_bindgen_test]
async fn a_request_carries_what_it_must_and_nothing_else() {
    let _fetch = Replaced::fetch(
        "return request.arrayBuffer().then((body) => new Response(JSON.stringify({
            method: request.method, type: request.headers.get('content-type'),
            accept: request.headers.get('accept'), auth: request.headers.get('authorization'),
            cache: request.cache, credentials: request.credentials, referrer: request.referrerPolicy,
            redirect: request.redirect, url: request.url, body: [...new Uint8Array(body)],
        }), { status: 207, headers: { 'content-type': 'application/json; x=1', 'retry-after': '7' } }));",
    );
    let reply = post(request(Some("t0ken")), &Abort::new()).await.expect("answered");
    assert_eq!((reply.status, reply.format, reply.retry_after_ms), (207, Some(Format::Json), Some(7_000)));
    let seen: serde_json::Value = serde_json::from_slice(&reply.body).expect("json");
    let expected = serde_json::json!({
        "method": "POST", "type": "application/msgpack", "accept": "application/msgpack",
        "auth": "Bearer t0ken", "cache": "default", "credentials": "omit", "referrer": "no-referrer",
        "redirect": "follow", "url": URL, "body": [1, 2, 3],
    });
    assert_eq!(seen, expected);
}

#[wasm_bindgen_test]
async fn a_network_that_fails_is_offline() {
    let _fetch = Replaced::fetch("return Promise.reject(new TypeError('secret'));");
    let error = post(request(None), &Abort::new()).await.expect_err("failed");
    assert_eq!(error.code(), Code::Offline);
    assert!(!error.detail().contains("secret"));
}

#[wasm_bindgen_test]
async fn an_answer_that_breaks_off_is_offline() {
    let _fetch = Replaced::fetch(
        "let n = 0; return Promise.resolve(new Response(new ReadableStream({ pull(c) {
            n++ ? c.error(new TypeError('gone')) : c.enqueue(new Uint8Array(10)) } })));",
    );
    let error = post(request(None), &Abort::new()).await.expect_err("failed");
    assert_eq!(error.code(), Code::Offline);
}

/// Answers only an abort, as fetch does.
const SILENT: &str = "return new Promise((_, reject) => request.signal.addEventListener('abort',
    () => reject(new DOMException('', 'AbortError'))));";

/// Answers at once, with a body that never ends and never continues, except by an abort.
const STALLED: &str = "return Promise.resolve(new Response(new ReadableStream({ start(c) {
    request.signal.addEventListener('abort', () => c.error(new DOMException('', 'AbortError'))) } })));";

#[wasm_bindgen_test]
async fn silence_is_a_timeout_before_the_answer_and_within_it() {
    for fetch in [SILENT, STALLED] {
        let _fetch = Replaced::fetch(fetch);
        let error = post(Post { timeout_ms: 20, ..request(None) }, &Abort::new()).await.expect_err("failed");
        assert_eq!(error.code(), Code::Timeout);
    }
}

#[wasm_bindgen_test]
async fn a_request_can_be_given_up() {
    for fetch in [SILENT, STALLED] {
        let _fetch = Replaced::fetch(fetch);
        let abort = Abort::new();
        let _timer = Timer::after(10, {
            let abort = abort.clone();
            move || abort.abort()
        });
        let error = post(request(None), &abort).await.expect_err("failed");
        assert_eq!(error.code(), Code::Closed);
        let again = post(request(None), &abort).await.expect_err("never sent");
        assert_eq!(again.code(), Code::Closed);
    }
}

#[wasm_bindgen_test]
async fn an_answer_without_end_is_too_large() {
    let _fetch = Replaced::fetch(
        "return Promise.resolve(new Response(new ReadableStream({ pull(c) {
            c.enqueue(new Uint8Array(8 << 20)) } })));",
    );
    let error = post(request(None), &Abort::new()).await.expect_err("failed");
    assert_eq!(error.code(), Code::TooLarge);
}

#[wasm_bindgen_test]
async fn an_answer_without_a_body_is_empty() {
    let _fetch = Replaced::fetch("return Promise.resolve(new Response(null, { status: 204 }));");
    let reply = post(request(None), &Abort::new()).await.expect("answered");
    assert_eq!((reply.status, reply.format, reply.body.len()), (204, None, 0));
}

#[wasm_bindgen_test]
async fn what_cannot_be_sent_is_refused_by_name() {
    for token in ["", "a b", "a\nb", "\u{e9}"] {
        let error = post(request(Some(token)), &Abort::new()).await.expect_err("refused");
        assert_eq!(error.code(), Code::BadOption);
    }
    let error = post(Post { url: "http://", ..request(None) }, &Abort::new()).await.expect_err("refused");
    assert_eq!(error.code(), Code::BadOption);
}

#[wasm_bindgen_test]
fn retry_after_is_seconds_or_a_date_and_bounded() {
    let at = 784_111_777_000; // Sun, 06 Nov 1994 08:49:37 GMT
    assert_eq!(retry_after_ms(" 120 ", at), Some(120_000));
    assert_eq!(retry_after_ms("0", at), Some(0));
    assert_eq!(retry_after_ms("Sun, 06 Nov 1994 08:49:47 GMT", at), Some(10_000));
    assert_eq!(retry_after_ms("Sun, 06 Nov 1994 08:49:27 GMT", at), Some(0), "past");
    assert_eq!(retry_after_ms("99999999999999999999999", at), Some(RETRY_AFTER_MS_MAX));
    assert_eq!(retry_after_ms("", at), None);
    assert_eq!(retry_after_ms("-5 s", at), None);
    assert_eq!(retry_after_seconds(1.5), Some(1_500));
    assert_eq!(retry_after_seconds(f64::NAN), None);
}
