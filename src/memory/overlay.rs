//! The overlay: the effects of pending operations, laid over the documents received from the server.
//!
//! Reads, collections and queries show it. The base under it is kept apart, and only R1 to R3 change it. So
//! dropping the overlay and applying a reply are one step.

use std::collections::BTreeMap;

use super::document::{Content, DocKey, is_over};
use super::stamp::Stamp;
use super::state::Memory;
use crate::codec::Data;
use crate::error::Result;
use crate::model::{Def, DefKind, Name, SortedSet, Value, order};

/// A document with the effects of pending operations.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Identifies this state of this document, as a document's id does; 0 if it is deleted.
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

/// Keeps a document in memory while pending operations touch it.
#[derive(Clone, Debug, Default)]
pub struct Pin {
    count: u32,
    /// The base data of that version, if the document's own is in storage only.
    pub(super) data: Option<(Stamp, Data)>,
}

impl Memory {
    /// Keeps a document in memory, with its data, while operations touch it, even if no def holds it.
    pub(crate) fn pin(&mut self, key: &DocKey) {
        self.pins.entry(key.clone()).or_default().count += 1;
        self.unread.insert(key.clone());
    }

    /// Notes that the base of a pinned document has changed.
    pub(super) fn touch_pin(&mut self, key: &DocKey) {
        if self.is_pinned(key) {
            self.touched.insert(key.clone());
        }
    }

    /// The pinned documents whose base or links changed since the last call.
    pub(crate) fn take_touched(&mut self) -> SortedSet<DocKey> {
        std::mem::take(&mut self.touched)
    }

    /// One operation less touches the document.
    pub(crate) fn unpin(&mut self, key: &DocKey) {
        let Some(pin) = self.pins.get_mut(key) else { return };
        pin.count -= 1;
        if pin.count > 0 {
            return;
        }
        self.pins.remove(key);
        if self.documents.get(key).is_some_and(|document| document.defs.is_empty()) {
            self.remove_document(key);
        }
    }

    pub(super) fn is_pinned(&self, key: &DocKey) -> bool {
        self.pins.contains_key(key)
    }

    /// The ids of pinned documents whose data is still to be read.
    pub(crate) fn pins_at_rest(&mut self) -> Vec<u32> {
        let mut unread = std::mem::take(&mut self.unread);
        unread.retain(|key| {
            let rests = self.documents.get(key).is_some_and(|d| matches!(d.content, Content::AtRest));
            rests && self.is_pinned(key) && self.base_data(key).is_none()
        });
        self.unread = unread;
        self.unread.iter().filter_map(|key| Some(self.documents.get(key)?.id)).collect()
    }

    /// Keeps a pinned document's data, which is in storage too.
    pub(crate) fn hold(&mut self, id: u32, data: Data) {
        let Some((key, document)) = self.by_id(id) else { return };
        let (key, at) = (key.clone(), document.at);
        if let Some(pin) = self.pins.get_mut(&key) {
            pin.data = Some((at, data));
        }
    }

    /// The base data, if it is in memory.
    pub(crate) fn base_data(&self, key: &DocKey) -> Option<&Data> {
        let document = self.documents.get(key)?;
        match &document.content {
            Content::Resident(data) => Some(data),
            Content::AtRest => {
                let (at, data) = self.pins.get(key)?.data.as_ref()?;
                (*at == document.at).then_some(data)
            }
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
        let id = if data.is_some() { self.take_id(key) } else { 0 };
        self.changed.extend(defs.iter().cloned());
        let document = self.documents.get(key);
        self.changed.extend(document.into_iter().flat_map(|d| d.defs.iter().cloned()));
        let v = document.map_or(0, |document| document.at.v);
        let max_life = state.and_then(|state| state.get("maxLife")).and_then(Value::as_u64);
        self.shown.insert(key.clone(), Shown { id, v, data, max_life, defs });
        Ok(())
    }

    /// Removes the overlay of a document.
    pub(crate) fn unshow(&mut self, key: &DocKey) {
        let Some(shown) = self.shown.remove(key) else { return };
        if shown.id != 0 {
            self.by_id.remove(&shown.id);
            self.gone.push(shown.id);
        }
        self.changed.extend(shown.defs);
        let holders = self.holders(key);
        self.changed.extend(holders.iter().cloned());
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

    /// The subscribed defs in which an effect on a document must become visible: those that hold it, in the
    /// base or with the overlay. For a document that no def holds, this is any def of its class, since only
    /// the server knows which ones do.
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
        let subscribed = self.collections.keys().filter(|def| def.class() == class);
        order::set_of(subscribed.filter(|def| is_own(def)).cloned())
    }

    /// The class name of a document's key.
    pub(crate) fn class_name(&self, key: &DocKey) -> Name {
        self.class(key.0).name().clone()
    }
}
