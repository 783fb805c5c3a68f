//! Decimal numbers outside a browser, by the standard library.
//!
//! In a browser `web::platform::decimal` is in its place: an engine of JavaScript has this code already, and the
//! tables of the standard library would be 12 KB of the wasm.

/// The double that is nearest to a decimal number in the form of JSON.
pub fn parse(text: &str) -> f64 {
    text.parse().unwrap_or(f64::NAN)
}

/// The fewest digits that read back as this finite double, with an exponent: `1.25e-7`.
pub fn exponential(f: f64) -> String {
    format!("{f:e}")
}
