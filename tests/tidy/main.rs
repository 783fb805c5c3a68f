//! Checks that no compiler makes and no reader should have to: the direction of dependencies, the length of
//! files, forbidden words, and whether the documents match the repository.
//!
//! Everything is read as text, from the folder of the crate; nothing is run. A failing check names each
//! place.

#![cfg(not(target_family = "wasm"))] // needs a machine

mod dependencies;
mod documents;
mod files;
mod graph;
mod layers;
mod modules;
mod names;
mod prose;
mod rules;
mod rust;
mod shape;
mod text;

/// Fails with a line for each finding, and the advice for them.
fn none(cure: &str, findings: Vec<String>) {
    assert!(findings.is_empty(), "{cure}:\n  {}", findings.join("\n  "));
}
