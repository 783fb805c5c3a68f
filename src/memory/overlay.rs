//! The overlay: the effects of pending operations, laid over the documents received from the server.
//!
//! Reads, collections and queries show it. The base under it is kept apart, and only R1 to R3 change it. So
//! dropping the overlay and applying a reply are one step.

use std::collections::BTreeMap;

use super::collection::Collection;
use super::document::{Content, DocKey, Document, is_over};
use super::state::Memory;
use super::tree::tree_defs;
use crate::codec::Data;
use crate::error::Result;
use crate::model::{Def, DefKind, Name, Pk, SortedSet, Value, order};

/// A document with the effects of pending operations.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The id of this state of the document, from the same numbers as the ids of documents; 0 if it is
    /// deleted.
    pub id: u32,
    /// The version of the base; 0 if there is none.
    pub v: u64,
    /// The data; `None` if it is deleted.
    pub data: Option<Data>,
    /// Minutes since 1970 at which it expires.
    pub max_life: Option<u64>,
    /// The subscribed defs that hold it in this state.
    pub defs: Vec<Def>,
}

impl Shown {
    /// Whether the application sees it at that time.
    pub fn is_visible(&self, now_ms: u64) -> bool {
        self.data.is_some() && !is_over(self.max_life, now_ms)
    }
}

/// The base of one document, under the overlay.
#[derive(Clone, Debug, PartialEq)]
pub enum Base {
    /// This session has no such document.
    Absent,
    /// The server reported it as deleted.
    Deleted,
    /// Its data.
    Known(BTreeMap<String, Value>),
    /// Its data is in storage, still to be read.
    AtRest,
    /// Its data was found damaged.
    Lost,
}

/// Whether only this device has the documents of a def (R29).
pub fn is_local(memory: &Memory, def: &Def) -> bool {
    memory.schema.classes().iter().any(|class| class.is_local() && class.name() == def.class())
}

/// Every collection that the server has: its documents are pulled.
pub fn synced(memory: &Memory) -> impl Iterator<Item = (&Def, &Collection)> {
    memory.collections.iter().filter(|(def, _)| !is_local(memory, def))
}

/// The documents that changed in a def since the last call. `None` for the first call, or if too many have.
pub fn take_touched(memory: &mut Memory, def: &Def) -> Option<Vec<Pk>> {
    memory.collections.get_mut(def)?.touched.replace(Vec::new())
}

/// Notes as changed the defs of documents that expire between two times. They are hidden now, or shown again if the clock
/// went back.
pub fn touch_expired(memory: &mut Memory, from_ms: u64, to_ms: u64) {
    for key in memory.documents.expiring(from_ms.min(to_ms), from_ms.max(to_ms)) {
        memory.note_in_all(&key);
    }
}

impl Memory {
    /// Notes a change of a document in each def in which the application sees it, with pending operations and without.
    /// Queries of its class may find it in no def.
    pub(super) fn note_in_all(&mut self, key: &DocKey) {
        let shown = self.shown.get(key);
        let defs = shown.map(|shown| shown.defs.clone()).unwrap_or_default();
        if shown.is_some() && self.new_ids.follows(key.0) {
            let class = Def::class_of(self.class(key.0).name());
            self.unreported.defs.insert(class);
        }
        for def in self.holders(key).iter().chain(&defs) {
            self.unreported.note(&mut self.collections, def, &key.1);
        }
    }

    /// One operation less touches the document: it leaves if it was the last one, and no def holds the document.
    pub(crate) fn unpin(&mut self, key: &DocKey) {
        let is_free = self.pins.remove(key);
        if is_free && self.documents.get(key).is_some_and(|document| document.defs.is_empty()) {
            self.remove_document(key);
        }
    }

    /// The ids of pinned documents whose data is still to be read.
    pub(crate) fn pins_at_rest(&mut self) -> Vec<u32> {
        let Memory { pins, documents, .. } = self;
        let is_at_rest = |document: &&Document| matches!(document.content, Content::AtRest);
        let at_rest = |key: &DocKey| documents.get(key).filter(is_at_rest);
        let unread = pins.unread(|pins, key| at_rest(key).is_some_and(|d| pins.data(key, d.at).is_none()));
        unread.iter().filter_map(|key| Some(documents.get(key)?.id)).collect()
    }

    /// Keeps a pinned document's data, which is in storage too.
    pub(crate) fn hold(&mut self, id: u32, data: Data) {
        let Some((key, document)) = self.documents.by_id(id) else { return };
        self.pins.keep(key, document.at, data);
    }

    /// The base data, if it is in memory.
    pub(crate) fn base_data(&self, key: &DocKey) -> Option<&Data> {
        let document = self.documents.get(key)?;
        match &document.content {
            Content::Resident(data) => Some(data),
            Content::AtRest => self.pins.data(key, document.at),
            Content::Lost => None,
        }
    }

