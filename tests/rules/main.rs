//! The rules R1 to R9 and R13 to R15 of the design, each by its name.

#[path = "../support/mod.rs"]
mod support;

mod histories;
mod regressions;
mod writes;
