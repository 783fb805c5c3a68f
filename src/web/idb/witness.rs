//! What stands beside a store: a second, small database with a copy of the header, the sealed high-water mark, and a copy of
//! the journal. It is written after the store, never with it: where the browser finds one of the two damaged and drops what
//! is newest in it, or all, it is the other one that tells, and that has what only this device knew.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;

use js_sys::{Array, Uint8Array};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;
use web_sys::{IdbDatabase, IdbFactory, IdbTransaction, IdbTransactionMode};

use super::bucket::factory_beside;
use super::connect;
use super::failure;
use super::records::{from_key, from_value, to_key};
use crate::error::Result;
use crate::store::{Batch, RecordKey, Table, Witness};
use crate::web::promise::Deferred;

const TABLE: &str = "m";
const JOURNAL: &str = "j";
const VERSION: u32 = 1;
const HEADER: u32 = 0;
const MARK: u32 = 1;
const READING: &str = "reading beside the store";
const WRITING: &str = "writing beside the store";

/// Journal records by their keys.
type Records = Vec<(RecordKey, Vec<u8>)>;

/// The name of the database beside a store.
pub(super) fn name_beside(name: &str) -> String {
    format!("{name}-mark")
}

/// What a batch does to what stands beside the store.
#[derive(Default)]
pub(super) struct Change {
    pub witness: Witness,
    /// The copy is made anew.
    pub recopy: bool,
    pub deletes: Vec<RecordKey>,
    pub puts: Records,
}

impl Change {
    /// Takes what concerns it out of a batch.
    pub fn of(batch: Batch) -> Self {
        let of_journal = |table: Table| table == Table::Journal;
        let puts = batch.puts.into_iter().filter(|(table, ..)| of_journal(*table));
        let deletes = batch.deletes.into_iter().filter(|(table, _)| of_journal(*table));
        Change {
            witness: Witness { header: batch.header, mark: batch.mark },
            recopy: batch.recopy || batch.clear,
            deletes: deletes.map(|(_, key)| key).collect(),
            puts: puts.map(|(_, key, bytes)| (key, bytes)).collect(),
        }
    }

    fn is_empty(&self) -> bool {
        self.witness == Witness::default()
    }
}

/// A database with what the browser calls when somebody wants it gone.
struct Connection {
    database: IdbDatabase,
    _on_version_change: Closure<dyn FnMut()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.database.set_onversionchange(None);
        self.database.close();
    }
}

/// The database beside a store.
pub(super) struct Beside {
    name: String,
    factory: RefCell<Option<IdbFactory>>,
    connection: RefCell<Option<Connection>>,
    /// Something could not be written: what stands there is not as of any batch.
    is_behind: Cell<bool>,
}

impl Beside {
    /// Beside the store of that name. Touches nothing before it is asked something.
    pub fn new(store: &str) -> Self {
        Beside {
            name: name_beside(store),
            factory: RefCell::default(),
            connection: RefCell::default(),
            is_behind: Cell::default(),
        }
    }

    /// The header and the mark. What cannot be read says nothing: no store is kept from opening by what stands beside it.
    pub async fn read(&self) -> Witness {
        if let Ok(witness) = self.get().await {
            return witness;
        }
        self.connection.borrow_mut().take();
        self.get().await.unwrap_or_default()
    }

    async fn get(&self) -> Result<Witness> {
        let Some(database) = self.database(false).await? else { return Ok(Witness::default()) };
        let failed = |exception: JsValue| failure::of_exception(READING, &exception);
        let transaction = database.transaction_with_str(TABLE).map_err(failed)?;
        let table = transaction.object_store(TABLE).map_err(failed)?;
        let requests = [table.get(&HEADER.into()).map_err(failed)?, table.get(&MARK.into()).map_err(failed)?];
        settled(&transaction, READING).await?;
        let [header, mark] =
            requests.map(|request| request.result().ok().filter(|value| !value.is_undefined()));
        let bytes = |value: Option<JsValue>| value.as_ref().map(from_value);
        Ok(Witness { header: bytes(header), mark: bytes(mark) })
    }

    /// The copy of the journal; empty where it cannot be read.
    pub async fn copies(&self) -> Records {
        self.get_copies().await.unwrap_or_default()
    }

    async fn get_copies(&self) -> Result<Records> {
        let Some(database) = self.database(false).await? else { return Ok(Records::new()) };
        let failed = |exception: JsValue| failure::of_exception(READING, &exception);
        let transaction = database.transaction_with_str(JOURNAL).map_err(failed)?;
        let table = transaction.object_store(JOURNAL).map_err(failed)?;
        let (keys, values) = (table.get_all_keys().map_err(failed)?, table.get_all().map_err(failed)?);
        settled(&transaction, READING).await?;
        let (keys, values) =
            (Array::from(&keys.result().map_err(failed)?), Array::from(&values.result().map_err(failed)?));
        let records = keys.iter().zip(values.iter());
        Ok(records.filter_map(|(key, value)| Some((from_key(&key)?, from_value(&value)))).collect())
    }

