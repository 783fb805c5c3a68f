//! Sessions, operations and the journal.

use std::collections::HashMap;

use escale::{Code, Error, Result};
use tokio_postgres::Row;

use super::connect::{Connection, Params};
use super::failed::damaged;
use super::heads::{signed, unsigned};
use crate::provider::spent::spent_key;
use crate::provider::{Action, ActionSize, Operation, Removed, RewriteResult, RewriteState, Session, Spent};

pub(super) fn session(connection: &Connection, org: &str, session: &str) -> Result<Option<Session>> {
    let sql = "SELECT account, seq FROM sessions WHERE org = $1 AND session = $2";
    let found = connection.one(sql, &[&org, &session.as_bytes()])?;
    found.map(|row| Ok(Session { account: text(&row, 0)?, seq: unsigned(row.get(1)) })).transpose()
}

/// One question for all of them: each one by itself would take a message to the database.
pub(super) fn sessions(
    connection: &Connection,
    org: &str,
    names: &[&str],
) -> Result<HashMap<String, Session>> {
    let sql = "SELECT account, seq, session FROM sessions WHERE org = $1 AND session = ANY ($2)";
    let names: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
    let mut found = HashMap::new();
    for row in connection.rows(sql, &[&org, &names])? {
        found.insert(text(&row, 2)?, Session { account: text(&row, 0)?, seq: unsigned(row.get(1)) });
    }
    Ok(found)
}

pub(super) fn operation(
    connection: &Connection,
    org: &str,
    account: &str,
    id: &str,
) -> Result<Option<Operation>> {
    let sql = "SELECT session, seq, id, name, v, at, result FROM ops WHERE key = $1";
    let found = connection.one(sql, &[&spent_key(org, account, id).as_slice()])?;
    found.map(|row| operation_of(&row, 0)).transpose()
}

pub(super) fn spent(connection: &Connection, org: &str, account: &str, id: &str) -> Result<Option<Spent>> {
    let found =
        connection.one("SELECT v FROM spent WHERE key = $1", &[&spent_key(org, account, id).as_slice()])?;
    Ok(found.map(|row| Spent { v: row.get::<_, Option<i64>>(0).map(unsigned) }))
}

/// An operation from the seven columns that start at `first`.
fn operation_of(row: &Row, first: usize) -> Result<Operation> {
    Ok(Operation {
        session: text(row, first)?,
        seq: unsigned(row.get(first + 1)),
        id: text(row, first + 2)?,
        name: row.get(first + 3),
        v: row.get::<_, Option<i64>>(first + 4).map(unsigned),
        at: unsigned(row.get(first + 5)),
        result: row.get(first + 6),
    })
}

/// A text that is stored as bytes.
fn text(row: &Row, column: usize) -> Result<String> {
    String::from_utf8(row.get(column)).map_err(|_| damaged("a text"))
}

pub(super) fn put_session(connection: &Connection, org: &str, session: &str, to: &Session) -> Result<()> {
    connection.send(
        "INSERT INTO sessions (org, session, account, seq) VALUES ($1, $2, $3, $4)
         ON CONFLICT (org, session) DO UPDATE SET account = $3, seq = $4",
        &[&org, &session.as_bytes(), &to.account.as_bytes(), &signed(to.seq)],
    )
}

pub(super) fn append_operation(
    connection: &Connection,
    org: &str,
    account: &str,
    o: &Operation,
) -> Result<()> {
    // An error would end the transaction, so a conflict adds no row and is noticed by that.
    let added = connection.run(
        "INSERT INTO ops (key, org, account, session, seq, id, name, v, at, result)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING",
        &[
            &spent_key(org, account, &o.id).as_slice(),
            &org,
            &account.as_bytes(),
            &o.session.as_bytes(),
            &signed(o.seq),
            &o.id.as_bytes(),
            &o.name,
            &o.v.map(signed),
            &signed(o.at),
            &o.result,
        ],
    )?;
    if added == 1 {
        return Ok(());
    }
    Err(Error::new(Code::Internal, "an operation's id or number is used twice"))
}

pub(super) fn append_action(connection: &Connection, a: &Action) -> Result<()> {
    connection.send(
        "INSERT INTO actions (goblin, action, version, type, commit_id, timestamp)
         VALUES ($1, $2, $3, $6, $4, $5)",
        &[&a.actor, &a.state, &signed(a.v), &a.commit.as_bytes(), &a.timestamp, &a.kind.as_str()],
    )
}

