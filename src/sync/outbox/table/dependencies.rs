//! Which operations are blocked behind which others (R12). The outbox asks this before it sends.

use super::PendingOps;
use crate::journal::OpId;
use crate::memory::DocKey;
use crate::model::{SortedMap, SortedSet};
use crate::sync::outbox::due::GivenUp;

impl PendingOps {
    /// Operations that are blocked behind a refused one (R12).
    pub fn held(&self) -> SortedSet<OpId> {
        self.held_behind(&[], None)
    }

    /// The same, plus operations whose files the server does not have yet (R24), and those that depend on them.
    /// `given_up` are discarded operations whose records the device still has to delete: they block as well.
    pub fn held_from_sending(&self, given_up: &[GivenUp]) -> SortedSet<OpId> {
        let uploading = self.waiting.iter().find(|order| self.files.hold(&self.ops[order]));
        self.held_behind(given_up, uploading.copied())
    }

    /// `uploading` is the first operation that waits for its files, if those count.
    fn held_behind(&self, given_up: &[GivenUp], uploading: Option<u64>) -> SortedSet<OpId> {
        let mut held: SortedSet<OpId> = SortedSet::new();
        let parked = self.parked.first().copied();
        let starts = given_up.iter().map(|op| op.order).chain(parked).chain(uploading);
        let Some(first) = starts.min() else { return held };
        let mut blocked: SortedSet<&DocKey> = SortedSet::new();
        let mut decided: SortedSet<&DocKey> = SortedSet::new();
        let mut stopped: SortedSet<&str> = given_up.iter().map(|op| op.id.as_str()).collect();
        // A discarded operation blocks only later operations on its documents.
        let mut gone: SortedMap<&DocKey, u64> = SortedMap::new();
        for (key, order) in given_up.iter().flat_map(|op| op.keys.iter().map(|key| (key, op.order))) {
            let earliest = gone.entry(key).or_insert(order);
            *earliest = order.min(*earliest);
        }
        for (order, op) in self.ops.range(first..).filter(|(_, op)| op.state.accepted.is_none()) {
            // R19: an item depends on the operations that create or delete its parent, too.
            let trees = op.keys.iter().filter_map(|key| self.trees.get(key));
            let is_gone = |key: &DocKey| gone.get(key).is_some_and(|earlier| earlier < order);
            let depends = op.keys.iter().any(|key| blocked.contains(key) || is_gone(key))
                || trees.clone().any(|tree| decided.contains(tree) || is_gone(tree))
                || op.waits_for().any(|id| stopped.contains(id));
            let lacks_files = uploading.is_some() && self.files.hold(op);
            if op.state.refused.is_some() || depends || lacks_files {
                blocked.extend(op.keys.iter());
                decided.extend(op.keys.iter().filter(|key| op.decides(key)));
                stopped.insert(&op.state.issued.id);
                if op.state.refused.is_none() {
                    held.insert(op.state.issued.id.clone());
                }
            }
        }
        held
    }
}
