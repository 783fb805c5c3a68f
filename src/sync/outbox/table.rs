//! The operations that are not over, and indexes over them.

use std::ops::Index;

use super::due::Due;
use super::files::Files;
use super::places::Places;
use super::unshown::Unshown;
use crate::journal::{IfVersion, OpId, PendingOp};
use crate::memory::{DocKey, synced};
use crate::model::{SortedMap, SortedSet};
use crate::storage::JournalMark;
use crate::sync::context::Ctx;

mod dependencies;
pub mod issue;
mod outcomes;
mod parked;
pub mod seen;
pub mod trees;

/// Every operation that is not over. Other files ask it by methods, which keep the indexes true.
#[derive(Default)]
pub struct PendingOps {
    /// By their order.
    ops: SortedMap<u64, PendingOp>,
    by_id: SortedMap<OpId, u64>,
    /// The orders of operations that may name an operation, as one whose version they expect or that they
    /// wait for. Both may have changed since.
    naming: SortedMap<OpId, SortedSet<u64>>,
    by_key: SortedMap<DocKey, SortedSet<u64>>,
    /// The parents of the items among them.
    trees: SortedMap<DocKey, DocKey>,
    /// Those that delete parents.
    ending: SortedSet<u64>,
    /// Those that wait for the server's answer, those that it refused, and the local documents.
    waiting: SortedSet<u64>,
    parked: SortedSet<u64>,
    drafts: SortedSet<u64>,
    /// The places of new operations.
    pub places: Places,
    /// The work that is due to show them.
    pub unshown: Unshown,
    /// The numbers of the session and of its journal.
    pub(super) summary: JournalMark,
    /// The changes that are due to the journal.
    pub(super) due: Due,
    /// The word on the files that they reference.
    pub files: Files,
}

/// The operation of that order, which is there.
impl Index<u64> for PendingOps {
    type Output = PendingOp;

    fn index(&self, order: u64) -> &PendingOp {
        self.ops.get(&order).expect("the operation is there")
    }
}

/// All operations, in their order.
impl IntoIterator for PendingOps {
    type Item = PendingOp;
    type IntoIter = std::vec::IntoIter<PendingOp>;

    fn into_iter(self) -> Self::IntoIter {
        self.ops.into_values().collect::<Vec<_>>().into_iter()
    }
}

