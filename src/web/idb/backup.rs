//! The backup of a store: a second, small database. It has a copy of the header, the sealed high-water mark,
//! and copies of the journal and of the inbox.
//!
//! The backup is never written in the same transaction as the store. A leader's batch goes to the store
//! first, a request for the inbox goes to the backup first. If the browser finds one of the two databases
//! damaged, it drops that database or its newest records. The other database then reveals the loss, and has
//! everything that only this device knew.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use js_sys::{Array, Promise};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::{JsFuture, spawn_local};
use web_sys::{IdbDatabase, IdbFactory, IdbTransaction, IdbTransactionMode};

use super::change::{HEADER, INBOX, JOURNAL, MARK, Records, TABLE, fences, generation_of, put_all};
use super::connect;
use super::connection::Connection;
use super::databases::Databases;
use super::ending::{end_reading, end_writing};
use super::failure;
use super::records::{from_key, from_value};
use crate::error::{Code, Result};
use crate::model::Copying;
use crate::store::{BackupHeader, Batch, Table};
use crate::web::platform::patience::SILENT_MS;
use crate::web::platform::promise::Deferred;

pub(super) use super::change::{Change, Copies};

/// The version of the database: which object stores there are.
const VERSION: u32 = 1;
const TABLES: [&str; 3] = [TABLE, JOURNAL, INBOX];
const READING: &str = "reading the backup";
const WRITING: &str = "writing the backup";

/// The name of a store's backup database.
pub(super) fn backup_name(name: &str) -> String {
    format!("{name}-mark")
}

/// The backup database of one store.
pub(super) struct Backup {
    name: String,
    databases: Databases,
    factory: RefCell<Option<IdbFactory>>,
    connection: RefCell<Option<Rc<Connection>>>,
    /// A write failed, so the backup may match no batch. The next batch of a leader makes the copies again.
    is_behind: Cell<bool>,
    /// The store is deleted, and its backup with it.
    is_left: Cell<bool>,
    /// The read that began while the store was opened, and its result.
    ahead: RefCell<Option<Promise>>,
    found: Rc<RefCell<Option<BackupHeader>>>,
}

impl Backup {
    /// The backup of the store of that name. Touches nothing before it is used.
    pub fn new(store: &str, databases: Databases) -> Self {
        Backup {
            name: backup_name(store),
            databases,
            factory: RefCell::default(),
            connection: RefCell::default(),
            is_behind: Cell::default(),
            is_left: Cell::default(),
            ahead: RefCell::default(),
            found: Rc::default(),
        }
    }

    /// Begins to read the header and the high-water mark. They are read before the store, so they are no
    /// newer than the store.
    pub fn read_ahead(self: &Rc<Self>) {
        let (backup, found, done) = (Rc::clone(self), Rc::clone(&self.found), Deferred::new());
        *self.ahead.borrow_mut() = Some(done.promise);
        spawn_local(async move {
            let backup_header = backup.read().await;
            *found.borrow_mut() = Some(backup_header);
            // The engine's own function, called with no arguments.
            let _ = done.resolve.call0(&JsValue::UNDEFINED);
        });
    }

    /// The header and the high-water mark. The first call gives the result of `read_ahead`.
    pub async fn backup_header(&self) -> BackupHeader {
        self.is_read_ahead().await;
        let found = self.found.borrow_mut().take();
        match found {
            Some(found) => found,
            None => self.read().await,
        }
    }

    /// The header and the high-water mark as they are now.
    pub async fn backup_header_now(&self) -> BackupHeader {
        self.is_read_ahead().await;
        self.found.borrow_mut().take();
        self.read().await
    }

    /// Waits until `read_ahead` is over.
    async fn is_read_ahead(&self) {
        let ahead = self.ahead.borrow_mut().take();
        if let Some(ahead) = ahead {
            let _ = JsFuture::from(ahead).await;
        }
    }

    /// The header and the high-water mark. An unreadable backup counts as empty: it must never keep a store
    /// from opening.
    pub async fn read(&self) -> BackupHeader {
        if let Ok(backup_header) = self.get().await {
            return backup_header;
        }
        self.connection.borrow_mut().take();
        self.get().await.unwrap_or_default()
    }

