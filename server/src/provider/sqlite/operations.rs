//! Sessions, operations and the journal in SQLite.

use escale::Result;
use escale::model::Version;
use rusqlite::{Connection, Row, params};

use super::failed;
use super::read::{all, one};
use crate::provider::spent::spent_key;
use crate::provider::{Action, Operation, RewriteResult, RewriteState, Session, Spent};

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
               VALUES (?1, ?2, ?3, 'persist', ?4, ?5)";
    run(connection, sql, params![a.goblin, a.state, a.v, a.commit, a.timestamp]).map(drop)
}

pub(super) fn purge_operations(connection: &Connection, org: &str, before: u64, limit: usize) -> Result<u64> {
    let sql = "SELECT rowid, account, id, v FROM ops INDEXED BY ops_at WHERE org = ?3 AND at < ?1 LIMIT ?2";
    let old = all(connection, sql, params![before, limit as u64, org], |row| {
        let texts: [String; 2] = [row.get(1)?, row.get(2)?];
        Ok((row.get::<_, i64>(0)?, texts, row.get::<_, Option<Version>>(3)?))
    })?;
    for (number, [account, id], v) in &old {
        let key = spent_key(org, account, id);
        run(connection, "INSERT INTO spent (key, v) VALUES (?1, ?2)", params![key, v])?;
        run(connection, "DELETE FROM ops WHERE rowid = ?1", params![number])?;
    }
    Ok(old.len() as u64)
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
        |(goblin, v, bytes)| change(&goblin, v, &bytes),
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
