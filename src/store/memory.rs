//! The twin of the browser's device in memory, for the tests and the simulator. (`incognito` uses no device.)

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::rc::Rc;

use super::{BackupHeader, Batch, Device, Durability, FENCES_KEPT, RecordKey, Snapshot, Store, Table};
use crate::crypto::Sealed;
use crate::error::{Code, Error, Result, fail};
use crate::model::{Copying, PerTable};

mod backup;

use backup::{Backup, Late};

type Records = BTreeMap<(Table, RecordKey), Vec<u8>>;

/// Records, each with its value before a batch; `None` if it did not exist.
type Before = Vec<((Table, RecordKey), Option<Vec<u8>>)>;

/// The number of relaxed batches that a power failure may still undo. Older ones are on the disk by then.
const UNSYNCED_MAX: usize = 32;

#[derive(Clone, Default)]
struct Content {
    header: Option<Vec<u8>>,
    records: Records,
    /// The values that relaxed batches replaced since the last strict one, the oldest batch first.
    unsynced: VecDeque<Replaced>,
    owned: bool,
    /// The generations that have begun.
    fences: BTreeSet<u64>,
    is_deleted: bool,
}

/// The values that one batch replaced.
#[derive(Clone)]
struct Replaced {
    header: Option<Vec<u8>>,
    records: Before,
}

impl Content {
    fn write(&mut self, batch: Batch) {
        let header = self.header.clone();
        let mut records = Before::new();
        if batch.clear {
            self.header = None;
            // Records of other sessions stay: the leader must not lose them.
            let (kept, cleared): (Records, Records) =
                std::mem::take(&mut self.records).into_iter().partition(|((table, _), _)| table.is_shared());
            self.records = kept;
            records.extend(cleared.into_iter().map(|(key, old)| (key, Some(old))));
        }
        records.extend(self.change(batch.deletes, batch.puts));
        let replaced = Replaced { header, records };
        if batch.header.is_some() {
            self.header = batch.header;
        }
        match batch.durability {
            Durability::Strict => self.unsynced.clear(),
            Durability::Relaxed => self.unsynced.push_back(replaced),
        }
        if self.unsynced.len() > UNSYNCED_MAX {
            self.unsynced.pop_front();
        }
    }

    fn change(&mut self, deletes: Vec<(Table, RecordKey)>, puts: Vec<(Table, RecordKey, Sealed)>) -> Before {
        let mut replaced = Vec::with_capacity(deletes.len() + puts.len());
        for key in deletes {
            replaced.push((key, self.records.remove(&key)));
        }
        for (table, key, sealed) in puts {
            replaced.push(((table, key), self.records.insert((table, key), sealed.into_bytes())));
        }
        replaced
    }
}

type Shared = Rc<RefCell<Content>>;
type Backups = Rc<RefCell<HashMap<String, Backup>>>;

/// A device whose stores exist as long as it does. Clones share their stores.
#[derive(Clone, Default)]
pub struct MemoryDevice {
    stores: Rc<RefCell<HashMap<String, Shared>>>,
    /// The backups of the stores, as in a second database.
    backups: Backups,
    is_shared: bool,
}

/// A store of a [`MemoryDevice`].
pub struct MemoryStore {
    name: String,
    content: Shared,
    backups: Backups,
    open: RefCell<bool>,
    is_shared: bool,
    /// Writes to the backup that a test delays; `None` while nothing is delayed.
    late: RefCell<Option<Vec<Late>>>,
}

impl MemoryDevice {
    /// A device without any store. Each store has one holder at a time.
    pub fn new() -> Self {
        MemoryDevice::default()
    }

    /// A device whose stores each have any number of holders, as in the browser.
    pub fn shared() -> Self {
        MemoryDevice { is_shared: true, ..MemoryDevice::default() }
    }

    /// A copy of all stored data, as a backup or a crash would find it. No store in it is owned.
    pub fn snapshot(&self) -> MemoryDevice {
        let stores = self.stores.borrow();
        let copy = stores.iter().map(|(name, content)| {
            let mut content = content.borrow().clone();
            content.owned = false;
            (name.clone(), Rc::new(RefCell::new(content)))
        });
        let backups = Rc::new(RefCell::new(self.backups.borrow().clone()));
        MemoryDevice { stores: Rc::new(RefCell::new(copy.collect())), backups, is_shared: self.is_shared }
    }

