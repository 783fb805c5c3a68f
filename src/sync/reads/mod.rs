//! Reads: documents' data, queries, and the documents that the application sees.

mod answer;
mod coverage;
mod damage;
mod indexed;
mod indexes;
mod readings;
mod search;
mod seeds;
mod visibility;

pub use indexes::check_query;
pub use readings::{Read, Reads};
pub use visibility::{Changes, changes, find, held, list};
