//! The clock `sequence` (R20): each transaction that writes in a tree takes the tree's next number, once. The number is
//! the version of everything that it writes there.
//!
//! The writes of an org run one after another, so nothing but the tree's record orders them. A number that a refused
//! operation took is given again: its transaction is undone with the record.

use std::collections::BTreeMap;

use escale::Result;
use escale::codec::OpOk;
use escale::model::schema::{Class, Schema};
use escale::model::{Name, Pk, Value, Version};

use super::tree::parent_of;
use crate::engine::write::{Actor, Writing};
use crate::provider::{Place, Shown};

impl Writing<'_> {
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
            None => &mut self.kept,
        };
        *kept = v.max(*kept);
        Ok(())
    }

    /// The trees of the clock `sequence` that it wrote or was asked to write in. Each comes with the number that it took,
    /// or with the highest version of the documents that stayed as they were.
    pub(in crate::engine) fn numbers(&self) -> Result<Vec<(Name, Pk, Version)>> {
        let mut numbers = Vec::new();
        for ((class, pk), held) in &self.trees {
            let n = held.number.filter(|_| held.is_changed).unwrap_or(held.kept);
            if n > 0 {
                numbers.push((Name::new(class)?, Pk::parse(pk)?, n));
            }
        }
        Ok(numbers)
    }
}

/// The tree of a document of the clock `sequence`; none for other classes.
pub(in crate::engine) fn numbered_tree(class: &Class, at: Place, shown: &Shown) -> Option<Actor> {
    if !class.is_sequence() {
        return None;
    }
    match class.parent() {
        Some(_) => parent_of(class, shown),
        None => Some((at.class.into(), at.pk.into())),
    }
}

/// The tree of a document that has these properties, among them its key.
pub(in crate::engine) fn tree_of_key(
    schema: &Schema,
    class: &Class,
    map: &BTreeMap<String, Value>,
) -> Result<Actor> {
    let parts =
        class.key().iter().map(|name| map.get(name.as_str()).and_then(Value::as_str).unwrap_or_default());
    let parts: Vec<&str> = parts.collect();
    let (class, parts) = match (class.parent(), class.parent_key(&parts)) {
        (Some(parent), Some(key)) => (schema.class(parent.as_str())?, key),
        _ => (class, &parts[..]),
    };
    Ok((class.name().as_str().into(), class.pk_of(parts)?.as_str().into()))
}

/// The number that an operation with this result gave in a tree; none if it wrote nothing there.
pub(in crate::engine) fn given_in(result: &OpOk, (class, pk): &Actor) -> Option<Version> {
    let is_it = |of: &Name, parent: &Pk| of.as_str() == class.as_str() && parent.as_str() == pk.as_str();
    result.trees.iter().find(|(of, parent, _)| is_it(of, parent)).map(|(_, _, n)| *n)
}
