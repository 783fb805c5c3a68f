//! `escale-server sweep`: removes from journals (SQLite files with a table `actions`) the actions that a
//! retention rule no longer keeps. The rules are those of the device, [`escale::journal::ActorSweep`].
//!
//! The decision is made on one state of the file, for a dry run and a real run alike. It is noted row by row
//! in a temporary table, which SQLite keeps on the disk, because a journal may be larger than the memory.
//!
//! The rows are then removed in transactions of a bounded number of rows, so that a server on the same file
//! never waits long. They are removed from the oldest on. A rule's cut depends only on newer rows, so it
//! stays where it was while older rows disappear. If a sweep is interrupted at any point, the next one
//! completes it with the same result.
//!
//! A failure in one database does not affect the others.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use escale::journal::{ActionMeta, ActionType, ActorSweep, Protect, Retention};
use escale::{Code, Error, Result};
use rusqlite::{Connection, OpenFlags, Row, TransactionBehavior};

/// Removed rows above which the file is compacted.
pub const VACUUM_ROWS: u64 = 100_000;

/// Rows removed in one transaction. That takes some hundredths of a second, far less than a server's writes
/// wait.
pub const BATCH_ROWS: u32 = 5_000;

/// How long to wait for a server that writes to the same file.
const BUSY: Duration = Duration::from_secs(10);

/// The rule and the mode of a sweep.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The rule that selects the actions to keep.
    pub retention: Retention,
    /// Whether the journal is synchronised. If so, actions that are not accepted do not count, and stay.
    pub is_synchronised: bool,
    /// Whether to remove, or only to report.
    pub apply: bool,
    /// Rows removed in one transaction, at least one.
    pub batch_rows: u32,
}

/// A row that is removed, or would be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gone {
    /// Its number.
    pub rowid: i64,
    /// Its actor.
    pub actor: String,
    /// Its type.
    pub kind: String,
    /// Its time.
    pub timestamp: String,
}

/// The result of a sweep of one database, or of a dry run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// The number of rows removed.
    pub gone: u64,
    /// That number for each type.
    pub by_kind: BTreeMap<String, u64>,
    /// The number of rows before the sweep.
    pub rows: u64,
    /// Whether the file was compacted, or the error if that failed. The rows are removed in either case.
    pub compacted: Option<std::result::Result<(), String>>,
}

impl Sweep {
    /// Sweeps a database. It passes each removed row to `tell` once, by ascending number; in a real run,
    /// after the row is removed.
    ///
    /// Errors: `bad_option` for an invalid rule, before the database is opened. An error of `tell` ends the
    /// sweep; rows removed before it stay removed.
    pub fn run(&self, path: &Path, mut tell: impl FnMut(Gone) -> Result<()>) -> Result<Swept> {
        self.retention.check()?;
        let access =
            if self.apply { OpenFlags::SQLITE_OPEN_READ_WRITE } else { OpenFlags::SQLITE_OPEN_READ_ONLY };
        let mut connection = Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)
            .map_err(|e| Error::new(Code::BadOption, format!("cannot be opened: {e}")))?;
        connection.busy_timeout(BUSY).map_err(failed)?;
        check_table(&connection)?;
        if self.apply {
            connection.execute_batch("PRAGMA analysis_limit = 1000; ANALYZE;").map_err(failed)?;
        }
        connection
            .execute_batch("PRAGMA temp_store = FILE; CREATE TEMP TABLE going (rowid INTEGER PRIMARY KEY);")
            .map_err(failed)?;
        let mut swept = Swept::default();
        let decided_on = self.decide(&mut connection, &mut swept)?;
        let mut last = i64::MIN;
        while let Some(upto) = self.next_batch(&connection, last)? {
            let batch = if self.apply {
                remove(&mut connection, (last, upto), decided_on)?
            } else {
                rows(&connection, LIST, (last, upto))?
            };
            last = upto;
            for gone in batch {
                swept.gone += 1;
                *swept.by_kind.entry(gone.kind.clone()).or_default() += 1;
                tell(gone)?;
            }
        }
        if self.apply && swept.gone > VACUUM_ROWS {
            swept.compacted = Some(connection.execute_batch("VACUUM;").map_err(|e| e.to_string()));
        }
        Ok(swept)
    }

    /// Notes the rows to remove, as of one state of the database. Returns the layout number of that state.
    fn decide(&self, connection: &mut Connection, swept: &mut Swept) -> Result<i64> {
        let protect = if self.is_synchronised { Protect::UnacceptedPersists } else { Protect::Nothing };
        let tx = connection.transaction().map_err(failed)?;
        {
            // Actor by actor, each from its newest row on. An action without an actor belongs to no history,
            // and no rule removes it.
            let mut statement = tx
                .prepare(
                    "SELECT rowid, CAST(goblin AS TEXT), CAST(type AS TEXT), commitId IS NOT NULL,
                       CAST(timestamp AS TEXT)
                     FROM actions WHERE goblin IS NOT NULL ORDER BY goblin DESC, rowid DESC",
                )
                .map_err(failed)?;
            let mut note = tx.prepare("INSERT INTO temp.going VALUES (?1)").map_err(failed)?;
            let mut rows = statement.query([]).map_err(failed)?;
            let mut actor = (String::new(), ActorSweep::new(&self.retention, protect));
            while let Some(row) = rows.next().map_err(failed)? {
                let action = action_of(row).map_err(failed)?;
                swept.rows += 1;
                if swept.rows == 1 || actor.0 != action.actor {
                    actor = (action.actor.clone(), ActorSweep::new(&self.retention, protect));
                }
                if actor.1.goes(&action) {
                    note.execute([action.rowid]).map_err(failed)?;
                }
            }
        }
        let layout = layout(&tx)?;
        tx.commit().map_err(failed)?;
        Ok(layout)
    }

    /// The last row of the batch that follows `last`; none at the end.
    fn next_batch(&self, connection: &Connection, last: i64) -> Result<Option<i64>> {
        let sql = "SELECT max(rowid) FROM
                     (SELECT rowid FROM temp.going WHERE rowid > ?1 ORDER BY rowid LIMIT ?2)";
        connection.query_row(sql, (last, self.batch_rows.max(1)), |row| row.get(0)).map_err(failed)
    }
}

