//! Queries of the documents in memory, and the indexes that answer them (R30, R31).

mod column;
mod index;
mod new_ids;
mod parse;
mod span;

pub use column::Column;
pub use index::{Cursor, Index};
pub use new_ids::NewIds;
pub use parse::{Order, Predicate, Query};
pub use span::Span;
