//! The reference model of R6: copies of a versioned set that bring each other up to date. A copy from before the
//! horizon also receives the list of all members, and drops the others. A session runs the set alone.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::ops::Deref;

use escale::memory::VersionedSet;

/// The changes that bring a copy up to date.
#[derive(Clone, Debug)]
pub struct Upgrade<K> {
    /// Members that changed, with their versions.
    pub rows: Vec<(K, u64)>,
    /// Keys that left, with their versions.
    pub left: Vec<(K, u64)>,
    /// Every member, if the copy may have missed departures.
    pub present: Option<Vec<K>>,
    /// The version that the copy reaches.
    pub v: u64,
    /// Departures before this version are not listed.
    pub horizon: u64,
}

/// A set that remembers departures from its horizon on.
#[derive(Clone, Debug, Default)]
pub struct Copy<K: Clone + Eq + Hash + Ord> {
    set: VersionedSet<K, u64>,
    horizon: u64,
}

impl<K: Clone + Eq + Hash + Ord> Deref for Copy<K> {
    type Target = VersionedSet<K, u64>;

    fn deref(&self) -> &VersionedSet<K, u64> {
        &self.set
    }
}

impl<K: Clone + Eq + Hash + Ord> PartialEq for Copy<K> {
    fn eq(&self, other: &Self) -> bool {
        let all = |copy: &Self| {
            let members: BTreeMap<K, (u64, bool)> =
                copy.members().map(|(key, member)| (key.clone(), (member.at, member.confirmed))).collect();
            let marks: BTreeMap<K, u64> = copy.marks().map(|(key, mark)| (key.clone(), *mark)).collect();
            (copy.v(), copy.horizon, members, marks)
        };
        all(self) == all(other)
    }
}

impl<K: Clone + Eq + Hash + Ord> Copy<K> {
    /// Departures before this version are forgotten.
    pub fn horizon(&self) -> u64 {
        self.horizon
    }

    /// Forgets departures before `horizon`, as a reference does with its old tombstones.
    pub fn forget_before(&mut self, horizon: u64) {
        self.horizon = self.horizon.max(horizon);
        let old: Vec<K> =
            self.set.marks().filter(|(_, mark)| **mark < self.horizon).map(|(key, _)| key.clone()).collect();
        for key in old {
            self.set.restore(key, None, None);
        }
    }

    /// The changes that bring a copy of version `since` up to this one.
    pub fn upgrade_since(&self, since: u64) -> Upgrade<K> {
        let rows = self.members().map(|(key, member)| (key.clone(), member.at));
        let left = self.marks().map(|(key, mark)| (key.clone(), *mark));
        let sorted = |changes: &mut dyn Iterator<Item = (K, u64)>| {
            let mut changes: Vec<(K, u64)> = changes.filter(|(_, at)| *at >= since).collect();
            changes.sort_by(|a, b| (a.1, &a.0).cmp(&(b.1, &b.0)));
            changes
        };
        let present = (since < self.horizon).then(|| {
            let mut keys: Vec<K> = self.keys().cloned().collect();
            keys.sort_unstable();
            keys
        });
        let (rows, left) = (sorted(&mut { rows }), sorted(&mut { left }));
        Upgrade { rows, left, present, v: self.v(), horizon: self.horizon }
    }

    /// Applies an upgrade whole. It keeps departures since the later of both horizons, so that this copy can
    /// serve as the reference of another. An upgrade that is older than this copy changes nothing, since the
    /// tombstones that would block its rows may be forgotten.
    pub fn apply(&mut self, upgrade: &Upgrade<K>) {
        if upgrade.v < self.v() {
            return;
        }
        for (key, at) in &upgrade.rows {
            self.set.link(key, *at, true);
        }
        for (key, at) in &upgrade.left {
            self.set.unlink(key, *at);
        }
        if let Some(present) = &upgrade.present {
            let present = present.iter().cloned().collect();
            for key in self.set.unaccounted(Some(&present), upgrade.v) {
                self.set.forget(&key);
            }
        }
        self.set.restore_v(upgrade.v);
        // Departures are known without a gap only since the later horizon. If `present` gave the state
        // without the versions of departures, they are known since the reference's own horizon.
        self.forget_before(upgrade.horizon);
    }
}
