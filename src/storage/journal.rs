//! The journal in storage: one sealed record for each operation and its actions. Each change is written under
//! a new number (R10).

use super::layout::Layout;
use crate::codec::record;
use crate::crypto::{Random, StoreKeys};
use crate::error::{Code, Error, Result};
use crate::journal::JournalRecord;
use crate::model::order;
use crate::store::{Batch, Durability, RecordKey, Table};

/// The changes of a batch to the journal.
#[derive(Clone, Debug, Default)]
pub struct JournalChanges {
    /// Records to write, numbered.
    pub records: Vec<JournalRecord>,
    /// Numbers of records that were replaced, or whose content is over.
    pub deletes: Vec<u64>,
    /// Records that could not be read, and were reported.
    pub strays: Vec<RecordKey>,
    /// Commands of the inbox that it carries out.
    pub taken: Vec<RecordKey>,
    /// The journal summary for the state.
    pub summary: JournalMark,
}

/// The journal summary in a state record: it shows whether a journal record is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalMark {
    /// How many records there are.
    pub records: u64,
    /// How many of them hold an operation that is not over.
    pub pending: u64,
    /// The first number that no record has used.
    pub next_record: u64,
    /// The last operation of the session that the server has answered (R11).
    pub last_seq: u64,
    /// How many names the session has had before: an operation accepted under another name has another
    /// number.
    pub name: u64,
}

record!(JournalMark { records, pending, next_record, last_seq, name });

/// The journal as it was read.
#[derive(Clone, Debug, Default)]
pub struct JournalAtRest {
    /// The records, in the order of their numbers.
    pub records: Vec<JournalRecord>,
    /// Records that could not be read: they may have held operations.
    pub damaged: u64,
    /// The keys of the damaged records.
    pub strays: Vec<RecordKey>,
}

impl JournalAtRest {
    /// The first number after those of its records.
    pub(super) fn next_number(&self) -> u64 {
        self.records.last().map_or(0, |record| record.number + 1)
    }
}

impl Layout {
    /// Adds the journal's changes to a batch. Strict durability: after the commit they are on the disk.
    pub fn add_journal(
        &self,
        batch: &mut Batch,
        changes: &JournalChanges,
        random: &mut dyn Random,
    ) -> Result<()> {
        for record in &changes.records {
            let key = self.keys.record_key(Table::Journal, record.number);
            let sealed = self.keys.seal(Table::Journal, key, &record.encode()?, random)?;
            batch.puts.push((Table::Journal, key, sealed));
        }
        let gone = changes.deletes.iter().map(|number| (Table::Journal, self.journal_key(*number)));
        batch.deletes.extend(gone);
        batch.deletes.extend(changes.strays.iter().map(|key| (Table::Journal, *key)));
        batch.deletes.extend(changes.taken.iter().map(|key| (Table::Inbox, *key)));
        batch.durability = Durability::Strict;
        Ok(())
    }

    /// The name of a journal record.
    pub fn journal_key(&self, number: u64) -> RecordKey {
        self.keys.record_key(Table::Journal, number)
    }

    /// Opens a stored journal record.
    pub fn open_journal(&self, number: u64, sealed: &[u8]) -> Result<JournalRecord> {
        read(&self.keys, self.journal_key(number), sealed)
    }
}

/// Reads the whole journal. Damage is no error: this counts it, and the machine reports it (R14).
pub fn read_journal(found: &mut dyn Iterator<Item = (RecordKey, &[u8])>, keys: &StoreKeys) -> JournalAtRest {
    let mut journal = JournalAtRest::default();
    for (key, sealed) in found {
        if let Ok(record) = read(keys, key, sealed) {
            journal.records.push(record);
        } else {
            journal.damaged += 1;
            journal.strays.push(key);
        }
    }
    order::sort_by_key(&mut journal.records, |record| record.number);
    journal
}

fn read(keys: &StoreKeys, key: RecordKey, sealed: &[u8]) -> Result<JournalRecord> {
    let record = JournalRecord::decode(&keys.open(Table::Journal, key, sealed)?)?;
    if keys.record_key(Table::Journal, record.number) == key {
        Ok(record)
    } else {
        Err(Error::new(Code::RecordDamaged, "a journal record out of its place"))
    }
}
