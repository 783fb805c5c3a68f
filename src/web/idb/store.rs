//! An open store. Each read and each batch is one transaction whose requests are all made at once: if the
//! code awaited between two requests, the browser would end the transaction in the middle.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use js_sys::{Array, Object, Promise, Reflect, Uint8Array};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;
use web_sys::{IdbDatabase, IdbObjectStore, IdbRequest, IdbTransaction};

use super::backup::{Backup, Change, Copies};
use super::connect::connect;
use super::connection::{Closed, Connection, OnClosed};
use super::databases::Databases;
use super::ending::{end_reading, end_writing, learn};
use super::failure;
use super::lock::StoreLock;
use super::records::{HEADER_TABLE, from_key, from_value, header_key, range_after, record_of, to_key};
use crate::crypto::{Sealed, place};
use crate::error::{Code, Result, fail};
use crate::model::PerTable;
use crate::storage::FoundPage;
use crate::store::{BackupHeader, Batch, Durability, RecordKey, Snapshot, Store, Table};
use crate::web::platform::bytes::bytes_of;
use crate::web::platform::cipher::Cipher;
use crate::web::platform::patience::SILENT_MS;
use crate::web::platform::promise::Deferred;

#[wasm_bindgen]
extern "C" {
    // Bound here because rexie's transactions have no durability, and web-sys keeps it among its unstable
    // interfaces. Browsers that do not know the third argument ignore it.
    #[wasm_bindgen(extends = IdbDatabase)]
    type DurableDatabase;
    #[wasm_bindgen(method, catch)]
    fn transaction(
        this: &DurableDatabase,
        tables: &Array,
        mode: &str,
        options: &Object,
    ) -> std::result::Result<IdbTransaction, JsValue>;
}

pub(super) const READING: &str = "reading the store";
pub(super) const WRITING: &str = "writing the store";

/// Below this size, the core opens records sooner than the browser's cipher on another thread.
const UNSEAL_BYTES_MIN: usize = 8 << 10;

/// Resolves the promise of a batch when it is dropped, even if the future that waits for the batch is
/// dropped.
struct Over(js_sys::Function);

impl Over {
    fn new(last_batch: &RefCell<Option<Promise>>) -> Self {
        let over = Deferred::new();
        *last_batch.borrow_mut() = Some(over.promise);
        Over(over.resolve)
    }
}

impl Drop for Over {
    fn drop(&mut self) {
        // The engine's own function, called with no arguments.
        let _ = self.0.call0(&JsValue::UNDEFINED);
    }
}

/// An open database, which other tabs may have open too. Dropping it closes it, but only `close` waits until
/// it can be deleted.
pub struct IdbStore {
    name: String,
    databases: Databases,
    /// The handle; `None` while the store is opened again.
    connection: RefCell<Option<Connection>>,
    /// The backup database.
    pub(super) backup: Rc<Backup>,
    /// Taken by `close`.
    lock: RefCell<Option<StoreLock>>,
    /// Resolves with the last batch that was sent. Batches run one after the other, so all earlier ones are
    /// over by then.
    last_batch: RefCell<Option<Promise>>,
    /// Called if the handle dies by itself.
    listener: Rc<RefCell<Option<OnClosed>>>,
    /// The database was deleted by a tab, so it is not made again.
    is_wiped: Rc<Cell<bool>>,
    /// The generation that this handle began last; 0 if none.
    pub(super) begun: Cell<u64>,
    /// Opens pages with the browser's own cipher.
    cipher: RefCell<Option<Rc<Cipher>>>,
}

impl IdbStore {
    pub(super) fn new(
        name: &str,
        databases: Databases,
        database: IdbDatabase,
        lock: StoreLock,
        backup: Rc<Backup>,
    ) -> Self {
        let store = IdbStore {
            name: name.to_owned(),
            databases,
            connection: RefCell::default(),
            backup,
            lock: RefCell::new(Some(lock)),
            last_batch: RefCell::default(),
            listener: Rc::default(),
            is_wiped: Rc::default(),
            begun: Cell::new(0),
            cipher: RefCell::default(),
        };
        store.keep(database);
        store
    }

    /// From now on pages are opened as they are read, if the browser has a cipher.
    pub fn open_pages_with(&self, key: &[u8; 32]) {
        *self.cipher.borrow_mut() = Cipher::new(key).map(Rc::new);
    }

