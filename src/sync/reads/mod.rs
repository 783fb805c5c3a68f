//! Reads: documents' data, queries, and the documents that the application sees.

mod answer;
mod damage;
mod readings;
mod visibility;

pub use readings::{Read, Reads};
pub use visibility::{find, list};
