//! Opening: from the state records to the memory.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::delta::{Delta, Head, StateRecord};
use super::journal::{JournalAtRest, scan_journal};
use super::pages::Pages;
use super::writer::{Limits, Rest};
use crate::crypto::StoreKeys;
use crate::error::{Code, Error, Result};
use crate::model::schema::Schema;
use crate::session::Memory;
use crate::store::{RecordKey, Store, Table};

/// Records read in one go.
const SCAN_RECORDS: usize = 256;

/// Pages read in one go, for their names only.
const SCAN_PAGES: usize = 64;

/// Page numbers skipped after damage: those that a lost record may have used are not used again.
const SKIPPED_PAGES: u64 = 1 << 20;

/// What was found damaged while opening.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    /// State records altered or missing: every collection is loaded anew.
    pub records: u64,
    /// Links whose document is not there.
    pub documents: u64,
    /// Journal records altered or missing: operations may be lost.
    pub journal: u64,
}

impl Damage {
    /// Whether anything was.
    pub fn any(self) -> bool {
        self.records + self.documents + self.journal > 0
    }
}

/// An opened store.
pub struct Opened {
    /// What rests on the device, the documents' data left there.
    pub memory: Memory,
    /// The layout.
    pub rest: Rest,
    /// The operations and actions.
    pub journal: JournalAtRest,
    /// What was found damaged.
    pub damage: Damage,
}

/// Reads the state of a store. Errors: `schema_mismatch`, `storage_failed`; damage is no error (R14).
///
/// `session` names the store anew where its head is lost.
pub async fn open<S: Store>(store: &S, keys: StoreKeys, schema: Schema, session: String) -> Result<Opened> {
    let mut records: BTreeMap<u64, StateRecord> = BTreeMap::new();
    let mut sizes: HashMap<u64, usize> = HashMap::new();
    let mut strays: Vec<(Table, RecordKey)> = Vec::new();
    let mut after = None;
    loop {
        let found = store.scan(Table::State, after, SCAN_RECORDS).await?;
        let Some((last, _)) = found.last() else { break };
        after = Some(*last);
        for (key, sealed) in found {
            match read(&keys, key, &sealed) {
                Ok(record) => {
                    sizes.insert(record.number, sealed.len());
                    records.insert(record.number, record);
                }
                Err(_) => strays.push((Table::State, key)),
            }
        }
    }
    let mut damage = Damage { records: strays.len() as u64, ..Damage::default() };
    let (base, chunks) = records.values().map(|r| (r.base, r.chunks)).max().unwrap_or((0, 0));
    // Records of an earlier checkpoint were put back by somebody: they count for nothing.
    let earlier = records.keys().filter(|number| **number < base);
    strays.extend(earlier.map(|number| (Table::State, keys.record_key(Table::State, *number))));
    records.retain(|number, _| *number >= base);
    let last = records.keys().next_back().copied();
    let expected = last.map_or(0, |last| (last + 1 - base).max(u64::from(chunks)));
    let is_whole = records.len() as u64 == expected && expected > 0;
    if !is_whole {
        damage.records = damage.records.max(1).max(expected.saturating_sub(records.len() as u64));
    }

    let head = records.values().rev().find_map(|record| record.delta.head.clone());
    if let Some(head) = &head {
        let older =
            Schema::from_json(&head.schema).map_err(|e| Error::new(Code::SchemaMismatch, e.detail()))?;
        schema.check_follows(&older)?;
    }
    let mut memory = Memory::new(schema);
    let name = head.as_ref().map_or(session, |head| head.session.clone());
    if let Some(Head { epoch, era, .. }) = head {
        memory.restore_epoch(epoch, era);
    }
    let next_page = records.values().map(|record| record.next_page).max().unwrap_or(0);
    let log = records.iter().filter(|(number, _)| **number >= base + u64::from(chunks));
    let log_bytes = log.map(|(number, _)| sizes[number]).sum();
    let checkpoint_bytes = sizes.values().sum::<usize>() - log_bytes;
    let records_mark = records.values().next_back().map(|record| record.journal).unwrap_or_default();
    for record in records.into_values() {
        fold(&mut memory, record.delta);
    }
    let mark = records_mark;
    let journal = scan_journal(store, &keys).await?;
    let lost = mark.records.saturating_sub(journal.records.len() as u64).max(journal.damaged);
    for op in journal.records.iter().filter_map(|record| record.op.as_ref()) {
        for (class, pk) in &op.touches {
            if let Some(key) = memory.doc_key(class, pk) {
                memory.pin(&key);
            }
        }
    }
    let missing = memory.restore_links();
    if damage.records > 0 {
        memory.restart_all();
        // A checkpoint is due at once, and it deletes what cannot be read.
        strays.extend(last.map(|last| (Table::State, keys.record_key(Table::State, last))));
    }
    damage.documents = missing.documents;
    damage.journal = lost;
    let skipped = if damage.records > 0 { SKIPPED_PAGES } else { 0 };
    let mut pages = Pages::starting_at(next_page + skipped);
    for (_, document) in memory.documents() {
        if let Some(place) = document.rest {
            pages.occupy(place);
        }
    }
    if damage.records > 0 {
        strays.extend(unused_pages(store, &keys, &pages).await?);
    }
    let rest = Rest {
        keys,
        session: name,
        next_record: last.map_or(0, |last| last + 1).max(base + u64::from(chunks)),
        base,
        chunks,
        log_bytes,
        checkpoint_bytes,
        pages,
        journal: mark,
        strays,
        limits: Limits::default(),
    };
    Ok(Opened { memory, rest, journal, damage })
}

/// Pages that no document rests in: the records that knew them are lost, and nothing else would ever delete them.
async fn unused_pages<S: Store>(
    store: &S,
    keys: &StoreKeys,
    pages: &Pages,
) -> Result<Vec<(Table, RecordKey)>> {
    let used: HashSet<RecordKey> =
        pages.numbers().map(|number| keys.record_key(Table::Pages, number)).collect();
    let mut unused = Vec::new();
    let mut after = None;
    loop {
        let found = store.scan(Table::Pages, after, SCAN_PAGES).await?;
        let Some((last, _)) = found.last() else { return Ok(unused) };
        after = Some(*last);
        unused.extend(
            found.into_iter().filter(|(key, _)| !used.contains(key)).map(|(key, _)| (Table::Pages, key)),
        );
    }
}

fn read(keys: &StoreKeys, key: RecordKey, sealed: &[u8]) -> Result<StateRecord> {
    let record = StateRecord::decode(&keys.open(Table::State, key, sealed)?)?;
    // The number inside names the record: a record of this store under another's name cannot be.
    if keys.record_key(Table::State, record.number) == key {
        Ok(record)
    } else {
        Err(Error::new(Code::RecordDamaged, "a state record out of its place"))
    }
}

fn fold(memory: &mut Memory, delta: Delta) {
    for (def, state) in delta.collections {
        match state {
            Some(state) => memory.restore_collection(&def, state.v, state.ready, state.load),
            None => memory.restore_no_collection(&def),
        }
    }
    for (class, states) in delta.documents {
        // A class that the schema no longer has takes its documents with it.
        let Some(position) = memory.schema().position(&class) else { continue };
        for (pk, state) in states {
            memory.restore_document((position as u16, pk), state.map(Into::into));
        }
    }
    for (def, states) in delta.links {
        for state in states {
            memory.restore_link(&def, &state.0, state.member(), state.mark());
        }
    }
}
