//! The memory itself: its maps of documents and collections, and the two-way link between them (R2).

use super::collection::Collection;
use super::defs::Defs;
use super::dirty::Dirty;
use super::document::{Content, DocKey, Document, PageRef, is_over};
use super::overlay::{Pin, Shown};
use super::shelf::Shelf;
use super::stamp::Stamp;
use super::tombstones::Tombstones;
use crate::error::Result;
use crate::model::schema::{Class, Schema};
use crate::model::{Def, Epoch, Pk, QuickMap, SortedMap, SortedSet};

/// Documents and collections of one org and account.
///
/// Every change goes through [`Memory::link`], [`Memory::unlink`] and [`Memory::drop_link`], which keep `pk
/// in collection.pks <=> def in document.defs` and remove a document that no def holds.
pub struct Memory {
    pub(super) schema: Schema,
    pub(super) documents: Shelf<DocKey, Document>,
    pub(super) collections: SortedMap<Def, Collection>,
    /// Ids up to this one were given by the restoration: each is its document's index plus one.
    pub(super) placed_ids: u32,
    /// The keys of all other ids.
    pub(super) by_id: QuickMap<u32, DocKey>,
    pub(super) lives: SortedSet<(u64, DocKey)>,
    pub(super) next_id: u32,
    pub(super) epoch: Option<Epoch>,
    pub(super) era: u32,
    pub(super) dirty: Dirty,
    pub(super) changed: SortedSet<Def>,
    pub(super) gone: Vec<u32>,
    /// Documents that the server reported as deleted.
    pub(super) tombstones: Tombstones,
    /// Documents that pending operations touch.
    pub(super) pins: SortedMap<DocKey, Pin>,
    /// Pinned documents whose data may have to be read.
    pub(super) unread: SortedSet<DocKey>,
    /// Pinned documents whose base or links changed since the last [`Memory::take_touched`].
    pub(super) touched: SortedSet<DocKey>,
    /// Documents that leave at the end of a replay of another session's state.
    pub(super) leaving: SortedSet<DocKey>,
    /// Whether a replay linked a document that is not in memory.
    pub(super) lacks_documents: bool,
    /// The overlays of documents.
    pub(super) shown: SortedMap<DocKey, Shown>,
}

impl Memory {
    /// An empty memory under a schema.
    pub fn new(schema: Schema) -> Self {
        Memory {
            schema,
            documents: Shelf::default(),
            collections: SortedMap::new(),
            placed_ids: 0,
            by_id: QuickMap::default(),
            lives: SortedSet::new(),
            next_id: 1,
            epoch: None,
            era: 0,
            dirty: Dirty::default(),
            changed: SortedSet::new(),
            gone: Vec::new(),
            tombstones: Tombstones::default(),
            pins: SortedMap::new(),
            unread: SortedSet::new(),
            touched: SortedSet::new(),
            leaving: SortedSet::new(),
            lacks_documents: false,
            shown: SortedMap::new(),
        }
    }

    /// The schema.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The epoch of the server's database, once known, and its era.
    pub fn epoch(&self) -> (Option<&Epoch>, u32) {
        (self.epoch.as_ref(), self.era)
    }

    /// The document, held or on the device.
    pub fn document(&self, key: &DocKey) -> Option<&Document> {
        self.documents.get(key)
    }

    /// The defs that hold a document; none if it is not held.
    pub fn holders(&self, key: &DocKey) -> Defs {
        self.documents.get(key).map(|document| document.defs.clone()).unwrap_or_default()
    }

    /// Every document.
    pub fn documents(&self) -> impl Iterator<Item = (&DocKey, &Document)> {
        self.documents.iter()
    }

    /// The document with that id, if that version is still the current one.
    pub fn by_id(&self, id: u32) -> Option<(&DocKey, &Document)> {
        let found = if id <= self.placed_ids {
            self.documents.at((id as usize).checked_sub(1)?)
        } else {
            let key = self.by_id.get(&id)?;
            Some((key, self.documents.get(key)?))
        };
        found.filter(|(_, document)| document.id == id)
    }

    /// The document whose overlay has that id, if there is one.
    pub fn shown_by_id(&self, id: u32) -> Option<(&DocKey, &Shown)> {
        let key = self.by_id.get(&id)?;
        Some((key, self.shown.get(key).filter(|shown| shown.id == id)?))
    }

    /// The collection of a def, if it is subscribed to.
    pub fn collection(&self, def: &Def) -> Option<&Collection> {
        self.collections.get(def)
    }

