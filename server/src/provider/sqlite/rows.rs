//! Statements that are prepared once, and the columns of rows as values.

use escale::Result;
use rusqlite::{Connection, OptionalExtension, Params, Row};

use super::failed::{damaged, failed};
use crate::provider::{ChangeState, Document};

pub(super) fn one<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnOnce(&Row) -> rusqlite::Result<T>,
) -> Result<Option<T>> {
    let mut statement = connection.prepare_cached(sql).map_err(failed)?;
    statement.query_row(params, read).optional().map_err(failed)
}

pub(super) fn all<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnMut(&Row) -> rusqlite::Result<T>,
) -> Result<Vec<T>> {
    let mut statement = connection.prepare_cached(sql).map_err(failed)?;
    let rows = statement.query_map(params, read).map_err(failed)?;
    rows.collect::<rusqlite::Result<Vec<T>>>().map_err(failed)
}

/// A document from the six columns that start at `first`.
pub(super) fn document_of(row: &Row, first: usize) -> rusqlite::Result<Result<Document>> {
    let shown: String = row.get(first + 4)?;
    let (v, deleted, max_life) = (row.get(first)?, row.get(first + 1)?, row.get(first + 2)?);
    let (ttl, data) = (row.get(first + 3)?, row.get(first + 5)?);
    Ok(serde_json::from_str(&shown).map_err(|_| damaged("a document's columns")).map(|shown| Document {
        v,
        deleted,
        max_life,
        ttl,
        shown,
        data,
    }))
}

/// The values of `memberships.del`.
pub(super) fn del_of(state: ChangeState) -> i64 {
    match state {
        ChangeState::Alive => 0,
        ChangeState::Left => 1,
        ChangeState::Deleted => 2,
    }
}

pub(super) fn state_of(del: i64) -> Result<ChangeState> {
    match del {
        0 => Ok(ChangeState::Alive),
        1 => Ok(ChangeState::Left),
        2 => Ok(ChangeState::Deleted),
        _ => Err(damaged("a membership")),
    }
}
