//! The memory itself: its maps of documents and collections, and the two-way link between them (R2).

use super::collection::Collection;
use super::defs::Defs;
use super::dirty::{Dirty, Unreported};
use super::document::{Content, DocKey, Document, PageRef};
use super::documents::Documents;
use super::overlay::{Shown, is_local, synced};
use super::pins::Pins;
use super::query::NewIds;
use super::stamp::Stamp;
use super::tombstones::Tombstones;
use crate::error::Result;
use crate::model::schema::{Class, Schema};
use crate::model::{Def, Epoch, Pk, SortedMap, SortedSet};

/// Documents and collections of one org and account.
///
/// Every change goes through [`Memory::link`], [`Memory::unlink`] and [`Memory::drop_links`], which keep `pk
/// in collection.pks <=> def in document.defs` and remove a document that no def holds.
pub struct Memory {
    pub(super) schema: Schema,
    pub(super) documents: Documents,
    pub(super) collections: SortedMap<Def, Collection>,
    pub(super) epoch: Option<Epoch>,
    pub(super) era: u32,
    /// The changes that are not in storage. A batch that takes them writes them, or gives them back.
    pub(crate) dirty: Dirty,
    /// The changes that are not yet reported to the application.
    pub(crate) unreported: Unreported,
    /// Documents that the server reported as deleted.
    pub(super) tombstones: Tombstones,
    /// Documents that pending operations touch.
    pub(crate) pins: Pins,
    /// Documents that leave at the end of a replay of another session's state.
    pub(super) leaving: SortedSet<DocKey>,
    /// Whether a replay linked a document that is not in memory.
    pub(super) lacks_documents: bool,
    /// The overlays of documents.
    pub(super) shown: SortedMap<DocKey, Shown>,
    /// The defs whose items are hidden, because a pending operation deletes their parent.
    pub(super) hidden: SortedSet<Def>,
    /// The new ids of classes with indexes.
    pub(crate) new_ids: NewIds,
}