    /// Reads pages by key, in the order of the keys; `None` for a page that does not exist.
    pub async fn read_pages(&self, keys: &[RecordKey]) -> Result<Vec<Option<FoundPage>>> {
        let get = |table: &IdbObjectStore| keys.iter().map(|key| table.get(&to_key(key))).collect();
        let found = self.read(Table::Pages.name(), true, get).await?;
        let cipher = self.cipher.borrow().clone();
        let mut opened = match cipher {
            Some(cipher) => {
                let bytes = found.iter().map(|value| bytes_of(value).unwrap_or_default());
                let places = keys.iter().map(|key| place(Table::Pages, *key));
                cipher.open(&places.zip(bytes).collect::<Vec<_>>()).await
            }
            None => Vec::new(),
        };
        opened.resize(found.len(), None);
        let page = |(value, opened): (&JsValue, Option<Vec<u8>>)| match opened {
            Some(plain) => Some(FoundPage::Opened(plain)),
            None => record_of(value).map(FoundPage::Sealed),
        };
        Ok(found.iter().zip(opened).map(page).collect())
    }

    /// Whether the store belongs to a rehearsal.
    pub fn is_rehearsed(&self) -> bool {
        self.databases.are_given()
    }

    /// Calls `listener` if the handle dies by itself, or because another tab wants the database.
    pub fn on_closed(&self, listener: impl Fn(Closed) + 'static) {
        *self.listener.borrow_mut() = Some(Rc::new(listener));
    }

    fn keep(&self, database: IdbDatabase) {
        let (listener, is_wiped) = (Rc::clone(&self.listener), Rc::clone(&self.is_wiped));
        let backup = Rc::clone(&self.backup);
        let on_closed: OnClosed = Rc::new(move |closed| {
            if closed == Closed::Wiped {
                is_wiped.set(true);
                backup.leave();
            }
            let listener = listener.borrow().clone();
            if let Some(listener) = listener {
                listener(closed);
            }
        });
        *self.connection.borrow_mut() = Some(Connection::new(database, on_closed));
    }

    /// Why the handle is no longer usable, if so.
    fn lost(&self) -> Option<&'static str> {
        self.connection.borrow().as_ref().map_or(Some("the database is being opened anew"), |c| c.lost.get())
    }

    /// Errors: `storage_closed` if the handle is no longer usable.
    fn check_handle(&self) -> Result<()> {
        self.lost().map_or(Ok(()), |why| fail(Code::StorageClosed, why))
    }

    /// The error of a transaction. If the handle died meanwhile, that is the reason, whichever error the
    /// transaction gives.
    pub(super) fn failed(&self, error: crate::error::Error) -> crate::error::Error {
        match self.lost() {
            Some(why) => crate::error::Error::new(Code::StorageClosed, why),
            None => error,
        }
    }

    /// Waits for the end of a transaction.
    pub(super) async fn over(
        &self,
        silent_ms: u64,
        settled: Deferred,
    ) -> std::result::Result<JsValue, JsValue> {
        let over = self.connection.borrow().as_ref().map(|connection| connection.over(silent_ms, settled));
        match over {
            Some(over) => over.await,
            None => Err(JsValue::UNDEFINED),
        }
    }

    /// The records that the backup database copies, as they are stored.
    async fn to_copy(&self) -> Result<Copies> {
        let journal = self.scan(Table::Journal, None, usize::MAX).await?;
        Ok(Copies { journal, inbox: self.scan(Table::Inbox, None, usize::MAX).await? })
    }

    /// Errors: `closed` if the store was closed or wiped.
    fn check_open(&self) -> Result<()> {
        if self.lock.borrow().is_none() {
            return fail(Code::Closed, "the store is closed");
        }
        if self.is_wiped.get() {
            return fail(Code::Closed, "the store was wiped");
        }
        Ok(())
    }

    pub(super) fn begin(
        &self,
        tables: &[&str],
        mode: &str,
        durability: Durability,
    ) -> Result<IdbTransaction> {
        self.check_open()?;
        self.check_handle()?;
        let what = if mode == "readonly" { READING } else { WRITING };
        let tables: Array = tables.iter().map(|table| JsValue::from_str(table)).collect();
        let options = Object::new();
        let durability = match durability {
            Durability::Relaxed => "relaxed",
            Durability::Strict => "strict",
        };
        // A plain object takes any property.
        let _ = Reflect::set(&options, &"durability".into(), &durability.into());
        let database = self.connection.borrow().as_ref().map(|connection| connection.database.clone());
        let Some(database) = database else { return fail(Code::StorageClosed, "the database is closed") };
        let database: &DurableDatabase = database.unchecked_ref();
        // If the database was closed under us, this throws `InvalidStateError`.
        database.transaction(&tables, mode, &options).map_err(|e| failure::of_exception(what, &e))
    }

    /// Tests once whether the browser's transactions may be ended explicitly.
    pub(super) async fn learn(&self) {
        learn(|| self.begin(&[HEADER_TABLE], "readwrite", Durability::Relaxed).ok()).await;
    }

    /// Makes requests in a transaction that reads one table, and gives their results. With `ends`, the
    /// transaction is committed at once, so that a frozen tab makes no other tab wait. `ends` is allowed only
    /// if no request reads a whole table: Chromium delivers those in pieces, and may end the transaction
    /// before the last one.
    pub(super) async fn read(
        &self,
        table: &str,
        ends: bool,
        make: impl FnOnce(&IdbObjectStore) -> std::result::Result<Vec<IdbRequest>, JsValue>,
    ) -> Result<Vec<JsValue>> {
        let failed = |exception: &JsValue| failure::of_exception(READING, exception);
        let transaction = self.begin(&[table], "readonly", Durability::Relaxed)?;
        let requests = transaction.object_store(table).and_then(|t| make(&t)).map_err(|e| failed(&e))?;
        let Some(last) = requests.last() else {
            end_reading(&transaction);
            return Ok(Vec::new());
        };
        // Requests are carried out in the order in which they are made: if the last one succeeded, all did.
        let done = Deferred::new();
        last.set_onsuccess(Some(&done.resolve));
        transaction.set_onerror(Some(&done.reject));
        transaction.set_onabort(Some(&done.reject));
        if ends {
            end_reading(&transaction);
        }
        if let Err(event) = self.over(SILENT_MS, done).await {
            return Err(self.failed(failure::of_transaction(READING, &transaction, &event)));
        }
        requests.iter().map(IdbRequest::result).collect::<std::result::Result<_, _>>().map_err(|e| failed(&e))
    }
}