    /// Replaces a store by its state in `copy`, or empties it if there is none. Its backup stays. For tests.
    pub fn put_back(&self, name: &str, copy: &MemoryDevice) {
        let earlier =
            copy.stores.borrow().get(name).map(|content| content.borrow().clone()).unwrap_or_default();
        if let Some(content) = self.stores.borrow().get(name) {
            let mut content = content.borrow_mut();
            *content = Content { owned: content.owned, ..earlier };
        }
    }

    /// Drops a store that no session has open, but not its backup: browsers repair a damaged database in this
    /// way.
    pub fn vanish(&self, name: &str) {
        self.stores.borrow_mut().remove(name);
    }

    /// Drops the backup of a store, but not the store.
    pub fn vanish_backup(&self, name: &str) {
        self.backups.borrow_mut().remove(name);
    }

    /// Replaces the backup of a store by its state in `copy`, as if later batches had not reached it. For
    /// tests.
    pub fn put_back_backup(&self, name: &str, copy: &MemoryDevice) {
        let earlier = copy.backups.borrow().get(name).cloned().unwrap_or_default();
        self.backups.borrow_mut().insert(name.to_owned(), earlier);
    }

    /// Changes the backup's header and high-water mark, for tests of damage.
    pub fn tamper_backup(&self, name: &str, change: impl FnOnce(&mut BackupHeader)) {
        change(&mut self.backups.borrow_mut().entry(name.to_owned()).or_default().header);
    }

    /// Changes the backup's copy of the journal, for tests of damage.
    pub fn tamper_copies(&self, name: &str, change: impl FnOnce(&mut BTreeMap<RecordKey, Vec<u8>>)) {
        change(&mut self.backups.borrow_mut().entry(name.to_owned()).or_default().journal);
    }

    /// Simulates a power failure: undoes the newest relaxed batches, at most `batches` of them. Undoes as
    /// many of the backup's newest transactions, which are never strict. Gives the number of batches that
    /// were undone.
    pub fn lose_power(&self, name: &str, batches: usize) -> usize {
        if let Some(backup) = self.backups.borrow_mut().get_mut(name) {
            backup.lose_power(batches);
        }
        let stores = self.stores.borrow();
        let Some(mut content) = stores.get(name).map(|content| content.borrow_mut()) else { return 0 };
        let mut lost = 0;
        while lost < batches
            && let Some(replaced) = content.unsynced.pop_back()
        {
            content.header = replaced.header;
            for (key, before) in replaced.records.into_iter().rev() {
                match before {
                    Some(bytes) => content.records.insert(key, bytes),
                    None => content.records.remove(&key),
                };
            }
            lost += 1;
        }
        lost
    }

    /// Changes stored records without the owner's knowledge, for tests of damage.
    pub fn tamper(&self, name: &str, change: impl FnOnce(&mut Records)) {
        if let Some(content) = self.stores.borrow().get(name) {
            change(&mut content.borrow_mut().records);
        }
    }

    /// Changes the header, for tests of damage.
    pub fn tamper_header(&self, name: &str, change: impl FnOnce(&mut Option<Vec<u8>>)) {
        if let Some(content) = self.stores.borrow().get(name) {
            change(&mut content.borrow_mut().header);
        }
    }
}

impl Device for MemoryDevice {
    type Store = MemoryStore;

    async fn open(&self, name: &str, create: bool) -> Result<Option<MemoryStore>> {
        let mut stores = self.stores.borrow_mut();
        let is_known = |backup: &HashMap<String, Backup>| {
            backup.get(name).is_some_and(|backup| backup.header.header.is_some())
        };
        if !create && !stores.contains_key(name) && !is_known(&self.backups.borrow()) {
            return Ok(None);
        }
        let content = stores.entry(name.to_owned()).or_default().clone();
        if !self.is_shared && std::mem::replace(&mut content.borrow_mut().owned, true) {
            return fail(Code::StoreInUse, "another session of this device owns the store");
        }
        let (name, backups) = (name.to_owned(), self.backups.clone());
        let (open, is_shared) = (RefCell::new(true), self.is_shared);
        Ok(Some(MemoryStore { name, content, backups, open, is_shared, late: RefCell::default() }))
    }

