//! What stands beside a store: a second, small database with a copy of the header and the sealed high-water mark. It is
//! written after the store, never with it: where browsers repair a damaged database by dropping what is newest, or all of
//! it, the other one tells.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use js_sys::{Promise, Uint8Array};
use rexie::{ObjectStore, Rexie};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::{JsFuture, spawn_local};
use web_sys::{IdbDatabase, IdbTransactionMode};

use super::connect;
use super::failure;
use super::records::from_value;
use crate::error::Result;
use crate::store::Witness;
use crate::web::promise::Deferred;

const TABLE: &str = "m";
const VERSION: u32 = 1;
const HEADER: u32 = 0;
const MARK: u32 = 1;
const READING: &str = "reading beside the store";
const WRITING: &str = "writing beside the store";

/// The name of the database beside a store.
pub(super) fn name_beside(name: &str) -> String {
    format!("{name}-mark")
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
    connection: RefCell<Option<Connection>>,
    /// What is to be written: the newest takes the place of what was not written yet.
    due: RefCell<Witness>,
    /// Settles once nothing is being written.
    writing: RefCell<Option<Promise>>,
    is_closed: Cell<bool>,
}

impl Beside {
    /// Beside the store of that name. Touches nothing before it is asked something.
    pub fn new(store: &str) -> Rc<Self> {
        Rc::new(Beside {
            name: name_beside(store),
            connection: RefCell::default(),
            due: RefCell::default(),
            writing: RefCell::default(),
            is_closed: Cell::new(false),
        })
    }

    /// What stands there, once all that was sent is written. What cannot be read says nothing: no store is kept from
    /// opening by what stands beside it.
    pub async fn read(self: &Rc<Self>) -> Witness {
        self.settle().await;
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
        let done = Deferred::new();
        transaction.set_oncomplete(Some(&done.resolve));
        transaction.set_onerror(Some(&done.reject));
        transaction.set_onabort(Some(&done.reject));
        if let Err(event) = JsFuture::from(done.promise).await {
            return Err(failure::of_transaction(READING, &transaction, &event));
        }
        let [header, mark] =
            requests.map(|request| request.result().ok().filter(|value| !value.is_undefined()));
        let bytes = |value: Option<JsValue>| value.as_ref().map(from_value);
        Ok(Witness { header: bytes(header), mark: bytes(mark) })
    }

    /// Writes what there is of it, in the background. Where that fails, the mark stays behind, which is harmless: the
    /// next one tries again.
    pub fn write(self: &Rc<Self>, header: Option<Vec<u8>>, mark: Option<Vec<u8>>) {
        let mut due = self.due.borrow_mut();
        due.header = header.or(due.header.take());
        due.mark = mark.or(due.mark.take());
        drop(due);
        if self.writing.borrow().is_some() || self.is_closed.get() {
            return;
        }
        let done = Deferred::new();
        *self.writing.borrow_mut() = Some(done.promise);
        let beside = Rc::clone(self);
        spawn_local(async move {
            loop {
                let due = std::mem::take(&mut *beside.due.borrow_mut());
                if due == Witness::default() {
                    break;
                }
                if beside.put(&due).await.is_err() {
                    // A handle that failed is not used again.
                    beside.connection.borrow_mut().take();
                }
            }
            beside.writing.borrow_mut().take();
            let _ = done.resolve.call0(&JsValue::UNDEFINED);
        });
    }

    async fn put(&self, due: &Witness) -> Result<()> {
        let Some(database) = self.database(true).await? else { return Ok(()) };
        let failed = |exception: JsValue| failure::of_exception(WRITING, &exception);
        let transaction =
            database.transaction_with_str_and_mode(TABLE, IdbTransactionMode::Readwrite).map_err(failed)?;
        let table = transaction.object_store(TABLE).map_err(failed)?;
        for (key, bytes) in [(HEADER, &due.header), (MARK, &due.mark)] {
            if let Some(bytes) = bytes {
                table.put_with_key(&Uint8Array::from(bytes.as_slice()), &key.into()).map_err(failed)?;
            }
        }
        let done = Deferred::new();
        transaction.set_oncomplete(Some(&done.resolve));
        transaction.set_onerror(Some(&done.reject));
        transaction.set_onabort(Some(&done.reject));
        match JsFuture::from(done.promise).await {
            Ok(_) => Ok(()),
            Err(event) => Err(failure::of_transaction(WRITING, &transaction, &event)),
        }
    }

    /// The database; `None` where there is none and `create` is false.
    async fn database(&self, create: bool) -> Result<Option<IdbDatabase>> {
        if let Some(connection) = &*self.connection.borrow() {
            return Ok(Some(connection.database.clone()));
        }
        let mut found = connect::look(&self.name).await?;
        // Made by whoever died while making it: as good as none.
        if let Some(bare) = found.take_if(|database| !database.object_store_names().contains(TABLE)) {
            bare.close();
            connect::delete(&self.name).await?;
        }
        if found.is_none() && create {
            let builder =
                Rexie::builder(&self.name).version(VERSION).add_object_store(ObjectStore::new(TABLE));
            let made = builder.build().await.map_err(|error| connect::of_rexie(&error))?;
            made.close();
            found = connect::look(&self.name).await?;
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

    async fn settle(&self) {
        let writing = self.writing.borrow().clone();
        if let Some(writing) = writing {
            let _ = JsFuture::from(writing).await;
        }
    }

    /// Lets go of the database, what was sent written.
    pub async fn close(&self) {
        self.is_closed.set(true);
        self.settle().await;
        self.connection.borrow_mut().take();
    }
}
