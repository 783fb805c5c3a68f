//! Maintenance: a copy of all tables that replaces them at the commit.

use std::sync::Arc;

use escale::Result;

use super::database::MemoryDatabase;
use super::snapshot::Reads;
use super::tables::{OperationAtRest, Tables, entry_key};
use crate::provider::{
    Document, Edit, Entry, FileEdits, Head, Link, Maintenance, Operation, Place, RewriteResult, RewriteState,
    Site, Snapshot, Tree, Walked,
};

/// Work in progress on the whole database. Dropped before its commit, it leaves no trace.
pub(super) struct MemoryMaintenance<'d> {
    database: &'d MemoryDatabase,
    tables: Tables,
}

impl<'d> MemoryMaintenance<'d> {
    /// Begins. The caller has taken the turn.
    pub(super) fn begin(database: &'d MemoryDatabase) -> Self {
        MemoryMaintenance { database, tables: database.tables() }
    }
}

impl Drop for MemoryMaintenance<'_> {
    fn drop(&mut self) {
        self.database.turns.give_back_all();
    }
}

impl Reads for MemoryMaintenance<'_> {
    fn tables(&self) -> &Tables {
        &self.tables
    }
}

impl Edit for MemoryMaintenance<'_> {
    fn snapshot(&self) -> &dyn Snapshot {
        self
    }

    fn put_document(&mut self, at: Place, document: &Document) -> Result<()> {
        self.tables.put_document(at, document);
        Ok(())
    }

    fn remove_document(&mut self, at: Place) -> Result<()> {
        self.tables.remove_document(at);
        Ok(())
    }

    fn put_link(&mut self, at: Place, link: &Link) -> Result<()> {
        self.tables.put_link(at, link);
        Ok(())
    }

    fn remove_link(&mut self, at: Place, collection: &str, hash: &str) -> Result<()> {
        self.tables.remove_link(at, collection, hash);
        Ok(())
    }

    fn put_entry(&mut self, at: Place, scope: &str, entry: &Entry) -> Result<()> {
        self.tables.set_entry(entry_key(at, scope, entry), true);
        Ok(())
    }

    fn remove_entry(&mut self, at: Place, scope: &str, entry: &Entry) -> Result<()> {
        self.tables.set_entry(entry_key(at, scope, entry), false);
        Ok(())
    }

    fn put_tree(&mut self, at: Place, tree: &Tree) -> Result<()> {
        self.tables.put_tree(at, tree);
        Ok(())
    }

    fn remove_tree(&mut self, at: Place) -> Result<()> {
        self.tables.remove_tree(at);
        Ok(())
    }

    fn edit_files(&mut self) -> &mut dyn FileEdits {
        &mut self.tables
    }
}

impl Maintenance for MemoryMaintenance<'_> {
    fn put_site(&mut self, site: &Site) -> Result<()> {
        let commits = self.tables.site.commits;
        self.tables.site = Arc::new(Site { commits, ..site.clone() });
        Ok(())
    }

    fn put_head(&mut self, org: &str, head: &Head) -> Result<()> {
        self.tables.org_mut(org).head = Some(head.clone());
        Ok(())
    }

    fn walk(&mut self, after: Option<(String, String, String)>, limit: usize) -> Result<Vec<Walked>> {
        let after = after.unwrap_or_default();
        let documents = self.tables.orgs.iter().flat_map(|(org, tables)| {
            tables.documents.iter().map(move |((class, pk), document)| (org, class, pk, document))
        });
        let next = documents.filter(|(org, class, pk, _)| {
            (org.as_str(), class.as_str(), pk.as_str()) > (&*after.0, &*after.1, &*after.2)
        });
        let walked = next.take(limit).map(|(org, class, pk, document)| Walked {
            org: org.to_string(),
            class: class.to_string(),
            pk: pk.to_string(),
            document: document.as_ref().clone(),
        });
        Ok(walked.collect())
    }

    fn rewrite_actions(
        &mut self,
        (after, limit): (i64, usize),
        change: &RewriteState,
    ) -> Result<Option<i64>> {
        let actions = Arc::make_mut(&mut self.tables.actions);
        let numbered = actions.range_mut(after + 1..).filter(|(_, action)| action.state.is_some());
        let mut last = None;
        for (number, action) in numbered.take(limit) {
            last = Some(*number);
            let state = action.state.clone().unwrap_or_default();
            if let Some(bytes) = change(&action.actor, action.v, &state)? {
                Arc::make_mut(action).state = Some(bytes);
            }
        }
        Ok(last)
    }

    fn rewrite_results(
        &mut self,
        (after, limit): (i64, usize),
        change: &RewriteResult,
    ) -> Result<Option<i64>> {
        let of_org = |(org, tables): (_, &Arc<super::tables::OrgTables>)| {
            let later = tables.operations.range(after + 1..).map(|(number, held)| (*number, held.clone()));
            later.map(|(number, held)| (number, smol_str::SmolStr::clone(org), held)).collect::<Vec<_>>()
        };
        let mut found: Vec<_> = self.tables.orgs.iter().flat_map(of_org).collect();
        found.sort_by_key(|(number, ..)| *number);
        found.truncate(limit);
        for (number, org, held) in &found {
            if let Some(bytes) = change(org, &held.account, &held.operation)? {
                let operation = Operation { result: bytes, ..held.operation.clone() };
                let rests = OperationAtRest { account: held.account.clone(), operation };
                let operations = &mut self.tables.org_mut(org).operations;
                Arc::make_mut(operations).insert(*number, Arc::new(rests));
            }
        }
        Ok(found.last().map(|(number, ..)| *number))
    }

    fn commit(self: Box<Self>) -> Result<u64> {
        let tables = self.tables.clone();
        Ok(self.database.commit(|committed| *committed = tables))
    }
}
