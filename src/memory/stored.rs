//! Brings the memory to a stored state. Every record of storage comes in by [`Memory::apply_stored`]: those of an
//! opening, those of the leader's log, and the difference to a whole state that a follower has read again.
//!
//! An opening fills a memory that nobody has seen, and its time counts. So it notes nothing as changed, and
//! makes the documents' side of the links once, at its end. In a session that is open, each change is noted like
//! any other. There, an unchanged document keeps its id, so that it stays the same object for the application.
//!
//! The other direction is a device that was wiped ([`Memory::unsettle`]): nothing in memory is stored any more.

use super::collection::{Collection, Load};
use super::dirty::Dirty;
use super::document::{Content, DocKey, Document, DocumentAtRest};
use super::set::Member;
use super::stamp::Stamp;
use super::state::Memory;
use crate::codec::record;
use crate::model::{Def, Epoch, Name, Pk, SortedMap, SortedSet, order};

/// A collection's own stored fields.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectionAtRest {
    /// The version below which every change is known.
    pub v: Stamp,
    /// Whether a whole load has ended once.
    pub ready: bool,
    /// The load in progress.
    pub load: Option<Load>,
    /// How long the subscription lasts.
    pub lease: Option<u64>,
}

/// The lease as it is stored.
pub fn at_rest(lease: u64) -> Option<u64> {
    (lease != 0).then_some(lease)
}

record!(CollectionAtRest { v, ready, load, lease optional });

/// The link of a document in a def, and its removal tombstone. Both are absent if nothing is remembered.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkAtRest {
    /// The document.
    pub pk: Pk,
    /// The link.
    pub member: Option<Member<Stamp>>,
    /// The removal tombstone.
    pub mark: Option<Stamp>,
}

/// A class's documents, or `None` if one left.
pub type ClassAtRest = (Name, Vec<(Pk, Option<DocumentAtRest>)>);

/// Stored changes, each as the state after it.
#[derive(Clone, Debug, Default)]
pub struct StoredChanges {
    /// The epoch of the server's database, once known, and its era.
    pub epoch: Option<(Option<Epoch>, u32)>,
    /// Collections, or `None` if a subscription ended.
    pub collections: Vec<(Def, Option<CollectionAtRest>)>,
    /// Documents by class.
    pub documents: Vec<ClassAtRest>,
    /// Links and removal tombstones by def.
    pub links: Vec<(Def, Vec<LinkAtRest>)>,
}

/// The memory that stored changes come into.
#[derive(Clone, Copy)]
pub enum Origin<'a> {
    /// A session that opens: nobody has seen the memory. The map has the number of links of each def that come in
    /// all.
    Opening(&'a SortedMap<Def, usize>),
    /// A session that is open, and follows the leader.
    Following,
}

/// Counts missing data of a restored memory, so that it can be reported and fetched again (R14).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Links to documents that are not there.
    pub documents: u64,
}

impl Memory {
    pub(crate) fn set_epoch(&mut self, epoch: Option<Epoch>, era: u32) {
        self.epoch = epoch;
        self.era = era;
    }

    /// Reserves memory for that many documents.
    pub(crate) fn reserve_documents(&mut self, count: usize) {
        self.documents.reserve(count);
    }

    /// Applies stored changes. Once all are applied, [`Memory::end_opening`] or [`Memory::end_following`] makes the
    /// memory consistent. Documents of classes that the schema does not have are left out.
    pub(crate) fn apply_stored(&mut self, changes: StoredChanges, origin: Origin<'_>) {
        let StoredChanges { epoch, collections, documents, links } = changes;
        if let Some((epoch, era)) = epoch {
            self.set_epoch(epoch, era);
        }
        let mut ended = Vec::new();
        for (def, state) in collections {
            match state {
                Some(state) => self.place_collection(def, state, origin),
                None => ended.push(def),
            }
        }
        for (class, states) in documents {
            let Some(position) = self.schema.position(&class) else { continue };
            for (pk, state) in states {
                match origin {
                    Origin::Opening(_) => self.documents.restore((position as u16, pk), state),
                    Origin::Following => self.follow_document((position as u16, pk), state),
                }
            }
        }
        for (def, links) in links {
            match origin {
                Origin::Opening(counts) => self.restore_links(&def, links, counts),
                Origin::Following => links.into_iter().for_each(|link| self.follow_link(&def, link)),
            }
        }
        // Last: another def may hold their documents by now.
        for def in ended {
            match origin {
                Origin::Opening(_) => drop(self.collections.remove(&def)),
                Origin::Following => drop(self.unsubscribe(&def)),
            }
        }
    }

