//! The documents that the application sees: those that have not expired, with the effects of pending
//! operations.

use super::machine::Machine;
use super::message::Mode;
use crate::model::{Def, Name, Pk, order};

impl Machine {
    /// The time that decides the expiry of documents: the server's, or in avion the device's (docs/rules.md).
    pub(super) fn life_now(&self) -> u64 {
        match (self.mode, self.server_now) {
            (Mode::Synced | Mode::Incognito, Some((now, at))) => now + self.clock.mono_ms.saturating_sub(at),
            _ => self.clock.wall_ms,
        }
    }

    pub(super) fn hide_expired(&mut self) {
        let now = self.life_now();
        self.memory.touch_expired(self.hidden_until_ms, now);
        self.hidden_until_ms = now;
    }

    /// The ids of a def's documents that have not expired, with those of one page next to each other; whether
    /// the def has been loaded whole once; and its `v`.
    pub fn list(&self, def: &Def) -> Option<(Vec<u32>, bool, u64)> {
        let collection = self.memory.collection(def)?;
        let now = self.life_now();
        let position = self.memory.schema().position(def.class())? as u16;
        // The overlay decides the membership of documents with pending operations.
        let held = collection.set.keys().map(|pk| (position, pk.clone()));
        let documents = held.filter(|key| self.memory.shown(key).is_none());
        let documents = documents.filter_map(|key| self.memory.document(&key));
        // Documents of one page are next to each other: a caller that reads them in pieces reads each page
        // once.
        let mut placed: Vec<_> = documents.filter(|d| !d.is_expired(now)).map(|d| (d.slot, d.id)).collect();
        let shown = self.memory.all_shown().filter(|(_, shown)| shown.defs.binary_search(def).is_ok());
        placed.extend(shown.filter(|(_, shown)| shown.is_visible(now)).map(|(_, shown)| (None, shown.id)));
        order::sort(&mut placed);
        let ids = placed.into_iter().map(|(_, id)| id).collect();
        Some((ids, collection.ready, collection.v(self.memory.epoch().1)))
    }

    /// The id of a held document that has not expired.
    pub fn find(&self, class: &Name, pk: &Pk) -> Option<u32> {
        let key = self.memory.doc_key(class, pk)?;
        if let Some(shown) = self.memory.shown(&key) {
            return shown.is_visible(self.life_now()).then_some(shown.id);
        }
        let document = self.memory.document(&key)?;
        (!document.is_expired(self.life_now())).then_some(document.id)
    }
}
