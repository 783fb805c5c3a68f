//! How far this instance saw the heads of the orgs come. A database that lost commits is behind that (R39).

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use escale::model::Epoch;

use crate::lock::lock;
use crate::provider::Head;

/// Heads in each half of the memory: at least as many are remembered.
const HEADS_MAX: usize = 10_000;

/// The progress of an org.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engine) struct Progress {
    pub(in crate::engine) epoch: Epoch,
    commits: u64,
}

/// The heads seen last, in two halves: the older one is forgotten as a whole.
#[derive(Default)]
pub(in crate::engine) struct HeadsSeen(Mutex<[HashMap<String, Progress>; 2]>);

impl HeadsSeen {
    /// The progress of an org as far as it was seen. Ask before the snapshot opens in which the head is read:
    /// one that opened earlier may lack a commit that another thread has seen since.
    pub(in crate::engine) fn of(&self, org: &str) -> Option<Progress> {
        let halves = self.lock();
        halves.iter().find_map(|half| half.get(org)).cloned()
    }

    /// Notes that an org has come as far as this head.
    pub(in crate::engine) fn saw(&self, org: &str, head: &Head) {
        let mut halves = self.lock();
        let seen = Progress { epoch: head.epoch.clone(), commits: head.commits };
        if halves.iter().find_map(|half| half.get(org)).is_some_and(|before| !before.is_behind(&seen)) {
            return;
        }
        if halves[0].len() >= HEADS_MAX && !halves[0].contains_key(org) {
            halves.swap(0, 1);
            halves[0].clear();
        }
        halves[0].insert(org.to_owned(), seen);
    }

    fn lock(&self) -> MutexGuard<'_, [HashMap<String, Progress>; 2]> {
        lock(&self.0)
    }
}

impl Progress {
    /// Whether a head lacks commits that this progress counts.
    pub(in crate::engine) fn is_lost_by(&self, head: &Head) -> bool {
        Progress { epoch: head.epoch.clone(), commits: head.commits }.is_behind(self)
    }

    fn is_behind(&self, other: &Progress) -> bool {
        (&self.epoch, self.commits) < (&other.epoch, other.commits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(ms: u64, commits: u64) -> Head {
        let epoch = Epoch::new(ms, "name").expect("an epoch");
        Head { epoch, commits, highest: 0, promised_now: 0, horizon: 0, kept: 0 }
    }

    #[test]
    fn a_head_that_went_back_is_noticed_and_one_that_went_on_is_not() {
        let reached = HeadsSeen::default();
        assert_eq!(reached.of("o"), None);
        reached.saw("o", &head(1, 5));
        // A snapshot of another thread, opened before.
        reached.saw("o", &head(1, 4));
        let seen = reached.of("o").expect("progress");
        let lost = [(1, 4), (0, 9)].map(|(ms, commits)| seen.is_lost_by(&head(ms, commits)));
        let kept = [(1, 5), (1, 6), (2, 0)].map(|(ms, commits)| seen.is_lost_by(&head(ms, commits)));
        assert_eq!((lost, kept), ([true; 2], [false; 3]));
    }

    #[test]
    fn the_heads_seen_last_are_remembered_and_no_more_than_twice_as_many() {
        let reached = HeadsSeen::default();
        for n in 0..3 * HEADS_MAX {
            reached.saw(&n.to_string(), &head(1, n as u64));
        }
        let last = (2 * HEADS_MAX..3 * HEADS_MAX).all(|n| reached.of(&n.to_string()).is_some());
        assert!(last && reached.of("0").is_none());
        assert!(reached.lock().iter().map(HashMap::len).sum::<usize>() <= 2 * HEADS_MAX);
    }
}
