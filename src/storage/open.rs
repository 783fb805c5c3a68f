//! An opening: from the state records to the memory.

use super::delta::{Head, StateRecord};
use super::inbox::{Requests, snapshot_with_copies};
use super::journal::{JournalAtRest, JournalMark, read_journal};
use super::layout::{Layout, Limits};
use super::mark::{Copied, HighWater, RolledBack};
use super::pages::Pages;
use crate::crypto::{SealId, StoreKeys, place};
use crate::error::{Code, Error, Result};
use crate::memory::{Memory, Origin};
use crate::model::schema::Schema;
use crate::model::{Def, SortedMap, SortedSet};
use crate::store::{RecordKey, Snapshot, Store, Table};

/// Pages read in one go, for their names only.
const SCAN_PAGES: usize = 64;

/// How many numbers of records and pages an opening skips after damage. A lost record may have had one of
/// them. Since no new record gets its number, an opening detects the record if somebody puts it back later.
pub(super) const SKIPPED: u64 = 1 << 20;

/// The damage that an opening found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    /// State records altered or missing: every collection is loaded again.
    pub records: u64,
    /// Links whose document is missing.
    pub documents: u64,
    /// Journal records altered or missing: operations may be lost.
    pub journal: u64,
    /// The store is behind its mark: it was put back, or its newest records are gone, or all of them.
    pub rolled_back: Option<RolledBack>,
}

impl Damage {
    /// Whether there was any.
    pub fn any(self) -> bool {
        self.records + self.documents + self.journal > 0 || self.rolled_back.is_some()
    }
}

/// An opened store.
pub struct Opened {
    /// The stored state. The data of documents stays on the device.
    pub memory: Memory,
    /// The layout.
    pub layout: Layout,
    /// The operations and actions.
    pub journal: JournalAtRest,
    /// The damage that the opening found.
    pub damage: Damage,
    /// The commands of followers, including those that only the backup database has.
    pub inbox: Requests,
    /// The latest generation that had begun.
    pub generation: u64,
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opened").field("damage", &self.damage).finish_non_exhaustive()
    }
}

