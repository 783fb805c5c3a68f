//! How the memory is laid out at rest (docs/format.md): the only place that knows what a record means.
//!
//! Documents' data rests in *pages*, many rows sealed as one record, since the number of records is what costs.
//! What is needed to open (documents' versions and places, collections, links, marks) rests in *state records*: a
//! checkpoint, then a log of changes. A record that was committed is never overwritten and its number never used again,
//! so that what was altered, swapped or put back from an earlier time is found out (R14). A page's number is spent even
//! where its batch fails; a state record's is taken by the next batch.

mod account;
mod checkpoint;
mod columns;
mod delta;
mod inbox;
mod journal;
mod mark;
mod open;
mod page;
mod pages;
mod reopen;
mod tail;
#[cfg(test)]
mod tests;
mod writer;

pub use account::{Account, AccountOptions, open_account, rewrap};
pub use inbox::{Requests, with_copies};
pub use journal::{JournalAtRest, JournalChanges, JournalMark};
pub use mark::{HighWater, RolledBack};
pub use open::{Damage, Opened, open};
pub use page::{FoundPage, PageRow};
pub use reopen::{Expected, Reopened, Verdict, reopen};
pub use tail::{LogRecord, Reader, Tail};
pub use writer::{Layout, Limits, Receipt};

/// Decoders of bytes at rest, for the fuzz targets and the corpus.
#[cfg(any(test, feature = "testing"))]
pub mod decoders {
    pub use super::delta::StateRecord;
    pub use super::mark::HighWater;
    pub use super::page::{PAGE_BYTES_MAX, decode_page, encode_page};
}
