//! The device's two clocks: wall time, and a monotonic clock.

use wasm_bindgen::JsCast;

use super::global::{global, method};

/// Milliseconds since 1970 by the device's clock, which the user can set to anything.
pub fn now_ms() -> u64 {
    js_sys::Date::now().max(0.0) as u64
}

/// Milliseconds since an arbitrary start, never decreasing. If the environment has no such clock, the
/// device's wall clock, which can decrease.
pub fn monotonic_ms() -> f64 {
    global("performance")
        .and_then(|performance| method(&performance, "now")?.call0(&performance).ok()?.as_f64())
        .unwrap_or_else(js_sys::Date::now)
}

/// Milliseconds since 1970 of a date in any form that the browser understands, including HTTP's.
pub fn parse_date_ms(text: &str) -> Option<u64> {
    let date = js_sys::Date::new(&text.into()).unchecked_into::<js_sys::Date>();
    let ms = date.get_time();
    (ms.is_finite() && ms >= 0.0).then_some(ms as u64)
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::*;

    #[wasm_bindgen_test]
    fn clocks_tell_the_time() {
        assert!(now_ms() > 1_700_000_000_000);
        let first = monotonic_ms();
        assert!(monotonic_ms() >= first);
    }

    #[wasm_bindgen_test]
    fn dates_of_http_are_read() {
        assert_eq!(parse_date_ms("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777_000));
        assert_eq!(parse_date_ms("soon"), None);
    }
}
