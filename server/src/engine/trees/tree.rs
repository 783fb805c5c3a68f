//! Trees in a write: an item exists only while its parent does (R16), and from the floor of its tree on (R17).
//!
//! The end of a parent costs the same for any number of items. It raises the floor, and nothing is written of the
//! items. Only those that the same write has written get tombstones, because their version equals the floor.

use std::collections::BTreeSet;
use std::collections::btree_map::Entry as Slot;

use escale::codec::Data;
use escale::limits::{ITEMS_MAX, VERSION_MAX};
use escale::model::schema::{Class, Schema};
use escale::model::{Def, DefKind, Name, Version};
use escale::{Code, Error, Result};
use smol_str::SmolStr;

use crate::engine::Engine;
use crate::engine::write::{Actor, After, Stored, Writing};
use crate::provider::{Document, FeedRow, Place, Shown, Snapshot, Tree};

/// Bytes of the numbers of a tree's record.
const TREE_BYTES: usize = 56;

/// A tree that a write has read.
#[derive(Default)]
pub(in crate::engine) struct Held {
    pub(in crate::engine) tree: Tree,
    /// Whether the parent lives; none if it was not read yet.
    lives: Option<bool>,
    pub(super) is_changed: bool,
    /// Whether it had a record before this write.
    is_stored: bool,
    /// The items that this write has written.
    own: BTreeSet<Actor>,
    /// For the clock `sequence`, the number that this write has taken (R20).
    pub(super) number: Option<Version>,
    /// For that clock, the highest version among the documents that were put unchanged.
    pub(super) kept: Version,
}

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

