//! A store at one moment.

use super::batch::RecordKey;

/// Records of one table, in the order of their keys.
type Records = Vec<(RecordKey, Vec<u8>)>;

/// What is needed to open, read in one transaction: nothing that is written meanwhile can tear it.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The header; `None` in a new store.
    pub header: Option<Vec<u8>>,
    /// Every record of the table of that name.
    pub state: Records,
    /// The same of the journal.
    pub journal: Records,
    /// The same of the inbox.
    pub inbox: Records,
    /// The latest generation that has begun.
    pub generation: u64,
}
