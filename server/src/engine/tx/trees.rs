//! Trees of a parent and its items, as the schema and the stored documents show them.

use std::collections::BTreeMap;

use escale::codec::OpOk;
use escale::model::schema::{Class, Schema};
use escale::model::{Def, DefKind, Name, Pk, Value, Version};
use escale::{Code, Result};
use smol_str::SmolStr;

use crate::engine::instance::context::Instance;
use crate::engine::records::opened::{Opened, read_document};
use crate::engine::tx::write_tx::Actor;
use crate::provider::{DocumentReads, FeedRow, Place, Shown};

/// The parent of an item with these columns; none if the class has no parents.
pub(in crate::engine) fn parent_of(class: &Class, shown: &Shown) -> Option<Actor> {
    let (parent, items) = (class.parent()?, class.items()?);
    // The hash of the collection is the pk of the parent.
    let pk = shown.links.get(items.name().as_str())?.first()?;
    Some((SmolStr::new(parent.as_str()), pk.clone()))
}

/// The tree that a def tells of, if it is a parent's or that of a parent's items.
pub(in crate::engine) fn tree_of(schema: &Schema, def: &Def) -> Option<Actor> {
    use escale::model::DefKind::{Class as All, Collection, Document};
    let class = schema.class(def.class().as_str()).ok()?;
    match def.kind() {
        Document(pk) if class.has_items() => Some((class.name().as_str().into(), pk.as_str().into())),
        Collection(name, hash) if class.items().is_some_and(|items| items.name() == name) => {
            Some((class.parent()?.as_str().into(), hash.as_str().into()))
        }
        All | Document(_) | Collection(..) => None,
    }
}

/// The classes of items of a class.
pub(in crate::engine) fn item_classes<'s>(
    schema: &'s Schema,
    parent: &'s str,
) -> impl Iterator<Item = &'s Class> {
    schema.classes().iter().filter(move |class| class.parent().is_some_and(|name| name.as_str() == parent))
}

/// The defs of the items of a parent.
pub(in crate::engine) fn items_of(schema: &Schema, parent: &str, pk: &str) -> Vec<Def> {
    let def = |class: &Class| {
        let items = class.items()?;
        Some(Def::collection_hashed(class.name(), items.name(), pk))
    };
    item_classes(schema, parent).filter_map(def).collect()
}

/// The items of the parent that a row of the feed tells of, and whether the row says that all of them ended. None for a
/// class whose items have the pk of their parent: the row names that pk itself.
pub fn items_told_by(schema: &Schema, row: &FeedRow) -> Option<(Def, bool)> {
    let class = schema.class(&row.class).ok().filter(|class| !is_one_for_each(schema, class))?;
    let items = class.items()?;
    let parent = row.links.get(items.name().as_str())?.first()?;
    Some((Def::collection_hashed(class.name(), items.name(), parent), row.pk == *parent))
}

/// Each of these defs that is a single item, with the def of the items of its parent. Errors: those of the database.
pub fn single_items(instance: &Instance, org: &str, defs: &[Def]) -> Result<Vec<(Def, Def)>> {
    let schema = &instance.schema;
    let mut found = Vec::new();
    let mut snapshot = None;
    for def in defs {
        let DefKind::Document(pk) = def.kind() else { continue };
        let class = schema.class(def.class().as_str())?;
        let Some(items) = class.items().filter(|_| !is_one_for_each(schema, class)) else { continue };
        if snapshot.is_none() {
            snapshot = Some(instance.provider.read()?);
        }
        let Some(snapshot) = &snapshot else { continue };
        let at = Place { org, class: class.name().as_str(), pk: pk.as_str() };
        let stored = match read_document(snapshot.as_ref(), &instance.seal, at) {
            // The document cannot be read. The pull says so.
            Err(error) if error.code() == Code::StorageFailed => None,
            found => found?,
        };
        if let Some((_, parent)) = stored.and_then(|stored| parent_of(class, &stored.document.shown)) {
            found.push((def.clone(), Def::collection_hashed(class.name(), items.name(), &parent)));
        }
    }
    Ok(found)
}

/// Whether a class has one item in each parent, under the pk of the parent.
fn is_one_for_each(schema: &Schema, class: &Class) -> bool {
    let parent = class.parent().and_then(|parent| schema.class(parent.as_str()).ok());
    parent.is_some_and(|parent| parent.key().len() == class.key().len())
}

/// The floor of the tree of a stored item, if the item is below it.
pub(in crate::engine) fn floor_of(
    snapshot: &dyn DocumentReads,
    class: &Class,
    (org, Opened { document, .. }): (&str, &Opened),
) -> Result<Option<Version>> {
    let Some((class, pk)) = parent_of(class, &document.shown) else { return Ok(None) };
    let tree = snapshot.tree(Place { org, class: &class, pk: &pk })?.unwrap_or_default();
    Ok((document.v < tree.floor).then_some(tree.floor))
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