    async fn get(&self) -> Result<BackupHeader> {
        let Some(connection) = self.database(false).await? else { return Ok(BackupHeader::default()) };
        let failed = |exception: JsValue| failure::of_exception(READING, &exception);
        let transaction = connection.database.transaction_with_str(TABLE).map_err(failed)?;
        let table = transaction.object_store(TABLE).map_err(failed)?;
        let requests = [table.get(&HEADER.into()).map_err(failed)?, table.get(&MARK.into()).map_err(failed)?];
        end_reading(&transaction);
        settled(&connection, &transaction, READING).await?;
        let [header, mark] =
            requests.map(|request| request.result().ok().filter(|value| !value.is_undefined()));
        let bytes = |value: Option<JsValue>| value.as_ref().map(from_value);
        Ok(BackupHeader { header: bytes(header), mark: bytes(mark) })
    }

    /// The latest generation that has written the backup; 0 if none has, or if the backup cannot be read.
    pub async fn generation(&self) -> u64 {
        self.is_read_ahead().await;
        self.get_generation().await.unwrap_or(0)
    }

    async fn get_generation(&self) -> Result<u64> {
        let Some(connection) = self.database(false).await? else { return Ok(0) };
        let failed = |exception: JsValue| failure::of_exception(READING, &exception);
        let transaction = connection.database.transaction_with_str(TABLE).map_err(failed)?;
        let table = transaction.object_store(TABLE).map_err(failed)?;
        let keys = table.get_all_keys_with_key(&fences().map_err(failed)?.into()).map_err(failed)?;
        end_reading(&transaction);
        settled(&connection, &transaction, READING).await?;
        Ok(generation_of(&Array::from(&keys.result().map_err(failed)?).pop()))
    }

    /// The copy of a table; empty if it cannot be read.
    pub async fn copies(&self, table: Table) -> Records {
        match table.copying() {
            Copying::WithMark => self.get_copies(JOURNAL).await.unwrap_or_default(),
            Copying::HandedIn => self.get_copies(INBOX).await.unwrap_or_default(),
            Copying::Never => Records::new(),
        }
    }

    async fn get_copies(&self, name: &str) -> Result<Records> {
        let Some(connection) = self.database(false).await? else { return Ok(Records::new()) };
        let failed = |exception: JsValue| failure::of_exception(READING, &exception);
        let transaction = connection.database.transaction_with_str(name).map_err(failed)?;
        let table = transaction.object_store(name).map_err(failed)?;
        let (keys, values) = (table.get_all_keys().map_err(failed)?, table.get_all().map_err(failed)?);
        settled(&connection, &transaction, READING).await?;
        let (keys, values) =
            (Array::from(&keys.result().map_err(failed)?), Array::from(&values.result().map_err(failed)?));
        let records = keys.iter().zip(values.iter());
        Ok(records.filter_map(|(key, value)| Some((from_key(&key)?, from_value(&value)))).collect())
    }

    /// Writes the requests of a follower's batch, before they are written to the store. If that fails, only
    /// the store has them.
    pub async fn hand_in(&self, batch: &Batch) {
        let puts = batch.puts.iter().filter(|(table, ..)| *table == Table::Inbox);
        let requests: Records = puts.map(|(_, key, sealed)| (*key, sealed.to_vec())).collect();
        // A handle that failed is not used again, but a second one may work.
        for _ in 0..2 {
            if self.is_left.get() || self.put_requests(&requests).await.is_ok() {
                return;
            }
            self.connection.borrow_mut().take();
        }
    }

    async fn put_requests(&self, requests: &Records) -> Result<()> {
        let Some(connection) = self.database(true).await? else { return Ok(()) };
        let failed = |exception: JsValue| failure::of_exception(WRITING, &exception);
        let mode = IdbTransactionMode::Readwrite;
        let transaction = connection.database.transaction_with_str_and_mode(INBOX, mode).map_err(failed)?;
        let table = transaction.object_store(INBOX).map_err(failed)?;
        put_all(&table, requests).map_err(failed)?;
        end_writing(&transaction);
        settled(&connection, &transaction, WRITING).await
    }