    /// Every collection.
    pub fn collections(&self) -> impl Iterator<Item = (&Def, &Collection)> {
        self.collections.iter()
    }

    /// The class at a position of the schema.
    pub fn class(&self, position: u16) -> &Class {
        &self.schema.classes()[usize::from(position)]
    }

    /// The key of a document.
    pub fn doc_key(&self, class: &crate::model::Name, pk: &Pk) -> Option<DocKey> {
        Some((self.schema.position(class)? as u16, pk.clone()))
    }

    /// Subscribes: the collection exists from now on, empty until it is loaded. Returns whether it is new.
    pub fn subscribe(&mut self, def: &Def) -> Result<bool> {
        self.schema.check_def(def)?;
        if self.collections.contains_key(def) {
            return Ok(false);
        }
        let mut collection = Collection::default();
        collection.set.restart(Stamp::new(self.era, 0));
        self.collections.insert(def.clone(), collection);
        self.dirty.collections.insert(def.clone());
        self.dirty.subscriptions = true;
        self.changed.insert(def.clone());
        Ok(true)
    }

    /// Ends a subscription: documents that no other def holds leave the memory (R2). Returns whether there
    /// was one.
    pub fn unsubscribe(&mut self, def: &Def) -> bool {
        let Some(collection) = self.collections.get(def) else { return false };
        let keys: Vec<Pk> = collection.set.keys().cloned().collect();
        // If the def is subscribed again before the next batch, nothing of this subscription may remain in
        // storage.
        let marks: Vec<Pk> = collection.set.marks().map(|(pk, _)| pk.clone()).collect();
        self.dirty.links.extend(marks.into_iter().map(|pk| (def.clone(), pk)));
        for pk in keys {
            self.drop_link(def, &pk);
        }
        self.collections.remove(def);
        self.dirty.collections.insert(def.clone());
        self.dirty.subscriptions = true;
        self.changed.insert(def.clone());
        true
    }

    /// Starts the whole load of a def from scratch; its members stay visible until the load has ended (R8,
    /// R14).
    pub fn restart(&mut self, def: &Def) {
        let era = self.era;
        if let Some(collection) = self.collections.get_mut(def) {
            let touched: Vec<Pk> =
                collection.set.keys().chain(collection.set.marks().map(|(k, _)| k)).cloned().collect();
            collection.set.restart(Stamp::new(era, 0));
            collection.load = None;
            for pk in touched {
                self.dirty.links.insert((def.clone(), pk));
            }
            self.dirty.collections.insert(def.clone());
            self.changed.insert(def.clone());
        }
    }

    /// Enters the epoch of a message. In a later one every collection is loaded again (R8). An earlier one
    /// changes nothing, and its message must be dropped.
    pub fn enter_epoch(&mut self, epoch: &Epoch) -> EpochChange {
        match &self.epoch {
            Some(current) if epoch < current => return EpochChange::Earlier,
            Some(current) if epoch == current => return EpochChange::Same,
            Some(_) => self.era += 1,
            None => {}
        }
        let first = self.epoch.is_none();
        self.epoch = Some(epoch.clone());
        self.dirty.head = true;
        if first {
            return EpochChange::Same;
        }
        self.tombstones.forget();
        let defs: Vec<Def> = self.collections.keys().cloned().collect();
        for def in defs {
            self.restart(&def);
        }
        EpochChange::Later
    }

    /// Documents that have expired by the server's time leave every def, without a removal tombstone: a
    /// higher `v` with a later `maxLife` brings them back (docs/rules.md).
    pub fn remove_expired(&mut self, now_ms: u64) {
        while let Some((minutes, key)) = self.lives.first().cloned() {
            if !is_over(Some(minutes), now_ms) {
                break;
            }
            self.lives.remove(&(minutes, key.clone()));
            for def in self.holders(&key).iter() {
                self.drop_link(def, &key.1);
            }
        }
    }

    /// The first expiry of a document after `now_ms`, in milliseconds.
    pub fn next_expiry(&self, now_ms: u64) -> Option<u64> {
        let from = (now_ms / 60_000 + 1, (0, Pk::parse("-").ok()?));
        self.lives.range(from..).next().map(|(minutes, _)| minutes.saturating_mul(60_000))
    }

