//! A document in memory, and the reference to its data in storage.

use super::defs::Defs;
use super::stamp::Stamp;
use crate::codec::Data;
use crate::model::Pk;

/// Identifies a document: the position of its class in the schema, and its pk.
pub type DocKey = (u16, Pk);

/// The slot of a document's data in storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageRef {
    /// The page's number.
    pub page: u64,
    /// The row in the page.
    pub slot: u32,
    /// The size of its data in bytes.
    pub bytes: u32,
}

/// The stored facts about a document, without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DocumentAtRest {
    /// The version.
    pub at: Stamp,
    /// Minutes since 1970 at which the document expires.
    pub max_life: Option<u64>,
    /// The slot of its data.
    pub place: PageRef,
}

/// A document's data, or the reason why it is not in memory.
#[derive(Clone, Debug)]
pub enum Content {
    /// In memory, and not in storage, or not yet.
    Resident(Data),
    /// In storage only, in the document's `slot`.
    AtRest,
    /// Found damaged: requested again (R14).
    Lost,
}

/// A document: its version, its data, and the defs that hold it.
#[derive(Clone, Debug)]
pub struct Document {
    /// Identifies this version of this document as long as the session is open; never used again.
    pub id: u32,
    /// The version of the data.
    pub at: Stamp,
    /// Minutes since 1970 at which the document expires.
    pub max_life: Option<u64>,
    /// The data.
    pub content: Content,
    /// The slot of the last version written. That version is older than `at` until the next batch is written.
    pub slot: Option<PageRef>,
    /// The defs that hold it, ascending; the collection has the version of each link (R2).
    pub defs: Defs,
}

impl Document {
    /// Whether it has expired by that time, in milliseconds since 1970.
    pub fn is_expired(&self, now_ms: u64) -> bool {
        is_over(self.max_life, now_ms)
    }
}

/// Whether a life that ends at that minute is over.
pub(super) fn is_over(max_life: Option<u64>, now_ms: u64) -> bool {
    max_life.is_some_and(|minutes| minutes.saturating_mul(60_000) <= now_ms)
}
