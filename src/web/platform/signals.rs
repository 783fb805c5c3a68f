//! The browser's events that a session reacts to: the network is back or gone, the page became visible, the
//! page was hidden. The first and the third mean that a retry may now work.

use std::rc::Rc;

use js_sys::Function;
use wasm_bindgen::prelude::*;

use super::global::{global, method, property};

/// An event of the environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// The device has a network again.
    Online,
    /// The device has lost its network.
    Offline,
    /// The page became visible.
    Visible,
    /// The page is leaving: either into the browser's page cache, from which it may return, or for good.
    PageHide,
    /// The page was taken out of the page cache. Its timers had stopped, and its sockets may be dead.
    PageShow,
}

/// The listeners; dropping this removes them.
pub struct Signals {
    listeners: Vec<Listener>,
}

struct Listener {
    target: JsValue,
    event: &'static str,
    callback: Closure<dyn FnMut()>,
}

impl Signals {
    /// Calls `on` at each signal. In an environment without these events (Node), it is never called.
    pub fn listen(on: impl Fn(Signal) + 'static) -> Self {
        let on: Rc<dyn Fn(Signal)> = Rc::new(on);
        let scope: JsValue = js_sys::global().into();
        let mut listeners = Vec::new();
        for (event, signal) in [
            ("online", Signal::Online),
            ("offline", Signal::Offline),
            ("pagehide", Signal::PageHide),
            ("pageshow", Signal::PageShow),
            ("focus", Signal::Visible),
        ] {
            let on = Rc::clone(&on);
            listeners.extend(Listener::add(scope.clone(), event, move || on(signal)));
        }
        if let Some(document) = global("document") {
            let page = document.clone();
            listeners.extend(Listener::add(document, "visibilitychange", move || {
                let state = property(&page, "visibilityState").and_then(|state| state.as_string());
                if state.as_deref() == Some("visible") {
                    on(Signal::Visible);
                }
            }));
        }
        Signals { listeners }
    }

    /// Whether the device believes that it has a network; true if the browser does not say.
    pub fn is_online() -> bool {
        let on_line = global("navigator").and_then(|navigator| property(&navigator, "onLine"));
        on_line.and_then(|value| value.as_bool()).unwrap_or(true)
    }
}

impl Listener {
    fn add(target: JsValue, event: &'static str, on: impl Fn() + 'static) -> Option<Self> {
        let add = method(&target, "addEventListener")?;
        let callback = Closure::new(on);
        add.call2(&target, &event.into(), callback.as_ref()).ok()?;
        Some(Listener { target, event, callback })
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for Listener { target, event, callback } in &self.listeners {
            let remove: Option<Function> = method(target, "removeEventListener");
            // If a target cannot remove its listener, it keeps a callback that no longer does anything.
            let _ = remove.map(|remove| remove.call2(target, &(*event).into(), callback.as_ref()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use wasm_bindgen_test::wasm_bindgen_test;

    use super::*;

    fn dispatch(target: &JsValue, event: &str) {
        let event = web_sys::Event::new(event).expect("event");
        let dispatch = method(target, "dispatchEvent").expect("a target of events");
        dispatch.call1(target, &event).expect("dispatched");
    }

    #[wasm_bindgen_test]
    fn signals_are_heard_until_dropped() {
        let heard = Rc::new(RefCell::new(Vec::new()));
        let signals = Signals::listen({
            let heard = Rc::clone(&heard);
            move |signal| heard.borrow_mut().push(signal)
        });
        let scope: JsValue = js_sys::global().into();
        dispatch(&scope, "offline");
        dispatch(&scope, "online");
        dispatch(&scope, "pageshow");
        assert_eq!(*heard.borrow(), [Signal::Offline, Signal::Online, Signal::PageShow]);
        drop(signals);
        dispatch(&scope, "online");
        assert_eq!(heard.borrow().len(), 3, "no longer listening");
    }

    #[wasm_bindgen_test]
    fn becoming_visible_is_a_signal() {
        let Some(document) = global("document") else { return };
        let visible = property(&document, "visibilityState").and_then(|s| s.as_string());
        let heard = Rc::new(RefCell::new(Vec::new()));
        let _signals = Signals::listen({
            let heard = Rc::clone(&heard);
            move |signal| heard.borrow_mut().push(signal)
        });
        dispatch(&document, "visibilitychange");
        let expected: &[Signal] =
            if visible.as_deref() == Some("visible") { &[Signal::Visible] } else { &[] };
        assert_eq!(*heard.borrow(), expected);
    }
}
