//! The trees in SQLite: their records, and the removal of items.

use escale::Result;
use escale::model::{Def, DefKind, Version};
use rusqlite::{Connection, Row, params};

use super::failed::failed;
use super::rows::{all, document_of, one};
use crate::provider::{Document, Place, Tree, Trimmed};

pub(super) fn tree(connection: &Connection, at: Place) -> Result<Option<Tree>> {
    let sql = "SELECT floor, v, n, horizon, items, tombstones, due FROM trees
               WHERE org = ?1 AND class = ?2 AND pk = ?3";
    one(connection, sql, params![at.org, at.class, at.pk], |row| tree_of(row, 0))
}

/// A tree from the seven columns that start at `first`.
fn tree_of(row: &Row, first: usize) -> rusqlite::Result<Tree> {
    Ok(Tree {
        floor: row.get(first)?,
        v: row.get(first + 1)?,
        n: row.get(first + 2)?,
        horizon: row.get(first + 3)?,
        items: row.get(first + 4)?,
        tombstones: row.get(first + 5)?,
        due: row.get(first + 6)?,
    })
}

pub(super) fn due(
    connection: &Connection,
    org: &str,
    after: (&str, &str),
    before: Version,
    limit: usize,
) -> Result<Vec<(String, String, Tree)>> {
    // The first condition is that of the index. The bound is `TOMBSTONES_MAX`.
    let sql = "SELECT class, pk, floor, v, n, horizon, items, tombstones, due FROM trees INDEXED BY trees_due
               WHERE (due > 0 OR tombstones > 1000) AND org = ?1 AND (class, pk) > (?2, ?3)
                 AND ((due > 0 AND due < ?4) OR tombstones > 1000)
               ORDER BY class, pk LIMIT ?5";
    all(connection, sql, params![org, after.0, after.1, before, limit as u64], |row| {
        Ok((row.get(0)?, row.get(1)?, tree_of(row, 2)?))
    })
}

pub(super) fn put(connection: &Connection, at: Place, tree: &Tree) -> Result<()> {
    let sql = "INSERT INTO trees (org, class, pk, floor, v, n, horizon, items, tombstones, due)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
               ON CONFLICT DO UPDATE SET floor = ?4, v = ?5, n = ?6, horizon = ?7, items = ?8, tombstones = ?9,
                 due = ?10";
    let Tree { floor, v, n, horizon, items, tombstones, due } = tree;
    let mut put = connection.prepare_cached(sql).map_err(failed)?;
    put.execute(params![at.org, at.class, at.pk, floor, v, n, horizon, items, tombstones, due])
        .map_err(failed)?;
    Ok(())
}

pub(super) fn remove(connection: &Connection, at: Place) -> Result<()> {
    let sql = "DELETE FROM trees WHERE org = ?1 AND class = ?2 AND pk = ?3";
    let mut remove = connection.prepare_cached(sql).map_err(failed)?;
    remove.execute(params![at.org, at.class, at.pk]).map_err(failed)?;
    Ok(())
}

/// The first documents of a collection that are below that version.
pub(super) fn below(
    connection: &Connection,
    (org, collection): (&str, &Def),
    below: Version,
    limit: usize,
) -> Result<Vec<(String, Document)>> {
    let DefKind::Collection(name, hash) = collection.kind() else { return Ok(Vec::new()) };
    let class = collection.class().as_str();
    let rows = all(
        connection,
        "SELECT m.pk, d.v, d.deleted, d.max_life, d.ttl, d.shown, d.data
         FROM memberships m INDEXED BY memberships_v
         JOIN documents d INDEXED BY documents_pk ON d.org = m.org AND d.class = m.class AND d.pk = m.pk
         WHERE m.org = ?1 AND m.class = ?2 AND m.collection = ?3 AND m.hash = ?4 AND m.v < ?5
         ORDER BY m.v, m.pk LIMIT ?6",
        params![org, class, name.as_str(), hash.as_str(), below, limit as u64],
        |row| {
            let pk: String = row.get(0)?;
            Ok(document_of(row, 1)?.map(|document| (pk, document)))
        },
    )?;
    rows.into_iter().collect()
}

/// See [`crate::provider::Transaction::trim_items`].
pub(super) fn trim(
    connection: &Connection,
    (org, collection): (&str, &Def),
    keep: u64,
    below: Version,
    limit: usize,
) -> Result<Trimmed> {
    let DefKind::Collection(name, hash) = collection.kind() else { return Ok(Trimmed::default()) };
    let (class, name, hash) = (collection.class().as_str(), name.as_str(), hash.as_str());
    let sql = "SELECT count(*) FROM memberships INDEXED BY memberships_v
               WHERE org = ?1 AND class = ?2 AND collection = ?3 AND hash = ?4 AND del = 2";
    let count = one(connection, sql, params![org, class, name, hash], |row| row.get::<_, u64>(0))?;
    let left = count.unwrap_or(0);
    let surplus = left.saturating_sub(keep).min(limit as u64);
    let sql = "SELECT pk, v FROM memberships INDEXED BY memberships_v
               WHERE org = ?1 AND class = ?2 AND collection = ?3 AND hash = ?4 AND del = 2 AND v < ?5
               ORDER BY v, pk LIMIT ?6";
    let old = all(connection, sql, params![org, class, name, hash, below, surplus], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, u64>(1)?))
    })?;
    let sql = "DELETE FROM memberships
               WHERE org = ?1 AND class = ?2 AND collection = ?3 AND hash = ?4 AND pk = ?5";
    let mut remove = connection.prepare_cached(sql).map_err(failed)?;
    for (pk, _) in &old {
        remove.execute(params![org, class, name, hash, pk]).map_err(failed)?;
    }
    let (removed, horizon) = (old.len() as u64, old.last().map_or(0, |(_, v)| v + 1));
    Ok(Trimmed { removed, horizon, left: left - removed })
}
