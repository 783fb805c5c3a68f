//! Decimal numbers, by the engine of JavaScript. Elsewhere `src/decimal.rs` is in the place of this module.

use wasm_bindgen::prelude::*;

#[wasm_bindgen]
extern "C" {
    type Double;

    /// js-sys has it only with a number of digits.
    #[wasm_bindgen(method, js_name = toExponential)]
    fn to_exponential(this: &Double) -> String;
}

/// The double that is nearest to a decimal number in the form of JSON.
pub fn parse(text: &str) -> f64 {
    js_sys::parse_float(text)
}

/// The fewest digits that read back as this finite double, with an exponent: `1.25e-7`.
pub fn exponential(f: f64) -> String {
    JsValue::from(f).unchecked_into::<Double>().to_exponential()
}
