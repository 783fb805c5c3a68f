//! The database: its committed tables, the turns of its writes, and copies of it.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::tables::Tables;
use super::turns::Turns;
use crate::lock::lock;
use crate::provider::{Action, Site};

/// A database in memory, the counterpart of a file on a disk. Each [`MemoryProvider`] is one instance's
/// connection to it.
pub struct MemoryDatabase {
    pub(super) committed: Mutex<Tables>,
    pub(super) turns: Turns,
    /// The insertion number of the last operation, over all orgs.
    pub(super) last_operation: AtomicI64,
    pub(super) most_looked: MostLooked,
}

/// The most rows that one snapshot and one write have looked at: tests bound the work of a request with them.
#[derive(Default)]
pub(super) struct MostLooked {
    pub(super) in_snapshot: AtomicU64,
    pub(super) in_write: AtomicU64,
}

/// The complete contents of a database, to be restored later.
#[derive(Clone)]
pub struct MemoryCopy {
    tables: Tables,
    last_operation: i64,
}

impl MemoryDatabase {
    /// A database in which no org was written to.
    pub fn new(first: Site) -> Arc<Self> {
        MemoryDatabase::restored(&MemoryCopy { tables: Tables::new(first), last_operation: 0 })
    }

    /// A database with the contents of a copy.
    pub fn restored(copy: &MemoryCopy) -> Arc<Self> {
        Arc::new(MemoryDatabase {
            committed: Mutex::new(copy.tables.clone()),
            turns: Turns::default(),
            last_operation: AtomicI64::new(copy.last_operation),
            most_looked: MostLooked::default(),
        })
    }

    /// A copy of the committed contents.
    pub fn copy(&self) -> MemoryCopy {
        // Numbers of operations that are not committed may be skipped, but none is used twice.
        MemoryCopy { tables: self.tables(), last_operation: self.last_operation.load(Ordering::SeqCst) }
    }

    /// The actions of the journal in commit order, without the first `after`.
    pub fn actions(&self, after: usize) -> Vec<Action> {
        self.tables().actions.values().skip(after).map(|action| action.as_ref().clone()).collect()
    }

    /// The most rows that one snapshot and one write have looked at since the last call.
    pub fn take_most_looked_at(&self) -> (u64, u64) {
        let MostLooked { in_snapshot, in_write } = &self.most_looked;
        (in_snapshot.swap(0, Ordering::SeqCst), in_write.swap(0, Ordering::SeqCst))
    }

    pub(super) fn tables(&self) -> Tables {
        lock(&self.committed).opened()
    }

    pub(super) fn next_operation(&self) -> i64 {
        self.last_operation.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Applies a commit, and counts it.
    pub(super) fn commit(&self, apply: impl FnOnce(&mut Tables)) -> u64 {
        let mut committed = lock(&self.committed);
        apply(&mut committed);
        let site = Arc::make_mut(&mut committed.site);
        site.commits += 1;
        site.commits
    }
}
