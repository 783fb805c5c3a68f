//! The changes of documents, their memberships and their indexes, and the other changes of a write.

use escale::model::{Def, Version};
use escale::{Code, Error, Result};

use super::connect::Params;
use super::failed::damaged;
use super::heads::{self, signed};
use super::pack::pack;
use super::read::{del_of, document_of};
use super::transaction::PostgresTransaction;
use super::{feed, operations, trees};
use crate::provider::{
    Action, Document, Edit, Entry, FeedRow, FileEdits, Head, Link, Operation, Place, Purged, Removed,
    Session, Snapshot, Transaction, Tree, Trimmed,
};

impl PostgresTransaction<'_> {
    fn send(&self, sql: &'static str, params: Params) -> Result<()> {
        self.connection().send(sql, params)
    }
}

impl Edit for PostgresTransaction<'_> {
    fn snapshot(&self) -> &dyn Snapshot {
        &self.reads
    }

    fn put_document(&mut self, at: Place, d: &Document) -> Result<()> {
        let shown = serde_json::to_string(&d.shown).map_err(|_| damaged("a document's columns"))?;
        self.send(
            "INSERT INTO documents (org, class, pk, v, deleted, max_life, ttl, shown, data)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
             ON CONFLICT (org, class, pk) DO UPDATE SET v = $4, deleted = $5, max_life = $6, ttl = $7,
               shown = $8, data = $9",
            &[
                &at.org,
                &at.class,
                &at.pk,
                &signed(d.v),
                &d.deleted,
                &d.max_life.map(signed),
                &d.ttl.map(signed),
                &shown,
                &d.data,
            ],
        )
    }

    fn remove_document(&mut self, at: Place) -> Result<()> {
        let sql = "DELETE FROM documents WHERE org = $1 AND class = $2 AND pk = $3";
        self.send(sql, &[&at.org, &at.class, &at.pk])
    }

    fn put_link(&mut self, at: Place, link: &Link) -> Result<()> {
        self.send(
            "INSERT INTO memberships (org, class, collection, hash, pk, v, del, max_life)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
             ON CONFLICT (org, class, collection, hash, pk) DO UPDATE SET v = $6, del = $7, max_life = $8",
            &[
                &at.org,
                &at.class,
                &link.collection,
                &link.hash,
                &at.pk,
                &signed(link.v),
                &del_of(link.state),
                &link.max_life.map(signed),
            ],
        )
    }

    fn remove_link(&mut self, at: Place, collection: &str, hash: &str) -> Result<()> {
        self.send(
            "DELETE FROM memberships WHERE org = $1 AND class = $2 AND collection = $3 AND hash = $4 AND pk = $5",
            &[&at.org, &at.class, &collection, &hash, &at.pk],
        )
    }

    fn put_entry(&mut self, at: Place, scope: &str, entry: &Entry) -> Result<()> {
        self.reads.take_value(at, scope, entry)?;
        self.send(
            "INSERT INTO entries (shared, class, name, value, org, pk) VALUES ($1, $2, $3, $4, $5, $6)
             ON CONFLICT DO NOTHING",
            &[&scope.is_empty(), &at.class, &entry.index.as_str(), &pack(&entry.value), &at.org, &at.pk],
        )
    }

    /// Takes no lock: until the commit, others find the value held.
    fn remove_entry(&mut self, at: Place, scope: &str, entry: &Entry) -> Result<()> {
        self.send(
            "DELETE FROM entries WHERE shared = $1 AND class = $2 AND name = $3 AND value = $4 AND org = $5
               AND pk = $6",
            &[&scope.is_empty(), &at.class, &entry.index.as_str(), &pack(&entry.value), &at.org, &at.pk],
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

impl Transaction for PostgresTransaction<'_> {
    fn put_head(&mut self, head: &Head) -> Result<()> {
        self.reads.forget();
        heads::put_head(self.connection(), &self.org, head)
    }

    fn append_feed(&mut self, row: &FeedRow) -> Result<()> {
        feed::append(self.connection(), row)
    }

    fn purge(&mut self, now: u64, horizon: Version, limit: usize) -> Result<Purged> {
        let rows = self.connection().rows(
            "SELECT class, pk, v, deleted, max_life, ttl, shown, data FROM documents
             WHERE org = $1 AND ttl <= $2 AND v < $3 LIMIT $4",
            &[&self.org, &signed(now), &signed(horizon), &(limit as i64)],
        )?;
        let org = self.org.clone();
        let mut documents = Vec::with_capacity(rows.len());
        for row in &rows {
            let (class, pk, document): (String, String, _) = (row.get(0), row.get(1), document_of(row, 2)?);
            self.remove_shown(Place { org: &org, class: &class, pk: &pk }, &document)?;
            documents.push((class, pk, document));
        }
        let departures = self.connection().run(
            "DELETE FROM memberships WHERE ctid = ANY (ARRAY
               (SELECT ctid FROM memberships WHERE org = $1 AND del = 1 AND v < $2 LIMIT $3))",
            &[&org, &signed(horizon), &(limit as i64)],
        )?;
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
        self.connection().send_batch("SAVEPOINT operation");
        self.has_savepoint = true;
        Ok(())
    }

    fn undo(&mut self) -> Result<()> {
        self.check_savepoint()?;
        self.reads.forget();
        self.connection().batch("ROLLBACK TO operation")
    }

    fn release(&mut self) -> Result<()> {
        self.check_savepoint()?;
        self.has_savepoint = false;
        self.connection().send_batch("RELEASE operation");
        Ok(())
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

impl PostgresTransaction<'_> {
    /// An error of the database would end the transaction.
    fn check_savepoint(&self) -> Result<()> {
        if self.has_savepoint {
            return Ok(());
        }
        Err(Error::new(Code::Internal, "there is no savepoint"))
    }
}