impl Memory {
    /// An empty memory under a schema.
    pub fn new(schema: Schema) -> Self {
        Memory {
            schema,
            documents: Documents::default(),
            collections: SortedMap::new(),
            epoch: None,
            era: 0,
            dirty: Dirty::default(),
            unreported: Unreported::default(),
            tombstones: Tombstones::default(),
            pins: Pins::default(),
            leaving: SortedSet::new(),
            lacks_documents: false,
            shown: SortedMap::new(),
            hidden: SortedSet::new(),
            new_ids: NewIds::default(),
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
        self.documents.by_id(id)
    }

    /// The document whose overlay has that id, if there is one.
    pub fn shown_by_id(&self, id: u32) -> Option<(&DocKey, &Shown)> {
        let key = self.documents.key_of(id)?;
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
        let mut collection = Collection { ready: is_local(self, def), ..Collection::default() };
        collection.set.restart(Stamp::new(self.era, 0));
        self.collections.insert(def.clone(), collection);
        self.dirty.collections.insert(def.clone());
        self.dirty.subscriptions = true;
        self.unreported.defs.insert(def.clone());
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
        self.drop_links(def, keys);
        self.collections.remove(def);
        self.dirty.collections.insert(def.clone());
        self.dirty.subscriptions = true;
        self.unreported.defs.insert(def.clone());
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
            self.unreported.defs.insert(def.clone());
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
        let defs: Vec<Def> = synced(self).map(|(def, _)| def.clone()).collect();
        for def in defs {
            self.restart(&def);
        }
        EpochChange::Later
    }

    /// Documents that have expired by the server's time leave every def, without a removal tombstone: a
    /// higher `v` with a later `maxLife` brings them back (docs/rules.md).
    pub fn remove_expired(&mut self, now_ms: u64) {
        while let Some(key) = self.documents.take_expired(now_ms) {
            for def in self.holders(&key).iter() {
                self.drop_links(def, vec![key.1.clone()]);
            }
        }
    }

    /// The first expiry of a document after `now_ms`, in milliseconds.
    pub fn next_expiry(&self, now_ms: u64) -> Option<u64> {
        self.documents.next_expiry(now_ms)
    }

    /// Notes that a document's stored data is damaged: it is requested again (R14).
    pub fn lose(&mut self, key: &DocKey) {
        self.pins.touch(key);
        if let Some(document) = self.documents.get_mut(key) {
            document.content = Content::Lost;
            self.note_in_all(key);
        }
    }

    /// Whether everything is in storage.
    pub fn is_clean(&self) -> bool {
        self.dirty.is_empty()
    }

    /// A version of a document was written into that slot. If the document has left meanwhile, the next batch
    /// frees the slot.
    pub(crate) fn settle_at_rest(&mut self, key: &DocKey, at: Stamp, place: PageRef) {
        match self.documents.get_mut(key) {
            Some(document) => {
                document.slot = Some(place);
                if document.at == at && matches!(document.content, Content::Resident(_)) {
                    let content = std::mem::replace(&mut document.content, Content::AtRest);
                    if let Content::Resident(data) = content {
                        self.pins.keep(key, at, data);
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
            self.pins.touch(key);
        }
    }

    /// Replaces a document's data, or adds the document. The caller checks R1.
    pub(super) fn set_document(&mut self, key: &DocKey, at: Stamp, max_life: Option<u64>, content: Content) {
        self.pins.touch(key);
        self.tombstones.raise(key, at);
        self.dirty.documents.insert(key.clone());
        self.unreported.gone.extend(self.documents.set(key, at, max_life, content));
        if let Some(document) = self.documents.get(key) {
            self.new_ids.add(key.0, document.id);
            self.note_in_all(key);
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
            note_link(self, def, key);
        }
    }

    /// Applies a departure from a def at that version (R3, R5).
    pub(super) fn unlink(&mut self, def: &Def, pk: &Pk, at: Stamp) {
        let Some(collection) = self.collections.get_mut(def) else { return };
        if collection.set.unlink(pk, at) {
            self.dirty.links.insert((def.clone(), pk.clone()));
        }
        if self.collections[def].set.member(pk).is_none() {
            self.release(def, vec![pk.clone()]);
        }
    }

    /// Removes documents from a def without removal tombstones.
    pub(super) fn drop_links(&mut self, def: &Def, mut pks: Vec<Pk>) {
        let Some(collection) = self.collections.get_mut(def) else { return };
        pks.retain(|pk| collection.set.forget(pk));
        self.dirty.links.reserve(pks.len());
        self.dirty.links.extend(pks.iter().map(|pk| (def.clone(), pk.clone())));
        self.release(def, pks);
    }

    /// Updates the other side of R2: the documents no longer name the def, and those that name none leave. There may be as
    /// many as a parent has items, so the def is looked up once.
    fn release(&mut self, def: &Def, pks: Vec<Pk>) {
        let (Some(position), Some(collection)) =
            (self.schema.position(def.class()), self.collections.get_mut(def))
        else {
            return;
        };
        let mut released = Vec::with_capacity(pks.len());
        for pk in pks {
            let key = (position as u16, pk);
            let Some(document) = self.documents.get_mut(&key) else { continue };
            if collection.sharing.remove(&mut document.defs, def) {
                collection.touch(&key.1);
                let is_unheld = document.defs.is_empty();
                released.push((key, is_unheld));
            }
        }
        if released.is_empty() {
            return;
        }
        self.unreported.defs.insert(def.clone());
        self.dirty.documents.reserve(released.len());
        let is_hidden = self.hidden.contains(def);
        for (key, is_unheld) in released {
            self.pins.touch(&key);
            if is_hidden {
                self.note_in_all(&key);
            }
            if is_unheld && !self.pins.holds(&key) {
                self.remove_document(&key);
            }
        }
    }

    /// Removes a document that no def holds.
    pub(super) fn remove_document(&mut self, key: &DocKey) {
        if let Some(document) = self.documents.remove(key) {
            self.pins.touch(key);
            self.unreported.gone.push(document.id);
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
            let held = !document.defs.is_empty() || self.pins.holds(&(*class, pk.clone()));
            assert!(held, "R2: {pk} is held by no def");
            for def in document.defs.iter() {
                assert_eq!(self.schema.position(def.class()), Some(usize::from(*class)));
                let member = self.collections.get(def).and_then(|collection| collection.set.member(pk));
                assert!(member.is_some(), "R2: {pk} names {def}, which does not hold it");
            }
        }
        let shown = self.shown.values().filter(|shown| shown.data.is_some()).count();
        self.documents.check_ids(shown);
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

/// Sets how long a subscription lasts. Returns whether that changed.
pub fn lease(memory: &mut Memory, def: &Def, lease: u64) -> bool {
    match memory.collections.get_mut(def) {
        Some(collection) if collection.lease != lease => collection.lease = lease,
        _ => return false,
    }
    memory.dirty.restate(def);
    true
}

/// The server refuses a def for good: its list is not ready before it answers, in later openings too (R94).
pub fn unready(memory: &mut Memory, def: &Def) {
    if let Some(collection) = memory.collections.get_mut(def)
        && std::mem::take(&mut collection.ready)
    {
        memory.dirty.collections.insert(def.clone());
        memory.unreported.defs.insert(def.clone());
    }
}

/// Notes that a document joined a def or left it.
fn note_link(memory: &mut Memory, def: &Def, key: &DocKey) {
    memory.unreported.note(&mut memory.collections, def, &key.1);
    memory.pins.touch(key);
    // The items of a parent that is being deleted are hidden in all their defs (R19).
    if memory.hidden.contains(def) {
        memory.note_in_all(key);
    }
}
