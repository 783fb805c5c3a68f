//! Single items that sockets listen to, by their parents: they end with the parent, and no row of the feed names them.

use std::collections::{HashMap, HashSet};

use escale::model::Def;

/// The single items of an org whose parents are known.
#[derive(Default)]
pub(super) struct Singles {
    /// By the def of a parent's items.
    by_parent: HashMap<Def, HashSet<Def>>,
    parents: HashMap<Def, Def>,
}

impl Singles {
    /// Notes an item that somebody listens to, with the def of its parent's items.
    pub(super) fn note(&mut self, item: &Def, items: &Def) {
        // The parent of an item never changes.
        if !self.parents.contains_key(item) {
            self.parents.insert(item.clone(), items.clone());
            self.by_parent.entry(items.clone()).or_default().insert(item.clone());
        }
    }

    /// The last one has stopped to listen to that def.
    pub(super) fn forget(&mut self, item: &Def) {
        let Some(items) = self.parents.remove(item) else { return };
        if let Some(of) = self.by_parent.get_mut(&items) {
            of.remove(item);
            if of.is_empty() {
                self.by_parent.remove(&items);
            }
        }
    }

    /// The items of that parent.
    pub(super) fn of(&self, items: &Def) -> Vec<Def> {
        self.by_parent.get(items).into_iter().flatten().cloned().collect()
    }
}
