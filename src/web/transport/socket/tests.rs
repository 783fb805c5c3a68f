//! Sockets against a `WebSocket` replacement that echoes, and against an address without a server.

use std::cell::RefCell;

use js_sys::{Promise, Reflect};
use wasm_bindgen_futures::JsFuture;
use wasm_bindgen_test::wasm_bindgen_test;

use super::*;
use crate::web::platform::promise::Deferred;

struct Replaced(JsValue);

impl Replaced {
    fn web_socket(class: &str) -> Self {
        let class =
            Function::new_no_args(&format!("return {class}")).call0(&JsValue::UNDEFINED).expect("class");
        let original = global("WebSocket").expect("WebSocket");
        Reflect::set(&js_sys::global(), &"WebSocket".into(), &class).expect("replaced");
        Replaced(original)
    }
}

impl Drop for Replaced {
    fn drop(&mut self) {
        let _ = Reflect::set(&js_sys::global(), &"WebSocket".into(), &self.0);
    }
}

/// Opens at once, echoes each message, and closes with the code that it is given, as browsers do.
const ECHO: &str = "class { constructor(url) { this.url = url; this.readyState = 0;
        queueMicrotask(() => { this.readyState = 1; this.onopen?.({}); }); }
    send(data) { const copy = data instanceof Uint8Array ? data.slice().buffer : data;
        queueMicrotask(() => this.onmessage?.(new MessageEvent('message', { data: copy }))); }
    close(code) { if (code !== undefined && code !== 1000 && (code < 3000 || code > 4999)) throw new Error();
        this.readyState = 3;
        queueMicrotask(() => this.onclose?.(new CloseEvent('close', { code: code ?? 1005 }))); } }";

/// A log of events, and a promise that resolves at the next `Closed`.
struct Log {
    events: Rc<RefCell<Vec<SocketEvent>>>,
    closed: Promise,
}

fn log() -> (Log, impl Fn(SocketEvent) + 'static) {
    let events = Rc::new(RefCell::new(Vec::new()));
    let Deferred { promise, resolve, .. } = Deferred::new();
    let on = {
        let events = Rc::clone(&events);
        move |event: SocketEvent| {
            if matches!(event, SocketEvent::Closed { .. }) {
                let _ = resolve.call0(&JsValue::UNDEFINED);
            }
            events.borrow_mut().push(event);
        }
    };
    (Log { events, closed: promise }, on)
}

async fn turn() {
    let timer = Deferred::new();
    let _timer = crate::web::platform::timers::Timer::after(0, {
        let resolve = timer.resolve.clone();
        move || drop(resolve.call0(&JsValue::UNDEFINED))
    });
    JsFuture::from(timer.promise).await.expect("resolved");
}

#[wasm_bindgen_test]
async fn bytes_and_text_go_and_come() {
    let _class = Replaced::web_socket(ECHO);
    let (log, on) = log();
    let socket = Socket::open("ws://server.test/demo/live", on).expect("opening");
    assert!(log.events.borrow().is_empty(), "no event during the call");
    assert_eq!(socket.send(&Frame::Text("early".into())).expect_err("not open").code(), Code::Offline);
    turn().await;
    let frames = [Frame::Binary(vec![0, 1, 255]), Frame::Text("h\u{e9}".into())];
    for frame in &frames {
        socket.send(frame).expect("sent");
    }
    turn().await;
    socket.close(4001);
    JsFuture::from(log.closed).await.expect("closed");
    let [binary, text] = frames;
    let expected = [
        SocketEvent::Opened,
        SocketEvent::Message(binary),
        SocketEvent::Message(text),
        SocketEvent::Closed { code: 4001, reason: String::new() },
    ];
    assert_eq!(*log.events.borrow(), expected);
}

#[wasm_bindgen_test]
async fn a_code_that_browsers_refuse_still_closes() {
    let _class = Replaced::web_socket(ECHO);
    let (log, on) = log();
    let socket = Socket::open("ws://server.test/demo/live", on).expect("opening");
    turn().await;
    socket.close(1011);
    JsFuture::from(log.closed).await.expect("closed");
    assert_eq!(log.events.borrow().last(), Some(&SocketEvent::Closed { code: 1005, reason: String::new() }));
}

#[wasm_bindgen_test]
async fn a_dropped_socket_is_silent() {
    let _class = Replaced::web_socket(ECHO);
    let (log, on) = log();
    drop(Socket::open("ws://server.test/demo/live", on).expect("opening"));
    turn().await;
    assert!(log.events.borrow().is_empty());
}

#[wasm_bindgen_test]
async fn a_socket_may_be_dropped_by_its_own_event() {
    let _class = Replaced::web_socket(ECHO);
    let slot: Rc<RefCell<Option<Socket>>> = Rc::default();
    let seen = Rc::new(RefCell::new(Vec::new()));
    let socket = Socket::open("ws://server.test/demo/live", {
        let (slot, seen) = (Rc::clone(&slot), Rc::clone(&seen));
        move |event| {
            let socket = slot.borrow_mut().take();
            drop(socket);
            // A callback may drop the socket that owns it: its captured values outlive the call.
            seen.borrow_mut().push(event);
        }
    });
    *slot.borrow_mut() = Some(socket.expect("opening"));
    turn().await;
    assert_eq!(*seen.borrow(), [SocketEvent::Opened]);
}

#[wasm_bindgen_test]
async fn an_address_without_a_socket_closes_abnormally() {
    let Some(origin) =
        global("location").and_then(|l| crate::web::platform::global::property(&l, "host")?.as_string())
    else {
        return;
    };
    let (log, on) = log();
    let _socket = Socket::open(&format!("ws://{origin}/no/socket/here"), on).expect("opening");
    JsFuture::from(log.closed).await.expect("closed");
    assert_eq!(
        *log.events.borrow(),
        [SocketEvent::Closed { code: CLOSED_ABNORMALLY, reason: String::new() }]
    );
}

#[wasm_bindgen_test]
fn an_address_that_is_none_is_refused_by_name() {
    let error = Socket::open("nowhere://x", |_| {}).err().expect("refused");
    assert_eq!(error.code(), Code::BadOption);
}
