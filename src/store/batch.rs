//! A batch: all changes that one step makes to the stored state, as one value (R7).

use crate::crypto::Sealed;
use crate::model::{RecordKey, Table};

/// How safe a batch must be when its commit resolves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// Passed to the operating system. For data that the server can send again.
    #[default]
    Relaxed,
    /// On the disk. For data that only this device has.
    Strict,
}

/// Puts and deletes that are written together or not at all. Records are sealed before the transaction opens:
/// a batch takes no other bytes, except for the header.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Deletes the store's records first, so that only the batch remains. The inbox and the generations stay,
    /// because other sessions wrote them.
    pub clear: bool,
    /// A new header, in clear. The backup gets a copy.
    pub header: Option<Vec<u8>>,
    /// The sealed high-water mark, which the backup gets once the rest is written. A failure there is no
    /// error. A batch without it and without a header writes nothing to the backup, except by `hands_in`.
    pub mark: Option<Sealed>,
    /// The backup's copy of the journal does not match the store, for example because the store was cleared.
    /// It is made again from all records of the store after this batch. Otherwise the copy gets the batch's
    /// changes of the journal.
    pub recopy: bool,
    /// Records to write.
    pub puts: Vec<(Table, RecordKey, Sealed)>,
    /// Records to delete. A key without a record is no error.
    pub deletes: Vec<(Table, RecordKey)>,
    /// How safe the batch must be.
    pub durability: Durability,
    /// The batch puts requests into the inbox. They are written to the backup too, and there first: the
    /// leader takes them from either.
    pub hands_in: bool,
    /// The generation of the writer. If a later one has begun, nothing is written. `None`: no check is made.
    pub generation: Option<u64>,
}

impl Batch {
    /// Whether the batch changes nothing in the store itself. It may still carry a high-water mark for the
    /// backup.
    pub fn is_empty(&self) -> bool {
        !self.clear && self.header.is_none() && self.puts.is_empty() && self.deletes.is_empty()
    }

    /// Bytes of the records to write.
    pub fn bytes(&self) -> usize {
        self.puts.iter().map(|(_, _, sealed)| sealed.len()).sum()
    }
}
