//! The changes that are due to the journal.

use crate::journal::{JournalRecord, OpId, PendingOp};
use crate::memory::DocKey;
use crate::model::SortedSet;

/// A discarded operation. Until its record is deleted from the device, a crash would bring the operation
/// back.
pub struct GivenUp {
    /// The number of its journal record.
    pub record: u64,
    pub order: u64,
    pub id: OpId,
    pub keys: Vec<DocKey>,
}

#[derive(Default)]
pub struct Due {
    /// Operations whose record must be written, by order.
    pub dirty: SortedSet<u64>,
    /// Records of operations that are over, to be written. The first part is the number of the record to be
    /// replaced.
    pub ended: Vec<(Option<u64>, JournalRecord)>,
    /// Records to delete.
    pub dropped: SortedSet<u64>,
    /// The records in `dropped` that belonged to discarded operations. Operations blocked by one are not sent
    /// before its record is deleted (R12).
    pub given_up: Vec<GivenUp>,
}

impl Due {
    /// Whether nothing remains to be written or deleted.
    pub fn is_clean(&self) -> bool {
        self.dirty.is_empty() && self.is_removed()
    }

    /// The same, except that records of pending operations may remain to be written.
    pub fn is_removed(&self) -> bool {
        self.ended.is_empty() && self.dropped.is_empty()
    }

    /// Schedules an operation's record to be written again.
    pub fn rewrite(&mut self, order: u64) {
        self.dirty.insert(order);
    }

    /// Cancels the writing of an operation's record.
    pub fn leave(&mut self, order: u64) {
        self.dirty.remove(&order);
    }

    /// Removes every trace of an operation, as if it had never been issued.
    pub fn forget(&mut self, op: &PendingOp) {
        if let Some(record) = op.record {
            self.dropped.insert(record);
            let (order, id, keys) = (op.state.order, op.state.id.clone(), op.keys.clone());
            self.given_up.push(GivenUp { record, order, id, keys });
        }
    }
}
