//! Which sessions have a store open: a Web Lock with the store's name, shared by all of them, and a list of
//! the stores that this page has open. A tab that deletes a store from outside takes the lock exclusively.
//!
//! The browser frees the lock when the tab ends, in any way. The list serves two purposes. Without Web Locks
//! it is all that is known. With them, it makes an opening or a deletion wait for a lock that is being freed:
//! the browser frees a lock some time after the promise that holds it has resolved.

use crate::model::SortedMap;
use std::cell::RefCell;

use js_sys::{Array, Object, Promise, Reflect};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;

use super::failure;
use crate::error::{Code, Error, Result};
use crate::web::platform::locks::{LockManager, manager};
use crate::web::platform::patience::{SILENT_MS, silence, within};
use crate::web::platform::promise::Deferred;

/// This page's hold on one store.
#[derive(Default)]
struct Held {
    /// How many sessions have it open.
    holders: usize,
    is_alone: bool,
    /// Locks that were released, but are not free before these promises settle.
    freeing: Vec<Promise>,
}

thread_local! {
    static HELD: RefCell<SortedMap<String, Held>> = RefCell::default();
}

/// The right to use a store. Dropping it frees the store too, but only [`StoreLock::free`] waits until it is
/// free.
pub(super) struct StoreLock {
    name: String,
    web: Option<WebLock>,
}

/// The browser's part: `hold` keeps the lock until it is resolved, `freed` settles once the lock is free.
struct WebLock {
    hold: Deferred,
    freed: Promise,
}

impl StoreLock {
    /// Opens the store in common with other sessions. Fails at once with `store_in_use` if another tab
    /// deletes it.
    pub(super) async fn take(name: &str) -> Result<Self> {
        Self::take_in(name, false).await
    }

    /// Takes the store exclusively, or fails at once with `store_in_use`.
    pub(super) async fn take_alone(name: &str) -> Result<Self> {
        Self::take_in(name, true).await
    }

    async fn take_in(name: &str, is_alone: bool) -> Result<Self> {
        let freeing = HELD.with_borrow_mut(|held| {
            held.get_mut(name).map(|held| std::mem::take(&mut held.freeing)).unwrap_or_default()
        });
        for freed in freeing {
            // The lock is free now, even if the promise rejects.
            let _ = JsFuture::from(freed).await;
        }
        HELD.with_borrow_mut(|held| {
            let held = held.entry(name.to_owned()).or_default();
            if held.is_alone || (is_alone && held.holders > 0) {
                return Err(in_use("a session of this page has the store open"));
            }
            held.holders += 1;
            held.is_alone = is_alone;
            Ok(())
        })?;
        let mut lock = StoreLock { name: name.to_owned(), web: None };
        // Without Web Locks nothing is known of other tabs.
        if let Some(manager) = manager() {
            let mode = if is_alone { "exclusive" } else { "shared" };
            lock.web = Some(WebLock::request(&manager, name, mode).await?);
        }
        Ok(lock)
    }

    /// Frees the store, and waits until it is free.
    pub(super) async fn free(mut self) {
        let freed = self.let_go();
        self.name.clear();
        if let Some(freed) = freed {
            let _ = JsFuture::from(freed).await;
        }
    }

    fn let_go(&mut self) -> Option<Promise> {
        let freed = self.web.take().map(WebLock::let_go);
        HELD.with_borrow_mut(|all| {
            let Some(held) = all.get_mut(&self.name) else { return };
            held.holders -= 1;
            held.is_alone = false;
            held.freeing.extend(freed.clone());
            if held.holders == 0 && held.freeing.is_empty() {
                all.remove(&self.name);
            }
        });
        freed
    }
}

impl Drop for StoreLock {
    fn drop(&mut self) {
        // `free` clears the name: it has released the lock already.
        if !self.name.is_empty() {
            self.let_go();
        }
    }
}

impl WebLock {
    async fn request(manager: &LockManager, name: &str, mode: &str) -> Result<Self> {
        let failed = |exception: JsValue| failure::of_exception("taking the store's lock", &exception);
        let (hold, answer) = (Deferred::new(), Deferred::new());
        let callback = Closure::once({
            let (hold, answer) = (hold.promise.clone(), answer.resolve.clone());
            move |lock: JsValue| -> JsValue {
                let granted = !lock.is_null() && !lock.is_undefined();
                let _ = answer.call1(&JsValue::UNDEFINED, &granted.into());
                if granted { hold.into() } else { JsValue::UNDEFINED }
            }
        });
        let options = Object::new();
        Reflect::set(&options, &"ifAvailable".into(), &true.into()).map_err(failed)?;
        Reflect::set(&options, &"mode".into(), &mode.into()).map_err(failed)?;
        let freed = manager.request(name, &options, callback.as_ref().unchecked_ref()).map_err(failed)?;
        // If this instance of the wasm dies, its clean-up code (scripts/wasm/write-glue.mjs) finds here how to
        // free the lock, and when it is free.
        let _ = Reflect::set(&hold.resolve, &"escaleFreed".into(), &freed);
        // If the browser refuses the request itself, `freed` settles and the callback never runs. If this
        // future is dropped here, so is the callback: calling it throws, and a callback that throws frees the
        // lock.
        let first = Promise::race(&Array::of2(&answer.promise, &freed));
        let granted = within(SILENT_MS, &first).await.and_then(|granted| granted.ok_or_else(silence));
        if granted.map_err(failed)?.as_bool() == Some(true) {
            Ok(WebLock { hold, freed })
        } else {
            Err(in_use("another tab of this browser has the store open, or deletes it"))
        }
    }

    fn let_go(self) -> Promise {
        let _ = self.hold.resolve.call0(&JsValue::UNDEFINED);
        self.freed
    }
}

fn in_use(detail: &str) -> Error {
    Error::new(Code::StoreInUse, detail)
}
