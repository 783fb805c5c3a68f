//! The open session that JavaScript holds.

use std::cell::RefCell;
use std::rc::Rc;

use js_sys::{Array, Object, Promise, Reflect, Uint32Array};
use serde::Serialize;
use wasm_bindgen::prelude::*;

use super::error::{promise_of, promise_or_thrown, thrown, value, value_or_promise_of};
use super::host::texts;
use super::options::{Secret, mode_of};
use crate::codec::{read_json, write_json};
use crate::crypto::{Header, SystemRandom, WrapKind};
use crate::error::{Code, Error, Result, fail};
use crate::journal::Signal;
use crate::limits::KDF_ROUNDS;
use crate::memory::query::Query;
use crate::model::{Def, Name, Number, Value, order};
use crate::storage::rewrap;
use crate::store::{Device, Store};
use crate::sync::{Event, Mode, ReadRow};
use crate::web::driver::Driver;
use crate::web::idb::{IdbDevice, IdbStore};
use crate::web::tabs::signals::signal_of;

type Thrown<T> = std::result::Result<T, JsValue>;

/// The parts that only a session with a device has, in addition to its driver.
pub(super) struct DeviceSide {
    pub device: IdbDevice,
    pub store: Rc<IdbStore>,
    pub name: String,
    pub salt: [u8; 32],
    pub by: WrapKind,
    pub header: RefCell<Header>,
}

/// An open session. Methods that wait first clone the parts that they need, so it may be freed meanwhile.
#[wasm_bindgen]
pub struct Core {
    inner: Rc<Inner>,
}

pub(super) struct Inner {
    pub driver: Rc<Driver>,
    pub device: Option<DeviceSide>,
    has_server: bool,
}

impl Core {
    pub(super) fn new(driver: Rc<Driver>, device: Option<DeviceSide>, has_server: bool) -> Self {
        Core { inner: Rc::new(Inner { driver, device, has_server }) }
    }

    pub(super) fn inner(&self) -> Rc<Inner> {
        self.inner.clone()
    }

    /// These documents of a def, with the def's own state.
    fn listing(&self, def: &Def, ids: &[u32]) -> Thrown<Object> {
        let state = self.inner.driver.with(|machine| {
            let memory = machine.memory();
            let is_whole = crate::memory::tree::is_whole(memory, def);
            let v = crate::memory::tree::asked_v(memory, def);
            let of = |held: &crate::memory::Collection| (held.ready, v, held.lease);
            (memory.collection(def).map_or((false, 0, 0), of), is_whole)
        });
        let ((ready, v, lease), whole) = state.map_err(thrown)?;
        let object = Object::new();
        Reflect::set(&object, &"ids".into(), &Uint32Array::from(ids))?;
        Reflect::set(&object, &"ready".into(), &ready.into())?;
        Reflect::set(&object, &"whole".into(), &whole.into())?;
        Reflect::set(&object, &"v".into(), &(v as f64).into())?;
        Reflect::set(&object, &"lease".into(), &(lease as f64).into())?;
        Ok(object)
    }
}

#[wasm_bindgen]
impl Core {
    /// The def that a match object stands for.
    pub fn def(&self, class: &str, matching: &str) -> Thrown<JsValue> {
        let matching: Result<Value> = read_json(matching, Code::BadOption).map_err(|e: Error| e.at("match"));
        let def = self.inner.driver.with(|machine| machine.memory().schema().def_of(class, &matching?));
        value(def.and_then(|def| def).map(|def| def.to_string()))
    }

    /// Subscribes to a def, or says how long the subscription lasts from now on.
    pub fn subscribe(&self, def: &str, lease: f64) -> Thrown<()> {
        let def = self.checked(def).map_err(thrown)?;
        self.inner.driver.post(Event::Subscribe(def.clone()));
        self.inner.driver.post(Event::Lease(def, lease as u64));
        Ok(())
    }

    /// Ends a subscription.
    pub fn unsubscribe(&self, def: &str) -> Thrown<()> {
        let def = self.checked(def).map_err(thrown)?;
        self.inner.driver.post(Event::Unsubscribe(def));
        Ok(())
    }

    /// Every def subscribed to.
    pub fn subscriptions(&self) -> Thrown<JsValue> {
        let list = self.inner.driver.with(|machine| {
            let mut defs: Vec<String> =
                machine.memory().collections().map(|(def, _)| def.to_string()).collect();
            order::sort(&mut defs);
            texts(&defs)
        });
        value(list)
    }

    /// The documents held for a def: `Listing`. If nobody subscribes to it, or it is not loaded: the document that it names, if
    /// another def holds that.
    pub fn list(&self, def: &str) -> Thrown<JsValue> {
        let def: Def = def.parse().map_err(thrown)?;
        let ids = self.inner.driver.with(|machine| match machine.list(&def) {
            Some((ids, is_loaded, _)) if is_loaded || !ids.is_empty() => ids,
            _ => machine.held(&def).into_iter().collect(),
        });
        let ids = ids.map_err(thrown)?;
        Ok(self.listing(&def, &ids)?.into())
    }

