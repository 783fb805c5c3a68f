//! The changes in memory, by name only: those that are not yet in storage, and those that are not yet
//! reported to the application. A batch is built from the memory as it is at that time, so the stored state always satisfies R1 to R3
//! (R7).

use super::collection::Collection;
use super::document::{DocKey, PageRef};
use crate::model::{Def, Pk, QuickSet, SortedMap, SortedSet};

/// The names of changed things that must be written.
#[derive(Clone, Debug, Default)]
pub struct Dirty {
    /// Documents that were added, changed or removed.
    pub documents: QuickSet<DocKey>,
    /// Links and removal tombstones that changed, or whose def is gone.
    pub links: QuickSet<(Def, Pk)>,
    /// Collections whose own fields changed, or that were added or removed.
    pub collections: SortedSet<Def>,
    /// Whether a collection was added or removed: subscriptions are known to this device only.
    pub subscriptions: bool,
    /// Whether the epoch, or another field of the head, changed.
    pub head: bool,
    /// Slots in pages whose documents are gone. Freeing one twice is harmless.
    pub freed: Vec<PageRef>,
}

impl Dirty {
    /// Whether everything is in storage.
    pub fn is_empty(&self) -> bool {
        // `subscriptions` comes with a collection: it only says that the mark must go along.
        let Dirty { documents, links, collections, subscriptions: _, head, freed } = self;
        documents.is_empty() && links.is_empty() && collections.is_empty() && !head && freed.is_empty()
    }

    /// Takes the changes, to write them or to drop them.
    pub fn take(&mut self) -> Dirty {
        std::mem::take(self)
    }

    /// The next batch says whether there is this subscription: it may not be in storage yet, or a follower may
    /// show something else.
    pub fn restate(&mut self, def: &Def) {
        self.collections.insert(def.clone());
        self.subscriptions = true;
    }

    /// Adds the changes of a batch that failed.
    pub fn merge(&mut self, other: Dirty) {
        let Dirty { documents, links, collections, subscriptions, head, freed } = other;
        self.documents.extend(documents);
        self.links.extend(links);
        self.collections.extend(collections);
        self.subscriptions |= subscriptions;
        self.head |= head;
        self.freed.extend(freed);
    }
}

/// The changes that are not yet reported to the application.
#[derive(Default)]
pub struct Unreported {
    /// Defs whose members or documents changed.
    pub(super) defs: SortedSet<Def>,
    /// Ids that are not used any more.
    pub(super) gone: Vec<u32>,
}

impl Unreported {
    /// Whether there is nothing to report.
    pub fn is_empty(&self) -> bool {
        self.defs.is_empty() && self.gone.is_empty()
    }

    /// A document joined a def or left it, or the application sees another state of it there.
    pub fn note(&mut self, collections: &mut SortedMap<Def, Collection>, def: &Def, pk: &Pk) {
        self.defs.insert(def.clone());
        if let Some(collection) = collections.get_mut(def) {
            collection.touch(pk);
        }
    }

    /// The defs that changed and the ids that are not used any more, since the last call.
    pub fn take(&mut self) -> (Vec<Def>, Vec<u32>) {
        (std::mem::take(&mut self.defs).into_iter().collect(), std::mem::take(&mut self.gone))
    }
}
