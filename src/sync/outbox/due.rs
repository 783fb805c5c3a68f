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

/// The records that the next batch writes and deletes.
#[derive(Default)]
pub struct Due {
    /// Operations whose record must be written, by order.
    dirty: SortedSet<u64>,
    /// Records of operations that are over, to be written. The first part is the number of the record to be
    /// replaced.
    ended: Vec<(Option<u64>, JournalRecord)>,
    /// Records to delete.
    dropped: SortedSet<u64>,
    /// The records in `dropped` that belonged to discarded operations. Operations blocked by one are not sent
    /// before its record is deleted (R12).
    given_up: Vec<GivenUp>,
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
            let (order, id, keys) = (op.state.order, op.state.issued.id.clone(), op.keys.clone());
            self.given_up.push(GivenUp { record, order, id, keys });
        }
    }

    /// Schedules the record of an operation that is over, in the place of the one of that number.
    pub fn end(&mut self, old: Option<u64>, record: JournalRecord) {
        self.ended.push((old, record));
    }

    /// The records of operations that are over, with the numbers of those to be replaced.
    pub fn ended(&self) -> &[(Option<u64>, JournalRecord)] {
        &self.ended
    }

    /// Schedules the deletion of a record.
    pub fn delete(&mut self, record: u64) {
        self.dropped.insert(record);
    }

    /// These records are gone from the device.
    pub fn deleted(&mut self, records: &[u64]) {
        self.given_up.retain(|op| records.binary_search(&op.record).is_err());
    }

    /// The discarded operations whose records are not deleted yet.
    pub fn given_up(&self) -> &[GivenUp] {
        &self.given_up
    }

    /// Everything that the next batch writes and deletes.
    pub fn take(&mut self) -> Taken {
        Taken {
            dirty: std::mem::take(&mut self.dirty),
            ended: std::mem::take(&mut self.ended),
            dropped: std::mem::take(&mut self.dropped),
        }
    }

    /// The batch was not written.
    pub fn put_back(&mut self, taken: Taken) {
        self.dirty.extend(taken.dirty);
        self.ended.extend(taken.ended);
        self.dropped.extend(taken.dropped);
    }

    /// The device has lost the whole journal: nothing is left to delete, and the pending operations of these orders are
    /// written again.
    pub fn start_over(&mut self, orders: Vec<u64>) {
        self.dropped.clear();
        self.given_up.clear();
        self.dirty.extend(orders);
        self.ended.retain(|(_, record)| !record.lost);
        for (old, _) in &mut self.ended {
            *old = None;
        }
    }
}

/// The records of one batch.
pub struct Taken {
    /// Operations whose record is written, by order.
    pub dirty: SortedSet<u64>,
    /// Records of operations that are over, with the numbers of those that they replace.
    pub ended: Vec<(Option<u64>, JournalRecord)>,
    /// Records that are deleted.
    pub dropped: SortedSet<u64>,
}