    /// Notes as changed the defs of documents that expire between two times. They are hidden now, or shown
    /// again if the clock went back.
    pub fn touch_expired(&mut self, from_ms: u64, to_ms: u64) {
        let (earlier, later) = (from_ms.min(to_ms), from_ms.max(to_ms));
        let Ok(lowest) = Pk::parse("-") else { return };
        for (minutes, key) in self.lives.range((earlier / 60_000 + 1, (0, lowest))..) {
            if !is_over(Some(*minutes), later) {
                break;
            }
            if let Some(document) = self.documents.get(key) {
                self.changed.extend(document.defs.iter().cloned());
            }
        }
    }

    /// Notes that a document's stored data is damaged: it is requested again (R14).
    pub fn lose(&mut self, key: &DocKey) {
        self.touch_pin(key);
        if let Some(document) = self.documents.get_mut(key) {
            document.content = Content::Lost;
            self.changed.extend(document.defs.iter().cloned());
        }
    }

    /// The slots of documents that are gone, which the next batch frees.
    pub(crate) fn freed(&self) -> &[PageRef] {
        &self.dirty.freed
    }

    /// The changes that are not in storage; the caller is responsible for writing them.
    pub fn take_dirty(&mut self) -> Dirty {
        std::mem::take(&mut self.dirty)
    }

    /// Gives back changes that could not be written.
    pub fn put_back_dirty(&mut self, dirty: Dirty) {
        self.dirty.merge(dirty);
    }

    /// The next batch says whether there is this subscription: it may not be in storage yet, or a follower may
    /// show something else.
    pub(crate) fn restate_collection(&mut self, def: &Def) {
        self.dirty.collections.insert(def.clone());
        self.dirty.subscriptions = true;
    }

    /// Notes that a field of the head changed.
    pub(crate) fn mark_head(&mut self) {
        self.dirty.head = true;
    }

    /// Whether everything is in storage.
    pub fn is_clean(&self) -> bool {
        self.dirty.is_empty()
    }

    /// Whether [`Memory::take_changes`] would return anything.
    pub fn has_changes(&self) -> bool {
        !self.changed.is_empty() || !self.gone.is_empty()
    }

    /// The defs that changed and the ids that are not used any more, since the last call.
    pub fn take_changes(&mut self) -> (Vec<Def>, Vec<u32>) {
        (std::mem::take(&mut self.changed).into_iter().collect(), std::mem::take(&mut self.gone))
    }

    /// A version of a document was written into that slot. If the document has left meanwhile, the next batch
    /// frees the slot.
    pub(crate) fn settle_at_rest(&mut self, key: &DocKey, at: Stamp, place: PageRef) {
        match self.documents.get_mut(key) {
            Some(document) => {
                document.slot = Some(place);
                if document.at == at && matches!(document.content, Content::Resident(_)) {
                    let content = std::mem::replace(&mut document.content, Content::AtRest);
                    if let (Some(pin), Content::Resident(data)) = (self.pins.get_mut(key), content) {
                        pin.data = Some((at, data));
                    }
                }
            }
            None => self.dirty.freed.push(place),
        }
    }

    /// Brings a document's data back into memory, to be written again: its page is to be removed.
    pub(crate) fn reload(&mut self, key: &DocKey, at: Stamp, data: crate::codec::Data) {
        let held = self.documents.get_mut(key);
        if let Some(document) = held.filter(|d| d.at == at && matches!(d.content, Content::AtRest)) {
            document.content = Content::Resident(data);
            self.dirty.documents.insert(key.clone());
            // Operations on it may have waited for this data.
            self.touch_pin(key);
        }
    }

    /// A new id for a state of a document.
    pub(super) fn take_id(&mut self, key: &DocKey) -> u32 {
        let id = self.next_id;
        self.next_id = self.next_id.checked_add(1).expect("four billion versions in one session");
        self.by_id.insert(id, key.clone());
        id
    }

    /// Replaces a document's data, or adds the document. The caller checks R1.
    pub(super) fn set_document(&mut self, key: &DocKey, at: Stamp, max_life: Option<u64>, content: Content) {
        let id = self.take_id(key);
        self.touch_pin(key);
        self.tombstones.raise(key, at);
        self.dirty.documents.insert(key.clone());
        if let Some(minutes) = max_life {
            self.lives.insert((minutes, key.clone()));
        }
        if let Some(document) = self.documents.get_mut(key) {
            if let Some(minutes) = document.max_life.filter(|_| document.max_life != max_life) {
                self.lives.remove(&(minutes, key.clone()));
            }
            self.by_id.remove(&document.id);
            self.gone.push(document.id);
            document.id = id;
            document.at = at;
            document.max_life = max_life;
            document.content = content;
            self.changed.extend(document.defs.iter().cloned());
        } else {
            self.documents.insert(
                key.clone(),
                Document { id, at, max_life, content, slot: None, defs: Defs::default() },
            );
        }
    }

