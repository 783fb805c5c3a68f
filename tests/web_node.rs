//! The browser's side in Node, which has no IndexedDB, no window, and perhaps no WebSocket. A missing feature
//! is a named error when it is called, and not earlier.

#![cfg(target_family = "wasm")]

use escale::codec::{Format, SyncRequest, decode, encode};
use escale::model::{Number, Value};
use escale::store::Device;
use escale::web::idb::IdbDevice;
use escale::web::platform::signals::Signals;
use escale::web::platform::timers::Timer;
use escale::web::platform::{clock, kdf, require_secure_context};
use escale::web::transport::adapter::Adapter;
use escale::web::transport::address::Address;
use escale::web::transport::http::{Abort, Post, post};
use escale::web::transport::socket::Socket;
use escale::{Code, sync::Refusal};
use wasm_bindgen_test::wasm_bindgen_test;

#[wasm_bindgen_test]
async fn there_is_no_device() {
    let device = IdbDevice::new();
    for _ in 0..2 {
        let error = device.open("store", true).await.err().expect("refused");
        assert_eq!(error.code(), Code::StorageFailed);
        assert!(error.detail().contains("IndexedDB"), "{error}");
    }
    assert_eq!(device.delete("store").await.expect_err("refused").code(), Code::StorageFailed);
}

#[wasm_bindgen_test]
async fn keys_clocks_timers_and_addresses_work() {
    require_secure_context().expect("Node has crypto.subtle");
    assert!(clock::now_ms() > 1_700_000_000_000);
    assert!(clock::monotonic_ms() >= 0.0);
    drop(Timer::after(60_000, || {}));
    drop(Signals::listen(|_| {}));
    assert!(Signals::is_online());
    let address = Address::new("https://example.org/api", "demo").expect("an address");
    assert_eq!(address.live, "wss://example.org/api/demo/live");
    assert_eq!(Address::new("/api", "demo").expect_err("relative to nothing").code(), Code::BadOption);
    kdf::pbkdf2("passphrase", b"salt", 1).await.expect("derived");
}

#[wasm_bindgen_test]
async fn a_server_that_is_not_there_is_offline() {
    let request = Post {
        url: "http://127.0.0.1:9/demo/sync",
        token: None,
        format: Format::Json,
        body: b"{}",
        timeout_ms: 60_000,
    };
    assert_eq!(post(request, &Abort::new()).await.expect_err("nobody").code(), Code::Offline);
}

#[wasm_bindgen_test]
fn a_missing_socket_is_a_named_error() {
    if !Socket::is_supported() {
        let error = Socket::open("ws://127.0.0.1:9/", |_| {}).err().expect("refused");
        assert_eq!(error.code(), Code::NotSupported);
    }
}

#[wasm_bindgen_test]
async fn an_adapter_works() {
    let object = js_sys::Function::new_no_args(
        "return { sync: async () => { throw { status: 503, retryAfter: 3 } } }",
    )
    .call0(&wasm_bindgen::JsValue::UNDEFINED)
    .expect("an object");
    let adapter = Adapter::new(object).expect("an adapter");
    let request = SyncRequest::of("s");
    let Refusal { error, retry_after_ms } = adapter.sync(&request, 10_000).await.expect_err("refused");
    assert_eq!((error.code(), retry_after_ms), (Code::Unavailable, Some(3_000)));
}

/// The same texts as outside a browser, where tests compare them with another writer's.
#[wasm_bindgen_test]
fn doubles_have_the_form_that_they_have_everywhere() {
    let forms = [
        (0.1, "0.1"),
        (-0.0, "-0.0"),
        (-1234.5, "-1234.5"),
        (1e-5, "0.00001"),
        (1.25e-6, "1.25e-6"),
        (5e-324, "5e-324"),
        (1.797_693_134_862_315_7e308, "1.7976931348623157e+308"),
        (9_007_199_254_740_992.0, "9007199254740992.0"),
        (1e16, "1e+16"),
        (0.1 + 0.2, "0.30000000000000004"),
    ];
    for (f, text) in forms {
        let value = Value::Number(Number::new(f).expect("finite"));
        assert_eq!(encode(Format::Json, &value).as_deref(), Ok(text.as_bytes()));
        let read: Value = decode(Format::Json, text.as_bytes(), 100).expect("a number");
        assert_eq!(read.as_f64().map(f64::to_bits), Some(f.to_bits()), "{text}");
    }
    for wrong in ["1e400", "-1e999"] {
        assert!(decode::<Value>(Format::Json, wrong.as_bytes(), 100).is_err(), "{wrong}");
    }
}
