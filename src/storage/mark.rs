//! The high-water mark: how far a store had come. It is sealed in the backup database, next to a copy of the
//! journal.
//!
//! A store that is behind its mark was put back, or has lost its newest records or all of them. Browsers
//! repair a damaged database in this way without a report. The copy then restores the data that only this
//! device had.

use super::journal::{JournalAtRest, JournalMark, read_journal};
use super::layout::Layout;
use crate::codec::{pack, record, unpack};
use crate::crypto::{Random, Sealed, StoreKeys};
use crate::error::Result;
use crate::model::{Epoch, SortedMap, SortedSet, order};
use crate::store::{RecordKey, Store, Table};

/// The number under which the mark is sealed: no record reaches it.
const PLACE: u64 = u64::MAX;

/// The content of the mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HighWater {
    /// The first number that no state record has used.
    pub next_record: u64,
    /// The first number that no page has used.
    pub next_page: u64,
    /// How many records there were.
    pub records: u64,
    /// The summary of the journal that the copy is of.
    pub journal: JournalMark,
    /// The store's random name (R11).
    pub session: String,
    /// The epoch of the server's database, once known, and its era.
    pub epoch: (Option<Epoch>, u32),
}

record!(HighWater { next_record, next_page, records, journal, session, epoch });

/// A store that is behind its mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RolledBack {
    /// How many records there were when the store was last written.
    pub records: u64,
    /// How many operations were pending at that time.
    pub pending: u64,
    /// How many of these operations may be lost.
    pub lost: u64,
}

/// The whole copy of the journal in the backup database.
pub(super) struct Copied {
    pub journal: JournalAtRest,
    /// Its sealed records.
    pub sealed: Vec<(RecordKey, Sealed)>,
}

/// A journal that was replaced by its copy.
pub(super) struct Restoring {
    pub journal: JournalAtRest,
    /// Sealed records to put into the store.
    pub records: Vec<(RecordKey, Sealed)>,
}

impl Copied {
    /// The copy; `None` if a part of it cannot be read: the store's journal is better then.
    pub async fn read<S: Store>(store: &S, keys: &StoreKeys, mark: &HighWater) -> Result<Option<Self>> {
        let sealed = store.copies(Table::Journal).await?;
        let journal = read_journal(&mut sealed.iter().map(|(key, sealed)| (*key, &sealed[..])), keys);
        let is_whole = journal.damaged == 0 && journal.records.len() as u64 == mark.journal.records;
        Ok(is_whole.then_some(Copied { journal, sealed }))
    }

    /// Replaces the records `found` in the store by the copy.
    pub fn replace(self, found: &SortedMap<RecordKey, Vec<u8>>) -> Restoring {
        let Copied { mut journal, sealed } = self;
        let keys: SortedSet<RecordKey> = sealed.iter().map(|(key, _)| *key).collect();
        // A record that the copy lacks was over when the store was last written.
        journal.strays = found.keys().filter(|key| !keys.contains(key)).copied().collect();
        order::sort(&mut journal.strays);
        let is_there =
            |key: &RecordKey, sealed: &Sealed| found.get(key).is_some_and(|bytes| bytes[..] == sealed[..]);
        let records = sealed.into_iter().filter(|(key, sealed)| !is_there(key, sealed)).collect();
        Restoring { journal, records }
    }
}

impl HighWater {
    /// Opens the mark of the backup database; `None` if it cannot be read: it says nothing then.
    pub(super) fn open(keys: &StoreKeys, sealed: &[u8]) -> Option<Self> {
        HighWater::decode(&keys.open(Table::State, place(keys), sealed).ok()?)
    }

    /// Reads the plain bytes of a mark; `None` if they are not one.
    pub fn decode(plain: &[u8]) -> Option<Self> {
        unpack(plain)
    }

    /// The possible loss of a store that is behind this mark; `journal` is its present journal.
    pub(super) fn lost(&self, journal: &JournalAtRest) -> RolledBack {
        let found = journal.records.iter().filter(|record| record.op.is_some()).count() as u64;
        // The newest record and as many operations are there. The server can send the rest again.
        let has_newest = journal.next_number() >= self.journal.next_record;
        let lost = if has_newest && found >= self.journal.pending { 0 } else { self.journal.pending };
        RolledBack { records: self.records, pending: self.journal.pending, lost }
    }
}

impl Layout {
    /// The mark, sealed.
    pub(super) fn seal_mark(&self, mark: &HighWater, random: &mut dyn Random) -> Result<Sealed> {
        self.keys.seal(Table::State, place(&self.keys), &pack(mark)?, random)
    }
}

fn place(keys: &StoreKeys) -> RecordKey {
    keys.record_key(Table::State, PLACE)
}
