//! The record of a tree: a document whose class has classes of items, with its items (R16, R17).

use escale::model::Version;

/// The tombstones of a tree above which the purge removes the oldest from the items' collections.
pub const TOMBSTONES_MAX: u64 = 1_000;

/// The state of a tree. All values are 0 if nothing is stored of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// The version at which the parent was last created or deleted. An item below it does not exist.
    pub floor: Version,
    /// The last version written in the tree.
    pub v: Version,
    /// For the clock `sequence`, the number of the last write in the tree, which is its version; otherwise 0 (R20).
    pub n: u64,
    /// Tombstones below it may be missing from the collections of items.
    pub horizon: Version,
    /// The number of living items from the floor on, or more: an expired item that is purged stays counted.
    pub items: u64,
    /// The number of tombstones of items from the floor on, or more, for the same reason.
    pub tombstones: u64,
    /// A floor at or below the present one, below which items may still be stored; 0 if none are below the
    /// present one.
    pub due: Version,
}

impl Tree {
    /// Whether the versions in it are numbers, and no times.
    pub fn is_sequence(&self) -> bool {
        self.n > 0
    }

    /// The parent is created at that version, or deleted: none of the items exists any more.
    pub fn raise_floor(&mut self, v: Version, is_deleted: bool) {
        // An earlier floor that is due stays. Otherwise a parent that is created again and again would keep the
        // items of all its lives. A tree in which nothing was written has nothing to be removed.
        if self.due == 0 && (is_deleted || self.v > 0) {
            self.due = v;
        }
        // A write may delete a parent and create it again: the tombstones of its own items are at the floor.
        if self.floor != v {
            self.tombstones = 0;
        }
        (self.floor, self.v, self.items) = (v, v, 0);
    }
}

/// The outcome of [`super::Transaction::trim_items`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trimmed {
    /// The number of tombstones removed from the collection.
    pub removed: u64,
    /// The version above all that were removed; 0 if none was.
    pub horizon: Version,
    /// The number of tombstones that the collection still has.
    pub left: u64,
}
