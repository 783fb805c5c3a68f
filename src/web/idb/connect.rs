//! Opens, makes, upgrades and deletes databases, for stores and for their backup databases.
//!
//! rexie makes the databases of stores. The rest uses web-sys, because rexie cannot do it:
//! - rexie opens at a version of its own. Escale opens a database as it is: to look without making one, and
//!   to leave a newer one untouched.
//! - rexie keeps its connection to itself. Escale needs durability, the reason of an abort, `close` and
//!   `versionchange`.
//! - rexie waits for ever if a deletion is blocked.

use std::cell::Cell;
use std::rc::Rc;

use js_sys::{Array, Promise};
use rexie::{ObjectStore, Rexie};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::future_to_promise;
use web_sys::{IdbDatabase, IdbFactory, IdbOpenDbRequest};

use super::databases::Databases;
use super::failure;
use super::records::HEADER_TABLE;
use crate::error::{Code, Error, Result, fail};
use crate::model::{TABLES_VERSION, Table};
use crate::store::Failure;
use crate::web::platform::global::{method, property};
use crate::web::platform::patience::{SILENT_MS, answer, silence, within};
use crate::web::platform::promise::Deferred;

/// How long another tab may take to close the database that is to be deleted. A tab that runs closes it at
/// once.
const BLOCKED_MS: u64 = 3_000;

/// How long the browser may take to list its databases. Chromium never answers a request that it gets while
/// it drops the origin's databases.
const LISTED_MS: u64 = 1_000;

/// Opens the database; `None` if there is none and `create` is false, in which case none was made.
pub(super) async fn connect(databases: &Databases, name: &str, create: bool) -> Result<Option<IdbDatabase>> {
    match connect_once(databases, name, create).await {
        // `Internal error opening backing store` and similar errors may go away with the next request.
        Err(error) if Failure::of(&error) == Failure::Handle => connect_once(databases, name, create).await,
        other => other,
    }
}

/// Opens a database as it is; `None` if there is none, and none is made.
pub(super) async fn peek(factory: &IdbFactory, name: &str) -> Result<Option<IdbDatabase>> {
    match is_listed(factory, name).await {
        Some(false) => Ok(None),
        listed => open_as_it_is(factory, name, listed.is_none()).await,
    }
}

