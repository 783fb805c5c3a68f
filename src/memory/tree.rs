//! Trees: a parent with its items (R16 to R19). A tree is named by the key of its parent.

use super::collection::{Collection, Load};
use super::document::{DocKey, Document};
use super::overlay::is_local;
use super::stamp::Stamp;
use super::state::Memory;
use crate::model::schema::Class;
use crate::model::{Def, DefKind, Pk, SortedSet, Version};

/// The tree that a def shows a part of: the parent, or the items of one class.
pub fn tree_of(memory: &Memory, def: &Def) -> Option<DocKey> {
    let class = memory.schema.class(def.class().as_str()).ok()?;
    match def.kind() {
        DefKind::Document(pk) if class.has_items() => memory.doc_key(class.name(), pk),
        DefKind::Collection(_, hash) => memory.doc_key(class.parent()?, &Pk::parse(hash).ok()?),
        _ => None,
    }
}

/// Whether the versions of a def are numbers of its tree (R20).
pub fn is_sequence(memory: &Memory, def: &Def) -> bool {
    memory.schema.class(def.class().as_str()).is_ok_and(Class::is_sequence)
}

/// The `v` to ask for a def from: 0 if it was never loaded, or not in this era. On the clock `sequence`, a collection is
/// kept at the number after the last one that is known.
pub fn asked_v(memory: &Memory, def: &Def) -> Version {
    let v = memory.collection(def).map_or(0, |collection| collection.v(memory.era));
    v.saturating_sub(u64::from(is_sequence(memory, def)))
}

/// Whether every change of the def at that version is known. On the clock `time` nobody can tell (R4).
pub fn is_known(memory: &Memory, def: &Def, v: Version) -> bool {
    let knows = |own: &Collection| !own.is_loading(memory.era) && v < own.v(memory.era);
    is_sequence(memory, def) && memory.collection(def).is_some_and(knows)
}

/// The subscribed defs of a tree: that of the parent, then the items by class.
pub fn tree_defs(memory: &Memory, (class, pk): &DocKey) -> Vec<Def> {
    let parent = memory.class(*class).name();
    let mut defs = vec![Def::document(parent, pk)];
    for class in memory.schema.classes().iter().filter(|class| class.parent() == Some(parent)) {
        let of = class.items().map(|items| Def::collection_hashed(class.name(), items.name(), pk.as_str()));
        defs.extend(of);
    }
    defs.retain(|def| memory.collections.contains_key(def));
    defs
}

/// The trees whose documents changed since the last report.
pub fn changed_trees(memory: &Memory) -> SortedSet<DocKey> {
    crate::model::order::set_of(memory.unreported.defs.iter().filter_map(|def| tree_of(memory, def)))
}

/// Whether a def, and all others of its tree, show one state of the server (R18).
pub fn is_whole(memory: &Memory, def: &Def) -> bool {
    let shows = |def: &Def| {
        let own = memory.collections.get(def);
        own.is_some_and(|own| own.load.is_none() && (own.v(memory.era) != 0 || is_local(memory, def)))
    };
    tree_of(memory, def).map_or_else(|| shows(def), |tree| tree_defs(memory, &tree).iter().all(shows))
}

/// The defs of a tree have come from different snapshots: each that is loaded is requested again, from its `v`. It is
/// stored as a load without a cursor, so that the next opening knows it too.
pub fn await_tree(memory: &mut Memory, defs: &[Def]) {
    for def in defs {
        let Some(collection) = memory.collections.get_mut(def) else { continue };
        let since = collection.v(memory.era);
        if collection.load.is_none() && since != 0 {
            let cursor = String::new();
            collection.load = Some(Load { cursor, since, settle: since, received: 0, total: None });
            memory.dirty.collections.insert(def.clone());
        }
    }
}

/// The application must learn that the state of these defs has changed.
pub fn mark_changed(memory: &mut Memory, defs: Vec<Def>) {
    memory.unreported.defs.extend(defs);
}

/// R17: a parent was deleted or created, and all its items of that era with an older link are gone. They need no
/// removal tombstones: the next pull from before the floor brings it again.
pub fn drop_below(memory: &mut Memory, def: &Def, floor: Stamp) {
    let old = memory.collections[def].set.between(Stamp::new(floor.era, 0), floor);
    memory.drop_links(def, old);
}

/// From now on these defs show no items but those with an overlay: their parents are deleted by pending operations
/// (R19).
pub fn hide_items(memory: &mut Memory, defs: SortedSet<Def>) {
    let before = std::mem::replace(&mut memory.hidden, defs);
    let changed = before.iter().filter(|def| !memory.hidden.contains(*def));
    let changed: Vec<&Def> =
        changed.chain(memory.hidden.iter().filter(|def| !before.contains(*def))).collect();
    // The items may be in any def of their class. To look for each of them costs as much as there are items.
    let classes = crate::model::order::set_of(changed.into_iter().map(|def| def.class().clone()));
    for (def, collection) in memory.collections.iter_mut().filter(|(def, _)| classes.contains(def.class())) {
        memory.unreported.defs.insert(def.clone());
        collection.touched = None;
    }
}

/// Whether a document without an overlay is hidden with all items of its parent.
pub fn is_hidden(memory: &Memory, document: &Document) -> bool {
    !memory.hidden.is_empty() && document.defs.iter().any(|def| memory.hidden.contains(def))
}
