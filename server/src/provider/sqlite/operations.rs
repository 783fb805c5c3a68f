//! Sessions, operations and the journal in SQLite.

use escale::Result;
use escale::model::Version;
use rusqlite::{Connection, Row, params};

use super::failed::failed;
use super::rows::{all, one};
use crate::provider::spent::spent_key;
use crate::provider::{Action, ActionSize, Operation, Removed, RewriteResult, RewriteState, Session, Spent};

pub(super) fn session(connection: &Connection, org: &str, session: &str) -> Result<Option<Session>> {
    let sql = "SELECT account, seq FROM sessions WHERE org = ?1 AND session = ?2";
    one(connection, sql, params![org, session], |row| Ok(Session { account: row.get(0)?, seq: row.get(1)? }))
}

pub(super) fn operation(
    connection: &Connection,
    org: &str,
    account: &str,
    id: &str,
) -> Result<Option<Operation>> {
    let sql = "SELECT session, seq, id, name, v, at, result FROM ops INDEXED BY ops_id
               WHERE org = ?1 AND account = ?2 AND id = ?3 AND result IS NOT NULL";
    one(connection, sql, params![org, account, id], |row| operation_of(row, 0))
}

pub(super) fn spent(connection: &Connection, org: &str, account: &str, id: &str) -> Result<Option<Spent>> {
    let sql = "SELECT v FROM spent WHERE key = ?1";
    one(connection, sql, params![spent_key(org, account, id)], |row| Ok(Spent { v: row.get(0)? }))
}

fn operation_of(row: &Row, first: usize) -> rusqlite::Result<Operation> {
    Ok(Operation {
        session: row.get(first)?,
        seq: row.get(first + 1)?,
        id: row.get(first + 2)?,
        name: row.get(first + 3)?,
        v: row.get(first + 4)?,
        at: row.get(first + 5)?,
        result: row.get(first + 6)?,
    })
}

fn run(connection: &Connection, sql: &str, params: impl rusqlite::Params) -> Result<u64> {
    let mut statement = connection.prepare_cached(sql).map_err(failed)?;
    statement.execute(params).map(|n| n as u64).map_err(failed)
}

pub(super) fn put_session(connection: &Connection, org: &str, session: &str, to: &Session) -> Result<()> {
    let sql = "INSERT INTO sessions (org, session, account, seq) VALUES (?1, ?2, ?3, ?4)
               ON CONFLICT DO UPDATE SET account = ?3, seq = ?4";
    run(connection, sql, params![org, session, to.account, to.seq]).map(drop)
}

pub(super) fn append_operation(
    connection: &Connection,
    org: &str,
    account: &str,
    o: &Operation,
) -> Result<()> {
    let sql = "INSERT INTO ops (org, account, session, seq, id, name, v, at, result)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    run(connection, sql, params![org, account, o.session, o.seq, o.id, o.name, o.v, o.at, o.result]).map(drop)
}

pub(super) fn append_action(connection: &Connection, a: &Action) -> Result<()> {
    let sql = "INSERT INTO actions (goblin, action, version, type, commitId, timestamp)
               VALUES (?1, ?2, ?3, ?6, ?4, ?5)";
    run(connection, sql, params![a.actor, a.state, a.v, a.commit, a.timestamp, a.kind.as_str()]).map(drop)
}

pub(super) fn purge_operations(
    connection: &Connection,
    org: &str,
    before: u64,
    limit: usize,
) -> Result<Removed> {
    let sql = "SELECT rowid, account, session, seq, id, name, v, at, result FROM ops INDEXED BY ops_at
               WHERE org = ?3 AND at < ?1 LIMIT ?2";
    let old = all(connection, sql, params![before, limit as u64, org], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, operation_of(row, 2)?))
    })?;
    for (number, account, operation) in &old {
        let key = spent_key(org, account, &operation.id);
        run(connection, "INSERT INTO spent (key, v) VALUES (?1, ?2)", params![key, operation.v])?;
        run(connection, "DELETE FROM ops WHERE rowid = ?1", params![number])?;
    }
    let bytes = old.iter().map(|(_, _, operation)| operation.bytes()).sum();
    Ok(Removed { rows: old.len() as u64, bytes })
}

