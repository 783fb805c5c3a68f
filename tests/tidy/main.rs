//! What no compiler checks and no reader should have to: which way dependencies point, how long files are, which
//! words stand in them, and whether the documents still tell of what there is.
//!
//! Everything is read as text, from the folder of the crate; nothing is run. A failing check names each place.

#![cfg(not(target_family = "wasm"))] // needs a machine

mod documents;
mod files;
mod layers;
mod modules;
mod prose;
mod rules;
mod text;

/// Fails with a line for each finding, and what to do about them.
fn none(cure: &str, findings: Vec<String>) {
    assert!(findings.is_empty(), "{cure}:\n  {}", findings.join("\n  "));
}
