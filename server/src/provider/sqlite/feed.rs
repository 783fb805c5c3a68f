//! The feed of recent writes in SQLite. Writes come one after another, so the numbers of its rows ascend in
//! the order of the commits.

use std::collections::BTreeMap;

use escale::Result;
use rusqlite::{Connection, Row, params};

use super::failed::{damaged, failed};
use super::rows::{all, one};
use crate::provider::{Changed, FeedRow, Seen};

/// Rows of the feed that are kept: more than any server falls behind between two looks.
const ROWS_MAX: u64 = 50_000;

/// Rows read at once.
const LINES: u64 = 2_000;

/// The oldest and the newest number. SQLite finds either end at once, but if one query asks for both, it reads all rows.
const ENDS: &str =
    "SELECT coalesce((SELECT min(number) FROM feed), 0), coalesce((SELECT max(number) FROM feed), 0)";

/// The connection that looks at the feed. It never writes, so it notices the commits of this process like those
/// of others.
pub(super) struct Watcher {
    connection: Connection,
    /// The file's version at the last look, and the last number then.
    last: Option<(u64, u64)>,
}

impl Watcher {
    pub(super) fn on(connection: Connection) -> Self {
        Watcher { connection, last: None }
    }

    /// See [`crate::provider::Provider::changed`].
    pub(super) fn look(
        &mut self,
        since: Option<&Seen>,
        visit: &mut dyn FnMut(FeedRow) -> Result<()>,
    ) -> Result<Changed> {
        let since = since.map(Seen::number);
        // A commit after this is met now, and once more by the next look, which finds nothing then.
        let version =
            self.connection.query_row("PRAGMA data_version", [], |row| row.get(0)).map_err(failed)?;
        if since.is_some() && self.last == since.map(|number| (version, number)) {
            return Ok(Changed::at_number(since.unwrap_or(0), None, 0));
        }
        let snapshot = self.connection.unchecked_transaction().map_err(failed)?;
        let (oldest, newest) =
            one(&snapshot, ENDS, [], |row| Ok((row.get::<_, u64>(0)?, row.get::<_, u64>(1)?)))?
                .unwrap_or_default();
        let mut last = since.unwrap_or(newest);
        while last < newest {
            let sql = "SELECT number, org, class, pk, v, links FROM feed WHERE number > ?1 ORDER BY number LIMIT ?2";
            let rows = all(&snapshot, sql, params![last, LINES], row_of)?;
            let Some((number, ..)) = rows.last() else { break };
            last = *number;
            for (_, row, links) in rows {
                let links = serde_json::from_str(&links).map_err(|_| damaged("a line of the feed"))?;
                visit(FeedRow { links, ..row })?;
            }
        }
        drop(snapshot);
        self.last = Some((version, last));
        Ok(Changed::at_number(last, since, oldest))
    }
}

/// The number of a row, the row without its links, and these as they are stored.
fn row_of(row: &Row) -> rusqlite::Result<(u64, FeedRow, String)> {
    let (org, class, pk, v) = (row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?);
    Ok((row.get(0)?, FeedRow { org, class, pk, v, links: BTreeMap::new() }, row.get(5)?))
}

/// Appends a row, and removes the oldest ones.
pub(super) fn append(connection: &Connection, row: &FeedRow) -> Result<()> {
    let links = serde_json::to_string(&row.links).map_err(|_| damaged("a line of the feed"))?;
    let run = |sql: &str, params: &[&dyn rusqlite::ToSql]| {
        connection.prepare_cached(sql).and_then(|mut statement| statement.execute(params)).map_err(failed)
    };
    run(
        "INSERT INTO feed (org, class, pk, v, links) VALUES (?1, ?2, ?3, ?4, ?5)",
        &[&row.org, &row.class, &row.pk, &row.v, &links],
    )?;
    let number = connection.last_insert_rowid() as u64;
    run("DELETE FROM feed WHERE number <= ?1", &[&number.saturating_sub(ROWS_MAX)])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;

    /// R70.
    #[test]
    fn a_look_at_the_ends_of_the_feed_costs_the_same_for_any_length() {
        let connection = Connection::open_in_memory().unwrap();
        let table = "CREATE TABLE feed (number INTEGER PRIMARY KEY AUTOINCREMENT, org TEXT);";
        connection.execute_batch(table).unwrap();
        let mut look = connection.prepare(ENDS).unwrap();
        let mut steps_with = |rows: i64| {
            let fill = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
                        INSERT OR IGNORE INTO feed SELECT i, 'o' FROM n";
            connection.execute(fill, [rows]).unwrap();
            let ends: (i64, i64) = look.query_row([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
            assert_eq!(ends, (1, rows));
            look.reset_status(StatementStatus::VmStep)
        };
        assert_eq!(steps_with(10), steps_with(5_000));
    }
}