impl Store for IdbStore {
    async fn header(&self) -> Result<Option<Vec<u8>>> {
        let results = self.read(HEADER_TABLE, true, |table| Ok(vec![table.get(&header_key())?])).await?;
        Ok(results.first().and_then(record_of))
    }

    async fn get(&self, table: Table, keys: &[RecordKey]) -> Result<Vec<Option<Vec<u8>>>> {
        let results = self
            .read(table.name(), true, |table| keys.iter().map(|key| table.get(&to_key(key))).collect())
            .await?;
        Ok(results.iter().map(record_of).collect())
    }

    async fn scan(
        &self,
        table: Table,
        after: Option<RecordKey>,
        limit: usize,
    ) -> Result<Vec<(RecordKey, Vec<u8>)>> {
        // IndexedDB takes a limit of 0 for no limit.
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        if limit == 0 {
            return Ok(Vec::new());
        }
        let mut after = after.as_ref().map(to_key);
        loop {
            let results = self
                .read(table.name(), false, |table| {
                    let range = range_after(after.as_ref())?;
                    let keys = table.get_all_keys_with_key_and_limit(&range, limit)?;
                    Ok(vec![keys, table.get_all_with_key_and_limit(&range, limit)?])
                })
                .await?;
            let [keys, values] = results.as_slice() else { return Ok(Vec::new()) };
            let (keys, values) = (Array::from(keys), Array::from(values));
            let records = keys.iter().zip(values.iter());
            let ours: Vec<_> =
                records.filter_map(|(key, value)| Some((from_key(&key)?, from_value(&value)))).collect();
            if !ours.is_empty() || keys.length() < limit {
                return Ok(ours);
            }
            // No key in this result was ours. The scan goes on, because an empty result must mean the end.
            after = Some(keys.get(keys.length() - 1));
        }
    }

    async fn snapshot(&self) -> Result<Snapshot> {
        self.read_whole().await
    }

    async fn generation(&self) -> Result<u64> {
        Ok(self.look_first().await?.0)
    }

    async fn take_over(&self, seen: u64) -> Result<Option<u64>> {
        Ok(self.take_over_peeking(seen, &[]).await?.map(|(generation, _)| generation))
    }