    /// The changes of a def since the last call: `Listing`, with `left` unless it has all members.
    pub fn changes(&self, def: &str, all: bool) -> Thrown<JsValue> {
        let def: Def = def.parse().map_err(thrown)?;
        let changes = self.inner.driver.ask(|machine| machine.changes(&def, all)).map_err(thrown)?;
        let changes = changes.unwrap_or_default();
        let object = self.listing(&def, &changes.ids)?;
        if let Some(left) = changes.left {
            Reflect::set(&object, &"left".into(), &Uint32Array::from(left.as_slice()))?;
        }
        Ok(object.into())
    }

    /// JSON text of the rows that can be read, or a promise of it.
    pub fn read(&self, ids: Vec<u32>) -> Thrown<JsValue> {
        let driver = self.inner.driver.clone();
        value_or_promise_of(Box::pin(async move { Ok(rows_json(&driver.read(ids).await?)?.into()) }))
    }

    /// The id of a document by its key: `parts` values joined by slashes. 0 if the document is not held.
    pub fn find(&self, class: &str, key: &str, parts: usize) -> Thrown<u32> {
        let found = self.inner.driver.with(|machine| {
            let class = machine.memory().schema().class(class)?;
            let parts: Vec<&str> = key.splitn(parts, '/').collect();
            Ok(machine.find(class.name(), &class.pk_of(&parts)?).unwrap_or(0))
        });
        found.and_then(|found: Result<u32>| found).map_err(thrown)
    }

    /// The ids of the documents of a class that satisfy a query, as `Query::from_json` reads it; or a promise of them.
    pub fn query(&self, class: String, query: String) -> Thrown<JsValue> {
        let driver = self.inner.driver.clone();
        value_or_promise_of(Box::pin(async move {
            let (class, query) = parsed(&driver, &class, &query)?;
            let ids = driver.query(class, query).await?;
            Ok(Uint32Array::from(ids.as_slice()).into())
        }))
    }

    /// A live query of a class began, or ended: meanwhile the class keeps its indexes.
    pub fn watch(&self, class: &str, query: Option<String>) -> Thrown<()> {
        let begins = query.is_some();
        let (class, _) =
            parsed(&self.inner.driver, class, query.as_deref().unwrap_or(NO_CONDITION)).map_err(thrown)?;
        self.inner.driver.post(Event::Watch { class, begins });
        Ok(())
    }

    /// `{ v, pending, deleted }` of a document version, if it is still held.
    pub fn meta(&self, id: u32) -> Thrown<JsValue> {
        let found = self.inner.driver.with(|machine| {
            let shown = machine.memory().shown_by_id(id);
            let shown = shown.map(|(key, shown)| (shown.v, !machine.memory().class(key.0).is_local()));
            shown.or_else(|| machine.memory().by_id(id).map(|(_, document)| (document.at.v, false)))
        });
        let Some((v, pending)) = found.map_err(thrown)? else { return Ok(JsValue::UNDEFINED) };
        let object = Object::new();
        Reflect::set(&object, &"v".into(), &(v as f64).into())?;
        Reflect::set(&object, &"pending".into(), &pending.into())?;
        Reflect::set(&object, &"deleted".into(), &JsValue::FALSE)?;
        Ok(object.into())
    }

    /// Changes the mode. `synced` and `avion` can be exchanged, and that applies to every tab; `incognito`
    /// never changes.
    #[wasm_bindgen(js_name = setMode)]
    pub fn set_mode(&self, mode: String) -> Promise {
        let inner = self.inner();
        promise_of(Box::pin(async move {
            let mode = mode_of(&mode)?;
            let current = inner.driver.with(|machine| machine.status().mode)?;
            inner.check_mode(current, mode)?;
            inner.driver.post(Event::SetMode(mode));
            if current != mode {
                inner.signal(if mode == Mode::Avion { Signal::Avion } else { Signal::Synced }).await;
            }
            Ok(JsValue::UNDEFINED)
        }))
    }

    /// Waits until everything that the session holds is on the device.
    pub fn flush(&self) -> Promise {
        let inner = self.inner();
        promise_of(Box::pin(async move { inner.driver.flush().await.map(|()| JsValue::UNDEFINED) }))
    }

    /// Changes the passphrase: wraps K under a key from the new one.
    #[wasm_bindgen(js_name = changePassphrase)]
    pub fn change_passphrase(&self, old: String, next: String) -> Promise {
        let inner = self.inner();
        promise_of(Box::pin(
            async move { inner.change_passphrase(old, next).await.map(|()| JsValue::UNDEFINED) },
        ))
    }

    /// Ends the session, and by the word of a signal those of the other tabs, too. Keys and memory are dropped; after
    /// `wiped` the store is deleted.
    pub fn end(&self, word: &str) -> Promise {
        let (inner, signal) = (self.inner(), signal_of(word));
        promise_of(Box::pin(async move {
            if let Some(signal) = signal {
                inner.signal(signal).await;
            }
            inner.driver.close().await;
            if let (Some(Signal::Wipe), Some(side)) = (signal, &inner.device) {
                side.device.delete(&side.name).await?;
            }
            Ok(JsValue::UNDEFINED)
        }))
    }

