//! The clock `sequence` (R20): each transaction that writes in a tree takes the tree's next number, once. The number is
//! the version of everything that it writes there.
//!
//! The writes of an org run one after another, so nothing but the tree's record orders them. A number that a refused
//! operation took is given again: its transaction is undone with the record.

use std::collections::BTreeMap;

use escale::Result;
use escale::model::{Name, Pk, Version};

use crate::engine::tx::write_tx::{Actor, Held, WriteTx};

impl WriteTx<'_> {
    /// The version of everything that this write writes in that tree; without a tree, of anything else.
    pub(in crate::engine) fn version_in(&mut self, tree: Option<&Actor>) -> Result<Version> {
        let Some(tree) = tree else { return Ok(self.now) };
        let held = self.tree(tree)?;
        if held.number.is_none() {
            held.tree.n += 1;
            held.number = Some(held.tree.n);
        }
        Ok(held.tree.n)
    }

    /// A document of that tree was put unchanged, and keeps its version.
    pub(in crate::engine) fn keep(&mut self, tree: Option<&Actor>, v: Version) -> Result<()> {
        let kept = match tree {
            Some(tree) => &mut self.tree(tree)?.kept,
            None => &mut self.notes.kept,
        };
        *kept = v.max(*kept);
        Ok(())
    }
}

/// Of these trees, those of the clock `sequence` that a write wrote or was asked to write in. Each comes with the number that
/// the write took, or with the highest version of the documents that stayed as they were.
pub(in crate::engine) fn numbers(trees: &BTreeMap<Actor, Held>) -> Result<Vec<(Name, Pk, Version)>> {
    let mut numbers = Vec::new();
    for ((class, pk), held) in trees {
        let n = held.number.filter(|_| held.is_changed).unwrap_or(held.kept);
        if n > 0 {
            numbers.push((Name::new(class)?, Pk::parse(pk)?, n));
        }
    }
    Ok(numbers)
}
