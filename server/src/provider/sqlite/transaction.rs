//! Writes: one immediate transaction at a time, over all processes and orgs.

use std::time::Duration;

use escale::Result;
use escale::model::{Def, Version};
use rusqlite::{Connection, Params, TransactionBehavior, params};

use super::connection::begin;
use super::failed::{damaged, failed};
use super::read::SqliteSnapshot;
use super::rows::{all, del_of, document_of};
use super::turn::Writer;
use super::{feed, heads, operations, trees};
use crate::provider::{
    Action, Document, Edit, Entry, EntryValue, FeedRow, FileEdits, Head, Link, Operation, Place, Purged,
    Removed, Session, Snapshot, Transaction, Tree, Trimmed,
};

/// A write transaction; rolled back if dropped before its commit.
pub(super) struct SqliteTransaction<'p> {
    reads: SqliteSnapshot<Writer<'p>>,
    /// The org that it writes; empty for maintenance.
    org: String,
    committed: bool,
}

impl<'p> SqliteTransaction<'p> {
    pub(super) fn begin(connection: Writer<'p>, org: &str, wait: Duration) -> Result<Self> {
        connection.busy_timeout(wait).map_err(failed)?;
        begin(&connection, TransactionBehavior::Immediate)?;
        let reads = SqliteSnapshot { connection };
        Ok(SqliteTransaction { reads, org: org.to_owned(), committed: false })
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.reads.connection
    }

    fn run(&self, sql: &str, params: impl Params) -> Result<usize> {
        let mut statement = self.connection().prepare_cached(sql).map_err(failed)?;
        statement.execute(params).map_err(failed)
    }

    /// Makes everything durable. Returns the number of commits of the file.
    pub(super) fn end(&mut self) -> Result<u64> {
        let commits = heads::count_commit(self.connection())?;
        self.run("COMMIT", [])?;
        self.committed = true;
        Ok(commits)
    }
}

impl Drop for SqliteTransaction<'_> {
    fn drop(&mut self) {
        if !self.committed {
            // This fails if SQLite has already rolled back by itself, and then there is nothing left to undo.
            drop(self.connection().execute_batch("ROLLBACK"));
        }
    }
}

impl Edit for SqliteTransaction<'_> {
    fn snapshot(&self) -> &dyn Snapshot {
        &self.reads
    }

    fn put_document(&mut self, at: Place, d: &Document) -> Result<()> {
        let shown = serde_json::to_string(&d.shown).map_err(|_| damaged("a document's columns"))?;
        self.run(
            "INSERT INTO documents (org, class, pk, v, deleted, max_life, ttl, shown, data)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
             ON CONFLICT (org, class, pk) DO UPDATE SET v = ?4, deleted = ?5, max_life = ?6, ttl = ?7,
               shown = ?8, data = ?9",
            params![at.org, at.class, at.pk, d.v, d.deleted, d.max_life, d.ttl, shown, d.data],
        )?;
        Ok(())
    }

    fn remove_document(&mut self, at: Place) -> Result<()> {
        let sql = "DELETE FROM documents WHERE org = ?1 AND class = ?2 AND pk = ?3";
        self.run(sql, params![at.org, at.class, at.pk])?;
        Ok(())
    }

    fn put_link(&mut self, at: Place, link: &Link) -> Result<()> {
        self.run(
            "INSERT INTO memberships (org, class, collection, hash, pk, v, del, max_life)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
             ON CONFLICT DO UPDATE SET v = ?6, del = ?7, max_life = ?8",
            params![
                at.org,
                at.class,
                link.collection,
                link.hash,
                at.pk,
                link.v,
                del_of(link.state),
                link.max_life
            ],
        )?;
        Ok(())
    }

    fn remove_link(&mut self, at: Place, collection: &str, hash: &str) -> Result<()> {
        self.run(
            "DELETE FROM memberships WHERE org = ?1 AND class = ?2 AND collection = ?3 AND hash = ?4 AND pk = ?5",
            params![at.org, at.class, collection, hash, at.pk],
        )?;
        Ok(())
    }

    fn put_entry(&mut self, at: Place, scope: &str, entry: &Entry) -> Result<()> {
        self.entry("INSERT OR REPLACE INTO entries (scope, class, name, value, org, pk) VALUES (?1, ?2, ?3, ?4, ?5, ?6)", at, scope, entry)
    }

    fn remove_entry(&mut self, at: Place, scope: &str, entry: &Entry) -> Result<()> {
        self.entry(
            "DELETE FROM entries WHERE scope = ?1 AND class = ?2 AND name = ?3 AND value = ?4 AND org = ?5
               AND pk = ?6",
            at,
            scope,
            entry,
        )
    }

    fn put_tree(&mut self, at: Place, tree: &Tree) -> Result<()> {
        trees::put(self.connection(), at, tree)
    }

    fn remove_tree(&mut self, at: Place) -> Result<()> {
        trees::remove(self.connection(), at)
    }

    fn edit_files(&mut self) -> &mut dyn FileEdits {
        self
    }
}

