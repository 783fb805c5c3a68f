//! `escale-server sweep`: removes from journals (SQLite files with a table `actions`) what a retention rule no longer
//! keeps. The rules are the device's own, [`escale::journal::plan`].
//!
//! What goes is decided from the same rows for a dry run and for a real one, which decides and removes in one
//! transaction. Each database's failure is its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use escale::journal::{ActionMeta, ActionType, Protect, Retention, plan};
use escale::{Code, Error, Result};
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

/// Rows removed above which the file is compacted.
pub const VACUUM_ROWS: u64 = 100_000;

/// How long to wait for a server that writes to the same file.
const BUSY: Duration = Duration::from_secs(10);

/// What to remove, and how.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// What to keep.
    pub retention: Retention,
    /// Whether the journal is synchronised: what is not accepted does not count, and stays.
    pub is_synchronised: bool,
    /// Whether to remove, or only to tell.
    pub apply: bool,
}

/// A row that goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gone {
    /// Its number.
    pub rowid: i64,
    /// Its actor.
    pub goblin: String,
    /// Its type.
    pub kind: String,
    /// Its time.
    pub timestamp: String,
}

/// What a sweep did to a database, or would do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// The rows that go, each once, by actor and number.
    pub gone: Vec<Gone>,
    /// How many of each type.
    pub by_kind: BTreeMap<String, u64>,
    /// How many rows there were.
    pub rows: u64,
    /// Whether the file was compacted; the error where it could not be. What was removed is removed all the same.
    pub compacted: Option<std::result::Result<(), String>>,
}

impl Sweep {
    /// Sweeps each database. Errors: `bad_option` for a rule that is none, before any database is opened; what
    /// befalls one database stands in its place.
    pub fn run(&self, databases: &[PathBuf]) -> Result<Vec<Result<Swept>>> {
        self.retention.check()?;
        Ok(databases.iter().map(|path| self.run_on(path)).collect())
    }

    fn run_on(&self, path: &Path) -> Result<Swept> {
        let access =
            if self.apply { OpenFlags::SQLITE_OPEN_READ_WRITE } else { OpenFlags::SQLITE_OPEN_READ_ONLY };
        let mut connection = Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)
            .map_err(|e| Error::new(Code::BadOption, format!("cannot be opened: {e}")))?;
        connection.busy_timeout(BUSY).map_err(failed)?;
        check_table(&connection)?;
        if !self.apply {
            // One read transaction: the rows are those of one moment.
            let tx = connection.transaction().map_err(failed)?;
            return self.decide(&tx);
        }
        connection.execute_batch("PRAGMA analysis_limit = 1000; ANALYZE;").map_err(failed)?;
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        let mut swept = self.decide(&tx)?;
        {
            let mut delete = tx.prepare("DELETE FROM actions WHERE rowid = ?1").map_err(failed)?;
            for gone in &swept.gone {
                delete.execute([gone.rowid]).map_err(failed)?;
            }
        }
        tx.commit().map_err(failed)?;
        if swept.gone.len() as u64 > VACUUM_ROWS {
            swept.compacted = Some(connection.execute_batch("VACUUM;").map_err(|e| e.to_string()));
        }
        Ok(swept)
    }

    /// What goes. Actor by actor, so that a journal larger than the memory can be swept.
    fn decide(&self, connection: &Connection) -> Result<Swept> {
        let mut swept = Swept::default();
        // An action without an actor belongs to no history: no rule removes it.
        let mut statement = connection
            .prepare(
                "SELECT rowid, CAST(goblin AS TEXT), CAST(type AS TEXT), commitId IS NOT NULL, CAST(timestamp AS TEXT)
                 FROM actions WHERE goblin IS NOT NULL ORDER BY goblin, rowid",
            )
            .map_err(failed)?;
        let mut rows = statement.query([]).map_err(failed)?;
        let mut actor: Vec<(ActionMeta, String)> = Vec::new();
        while let Some(row) = rows.next().map_err(failed)? {
            let (action, kind) = action_of(row).map_err(failed)?;
            if actor.last().is_some_and(|(last, _)| last.goblin != action.goblin) {
                self.decide_actor(&mut actor, &mut swept)?;
            }
            actor.push((action, kind));
        }
        self.decide_actor(&mut actor, &mut swept)?;
        Ok(swept)
    }

    fn decide_actor(&self, actor: &mut Vec<(ActionMeta, String)>, swept: &mut Swept) -> Result<()> {
        let protect = if self.is_synchronised { Protect::UnacceptedPersists } else { Protect::Nothing };
        let (actions, kinds): (Vec<ActionMeta>, Vec<String>) = actor.drain(..).unzip();
        let removed = plan(&actions, &self.retention, protect)?;
        swept.rows += actions.len() as u64;
        for (ActionMeta { rowid, goblin, timestamp, .. }, kind) in actions.into_iter().zip(kinds) {
            if removed.binary_search(&rowid).is_ok() {
                *swept.by_kind.entry(kind.clone()).or_default() += 1;
                swept.gone.push(Gone { rowid, goblin, kind, timestamp });
            }
        }
        Ok(())
    }
}

/// What the planner needs of a row, and its type as it is written. A time that is missing is never before any other,
/// as in SQL.
fn action_of(row: &rusqlite::Row) -> rusqlite::Result<(ActionMeta, String)> {
    let kind: String = row.get::<_, Option<String>>(2)?.unwrap_or_default();
    let timestamp = row.get::<_, Option<String>>(4)?.unwrap_or_else(|| "\u{7f}".into());
    let action = ActionMeta {
        rowid: row.get(0)?,
        goblin: row.get(1)?,
        kind: ActionType::parse(&kind),
        accepted: row.get(3)?,
        timestamp,
    };
    Ok((action, kind))
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
