//! Snapshots: a read transaction on a separate connection.

use std::ops::Deref;

use escale::Result;
use escale::model::{Def, DefKind, Version};
use rusqlite::{Connection, Row, TransactionBehavior, params};

use super::connection::{Readers, begin};
use super::failed::failed;
use super::rows::{all, document_of, one, state_of};
use super::{heads, operations, trees};
use crate::provider::{
    ActionSize, Change, ChangeState, Document, DocumentReads, Entry, EntryValue, FileReads, Head, Looked,
    Operation, Place, Session, Site, Snapshot, Spent, Tree,
};

/// The reads of a transaction through its connection: of a snapshot, or of a write.
pub(super) struct SqliteSnapshot<C> {
    pub(super) connection: C,
}

/// A connection with a read transaction, which ends when dropped.
pub(super) struct Reader<'p> {
    readers: &'p Readers,
    connection: Option<Connection>,
}

impl<'p> SqliteSnapshot<Reader<'p>> {
    pub(super) fn open(readers: &'p Readers) -> Result<Self> {
        let connection = readers.take()?;
        begin(&connection, TransactionBehavior::Deferred)?;
        // SQLite opens the snapshot at the first read, not at `BEGIN`.
        connection
            .prepare_cached("SELECT count(*) FROM meta")
            .and_then(|mut statement| statement.query_row([], |_| Ok(())))
            .map_err(failed)?;
        Ok(SqliteSnapshot { connection: Reader { readers, connection: Some(connection) } })
    }
}

impl Deref for Reader<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection.as_ref().expect("held until dropped")
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take()
            && connection.execute_batch("ROLLBACK").is_ok()
        {
            self.readers.give_back(connection);
        }
    }
}

impl<C: Deref<Target = Connection>> DocumentReads for SqliteSnapshot<C> {
    fn document(&self, at: Place) -> Result<Option<Document>> {
        document(&self.connection, at)
    }

    fn neighbour(&self, at: Place) -> Result<Option<String>> {
        neighbour(&self.connection, at)
    }

    fn changes(
        &self,
        org: &str,
        def: &Def,
        after: (Version, &str),
        gone_from: Version,
        visit: &mut dyn FnMut(Change) -> Result<bool>,
    ) -> Result<u64> {
        changes(&self.connection, org, def, after, gone_from, visit)
    }

    fn count(
        &self,
        org: &str,
        def: &Def,
        v: Version,
        gone_from: Version,
        minute: u64,
    ) -> Result<Looked<u64>> {
        count(&self.connection, org, def, v, gone_from, minute)
    }

    fn members(&self, org: &str, def: &Def, v: Version, minute: u64) -> Result<Looked<Vec<String>>> {
        members(&self.connection, org, def, v, minute)
    }

    fn tree(&self, at: Place) -> Result<Option<Tree>> {
        trees::tree(&self.connection, at)
    }

    fn is_held(&self, at: Place, scope: &str, entry: &Entry) -> Result<bool> {
        is_held(&self.connection, at, scope, entry)
    }
}

impl<C: Deref<Target = Connection>> Snapshot for SqliteSnapshot<C> {
    fn site(&self) -> Result<Site> {
        heads::site(&self.connection)
    }

    fn head(&self, org: &str) -> Result<Option<Head>> {
        heads::head(&self.connection, org)
    }

    fn heads(&self, after: &str, limit: usize) -> Result<Vec<(String, Head)>> {
        heads::heads(&self.connection, after, limit)
    }

    fn due_trees(
        &self,
        org: &str,
        after: (&str, &str),
        before: Version,
        limit: usize,
    ) -> Result<Vec<(String, String, Tree)>> {
        trees::due(&self.connection, org, after, before, limit)
    }

    fn session(&self, org: &str, session: &str) -> Result<Option<Session>> {
        operations::session(&self.connection, org, session)
    }

    fn operation(&self, org: &str, account: &str, id: &str) -> Result<Option<Operation>> {
        operations::operation(&self.connection, org, account, id)
    }

    fn spent(&self, org: &str, account: &str, id: &str) -> Result<Option<Spent>> {
        operations::spent(&self.connection, org, account, id)
    }

