//! Copies of the file as one snapshot, for backups.

use std::path::Path;

use escale::{Code, Error, Result};
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::connection::{BUSY, format_of};
use super::failed::failed;

/// Writes the database at `from` to the new file `to`, without the log that SQLite keeps next to it. Others may read and
/// write meanwhile. Errors: `storage_failed` for a damaged file or one of another program, `store_too_new`.
pub fn copy_database(from: &Path, to: &Path) -> Result<()> {
    let connection = connect(from)?;
    if format_of(&connection)?.is_none() {
        return Err(Error::new(Code::StorageFailed, format!("{} is empty", from.display())));
    }
    let to = to.to_str().ok_or_else(|| Error::new(Code::BadOption, "the name of a copy is no text"))?;
    connection.execute("VACUUM INTO ?1", [to]).map_err(failed)?;
    let copy = connect(Path::new(to))?;
    let found: String = copy.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).map_err(failed)?;
    if found == "ok" {
        Ok(())
    } else {
        Err(Error::new(Code::StorageFailed, format!("the copy is damaged: {found}")))
    }
}

/// Whether another process has the database open. A file that is too damaged to be read counts as not in use: it is the
/// reason for a restoration.
pub fn is_in_use(path: &Path) -> Result<bool> {
    let connection = connect(path)?;
    connection.busy_timeout(std::time::Duration::ZERO).map_err(failed)?;
    // In this mode the first read takes the lock that every other connection to a log holds.
    let taken = connection.execute_batch(
        "PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; SELECT count(*) FROM sqlite_schema; ROLLBACK;",
    );
    match taken.map_err(|error| (error.sqlite_error_code(), error)) {
        Ok(()) | Err((Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt), _)) => Ok(false),
        Err((Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked), _)) => Ok(true),
        Err((_, error)) => Err(failed(error)),
    }
}

fn connect(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    connection.busy_timeout(BUSY).map_err(failed)?;
    Ok(connection)
}
