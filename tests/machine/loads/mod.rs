//! Kinds of loads: trees with numbers, references, the documents of a class, damaged documents that come again.

mod numbers;
mod references;
mod repair;
mod restricted;
mod seeds;
mod withdrawn;