    fn actors(&self, org: &str, after: &str, more_than: u64, limit: usize) -> Result<Vec<String>> {
        operations::actors(&self.connection, org, after, more_than, limit)
    }

    fn actions_of(&self, actor: &str, below: i64, limit: usize) -> Result<Vec<ActionSize>> {
        operations::actions_of(&self.connection, actor, below, limit)
    }

    fn files(&self) -> &dyn FileReads {
        &*self.connection
    }
}

pub(super) fn document(connection: &Connection, at: Place) -> Result<Option<Document>> {
    let sql = "SELECT v, deleted, max_life, ttl, shown, data FROM documents
               WHERE org = ?1 AND class = ?2 AND pk = ?3";
    let found = one(connection, sql, params![at.org, at.class, at.pk], |row| document_of(row, 0))?;
    found.transpose()
}

/// The pk from that one on, or the first.
pub(super) fn neighbour(connection: &Connection, at: Place) -> Result<Option<String>> {
    let sql = "SELECT pk FROM documents INDEXED BY documents_pk
               WHERE org = ?1 AND class = ?2 AND pk >= ?3 ORDER BY pk LIMIT 1";
    let find = |pk: &str| one(connection, sql, params![at.org, at.class, pk], |row| row.get(0));
    Ok(find(at.pk)?.or(find("")?))
}

pub(super) fn changes(
    connection: &Connection,
    org: &str,
    def: &Def,
    (v, pk): (Version, &str),
    gone_from: Version,
    visit: &mut dyn FnMut(Change) -> Result<bool>,
) -> Result<u64> {
    let class = def.class().as_str();
    // Data is read of members and of tombstones that are not left out. The planner walks the covering index and looks each of them up. Rows that are
    // left out are looked at all the same, so they are left out here, where they can be counted.
    let sql = match def.kind() {
        DefKind::Class => {
            "SELECT pk, v, deleted * 2, max_life, CASE WHEN deleted = 0 OR v >= ?5 THEN data ELSE x'' END
             FROM documents INDEXED BY documents_v
             WHERE org = ?1 AND class = ?2 AND (v, pk) > (?3, ?4)
             ORDER BY v, pk"
        }
        DefKind::Document(_) => {
            "SELECT pk, v, deleted * 2, max_life, CASE WHEN deleted = 0 OR v >= ?5 THEN data ELSE x'' END
             FROM documents INDEXED BY documents_pk
             WHERE org = ?1 AND class = ?2 AND pk = ?6 AND (v, pk) > (?3, ?4)"
        }
        DefKind::Collection(..) => {
            "SELECT m.pk, m.v, m.del, m.max_life, coalesce(d.data, x'')
             FROM memberships m INDEXED BY memberships_v
             LEFT JOIN documents d INDEXED BY documents_pk
               ON (m.del = 0 OR (m.del = 2 AND m.v >= ?5)) AND d.org = m.org AND d.class = m.class AND d.pk = m.pk
             WHERE m.org = ?1 AND m.class = ?2 AND m.collection = ?6 AND m.hash = ?7
               AND (m.v, m.pk) > (?3, ?4)
             ORDER BY m.v, m.pk"
        }
    };
    let mut statement = connection.prepare_cached(sql).map_err(failed)?;
    let mut rows = match def.kind() {
        DefKind::Class => statement.query(params![org, class, v, pk, gone_from]),
        DefKind::Document(only) => statement.query(params![org, class, v, pk, gone_from, only.as_str()]),
        DefKind::Collection(name, hash) => {
            statement.query(params![org, class, v, pk, gone_from, name.as_str(), hash.as_str()])
        }
    }
    .map_err(failed)?;
    let mut looked = 0;
    while let Some(row) = rows.next().map_err(failed)? {
        looked += 1;
        let (v, state) = (row.get::<_, u64>(1).map_err(failed)?, state_of(row.get(2).map_err(failed)?)?);
        let is_left_out = state != ChangeState::Alive && v < gone_from;
        if !is_left_out && !visit(change_of(row, v, state).map_err(failed)?)? {
            break;
        }
    }
    Ok(looked)
}

fn change_of(row: &Row, v: Version, state: ChangeState) -> rusqlite::Result<Change> {
    Ok(Change { pk: row.get(0)?, v, state, max_life: row.get(3)?, data: row.get(4)? })
}

