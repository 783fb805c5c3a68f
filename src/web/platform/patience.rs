//! Waits with a bound for answers that the browser, or the application, may owe for ever.

use std::cell::Cell;
use std::rc::Rc;

use js_sys::{Array, Promise};
use wasm_bindgen::JsValue;
use wasm_bindgen_futures::JsFuture;

use crate::web::platform::promise::Deferred;
use crate::web::platform::timers::Timer;

/// How long the device may be silent before it counts as one that refuses.
pub(crate) const SILENT_MS: u64 = 10_000;

/// Waits for a promise for so long; `None` if it has not settled by then.
pub(crate) async fn within(ms: u64, promise: &Promise) -> Result<Option<JsValue>, JsValue> {
    let (late, Deferred { promise: time, resolve, .. }) = (Rc::new(Cell::new(false)), Deferred::new());
    let _timer = Timer::after(ms, {
        let late = Rc::clone(&late);
        move || {
            late.set(true);
            // The engine's own function, called with no arguments.
            let _ = resolve.call0(&JsValue::UNDEFINED);
        }
    });
    let first = JsFuture::from(Promise::race(&Array::of2(promise, &time))).await?;
    Ok((!late.get()).then_some(first))
}

/// The same for the device, in two halves: the timer of a page that was frozen may run before the event that has waited
/// as long.
pub(crate) async fn answer(ms: u64, promise: &Promise) -> Result<Option<JsValue>, JsValue> {
    match within(ms / 2, promise).await? {
        None => within(ms / 2, promise).await,
        some => Ok(some),
    }
}

/// The exception of one that did not answer.
pub(crate) fn silence() -> JsValue {
    let exception = js_sys::Error::new("");
    exception.set_name("no answer");
    exception.into()
}