    /// The base of a document.
    pub(crate) fn base(&self, key: &DocKey) -> Base {
        let Some(document) = self.documents.get(key) else {
            return if self.tombstones.holds(key) { Base::Deleted } else { Base::Absent };
        };
        match (self.base_data(key), &document.content) {
            (Some(data), _) => data.to_map().map_or(Base::Lost, Base::Known),
            (None, Content::AtRest) => Base::AtRest,
            (None, _) => Base::Lost,
        }
    }

    /// A document as the application sees it: its id, and its data as pending operations leave it.
    pub(crate) fn shown(&self, key: &DocKey) -> Option<&Shown> {
        self.shown.get(key)
    }

    /// Every document with an overlay.
    pub(crate) fn all_shown(&self) -> impl Iterator<Item = (&DocKey, &Shown)> {
        self.shown.iter()
    }

    /// Lays the state made by pending operations over a document; `None` deletes it. An unchanged state stays
    /// the same object for the application.
    pub(crate) fn show(&mut self, key: &DocKey, state: Option<&BTreeMap<String, Value>>) -> Result<()> {
        let data = state.map(Data::from_map).transpose()?;
        let defs = state.map(|state| self.defs_shown(key, state)).unwrap_or_default();
        if self.shown.get(key).is_some_and(|shown| shown.data == data && shown.defs == defs) {
            return Ok(());
        }
        self.unshow(key);
        let id = if data.is_some() { self.documents.take_id(key) } else { 0 };
        let v = self.documents.get(key).map_or(0, |document| document.at.v);
        let max_life = state.and_then(|state| state.get("maxLife")).and_then(Value::as_u64);
        self.shown.insert(key.clone(), Shown { id, v, data, max_life, defs });
        self.documents.set_life_shown(key, max_life, true);
        if id != 0 {
            self.new_ids.add(key.0, id);
        }
        self.note_in_all(key);
        Ok(())
    }

    /// Removes the overlay of a document.
    pub(crate) fn unshow(&mut self, key: &DocKey) {
        if self.shown.contains_key(key) {
            self.note_in_all(key);
        }
        let Some(shown) = self.shown.remove(key) else { return };
        self.documents.set_life_shown(key, shown.max_life, false);
        if shown.id != 0 {
            self.documents.free_id(shown.id);
            self.unreported.gone.push(shown.id);
        }
    }

    /// The subscribed defs that hold a document with that data. For a collection whose key properties are as
    /// in the base, the server's links count; for others, the data decides.
    fn defs_shown(&self, key: &DocKey, state: &BTreeMap<String, Value>) -> Vec<Def> {
        let class = self.class(key.0);
        let mut defs = vec![Def::class_of(class.name()), Def::document(class.name(), &key.1)];
        let base = match self.base(key) {
            Base::Known(base) => Some(base),
            _ => None,
        };
        let held = self.holders(key);
        for collection in class.collections() {
            let now = collection.memberships(state).ok().flatten().unwrap_or_default();
            let before = base.as_ref().and_then(|base| collection.memberships(base).ok().flatten());
            if before.as_ref() == Some(&now) {
                let same = |def: &&Def| matches!(def.kind(), DefKind::Collection(name, _) if name == collection.name());
                defs.extend(held.iter().filter(same).cloned());
            } else {
                let def = |hash| Def::collection_hashed(class.name(), collection.name(), hash);
                defs.extend(now.iter().map(|hash| def(hash.as_str())));
            }
        }
        let subscribed = defs.into_iter().filter(|def| self.collections.contains_key(def));
        order::set_of(subscribed).into_iter().collect()
    }

    /// The subscribed defs in which an effect on a document must become visible: its class, the def of the
    /// document itself, and the collections that hold it, in the base or with the overlay. If none holds it,
    /// these are all collections of its class, since only the server knows which of them do.
    pub(crate) fn defs_of(&self, key: &DocKey) -> SortedSet<Def> {
        let held = self.holders(key);
        let shown = self.shown.get(key).map(|shown| shown.defs.as_slice()).unwrap_or_default();
        let class = self.class(key.0).name();
        let own = Def::document(class, &key.1);
        let is_own = |def: &Def| match def.kind() {
            DefKind::Document(_) => *def == own,
            DefKind::Class => true,
            DefKind::Collection(..) => held.is_empty() || held.contains(def) || shown.contains(def),
        };
        let subscribed = synced(self).map(|(def, _)| def).filter(|def| def.class() == class);
        let mut defs = order::set_of(subscribed.filter(|def| is_own(def)).cloned());
        if self.class(key.0).has_items() {
            // A deletion ends the items, and the defs of a tree are pulled together (R18).
            defs.extend(tree_defs(self, key));
        }
        defs
    }

    /// The class name of a document's key.
    pub(crate) fn class_name(&self, key: &DocKey) -> Name {
        self.class(key.0).name().clone()
    }
}
