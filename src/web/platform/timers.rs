//! One-shot timers, in a page, a worker or Node.

use js_sys::Function;
use wasm_bindgen::prelude::*;

#[wasm_bindgen]
extern "C" {
    // Bound here because web-sys binds them to a window or to a worker's scope, never to both. Node's handle
    // is an object, so the handle stays a `JsValue`.
    #[wasm_bindgen(js_name = setTimeout)]
    fn set_timeout(callback: &Function, delay_ms: i32) -> JsValue;
    #[wasm_bindgen(js_name = clearTimeout)]
    fn clear_timeout(handle: &JsValue);
}

/// A callback that runs once, later. Dropping the timer cancels it.
#[must_use = "a timer that is dropped never fires"]
pub struct Timer {
    handle: JsValue,
    // Keeps the callback alive for the browser.
    _callback: Closure<dyn FnMut()>,
}

impl Timer {
    /// Runs `callback` after that delay, at the earliest. A delay of more than 24 days is cut to 24 days.
    pub fn after(delay_ms: u64, callback: impl FnOnce() + 'static) -> Self {
        let callback = Closure::once(callback);
        // Browsers take a longer delay for none at all.
        let delay_ms = i32::try_from(delay_ms).unwrap_or(i32::MAX);
        let handle = set_timeout(callback.as_ref().unchecked_ref(), delay_ms);
        Timer { handle, _callback: callback }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        clear_timeout(&self.handle);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use wasm_bindgen_futures::JsFuture;
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::*;
    use crate::web::platform::promise::Deferred;

    #[wasm_bindgen_test]
    async fn a_timer_fires_once_and_a_dropped_one_never() {
        let log = Rc::new(RefCell::new(Vec::new()));
        let record = |name: &'static str| {
            let log = Rc::clone(&log);
            move || log.borrow_mut().push(name)
        };
        let done = Deferred::new();
        let dropped = Timer::after(1, record("dropped"));
        let _kept = Timer::after(2, record("kept"));
        let _last = Timer::after(30, {
            let resolve = done.resolve.clone();
            move || drop(resolve.call0(&JsValue::UNDEFINED))
        });
        drop(dropped);
        JsFuture::from(done.promise).await.expect("resolved");
        assert_eq!(*log.borrow(), ["kept"]);
    }

    #[wasm_bindgen_test]
    async fn a_timer_may_be_dropped_by_its_own_callback() {
        let slot: Rc<RefCell<Option<Timer>>> = Rc::default();
        let done = Deferred::new();
        let timer = Timer::after(0, {
            let (slot, resolve) = (Rc::clone(&slot), done.resolve.clone());
            move || {
                drop(slot.borrow_mut().take());
                drop(resolve.call0(&JsValue::UNDEFINED));
            }
        });
        *slot.borrow_mut() = Some(timer);
        JsFuture::from(done.promise).await.expect("resolved");
        assert!(slot.borrow().is_none());
    }
}
