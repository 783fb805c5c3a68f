//! The provider on SQLite: one file, WAL, `synchronous=FULL`.

mod copy;
mod feed;
mod files;
mod heads;
mod maintenance;
mod open;
mod operations;
mod read;
#[cfg(test)]
mod reader_tests;
mod transaction;
mod trees;
mod turn;

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use escale::{Code, Error, Result};
use rusqlite::{Connection, ErrorCode, TransactionBehavior};

use super::{Changed, FeedRow, Maintenance, Provider, Seen, Snapshot, Transaction};
pub use copy::{copy_database, is_in_use};
use feed::Watcher;
pub use open::inspect;
use read::SqliteSnapshot;
use transaction::SqliteTransaction;
use turn::Turn;

/// Read connections kept open for the next snapshots.
const IDLE_READERS_MAX: usize = 8;

/// Documents in one SQLite file.
pub struct SqliteProvider {
    path: PathBuf,
    writer: Turn,
    readers: Mutex<Vec<Connection>>,
    watcher: Mutex<Watcher>,
}

impl SqliteProvider {
    fn reader(&self) -> Result<Connection> {
        match lock(&self.readers).pop() {
            Some(connection) => Ok(connection),
            None => open::connect(&self.path),
        }
    }

    fn give_back(&self, connection: Connection) {
        let mut readers = lock(&self.readers);
        if readers.len() < IDLE_READERS_MAX {
            readers.push(connection);
        }
    }
}

impl Provider for SqliteProvider {
    fn read(&self) -> Result<Box<dyn Snapshot + '_>> {
        Ok(Box::new(SqliteSnapshot::open(self)?))
    }

    /// SQLite has one lock for the whole file, so writes of different orgs wait for each other, too. The orgs take turns.
    fn write(&self, org: &str, wait: Duration) -> Result<Box<dyn Transaction + '_>> {
        Ok(Box::new(SqliteTransaction::begin(self.writer.take(org, wait)?, org, wait)?))
    }

    fn maintain(&self, wait: Duration) -> Result<Box<dyn Maintenance + '_>> {
        Ok(Box::new(SqliteTransaction::begin(self.writer.take("", wait)?, "", wait)?))
    }

    fn changed(&self, since: Option<&Seen>, visit: &mut dyn FnMut(FeedRow) -> Result<()>) -> Result<Changed> {
        lock(&self.watcher).look(since, visit)
    }

    /// From now on overwrites deleted data, and rewrites the file once.
    fn scrub(&self) -> Result<()> {
        let writer = self.writer.take("", open::BUSY)?;
        writer
            .execute_batch("PRAGMA secure_delete = ON; VACUUM; PRAGMA wal_checkpoint(TRUNCATE);")
            .map_err(failed)
    }
}

/// A panic elsewhere leaves a good connection: its guard has rolled the transaction back.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Converts the error of a statement, and separates contention from real failures.
fn failed(error: rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            Error::new(Code::Contention, "another write holds the database")
        }
        Some(ErrorCode::DiskFull) => Error::new(Code::StorageFull, "the server's disk is full"),
        Some(
            ErrorCode::DatabaseCorrupt
            | ErrorCode::NotADatabase
            | ErrorCode::SystemIoFailure
            | ErrorCode::CannotOpen
            | ErrorCode::PermissionDenied
            | ErrorCode::ReadOnly,
        ) => Error::new(Code::StorageFailed, error.to_string()),
        _ => Error::new(Code::Internal, error.to_string()),
    }
}

/// The error for a stored value that this code cannot have written.
fn damaged(what: &str) -> Error {
    Error::new(Code::StorageFailed, format!("the database holds {what} that cannot be read"))
}

/// A write transaction takes its lock at once, not at its first write: two writers can then never both read
/// and then conflict.
fn begin(connection: &Connection, behavior: TransactionBehavior) -> Result<()> {
    let sql = match behavior {
        TransactionBehavior::Immediate => "BEGIN IMMEDIATE",
        _ => "BEGIN DEFERRED",
    };
    connection.prepare_cached(sql).and_then(|mut statement| statement.execute([])).map_err(failed)?;
    Ok(())
}
