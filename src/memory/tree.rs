//! Trees: a parent with its items (R16 to R19). A tree is named by the key of its parent.

use super::collection::Load;
use super::document::{DocKey, Document};
use super::state::Memory;
use crate::model::{Def, DefKind, SortedSet};

impl Memory {
    /// The tree that a def shows a part of: the parent, or the items of one class.
    pub(crate) fn tree_of(&self, def: &Def) -> Option<DocKey> {
        let class = self.schema.class(def.class().as_str()).ok()?;
        match def.kind() {
            DefKind::Document(pk) if class.has_items() => self.doc_key(class.name(), pk),
            DefKind::Collection(_, hash) => {
                self.doc_key(class.parent()?, &crate::model::Pk::parse(hash).ok()?)
            }
            _ => None,
        }
    }

    /// The subscribed defs of a tree: that of the parent, then the items by class.
    pub(crate) fn tree_defs(&self, (class, pk): &DocKey) -> Vec<Def> {
        let parent = self.class(*class);
        let mut defs = vec![Def::document(parent.name(), pk)];
        for class in self.schema.classes().iter().filter(|class| class.parent() == Some(parent.name())) {
            let items =
                class.items().map(|items| Def::collection_hashed(class.name(), items.name(), pk.as_str()));
            defs.extend(items);
        }
        defs.retain(|def| self.collections.contains_key(def));
        defs
    }

    /// Whether a def, and all others of its tree, show one state of the server (R18).
    pub fn is_whole(&self, def: &Def) -> bool {
        let shows = |def: &Def| {
            self.collections.get(def).is_some_and(|own| own.load.is_none() && own.v(self.era) != 0)
        };
        self.tree_of(def).map_or_else(|| shows(def), |tree| self.tree_defs(&tree).iter().all(shows))
    }

    /// The defs of a tree have come from different snapshots: each that is loaded is requested again, from
    /// its `v`. It is stored as a load without a cursor, so that the next opening knows it too.
    pub(crate) fn await_tree(&mut self, defs: &[Def]) {
        for def in defs {
            let era = self.era;
            let Some(collection) = self.collections.get_mut(def) else { continue };
            let since = collection.v(era);
            if collection.load.is_none() && since != 0 {
                let cursor = String::new();
                collection.load = Some(Load { cursor, since, settle: since, received: 0, total: None });
                self.dirty.collections.insert(def.clone());
            }
        }
    }

    /// The defs whose documents changed since the last report.
    pub(crate) fn changed_defs(&self) -> &SortedSet<Def> {
        &self.unreported.defs
    }

    /// The application must learn that the state of these defs has changed.
    pub(crate) fn report(&mut self, defs: Vec<Def>) {
        self.unreported.defs.extend(defs);
    }

    /// From now on these defs show no items but those with an overlay: their parents are deleted by pending
    /// operations (R19).
    pub(crate) fn hide_items(&mut self, defs: SortedSet<Def>) {
        let before = std::mem::replace(&mut self.hidden, defs);
        let changed = before.iter().filter(|def| !self.hidden.contains(*def));
        let changed = changed.chain(self.hidden.iter().filter(|def| !before.contains(*def)));
        self.unreported.defs.extend(changed.cloned());
    }

    /// Whether a document without an overlay is hidden with all items of its parent.
    pub(crate) fn is_hidden(&self, document: &Document) -> bool {
        !self.hidden.is_empty() && document.defs.iter().any(|def| self.hidden.contains(def))
    }
}