    fn place_collection(&mut self, def: Def, state: CollectionAtRest, origin: Origin<'_>) {
        let follows = matches!(origin, Origin::Following);
        if self.schema.check_def(&def).is_err() {
            if !follows {
                // The schema has changed since. The next batch ends the subscription.
                self.dirty.collections.insert(def);
            }
            return;
        }
        let is_new = !self.collections.contains_key(&def);
        let collection = self.collections.entry(def.clone()).or_default();
        collection.set.restore_v(state.v);
        collection.load = state.load;
        collection.lease = state.lease.unwrap_or_default();
        let is_other = std::mem::replace(&mut collection.ready, state.ready) != state.ready;
        if follows && (is_new || is_other) {
            self.unreported.defs.insert(def);
        }
    }

    /// Replays the state of a document; `None` if it was removed. Links come after their documents, and removed
    /// documents leave at the end.
    fn follow_document(&mut self, key: DocKey, state: Option<DocumentAtRest>) {
        let Some(DocumentAtRest { at, max_life, place }) = state else {
            self.leaving.insert(key);
            return;
        };
        self.leaving.remove(&key);
        let held = self.documents.get(&key);
        let is_same = held.is_some_and(|d| d.at == at && d.max_life == max_life);
        if is_same && !matches!(held.map(|d| &d.content), Some(Content::Lost)) {
            self.settle_at_rest(&key, at, place);
            return;
        }
        self.set_document(&key, at, max_life, Content::AtRest);
        if let Some(document) = self.documents.get_mut(&key) {
            document.slot = Some(place);
        }
        if self.pins.holds(&key) {
            self.pins.want(&key);
        } else if self.holders(&key).is_empty() {
            // Until its link follows: this session may have ended the subscription that holds it.
            self.leaving.insert(key);
        }
    }

    /// Restores links of a def, without the documents' side.
    fn restore_links(&mut self, def: &Def, links: Vec<LinkAtRest>, counts: &SortedMap<Def, usize>) {
        let Some(collection) = self.collections.get_mut(def) else { return };
        if collection.set.is_empty() {
            collection.set.reserve(counts.get(def).copied().unwrap_or_default());
        }
        for LinkAtRest { pk, member, mark } in links {
            collection.set.restore(pk, member, mark);
        }
    }

    /// Replays the link and the removal tombstone of a document in a def.
    fn follow_link(&mut self, def: &Def, LinkAtRest { pk, member, mark }: LinkAtRest) {
        let Some(key) = self.doc_key(def.class(), &pk) else { return };
        let Some(collection) = self.collections.get_mut(def) else { return };
        let is_there = self.documents.contains(&key);
        self.lacks_documents |= member.is_some() && !is_there;
        let member = member.filter(|_| is_there);
        collection.set.restore(pk, member, mark);
        let Some(document) = self.documents.get_mut(&key) else { return };
        let is_news = match member {
            Some(_) => collection.sharing.add(&mut document.defs, def),
            None => collection.sharing.remove(&mut document.defs, def),
        };
        // Another def may hold the document later in this replay, so it leaves only at the end.
        let is_unheld = document.defs.is_empty();
        if is_news {
            self.unreported.note(&mut self.collections, def, &key.1);
            self.pins.touch(&key);
            if is_unheld && !self.pins.holds(&key) {
                self.leaving.insert(key);
            } else if member.is_some() {
                self.leaving.remove(&key);
            }
        }
    }

    /// Ends an opening: fills in the other side of the links (R2), and removes inconsistent entries.
    ///
    /// A link without its document sends its collection back to `v` 0 (R14); a document without links leaves. If
    /// records are damaged, every collection goes back; readable documents stay visible.
    pub(crate) fn end_opening(&mut self, is_damaged: bool) -> Missing {
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
        let is_unheld = |key: &DocKey, document: &Document| document.defs.is_empty() && !self.pins.holds(key);
        let unheld: Vec<DocKey> =
            self.documents.iter().filter(|(key, d)| is_unheld(key, d)).map(|(key, _)| key.clone()).collect();
        for key in unheld {
            self.remove_document(&key);
        }
        self.documents.end_restoring();
        self.unreported.take();
        if is_damaged {
            for def in &defs {
                self.restart(def);
            }
        }
        missing
    }