pub(super) fn purge_operations(
    connection: &Connection,
    org: &str,
    before: u64,
    limit: usize,
) -> Result<Removed> {
    removed(connection.one(
        "WITH gone AS (
           DELETE FROM ops WHERE number IN
             (SELECT number FROM ops WHERE org = $1 AND at < $2 ORDER BY at LIMIT $3)
           RETURNING key, v, octet_length(session) + octet_length(id) + octet_length(result) + 64 AS bytes),
         kept AS (INSERT INTO spent (key, v) SELECT key, v FROM gone)
         SELECT count(*), coalesce(sum(bytes), 0)::bigint FROM gone",
        &[&org, &signed(before), &(limit as i64)],
    )?)
}

/// A number of rows and their bytes.
fn removed(row: Option<Row>) -> Result<Removed> {
    let row = row.ok_or_else(|| damaged("no count"))?;
    Ok(Removed { rows: unsigned(row.get(0)), bytes: unsigned(row.get(1)) })
}

pub(super) fn actors(
    connection: &Connection,
    org: &str,
    after: &str,
    more_than: u64,
    limit: usize,
) -> Result<Vec<String>> {
    let (first, end) = (format!("{org}/"), format!("{org}0"));
    let after = if after > first.as_str() { after } else { &first };
    let sql = "SELECT goblin FROM actions WHERE goblin > $1 AND goblin < $2
               GROUP BY goblin HAVING count(*) > $3 ORDER BY goblin LIMIT $4";
    let rows = connection.rows(sql, &[&after, &end, &signed(more_than), &(limit as i64)])?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

pub(super) fn actions_of(
    connection: &Connection,
    actor: &str,
    below: i64,
    limit: usize,
) -> Result<Vec<ActionSize>> {
    let sql = "SELECT number, type = 'persist', (octet_length(goblin) + coalesce(octet_length(commit_id), 0)
                 + coalesce(octet_length(action), 0) + 64)::bigint
               FROM actions WHERE goblin = $1 AND number < $2 ORDER BY number DESC LIMIT $3";
    let rows = connection.rows(sql, &[&actor, &below, &(limit as i64)])?;
    let size =
        |row: &Row| ActionSize { number: row.get(0), is_whole: row.get(1), bytes: unsigned(row.get(2)) };
    Ok(rows.iter().map(size).collect())
}

pub(super) fn remove_actions(
    connection: &Connection,
    actor: &str,
    upto: i64,
    limit: usize,
) -> Result<Removed> {
    removed(connection.one(
        "WITH gone AS (
           DELETE FROM actions WHERE number IN
             (SELECT number FROM actions WHERE goblin = $1 AND number <= $2 ORDER BY number LIMIT $3)
           RETURNING octet_length(goblin) + coalesce(octet_length(commit_id), 0)
             + coalesce(octet_length(action), 0) + 64 AS bytes)
         SELECT count(*), coalesce(sum(bytes), 0)::bigint FROM gone",
        &[&actor, &upto, &(limit as i64)],
    )?)
}

/// Replaces the bytes of the rows after `number` that `select` lists, one by one. `change` computes the new
/// bytes from a row. Returns the last number seen.
fn rewrite(
    connection: &Connection,
    (select, update): (&'static str, &'static str),
    (after, limit): (i64, usize),
    change: impl Fn(&Row) -> Result<Option<Vec<u8>>>,
) -> Result<Option<i64>> {
    let params: Params = &[&after, &(limit as i64)];
    let mut last = None;
    for row in connection.rows(select, params)? {
        let number: i64 = row.get(0);
        last = Some(number);
        if let Some(bytes) = change(&row)? {
            connection.run(update, &[&number, &bytes])?;
        }
    }
    Ok(last)
}

pub(super) fn rewrite_actions(
    connection: &Connection,
    from: (i64, usize),
    change: &RewriteState,
) -> Result<Option<i64>> {
    let select =
        "SELECT number, goblin, version, action FROM actions WHERE number > $1 AND action IS NOT NULL
                  ORDER BY number LIMIT $2";
    let update = "UPDATE actions SET action = $2 WHERE number = $1";
    rewrite(connection, (select, update), from, |row| change(row.get(1), unsigned(row.get(2)), row.get(3)))
}

pub(super) fn rewrite_results(
    connection: &Connection,
    from: (i64, usize),
    change: &RewriteResult,
) -> Result<Option<i64>> {
    let select = "SELECT number, org, account, session, seq, id, name, v, at, result FROM ops
                  WHERE number > $1 ORDER BY number LIMIT $2";
    let update = "UPDATE ops SET result = $2 WHERE number = $1";
    rewrite(connection, (select, update), from, |row| {
        change(row.get(1), &text(row, 2)?, &operation_of(row, 3)?)
    })
}