impl PendingOps {
    /// The operations in their order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &PendingOp> + Clone {
        self.ops.values()
    }

    /// The same, to change facts that no index has.
    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut PendingOp> {
        self.ops.values_mut()
    }

    /// The operation of that order, to change facts that no index has.
    pub fn op_mut(&mut self, order: u64) -> Option<&mut PendingOp> {
        self.ops.get_mut(&order)
    }

    /// The operation of that order.
    pub fn at(&self, order: u64) -> Option<&PendingOp> {
        self.ops.get(&order)
    }

    pub fn get(&self, id: &str) -> Option<&PendingOp> {
        self.ops.get(self.by_id.get(id)?)
    }

    pub fn get_mut(&mut self, id: &str) -> Option<&mut PendingOp> {
        self.ops.get_mut(self.by_id.get(id)?)
    }

    /// Adds an operation at its order.
    pub fn insert(&mut self, op: PendingOp) {
        let order = op.state.order;
        debug_assert!(!self.ops.contains_key(&order), "two operations in one place of the order");
        let is_last = self.places.take(order);
        self.by_id.insert(op.state.issued.id.clone(), order);
        for key in &op.keys {
            self.by_key.entry(key.clone()).or_default().insert(order);
            if !is_last {
                self.unshown.note(key.clone());
            }
        }
        for id in op.waits_for() {
            self.naming.entry(id.to_owned()).or_default().insert(order);
        }
        self.unshown.issue(order);
        self.ops.insert(order, op);
        self.sort(order);
        self.note_trees(order);
    }

    /// An operation expects the document of one of its changes to have that version.
    pub fn expect(&mut self, order: u64, index: usize, expected: IfVersion) {
        if let Some(id) = expected.of() {
            self.names(order, id);
        }
        if let Some(op) = self.ops.get_mut(&order) {
            op.expect(index, Some(expected));
        }
    }

    /// Notes that an operation names another one.
    pub fn names(&mut self, order: u64, id: &OpId) {
        self.naming.entry(id.clone()).or_default().insert(order);
    }

    /// The operations that may name this one.
    pub fn naming(&self, id: &str) -> impl Iterator<Item = u64> {
        self.naming.get(id).into_iter().flatten().copied()
    }

    /// The same, for a caller that retargets them all: the entry is removed.
    pub fn take_naming(&mut self, id: &str) -> SortedSet<u64> {
        self.naming.remove(id).unwrap_or_default()
    }

    /// Updates `waiting`, `parked` and `drafts` after an operation's state has changed.
    pub fn sort(&mut self, order: u64) {
        let op = self.ops.get(&order);
        for (set, is_in) in [
            (&mut self.waiting, op.is_some_and(PendingOp::is_waiting)),
            (&mut self.parked, op.is_some_and(|op| op.state.refused.is_some())),
            (&mut self.drafts, op.is_some_and(|op| op.is_local() && !op.is_local_end())),
        ] {
            if is_in {
                set.insert(order);
            } else {
                set.remove(&order);
            }
        }
    }

    pub fn remove(&mut self, order: u64) -> Option<PendingOp> {
        let op = self.ops.remove(&order)?;
        self.by_id.remove(&op.state.issued.id);
        // Without other operations, none names another one. Local documents name none.
        if self.ops.values().all(PendingOp::is_local) {
            self.naming.clear();
        }
        for key in op.shown_on() {
            if let Some(orders) = self.by_key.get_mut(key) {
                orders.remove(&order);
                if orders.is_empty() {
                    self.by_key.remove(key);
                    self.trees.remove(key);
                    self.unshown.forget_top(key);
                }
            }
            self.unshown.note(key.clone());
        }
        self.ending.remove(&order);
        self.unshown.forget(order);
        self.sort(order);
        Some(op)
    }

    /// The operations that touch a document, in order.
    pub fn on(&self, key: &DocKey) -> impl DoubleEndedIterator<Item = &PendingOp> {
        self.by_key.get(key).into_iter().flatten().filter_map(|order| self.ops.get(order))
    }

    /// Those before that position in the order.
    pub fn on_before(&self, key: &DocKey, order: u64) -> impl DoubleEndedIterator<Item = &PendingOp> {
        let orders = self.by_key.get(key).into_iter().flat_map(move |orders| orders.range(..order));
        orders.filter_map(|order| self.ops.get(order))
    }

    /// Whether no operation is pending or refused.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Whether there is nothing to ask the server for: no subscription, and no pending operation.
    pub fn has_nothing_to_do(&self, ctx: &Ctx) -> bool {
        synced(&ctx.memory).next().is_none() && self.pending() == 0
    }

    /// Whether operations must be applied again.
    pub fn is_unshown(&self) -> bool {
        self.unshown.is_any()
    }

    /// How many wait for the server's answer.
    pub fn pending(&self) -> u64 {
        self.waiting.len() as u64
    }

    /// How many local documents there are.
    pub fn drafts(&self) -> u64 {
        self.drafts.len() as u64
    }

    /// Those that wait for the server's answer.
    pub fn waiting(&self) -> impl Iterator<Item = &PendingOp> {
        self.waiting.iter().map(|order| &self[*order])
    }

    /// Takes their numbers back from waiting operations that satisfy a condition. One that was sent may have been executed
    /// under its number all the same: until the server has answered, nobody can tell whether documents contain its effect.
    pub fn release(&mut self, is_released: impl Fn(u64, u64) -> bool) {
        for order in &self.waiting {
            let op = self.ops.get_mut(order).expect("listed");
            if op.seq.take_if(|seq| is_released(*order, *seq)).is_some() {
                op.has_other_numbers |= op.sent_as.is_some();
            }
        }
    }

    /// The parent of an item that an operation touches.
    pub fn tree_of(&self, key: &DocKey) -> Option<&DocKey> {
        self.trees.get(key)
    }

    /// The documents that operations touch.
    pub fn keys(&self) -> impl Iterator<Item = &DocKey> {
        self.by_key.keys()
    }

    /// The orders of the operations on a document.
    pub fn orders_on(&self, key: &DocKey) -> impl DoubleEndedIterator<Item = u64> {
        self.by_key.get(key).into_iter().flatten().copied()
    }

    /// Adds a document to those that an operation touches. Returns whether it is new.
    pub fn touch(&mut self, ctx: &mut Ctx, order: u64, key: &DocKey) -> bool {
        let Some(op) = self.ops.get_mut(&order).filter(|op| !op.keys.contains(key)) else {
            return false;
        };
        op.keys.push(key.clone());
        op.state.issued.touches.push((ctx.memory.class_name(key), key.1.clone()));
        if op.prepared {
            self.due.rewrite(order);
        }
        ctx.memory.pins.add(key);
        self.by_key.entry(key.clone()).or_default().insert(order);
        true
    }
}