    /// Writes the backup's part of a batch, once the batch is in the store. `to_copy` reads the store's
    /// records. If the write fails nothing is lost: the leader's next batch makes the copies again.
    pub async fn write(&self, mut change: Change, to_copy: impl AsyncFn() -> Result<Copies>) {
        if change.is_empty() || self.is_left.get() {
            return;
        }
        // The copies and the high-water mark belong to the leader; any tab may write a header alone.
        let is_leaders = change.backup_header.mark.is_some();
        change.recopy |= is_leaders && self.is_behind.get();
        let was_behind = self.is_behind.replace(true);
        for _ in 0..2 {
            if change.recopy {
                let Ok(copies) = to_copy().await else { return };
                change.replace_by(copies);
            }
            match self.put(&change).await {
                Ok(()) => return self.is_behind.set(was_behind && !is_leaders),
                // A later generation has begun. Its leader made the copies again after it read the records of
                // this batch.
                Err(error) if error.code() == Code::Deposed => return,
                Err(_) => {}
            }
            // A handle that failed is not used again. The next one may find another database, so the copies
            // are made again.
            self.connection.borrow_mut().take();
            change.recopy |= is_leaders;
        }
    }

    async fn put(&self, change: &Change) -> Result<()> {
        let Some(connection) = self.database(true).await? else { return Ok(()) };
        let failed = |exception: JsValue| failure::of_exception(WRITING, &exception);
        let tables: Array = change.tables().into_iter().map(JsValue::from_str).collect();
        let transaction = connection
            .database
            .transaction_with_str_sequence_and_mode(&tables, IdbTransactionMode::Readwrite)
            .map_err(failed)?;
        if let Err(exception) = change.request(&transaction) {
            // Half of it must not be written.
            let _ = transaction.abort();
            return Err(failed(exception));
        }
        end_writing(&transaction);
        settled(&connection, &transaction, WRITING).await
    }

    async fn factory(&self) -> Result<IdbFactory> {
        let kept = self.factory.borrow().clone();
        if let Some(factory) = kept {
            return Ok(factory);
        }
        let factory = self.databases.backup().await?;
        *self.factory.borrow_mut() = Some(factory.clone());
        Ok(factory)
    }

    /// The database; `None` if there is none and `create` is false.
    async fn database(&self, create: bool) -> Result<Option<Rc<Connection>>> {
        if let Some(connection) = &*self.connection.borrow() {
            return Ok(Some(Rc::clone(connection)));
        }
        let factory = self.factory().await?;
        let mut found = connect::peek(&factory, &self.name).await?;
        let lacks = |database: &IdbDatabase| {
            let there = database.object_store_names();
            !TABLES.into_iter().all(|table| there.contains(table))
        };
        if let Some(found) = found.take_if(|database| lacks(database)) {
            // A database without these tables is left over from a tab that died while making it.
            found.close();
            connect::delete(&factory, &self.name).await?;
        }
        if found.is_none() && create {
            found = Some(connect::make(&factory, &self.name, VERSION, &TABLES).await?);
        }
        let Some(database) = found else { return Ok(None) };
        // If another tab wants the database deleted or upgraded, this connection closes at once. It is opened
        // again when it is needed.
        let connection = Rc::new(Connection::new(database, Rc::new(|_| {})));
        *self.connection.borrow_mut() = Some(Rc::clone(&connection));
        Ok(Some(connection))
    }

    /// The store is deleted, and its backup with it: no part of the backup is made again.
    pub fn leave(&self) {
        self.is_left.set(true);
        self.connection.borrow_mut().take();
    }

    /// Closes the database.
    pub fn close(&self) {
        self.connection.borrow_mut().take();
    }
}

/// Deletes the backup of a store: in the bucket, and among the origin's databases, where it was before the
/// browser had buckets.
pub(super) async fn delete(databases: &Databases, store: &str) -> Result<()> {
    let name = backup_name(store);
    if let Ok(factory) = databases.backup().await {
        connect::delete(&factory, &name).await?;
    }
    connect::delete(&databases.of_stores()?, &name).await
}

/// Waits until a transaction is over.
async fn settled(connection: &Connection, transaction: &IdbTransaction, what: &str) -> Result<()> {
    let done = Deferred::new();
    transaction.set_oncomplete(Some(&done.resolve));
    transaction.set_onerror(Some(&done.reject));
    transaction.set_onabort(Some(&done.reject));
    match connection.over(SILENT_MS, done).await {
        Ok(_) => Ok(()),
        Err(event) => Err(failure::of_transaction(what, transaction, &event)),
    }
}
