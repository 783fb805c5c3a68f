//! The suite that every provider must pass.
//!
//! It panics at the first broken promise, and names it. The database is empty at first. Each call of `open`
//! opens one more instance on it.

mod documents;
mod files;
mod heads;
mod operations;
mod support;
mod trees;

use super::Provider;

/// Runs every test of the suite, each on its own database, which `fresh` makes. `random` gives numbers below its argument:
/// some histories are others each time.
pub fn all<P: Provider>(mut fresh: impl FnMut() -> Box<dyn Fn() -> P>, random: &mut dyn FnMut(u64) -> u64) {
    documents::all(&mut fresh);
    files::all(&mut fresh, random);
    heads::all(&mut fresh);
    operations::all(&mut fresh);
    trees::all(&mut fresh);
}