    /// The records on the device, for inspectors.
    pub fn inspect(&self, limit: u32) -> Promise {
        let inner = self.inner();
        promise_or_thrown(Box::pin(async move { super::inspect::at_rest(&inner, limit as usize).await }))
    }

    /// Every collection in memory, for inspectors.
    pub fn memory(&self) -> Thrown<JsValue> {
        super::inspect::in_memory(&self.inner)
    }
}

impl Core {
    fn checked(&self, def: &str) -> Result<Def> {
        let def: Def = def.parse()?;
        self.inner.driver.with(|machine| machine.memory().schema().check_def(&def).map(|_| ()))??;
        Ok(def)
    }
}

/// The query of all documents of a class.
const NO_CONDITION: &str = "[[],null,null,null,null]";

/// The class of that name, and the query. Errors: as [`Query::from_json`] and [`Machine::check_query`](crate::sync::Machine::check_query).
fn parsed(driver: &Driver, class: &str, query: &str) -> Result<(Name, Query)> {
    driver.with(|machine| {
        let class = machine.memory().schema().class(class)?;
        let query = Query::from_json(class, query)?;
        machine.check_query(&query)?;
        Ok((class.name().clone(), query))
    })?
}

impl Inner {
    /// Sends a signal to every tab that has the store open.
    async fn signal(&self, signal: Signal) {
        if let Some(tabs) = self.driver.tabs() {
            tabs.signal(signal).await;
        }
    }

    fn check_mode(&self, current: Mode, mode: Mode) -> Result<()> {
        if current == mode {
            return Ok(());
        }
        if current == Mode::Incognito || mode == Mode::Incognito {
            return fail(
                Code::BadOption,
                "a session is incognito from its opening to its end: open another one",
            );
        }
        if mode == Mode::Synced && !self.has_server {
            return fail(Code::BadOption, "the session was opened without `server`");
        }
        Ok(())
    }

    async fn change_passphrase(&self, old: String, next: String) -> Result<()> {
        self.driver.with(|_| ())?;
        let Some(device) = &self.device else {
            return fail(Code::BadOption, "an incognito session has no passphrase");
        };
        if device.by == WrapKind::Key {
            return fail(Code::BadOption, "the store opens with a key, not with a passphrase");
        }
        if next.is_empty() {
            return fail(Code::BadOption, "the new passphrase is empty");
        }
        // Another tab may have changed it.
        let header = match device.store.header().await? {
            Some(bytes) => Header::from_bytes(&bytes)?,
            None => device.header.borrow().clone(),
        };
        let rounds = KDF_ROUNDS.0;
        let old = Secret::Passphrase(old).derive(&device.salt, header.rounds(device.by)?).await?;
        let next = Secret::Passphrase(next).derive(&device.salt, rounds).await?;
        let wrapped =
            rewrap(&*device.store, &header, device.by, &old, &next, rounds, &mut SystemRandom).await;
        let header = wrapped.inspect_err(|error| self.driver.post(Event::DeviceClosed(error.clone())))?;
        self.driver.host().derived(&next);
        self.driver.post(Event::Rewrapped(header.to_bytes()));
        *device.header.borrow_mut() = header;
        if let Some(tabs) = self.driver.tabs() {
            tabs.rewrapped();
        }
        Ok(())
    }
}

/// Roughly how much longer a document is as JSON than in msgpack, including its id. The guess avoids most
/// reallocations.
const ROOM_OF_ROW: usize = 96;

/// The property with a document's release.
const RELEASE: &str = "release";

/// `[[id, data], ...]`, the data without its release; `[id, data, release]` if that is not the class's
/// current one.
fn rows_json(rows: &[ReadRow]) -> Result<String> {
    let room: usize = rows.iter().map(|row| row.data.as_bytes().len() + ROOM_OF_ROW).sum();
    let mut text = Vec::with_capacity(room);
    text.push(b'[');
    for row in rows {
        let start = text.len();
        text.extend(if start == 1 { &b"["[..] } else { &b",["[..] });
        text.extend(row.id.to_string().bytes());
        text.push(b',');
        // A document that cannot be read is left out, and the others are still given.
        let Ok(release) = row.data.write_json_but(RELEASE, &mut text) else {
            text.truncate(start);
            continue;
        };
        let release =
            release.filter(|release| *release >= 1.0).and_then(Number::new).unwrap_or(Number::Int(1));
        if release.as_f64().to_bits() != (row.release as f64).to_bits() {
            text.push(b',');
            text.extend(write_json(&Value::Number(release))?.bytes());
        }
        text.push(b']');
    }
    text.push(b']');
    String::from_utf8(text).map_err(|_| Error::new(Code::Internal, "JSON that is not UTF-8"))
}

/// A plain object from a serialisable value.
pub(super) fn to_js(value: &impl Serialize) -> Thrown<JsValue> {
    value.serialize(&serde_wasm_bindgen::Serializer::json_compatible()).map_err(Into::into)
}

pub(super) fn array_of(items: impl IntoIterator<Item = JsValue>) -> Array {
    items.into_iter().collect()
}
