//! The twin in memory: the store of the tests and of the simulator (`incognito` has none).

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use super::{Batch, Device, RecordKey, Store, Table, Witness};
use crate::error::{Code, Error, Result, fail};

#[derive(Clone, Default)]
struct Content {
    header: Option<Vec<u8>>,
    records: BTreeMap<(Table, RecordKey), Vec<u8>>,
    owned: bool,
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

    /// Changes what rests, behind the back of whoever owns it: for tests of damage.
    pub fn tamper(&self, name: &str, change: impl FnOnce(&mut BTreeMap<(Table, RecordKey), Vec<u8>>)) {
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
        let mut content = self.content()?.borrow_mut();
        if batch.clear {
            content.header = None;
            content.records.clear();
        }
        if batch.header.is_some() {
            content.header.clone_from(&batch.header);
        }
        for (table, key) in batch.deletes {
            content.records.remove(&(table, key));
        }
        for (table, key, bytes) in batch.puts {
            content.records.insert((table, key), bytes);
        }
        if batch.header.is_some() || batch.mark.is_some() {
            let mut witnesses = self.witnesses.borrow_mut();
            let witness = witnesses.entry(self.name.clone()).or_default();
            witness.header = batch.header.or(witness.header.take());
            witness.mark = batch.mark.or(witness.mark.take());
        }
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
}
