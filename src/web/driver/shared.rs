//! The part of the driver for a store that several tabs have open. It performs the machine's effects for
//! tabs, and reacts to the other tabs.

use std::pin::Pin;
use std::rc::Rc;

use wasm_bindgen_futures::spawn_local;

use super::{Driver, post_to};
use crate::error::Result;
use crate::journal::Signal;
use crate::storage;
use crate::store::{Batch, Store, Table};
use crate::sync::{Event, Inbox, Machine, TabEffect, TabEvent};
use crate::web::idb::IdbStore;
use crate::web::tabs::Tabs;

impl Driver {
    /// The page enters the browser's page cache, from which it may return. Another tab leads meanwhile.
    pub(super) fn on_pagehide(self: &Rc<Self>) {
        if let Some(tabs) = self.tabs() {
            tabs.leave();
            self.post(Event::Tab(TabEvent::Depose));
        }
    }

    /// The page is shown again, or became visible.
    pub(super) fn on_pageshow(self: &Rc<Self>) {
        self.tabs().iter().for_each(Tabs::on_pageshow);
        for effect in self.held.take() {
            self.carry_out_for_tabs(effect);
        }
    }

    /// The other tabs that have the store open; `None` in incognito.
    pub fn tabs(&self) -> Option<Rc<Tabs>> {
        self.tabs.borrow().clone()
    }

    /// The batch that writes a signal for every tab; `None` once the session is closed.
    pub fn signal(&self, signal: Signal) -> Option<Result<Batch>> {
        self.machine.try_borrow_mut().ok()?.as_mut().map(|machine| machine.signal(signal))
    }

    /// Another tab has ended the session in every tab, by this signal.
    pub fn close_by(self: &Rc<Self>, signal: Signal) {
        let driver = Rc::clone(self);
        spawn_local(async move {
            driver.close().await;
            driver.host.closed(signal);
        });
    }

    /// Runs a future and posts the event that it gives.
    pub(super) fn spawn(self: &Rc<Self>, future: impl Future<Output = Event> + 'static) {
        self.spawn_boxed(Box::pin(future));
    }

    /// The same. A boxed future has one type, so a task and its waker are compiled only once.
    fn spawn_boxed(self: &Rc<Self>, future: Pin<Box<dyn Future<Output = Event>>>) {
        let driver = Rc::downgrade(self);
        spawn_local(async move {
            let event = future.await;
            post_to(&driver, event);
        });
    }

    pub(super) fn carry_out_for_tabs(self: &Rc<Self>, effect: TabEffect) {
        let Some(store) = self.store.clone() else { return };
        let reads = !matches!(effect, TabEffect::Leads | TabEffect::Deposed);
        if reads && self.tabs().is_some_and(|tabs| tabs.is_away()) {
            // A frozen page with an open transaction makes other tabs wait, and the browser does not keep
            // such a page.
            self.held.borrow_mut().push(effect);
            return;
        }
        match effect {
            TabEffect::Poll { number, keys } => self.spawn(async move {
                let found = store.get(Table::State, &keys).await;
                Event::Tab(TabEvent::Polled { number, found })
            }),
            TabEffect::Read(number) => {
                let Ok(Some(reader)) = self.with(Machine::reader) else { return };
                self.spawn(async move {
                    let opened = reader.read(&*store).await.map(Box::new);
                    Event::Tab(TabEvent::Read { number, opened })
                });
            }
            TabEffect::ReadInbox { with_copies } => {
                self.spawn(async move { Event::Tab(TabEvent::Inbox(read_inbox(&store, with_copies).await)) });
            }
            TabEffect::Leads => self.tabs().iter().for_each(|tabs| tabs.led()),
            TabEffect::Deposed => self.tabs().iter().for_each(Tabs::deposed),
        }
    }
}

async fn read_inbox(store: &IdbStore, with_copies: bool) -> Result<Inbox> {
    let generation = store.generation().await?;
    let mut requests = store.inbox().await?;
    if with_copies {
        requests = storage::with_copies(store, requests).await?;
    }
    Ok(Inbox { generation, requests })
}
