//! Classes of items: each document belongs to a parent, a document of another class (R16).
//!
//! An item is a document whose key begins with the key of its parent. The collection [`ITEMS`] of these first
//! properties is implied, and its hash is the parent's pk.

use super::{Class, Collection};
use crate::error::{Code, Error, Result, fail};
use crate::limits::ITEM_CLASSES_MAX;
use crate::model::Name;

/// The name of the implied collection of the items of one parent.
pub(crate) const ITEMS: &str = "in";

/// Connects the classes that declare `in` with their parents. Refuses declarations that no tree can have.
pub(crate) fn connect(classes: &mut [Class]) -> Result<()> {
    for at in 0..classes.len() {
        let Some(parent) = parent_of(classes, at).map_err(|what| wrong(&classes[at], what))? else {
            // Alone, it is a tree of one document.
            classes[at].has_items |= classes[at].sequence;
            continue;
        };
        classes[at].sequence = classes[parent].sequence;
        let key = classes[at].key[..classes[parent].key.len()].to_vec();
        let items = Collection { name: Name::new(ITEMS)?, key, list: false, mutable: false };
        classes[at].collections.push(items);
        classes[parent].has_items = true;
    }
    for class in classes.iter().filter(|class| class.has_items) {
        if classes.iter().filter(|item| item.parent.as_ref() == Some(&class.name)).count() > ITEM_CLASSES_MAX
        {
            return fail(
                Code::BadSchema,
                format!("class {}: more than {ITEM_CLASSES_MAX} classes are in it", class.name),
            );
        }
    }
    Ok(())
}

/// The position of a class's parent, if it has one.
fn parent_of(classes: &[Class], at: usize) -> std::result::Result<Option<usize>, &'static str> {
    let class = &classes[at];
    if class.sequence && (!class.sync || !class.collections.is_empty()) {
        return Err("a class with the clock `sequence` is synchronised and has no collections");
    }
    let Some(name) = &class.parent else {
        return if class.raw { Err("only a class with `in` may be `raw`") } else { Ok(None) };
    };
    let parent = classes.iter().position(|parent| parent.name == *name);
    let parent = parent.ok_or("`in` names no class of this schema")?;
    let is_exception = matches!(name.as_str(), "Org" | "Hdr");
    if is_exception || !classes[parent].sync || classes[parent].parent.is_some() {
        return Err("`in` must name a class with sync that is `in` no other, and is neither Org nor Hdr");
    }
    if classes[parent].local {
        return Err("`in` must not name a local class");
    }
    if !class.sync {
        return Err("a class with `in` is synchronised");
    }
    if class.key.len() < classes[parent].key.len() {
        return Err("the key begins with one property for each key property of the class that it is `in`");
    }
    if !class.collections.is_empty() {
        return Err("a class with `in` has no other collections");
    }
    if class.indexes.iter().any(|index| index.unique || index.global) {
        return Err("an index of a class with `in` is neither unique nor global");
    }
    if class.raw && !class.indexes.is_empty() {
        return Err("a raw class has no indexes");
    }
    Ok(Some(parent))
}

fn wrong(class: &Class, what: &str) -> Error {
    Error::new(Code::BadSchema, format!("class {}: {what}", class.name))
}
