//! What stands beside a store in memory: the header, the mark, and the copies of the journal and of the inbox.

use std::collections::BTreeMap;

use super::{Content, Records};
use crate::store::{Batch, RecordKey, Table, Witness};

/// What stands beside a store.
#[derive(Clone, Default)]
pub(super) struct Beside {
    pub witness: Witness,
    pub journal: BTreeMap<RecordKey, Vec<u8>>,
    pub inbox: BTreeMap<RecordKey, Vec<u8>>,
    /// The latest generation that has written here: an earlier one comes too late.
    pub generation: u64,
}

/// A batch whose part beside the store has not been written yet, with what the store held before it.
pub(super) type Late = (Content, Batch);

impl Beside {
    /// What is handed in comes here before it comes into the store.
    pub fn hand_in(&mut self, batch: &Batch) {
        let requests = batch.puts.iter().filter(|(table, ..)| *table == Table::Inbox);
        self.inbox.extend(requests.map(|(_, key, bytes)| (*key, bytes.clone())));
    }

    /// Takes what a batch does to a store that held `content` before it.
    pub fn write(&mut self, content: &Content, batch: &Batch) {
        if batch.mark.is_none() && batch.header.is_none() {
            return;
        }
        if let Some(generation) = batch.generation {
            if generation < self.generation {
                return;
            }
            self.generation = generation;
        }
        self.witness.header = batch.header.clone().or(self.witness.header.take());
        self.witness.mark = batch.mark.clone().or(self.witness.mark.take());
        if batch.clear {
            self.journal.clear();
        } else if batch.recopy {
            self.journal = of_table(&content.records, Table::Journal);
            self.inbox.extend(of_table(&content.records, Table::Inbox));
        }
        for (table, key) in &batch.deletes {
            match table {
                Table::Journal => self.journal.remove(key),
                Table::Inbox => self.inbox.remove(key),
                Table::State | Table::Pages => None,
            };
        }
        for (_, key, bytes) in batch.puts.iter().filter(|(table, _, _)| *table == Table::Journal) {
            self.journal.insert(*key, bytes.clone());
        }
    }
}

fn of_table(records: &Records, table: Table) -> BTreeMap<RecordKey, Vec<u8>> {
    let records = records.iter().filter(|((place, _), _)| *place == table);
    records.map(|((_, key), bytes)| (*key, bytes.clone())).collect()
}
