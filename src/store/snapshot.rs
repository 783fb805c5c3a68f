//! A store at one point in time.

use crate::model::{PerTable, RecordKey};

/// Records of one table, in the order of their keys.
type Records = Vec<(RecordKey, Vec<u8>)>;

/// All records that an opening needs, read in one transaction, so that no write in between makes them
/// inconsistent.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The header; `None` in a new store.
    pub header: Option<Vec<u8>>,
    /// Every record of the tables that an opening reads whole.
    pub records: PerTable<Records>,
    /// The latest generation that has begun.
    pub generation: u64,
}