pub(super) fn count(
    connection: &Connection,
    org: &str,
    def: &Def,
    v: Version,
    gone_from: Version,
    minute: u64,
) -> Result<Looked<u64>> {
    let class = def.class().as_str();
    let get = |row: &Row| Ok(Looked { found: row.get(0)?, rows: row.get(1)? });
    let counted = match def.kind() {
        DefKind::Class => one(
            connection,
            "SELECT count(*) FILTER
               (WHERE (deleted = 0 AND (max_life IS NULL OR max_life > ?5)) OR v >= ?4), count(*)
             FROM documents WHERE org = ?1 AND class = ?2 AND v >= ?3",
            params![org, class, v, gone_from, minute],
            get,
        ),
        DefKind::Document(pk) => one(
            connection,
            "SELECT count(*) FILTER
               (WHERE (deleted = 0 AND (max_life IS NULL OR max_life > ?5)) OR v >= ?4), count(*)
             FROM documents WHERE org = ?1 AND class = ?2 AND pk = ?6 AND v >= ?3",
            params![org, class, v, gone_from, minute, pk.as_str()],
            get,
        ),
        DefKind::Collection(name, hash) => one(
            connection,
            "SELECT count(*) FILTER
               (WHERE del <> 1 AND ((del = 0 AND (max_life IS NULL OR max_life > ?5)) OR v >= ?4)), count(*)
             FROM memberships WHERE org = ?1 AND class = ?2 AND collection = ?6 AND hash = ?7 AND v >= ?3",
            params![org, class, v, gone_from, minute, name.as_str(), hash.as_str()],
            get,
        ),
    }?;
    Ok(counted.unwrap_or(Looked { found: 0, rows: 0 }))
}

pub(super) fn members(
    connection: &Connection,
    org: &str,
    def: &Def,
    v: Version,
    minute: u64,
) -> Result<Looked<Vec<String>>> {
    let class = def.class().as_str();
    let lives = |row: &Row| row.get::<_, bool>(1)?.then(|| row.get(0)).transpose();
    let looked = match def.kind() {
        DefKind::Class => all(
            connection,
            "SELECT pk, deleted = 0 AND (max_life IS NULL OR max_life > ?3) FROM documents INDEXED BY documents_v
             WHERE org = ?1 AND class = ?2 AND v >= ?4",
            params![org, class, minute, v],
            lives,
        ),
        DefKind::Document(pk) => all(
            connection,
            "SELECT pk, deleted = 0 AND (max_life IS NULL OR max_life > ?3) FROM documents
             WHERE org = ?1 AND class = ?2 AND pk = ?4 AND v >= ?5",
            params![org, class, minute, pk.as_str(), v],
            lives,
        ),
        DefKind::Collection(name, hash) => all(
            connection,
            "SELECT pk, del = 0 AND (max_life IS NULL OR max_life > ?3)
             FROM memberships INDEXED BY memberships_v
             WHERE org = ?1 AND class = ?2 AND collection = ?4 AND hash = ?5 AND v >= ?6",
            params![org, class, minute, name.as_str(), hash.as_str(), v],
            lives,
        ),
    }?;
    let rows = looked.len() as u64;
    Ok(Looked { found: looked.into_iter().flatten().collect(), rows })
}

pub(super) fn is_held(connection: &Connection, at: Place, scope: &str, entry: &Entry) -> Result<bool> {
    let sql = "SELECT 1 FROM entries WHERE scope = ?1 AND class = ?2 AND name = ?3 AND value = ?4
                 AND NOT (org = ?5 AND pk = ?6)";
    let (class, index) = (at.class, entry.index.as_str());
    let found = match &entry.value {
        EntryValue::Int(i) => {
            one(connection, sql, params![scope, class, index, i, at.org, at.pk], |_| Ok(()))
        }
        EntryValue::Float(f) => {
            one(connection, sql, params![scope, class, index, f, at.org, at.pk], |_| Ok(()))
        }
        EntryValue::Text(t) => {
            one(connection, sql, params![scope, class, index, t, at.org, at.pk], |_| Ok(()))
        }
    };
    Ok(found?.is_some())
}
