//! The work that is due to show pending operations over the documents.

use crate::journal::State;
use crate::memory::DocKey;
use crate::model::{SortedMap, SortedSet};

/// The operations and documents whose overlay is outdated, and the results that stand.
#[derive(Default)]
pub struct Unshown {
    /// Documents whose operations must be applied again.
    stale: SortedSet<DocKey>,
    /// Operations just issued, which come after every other on their documents.
    fresh: SortedSet<u64>,
    /// The result of all operations on each document.
    tops: SortedMap<DocKey, Option<State>>,
}

impl Unshown {
    /// The operations on a document must be applied again.
    pub fn note(&mut self, key: DocKey) {
        self.stale.insert(key);
    }

    /// The same for several documents.
    pub fn note_all(&mut self, keys: impl IntoIterator<Item = DocKey>) {
        self.stale.extend(keys);
    }

    /// An operation was issued.
    pub fn issue(&mut self, order: u64) {
        self.fresh.insert(order);
    }

    /// An operation is gone.
    pub fn forget(&mut self, order: u64) {
        self.fresh.remove(&order);
    }

    /// Whether operations must be applied.
    pub fn is_any(&self) -> bool {
        !(self.stale.is_empty() && self.fresh.is_empty())
    }

    /// The stale documents and the fresh operations, which are about to be applied.
    pub fn take(&mut self) -> (SortedSet<DocKey>, SortedSet<u64>) {
        (std::mem::take(&mut self.stale), std::mem::take(&mut self.fresh))
    }

    /// The result of all operations on a document, if it is known and stands.
    pub fn top(&self, key: &DocKey) -> Option<&Option<State>> {
        self.tops.get(key).filter(|_| !self.stale.contains(key))
    }

    /// Whether the operations on a document must be applied again.
    pub fn is_stale(&self, key: &DocKey) -> bool {
        self.stale.contains(key)
    }

    /// All operations on a document were applied, with that result.
    pub fn set_top(&mut self, key: DocKey, top: Option<State>) {
        self.tops.insert(key, top);
    }

    /// The result on a document is not known: its data is still to be read, or no operation touches it.
    pub fn forget_top(&mut self, key: &DocKey) {
        self.tops.remove(key);
    }
}
