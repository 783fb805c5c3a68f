//! Snapshots, and the reads that they share with transactions.

use std::cell::RefCell;
use std::time::Duration;

use escale::model::{Def, DefKind, Version};
use escale::{Code, Error, Result};
use sha2::{Digest, Sha256};
use tokio_postgres::Row;

use super::connect::{Connection, Params};
use super::failed::damaged;
use super::heads::{self, signed, unsigned};
use super::pack::pack;
use super::pool::{Pool, Pooled};
use super::{operations, trees};
use crate::provider::{
    ActionSize, Change, ChangeState, Document, DocumentReads, Entry, FileReads, Head, Looked, Operation,
    Place, Server, Session, Site, Snapshot, Spent, Tree,
};

/// The reads of a transaction through its connection: of a snapshot, or of a write. Rolled back if dropped before the
/// end of a write.
pub(super) struct PostgresSnapshot<'p> {
    pub(super) connection: Pooled<'p>,
    /// The records that cannot change, as they were read at the beginning.
    known: RefCell<Option<Known>>,
    /// Whether a value across orgs is taken before it is looked at.
    takes_values: bool,
    pub(super) is_over: bool,
}

/// Records that nobody else can change until the transaction ends.
pub(super) struct Known {
    pub(super) site: Site,
    pub(super) server: Server,
    /// The org that is written, and its head.
    pub(super) head: Option<(String, Option<Head>)>,
}

impl<'p> PostgresSnapshot<'p> {
    pub(super) fn open(readers: &'p Pool, wait: Duration) -> Result<Self> {
        // The snapshot opens at the first query, not at `BEGIN`.
        let begin = |connection: &Connection| {
            connection.batch("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")?;
            heads::site(connection)
        };
        let (connection, (site, server)) = readers.take(wait, begin)?;
        Ok(Self::of(connection, Some(Known { site, server, head: None }), false))
    }

    /// The reads of a transaction that has begun.
    pub(super) fn of(connection: Pooled<'p>, known: Option<Known>, takes_values: bool) -> Self {
        PostgresSnapshot { connection, known: RefCell::new(known), takes_values, is_over: false }
    }

    /// Forgets the records that were read, because they have changed.
    pub(super) fn forget(&self) {
        self.known.take();
    }

    fn site_and_server(&self) -> Result<(Site, Server)> {
        match &*self.known.borrow() {
            Some(known) => Ok((known.site.clone(), known.server.clone())),
            None => heads::site(&self.connection),
        }
    }

    /// Takes a value across orgs until the transaction ends. It does not wait: two writes that wait for each
    /// other would never end. Maintenance runs alone, and takes none.
    pub(super) fn take_value(&self, at: Place, scope: &str, entry: &Entry) -> Result<()> {
        if !scope.is_empty() || !self.takes_values {
            return Ok(());
        }
        let mut hash = Sha256::new();
        for part in [at.class.as_bytes(), entry.index.as_bytes(), &pack(&entry.value)] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let key = i64::from_be_bytes(*hash.finalize()[..].first_chunk().expect("8 of 32 bytes"));
        let taken = self.connection.one("SELECT pg_try_advisory_xact_lock($1)", &[&key])?;
        if taken.is_some_and(|row| row.get(0)) {
            return Ok(());
        }
        Err(Error::new(Code::Contention, "a write of another org holds a value across orgs"))
    }
}

impl Drop for PostgresSnapshot<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        // Nobody needs the errors of statements that are given up.
        drop(self.connection.after_pending(std::future::ready(Ok(()))));
        if self.connection.batch("ROLLBACK").is_err() {
            self.connection.discard();
        }
    }
}

impl DocumentReads for PostgresSnapshot<'_> {
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
        changes(&self.connection, (org, def), after, gone_from, visit)
    }

    fn count(
        &self,
        org: &str,
        def: &Def,
        v: Version,
        gone_from: Version,
        minute: u64,
    ) -> Result<Looked<u64>> {
        count(&self.connection, (org, def), v, gone_from, minute)
    }

    fn members(&self, org: &str, def: &Def, v: Version, minute: u64) -> Result<Looked<Vec<String>>> {
        members(&self.connection, (org, def), v, minute)
    }

    fn tree(&self, at: Place) -> Result<Option<Tree>> {
        trees::tree(&self.connection, at)
    }

    fn is_held(&self, at: Place, scope: &str, entry: &Entry) -> Result<bool> {
        self.take_value(at, scope, entry)?;
        is_held(&self.connection, at, scope, entry)
    }
}

