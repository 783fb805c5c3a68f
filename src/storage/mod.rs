//! The layout of the memory in storage (docs/format.md): no other code knows the meaning of a record.
//!
//! The data of documents is in *pages*, many rows sealed as one record, since the number of records is the
//! main cost. An opening needs the versions and slots of documents, collections, links and removal
//! tombstones. They are in *state records*: a checkpoint, then a log of changes.
//!
//! A committed record is never overwritten, and its number is never used again. An opening therefore detects
//! records that somebody altered, swapped or put back from an earlier time (R14). A page's number is used up
//! even if its batch fails; the next batch takes the number of a state record that failed.

mod account;
mod checkpoint;
mod columns;
#[cfg(test)]
mod damage_tests;
mod delta;
#[cfg(test)]
mod edge_tests;
#[cfg(test)]
mod history_tests;
mod inbox;
mod journal;
mod layout;
mod mark;
mod open;
mod page;
mod pages;
mod reopen;
mod tail;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod world_tests;
mod writer;

pub use account::{Account, AccountOptions, open_account, rewrap};
pub use inbox::{Requests, with_copies};
pub use journal::{JournalAtRest, JournalChanges, JournalMark};
pub use layout::{Layout, Limits};
pub use mark::{HighWater, RolledBack};
pub use open::{Damage, Opened, open, open_all};
pub use page::{FoundPage, PageRow};
pub use reopen::{Expected, Reopened, Verdict, reopen};
pub use tail::{LogRecord, StateReader, Tail};
pub use writer::Receipt;

/// Decoders of stored bytes, for the fuzz targets and the corpus.
#[cfg(any(test, feature = "testing"))]
pub mod decoders {
    pub use super::delta::StateRecord;
    pub use super::mark::HighWater;
    pub use super::page::{PAGE_BYTES_MAX, decode_page, encode_page};
}
