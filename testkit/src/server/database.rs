//! The model's storage: documents with their tombstones, departures, and, for the checks, the history of
//! writes.

use std::collections::{BTreeMap, BTreeSet};

use escale::model::{Def, Epoch, Pk};

use super::operations::Operations;
use crate::backend::{Committed, Entry, Write};
use crate::schema::{Key, Map, defs_of, is_parent, is_sequence, with};

/// The tree of a document, by the key of its parent: a parent is in its own.
pub fn tree_of(key: &Key) -> Option<Key> {
    if is_parent(&key.0) { Some(key.clone()) } else { crate::schema::tree_of(key) }
}

/// A document or its tombstone. A tombstone keeps the defs that held the document.
#[derive(Clone, Debug)]
pub struct Stored {
    pub v: u64,
    /// The time of the write, which is the version on the clock `time`.
    pub at: u64,
    pub deleted: bool,
    pub data: Map,
    pub max_life: Option<u64>,
    pub defs: BTreeSet<Def>,
}

impl Stored {
    pub fn is_expired(&self, now: u64) -> bool {
        self.max_life.is_some_and(|minutes| minutes * 60_000 <= now)
    }
}

/// A tree (R17).
#[derive(Clone, Copy, Debug, Default)]
pub struct Tree {
    /// The version at which its parent was last created or deleted.
    pub floor: u64,
    /// The version last written in it.
    pub v: u64,
    /// The horizon of its numbers (R20).
    pub horizon: u64,
}

#[derive(Clone)]
pub struct Database {
    pub epoch: Epoch,
    pub docs: BTreeMap<Key, Stored>,
    pub departures: BTreeMap<(Def, Pk), u64>,
    /// The trees, by the keys of their parents.
    pub trees: BTreeMap<Key, Tree>,
    /// The items that ended with their parents, and the floors at which they did.
    pub ended: BTreeMap<Key, u64>,
    /// Tombstones and departures before it are forgotten.
    pub horizon: u64,
    /// The highest version committed.
    pub highest: u64,
    /// The highest `now` given.
    pub promised_now: u64,
    pub history: Vec<Entry>,
    pub operations: Operations,
}

impl Database {
    pub fn new(epoch: Epoch) -> Self {
        Database {
            epoch,
            docs: BTreeMap::new(),
            departures: BTreeMap::new(),
            trees: BTreeMap::new(),
            ended: BTreeMap::new(),
            horizon: 0,
            highest: 0,
            promised_now: 0,
            history: Vec::new(),
            operations: Operations::default(),
        }
    }

    /// The data of a document that is not deleted.
    pub fn living(&self, key: &Key) -> Option<&Map> {
        self.docs.get(key).filter(|stored| !stored.deleted).map(|stored| &stored.data)
    }

    /// Executes a transaction stamped `v`, or later if one of its documents is not older.
    pub fn write(&mut self, v: u64, writes: &[Write]) -> Committed {
        let key_of = |write: &Write| match write {
            Write::Put { key, .. } | Write::Delete(key) => key.clone(),
        };
        let timed = || writes.iter().map(key_of).filter(|key| !is_sequence(&key.0));
        let newest = timed().filter_map(|key| Some(self.docs.get(&key)?.v + 1)).max();
        let trees = timed().filter_map(|key| Some(self.trees.get(&tree_of(&key)?)?.v + 1));
        // Writes of one org never have the same time.
        let v = v.max(newest.unwrap_or(0)).max(trees.max().unwrap_or(0));
        let mut committed = Committed { v, ..Committed::default() };
        for write in writes {
            match write {
                Write::Put { key, data, max_life } => {
                    self.put(key, data.clone(), *max_life, &mut committed);
                }
                Write::Delete(key) => self.delete(key, &mut committed),
            }
        }
        if !committed.keys.is_empty() {
            self.highest = self.highest.max(v);
        }
        committed.defs.sort_unstable();
        committed.defs.dedup();
        committed
    }

    /// The version of everything that a transaction writes in the tree of that document: the tree's next number, or
    /// the transaction's time (R20).
    fn version(&self, key: &Key, committed: &mut Committed) -> u64 {
        let Some(tree) = tree_of(key).filter(|_| is_sequence(&key.0)) else { return committed.v };
        let next = self.trees.get(&tree).map_or(0, |tree| tree.v) + 1;
        *committed.numbers.entry(tree).or_insert(next)
    }

