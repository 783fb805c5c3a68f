//! Connections: how they are opened, the check of the file's format, and those that are kept for the next snapshots.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use escale::{Code, Error, Result};
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::failed::failed;
use crate::lock::lock;

/// The layout of the tables. A newer one than this is refused.
pub(super) const FORMAT: i64 = 8;

/// `Escl`: distinguishes this file from any other SQLite database.
pub(super) const APPLICATION_ID: i64 = 0x4573_636c;

/// How long an ordinary statement waits for another process.
pub(super) const BUSY: Duration = Duration::from_secs(5);

/// Read connections kept open for the next snapshots.
pub(super) const IDLE_READERS_MAX: usize = 8;

/// The connections of snapshots.
pub(super) struct Readers {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    pub(super) fn of(path: &Path) -> Self {
        Readers { path: path.to_owned(), idle: Mutex::new(Vec::new()) }
    }

    pub(super) fn take(&self) -> Result<Connection> {
        match lock(&self.idle).pop() {
            Some(connection) => Ok(connection),
            None => connect(&self.path),
        }
    }

    pub(super) fn give_back(&self, connection: Connection) {
        let mut idle = lock(&self.idle);
        if idle.len() < IDLE_READERS_MAX {
            idle.push(connection);
        }
    }

    /// How many are kept.
    #[cfg(test)]
    pub(super) fn idle(&self) -> usize {
        lock(&self.idle).len()
    }
}

pub(super) fn connect(path: &Path) -> Result<Connection> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    connection.busy_timeout(BUSY).map_err(failed)?;
    connection.set_prepared_statement_cache_capacity(64);
    // Checked before the first pragma that could write.
    format_of(&connection)?;
    connection
        .execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA trusted_schema = OFF;
             PRAGMA cell_size_check = ON; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -16384;
             PRAGMA journal_size_limit = 67108864;",
        )
        .map_err(failed)?;
    Ok(connection)
}

/// The format of the file; `None` for a new one.
pub(super) fn format_of(connection: &Connection) -> Result<Option<i64>> {
    let pragma = |name: &str| -> Result<i64> {
        connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0)).map_err(failed)
    };
    let (id, format) = (pragma("application_id")?, pragma("user_version")?);
    match (id, format) {
        (0, 0) if pragma("schema_version")? == 0 => Ok(None),
        (APPLICATION_ID, format @ 1..=FORMAT) => Ok(Some(format)),
        (APPLICATION_ID, newer) => {
            Err(Error::new(Code::StoreTooNew, format!("the database is of format {newer}, {FORMAT} known")))
        }
        _ => Err(Error::new(Code::StorageFailed, "the database file belongs to another program")),
    }
}

/// A write transaction takes its lock at once, not at its first write: two writers can then never both read
/// and then conflict.
pub(super) fn begin(connection: &Connection, behavior: TransactionBehavior) -> Result<()> {
    let sql = match behavior {
        TransactionBehavior::Immediate => "BEGIN IMMEDIATE",
        _ => "BEGIN DEFERRED",
    };
    connection.prepare_cached(sql).and_then(|mut statement| statement.execute([])).map_err(failed)?;
    Ok(())
}