/// Removes the noted rows after the first number and up to the second. Returns those that still existed.
fn remove(connection: &mut Connection, between: (i64, i64), decided_on: i64) -> Result<Vec<Gone>> {
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    // Another program that compacts the file may renumber its rows.
    if layout(&tx)? != decided_on {
        let what = "another program rearranged the database: run again for what is left";
        return Err(Error::new(Code::Contention, what));
    }
    let mut batch = rows(&tx, REMOVE, between)?;
    tx.commit().map_err(failed)?;
    batch.sort_unstable_by_key(|gone| gone.rowid);
    Ok(batch)
}

fn rows(connection: &Connection, sql: &str, between: (i64, i64)) -> Result<Vec<Gone>> {
    let mut statement = connection.prepare_cached(sql).map_err(failed)?;
    let rows = statement.query_map(between, gone_of).map_err(failed)?;
    rows.map(|row| row.map_err(failed)).collect()
}

/// Sweeps each database, and passes each result or error to `ended`. Errors: `bad_option` for an invalid
/// rule, before any database is opened.
pub fn sweep_each(
    sweep: &Sweep,
    databases: &[PathBuf],
    mut tell: impl FnMut(&Path, Gone) -> Result<()>,
    mut ended: impl FnMut(&Path, Result<Swept>) -> Result<()>,
) -> Result<()> {
    sweep.retention.check()?;
    databases.iter().try_for_each(|path| {
        let swept = sweep.run(path, |gone| tell(path, gone));
        ended(path, swept)
    })
}

const LIST: &str =
    "SELECT rowid, CAST(goblin AS TEXT), CAST(type AS TEXT), CAST(timestamp AS TEXT) FROM actions
     WHERE rowid IN (SELECT rowid FROM temp.going WHERE rowid > ?1 AND rowid <= ?2) ORDER BY rowid";

const REMOVE: &str = "DELETE FROM actions
     WHERE rowid IN (SELECT rowid FROM temp.going WHERE rowid > ?1 AND rowid <= ?2)
     RETURNING rowid, CAST(goblin AS TEXT), CAST(type AS TEXT), CAST(timestamp AS TEXT)";

/// A number that changes whenever rows may have been renumbered.
fn layout(connection: &Connection) -> Result<i64> {
    connection.query_row("PRAGMA main.schema_version", [], |row| row.get(0)).map_err(failed)
}

fn gone_of(row: &Row) -> rusqlite::Result<Gone> {
    Ok(Gone { rowid: row.get(0)?, actor: row.get(1)?, kind: text(row, 2)?, timestamp: time(row, 3)? })
}

fn text(row: &Row, at: usize) -> rusqlite::Result<String> {
    Ok(row.get::<_, Option<String>>(at)?.unwrap_or_default())
}

/// A missing time counts as later than any other, so no date rule selects it.
fn time(row: &Row, at: usize) -> rusqlite::Result<String> {
    Ok(row.get::<_, Option<String>>(at)?.unwrap_or_else(|| "\u{7f}".into()))
}

/// The columns of a row that the planner needs.
fn action_of(row: &Row) -> rusqlite::Result<ActionMeta> {
    Ok(ActionMeta {
        rowid: row.get(0)?,
        actor: row.get(1)?,
        kind: ActionType::parse(&text(row, 2)?),
        accepted: row.get(3)?,
        timestamp: time(row, 4)?,
    })
}

/// Refuses a file that holds no journal.
fn check_table(connection: &Connection) -> Result<()> {
    let sql = "SELECT count(*) FROM pragma_table_info('actions') WHERE name IN ('goblin', 'type', 'commitId', 'timestamp')";
    let columns: u64 = connection
        .query_row(sql, [], |row| row.get(0))
        .map_err(|e| Error::new(Code::BadOption, format!("cannot be read: {e}")))?;
    if columns < 4 {
        let what = "not a journal: a table `actions` with goblin, type, commitId and timestamp is expected";
        return Err(Error::new(Code::BadOption, what));
    }
    Ok(())
}

fn failed(error: rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked) => {
            Error::new(Code::Contention, "another program writes to the database: try again")
        }
        Some(rusqlite::ErrorCode::DiskFull) => Error::new(Code::StorageFull, "the disk is full"),
        _ => Error::new(Code::StorageFailed, error.to_string()),
    }
}
