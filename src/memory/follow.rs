//! The follower's memory: replays the state that the leader has written.
//!
//! An unchanged document keeps its id, so that it stays the same object for the application. Changes are
//! noted like any others. Links are replayed after their documents, and removed documents leave at the end.

use super::collection::Load;
use super::document::{Content, DocKey};
use super::restore::DocumentAtRest;
use super::set::Member;
use super::stamp::Stamp;
use super::state::Memory;
use crate::model::{Def, Epoch, Pk, SortedSet, order};

impl Memory {
    pub(crate) fn follow_epoch(&mut self, epoch: Option<Epoch>, era: u32) {
        self.epoch = epoch;
        self.era = era;
    }

    /// Replays the state of a collection; `None` if its subscription has ended.
    pub(crate) fn follow_collection(&mut self, def: &Def, state: Option<(Stamp, bool, Option<Load>)>) {
        let Some((v, ready, load)) = state else {
            self.unsubscribe(def);
            return;
        };
        if self.schema.check_def(def).is_err() {
            return;
        }
        if !self.collections.contains_key(def) {
            self.changed.insert(def.clone());
        }
        let collection = self.collections.entry(def.clone()).or_default();
        collection.set.restore_v(v);
        collection.load = load;
        if std::mem::replace(&mut collection.ready, ready) != ready {
            self.changed.insert(def.clone());
        }
    }

    /// Replays the state of a document; `None` if it was removed.
    pub(crate) fn follow_document(&mut self, key: DocKey, state: Option<DocumentAtRest>) {
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
        if self.is_pinned(&key) {
            self.unread.insert(key);
        } else if self.holders(&key).is_empty() {
            // Until its link follows: this session may have ended the subscription that holds it.
            self.leaving.insert(key);
        }
    }

    /// Replays the link and the removal tombstone of a document in a def.
    pub(crate) fn follow_link(
        &mut self,
        def: &Def,
        pk: &Pk,
        member: Option<Member<Stamp>>,
        mark: Option<Stamp>,
    ) {
        let Some(key) = self.doc_key(def.class(), pk) else { return };
        let Some(collection) = self.collections.get_mut(def) else { return };
        let is_there = self.documents.contains_key(&key);
        self.lacks_documents |= member.is_some() && !is_there;
        let member = member.filter(|_| is_there);
        collection.set.restore(pk.clone(), member, mark);
        let Some(document) = self.documents.get_mut(&key) else { return };
        let is_news = match member {
            Some(_) => collection.sharing.add(&mut document.defs, def),
            None => collection.sharing.remove(&mut document.defs, def),
        };
        // Another def may hold the document later in this replay, so it leaves only at the end.
        let is_unheld = document.defs.is_empty();
        if is_news {
            self.changed.insert(def.clone());
            self.touch_pin(&key);
            if is_unheld && !self.is_pinned(&key) {
                self.leaving.insert(key);
            } else if member.is_some() {
                self.leaving.remove(&key);
            }
        }
    }

    /// Ends the replay: removed documents leave. A follower writes none of these changes. Returns whether a link
    /// lacks its document: this session let it go with a subscription that the leader still has. Only the whole
    /// state has that document.
    pub(crate) fn end_following(&mut self) -> bool {
        for key in std::mem::take(&mut self.leaving) {
            for def in self.holders(&key).iter() {
                self.drop_link(def, &key.1);
            }
            self.remove_document(&key);
        }
        self.take_dirty();
        std::mem::take(&mut self.lacks_documents)
    }

    /// The next batch says whether there is this subscription: it may not be in storage yet, or a follower may
    /// show something else.
    pub(crate) fn restate_collection(&mut self, def: &Def) {
        self.dirty.collections.insert(def.clone());
        self.dirty.subscriptions = true;
    }

    /// Replaces the memory by a state that was read from storage. Subscriptions in `kept` stay even if that
    /// state lacks them, and those in `dropped` end. Storage still has these, so if this session leads, its next
    /// batch ends them there.
    pub(crate) fn adopt(&mut self, read: Memory, kept: &SortedSet<Def>, dropped: &SortedSet<Def>) {
        self.follow_epoch(read.epoch.clone(), read.era);
        for (def, collection) in &read.collections {
            self.follow_collection(
                def,
                Some((collection.set.v(), collection.ready, collection.load.clone())),
            );
        }
        let left: Vec<DocKey> =
            self.documents.keys().filter(|key| !read.documents.contains_key(*key)).cloned().collect();
        for key in left {
            self.follow_document(key, None);
        }
        for (key, document) in read.documents.iter() {
            let Some(place) = document.slot else { continue };
            let (at, max_life) = (document.at, document.max_life);
            self.follow_document(key.clone(), Some(DocumentAtRest { at, max_life, place }));
        }
        for (def, collection) in &read.collections {
            let own = self.collections.get(def).map(|own| &own.set);
            let own = own.into_iter().flat_map(|set| set.keys().chain(set.marks().map(|(pk, _)| pk)));
            let told = collection.set.keys().chain(collection.set.marks().map(|(pk, _)| pk));
            for pk in &order::set_of(own.chain(told).cloned()) {
                self.follow_link(def, pk, collection.set.member(pk), collection.set.mark(pk));
            }
        }
        // After the links: another def may hold their documents by now.
        let gone = |def: &&Def| !read.collections.contains_key(*def) && !kept.contains(*def);
        let gone: Vec<Def> = self.collections.keys().filter(gone).cloned().collect();
        for def in gone {
            self.follow_collection(&def, None);
        }
        // Nothing of theirs is in storage: they are loaded from scratch.
        for def in kept.iter().filter(|def| !read.collections.contains_key(*def)) {
            self.unsubscribe(def);
            let _ = self.subscribe(def);
        }
        self.end_following();
        self.dirty = read.dirty;
        for def in dropped {
            self.follow_collection(def, None);
        }
    }
}
