//! The tables of the file: its format is checked before anything is written.

use std::path::Path;

use escale::{Code, Error, Result};
use rusqlite::{Connection, OpenFlags};

use super::connection::{APPLICATION_ID, BUSY, FORMAT, format_of};
use super::failed::failed;
use super::heads;
use crate::provider::{Head, Site};

/// The tables that each format added to the one before it.
const TABLES: [&str; FORMAT as usize] = [
    include_str!("sql/tables.sql"),
    include_str!("sql/operations.sql"),
    include_str!("sql/spent.sql"),
    include_str!("sql/heads.sql"),
    include_str!("sql/trees.sql"),
    include_str!("sql/files.sql"),
    include_str!("sql/kept.sql"),
    include_str!("sql/rows.sql"),
];

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

pub(super) fn make_tables(writer: &mut Connection, first: &Site) -> Result<()> {
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