    async fn commit(&self, batch: Batch) -> Result<()> {
        // Batches that touch different tables would run side by side. So every batch includes the header's
        // table: then they run, and end, in the order in which they were sent.
        let touched = |t: Table| {
            batch.puts.iter().any(|put| put.0 == t) || batch.deletes.iter().any(|delete| delete.0 == t)
        };
        let is_cleared = |t: Table| batch.clear && !t.is_shared();
        let tables = Table::ALL.into_iter().filter(|t| is_cleared(*t) || touched(*t)).map(Table::name);
        let tables: Vec<&str> = [HEADER_TABLE].into_iter().chain(tables).collect();
        self.check_open()?;
        let over = Over::new(&self.last_batch);
        self.learn().await;
        if batch.hands_in {
            // First into the backup: once a request is in the store, the leader may take it out of both.
            self.backup.hand_in(&batch).await;
        }
        if batch.is_empty() {
            self.check_handle()?;
            // A batch that carries only a high-water mark changes nothing in the store itself.
            self.backup.write(Change::of(batch), async || self.to_copy().await).await;
            return Ok(());
        }
        let transaction = self.begin(&tables, "readwrite", batch.durability)?;
        if let Err(exception) = request_all(&transaction, &batch) {
            // Half a batch must not be written.
            let _ = transaction.abort();
            return Err(failure::of_exception(WRITING, &exception));
        }
        let change = Change::of(batch);
        let settled = Deferred::new();
        transaction.set_oncomplete(Some(&settled.resolve));
        transaction.set_onerror(Some(&settled.reject));
        transaction.set_onabort(Some(&settled.reject));
        end_writing(&transaction);
        let result = match self.over(SILENT_MS, settled).await {
            Ok(_) => {
                // Only one of the two databases is written at a time, so that a crash damages at most one of
                // them.
                self.backup.write(change, async || self.to_copy().await).await;
                Ok(())
            }
            Err(event) => Err(self.failed(failure::of_transaction(WRITING, &transaction, &event))),
        };
        drop(over);
        result
    }

    async fn backup_header(&self) -> Result<BackupHeader> {
        self.check_open()?;
        Ok(self.backup.backup_header_now().await)
    }

    async fn copies(&self, table: Table) -> Result<Vec<(RecordKey, Sealed)>> {
        self.check_open()?;
        let copies = self.backup.copies(table).await.into_iter();
        Ok(copies.map(|(key, bytes)| (key, Sealed::from_backup(bytes))).collect())
    }

    async fn peek(&self) -> Result<(u64, Option<Vec<u8>>, BackupHeader)> {
        let (generation, header) = self.look_first().await?;
        Ok((generation, header, self.backup.backup_header().await))
    }

    async fn unseal(&self, key: &[u8; 32], records: &[(Vec<u8>, &[u8])]) -> Vec<Option<Vec<u8>>> {
        let bytes: usize = records.iter().map(|(_, sealed)| sealed.len()).sum();
        let cipher = if bytes < UNSEAL_BYTES_MIN { None } else { Cipher::new(key) };
        let Some(cipher) = cipher else { return Vec::new() };
        let records: Vec<_> = records
            .iter()
            .map(|(associated, sealed)| (associated.clone(), Uint8Array::from(*sealed)))
            .collect();
        cipher.open(&records).await
    }

    async fn reopen(&self) -> Result<()> {
        self.check_open()?;
        // Dropped before anything else: a handle that failed is not used again.
        self.connection.borrow_mut().take();
        match connect(&self.databases, &self.name, true).await? {
            // The store was closed while its database was opened.
            Some(_) if self.check_open().is_err() => self.check_open(),
            Some(database) => {
                self.keep(database);
                Ok(())
            }
            None => fail(Code::StorageClosed, "the database cannot be made"),
        }
    }

    async fn close(&self) {
        let Some(lock) = self.lock.borrow_mut().take() else { return };
        let last_batch = self.last_batch.borrow_mut().take();
        if let Some(last_batch) = last_batch {
            // The next owner must find all batches. The sender of each batch already got its result.
            let _ = JsFuture::from(last_batch).await;
        }
        self.connection.borrow_mut().take();
        self.cipher.borrow_mut().take();
        self.backup.close();
        lock.free().await;
    }
}

/// Makes every request of a batch. Deletes come first, so that a record that is both deleted and put is kept.
fn request_all(transaction: &IdbTransaction, batch: &Batch) -> std::result::Result<(), JsValue> {
    if let Some(generation) = batch.generation {
        super::shared::guard(transaction, generation, batch.clear)?;
    }
    let mut tables: PerTable<Option<IdbObjectStore>> = PerTable::default();
    let mut object_store = |table: Table| -> std::result::Result<IdbObjectStore, JsValue> {
        let slot = &mut tables[table];
        if slot.is_none() {
            *slot = Some(transaction.object_store(table.name())?);
        }
        slot.clone().ok_or(JsValue::UNDEFINED)
    };
    if batch.clear {
        for table in Table::ALL.into_iter().filter(|table| !table.is_shared()) {
            object_store(table)?.clear()?;
        }
        transaction.object_store(HEADER_TABLE)?.delete(&header_key())?;
    }
    for (table, key) in &batch.deletes {
        object_store(*table)?.delete(&to_key(key))?;
    }
    for (table, key, sealed) in &batch.puts {
        object_store(*table)?.put_with_key(&Uint8Array::from(&**sealed), &to_key(key))?;
    }
    if let Some(header) = &batch.header {
        let table = transaction.object_store(HEADER_TABLE)?;
        table.put_with_key(&Uint8Array::from(header.as_slice()), &header_key())?;
    }
    Ok(())
}