/// Opens a database at that version with these object stores. Makes it if it does not exist.
pub(super) async fn make(
    factory: &IdbFactory,
    name: &str,
    version: u32,
    tables: &[&'static str],
) -> Result<IdbDatabase> {
    let what = "making the database";
    let request = factory.open_with_u32(name, version).map_err(|e| failure::of_exception(what, &e))?;
    let on_upgrade = Closure::<dyn FnMut()>::new({
        let (request, tables) = (request.clone(), tables.to_vec());
        move || {
            let result = request.result().ok().and_then(|result| result.dyn_into::<IdbDatabase>().ok());
            let Some(database) = result else { return };
            for table in &tables {
                if database.create_object_store(table).is_err() {
                    let _ = request.transaction().map(|transaction| transaction.abort());
                }
            }
        }
    });
    request.set_onupgradeneeded(Some(on_upgrade.as_ref().unchecked_ref()));
    wait(&request).await.map(JsCast::unchecked_into).map_err(|event| failure::of_event(what, &event))
}

async fn connect_once(databases: &Databases, name: &str, create: bool) -> Result<Option<IdbDatabase>> {
    let factory = databases.of_stores()?;
    let listed = is_listed(&factory, name).await;
    if listed != Some(false)
        && let Some(database) = open_as_it_is(&factory, name, listed.is_none()).await?
    {
        return checked(database).map(Some);
    }
    if !create {
        return Ok(None);
    }
    make_store(name).await?;
    match open_as_it_is(&factory, name, false).await? {
        Some(database) => checked(database).map(Some),
        None => fail(Code::StorageClosed, "the database is gone as soon as it is made"),
    }
}

/// Deletes the database, if there is one. `store_in_use` if another connection keeps it open. The browser
/// will then delete it as soon as that connection closes, and nothing can call that back.
pub(super) async fn delete(factory: &IdbFactory, name: &str) -> Result<()> {
    let what = "deleting the database";
    let request = factory.delete_database(name).map_err(|e| failure::of_exception(what, &e))?;
    wait_unless_blocked(&request, what).await
}

/// Whether the browser lists the database; `None` if it has no list (Firefox before 126, private windows).
async fn is_listed(factory: &IdbFactory, name: &str) -> Option<bool> {
    let listed = method(factory, "databases")?.call0(factory).ok()?;
    let list = within(LISTED_MS, &Promise::resolve(&listed)).await.ok()?.filter(Array::is_array)?;
    let is_it = |info: JsValue| property(&info, "name").and_then(|n| n.as_string()).as_deref() == Some(name);
    Some(Array::from(&list).iter().any(is_it))
}

/// Opens the database at its own version; `None` if there is none. Without a list of databases, opening is
/// the only way to look, and it makes a missing database. `tidy` deletes that.
async fn open_as_it_is(factory: &IdbFactory, name: &str, tidy: bool) -> Result<Option<IdbDatabase>> {
    let what = "opening the database";
    let request = factory.open(name).map_err(|e| failure::of_exception(what, &e))?;
    let absent = Rc::new(Cell::new(false));
    let on_upgrade = Closure::<dyn FnMut()>::new({
        let (request, absent) = (request.clone(), Rc::clone(&absent));
        move || {
            // The open names no version, so only a missing database gets this event.
            absent.set(true);
            let _ = request.transaction().map(|transaction| transaction.abort());
        }
    });
    request.set_onupgradeneeded(Some(on_upgrade.as_ref().unchecked_ref()));
    match wait(&request).await {
        _ if absent.get() => {
            if tidy {
                delete(factory, name).await?;
            }
            Ok(None)
        }
        Ok(database) => Ok(Some(database.unchecked_into())),
        Err(event) => Err(failure::of_event(what, &event)),
    }
}

/// Waits for `success` (the request's result) or `error`. A browser that gives neither in time may open the database yet,
/// and it would then keep other tabs from deleting it: so it is closed at once. If it makes the database, the handler is
/// gone that would have filled it, which throws: the browser then drops the database.
async fn wait(request: &IdbOpenDbRequest) -> std::result::Result<JsValue, JsValue> {
    let settled = Deferred::new();
    request.set_onsuccess(Some(&settled.resolve));
    request.set_onerror(Some(&settled.reject));
    if answer(SILENT_MS, &settled.promise).await?.is_some() {
        return request.result();
    }
    let late = request.clone();
    let close = Closure::once_into_js(move || {
        if let Ok(database) = late.result() {
            database.unchecked_into::<IdbDatabase>().close();
        }
    });
    request.set_onsuccess(Some(close.unchecked_ref()));
    Err(silence())
}

/// Waits for the end of a deletion. The browser asks all open connections to close. Only a tab that does not
/// run keeps its own. Errors: `store_in_use` if a connection stays open.
async fn wait_unless_blocked(request: &IdbOpenDbRequest, what: &str) -> Result<()> {
    let (settled, blocked) = (Deferred::new(), Deferred::new());
    request.set_onsuccess(Some(&settled.resolve));
    request.set_onerror(Some(&settled.reject));
    request.set_onblocked(Some(&blocked.resolve));
    let first = Promise::race(&Array::of2(&settled.promise, &blocked.promise));
    let of_event = |event: &JsValue| failure::of_event(what, event);
    let event = answer(SILENT_MS, &first).await.and_then(|event| event.ok_or_else(silence));
    let event = event.map_err(|event| of_event(&event))?;
    let is_blocked = property(&event, "type").and_then(|kind| kind.as_string()).as_deref() == Some("blocked");
    if is_blocked {
        let event = within(BLOCKED_MS, &settled.promise).await.map_err(|event| of_event(&event))?;
        if event.is_none() {
            return fail(Code::StoreInUse, "another connection keeps the database open");
        }
    }
    Ok(())
}

/// Makes the database of a store, among the origin's databases: rexie reaches no others.
async fn make_store(name: &str) -> Result<()> {
    let tables = Table::ALL.map(Table::name).into_iter().chain([HEADER_TABLE]);
    let builder = tables.fold(Rexie::builder(name).version(TABLES_VERSION), |builder, table| {
        builder.add_object_store(ObjectStore::new(table))
    });
    let made = future_to_promise(async move {
        let database = builder.build().await.map_err(|error| name_of(&error))?;
        database.close();
        Ok(JsValue::TRUE)
    });
    let made = answer(SILENT_MS, &made).await.and_then(|made| made.ok_or_else(|| "no answer".into()));
    let of_rexie =
        |name: JsValue| failure::of_name("making the database", &name.as_string().unwrap_or_default());
    made.map(drop).map_err(of_rexie)
}

fn name_of(error: &rexie::Error) -> JsValue {
    // rexie hides the exception in an error of a private crate. The text of that error names the exception. As a `dyn Error` it
    // would bring its text for debugging along, which is a hundred names of variants.
    let text = if let rexie::Error::IdbError(error) = error { error.to_string() } else { String::new() };
    let names = ["QuotaExceededError", "VersionError", "AbortError", "UnknownError", "InvalidStateError"];
    names.into_iter().find(|name| text.contains(name)).unwrap_or("the browser refused").into()
}

/// Refuses a database that this code does not know. It is closed and left as it is.
fn checked(database: IdbDatabase) -> Result<IdbDatabase> {
    // A whole number: the code that formats fractions would be 7 KB of the package.
    let version = database.version() as u64;
    let tables = database.object_store_names();
    let refusal = if version > u64::from(TABLES_VERSION) {
        let detail = format!("the database is of version {version}, this code knows {TABLES_VERSION}");
        Error::new(Code::StoreTooNew, detail)
    } else if Table::ALL.map(Table::name).into_iter().chain([HEADER_TABLE]).all(|t| tables.contains(t)) {
        return Ok(database);
    } else {
        Error::new(Code::StoreDamaged, "the database lacks its tables")
    };
    database.close();
    Err(refusal)
}
