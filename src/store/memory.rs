//! The twin in memory: the store of the tests and of the simulator (`incognito` has none).

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;

use super::{Batch, Device, Durability, RecordKey, Store, Table, Witness};
use crate::error::{Code, Error, Result, fail};

type Records = BTreeMap<(Table, RecordKey), Vec<u8>>;

/// Records with what stood there before.
type Before = Vec<((Table, RecordKey), Option<Vec<u8>>)>;

/// Batches that a loss of power may still take; older ones have reached the disk by then.
const UNSYNCED_MAX: usize = 32;

#[derive(Clone, Default)]
struct Content {
    header: Option<Vec<u8>>,
    records: Records,
    /// What relaxed batches replaced since the last strict one, the oldest first.
    unsynced: VecDeque<Replaced>,
    owned: bool,
}

/// What a batch replaced.
#[derive(Clone)]
struct Replaced {
    header: Option<Vec<u8>>,
    records: Before,
}

impl Content {
    fn write(&mut self, batch: Batch) {
        let cleared: Before = match batch.clear {
            true => {
                std::mem::take(&mut self.records).into_iter().map(|(key, old)| (key, Some(old))).collect()
            }
            false => Vec::new(),
        };
        let header = self.header.clone();
        if batch.clear {
            self.header = None;
        }
        let mut records = cleared;
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

    fn change(&mut self, deletes: Vec<(Table, RecordKey)>, puts: Vec<(Table, RecordKey, Vec<u8>)>) -> Before {
        let mut replaced = Vec::with_capacity(deletes.len() + puts.len());
        for key in deletes {
            replaced.push((key, self.records.remove(&key)));
        }
        for (table, key, bytes) in puts {
            replaced.push(((table, key), self.records.insert((table, key), bytes)));
        }
        replaced
    }
}

type Shared = Rc<RefCell<Content>>;
type Witnesses = Rc<RefCell<HashMap<String, Witness>>>;

/// A device whose stores live as long as it does. Clones share their stores.
#[derive(Clone, Default)]
pub struct MemoryDevice {
    stores: Rc<RefCell<HashMap<String, Shared>>>,
    /// What stands beside the stores, as a second database would.
    witnesses: Witnesses,
}

/// A store of a [`MemoryDevice`].
pub struct MemoryStore {
    name: String,
    content: Shared,
    witnesses: Witnesses,
    open: RefCell<bool>,
}

impl MemoryDevice {
    /// A device without any store.
    pub fn new() -> Self {
        MemoryDevice::default()
    }

    /// A copy of everything at rest, as a backup or a crash would find it; nothing in it is owned.
    pub fn snapshot(&self) -> MemoryDevice {
        let stores = self.stores.borrow();
        let copy = stores.iter().map(|(name, content)| {
            let mut content = content.borrow().clone();
            content.owned = false;
            (name.clone(), Rc::new(RefCell::new(content)))
        });
        let witnesses = Rc::new(RefCell::new(self.witnesses.borrow().clone()));
        MemoryDevice { stores: Rc::new(RefCell::new(copy.collect())), witnesses }
    }

    /// Puts a store back as it is in `copy`, or empty where it has none; what stands beside it stays. For tests.
    pub fn put_back(&self, name: &str, copy: &MemoryDevice) {
        let earlier =
            copy.stores.borrow().get(name).map(|content| content.borrow().clone()).unwrap_or_default();
        if let Some(content) = self.stores.borrow().get(name) {
            let mut content = content.borrow_mut();
            *content = Content { owned: content.owned, ..earlier };
        }
    }

    /// Changes what stands beside a store, for tests of damage.
    pub fn tamper_witness(&self, name: &str, change: impl FnOnce(&mut Witness)) {
        change(self.witnesses.borrow_mut().entry(name.to_owned()).or_default());
    }

    /// The power fails: the newest of the batches that were not written with strict durability, `batches` of them at
    /// most, are gone. Gives how many went.
    pub fn lose_power(&self, name: &str, batches: usize) -> usize {
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

    /// Changes what rests, behind the back of whoever owns it: for tests of damage.
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
        if !create && !stores.contains_key(name) {
            return Ok(None);
        }
        let content = stores.entry(name.to_owned()).or_default().clone();
        if std::mem::replace(&mut content.borrow_mut().owned, true) {
            return fail(Code::StoreInUse, "another session of this device owns the store");
        }
        let (name, witnesses) = (name.to_owned(), self.witnesses.clone());
        Ok(Some(MemoryStore { name, content, witnesses, open: RefCell::new(true) }))
    }

    async fn delete(&self, name: &str) -> Result<()> {
        let mut stores = self.stores.borrow_mut();
        if stores.get(name).is_some_and(|content| content.borrow().owned) {
            return fail(Code::StoreInUse, "another session of this device owns the store");
        }
        stores.remove(name);
        self.witnesses.borrow_mut().remove(name);
        Ok(())
    }
}

impl MemoryStore {
    fn content(&self) -> Result<&Shared> {
        if *self.open.borrow() {
            Ok(&self.content)
        } else {
            Err(Error::new(Code::Closed, "the store is closed"))
        }
    }

    fn release(&self) {
        if self.open.replace(false) {
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

    async fn commit(&self, batch: Batch) -> Result<()> {
        let content = self.content()?;
        if batch.header.is_some() || batch.mark.is_some() {
            let mut witnesses = self.witnesses.borrow_mut();
            let witness = witnesses.entry(self.name.clone()).or_default();
            witness.header = batch.header.clone().or(witness.header.take());
            witness.mark = batch.mark.clone().or(witness.mark.take());
        }
        content.borrow_mut().write(batch);
        Ok(())
    }

    async fn witness(&self) -> Result<Witness> {
        self.content()?;
        Ok(self.witnesses.borrow().get(&self.name).cloned().unwrap_or_default())
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
            let puts = vec![(Table::State, key, vec![n]), (Table::Pages, RecordKey([0; 16]), vec![n])];
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
}
