//! Trees in a write: an item exists only while its parent does (R16), and from the floor of its tree on (R17).
//!
//! The end of a parent costs the same for any number of items. It raises the floor, and nothing is written of the
//! items. Only those that the same write has written get tombstones, because their version equals the floor.

use escale::codec::Data;
use escale::limits::{ITEMS_MAX, VERSION_MAX};
use escale::model::schema::Class;
use escale::model::{Name, Version};
use escale::{Code, Error, Result};
use smol_str::SmolStr;

use crate::engine::records::opened::read_document;
use crate::engine::tx::trees::{item_classes, items_of, parent_of};
use crate::engine::tx::write_tx::{Actor, After, Held, Stored, WriteTx};
use crate::provider::{FeedRow, Place, Shown};

/// Bytes of the numbers of a tree's record.
const TREE_BYTES: usize = 56;

impl Held {
    /// Counts an item that was deleted.
    pub(in crate::engine) fn count_deleted(&mut self) {
        let tree = &mut self.tree;
        (tree.items, tree.tombstones) = (tree.items.saturating_sub(1), tree.tombstones + 1);
    }

    /// The parent is created: a tree begins without items.
    pub(in crate::engine) fn begin(&mut self, v: Version) {
        self.tree.raise_floor(v, false);
        (self.lives, self.is_changed) = (Some(true), true);
    }

    /// The parent is deleted, and all its items end.
    fn end(&mut self, v: Version) {
        self.tree.raise_floor(v, true);
        (self.lives, self.is_changed) = (Some(false), true);
    }

    /// Something in the tree was written.
    fn note(&mut self, v: Version) {
        (self.tree.v, self.is_changed) = (v, true);
    }
}

impl WriteTx<'_> {
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
        let was_tombstone =
            before.is_some_and(|stored| stored.ended.is_none() && stored.opened.document.deleted);
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
            n += self.tx.snapshot().count(self.org, &def, floor, VERSION_MAX + 1, 0)?.found;
        }
        Ok(n)
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
            self.tree(&own)?.note(v);
        } else if let Some(parent) = parent_of(class, new) {
            let held = self.tree(&parent)?;
            held.note(v);
            held.own.insert(own);
        }
        Ok(())
    }

    /// The parent at that place is deleted, and all its items end.
    pub(in crate::engine) fn end_tree(&mut self, class: &Class, at: Place, v: Version) -> Result<()> {
        let parent = (SmolStr::new(at.class), SmolStr::new(at.pk));
        let held = self.tree(&parent)?;
        held.end(v);
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
        let found = read_document(self.tx.snapshot(), &self.instance.seal, at)?;
        let Some(opened) = found.filter(|opened| !opened.document.deleted) else { return Ok(()) };
        let class = self.schema().class(at.class)?;
        let data = Data::from_bytes(&opened.data)?;
        let names: Vec<&Name> = class.key().iter().collect();
        let key = data.pick(&names)?.into_iter().collect();
        let tombstone = self.tombstone((at, v), &opened.document, &key)?;
        self.lay_down(class, at, Some(&opened), &After::Tombstone(tombstone))?;
        self.tree(parent)?.tree.tombstones += 1;
        Ok(())
    }

    /// Stores the trees and the counters that have changed. Called once, after everything else.
    pub(in crate::engine) fn finish(&mut self) -> Result<()> {
        let (instance, own) = (self.instance, (self.org, self.now));
        self.counters.finish((&mut *self.tx, &instance.seal), own, &mut self.notes.growth)?;
        self.finish_files()?;
        let is_new = |held: &&Held| held.is_changed && !held.is_stored;
        let new =
            self.trees.iter().filter(|(_, held)| is_new(held)).map(|((class, pk), _)| class.len() + pk.len());
        self.notes.growth.add_at_end(new.map(|names| names + TREE_BYTES).sum::<usize>() as i64)?;
        for ((class, pk), held) in self.trees.iter().filter(|(_, held)| held.is_changed) {
            self.tx.put_tree(Place { org: self.org, class, pk }, &held.tree)?;
        }
        Ok(())
    }
}
