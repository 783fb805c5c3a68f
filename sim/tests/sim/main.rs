//! The simulator's seeds, and what they once found.

#![allow(missing_docs)]

mod regressions;
mod seeds;