    /// Links a held document to a def at that version (R2, R3).
    pub(super) fn link(&mut self, def: &Def, key: &DocKey, at: Stamp, confirmed: bool) {
        let (Some(collection), Some(document)) = (self.collections.get_mut(def), self.documents.get_mut(key))
        else {
            return;
        };
        if !collection.set.link(&key.1, at, confirmed) {
            return;
        }
        self.dirty.links.insert((def.clone(), key.1.clone()));
        if collection.sharing.add(&mut document.defs, def) {
            self.changed.insert(def.clone());
            self.touch_pin(key);
        }
    }

    /// Applies a departure from a def at that version (R3, R5).
    pub(super) fn unlink(&mut self, def: &Def, pk: &Pk, at: Stamp) {
        let Some(collection) = self.collections.get_mut(def) else { return };
        if collection.set.unlink(pk, at) {
            self.dirty.links.insert((def.clone(), pk.clone()));
        }
        if self.collections[def].set.member(pk).is_none() {
            self.release(def, pk);
        }
    }

    /// Removes a document from a def without a removal tombstone.
    pub(super) fn drop_link(&mut self, def: &Def, pk: &Pk) {
        if self.collections.get_mut(def).is_some_and(|collection| collection.set.forget(pk)) {
            self.dirty.links.insert((def.clone(), pk.clone()));
            self.release(def, pk);
        }
    }

    /// Updates the other side of R2: the document no longer names the def, and leaves if it names none.
    fn release(&mut self, def: &Def, pk: &Pk) {
        let Some(key) = self.doc_key(def.class(), pk) else { return };
        let (Some(collection), Some(document)) =
            (self.collections.get_mut(def), self.documents.get_mut(&key))
        else {
            return;
        };
        if !collection.sharing.remove(&mut document.defs, def) {
            return;
        }
        let is_unheld = document.defs.is_empty();
        self.changed.insert(def.clone());
        self.touch_pin(&key);
        if is_unheld && !self.is_pinned(&key) {
            self.remove_document(&key);
        }
    }

    /// Removes a document that no def holds.
    pub(super) fn remove_document(&mut self, key: &DocKey) {
        if let Some(document) = self.documents.remove(key) {
            self.touch_pin(key);
            self.by_id.remove(&document.id);
            self.gone.push(document.id);
            if let Some(minutes) = document.max_life {
                self.lives.remove(&(minutes, key.clone()));
            }
            self.dirty.documents.insert(key.clone());
            self.dirty.freed.extend(document.slot);
        }
    }

    /// Panics if R2 is violated. For tests.
    #[cfg(any(test, feature = "testing"))]
    pub fn check_links(&self) {
        for (def, collection) in &self.collections {
            for pk in collection.set.keys() {
                let key = self.doc_key(def.class(), pk).expect("a class of the schema");
                let document =
                    self.documents.get(&key).unwrap_or_else(|| panic!("R2: {def} holds {pk}, not in memory"));
                assert!(document.defs.contains(def), "R2: {def} holds {pk}, which does not name it");
                assert_ne!(collection.set.mark(pk), Some(Stamp::default()), "R5: a member with a mark");
            }
        }
        for ((class, pk), document) in self.documents.iter() {
            let held = !document.defs.is_empty() || self.is_pinned(&(*class, pk.clone()));
            assert!(held, "R2: {pk} is held by no def");
            for def in document.defs.iter() {
                assert_eq!(self.schema.position(def.class()), Some(usize::from(*class)));
                let member = self.collections.get(def).and_then(|collection| collection.set.member(pk));
                assert!(member.is_some(), "R2: {pk} names {def}, which does not hold it");
            }
            let (key, named) = self.by_id(document.id).expect("an id that names its document");
            assert_eq!((key, named.id), (&(*class, pk.clone()), document.id));
        }
        let shown = self.shown.values().filter(|shown| shown.data.is_some()).count();
        let placed = self.documents.iter().filter(|(_, d)| d.id <= self.placed_ids).count();
        assert_eq!(self.by_id.len(), self.documents.len() - placed + shown);
    }
}

/// How a message's epoch compares to the session's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EpochChange {
    /// The same epoch, or the first one met.
    Same,
    /// A later one: everything is loaded again.
    Later,
    /// An earlier one: the message is dropped.
    Earlier,
}