    /// Writes what a batch does, once it is in the store; `journal` reads the store's whole journal. Where that fails
    /// nothing is lost: the next batch tries to make the copy anew.
    pub async fn write(&self, mut change: Change, journal: impl AsyncFnOnce() -> Result<Records>) {
        if change.is_empty() {
            return;
        }
        if self.is_behind.get() {
            change.recopy = true;
        }
        // Until all of it is written.
        self.is_behind.set(true);
        if change.recopy {
            let Ok(records) = journal().await else { return };
            (change.puts, change.deletes) = (records, Vec::new());
        }
        if self.put(&change).await.is_ok() {
            self.is_behind.set(false);
        } else {
            // A handle that failed is not used again.
            self.connection.borrow_mut().take();
        }
    }

    async fn put(&self, change: &Change) -> Result<()> {
        let Some(database) = self.database(true).await? else { return Ok(()) };
        let failed = |exception: JsValue| failure::of_exception(WRITING, &exception);
        let is_journal = change.recopy || !change.puts.is_empty() || !change.deletes.is_empty();
        let tables: Array = [TABLE, JOURNAL]
            .iter()
            .take(1 + usize::from(is_journal))
            .map(|table| JsValue::from_str(table))
            .collect();
        let transaction = database
            .transaction_with_str_sequence_and_mode(&tables, IdbTransactionMode::Readwrite)
            .map_err(failed)?;
        let table = transaction.object_store(TABLE).map_err(failed)?;
        for (key, bytes) in [(HEADER, &change.witness.header), (MARK, &change.witness.mark)] {
            if let Some(bytes) = bytes {
                table.put_with_key(&Uint8Array::from(bytes.as_slice()), &key.into()).map_err(failed)?;
            }
        }
        if is_journal {
            let table = transaction.object_store(JOURNAL).map_err(failed)?;
            if change.recopy {
                table.clear().map_err(failed)?;
            }
            let written: HashSet<&RecordKey> = change.puts.iter().map(|(key, _)| key).collect();
            for key in change.deletes.iter().filter(|key| !written.contains(key)) {
                table.delete(&to_key(key)).map_err(failed)?;
            }
            for (key, bytes) in &change.puts {
                table.put_with_key(&Uint8Array::from(bytes.as_slice()), &to_key(key)).map_err(failed)?;
            }
        }
        connect::end_at_once(&transaction);
        settled(&transaction, WRITING).await
    }

    async fn factory(&self) -> Result<IdbFactory> {
        let kept = self.factory.borrow().clone();
        if let Some(factory) = kept {
            return Ok(factory);
        }
        let factory = factory_beside().await?;
        *self.factory.borrow_mut() = Some(factory.clone());
        Ok(factory)
    }

    /// The database; `None` where there is none and `create` is false.
    async fn database(&self, create: bool) -> Result<Option<IdbDatabase>> {
        if let Some(connection) = &*self.connection.borrow() {
            return Ok(Some(connection.database.clone()));
        }
        let factory = self.factory().await?;
        let mut found = connect::look(&factory, &self.name).await?;
        // Made by whoever died while making it: as good as none.
        let has = |database: &IdbDatabase, table: &str| database.object_store_names().contains(table);
        if let Some(bare) = found.take_if(|database| !has(database, TABLE) || !has(database, JOURNAL)) {
            bare.close();
            connect::delete(&factory, &self.name).await?;
        }
        if found.is_none() && create {
            found = Some(connect::make(&factory, &self.name, VERSION, &[TABLE, JOURNAL]).await?);
        }
        let Some(database) = found else { return Ok(None) };
        // Somebody wants it gone, or of another version: nobody waits for us.
        let on_version_change = Closure::<dyn FnMut()>::new({
            let database = database.clone();
            move || database.close()
        });
        database.set_onversionchange(Some(on_version_change.as_ref().unchecked_ref()));
        let connection = Connection { database: database.clone(), _on_version_change: on_version_change };
        *self.connection.borrow_mut() = Some(connection);
        Ok(Some(database))
    }

    /// Lets go of the database.
    pub fn close(&self) {
        self.connection.borrow_mut().take();
    }
}

/// Whether there was a store of that name: its header is still there.
pub(super) async fn is_known(store: &str) -> bool {
    Beside::new(store).read().await.header.is_some()
}

/// Deletes what stands beside a store: in the bucket, and where it stood while the browser had none.
pub(super) async fn delete(store: &str) -> Result<()> {
    let name = name_beside(store);
    if let Ok(factory) = factory_beside().await {
        connect::delete(&factory, &name).await?;
    }
    connect::delete(&connect::factory()?, &name).await
}

/// Waits until a transaction is over.
async fn settled(transaction: &IdbTransaction, what: &str) -> Result<()> {
    let done = Deferred::new();
    transaction.set_oncomplete(Some(&done.resolve));
    transaction.set_onerror(Some(&done.reject));
    transaction.set_onabort(Some(&done.reject));
    match JsFuture::from(done.promise).await {
        Ok(_) => Ok(()),
        Err(event) => Err(failure::of_transaction(what, transaction, &event)),
    }
}
