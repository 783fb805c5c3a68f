//! A document in memory.

use super::defs::Defs;
use super::stamp::Stamp;
use crate::codec::Data;
use crate::model::Pk;

/// Which document: the position of its class in the schema, and its pk.
pub type DocKey = (u16, Pk);

/// Where a document's data rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageRef {
    /// The page's number.
    pub page: u64,
    /// The row in the page.
    pub slot: u32,
    /// How many bytes of data it has.
    pub bytes: u32,
}

/// A document's data, or where it is.
#[derive(Clone, Debug)]
pub enum Content {
    /// In memory; not at rest, or not yet.
    Resident(Data),
    /// On the device only, where `rest` says.
    AtRest,
    /// Found damaged: asked for again (R14).
    Lost,
}

/// A document: its version, where its data is, and the defs that hold it.
#[derive(Clone, Debug)]
pub struct Document {
    /// Names this version of this document for as long as the session is open; never used again.
    pub id: u32,
    /// The version of the data held.
    pub at: Stamp,
    /// Minutes since 1970 of the end of its logical life.
    pub max_life: Option<u64>,
    /// The data.
    pub content: Content,
    /// Where the last version that was written rests; an older one than `at` until the next batch is.
    pub slot: Option<PageRef>,
    /// The defs that hold it, ascending; the version of each link stands in the collection (R2).
    pub defs: Defs,
}

impl Document {
    /// Whether its logical life has ended by that time, in milliseconds since 1970.
    pub fn is_expired(&self, now_ms: u64) -> bool {
        self.max_life.is_some_and(|minutes| minutes.saturating_mul(60_000) <= now_ms)
    }
}
