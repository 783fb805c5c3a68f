//! The backup of a store in memory: the header, the high-water mark, and the copies of the journal and of the
//! inbox.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{Content, Records, UNSYNCED_MAX};
use crate::model::Copying;
use crate::store::{BackupHeader, Batch, RecordKey, Table};

/// The backup of one store.
#[derive(Clone, Default)]
pub(super) struct Backup {
    pub header: BackupHeader,
    pub journal: BTreeMap<RecordKey, Vec<u8>>,
    pub inbox: BTreeMap<RecordKey, Vec<u8>>,
    /// The latest generation that has written the backup. An earlier one may no longer write.
    pub generation: u64,
    /// The values that the newest transactions replaced, the oldest first. All of these transactions are
    /// relaxed.
    unsynced: VecDeque<Replaced>,
}

/// The values that one transaction replaced.
#[derive(Clone)]
struct Replaced {
    header: BackupHeader,
    generation: u64,
    journal: Before,
    inbox: Before,
}

/// Records of a table, each with its value before; `None` if it did not exist.
type Before = Vec<(RecordKey, Option<Vec<u8>>)>;

/// A delayed write: the store's content before the batch, and the batch.
pub(super) type Late = (Content, Batch);

impl Backup {
    /// Writes the requests of a batch, before the store gets them.
    pub fn hand_in(&mut self, batch: &Batch) {
        self.remember(batch, &Records::new());
        let requests = batch.puts.iter().filter(|(table, ..)| *table == Table::Inbox);
        self.inbox.extend(requests.map(|(_, key, sealed)| (*key, sealed.to_vec())));
    }

    /// Writes the backup's part of a batch. The store held `content` before the batch.
    pub fn write(&mut self, content: &Content, batch: &Batch) {
        if batch.mark.is_none() && batch.header.is_none() {
            return;
        }
        if batch.generation.is_some_and(|generation| generation < self.generation) {
            return;
        }
        let none = Records::new();
        self.remember(batch, if batch.recopy { &content.records } else { &none });
        self.generation = batch.generation.unwrap_or(self.generation);
        self.header.header = batch.header.clone().or(self.header.header.take());
        self.header.mark = batch.mark.as_deref().map(<[u8]>::to_vec).or(self.header.mark.take());
        if batch.clear {
            self.journal.clear();
        } else if batch.recopy {
            self.journal = of_table(&content.records, Table::Journal);
            self.inbox.extend(of_table(&content.records, Table::Inbox));
        }
        for (table, key) in &batch.deletes {
            match table.copying() {
                Copying::WithMark => self.journal.remove(key),
                Copying::HandedIn => self.inbox.remove(key),
                Copying::Never => None,
            };
        }
        for (table, key, sealed) in &batch.puts {
            if table.copying() == Copying::WithMark {
                self.journal.insert(*key, sealed.to_vec());
            }
        }
    }

    /// Records the values that a batch is about to replace. `copied` is all that is copied again.
    fn remember(&mut self, batch: &Batch, copied: &Records) {
        let puts = batch.puts.iter().map(|(table, key, _)| (*table, *key));
        let touched: BTreeSet<_> =
            puts.chain(batch.deletes.iter().copied()).chain(copied.keys().copied()).collect();
        let whole = batch.clear || batch.recopy;
        let before = |table: Table, records: &BTreeMap<RecordKey, Vec<u8>>| -> Before {
            let of_table = touched.iter().filter(|(place, _)| *place == table).map(|(_, key)| *key);
            let all = records.keys().copied().filter(|_| whole);
            let keys: BTreeSet<RecordKey> = of_table.chain(all).collect();
            keys.into_iter().map(|key| (key, records.get(&key).cloned())).collect()
        };
        let (journal, inbox) = (before(Table::Journal, &self.journal), before(Table::Inbox, &self.inbox));
        let (header, generation) = (self.header.clone(), self.generation);
        self.unsynced.push_back(Replaced { header, generation, journal, inbox });
        if self.unsynced.len() > UNSYNCED_MAX {
            self.unsynced.pop_front();
        }
    }

    /// Simulates a power failure: undoes the newest transactions, at most that many.
    pub fn lose_power(&mut self, transactions: usize) {
        for _ in 0..transactions {
            let Some(Replaced { header, generation, journal, inbox }) = self.unsynced.pop_back() else {
                break;
            };
            (self.header, self.generation) = (header, generation);
            put_back(&mut self.journal, journal);
            put_back(&mut self.inbox, inbox);
        }
    }
}

fn put_back(records: &mut BTreeMap<RecordKey, Vec<u8>>, before: Before) {
    for (key, bytes) in before {
        match bytes {
            Some(bytes) => records.insert(key, bytes),
            None => records.remove(&key),
        };
    }
}

fn of_table(records: &Records, table: Table) -> BTreeMap<RecordKey, Vec<u8>> {
    let records = records.iter().filter(|((place, _), _)| *place == table);
    records.map(|((_, key), bytes)| (*key, bytes.clone())).collect()
}