    async fn delete(&self, name: &str) -> Result<()> {
        let mut stores = self.stores.borrow_mut();
        if stores.get(name).is_some_and(|content| content.borrow().owned) {
            return fail(Code::StoreInUse, "another session of this device owns the store");
        }
        if let Some(content) = stores.remove(name) {
            // A session that has the store open gets `closed` from now on.
            *content.borrow_mut() = Content { is_deleted: true, ..Content::default() };
        }
        self.backups.borrow_mut().remove(name);
        Ok(())
    }
}

impl MemoryStore {
    /// From now on batches are written to the store, but the backup's part is delayed, as by a tab that
    /// freezes in between. For tests.
    pub fn hold_backup(&self) {
        self.late.borrow_mut().get_or_insert_default();
    }

    /// Writes the delayed parts to the backup. For tests.
    pub fn release_backup(&self) {
        for (content, batch) in self.late.take().unwrap_or_default() {
            self.backup(|backup| backup.write(&content, &batch));
        }
    }

    fn backup<T>(&self, act: impl FnOnce(&mut Backup) -> T) -> T {
        act(self.backups.borrow_mut().entry(self.name.clone()).or_default())
    }

    fn content(&self) -> Result<&Shared> {
        if !*self.open.borrow() {
            return Err(Error::new(Code::Closed, "the store is closed"));
        }
        if self.content.borrow().is_deleted {
            return fail(Code::Closed, "the store was wiped");
        }
        Ok(&self.content)
    }

    fn last_generation(&self, content: &Content) -> u64 {
        content.fences.last().copied().unwrap_or_else(|| self.backup(|backup| backup.generation))
    }

    fn release(&self) {
        if self.open.replace(false) && !self.is_shared {
            self.content.borrow_mut().owned = false;
        }
    }
}

impl Store for MemoryStore {
    async fn header(&self) -> Result<Option<Vec<u8>>> {
        Ok(self.content()?.borrow().header.clone())
    }

    async fn get(&self, table: Table, keys: &[RecordKey]) -> Result<Vec<Option<Vec<u8>>>> {
        let content = self.content()?.borrow();
        Ok(keys.iter().map(|key| content.records.get(&(table, *key)).cloned()).collect())
    }

    async fn scan(
        &self,
        table: Table,
        after: Option<RecordKey>,
        limit: usize,
    ) -> Result<Vec<(RecordKey, Vec<u8>)>> {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let from = after.map_or(Included((table, RecordKey([0; 16]))), |key| Excluded((table, key)));
        let content = self.content()?.borrow();
        let records = content.records.range((from, Unbounded)).take_while(|((t, _), _)| *t == table);
        Ok(records.take(limit).map(|((_, key), bytes)| (*key, bytes.clone())).collect())
    }

    async fn snapshot(&self) -> Result<Snapshot> {
        let content = self.content()?.borrow();
        let all = |table| {
            let of_table = content.records.iter().filter(move |((t, _), _)| *t == table);
            of_table.map(|((_, key), bytes)| (*key, bytes.clone())).collect()
        };
        Ok(Snapshot {
            header: content.header.clone(),
            records: PerTable::of(|table| if table.is_read_whole() { all(table) } else { Vec::new() }),
            generation: self.last_generation(&content),
        })
    }

    async fn generation(&self) -> Result<u64> {
        Ok(self.last_generation(&self.content()?.borrow()))
    }

    async fn take_over(&self, seen: u64) -> Result<Option<u64>> {
        let mut content = self.content()?.borrow_mut();
        let next = seen + 1;
        if !content.fences.insert(next) {
            return Ok(None);
        }
        content.fences.retain(|fence| fence + FENCES_KEPT > next);
        Ok(Some(next))
    }

    async fn commit(&self, batch: Batch) -> Result<()> {
        let content = self.content()?;
        if batch.generation.is_some_and(|generation| content.borrow().fences.contains(&(generation + 1))) {
            return fail(Code::Deposed, "a later generation has begun");
        }
        if batch.hands_in {
            self.backup(|backup| backup.hand_in(&batch));
        }
        match &mut *self.late.borrow_mut() {
            Some(late) => late.push((content.borrow().clone(), batch.clone())),
            None => self.backup(|backup| backup.write(&content.borrow(), &batch)),
        }
        content.borrow_mut().write(batch);
        Ok(())
    }

