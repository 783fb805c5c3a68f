//! Pending operations and trees (R19): the deletion of a parent covers its items.

use super::PendingOps;
use crate::journal::{Change, IfVersion, OpId, PendingOp};
use crate::memory::DocKey;
use crate::memory::tree::{self, tree_defs};
use crate::model::{Def, DefKind, SortedMap, SortedSet};
use crate::sync::context::Ctx;

impl PendingOps {
    /// The optimistic part of an operation has made these changes.
    pub fn change(&mut self, order: u64, changes: Vec<Change>, is_blind: bool) {
        if let Some(op) = self.ops.get_mut(&order) {
            (op.changes, op.is_blind) = (Some(changes), is_blind);
            self.note_trees(order);
        }
    }

    /// The changes of an operation are known: notes the parents of its items, and which of their items it ends.
    pub(super) fn note_trees(&mut self, order: u64) {
        let mut noted: Vec<(DocKey, DocKey, bool)> = Vec::new();
        for change in self.ops.get(&order).and_then(|op| op.changes.as_ref()).into_iter().flatten() {
            if let Some(tree) = &change.tree {
                noted.push((change.key.clone(), tree.clone(), change.ends(tree)));
            }
        }
        for (key, tree, ends) in noted {
            if ends {
                self.ending.insert(order);
                let items = self.trees.iter().filter(|(_, of)| **of == tree).map(|(item, _)| item.clone());
                for item in items.collect::<Vec<_>>() {
                    cover(self, order, &item);
                }
            } else if tree != key {
                let ends =
                    |order: &u64| self.ops[order].changes.iter().flatten().any(|change| change.ends(&tree));
                let ending: Vec<u64> = self.ending.iter().copied().filter(ends).collect();
                self.trees.insert(key.clone(), tree);
                for order in ending {
                    cover(self, order, &key);
                }
            }
        }
    }
}

/// An operation deletes that item with its parent.
fn cover(table: &mut PendingOps, order: u64, item: &DocKey) {
    let op = table.ops.get_mut(&order).expect("the operation is there");
    if !op.covers.contains(item) {
        op.covers.push(item.clone());
        table.by_key.entry(item.clone()).or_default().insert(order);
        table.unshown.note(item.clone());
    }
}

/// The version that an accepted operation gave to a document: the number of its tree, if its class has the clock
/// `sequence` (R21). None if it is not known, or if the operation is not accepted.
pub fn given_to(ctx: &Ctx, table: &PendingOps, op: &PendingOp, key: &DocKey) -> Option<u64> {
    given_in(ctx, &table.trees, op, key)
}

/// Operations that expect the version given by `given` expect that number from now on. A restored server
/// may not know that operation any more, and then this is an ordinary conflict. If an operation changes
/// nothing, some servers give it no version and answer 0. The document then still has the version that
/// `given` itself expected. If `given` expected none, version 0 is refused with the document, which shows
/// whether anybody else wrote.
pub fn expect_given(ctx: &Ctx, table: &mut PendingOps, given: &PendingOp) {
    let (id, era) = (&given.state.issued.id, ctx.memory.epoch().1);
    // For a batch with operations of the application, neither the document's clock nor its earlier state is known.
    let of_mixed = match given.state.accepted {
        Some(v) if v > 0 && given.state.trees.is_empty() => (IfVersion::At(v), Some(era)),
        _ => (IfVersion::Of(id.clone()), None),
    };
    for order in table.take_naming(id) {
        let trees = &table.trees;
        let instead = |key: Option<&DocKey>| {
            let Some(key) = key else { return Some(of_mixed.clone()) };
            let unchanged = || given.expectation(key).unwrap_or((IfVersion::At(0), None));
            let given = given_in(ctx, trees, given, key);
            Some(given.map_or_else(unchanged, |v| (IfVersion::At(v), Some(era))))
        };
        if let Some(op) = table.ops.get_mut(&order).filter(|op| op.expects(id)) {
            op.expect_instead(id, &instead);
            let named: Vec<OpId> = op.named().map(str::to_owned).collect();
            for id in named {
                table.names(order, &id);
            }
            table.due.rewrite(order);
        }
    }
}

/// The version that an operation gave to a document, by the parents of items.
fn given_in(ctx: &Ctx, trees: &SortedMap<DocKey, DocKey>, op: &PendingOp, key: &DocKey) -> Option<u64> {
    let class = ctx.memory.class(key.0);
    if !class.is_sequence() {
        return op.state.accepted.filter(|v| *v > 0);
    }
    let tree = if class.parent().is_some() { trees.get(key)? } else { key };
    op.number_in(ctx.memory.class(tree.0).name(), &tree.1)
}

/// Hides the items without operations of their own, as long as a pending operation deletes their parent and
/// their def does not show its effect.
pub fn hide_items(ctx: &mut Ctx, table: &PendingOps) {
    let era = ctx.memory.epoch().1;
    let mut hidden: SortedSet<Def> = SortedSet::new();
    for op in table.ending.iter().map(|order| &table.ops[order]) {
        if op.state.refused.is_some() || op.state.seen == Some(era) {
            continue;
        }
        for change in op.changes.iter().flatten().filter(|change| change.ends(&change.key)) {
            let defs = tree_defs(&ctx.memory, &change.key);
            let awaits = op.awaits.as_ref().filter(|_| op.state.accepted.is_some());
            let is_due = |def: &Def| awaits.is_none_or(|awaits| awaits.contains(def));
            let hides = |def: &Def| matches!(def.kind(), DefKind::Collection(..)) && is_due(def);
            hidden.extend(defs.into_iter().filter(hides));
        }
    }
    tree::hide_items(&mut ctx.memory, hidden);
}