    fn put(&mut self, key: &Key, data: Map, max_life: Option<u64>, committed: &mut Committed) {
        let defs = with(|schema| defs_of(schema.class(key.0.as_str()).expect("a class"), &key.1, &data));
        if tree_of(key).is_some_and(|parent| parent != *key && self.living(&parent).is_none()) {
            return; // R16
        }
        let v = self.version(key, committed);
        if let Some(parent) = tree_of(key) {
            let begins = parent == *key && self.living(key).is_none();
            let tree = self.trees.entry(parent).or_default();
            tree.v = v;
            if begins {
                tree.floor = v;
            }
            self.ended.remove(key);
        }
        let before = self.docs.get(key).map(|stored| stored.defs.clone()).unwrap_or_default();
        for def in before.difference(&defs) {
            self.departures.insert((def.clone(), key.1.clone()), v);
        }
        for def in &defs {
            self.departures.remove(&(def.clone(), key.1.clone()));
        }
        committed.keys.push(key.clone());
        committed.defs.extend(before.union(&defs).cloned());
        let entry = Entry { key: key.clone(), v, defs: defs.clone(), data: data.clone(), max_life };
        self.history.push(entry);
        let at = committed.v;
        self.docs.insert(key.clone(), Stored { v, at, deleted: false, data, max_life, defs });
    }

    fn delete(&mut self, key: &Key, committed: &mut Committed) {
        if self.living(key).is_none() {
            return;
        }
        let v = self.version(key, committed);
        let stored = self.docs.get_mut(key).expect("it lives");
        (stored.v, stored.at) = (v, committed.v);
        stored.deleted = true;
        stored.data.clear();
        stored.max_life = None;
        committed.keys.push(key.clone());
        committed.defs.extend(stored.defs.iter().cloned());
        let (defs, data) = (BTreeSet::new(), Map::new());
        self.history.push(Entry { key: key.clone(), v, defs, data, max_life: None });
        let Some(parent) = tree_of(key) else { return };
        let tree = self.trees.entry(parent.clone()).or_default();
        tree.v = v;
        if parent == *key {
            tree.floor = v;
            self.end_items(key, v, committed);
        }
    }

    /// R16, R17: the items of a parent end with it. Those that this very transaction wrote leave tombstones, since
    /// their version is not below the floor.
    fn end_items(&mut self, parent: &Key, v: u64, committed: &mut Committed) {
        let items: Vec<Key> = self
            .docs
            .keys()
            .filter(|key| *key != parent && tree_of(key).as_ref() == Some(parent))
            .cloned()
            .collect();
        for key in items {
            if self.docs[&key].v == v {
                self.delete(&key, committed);
                continue;
            }
            let stored = self.docs.remove(&key).expect("listed");
            if !is_sequence(&key.0) {
                // Others cannot be requested alone.
                self.ended.insert(key.clone(), v);
            }
            if !stored.deleted {
                let (defs, data) = (BTreeSet::new(), Map::new());
                self.history.push(Entry { key, v, defs, data, max_life: None });
                committed.defs.extend(stored.defs);
            }
        }
    }

    /// The retention time has passed for everything before that time (R6).
    pub fn forget_before(&mut self, horizon: u64) {
        self.horizon = self.horizon.max(horizon);
        let horizon = self.horizon;
        self.departures.retain(|_, v| *v >= horizon);
        let trees = &mut self.trees;
        self.docs.retain(|key, stored| {
            let stays = !stored.deleted || stored.at >= horizon;
            if let Some(tree) = tree_of(key).filter(|_| !stays && is_sequence(&key.0)) {
                let tree = trees.entry(tree).or_default();
                tree.horizon = tree.horizon.max(stored.v + 1);
            }
            stays
        });
        self.ended.retain(|_, floor| *floor >= horizon);
    }

    /// The living members of a def.
    pub fn members(&self, def: &Def, now: u64) -> impl Iterator<Item = (&Key, &Stored)> {
        self.docs.iter().filter(move |(_, stored)| {
            !stored.deleted && !stored.is_expired(now) && stored.defs.contains(def)
        })
    }
}
