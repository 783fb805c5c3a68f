//! What is told of a panic before the instance dies of it: where it was. What it says may repeat what the application
//! passed in, and is left out. Another instance takes over in `js/src/living.ts`.

use std::panic::{PanicHookInfo, set_hook};
use std::sync::Once;

use wasm_bindgen::JsValue;

static SET: Once = Once::new();

/// Tells the console where a panic was, from now on.
pub fn tell_where() {
    SET.call_once(|| set_hook(Box::new(tell)));
}

fn tell(info: &PanicHookInfo<'_>) {
    let place = info.location().map(|place| format!(" at {}:{}", place.file(), place.line()));
    let text = format!("escale: panicked{}", place.unwrap_or_default());
    web_sys::console::error_1(&JsValue::from_str(&text));
}
