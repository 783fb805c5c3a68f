//! The high-water mark: how far a store had come, kept sealed beside it. A store that is behind its mark was put back, or
//! has lost its newest records, or all of them: browsers repair a damaged database so, and say nothing.

use serde::{Deserialize, Serialize};

use super::journal::{JournalAtRest, JournalMark};
use super::writer::Rest;
use crate::crypto::{Random, StoreKeys};
use crate::error::{Code, Error, Result};
use crate::store::{RecordKey, Table};

/// The number under which the mark is sealed: no record comes so far.
const PLACE: u64 = u64::MAX;

/// What the mark says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HighWater {
    /// The first number that no state record has used.
    pub next_record: u64,
    /// The same of pages.
    pub next_page: u64,
    /// The same of journal records.
    pub next_journal: u64,
    /// How many records there were.
    pub records: u64,
    /// How many operations were not over.
    pub pending: u64,
}

/// A store that is behind its mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RolledBack {
    /// How many records there were when the store was last written.
    pub records: u64,
    /// How many operations were not over then.
    pub pending: u64,
    /// How many of them may be lost.
    pub lost: u64,
}

impl HighWater {
    /// The mark found beside a store; `None` where it cannot be read: it then tells nothing.
    pub(super) fn open(keys: &StoreKeys, sealed: &[u8]) -> Option<Self> {
        HighWater::decode(&keys.open(Table::State, place(keys), sealed).ok()?)
    }

    /// Reads the plain bytes of a mark; `None` where they are none.
    pub fn decode(plain: &[u8]) -> Option<Self> {
        rmp_serde::from_slice(plain).ok()
    }

    /// What a store that is behind this mark may have lost, by what its journal still holds.
    pub(super) fn lost(self, journal: &JournalAtRest) -> RolledBack {
        let found = journal.records.iter().filter(|record| record.op.is_some()).count() as u64;
        let newest = journal.records.last().map_or(0, |record| record.number + 1);
        // The newest record is there, and as many operations as there were: what is gone is the server's to tell again.
        let is_there = found >= self.pending && newest >= self.next_journal;
        let lost = if self.pending == 0 || is_there { 0 } else { self.pending };
        RolledBack { records: self.records, pending: self.pending, lost }
    }
}

impl Rest {
    /// The mark for a store of these records, sealed.
    pub(super) fn seal_mark(
        &self,
        next: (u64, u64),
        records: u64,
        journal: JournalMark,
        random: &mut dyn Random,
    ) -> Result<Vec<u8>> {
        let (next_record, next_page) = next;
        let mark = HighWater {
            next_record,
            next_page,
            next_journal: journal.next_record,
            records: records + journal.records,
            pending: journal.pending,
        };
        let plain = rmp_serde::to_vec(&mark).map_err(|e| Error::new(Code::Internal, e.to_string()))?;
        Ok(self.keys.seal(Table::State, place(&self.keys), &plain, random)?.into_bytes())
    }
}

fn place(keys: &StoreKeys) -> RecordKey {
    keys.record_key(Table::State, PLACE)
}