/// Reads the state of a store. Errors: `schema_mismatch`, `storage_failed`; damage is no error (R14).
///
/// `session` is the store's new name if its head is lost; `mark` is the sealed mark of the backup database.
pub async fn open<S: Store>(
    store: &S,
    keys: StoreKeys,
    schema: Schema,
    session: String,
    mark: Option<&[u8]>,
) -> Result<Opened> {
    let high_water = mark.and_then(|sealed| HighWater::open(&keys, sealed));
    let Snapshot { header, records: mut found, generation } = snapshot_with_copies(store).await?;
    let (header, inbox) = (header.unwrap_or_default(), std::mem::take(&mut found[Table::Inbox]));
    let opened = open_all(store, &keys, Table::State, &found[Table::State]).await;
    let Found { mut records, sizes, seals, mut strays } = read_state(&found[Table::State], opened, &keys);
    let mut damage = Damage { records: strays.len() as u64, ..Damage::default() };
    let (base, chunks) = records.values().map(|r| (r.base, r.chunks)).max().unwrap_or_default();
    // Somebody put back records of an earlier checkpoint: they do not count.
    let is_of_now = |r: &StateRecord| (r.base, r.chunks) == (base, chunks);
    let earlier = records.values().filter(|record| !is_of_now(record));
    strays.extend(earlier.map(|record| (Table::State, keys.record_key(Table::State, record.number))));
    records.retain(|_, record| is_of_now(record));
    let last = records.keys().next_back().copied();
    let checkpoint_end = base + u64::from(chunks);
    let next_record = last.map_or(checkpoint_end, |last| checkpoint_end.max(last + 1));
    let expected = next_record - base;
    let is_whole = last.is_some() && records.len() as u64 == expected;
    let behind = high_water.as_ref().filter(|mark| mark.next_record > next_record);
    if !is_whole || behind.is_some() {
        damage.records = damage.records.max(1).max(expected.saturating_sub(records.len() as u64));
    }
    let is_damaged = damage.records > 0;

    let head = records.values().rev().find_map(|record| record.delta.head.clone());
    let other = other_schema(head.as_ref(), &schema, &records)?;
    let is_ahead = other.as_ref().is_some_and(|other| schema.is_ahead_of(other));
    let mut memory = Memory::new(schema);
    // From now on an application with the older schema must not read this store.
    memory.dirty.head |= other.is_some();
    let mut name = head.as_ref().map_or(session, |head| head.session.clone());
    let newest_era = records.values().map(|record| record.delta.newest_era()).max().unwrap_or_default();
    match head {
        Some(Head { epoch, era, .. }) if era >= newest_era => memory.set_epoch(epoch, era),
        // The record with the epoch of these records is lost: all that the server sends is of a later era.
        _ if !records.is_empty() => memory.set_epoch(None, newest_era + 1),
        _ => {}
    }
    let next_page = records.values().map(|record| record.next_page).max().unwrap_or(0);
    let log = records.range(checkpoint_end..);
    let log_bytes = log.map(|(number, _)| sizes[number]).sum();
    let checkpoint_bytes = sizes.values().sum::<usize>() - log_bytes;
    let mut summary = records.values().next_back().map(|record| record.journal).unwrap_or_default();
    let numbers: Vec<u64> = records.keys().copied().collect();
    let mut abandoned = fold_all(&mut memory, records);
    let found = std::mem::take(&mut found[Table::Journal]);
    let mut journal = read_journal(&mut found.iter().map(|(key, bytes)| (*key, &bytes[..])), &keys);
    let mut lost = summary.records.saturating_sub(journal.records.len() as u64).max(journal.damaged);
    damage.rolled_back = behind.map(|mark| mark.lost(&journal));
    // The copy of the journal is better if the store is behind its mark. It is also better if it is of the
    // same journal, and records of that are lost.
    let is_better = |backed_up: &&HighWater| behind.is_some() || (lost > 0 && backed_up.journal == summary);
    let (is_backup_due, is_mark_behind) = backup_due(high_water.as_ref(), next_record, &summary);
    let mut restored = Vec::new();
    if let Some(backed_up) = high_water.as_ref().filter(is_better)
        && let Some(copied) = Copied::read(store, &keys, backed_up).await?
    {
        let restoring = copied.replace(&found.into_iter().collect());
        (journal, restored, lost) = (restoring.journal, restoring.records, 0);
        (summary, name) = (backed_up.journal, backed_up.session.clone());
        damage.rolled_back = damage.rolled_back.map(|rolled_back| RolledBack { lost: 0, ..rolled_back });
        if backed_up.epoch.1 >= memory.epoch().1 {
            memory.set_epoch(backed_up.epoch.0.clone(), backed_up.epoch.1);
        }
    }
    pin_operations(&mut memory, &journal);
    damage.documents = memory.end_opening(is_damaged).documents;
    if is_damaged {
        // A checkpoint is due at once, and it deletes all earlier records.
        strays.extend(numbers.iter().map(|number| (Table::State, keys.record_key(Table::State, *number))));
    }
    damage.journal = lost;
    let skipped = if is_damaged { SKIPPED } else { 0 };
    let numbers_of = |found: u64, of: fn(&HighWater) -> u64| behind.map_or(0, of).max(found) + skipped;
    let next_record = numbers_of(next_record, |mark| mark.next_record);
    // The journal may be there without the state records, and with it the numbers that it has used.
    summary.next_record = summary.next_record.max(journal.next_number());
    summary.next_record = numbers_of(summary.next_record, |mark| mark.journal.next_record);
    let pages = pages_in_use(&memory, numbers_of(next_page, |mark| mark.next_page));
    abandoned.retain(|page| !pages.is_used(*page));
    strays.extend(abandoned.into_iter().map(|page| (Table::Pages, keys.record_key(Table::Pages, page))));
    if is_damaged {
        strays.extend(unused_pages(store, &keys, &pages).await?);
    }
    let layout = Layout {
        keys,
        session: name,
        next_record,
        // Nothing was written under the skipped numbers, so there is nothing to delete.
        base: if is_damaged { next_record } else { base },
        chunks,
        log_bytes,
        checkpoint_bytes,
        pages,
        journal: summary,
        strays,
        maybe_written: Vec::new(),
        header,
        is_backup_due,
        is_mark_behind,
        restored,
        is_rewrite_due: false,
        limits: Limits::default(),
        newest: last.and_then(|last| seals.get(&last).copied()),
        generation: None,
        is_ahead,
    };
    Ok(Opened { memory, layout, journal, damage, inbox, generation })
}

/// Which writes are due in the backup database of a store up to `next_record` with that journal: all, or the
/// mark alone.
fn backup_due(backed_up: Option<&HighWater>, next_record: u64, journal: &JournalMark) -> (bool, bool) {
    let Some(backed_up) = backed_up else { return (true, false) };
    // A late mark may still be of this journal.
    let is_late = backed_up.next_record < next_record && backed_up.journal == *journal;
    (!is_late && backed_up.next_record != next_record, is_late)
}

/// The pages that documents use; `next` is the number of the next one.
fn pages_in_use(memory: &Memory, next: u64) -> Pages {
    let mut pages = Pages::starting_at(next);
    // The next batch frees the slots of documents that just left, and deletes a page when it is empty.
    let leaving = memory.dirty.freed.iter().copied();
    for place in memory.documents().filter_map(|(_, document)| document.slot).chain(leaving) {
        pages.occupy(place);
    }
    pages
}

