//! What stands beside a store: a second, small database with a copy of the header, the sealed high-water mark, and copies of
//! the journal and of the inbox. It is never written with the store, but after it, or, what is handed in, before: where the
//! browser finds one of the two damaged and drops what is newest in it, or all, it is the other one that tells, and that
//! has what only this device knew.

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
use crate::store::{Batch, Table, Witness};
use crate::web::promise::Deferred;

pub(super) use super::change::{Change, Copies};

/// The version of the database: which object stores there are.
const VERSION: u32 = 1;
const TABLES: [&str; 3] = [TABLE, JOURNAL, INBOX];
const READING: &str = "reading beside the store";
const WRITING: &str = "writing beside the store";

/// The name of the database beside a store.
pub(super) fn name_beside(name: &str) -> String {
    format!("{name}-mark")
}

/// The database beside a store.
pub(super) struct Beside {
    name: String,
    databases: Databases,
    factory: RefCell<Option<IdbFactory>>,
    connection: RefCell<Option<Rc<Connection>>>,
    /// Something could not be written: what stands there is not as of any batch.
    is_behind: Cell<bool>,
    /// The store is deleted, and this with it.
    is_left: Cell<bool>,
    /// What is being read while the store is opened, and what it was.
    ahead: RefCell<Option<Promise>>,
    found: Rc<RefCell<Option<Witness>>>,
}

impl Beside {
    /// Beside the store of that name. Touches nothing before it is asked something.
    pub fn new(store: &str, databases: Databases) -> Self {
        Beside {
            name: name_beside(store),
            databases,
            factory: RefCell::default(),
            connection: RefCell::default(),
            is_behind: Cell::default(),
            is_left: Cell::default(),
            ahead: RefCell::default(),
            found: Rc::default(),
        }
    }

    /// Begins to read the header and the mark. What is read before the store is no later than the store.
    pub fn read_ahead(self: &Rc<Self>) {
        let (beside, found, done) = (Rc::clone(self), Rc::clone(&self.found), Deferred::new());
        *self.ahead.borrow_mut() = Some(done.promise);
        spawn_local(async move {
            let witness = beside.read().await;
            *found.borrow_mut() = Some(witness);
            // The engine's own function, called with what it takes.
            let _ = done.resolve.call0(&JsValue::UNDEFINED);
        });
    }

    /// The header and the mark: as they were read ahead, the first time.
    pub async fn witness(&self) -> Witness {
        self.is_read_ahead().await;
        let found = self.found.borrow_mut().take();
        match found {
            Some(found) => found,
            None => self.read().await,
        }
    }

    /// The header and the mark as they are now.
    pub async fn witness_now(&self) -> Witness {
        self.is_read_ahead().await;
        self.found.borrow_mut().take();
        self.read().await
    }

    /// Waits until nothing is being read ahead.
    async fn is_read_ahead(&self) {
        let ahead = self.ahead.borrow_mut().take();
        if let Some(ahead) = ahead {
            let _ = JsFuture::from(ahead).await;
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
        let Some(connection) = self.database(false).await? else { return Ok(Witness::default()) };
        let failed = |exception: JsValue| failure::of_exception(READING, &exception);
        let transaction = connection.database.transaction_with_str(TABLE).map_err(failed)?;
        let table = transaction.object_store(TABLE).map_err(failed)?;
        let requests = [table.get(&HEADER.into()).map_err(failed)?, table.get(&MARK.into()).map_err(failed)?];
        end_reading(&transaction);
        settled(&connection, &transaction, READING).await?;
        let [header, mark] =
            requests.map(|request| request.result().ok().filter(|value| !value.is_undefined()));
        let bytes = |value: Option<JsValue>| value.as_ref().map(from_value);
        Ok(Witness { header: bytes(header), mark: bytes(mark) })
    }

    /// The latest generation that has written here; 0 where none has, or nothing can be read.
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

    /// The copy of a table; empty where it cannot be read.
    pub async fn copies(&self, table: Table) -> Records {
        match table {
            Table::Journal => self.get_copies(JOURNAL).await.unwrap_or_default(),
            Table::Inbox => self.get_copies(INBOX).await.unwrap_or_default(),
            Table::State | Table::Pages => Records::new(),
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

    /// Writes what is handed in, before it is in the store. Where that fails, the store alone has it.
    pub async fn hand_in(&self, batch: &Batch) {
        let puts = batch.puts.iter().filter(|(table, ..)| *table == Table::Inbox);
        let requests: Records = puts.map(|(_, key, bytes)| (*key, bytes.clone())).collect();
        // A handle that failed is not used again; another one may do.
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

    /// Writes what a batch does, once it is in the store; `to_copy` reads what the store holds. Where that fails nothing is
    /// lost: the next batch tries to make the copy anew.
    pub async fn write(&self, mut change: Change, to_copy: impl AsyncFn() -> Result<Copies>) {
        if change.is_empty() || self.is_left.get() {
            return;
        }
        // The copy is the leader's, and the mark with it; a header alone is anybody's.
        let is_leaders = change.witness.mark.is_some();
        change.recopy |= is_leaders && self.is_behind.get();
        let was_behind = self.is_behind.replace(true);
        for _ in 0..2 {
            if change.recopy {
                let Ok(copies) = to_copy().await else { return };
                change.replace_by(copies);
            }
            match self.put(&change).await {
                Ok(()) => return self.is_behind.set(was_behind && !is_leaders),
                // Who leads now has made the copy anew, after it read what this batch has written.
                Err(error) if error.code() == Code::Deposed => return,
                Err(_) => {}
            }
            // A handle that failed is not used again. Another one may do, and find another database.
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
        let factory = self.databases.beside().await?;
        *self.factory.borrow_mut() = Some(factory.clone());
        Ok(factory)
    }

    /// The database; `None` where there is none and `create` is false.
    async fn database(&self, create: bool) -> Result<Option<Rc<Connection>>> {
        if let Some(connection) = &*self.connection.borrow() {
            return Ok(Some(Rc::clone(connection)));
        }
        let factory = self.factory().await?;
        let mut found = connect::look(&factory, &self.name).await?;
        let lacks = |database: &IdbDatabase| {
            let there = database.object_store_names();
            !TABLES.into_iter().all(|table| there.contains(table))
        };
        if let Some(found) = found.take_if(|database| lacks(database)) {
            // Made by whoever died while making it: as good as none.
            found.close();
            connect::delete(&factory, &self.name).await?;
        }
        if found.is_none() && create {
            found = Some(connect::make(&factory, &self.name, VERSION, &TABLES).await?);
        }
        let Some(database) = found else { return Ok(None) };
        // Where somebody wants it gone, or of another version, nobody waits for us; it is opened again when it is needed.
        let connection = Rc::new(Connection::new(database, Rc::new(|_| {})));
        *self.connection.borrow_mut() = Some(Rc::clone(&connection));
        Ok(Some(connection))
    }

    /// The store is deleted, and what stands beside it with it: nothing of it is made anew.
    pub fn leave(&self) {
        self.is_left.set(true);
        self.connection.borrow_mut().take();
    }

    /// Lets go of the database.
    pub fn close(&self) {
        self.connection.borrow_mut().take();
    }
}

/// Deletes what stands beside a store: in the bucket, and where it stood while the browser had none.
pub(super) async fn delete(databases: &Databases, store: &str) -> Result<()> {
    let name = name_beside(store);
    if let Ok(factory) = databases.beside().await {
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
    match connection.over(done).await {
        Ok(_) => Ok(()),
        Err(event) => Err(failure::of_transaction(what, transaction, &event)),
    }
}