impl Transaction for SqliteTransaction<'_> {
    fn put_head(&mut self, head: &Head) -> Result<()> {
        heads::put_head(self.connection(), &self.org, head)
    }

    fn append_feed(&mut self, row: &FeedRow) -> Result<()> {
        feed::append(self.connection(), row)
    }

    fn purge(&mut self, now: u64, horizon: Version, limit: usize) -> Result<Purged> {
        let gone = all(
            self.connection(),
            "SELECT class, pk, v, deleted, max_life, ttl, shown, data FROM documents
             WHERE org = ?4 AND ttl <= ?1 AND v < ?2 LIMIT ?3",
            params![now, horizon, limit as u64, self.org],
            |row| {
                let (class, pk): (String, String) = (row.get(0)?, row.get(1)?);
                Ok(document_of(row, 2)?.map(|document| (class, pk, document)))
            },
        )?;
        let documents = gone.into_iter().collect::<Result<Vec<_>>>()?;
        let org = self.org.clone();
        for (class, pk, document) in &documents {
            self.remove_shown(Place { org: &org, class, pk }, document)?;
        }
        let departures = self.run(
            "DELETE FROM memberships WHERE (org, class, collection, hash, pk) IN
               (SELECT org, class, collection, hash, pk FROM memberships INDEXED BY memberships_left
                WHERE org = ?3 AND del = 1 AND v < ?1 LIMIT ?2)",
            params![horizon, limit as u64, self.org],
        )? as u64;
        Ok(Purged { documents, departures })
    }

    fn purge_items(&mut self, collection: &Def, below: Version, limit: usize) -> Result<Vec<String>> {
        let org = self.org.clone();
        let found = trees::below(self.connection(), (&org, collection), below, limit)?;
        for (pk, document) in &found {
            let at = Place { org: &org, class: collection.class().as_str(), pk };
            self.remove_shown(at, document)?;
        }
        Ok(found.into_iter().map(|(pk, _)| pk).collect())
    }

    fn trim_items(&mut self, collection: &Def, keep: u64, below: Version, limit: usize) -> Result<Trimmed> {
        trees::trim(self.connection(), (&self.org, collection), keep, below, limit)
    }

    fn put_session(&mut self, session: &str, to: &Session) -> Result<()> {
        operations::put_session(self.connection(), &self.org, session, to)
    }

    fn append_operation(&mut self, account: &str, operation: &Operation) -> Result<()> {
        operations::append_operation(self.connection(), &self.org, account, operation)
    }

    fn append_action(&mut self, action: &Action) -> Result<()> {
        operations::append_action(self.connection(), action)
    }

    fn savepoint(&mut self) -> Result<()> {
        self.run("SAVEPOINT operation", []).map(drop)
    }

    fn undo(&mut self) -> Result<()> {
        self.run("ROLLBACK TO operation", []).map(drop)
    }

    fn release(&mut self) -> Result<()> {
        self.run("RELEASE operation", []).map(drop)
    }

    fn purge_operations(&mut self, before: u64, limit: usize) -> Result<Removed> {
        operations::purge_operations(self.connection(), &self.org, before, limit)
    }

    fn remove_actions(&mut self, actor: &str, upto: i64, limit: usize) -> Result<Removed> {
        operations::remove_actions(self.connection(), actor, upto, limit)
    }

    fn commit(mut self: Box<Self>) -> Result<u64> {
        self.end()
    }
}

impl SqliteTransaction<'_> {
    fn entry(&self, sql: &str, at: Place, scope: &str, entry: &Entry) -> Result<()> {
        let index = entry.index.as_str();
        match &entry.value {
            EntryValue::Int(i) => self.run(sql, params![scope, at.class, index, i, at.org, at.pk]),
            EntryValue::Float(f) => self.run(sql, params![scope, at.class, index, f, at.org, at.pk]),
            EntryValue::Text(t) => self.run(sql, params![scope, at.class, index, t, at.org, at.pk]),
        }?;
        Ok(())
    }
}