impl Snapshot for PostgresSnapshot<'_> {
    fn site(&self) -> Result<Site> {
        self.site_and_server().map(|(site, _)| site)
    }

    fn server(&self) -> Result<Option<Server>> {
        self.site_and_server().map(|(_, server)| Some(server))
    }

    fn head(&self, org: &str) -> Result<Option<Head>> {
        match &*self.known.borrow() {
            Some(Known { head: Some((of, head)), .. }) if of == org => Ok(head.clone()),
            _ => heads::head(&self.connection, org),
        }
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

    fn sessions(&self, org: &str, names: &[&str]) -> Result<std::collections::HashMap<String, Session>> {
        operations::sessions(&self.connection, org, names)
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
               WHERE org = $1 AND class = $2 AND pk = $3";
    let found = connection.one(sql, &[&at.org, &at.class, &at.pk])?;
    found.map(|row| document_of(&row, 0)).transpose()
}

/// The pk from that one on, or the first.
pub(super) fn neighbour(connection: &Connection, at: Place) -> Result<Option<String>> {
    let sql = "SELECT pk FROM documents WHERE org = $1 AND class = $2 AND pk >= $3 ORDER BY pk LIMIT 1";
    let find = |pk: &str| connection.one(sql, &[&at.org, &at.class, &pk]);
    Ok(find(at.pk)?.or(find("")?).map(|row| row.get(0)))
}

/// A document from the six columns that start at `first`.
pub(super) fn document_of(row: &Row, first: usize) -> Result<Document> {
    let shown = serde_json::from_str(row.get(first + 4)).map_err(|_| damaged("a document's columns"))?;
    Ok(Document {
        v: unsigned(row.get(first)),
        deleted: row.get(first + 1),
        max_life: row.get::<_, Option<i64>>(first + 2).map(unsigned),
        ttl: row.get::<_, Option<i64>>(first + 3).map(unsigned),
        shown,
        data: row.get(first + 5),
    })
}

/// The values of `memberships.del`.
pub(super) fn del_of(state: ChangeState) -> i16 {
    match state {
        ChangeState::Alive => 0,
        ChangeState::Left => 1,
        ChangeState::Deleted => 2,
    }
}

fn state_of(del: i16) -> Result<ChangeState> {
    match del {
        0 => Ok(ChangeState::Alive),
        1 => Ok(ChangeState::Left),
        2 => Ok(ChangeState::Deleted),
        _ => Err(damaged("a membership")),
    }
}

/// Rows of the first query for changes, and of any. A caller that stops early has cost few rows.
const ROWS: (i64, i64) = (16, 4_096);

/// Bytes of data in the rows of one query, about: as much as a page takes.
const ROWS_BYTES: usize = 256 << 10;

pub(super) fn changes(
    connection: &Connection,
    (org, def): (&str, &Def),
    (v, pk): (Version, &str),
    gone_from: Version,
    visit: &mut dyn FnMut(Change) -> Result<bool>,
) -> Result<u64> {
    let (mut v, mut pk, mut limit, mut looked) = (signed(v), pk.to_owned(), ROWS.0, 0);
    loop {
        let rows = page(connection, (org, def), (v, &pk), (signed(gone_from), limit))?;
        let mut bytes = 0;
        for row in &rows {
            looked += 1;
            let change = change_of(row)?;
            bytes += change.data.len();
            // Rows that are left out are looked at all the same. So they are left out here, where they can be counted.
            let is_left_out = change.state != ChangeState::Alive && change.v < gone_from;
            if !is_left_out && !visit(change)? {
                return Ok(looked);
            }
        }
        let Some(last) = rows.last().filter(|_| rows.len() as i64 == limit) else { return Ok(looked) };
        (pk, v) = (last.get(0), last.get(1));
        limit = if bytes < ROWS_BYTES { limit * 2 } else { limit / 2 }.clamp(1, ROWS.1);
    }
}

/// The first changes after that position.
fn page(
    connection: &Connection,
    (org, def): (&str, &Def),
    (v, pk): (i64, &str),
    (gone_from, limit): (i64, i64),
) -> Result<Vec<Row>> {
    let class = def.class().as_str();
    // Data is read of members and of tombstones that are not left out.
    match def.kind() {
        DefKind::Class => connection.rows(
            "SELECT pk, v, CASE WHEN deleted THEN 2::int2 ELSE 0::int2 END, max_life,
               CASE WHEN NOT deleted OR v >= $6 THEN data ELSE ''::bytea END
             FROM documents
             WHERE org = $1 AND class = $2 AND (v, pk) > ($3, $4)
             ORDER BY v, pk LIMIT $5",
            &[&org, &class, &v, &pk, &limit, &gone_from],
        ),
        DefKind::Document(only) => connection.rows(
            "SELECT pk, v, CASE WHEN deleted THEN 2::int2 ELSE 0::int2 END, max_life,
               CASE WHEN NOT deleted OR v >= $6 THEN data ELSE ''::bytea END
             FROM documents
             WHERE org = $1 AND class = $2 AND pk = $7 AND (v, pk) > ($3, $4)
             LIMIT $5",
            &[&org, &class, &v, &pk, &limit, &gone_from, &only.as_str()],
        ),
        DefKind::Collection(name, hash) => connection.rows(
            "SELECT m.pk, m.v, m.del, m.max_life, coalesce(d.data, ''::bytea)
             FROM memberships m LEFT JOIN documents d
               ON (m.del = 0 OR (m.del = 2 AND m.v >= $6)) AND d.org = m.org AND d.class = m.class AND d.pk = m.pk
             WHERE m.org = $1 AND m.class = $2 AND m.collection = $7 AND m.hash = $8
               AND (m.v, m.pk) > ($3, $4)
             ORDER BY m.v, m.pk LIMIT $5",
            &[&org, &class, &v, &pk, &limit, &gone_from, &name.as_str(), &hash.as_str()],
        ),
    }
}

fn change_of(row: &Row) -> Result<Change> {
    Ok(Change {
        pk: row.get(0),
        v: unsigned(row.get(1)),
        state: state_of(row.get(2))?,
        max_life: row.get::<_, Option<i64>>(3).map(unsigned),
        data: row.get(4),
    })
}

pub(super) fn count(
    connection: &Connection,
    (org, def): (&str, &Def),
    v: Version,
    gone_from: Version,
    minute: u64,
) -> Result<Looked<u64>> {
    let (class, v, gone_from, minute) = (def.class().as_str(), signed(v), signed(gone_from), signed(minute));
    let row = match def.kind() {
        DefKind::Class => connection.one(
            "SELECT count(*) FILTER
               (WHERE (NOT deleted AND (max_life IS NULL OR max_life > $5)) OR v >= $4), count(*)
             FROM documents WHERE org = $1 AND class = $2 AND v >= $3",
            &[&org, &class, &v, &gone_from, &minute],
        ),
        DefKind::Document(pk) => connection.one(
            "SELECT count(*) FILTER
               (WHERE (NOT deleted AND (max_life IS NULL OR max_life > $5)) OR v >= $4), count(*)
             FROM documents WHERE org = $1 AND class = $2 AND pk = $6 AND v >= $3",
            &[&org, &class, &v, &gone_from, &minute, &pk.as_str()],
        ),
        DefKind::Collection(name, hash) => connection.one(
            "SELECT count(*) FILTER
               (WHERE del <> 1 AND ((del = 0 AND (max_life IS NULL OR max_life > $5)) OR v >= $4)), count(*)
             FROM memberships WHERE org = $1 AND class = $2 AND collection = $6 AND hash = $7 AND v >= $3",
            &[&org, &class, &v, &gone_from, &minute, &name.as_str(), &hash.as_str()],
        ),
    }?;
    let looked = |row: Row| Looked { found: unsigned(row.get(0)), rows: unsigned(row.get(1)) };
    Ok(row.map_or(Looked { found: 0, rows: 0 }, looked))
}

pub(super) fn members(
    connection: &Connection,
    (org, def): (&str, &Def),
    v: Version,
    minute: u64,
) -> Result<Looked<Vec<String>>> {
    let (class, v, minute) = (def.class().as_str(), signed(v), signed(minute));
    let row = match def.kind() {
        DefKind::Class => connection.one(
            "SELECT array_agg(pk) FILTER (WHERE NOT deleted AND (max_life IS NULL OR max_life > $3)), count(*)
             FROM documents WHERE org = $1 AND class = $2 AND v >= $4",
            &[&org, &class, &minute, &v],
        ),
        DefKind::Document(pk) => connection.one(
            "SELECT array_agg(pk) FILTER (WHERE NOT deleted AND (max_life IS NULL OR max_life > $3)), count(*)
             FROM documents WHERE org = $1 AND class = $2 AND pk = $4 AND v >= $5",
            &[&org, &class, &minute, &pk.as_str(), &v],
        ),
        DefKind::Collection(name, hash) => connection.one(
            "SELECT array_agg(pk) FILTER (WHERE del = 0 AND (max_life IS NULL OR max_life > $3)), count(*)
             FROM memberships WHERE org = $1 AND class = $2 AND collection = $4 AND hash = $5 AND v >= $6",
            &[&org, &class, &minute, &name.as_str(), &hash.as_str(), &v],
        ),
    }?;
    let pks = |row: &Row| row.get::<_, Option<Vec<String>>>(0).unwrap_or_default();
    let looked = |row: Row| Looked { found: pks(&row), rows: unsigned(row.get(1)) };
    Ok(row.map_or(Looked { found: Vec::new(), rows: 0 }, looked))
}

/// Whether another document has the value, as the connection sees it now.
pub(super) fn is_held(connection: &Connection, at: Place, scope: &str, entry: &Entry) -> Result<bool> {
    let (index, value) = (entry.index.as_str(), pack(&entry.value));
    let (sql, params): (_, Params) = if scope.is_empty() {
        (
            "SELECT 1 FROM entries WHERE shared AND class = $1 AND name = $2 AND value = $3
               AND NOT (org = $4 AND pk = $5) LIMIT 1",
            &[&at.class, &index, &value, &at.org, &at.pk],
        )
    } else {
        (
            "SELECT 1 FROM entries WHERE NOT shared AND class = $1 AND name = $2 AND value = $3 AND org = $6
               AND NOT (org = $4 AND pk = $5) LIMIT 1",
            &[&at.class, &index, &value, &at.org, &at.pk, &scope],
        )
    };
    Ok(!connection.rows(sql, params)?.is_empty())
}