/// The bytes of an entry of the journal, as [`Action::bytes`] counts them.
const ACTION_BYTES: &str = "length(CAST(goblin AS BLOB)) + coalesce(length(CAST(commitId AS BLOB)), 0)
    + coalesce(length(action), 0) + 64";

pub(super) fn actors(
    connection: &Connection,
    org: &str,
    after: &str,
    more_than: u64,
    limit: usize,
) -> Result<Vec<String>> {
    let (first, end) = (format!("{org}/"), format!("{org}0"));
    let after = if after > first.as_str() { after } else { &first };
    let sql = "SELECT goblin FROM actions INDEXED BY actions_goblin WHERE goblin > ?1 AND goblin < ?2
               GROUP BY goblin HAVING count(*) > ?3 ORDER BY goblin LIMIT ?4";
    all(connection, sql, params![after, end, more_than, limit as u64], |row| row.get(0))
}

pub(super) fn actions_of(
    connection: &Connection,
    actor: &str,
    below: i64,
    limit: usize,
) -> Result<Vec<ActionSize>> {
    let sql = format!(
        "SELECT rowid, type = 'persist', {ACTION_BYTES} FROM actions WHERE goblin = ?1 AND rowid < ?2
         ORDER BY rowid DESC LIMIT ?3"
    );
    all(connection, &sql, params![actor, below, limit as u64], |row| {
        Ok(ActionSize { number: row.get(0)?, is_whole: row.get(1)?, bytes: row.get(2)? })
    })
}

pub(super) fn remove_actions(
    connection: &Connection,
    actor: &str,
    upto: i64,
    limit: usize,
) -> Result<Removed> {
    let sql = format!(
        "DELETE FROM actions WHERE rowid IN
           (SELECT rowid FROM actions WHERE goblin = ?1 AND rowid <= ?2 ORDER BY rowid LIMIT ?3)
         RETURNING {ACTION_BYTES}"
    );
    let gone = all(connection, &sql, params![actor, upto, limit as u64], |row| row.get::<_, u64>(0))?;
    Ok(Removed { rows: gone.len() as u64, bytes: gone.iter().sum() })
}

/// Replaces the bytes of the rows after `number` that `select` lists (a number, then other columns), one by
/// one. `change` computes the new bytes. Returns the last number seen.
fn rewrite<T>(
    connection: &Connection,
    select: &str,
    update: &str,
    (after, limit): (i64, usize),
    read: impl Fn(&Row) -> rusqlite::Result<T>,
    change: impl Fn(T) -> Result<Option<Vec<u8>>>,
) -> Result<Option<i64>> {
    let found =
        all(connection, select, params![after, limit as u64], |row| Ok((row.get::<_, i64>(0)?, read(row)?)))?;
    let mut last = None;
    for (number, value) in found {
        last = Some(number);
        if let Some(bytes) = change(value)? {
            run(connection, update, params![number, bytes])?;
        }
    }
    Ok(last)
}

pub(super) fn rewrite_actions(
    connection: &Connection,
    from: (i64, usize),
    change: &RewriteState,
) -> Result<Option<i64>> {
    rewrite(
        connection,
        "SELECT rowid, goblin, version, action FROM actions WHERE rowid > ?1 AND action IS NOT NULL
         ORDER BY rowid LIMIT ?2",
        "UPDATE actions SET action = ?2 WHERE rowid = ?1",
        from,
        |row| Ok((row.get::<_, String>(1)?, row.get::<_, Version>(2)?, row.get::<_, Vec<u8>>(3)?)),
        |(actor, v, bytes)| change(&actor, v, &bytes),
    )
}

pub(super) fn rewrite_results(
    connection: &Connection,
    from: (i64, usize),
    change: &RewriteResult,
) -> Result<Option<i64>> {
    rewrite(
        connection,
        "SELECT rowid, org, account, session, seq, id, name, v, at, result FROM ops
         WHERE rowid > ?1 AND result IS NOT NULL ORDER BY rowid LIMIT ?2",
        "UPDATE ops SET result = ?2 WHERE rowid = ?1",
        from,
        |row| Ok((row.get::<_, String>(1)?, row.get::<_, String>(2)?, operation_of(row, 3)?)),
        |(org, account, operation)| change(&org, &account, &operation),
    )
}
