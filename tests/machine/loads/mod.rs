//! Kinds of loads: references, damaged documents that come again.

mod references;
mod repair;
