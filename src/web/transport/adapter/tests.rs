//! Adapters written as a few lines of JavaScript each.

use std::cell::RefCell;

use wasm_bindgen_test::wasm_bindgen_test;

use super::*;

fn js(expression: &str) -> JsValue {
    Function::new_no_args(&format!("return ({expression})")).call0(&JsValue::UNDEFINED).expect("evaluated")
}

fn adapter(expression: &str) -> Adapter {
    Adapter::new(js(expression)).expect("an adapter")
}

fn request() -> SyncRequest {
    let sub = decode(Format::Json, br#"["Package", 7, "cursor"]"#, 100).expect("a sub");
    SyncRequest {
        refs: false,
        page: None,
        p: 1,
        session: "s".into(),
        epoch: None,
        ops: Vec::new(),
        subs: vec![sub],
    }
}

async fn refusal(expression: &str) -> Refusal {
    adapter(expression).sync(&request(), 10_000).await.expect_err("refused")
}

const REPLY: &str = "{ p: 1, epoch: [1, 'r'], now: 9, delta: 2, parts: [{ def: 'Package', rows: [
    { pk: 'x', v: 8, data: { name: 'n', raw: BYTES, deep: [{ raw: BYTES }], n: 1.5, z: null } }] }] }";

fn reply_with(bytes: &str) -> String {
    REPLY.replace("BYTES", bytes)
}

#[wasm_bindgen_test]
async fn objects_text_and_bytes_are_one_message() {
    let object = reply_with("new Uint8Array([1, 2, 250])");
    let text = format!("JSON.stringify({})", reply_with("{ $bytes: 'AQL6' }"));
    let adapter_of = |message: &str| adapter(&format!("{{ sync: async () => ({message}) }}"));
    let first = adapter_of(&object).sync(&request(), 10_000).await.expect("an object");
    let second = adapter_of(&text).sync(&request(), 10_000).await.expect("text");
    assert_eq!(first, second);
    let data = first.parts[0].rows[0].data.as_ref().expect("data").to_map().expect("a map");
    assert_eq!(data["raw"], crate::model::Value::Bytes(vec![1, 2, 250]));
    let bytes = encode(Format::Msgpack, &first).expect("msgpack");
    let third = adapter_of(&format!("Uint8Array.from({bytes:?})"));
    assert_eq!(third.sync(&request(), 10_000).await.expect("bytes"), first);
    let fourth = adapter_of(&format!("Uint8Array.from({bytes:?}).buffer"));
    assert_eq!(fourth.sync(&request(), 10_000).await.expect("a buffer"), first);
    let at_once = adapter(&format!("{{ sync: () => ({object}) }}"));
    assert_eq!(at_once.sync(&request(), 10_000).await.expect("no promise"), first);
}

