//! Restores the memory from storage when a session opens.

use super::collection::Collection;
use super::defs::Defs;
use super::document::{Content, DocKey, Document, PageRef};
use super::set::Member;
use super::stamp::Stamp;
use super::state::Memory;
use crate::model::{Def, Epoch, Pk, order};

/// The stored facts about a document, without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DocumentAtRest {
    /// The version.
    pub at: Stamp,
    /// Minutes since 1970 at which the document expires.
    pub max_life: Option<u64>,
    /// The slot of its data.
    pub place: PageRef,
}

/// Counts missing data of a restored memory, so that it can be reported and fetched again (R14).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Links to documents that are not there.
    pub documents: u64,
}

impl Memory {
    pub(crate) fn restore_epoch(&mut self, epoch: Option<Epoch>, era: u32) {
        self.epoch = epoch;
        self.era = era;
    }

    /// Notes that the head record must be written again.
    pub(crate) fn touch_head(&mut self) {
        self.dirty.head = true;
    }

    pub(crate) fn restore_collection(&mut self, def: &Def, v: Stamp, ready: bool, load: Option<super::Load>) {
        if self.schema.check_def(def).is_err() {
            self.dirty.collections.insert(def.clone());
            return;
        }
        let collection = self.collections.entry(def.clone()).or_default();
        collection.set.restore_v(v);
        collection.ready = ready;
        collection.load = load;
    }

    pub(crate) fn restore_no_collection(&mut self, def: &Def) {
        self.collections.remove(def);
    }

    /// Reserves memory for that many documents.
    pub(crate) fn reserve_documents(&mut self, count: usize) {
        self.documents.reserve(count);
    }

    /// Reserves memory for that many members of a def that has none yet.
    pub(crate) fn reserve_members(&mut self, def: &Def, count: usize) {
        if let Some(collection) = self.collections.get_mut(def).filter(|c| c.set.is_empty()) {
            collection.set.reserve(count);
        }
    }

    pub(crate) fn restore_set_of(
        &mut self,
        def: &Def,
        states: impl Iterator<Item = (Pk, Option<Member<Stamp>>, Option<Stamp>)>,
    ) {
        if let Some(collection) = self.collections.get_mut(def) {
            for (pk, member, mark) in states {
                collection.set.restore(pk, member, mark);
            }
        }
    }

    /// Restores a document and gives it an id. Ids follow the order of the records, so they are the same at
    /// each opening.
    pub(crate) fn restore_document(&mut self, key: DocKey, document: Option<DocumentAtRest>) {
        let Some(DocumentAtRest { at, max_life, place: slot }) = document else {
            self.documents.remove(&key);
            return;
        };
        let (content, slot, defs) = (Content::AtRest, Some(slot), Defs::default());
        let document = Document { id: 0, at, max_life, content, slot, defs };
        let (place, _) = self.documents.put(key, document, false);
        // Each index is used once, and nothing else takes an id before the restoration ends.
        let id = place as u32 + 1;
        if let Some(document) = self.documents.at_mut(place) {
            document.id = id;
        }
        self.placed_ids = self.placed_ids.max(id);
        self.next_id = self.placed_ids + 1;
    }

    /// Ends the restoration: fills in the other side of the links (R2), and removes inconsistent entries.
    ///
    /// A link without its document sends its collection back to `v` 0 (R14); a document without links leaves.
    pub(crate) fn restore_links(&mut self) -> Missing {
        let mut missing = Missing::default();
        let mut broken: Vec<(Def, Pk)> = Vec::new();
        let mut defs: Vec<Def> = self.collections.keys().cloned().collect();
        order::sort(&mut defs);
        for def in &defs {
            let position = self.schema.position(def.class()).unwrap_or(usize::MAX) as u16;
            let Some(Collection { set, sharing, .. }) = self.collections.get_mut(def) else { continue };
            let mut next = 0;
            for pk in set.keys() {
                match self.documents.next_mut(&(position, pk.clone()), &mut next) {
                    Some(document) => {
                        sharing.add(&mut document.defs, def);
                    }
                    None => broken.push((def.clone(), pk.clone())),
                }
            }
        }
        for (def, pk) in broken {
            missing.documents += 1;
            // First: it has all links written again, this one as well.
            self.restart(&def);
            if let Some(collection) = self.collections.get_mut(&def) {
                collection.set.forget(&pk);
            }
        }
        // Pinned documents stay: pending operations touch them (R2).
        let is_unheld = |key: &DocKey, document: &Document| document.defs.is_empty() && !self.is_pinned(key);
        let unheld: Vec<DocKey> =
            self.documents.iter().filter(|(key, d)| is_unheld(key, d)).map(|(key, _)| key.clone()).collect();
        for key in unheld {
            self.remove_document(&key);
        }
        for (key, document) in self.documents.iter() {
            self.lives.extend(document.max_life.map(|minutes| (minutes, key.clone())));
        }
        self.take_changes();
        missing
    }

    /// Sends every collection back to `v` 0; readable documents stay visible (R14).
    pub(crate) fn restart_all(&mut self) {
        let defs: Vec<Def> = self.collections.keys().cloned().collect();
        for def in defs {
            self.restart(&def);
        }
    }
}

impl Collection {
    /// Whether a whole load is in progress or due.
    pub fn is_loading(&self, era: u32) -> bool {
        self.load.is_some() || self.v(era) == 0
    }
}