impl Writing<'_> {
    /// The tree of a parent, as this write has left it.
    pub(in crate::engine) fn tree(&mut self, (class, pk): &Actor) -> Result<&mut Held> {
        match self.trees.entry((class.clone(), pk.clone())) {
            Slot::Occupied(held) => Ok(held.into_mut()),
            Slot::Vacant(free) => {
                let at = Place { org: self.org, class, pk };
                let tree = self.tx.tree(at)?.unwrap_or_default();
                let is_timed = !self.schema.class(class)?.is_sequence();
                if is_timed && tree.v >= self.now {
                    self.regressed = self.regressed.max(Some(tree.v));
                    return Err(Error::new(Code::Contention, "a tree is not older than the write"));
                }
                Ok(free.insert(Held { tree, ..Held::default() }))
            }
        }
    }

    /// The floor of its tree, if a stored document is an item below it, so that it does not exist.
    pub(in crate::engine) fn ended(&mut self, class: &Class, document: &Document) -> Result<Option<Version>> {
        let Some(parent) = parent_of(class, &document.shown) else { return Ok(None) };
        let floor = self.tree(&parent)?.tree.floor;
        Ok((document.v < floor).then_some(floor))
    }

    /// Refuses an item without a living parent (R16).
    pub(in crate::engine) fn check_parent(&mut self, class: &Class, parent: &Actor) -> Result<()> {
        let lives = if let Some(lives) = self.tree(parent)?.lives {
            lives
        } else {
            let of = self.schema().class(&parent.0)?;
            let at = Place { org: self.org, class: &parent.0, pk: &parent.1 };
            let lives = self.read(of, at)?.is_some_and(|stored| stored.living().is_some());
            self.tree(parent)?.lives = Some(lives);
            lives
        };
        if lives {
            return Ok(());
        }
        let what = format!("no such document of class {}, which class {} is in", parent.0, class.name());
        Err(Error::new(Code::NotFound, what + ": create that document first"))
    }

    /// Counts an item that is about to be put. Errors: `too_large` if its parent has too many.
    pub(in crate::engine) fn count_put(&mut self, parent: &Actor, before: Option<&Stored>) -> Result<()> {
        let is_new = before.is_none_or(|stored| stored.living().is_none());
        let was_tombstone = before.is_some_and(|stored| stored.ended.is_none() && stored.document.deleted);
        if is_new && self.tree(parent)?.tree.items >= ITEMS_MAX as u64 {
            // Items whose lives had ended may have been purged since.
            let counted = self.living_items(parent)?;
            self.tree(parent)?.tree.items = counted;
            if counted >= ITEMS_MAX as u64 {
                let what =
                    format!("a document of class {} has {ITEMS_MAX} items, the most possible", parent.0);
                return Err(Error::new(Code::TooLarge, what));
            }
        }
        let tree = &mut self.tree(parent)?.tree;
        tree.items += u64::from(is_new);
        tree.tombstones = tree.tombstones.saturating_sub(u64::from(was_tombstone));
        Ok(())
    }

    fn living_items(&mut self, parent: &Actor) -> Result<u64> {
        let floor = self.tree(parent)?.tree.floor;
        let mut n = 0;
        for def in items_of(self.schema(), &parent.0, &parent.1) {
            n += self.tx.count(self.org, &def, floor, VERSION_MAX + 1, 0)?.found;
        }
        Ok(n)
    }

    /// Counts an item that was deleted.
    pub(in crate::engine) fn count_deleted(&mut self, parent: &Actor) -> Result<()> {
        let tree = &mut self.tree(parent)?.tree;
        (tree.items, tree.tombstones) = (tree.items.saturating_sub(1), tree.tombstones + 1);
        Ok(())
    }

    /// Notes in its tree that a document of this class was written.
    pub(in crate::engine) fn note_in_tree(
        &mut self,
        class: &Class,
        (at, v): (Place, Version),
        new: &Shown,
    ) -> Result<()> {
        let own = (SmolStr::new(at.class), SmolStr::new(at.pk));
        if class.has_items() {
            let held = self.tree(&own)?;
            (held.tree.v, held.is_changed) = (v, true);
        } else if let Some(parent) = parent_of(class, new) {
            let held = self.tree(&parent)?;
            (held.tree.v, held.is_changed) = (v, true);
            held.own.insert(own);
        }
        Ok(())
    }

    /// The parent at that place is created: a tree begins without items.
    pub(in crate::engine) fn begin_tree(&mut self, at: Place, v: Version) -> Result<()> {
        let held = self.tree(&(at.class.into(), at.pk.into()))?;
        held.tree.raise_floor(v, false);
        (held.lives, held.is_changed) = (Some(true), true);
        Ok(())
    }

    /// The parent at that place is deleted, and all its items end.
    pub(in crate::engine) fn end_tree(&mut self, class: &Class, at: Place, v: Version) -> Result<()> {
        let parent = (SmolStr::new(at.class), SmolStr::new(at.pk));
        let held = self.tree(&parent)?;
        held.tree.raise_floor(v, true);
        (held.lives, held.is_changed) = (Some(false), true);
        for (class, pk) in held.own.clone() {
            self.check_time()?;
            self.bury(&parent, (Place { org: self.org, class: &class, pk: &pk }, v))?;
        }
        for items in item_classes(self.schema(), class.name().as_str()) {
            let Some(collection) = items.items() else { continue };
            let links = [(SmolStr::new(collection.name().as_str()), vec![parent.1.clone()])].into();
            // The pk is that of the parent, and of its item in a class with one item for each parent.
            let (org, class, pk) = (at.org.into(), items.name().as_str().into(), at.pk.into());
            self.tx.append_feed(&FeedRow { org, class, pk, v, links })?;
        }
        Ok(())
    }

    /// Gives an item of this write a tombstone.
    fn bury(&mut self, parent: &Actor, (at, v): (Place, Version)) -> Result<()> {
        let Some(document) = self.tx.document(at)?.filter(|document| !document.deleted) else {
            return Ok(());
        };
        let class = self.schema().class(at.class)?;
        let data = Data::from_bytes(&self.seal.open(at, document.v, &document.data)?)?;
        let names: Vec<&Name> = class.key().iter().collect();
        let key = data.pick(&names)?.into_iter().collect();
        let tombstone = self.tombstone((at, v), &document, &key)?;
        self.lay_down(class, at, Some(&document), &After::Tombstone(tombstone))?;
        self.tree(parent)?.tree.tombstones += 1;
        Ok(())
    }

    /// Stores the trees and the counters that have changed. Called once, after everything else.
    pub(in crate::engine) fn finish(&mut self) -> Result<()> {
        self.finish_counters()?;
        self.finish_files()?;
        let is_new = |held: &&Held| held.is_changed && !held.is_stored;
        let new =
            self.trees.iter().filter(|(_, held)| is_new(held)).map(|((class, pk), _)| class.len() + pk.len());
        self.growth.add_at_end(new.map(|names| names + TREE_BYTES).sum::<usize>() as i64)?;
        for ((class, pk), held) in self.trees.iter().filter(|(_, held)| held.is_changed) {
            self.tx.put_tree(Place { org: self.org, class, pk }, &held.tree)?;
        }
        Ok(())
    }
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
pub fn single_items(engine: &Engine, org: &str, defs: &[Def]) -> Result<Vec<(Def, Def)>> {
    let schema = &engine.schema;
    let mut found = Vec::new();
    let mut snapshot = None;
    for def in defs {
        let DefKind::Document(pk) = def.kind() else { continue };
        let class = schema.class(def.class().as_str())?;
        let Some(items) = class.items().filter(|_| !is_one_for_each(schema, class)) else { continue };
        if snapshot.is_none() {
            snapshot = Some(engine.provider.read()?);
        }
        let Some(snapshot) = &snapshot else { continue };
        let at = Place { org, class: class.name().as_str(), pk: pk.as_str() };
        let stored = snapshot.document(at)?;
        if let Some((_, parent)) = stored.and_then(|document| parent_of(class, &document.shown)) {
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
pub(in crate::engine) fn floor_above(
    snapshot: &dyn Snapshot,
    class: &Class,
    at: Place,
) -> Result<Option<Version>> {
    if class.parent().is_none() {
        return Ok(None);
    }
    let Some(document) = snapshot.document(at)? else { return Ok(None) };
    let Some((class, pk)) = parent_of(class, &document.shown) else { return Ok(None) };
    let tree = snapshot.tree(Place { org: at.org, class: &class, pk: &pk })?.unwrap_or_default();
    Ok((document.v < tree.floor).then_some(tree.floor))
}
