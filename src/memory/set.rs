//! A versioned set (R6): the members of a collection.
//!
//! The set remembers which keys are in it, since which version, and which ones left lately (*marks*, the
//! removal tombstones). Departures before its `v` are forgotten. `tests/rules/upgrades.rs` has a reference
//! model of the rule. It updates copies of a set from each other.

use std::hash::Hash;

use super::slab::Slab;
use crate::model::{QuickMap, SortedSet, order};

/// A member: the version of its link, and whether the whole load in progress has confirmed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member<S> {
    /// The version of the link.
    pub at: S,
    /// False from the start of a whole load until a row confirms the link. Links not confirmed at its end are
    /// dropped.
    pub confirmed: bool,
}

/// The set. `S` orders the changes: a [`super::Stamp`] in the session, a plain version elsewhere.
#[derive(Clone, Debug)]
pub struct VersionedSet<K: Eq + Hash, S> {
    v: S,
    members: Slab<K, Member<S>>,
    marks: QuickMap<K, S>,
}

impl<K: Clone + Eq + Hash + Ord, S: Copy + Ord + Default> Default for VersionedSet<K, S> {
    fn default() -> Self {
        VersionedSet { v: S::default(), members: Slab::default(), marks: QuickMap::default() }
    }
}

impl<K: Clone + Eq + Hash + Ord, S: Copy + Ord + Default> VersionedSet<K, S> {
    /// The version up to which every change is known.
    pub fn v(&self) -> S {
        self.v
    }

    /// The member of that key.
    pub fn member(&self, key: &K) -> Option<Member<S>> {
        self.members.get(key).copied()
    }

    /// The version at which that key left, if it is remembered.
    pub fn mark(&self, key: &K) -> Option<S> {
        self.marks.get(key).copied()
    }

    /// The keys of all members.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.members.keys()
    }

    /// The members.
    pub fn members(&self) -> impl Iterator<Item = (&K, &Member<S>)> {
        self.members.iter()
    }

    /// The removal tombstones.
    pub fn marks(&self) -> impl Iterator<Item = (&K, &S)> {
        self.marks.iter()
    }

    /// The number of members.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether it has no members.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Applies a row of version `at`: the key is a member since then (R3), unless it left later (R5). Returns
    /// whether anything changed.
    pub fn link(&mut self, key: &K, at: S, confirmed: bool) -> bool {
        if self.marks.get(key).is_some_and(|mark| *mark > at) {
            return false;
        }
        self.marks.remove(key);
        let Some(member) = self.members.get_mut(key) else {
            self.members.insert(key.clone(), Member { at, confirmed });
            return true;
        };
        let before = *member;
        member.at = member.at.max(at);
        member.confirmed |= confirmed;
        *member != before
    }

    /// The keys of the members whose links are from `from` on and below `floor`.
    pub fn between(&self, from: S, floor: S) -> Vec<K> {
        let is_in = |member: &Member<S>| member.at >= from && member.at < floor;
        self.members.iter().filter(|(_, member)| is_in(member)).map(|(key, _)| key.clone()).collect()
    }

    /// Applies a departure at `at`: the key leaves unless its link is newer (R3). A removal tombstone keeps
    /// older rows from linking it again (R5). Returns whether anything changed.
    pub fn unlink(&mut self, key: &K, at: S) -> bool {
        if self.members.get(key).is_some_and(|member| member.at > at) {
            return false;
        }
        let removed = self.members.remove(key).is_some();
        let marked = at >= self.v && self.marks.get(key).is_none_or(|mark| *mark < at);
        if marked {
            self.marks.insert(key.clone(), at);
        }
        removed || marked
    }

    /// Removes a key without a tombstone: its document left for another reason.
    pub fn forget(&mut self, key: &K) -> bool {
        self.members.remove(key).is_some()
    }

    /// Starts a whole load: every member must be confirmed again, and earlier changes are unknown.
    pub fn restart(&mut self, v: S) {
        self.v = v;
        self.marks.clear();
        for member in self.members.values_mut() {
            member.confirmed = false;
        }
    }

    /// Restores the stored version.
    pub fn restore_v(&mut self, v: S) {
        self.v = v;
    }

    /// Reserves memory for that many more members.
    pub fn reserve(&mut self, count: usize) {
        self.members.reserve(count);
    }

    /// The keys whose member or tombstone is not as in `before`, ascending. Those that left since are among them.
    pub fn difference(&self, before: Option<&Self>) -> Vec<K>
    where
        S: PartialEq,
    {
        let none = Self::default();
        let before = before.unwrap_or(&none);
        let is_other =
            |key: &&K| self.member(key) != before.member(key) || self.mark(key) != before.mark(key);
        // One loop over the four: a chain of iterators is more code.
        let all: [&mut dyn Iterator<Item = &K>; 4] =
            [&mut self.keys(), &mut self.marks.keys(), &mut before.keys(), &mut before.marks.keys()];
        let mut others = Vec::new();
        for keys in all {
            others.extend(keys.filter(is_other).cloned());
        }
        order::sort(&mut others);
        others.dedup();
        others
    }

    /// Restores a stored member or tombstone.
    pub fn restore(&mut self, key: K, member: Option<Member<S>>, mark: Option<S>) {
        match mark {
            Some(mark) => {
                self.marks.insert(key.clone(), mark);
            }
            // Usually there are none. Then no search is needed.
            None if self.marks.is_empty() => {}
            None => {
                self.marks.remove(&key);
            }
        }
        match member {
            Some(member) => {
                self.members.insert(key, member);
            }
            None => {
                self.members.remove(&key);
            }
        }
    }

    /// The members that a finished load does not account for: those that are not `present`, or those not confirmed
    /// if the load had no `present`. Links at or above `keep_from` are newer than the load and stay.
    pub fn unaccounted(&self, present: Option<&SortedSet<K>>, keep_from: S) -> Vec<K> {
        let gone = |(key, member): (&K, &Member<S>)| {
            let listed = present.map_or(member.confirmed, |present| present.contains(key));
            (!listed && member.at < keep_from).then(|| key.clone())
        };
        self.members.iter().filter_map(gone).collect()
    }

    /// Advances to version `v` (never backwards), and forgets the removal tombstones below it. Returns their
    /// keys.
    pub fn settle(&mut self, v: S) -> Vec<K> {
        self.v = self.v.max(v);
        let floor = self.v;
        let old: Vec<K> =
            self.marks.iter().filter(|(_, mark)| **mark < floor).map(|(key, _)| key.clone()).collect();
        for key in &old {
            self.marks.remove(key);
        }
        old
    }
}