    /// Ends the replay: removed documents leave. A follower writes none of these changes. Returns whether a link
    /// lacks its document: this session let it go with a subscription that the leader still has. Only the whole
    /// state has that document.
    pub(crate) fn end_following(&mut self) -> bool {
        for key in std::mem::take(&mut self.leaving) {
            for def in self.holders(&key).iter() {
                self.drop_links(def, vec![key.1.clone()]);
            }
            self.remove_document(&key);
        }
        self.dirty.take();
        std::mem::take(&mut self.lacks_documents)
    }

    /// Replaces the memory by a state that was read from storage. Subscriptions in `kept` stay even if that
    /// state lacks them, and those in `dropped` end. Storage still has these, so if this session leads, its next
    /// batch ends them there.
    pub(crate) fn adopt(&mut self, read: Memory, kept: &SortedSet<Def>, dropped: &SortedSet<Def>) {
        self.apply_stored(self.difference(&read, kept), Origin::Following);
        // Nothing of theirs is in storage: they are loaded from scratch.
        for def in kept.iter().filter(|def| !read.collections.contains_key(*def)) {
            self.unsubscribe(def);
            let _ = self.subscribe(def);
        }
        self.end_following();
        self.dirty = read.dirty;
        for def in dropped {
            self.unsubscribe(def);
        }
    }

    /// The changes that lead from this memory to the state `read`, but for the subscriptions in `kept`.
    fn difference(&self, read: &Memory, kept: &SortedSet<Def>) -> StoredChanges {
        let epoch = Some((read.epoch.clone(), read.era));
        let (mut collections, mut links) = (Vec::new(), Vec::new());
        for (def, Collection { set, ready, load, lease, .. }) in &read.collections {
            let own = self.collections.get(def);
            let is_same = |own: &Collection| {
                own.set.v() == set.v() && own.ready == *ready && own.load == *load && own.lease == *lease
            };
            if !own.is_some_and(is_same) {
                let state = CollectionAtRest {
                    v: set.v(),
                    ready: *ready,
                    load: load.clone(),
                    lease: at_rest(*lease),
                };
                collections.push((def.clone(), Some(state)));
            }
            let others = set.difference(own.map(|own| &own.set)).into_iter().map(|pk| {
                let (member, mark) = (set.member(&pk), set.mark(&pk));
                LinkAtRest { pk, member, mark }
            });
            links.push((def.clone(), others.collect()));
        }
        let is_gone = |def: &&Def| !read.collections.contains_key(*def) && !kept.contains(*def);
        collections.extend(self.collections.keys().filter(is_gone).map(|def| (def.clone(), None)));
        let classes = self.schema.classes().iter();
        let mut documents: Vec<ClassAtRest> =
            classes.map(|class| (class.name().clone(), Vec::new())).collect();
        let mut tell =
            |(class, pk): &DocKey, state| documents[usize::from(*class)].1.push((pk.clone(), state));
        for key in self.documents.keys().filter(|key| !read.documents.contains(key)) {
            tell(key, None);
        }
        for (key, document) in read.documents.iter() {
            let Document { at, max_life, slot, .. } = *document;
            let is_same = |own: &Document| {
                let is_at_rest = matches!(own.content, Content::AtRest);
                is_at_rest && (own.at, own.max_life, own.slot) == (at, max_life, slot)
            };
            if let Some(place) = slot.filter(|_| !self.documents.get(key).is_some_and(is_same)) {
                tell(key, Some(DocumentAtRest { at, max_life, place }));
            }
        }
        StoredChanges { epoch, collections, documents, links }
    }

    /// Marks the whole memory as unwritten: the device was wiped. Returns the documents whose data was in storage
    /// only: they stay without it, until it is requested again (R14).
    pub(crate) fn unsettle(&mut self) -> SortedSet<DocKey> {
        // The next batch writes the whole state, from the memory. So no name is listed but those of documents whose
        // data it writes as well.
        let (documents, links, collections) = Default::default();
        self.dirty =
            Dirty { documents, links, collections, subscriptions: false, head: true, freed: Vec::new() };
        let keys: Vec<DocKey> = self.documents.keys().cloned().collect();
        let mut lost = SortedSet::new();
        for key in keys {
            let kept = self.base_data(&key).cloned();
            let Some(document) = self.documents.get_mut(&key) else { continue };
            document.slot = None;
            if let Some(data) = kept {
                document.content = Content::Resident(data);
                self.dirty.documents.insert(key);
            } else {
                self.lose(&key);
                lost.insert(key);
            }
        }
        lost
    }
}
