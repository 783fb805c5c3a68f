//! Members for a new collection from the documents of its class
//! (docs/decisions/41-a-collection-begins-with-its-class.md).

use super::apply::settle_at;
use super::collection::Collection;
use super::stamp::Stamp;
use super::state::Memory;
use crate::model::{Def, Name};

/// The version up to which every document of a class is known, if the class is subscribed to and loaded in this epoch.
pub fn known_class(memory: &Memory, class: &Name) -> Option<Stamp> {
    let class = memory.collections.get(&Def::class_of(class))?;
    Some(class.set.v()).filter(|v| class.ready && v.v > 0 && v.era == memory.epoch().1)
}

/// Gives a collection that was never loaded its members, as a whole load would. `ids` are those of all documents of the
/// class that are members by their properties.
pub fn seed(memory: &mut Memory, def: &Def, ids: &[u32]) {
    let Some(v) = known_class(memory, def.class()) else { return };
    let is_new = |own: &Collection| !own.ready && own.load.is_none() && own.set.is_empty();
    if !memory.collections.get(def).is_some_and(is_new) {
        return;
    }
    let class = Def::class_of(def.class());
    for id in ids {
        let Some((key, document)) = memory.by_id(*id) else { continue };
        let (key, at) = (key.clone(), document.at);
        // Documents that only other defs hold may be of an earlier epoch.
        if memory.collections[&class].set.member(&key.1).is_some() {
            memory.link(def, &key, at, true);
        }
    }
    memory.dirty.collections.insert(def.clone());
    settle_at(memory, def, v);
}
