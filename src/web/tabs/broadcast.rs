//! Messages to all tabs. Each is sent over the BroadcastChannel. Two records of the inbox, the leader's beat
//! and the last signal, repeat them for tabs without a channel.

use std::rc::Rc;

use wasm_bindgen_futures::spawn_local;

use super::signals::{here, word_of};
use super::{Tabs, now};
use crate::error::Code;
use crate::journal::Signal;
use crate::store::{Store, Table};
use crate::sync::{Event, Machine, Mode, TabEvent};

impl Tabs {
    /// Sends a signal to all tabs: a message over the channel, and a record for tabs without one.
    pub async fn signal(&self, signal: Signal) {
        self.say(word_of(signal));
        if signal == Signal::Wipe {
            // A tab that did not get the message gets a `versionchange` event when the database is deleted.
            return;
        }
        let Some(driver) = self.driver.upgrade() else { return };
        let (Some(store), Some(Ok(batch))) = (driver.store().cloned(), driver.signal(signal)) else { return };
        // If the record cannot be written, the message must do.
        if store.commit(batch).await.is_ok()
            && let Some(Some(keys)) = self.with(Machine::signal_keys)
            && let Ok(records) = store.get(Table::Inbox, &keys).await
        {
            // This tab has just read its own signal back. It counts as seen: the signal is for the others.
            *self.last_records.borrow_mut() = records.try_into().ok();
        }
    }

    pub(super) fn obey(&self, signal: Signal) {
        match signal {
            Signal::Synced => self.post(Event::SetMode(Mode::Synced)),
            Signal::Avion => self.post(Event::SetMode(Mode::Avion)),
            Signal::Beat => {}
            ending => {
                if let Some(driver) = self.driver.upgrade() {
                    driver.close_by(ending);
                }
            }
        }
    }

    pub(super) fn beat(&self) {
        self.beat_ms.set(now());
        self.say_here(self.with(here));
        if self.messages.borrow().is_some() || !self.leads() {
            return;
        }
        let Some(driver) = self.driver.upgrade() else { return };
        let (Some(store), Some(Ok(batch))) = (driver.store().cloned(), driver.signal(Signal::Beat)) else {
            return;
        };
        spawn_local(async move {
            let result = store.commit(batch).await;
            if result.is_err_and(|error| error.code() == Code::Deposed) {
                driver.post(Event::Tab(TabEvent::Depose));
            }
        });
    }

    /// Polls the beat and signal records, for tabs without a channel.
    pub(super) fn look_up(self: &Rc<Self>) {
        let Some(Some(keys)) = self.with(Machine::signal_keys) else { return };
        let Some(store) = self.driver.upgrade().and_then(|driver| driver.store().cloned()) else { return };
        let tabs = Rc::clone(self);
        spawn_local(async move {
            let Ok(records) = store.get(Table::Inbox, &keys).await else { return };
            let Ok(records) = <[Option<Vec<u8>>; 2]>::try_from(records) else { return };
            let Some(before) = tabs.last_records.replace(Some(records.clone())) else { return };
            if before[0] != records[0] && !tabs.leads() {
                tabs.heard();
                let beat = records[0].as_ref();
                let phase =
                    beat.and_then(|sealed| tabs.with(|machine| machine.open_beat(keys[0], sealed))?);
                if let Some(phase) = phase {
                    tabs.post(Event::Tab(TabEvent::Heard(phase)));
                }
            }
            let said = records[1].as_ref().filter(|_| before[1] != records[1]);
            let signal = said.and_then(|sealed| tabs.with(|machine| machine.open_signal(keys[1], sealed))?);
            if let Some(signal) = signal.filter(|_| !tabs.is_away.get()) {
                tabs.obey(signal);
            }
        });
    }
}
