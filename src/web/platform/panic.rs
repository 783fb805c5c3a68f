//! Reports the source location of a panic to the console, before the instance of the wasm dies. The panic's
//! message is left out: it may repeat data of the application. Then `js/src/wasm/living.ts` starts another
//! instance.

use std::panic::{PanicHookInfo, set_hook};
use std::sync::Once;

use wasm_bindgen::JsValue;

static SET: Once = Once::new();

/// From now on a panic is reported to the console.
pub fn tell_where() {
    SET.call_once(|| set_hook(Box::new(tell)));
}

fn tell(info: &PanicHookInfo<'_>) {
    let location = info.location().map(|location| format!(" at {}:{}", location.file(), location.line()));
    let text = format!("escale: panicked{}", location.unwrap_or_default());
    web_sys::console::error_1(&JsValue::from_str(&text));
}