    async fn backup_header(&self) -> Result<BackupHeader> {
        self.content()?;
        Ok(self.backups.borrow().get(&self.name).map(|backup| backup.header.clone()).unwrap_or_default())
    }

    async fn copies(&self, table: Table) -> Result<Vec<(RecordKey, Sealed)>> {
        self.content()?;
        let copies = self.backup(|backup| match table.copying() {
            Copying::WithMark => backup.journal.clone(),
            Copying::HandedIn => backup.inbox.clone(),
            Copying::Never => BTreeMap::new(),
        });
        Ok(copies.into_iter().map(|(key, bytes)| (key, Sealed::from_backup(bytes))).collect())
    }

    async fn reopen(&self) -> Result<()> {
        self.content().map(|_| ())
    }

    async fn close(&self) {
        self.release();
    }
}

impl Drop for MemoryStore {
    // A crashed process owns nothing any more.
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::conformance;

    #[test]
    fn memory_passes_the_conformance_suite() {
        conformance::block_on(conformance::all(&MemoryDevice::new()));
    }

    #[test]
    fn the_power_takes_what_was_relaxed_and_nothing_else() {
        let device = MemoryDevice::new();
        let store = conformance::block_on(device.open("a", true)).unwrap().unwrap();
        let write = |n: u8, durability| {
            let key = RecordKey([n; 16]);
            let sealed = Sealed::stand_in([n]);
            let puts = vec![(Table::State, key, sealed.clone()), (Table::Pages, RecordKey([0; 16]), sealed)];
            let deletes = vec![(Table::State, RecordKey([n - 1; 16]))];
            let batch = Batch { puts, deletes, durability, header: Some(vec![n]), ..Batch::default() };
            conformance::block_on(store.commit(batch)).unwrap();
        };
        for (n, durability) in [(1, Durability::Relaxed), (2, Durability::Strict), (3, Durability::Relaxed)] {
            write(n, durability);
        }
        let before = device.snapshot();
        write(4, Durability::Relaxed);
        let rests = |device: &MemoryDevice| {
            let content = device.stores.borrow()["a"].borrow().clone();
            (content.header, content.records)
        };
        assert_eq!(device.lose_power("a", 1), 1);
        assert_eq!(rests(&device), rests(&before));
        assert_eq!(device.lose_power("a", 9), 1, "up to the strict one");
        assert_eq!(rests(&device).0, Some(vec![2]));
        assert_eq!(device.lose_power("a", 9), 0);
    }

    #[test]
    fn the_power_takes_what_stands_beside_the_store_however_it_was_written() {
        let device = MemoryDevice::new();
        let store = conformance::block_on(device.open("a", true)).unwrap().unwrap();
        let key = |n: u8| RecordKey([n; 16]);
        let backup = |device: &MemoryDevice| {
            let backup = device.backups.borrow()["a"].clone();
            (backup.header.header, backup.header.mark, backup.journal, backup.inbox)
        };
        let mut before = Vec::new();
        for n in 1..=4_u8 {
            let puts = vec![(Table::Journal, key(n), Sealed::stand_in([n]))];
            let batch = Batch {
                puts,
                deletes: vec![(Table::Journal, key(n - 1))],
                durability: Durability::Strict,
                header: (n == 1).then(|| vec![n]),
                mark: Some(Sealed::stand_in([n])),
                clear: n == 3,
                recopy: n == 4,
                ..Batch::default()
            };
            conformance::block_on(store.commit(batch)).unwrap();
            before.push(backup(&device));
        }
        for n in (0..3).rev() {
            assert_eq!(device.lose_power("a", 1), 0, "the store itself was written strictly");
            assert_eq!(backup(&device), before[n], "as after batch {}", n + 1);
        }
        device.lose_power("a", 9);
        assert_eq!(backup(&device), (None, None, BTreeMap::new(), BTreeMap::new()));
    }

    #[test]
    fn shared_memory_passes_the_suite_of_sharing() {
        conformance::block_on(conformance::shared(&MemoryDevice::shared()));
    }
}