/// The schema that the store was written under, if it is another one. Errors: `schema_mismatch`, with the number of
/// operations and local documents that a wipe would delete.
fn other_schema(
    head: Option<&Head>,
    schema: &Schema,
    records: &SortedMap<u64, StateRecord>,
) -> Result<Option<Schema>> {
    let Some(head) = head.filter(|head| head.schema != schema.to_json()) else { return Ok(None) };
    let older = Schema::from_json(&head.schema)
        .and_then(|older| schema.check_follows(&older).map(|()| older))
        .map_err(|e| {
            let waiting = records.values().next_back().map_or(0, |record| record.journal.pending);
            let detail = format!("{}, with {waiting} writes and local documents that wait", e.detail());
            Error::new(Code::SchemaMismatch, detail)
        })?;
    Ok(Some(older))
}

/// Opens records of a table, each found under its key; `None` for one that was not sealed for that key. A
/// device with its own cipher does most of the work. A record that it does not open is judged here, as
/// without such a cipher.
pub async fn open_all<S: Store>(
    store: &S,
    keys: &StoreKeys,
    table: Table,
    found: &[(RecordKey, Vec<u8>)],
) -> Vec<Option<Vec<u8>>> {
    let bound: Vec<_> = found.iter().map(|(key, sealed)| (place(table, *key), sealed.as_slice())).collect();
    let mut opened = store.unseal(keys.seal_key(table), &bound).await;
    opened.resize(found.len(), None);
    for (plain, (key, sealed)) in opened.iter_mut().zip(found) {
        if plain.is_none() {
            *plain = keys.open(table, *key, sealed).ok();
        }
    }
    opened
}

/// The state records in the store.
struct Found {
    records: SortedMap<u64, StateRecord>,
    /// The stored bytes of each.
    sizes: SortedMap<u64, usize>,
    /// The id of each record's seal.
    seals: SortedMap<u64, SealId>,
    /// Records that cannot be read.
    strays: Vec<(Table, RecordKey)>,
}

/// Reads the state; `opened` holds the plain bytes of each record.
fn read_state(state: &[(RecordKey, Vec<u8>)], opened: Vec<Option<Vec<u8>>>, keys: &StoreKeys) -> Found {
    let mut found = Found {
        records: SortedMap::new(),
        sizes: SortedMap::new(),
        seals: SortedMap::new(),
        strays: Vec::new(),
    };
    for ((key, sealed), plain) in state.iter().zip(opened) {
        if let Some(Ok(record)) = plain.map(|plain| in_its_place(keys, *key, &plain)) {
            found.sizes.insert(record.number, sealed.len());
            found.seals.extend(SealId::of(sealed).map(|seal| (record.number, seal)));
            found.records.insert(record.number, record);
        } else {
            found.strays.push((Table::State, *key));
        }
    }
    found
}

/// Retains the documents that pending operations touch. It runs before documents without links leave.
fn pin_operations(memory: &mut Memory, journal: &JournalAtRest) {
    for (class, pk) in
        journal.records.iter().filter_map(|record| record.op.as_ref()).flat_map(|op| &op.issued.touches)
    {
        if let Some(key) = memory.doc_key(class, pk) {
            memory.pins.add(&key);
        }
    }
}

/// Pages that no document uses: the records that named them are lost, and nothing else would ever delete
/// them.
async fn unused_pages<S: Store>(
    store: &S,
    keys: &StoreKeys,
    pages: &Pages,
) -> Result<Vec<(Table, RecordKey)>> {
    let used: SortedSet<RecordKey> =
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

pub(super) fn read(keys: &StoreKeys, key: RecordKey, sealed: &[u8]) -> Result<StateRecord> {
    in_its_place(keys, key, &keys.open(Table::State, key, sealed)?)
}

fn in_its_place(keys: &StoreKeys, key: RecordKey, plain: &[u8]) -> Result<StateRecord> {
    let record = StateRecord::decode(plain)?;
    // The record must be under the key of its own number.
    if keys.record_key(Table::State, record.number) == key {
        Ok(record)
    } else {
        Err(Error::new(Code::RecordDamaged, "a state record out of its place"))
    }
}

/// Applies all records to an empty memory. Returns the pages of documents whose class the schema no longer has:
/// these documents are dropped.
fn fold_all(memory: &mut Memory, records: SortedMap<u64, StateRecord>) -> SortedSet<u64> {
    let documents = || records.values().flat_map(|record| &record.delta.documents);
    memory.reserve_documents(documents().map(|(_, states)| states.len()).sum());
    let dropped = documents().filter(|(class, _)| memory.schema().position(class).is_none());
    let dropped =
        dropped.flat_map(|(_, states)| states).filter_map(|(_, state)| Some(state.as_ref()?.place.page));
    let abandoned = dropped.collect();
    let mut links: SortedMap<Def, usize> = SortedMap::new();
    for (def, states) in records.values().flat_map(|record| &record.delta.links) {
        *links.entry(def.clone()).or_default() += states.len();
    }
    for record in records.into_values() {
        memory.apply_stored(record.delta.split().1, Origin::Opening(&links));
    }
    abandoned
}
