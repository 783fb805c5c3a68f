//! The trees: their records, and the removal of items.

use escale::Result;
use escale::model::{Def, DefKind, Version};
use tokio_postgres::Row;

use super::connect::Connection;
use super::heads::{signed, unsigned};
use super::read::document_of;
use crate::provider::{Document, Place, Tree, Trimmed};

pub(super) fn tree(connection: &Connection, at: Place) -> Result<Option<Tree>> {
    let sql = "SELECT floor, v, n, horizon, items, tombstones, due FROM trees
               WHERE org = $1 AND class = $2 AND pk = $3";
    Ok(connection.one(sql, &[&at.org, &at.class, &at.pk])?.map(|row| tree_of(&row, 0)))
}

/// A tree from the seven columns that start at `first`.
fn tree_of(row: &Row, first: usize) -> Tree {
    let number = |place: usize| unsigned(row.get(first + place));
    Tree {
        floor: number(0),
        v: number(1),
        n: number(2),
        horizon: number(3),
        items: number(4),
        tombstones: number(5),
        due: number(6),
    }
}

pub(super) fn due(
    connection: &Connection,
    org: &str,
    after: (&str, &str),
    before: Version,
    limit: usize,
) -> Result<Vec<(String, String, Tree)>> {
    // The first condition is that of the index. The bound is `TOMBSTONES_MAX`.
    let rows = connection.rows(
        "SELECT class, pk, floor, v, n, horizon, items, tombstones, due FROM trees
         WHERE (due > 0 OR tombstones > 1000) AND org = $1 AND (class, pk) > ($2, $3)
           AND ((due > 0 AND due < $4) OR tombstones > 1000)
         ORDER BY class, pk LIMIT $5",
        &[&org, &after.0, &after.1, &signed(before), &(limit as i64)],
    )?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1), tree_of(row, 2))).collect())
}

pub(super) fn put(connection: &Connection, at: Place, tree: &Tree) -> Result<()> {
    connection.send(
        "INSERT INTO trees (org, class, pk, floor, v, n, horizon, items, tombstones, due)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
         ON CONFLICT (org, class, pk) DO UPDATE SET floor = $4, v = $5, n = $6, horizon = $7, items = $8,
           tombstones = $9, due = $10",
        &[
            &at.org,
            &at.class,
            &at.pk,
            &signed(tree.floor),
            &signed(tree.v),
            &signed(tree.n),
            &signed(tree.horizon),
            &signed(tree.items),
            &signed(tree.tombstones),
            &signed(tree.due),
        ],
    )
}

pub(super) fn remove(connection: &Connection, at: Place) -> Result<()> {
    let sql = "DELETE FROM trees WHERE org = $1 AND class = $2 AND pk = $3";
    connection.send(sql, &[&at.org, &at.class, &at.pk])
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
    let rows = connection.rows(
        "SELECT m.pk, d.v, d.deleted, d.max_life, d.ttl, d.shown, d.data
         FROM memberships m JOIN documents d ON d.org = m.org AND d.class = m.class AND d.pk = m.pk
         WHERE m.org = $1 AND m.class = $2 AND m.collection = $3 AND m.hash = $4 AND m.v < $5
         ORDER BY m.v, m.pk LIMIT $6",
        &[&org, &class, &name.as_str(), &hash.as_str(), &signed(below), &(limit as i64)],
    )?;
    rows.iter().map(|row| Ok((row.get(0), document_of(row, 1)?))).collect()
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
    let row = connection.one(
        "SELECT count(*) FROM memberships
         WHERE org = $1 AND class = $2 AND collection = $3 AND hash = $4 AND del = 2",
        &[&org, &class, &name, &hash],
    )?;
    let left = row.map_or(0, |row| unsigned(row.get(0)));
    let surplus = left.saturating_sub(keep).min(limit as u64);
    let row = connection.one(
        "WITH old AS (
           SELECT pk, v FROM memberships
           WHERE org = $1 AND class = $2 AND collection = $3 AND hash = $4 AND del = 2 AND v < $5
           ORDER BY v, pk LIMIT $6
         ), gone AS (
           DELETE FROM memberships m USING old
           WHERE m.org = $1 AND m.class = $2 AND m.collection = $3 AND m.hash = $4 AND m.pk = old.pk
         )
         SELECT count(*), max(v) FROM old",
        &[&org, &class, &name, &hash, &signed(below), &signed(surplus)],
    )?;
    let Some(row) = row else { return Ok(Trimmed { left, ..Trimmed::default() }) };
    let removed = unsigned(row.get(0));
    let horizon = row.get::<_, Option<i64>>(1).map_or(0, |v| unsigned(v) + 1);
    Ok(Trimmed { removed, horizon, left: left - removed })
}
