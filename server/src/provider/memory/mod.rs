//! The provider in memory: for tests, and for simulations, which open thousands of databases a second.
//!
//! Every instance shares one [`MemoryDatabase`]. Its tables are shared until they are written. So a snapshot
//! is a handful of reference counts, and nobody sees the changes of a transaction before its commit. Nothing
//! is durable here. A copy of the database is a backup.

mod snapshot;
mod tables;
mod transaction;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use escale::{Code, Error, Result};

use super::{Action, Provider, Snapshot, State, Transaction};
use snapshot::MemorySnapshot;
use tables::Tables;
use transaction::MemoryTransaction;

/// A database in memory, the counterpart of a file on a disk. Each [`MemoryProvider`] is one instance's
/// connection to it.
pub struct MemoryDatabase {
    committed: Mutex<Committed>,
    /// Whether a write is in progress.
    is_taken: Mutex<bool>,
    given_back: Condvar,
}

struct Committed {
    tables: Tables,
    revision: u64,
}

/// The complete contents of a database, to be restored later.
#[derive(Clone)]
pub struct MemoryCopy(Tables);

/// An instance's connection to a [`MemoryDatabase`].
pub struct MemoryProvider {
    database: Arc<MemoryDatabase>,
}

impl MemoryDatabase {
    /// A database that holds only its state.
    pub fn new(first: State) -> Arc<Self> {
        MemoryDatabase::over(Tables::new(first))
    }

    /// A database with the contents of a copy.
    pub fn restored(copy: &MemoryCopy) -> Arc<Self> {
        MemoryDatabase::over(copy.0.clone())
    }

    fn over(tables: Tables) -> Arc<Self> {
        Arc::new(MemoryDatabase {
            committed: Mutex::new(Committed { tables, revision: 0 }),
            is_taken: Mutex::new(false),
            given_back: Condvar::new(),
        })
    }

    /// A copy of the committed contents.
    pub fn copy(&self) -> MemoryCopy {
        MemoryCopy(self.tables())
    }

    /// The actions of the journal in commit order, without the first `after`.
    pub fn actions(&self, after: usize) -> Vec<Action> {
        self.tables().actions.iter().skip(after).map(|action| action.as_ref().clone()).collect()
    }

    fn tables(&self) -> Tables {
        lock(&self.committed).tables.clone()
    }

    fn take_turn(&self, wait: Duration) -> Result<()> {
        let (mut is_taken, _) = self
            .given_back
            .wait_timeout_while(lock(&self.is_taken), wait, |is_taken| *is_taken)
            .unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut is_taken, true) {
            return Err(Error::new(Code::Contention, "another write holds the database"));
        }
        Ok(())
    }

    fn give_back(&self) {
        *lock(&self.is_taken) = false;
        self.given_back.notify_one();
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
        Ok(Box::new(MemorySnapshot(self.database.tables())))
    }

    fn write(&self, wait: Duration) -> Result<Box<dyn Transaction + '_>> {
        self.database.take_turn(wait)?;
        Ok(Box::new(MemoryTransaction::begin(&self.database)))
    }

    fn revision(&self) -> Result<u64> {
        Ok(lock(&self.database.committed).revision)
    }
}

/// A panic elsewhere cannot leave a torn value: the value is replaced by one assignment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
