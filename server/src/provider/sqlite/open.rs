//! Opening the file: its format is checked before anything is written.

use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use escale::{Code, Error, Result};
use rusqlite::{Connection, OpenFlags};

use super::feed::Watcher;
use super::{SqliteProvider, Turn, failed, heads};
use crate::provider::{Head, Site};

/// The layout of the tables. A newer one than this is refused.
const FORMAT: i64 = 8;

/// `Escl`: distinguishes this file from any other SQLite database.
const APPLICATION_ID: i64 = 0x4573_636c;

/// The tables that each format added to the one before it.
const TABLES: [&str; FORMAT as usize] = [
    include_str!("tables.sql"),
    include_str!("operations.sql"),
    include_str!("spent.sql"),
    include_str!("heads.sql"),
    include_str!("trees.sql"),
    include_str!("files.sql"),
    include_str!("kept.sql"),
    include_str!("rows.sql"),
];

/// How long an ordinary statement waits for another process.
pub(super) const BUSY: Duration = Duration::from_secs(5);

impl SqliteProvider {
    /// Opens the file at `path`, or makes it with `first`. Errors: `store_too_new` for a file of
    /// a newer format, which is left untouched; `storage_failed` for a file of another kind.
    pub fn open(path: &Path, first: &Site) -> Result<Self> {
        let mut writer = connect(path)?;
        // Writes touch pages all over the indexes. A larger cache keeps these in memory, and rarer
        // checkpoints copy them from the log less often.
        writer
            .execute_batch("PRAGMA cache_size = -65536; PRAGMA wal_autocheckpoint = 16384;")
            .map_err(failed)?;
        make_tables(&mut writer, first)?;
        let watcher = Watcher::on(connect(path)?);
        Ok(SqliteProvider {
            path: path.to_owned(),
            writer: Turn::new(writer),
            readers: Mutex::new(Vec::new()),
            watcher: Mutex::new(watcher),
        })
    }
}

/// The state of the database at `path`, which must exist, and the head of that org. Writes nothing.
pub fn inspect(path: &Path, org: &str) -> Result<(Site, Option<Head>)> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let nothing = || Error::new(Code::NoStore, "no database here: import something first");
    let connection = Connection::open_with_flags(path, flags).map_err(|_| nothing())?;
    connection.busy_timeout(BUSY).map_err(failed)?;
    match format_of(&connection)? {
        None => Err(nothing()),
        Some(FORMAT) => Ok((heads::site(&connection)?, heads::head(&connection, org)?)),
        Some(older) => Err(Error::new(
            Code::StorageFailed,
            format!("the database is of format {older}: `serve` or `import` make format {FORMAT} of it"),
        )),
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

fn make_tables(writer: &mut Connection, first: &Site) -> Result<()> {
    let tx = writer.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).map_err(failed)?;
    let format = format_of(&tx)?;
    for tables in &TABLES[format.unwrap_or(0) as usize..] {
        tx.execute_batch(tables).map_err(failed)?;
    }
    if format.is_none() {
        heads::put_site(&tx, first)?;
        heads::count_commits_from(&tx, first.commits)?;
    }
    if format != Some(FORMAT) {
        tx.execute_batch(&format!(
            "PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {FORMAT};"
        ))
        .map_err(failed)?;
    }
    tx.commit().map_err(failed)
}
