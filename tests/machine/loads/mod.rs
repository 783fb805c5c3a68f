//! Kinds of loads: references, the documents of a class, damaged documents that come again.

mod references;
mod repair;
mod seeds;
