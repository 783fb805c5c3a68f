//! What changed in memory since it last went to rest, by name only: a batch is built from the memory as it is when
//! the batch is built, so a state at rest is always one in which R1 to R3 hold (R7).

use super::document::{DocKey, PageRef};
use crate::model::{Def, Pk, QuickSet};

/// Names of what must be written.
#[derive(Clone, Debug, Default)]
pub struct Dirty {
    /// Documents that were added, changed or removed.
    pub documents: QuickSet<DocKey>,
    /// Links and marks that changed, or of defs that are gone.
    pub links: QuickSet<(Def, Pk)>,
    /// Collections whose own fields changed, or that were added or removed.
    pub collections: QuickSet<Def>,
    /// A collection was added or removed: what is subscribed only this device knows.
    pub subscriptions: bool,
    /// The epoch, or another field of the whole.
    pub head: bool,
    /// Places at rest of documents that are gone. Freeing one twice is harmless.
    pub freed: Vec<PageRef>,
}

impl Dirty {
    /// Whether everything is at rest.
    pub fn is_empty(&self) -> bool {
        self.documents.is_empty()
            && self.links.is_empty()
            && self.collections.is_empty()
            && !self.head
            && self.freed.is_empty()
    }

    /// Adds what a batch that failed did not write.
    pub fn merge(&mut self, other: Dirty) {
        self.documents.extend(other.documents);
        self.links.extend(other.links);
        self.collections.extend(other.collections);
        self.subscriptions |= other.subscriptions;
        self.head |= other.head;
        self.freed.extend(other.freed);
    }
}