#[wasm_bindgen_test]
async fn the_request_is_a_plain_object_and_this_is_the_adapter() {
    let adapter = adapter(&format!(
        "{{ reply: {}, sync(request) {{ this.seen = JSON.stringify(request); return this.reply; }} }}",
        reply_with("1")
    ));
    adapter.sync(&request(), 10_000).await.expect("answered");
    let seen = property(&adapter.object, "seen").and_then(|s| s.as_string()).expect("seen");
    assert_eq!(seen, r#"{"p":1,"session":"s","ops":[],"subs":[["Package",7,"cursor"]]}"#);
}

#[wasm_bindgen_test]
async fn rejections_have_their_codes() {
    let expected = [
        ("{ code: 'too_many', retryAfter: 2 }", Code::TooMany, Some(2_000)),
        ("{ status: 503, retryAfter: 0.5 }", Code::Unavailable, Some(500)),
        ("{ status: 401 }", Code::Unauthorized, None),
        ("{ status: 404 }", Code::UnknownOrg, None),
        ("{ code: 'ECONNREFUSED' }", Code::Offline, None),
        ("{ code: 'wrong_passphrase' }", Code::Offline, None),
        ("new TypeError('a secret')", Code::Offline, None),
        ("undefined", Code::Offline, None),
    ];
    for (rejection, code, retry_after_ms) in expected {
        for throw in [
            format!("{{ sync: () => Promise.reject({rejection}) }}"),
            format!("{{ sync: () => {{ throw {rejection}; }} }}"),
        ] {
            let refusal = refusal(&throw).await;
            assert_eq!((refusal.error.code(), refusal.retry_after_ms), (code, retry_after_ms), "{throw}");
            assert!(!refusal.error.detail().contains("secret"));
        }
    }
}

#[wasm_bindgen_test]
async fn what_is_no_reply_is_refused_by_name() {
    for (answer, code) in [
        ("undefined", Code::Malformed),
        ("null", Code::Malformed),
        ("12", Code::Malformed),
        ("{}", Code::Malformed),
        ("'<!doctype html>'", Code::Malformed),
        ("new Uint8Array([193])", Code::Malformed),
        ("{ p: 2 }", Code::WrongProtocol),
        ("(() => { const a = { p: 1 }; a.a = a; return a; })()", Code::Malformed),
        ("{ get p() { throw new Error(); } }", Code::Malformed),
        ("{ toJSON() { return undefined; } }", Code::Malformed),
        ("{ p: 1n }", Code::Malformed),
    ] {
        let got = refusal(&format!("{{ sync: async () => ({answer}) }}")).await.error;
        assert_eq!(got.code(), code, "{answer}: {got}");
    }
    let not_finite = reply_with("1").replace("1.5", "NaN");
    let got = refusal(&format!("{{ sync: async () => ({not_finite}) }}")).await.error;
    assert_eq!(got.code(), Code::Malformed, "a number that JSON would turn into null");
}

#[wasm_bindgen_test]
async fn an_adapter_that_never_answers_times_out() {
    let adapter = adapter("{ sync: () => new Promise(() => {}) }");
    assert_eq!(adapter.sync(&request(), 10).await.expect_err("late").error.code(), Code::Timeout);
}

#[wasm_bindgen_test]
fn what_is_no_adapter_is_refused_by_name() {
    for object in ["{}", "{ sync: 1 }", "{ sync() {}, listen: 1 }", "undefined"] {
        assert_eq!(Adapter::new(js(object)).err().expect(object).code(), Code::BadOption);
    }
    let deaf = adapter("{ sync() {} }");
    assert!(!deaf.can_listen());
    assert!(deaf.listen(&[], |_| {}).expect("no error").is_none());
}

#[wasm_bindgen_test]
fn frames_are_heard_until_the_listening_is_dropped() {
    let adapter = adapter(
        "{ sync() {}, listen(defs, on) { this.defs = defs; this.on = on; return () => { this.stopped = true; }; } }",
    );
    let heard = Rc::new(RefCell::new(Vec::new()));
    let def: Def = serde_json::from_str("\"Package\"").expect("a def");
    let listening = adapter
        .listen(&[def], {
            let heard = Rc::clone(&heard);
            move |frame| heard.borrow_mut().push(frame.map_err(|error| error.code()))
        })
        .expect("listening")
        .expect("can");
    let defs = Array::from(&property(&adapter.object, "defs").expect("defs"));
    assert_eq!(defs.get(0).as_string().as_deref(), Some("Package"));
    let on = method(&adapter.object, "on").expect("on");
    let say = |frame: &str| on.call1(&JsValue::UNDEFINED, &js(frame)).expect("no exception");
    say("{ hints: [['Package', 5]] }");
    say("'{}'");
    say("{ hints: 1 }");
    assert_eq!(heard.borrow().len(), 3);
    assert!(matches!(&heard.borrow()[0], Ok(ServerFrame::Hints(hints)) if hints[0].1 == 5));
    assert_eq!(heard.borrow()[1], Ok(ServerFrame::Alive));
    assert_eq!(heard.borrow()[2], Err(Code::Malformed));
    drop(listening);
    assert!(property(&adapter.object, "stopped").is_some());
    say("{}");
    assert_eq!(heard.borrow().len(), 3, "no frame after the end");
}
