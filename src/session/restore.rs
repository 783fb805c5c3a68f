//! Building the memory from what rests on the device.

use super::collection::Collection;
use super::document::{Content, DocKey, Document, PageRef};
use super::memory::Memory;
use super::set::Member;
use super::stamp::Stamp;
use crate::model::{Def, Epoch, Pk};

/// What rests of a document beside its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DocumentAtRest {
    /// The version.
    pub at: Stamp,
    /// Minutes since 1970 of the end of its logical life.
    pub max_life: Option<u64>,
    /// Where its data rests.
    pub place: PageRef,
}

/// What a restored memory lacks: counted, so that it can be reported and fetched again (R14).
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

    /// The fields of the whole must be written anew.
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

    pub(crate) fn restore_link(
        &mut self,
        def: &Def,
        pk: &Pk,
        member: Option<Member<Stamp>>,
        mark: Option<Stamp>,
    ) {
        if let Some(collection) = self.collections.get_mut(def) {
            collection.set.restore(pk.clone(), member, mark);
        }
    }

    pub(crate) fn restore_document(&mut self, key: DocKey, document: Option<DocumentAtRest>) {
        match document {
            Some(at_rest) => {
                let DocumentAtRest { at, max_life, place } = at_rest;
                let document = Document {
                    id: 0,
                    at,
                    max_life,
                    content: Content::AtRest,
                    rest: Some(place),
                    defs: Vec::new(),
                };
                self.documents.insert(key, document);
            }
            None => {
                self.documents.remove(&key);
            }
        }
    }

    /// Ends the restoration: the other side of the links (R2), and what does not hold together is let go.
    ///
    /// A link without its document sends its collection back to `v` 0 (R14); a document without links leaves.
    pub(crate) fn restore_links(&mut self) -> Missing {
        let mut missing = Missing::default();
        let mut broken: Vec<(Def, Pk)> = Vec::new();
        let mut defs: Vec<&Def> = self.collections.keys().collect();
        defs.sort_unstable();
        for def in defs {
            let position = self.schema.position(def.class()).unwrap_or(usize::MAX) as u16;
            for pk in self.collections[def].set.keys() {
                match self.documents.get_mut(&(position, pk.clone())) {
                    Some(document) => document.defs.push(def.clone()),
                    None => broken.push((def.clone(), pk.clone())),
                }
            }
        }
        for (def, pk) in broken {
            missing.documents += 1;
            self.dirty.links.insert((def.clone(), pk.clone()));
            if let Some(collection) = self.collections.get_mut(&def) {
                collection.set.forget(&pk);
            }
            self.restart(&def);
        }
        // Those that pending operations stand on stay (R2).
        let is_unheld = |key: &DocKey, document: &Document| document.defs.is_empty() && !self.is_pinned(key);
        let unheld: Vec<DocKey> =
            self.documents.iter().filter(|(key, d)| is_unheld(key, d)).map(|(key, _)| key.clone()).collect();
        for key in unheld {
            self.remove_document(&key);
        }
        let mut keys: Vec<DocKey> = self.documents.keys().cloned().collect();
        keys.sort_unstable();
        for key in keys {
            self.index_restored(&key);
        }
        self.take_changes();
        missing
    }

    /// Every collection goes back to `v` 0, what is readable staying visible (R14).
    pub(crate) fn restart_all(&mut self) {
        let defs: Vec<Def> = self.collections.keys().cloned().collect();
        for def in defs {
            self.restart(&def);
        }
    }
}

impl Collection {
    /// Whether a whole load is under way or due.
    pub fn is_loading(&self, era: u32) -> bool {
        self.load.is_some() || self.v(era) == 0
    }
}
