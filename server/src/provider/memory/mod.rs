//! The provider in memory: for tests, and for simulations, which open thousands of databases a second.
//!
//! Every instance shares one [`MemoryDatabase`]. Its tables are shared until they are written. So a snapshot
//! is a handful of reference counts, and nobody sees the changes of a transaction before its commit. Writes
//! of different orgs can overlap, as on a database with a lock for each row. Nothing is durable here. A copy
//! of the database is a backup.

mod files;
mod maintenance;
mod snapshot;
mod tables;
mod transaction;
mod turns;

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use escale::Result;

use super::{Action, Changed, FeedRow, Maintenance, Provider, Seen, Site, Snapshot, Transaction};
use maintenance::MemoryMaintenance;
use snapshot::MemorySnapshot;
use tables::Tables;
use transaction::MemoryTransaction;
use turns::Turns;

/// A database in memory, the counterpart of a file on a disk. Each [`MemoryProvider`] is one instance's
/// connection to it.
pub struct MemoryDatabase {
    committed: Mutex<Tables>,
    turns: Turns,
    /// The insertion number of the last operation, over all orgs.
    last_operation: AtomicI64,
    most_looked: MostLooked,
}

/// The most rows that one snapshot and one write have looked at: tests bound the work of a request with them.
#[derive(Default)]
struct MostLooked {
    in_snapshot: AtomicU64,
    in_write: AtomicU64,
}

/// The complete contents of a database, to be restored later.
#[derive(Clone)]
pub struct MemoryCopy {
    tables: Tables,
    last_operation: i64,
}

/// An instance's connection to a [`MemoryDatabase`].
pub struct MemoryProvider {
    database: Arc<MemoryDatabase>,
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

    fn tables(&self) -> Tables {
        lock(&self.committed).opened()
    }

    fn next_operation(&self) -> i64 {
        self.last_operation.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Applies a commit, and counts it.
    fn commit(&self, apply: impl FnOnce(&mut Tables)) -> u64 {
        let mut committed = lock(&self.committed);
        apply(&mut committed);
        let site = Arc::make_mut(&mut committed.site);
        site.commits += 1;
        site.commits
    }
}

impl MemoryProvider {
    /// A connection.
    pub fn open(database: &Arc<MemoryDatabase>) -> Self {
        MemoryProvider { database: database.clone() }
    }
}

impl Provider for MemoryProvider {
    fn read(&self) -> Result<Box<dyn Snapshot + '_>> {
        Ok(Box::new(MemorySnapshot::open(&self.database)))
    }

    fn write(&self, org: &str, wait: Duration) -> Result<Box<dyn Transaction + '_>> {
        self.database.turns.take_org(org, wait)?;
        Ok(Box::new(MemoryTransaction::begin(&self.database, org)))
    }

    fn maintain(&self, wait: Duration) -> Result<Box<dyn Maintenance + '_>> {
        self.database.turns.take_all(wait)?;
        Ok(Box::new(MemoryMaintenance::begin(&self.database)))
    }

    fn changed(&self, since: Option<&Seen>, visit: &mut dyn FnMut(FeedRow) -> Result<()>) -> Result<Changed> {
        let feed = self.database.tables().feed;
        let number = |entry: Option<(&u64, _)>| entry.map_or(0, |(number, _)| *number);
        let (oldest, newest) = (number(feed.first_key_value()), number(feed.last_key_value()));
        let since = since.map(Seen::number);
        for (_, row) in feed.range(since.unwrap_or(newest) + 1..) {
            visit(row.as_ref().clone())?;
        }
        Ok(Changed::at_number(newest, since, oldest))
    }
}

/// A panic elsewhere cannot leave a torn value: each table is replaced by one assignment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
