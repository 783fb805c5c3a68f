//! Writing: a copy of the tables that replaces them at the commit.

use std::sync::Arc;

use escale::model::Version;
use escale::{Code, Error, Result};

use super::snapshot::Reads;
use super::tables::{LinkAtRest, OperationAtRest, Tables, document_key, entry_key, link_key};
use super::{MemoryDatabase, lock};
use crate::provider::spent::spent_key;
use crate::provider::{
    Action, ChangeState, Document, Entry, FeedRow, Link, Operation, Place, RewriteResult, RewriteState,
    Session, Spent, State, Transaction, Walked,
};

/// A write in progress. Dropped before its commit, it leaves no trace.
pub(super) struct MemoryTransaction<'d> {
    database: &'d MemoryDatabase,
    tables: Tables,
    saved: Option<Tables>,
}

impl<'d> MemoryTransaction<'d> {
    /// Begins. The caller has taken the turn.
    pub(super) fn begin(database: &'d MemoryDatabase) -> Self {
        MemoryTransaction { database, tables: database.tables(), saved: None }
    }
}

impl Drop for MemoryTransaction<'_> {
    fn drop(&mut self) {
        self.database.give_back();
    }
}

impl Reads for MemoryTransaction<'_> {
    fn tables(&self) -> &Tables {
        &self.tables
    }
}

impl Transaction for MemoryTransaction<'_> {
    fn put_document(&mut self, at: Place, document: &Document) -> Result<()> {
        let documents = Arc::make_mut(&mut self.tables.documents);
        documents.insert(document_key(at), Arc::new(document.clone()));
        Ok(())
    }

    fn remove_document(&mut self, at: Place) -> Result<()> {
        Arc::make_mut(&mut self.tables.documents).remove(&document_key(at));
        Ok(())
    }

    fn put_link(&mut self, at: Place, link: &Link) -> Result<()> {
        let rests = LinkAtRest { v: link.v, state: link.state, max_life: link.max_life };
        let key = link_key(at, link.collection, link.hash);
        Arc::make_mut(&mut self.tables.links).insert(key, rests);
        Ok(())
    }

    fn remove_link(&mut self, at: Place, collection: &str, hash: &str) -> Result<()> {
        Arc::make_mut(&mut self.tables.links).remove(&link_key(at, collection, hash));
        Ok(())
    }

    fn put_entry(&mut self, at: Place, scope: &str, entry: &Entry) -> Result<()> {
        Arc::make_mut(&mut self.tables.entries).insert(entry_key(at, scope, entry));
        Ok(())
    }

    fn remove_entry(&mut self, at: Place, scope: &str, entry: &Entry) -> Result<()> {
        Arc::make_mut(&mut self.tables.entries).remove(&entry_key(at, scope, entry));
        Ok(())
    }

    fn add_org(&mut self, org: &str) -> Result<()> {
        if !self.tables.orgs.contains(org) {
            Arc::make_mut(&mut self.tables.orgs).insert(org.into());
        }
        Ok(())
    }

    fn append_feed(&mut self, row: &FeedRow) -> Result<()> {
        let feed = Arc::make_mut(&mut self.tables.feed);
        let number = feed.keys().next_back().map_or(1, |last| last + 1);
        feed.insert(number, Arc::new(FeedRow { number, ..row.clone() }));
        Ok(())
    }

    fn put_state(&mut self, state: &State) -> Result<()> {
        self.tables.state = Arc::new(state.clone());
        Ok(())
    }

    fn purge(&mut self, now: u64, horizon: Version, limit: usize) -> Result<u64> {
        let due = |document: &Document| document.ttl.is_some_and(|ttl| ttl <= now) && document.v < horizon;
        let documents = self.tables.documents.iter().filter(|(_, document)| due(document));
        let gone: Vec<_> =
            documents.take(limit).map(|(key, document)| (key.clone(), document.clone())).collect();
        for ((org, class, pk), document) in &gone {
            let at = Place { org, class, pk };
            for (collection, hashes) in &document.shown.links {
                for hash in hashes {
                    self.remove_link(at, collection, hash)?;
                }
            }
            for entry in &document.shown.entries {
                self.remove_entry(at, org, entry)?;
                self.remove_entry(at, "", entry)?;
            }
            self.remove_document(at)?;
        }
        let has_left = |link: &LinkAtRest| link.state == ChangeState::Left && link.v < horizon;
        let links = self.tables.links.iter().filter(|(_, link)| has_left(link));
        let left: Vec<_> = links.take(limit).map(|(key, _)| key.clone()).collect();
        for key in &left {
            Arc::make_mut(&mut self.tables.links).remove(key);
        }
        Ok((gone.len() + left.len()) as u64)
    }

    fn walk(&mut self, after: Option<(String, String, String)>, limit: usize) -> Result<Vec<Walked>> {
        let (org, class, pk) = after.unwrap_or_default();
        let after = (org.into(), class.into(), pk.into());
        let next = self.tables.documents.iter().filter(|(key, _)| **key > after).take(limit);
        let walked = next.map(|((org, class, pk), document)| Walked {
            org: org.to_string(),
            class: class.to_string(),
            pk: pk.to_string(),
            document: document.as_ref().clone(),
        });
        Ok(walked.collect())
    }

    fn put_session(&mut self, org: &str, session: &str, to: &Session) -> Result<()> {
        Arc::make_mut(&mut self.tables.sessions).insert((org.into(), session.into()), to.clone());
        Ok(())
    }

    fn append_operation(&mut self, org: &str, account: &str, operation: &Operation) -> Result<()> {
        let by_id = (org.into(), account.into(), operation.id.as_str().into());
        let by_seq = (org.into(), operation.session.as_str().into(), operation.seq);
        if self.tables.by_id.contains_key(&by_id) || self.tables.by_seq.contains(&by_seq) {
            return Err(Error::new(Code::Internal, "an operation's id or number is used twice"));
        }
        self.tables.last_operation += 1;
        let number = self.tables.last_operation;
        Arc::make_mut(&mut self.tables.by_id).insert(by_id, number);
        Arc::make_mut(&mut self.tables.by_seq).insert(by_seq);
        let (org, account) = (org.into(), account.into());
        let rests = OperationAtRest { org, account, operation: operation.clone() };
        Arc::make_mut(&mut self.tables.operations).insert(number, Arc::new(rests));
        Ok(())
    }

    fn append_action(&mut self, action: &Action) -> Result<()> {
        Arc::make_mut(&mut self.tables.actions).push(Arc::new(action.clone()));
        Ok(())
    }

    fn savepoint(&mut self) -> Result<()> {
        self.saved = Some(self.tables.clone());
        Ok(())
    }

    fn undo(&mut self) -> Result<()> {
        let saved = self.saved.clone();
        self.tables = saved.ok_or_else(|| Error::new(Code::Internal, "there is no savepoint"))?;
        Ok(())
    }

    fn purge_operations(&mut self, before: u64, limit: usize) -> Result<u64> {
        let old = self.tables.operations.iter().filter(|(_, held)| held.operation.at < before);
        let old: Vec<_> = old.take(limit).map(|(number, held)| (*number, held.clone())).collect();
        for (number, held) in &old {
            let OperationAtRest { org, account, operation } = held.as_ref();
            let by_id = (org.clone(), account.clone(), operation.id.as_str().into());
            Arc::make_mut(&mut self.tables.by_id).remove(&by_id);
            let by_seq = (org.clone(), operation.session.as_str().into(), operation.seq);
            Arc::make_mut(&mut self.tables.by_seq).remove(&by_seq);
            Arc::make_mut(&mut self.tables.operations).remove(number);
            let key = spent_key(org, account, &operation.id);
            Arc::make_mut(&mut self.tables.spent).insert(key, Spent { v: operation.v });
        }
        Ok(old.len() as u64)
    }

    fn rewrite_actions(
        &mut self,
        (after, limit): (i64, usize),
        change: &RewriteState,
    ) -> Result<Option<i64>> {
        let actions = Arc::make_mut(&mut self.tables.actions);
        let numbered = actions.iter_mut().zip(1..).filter(|(action, n)| *n > after && action.state.is_some());
        let mut last = None;
        for (action, number) in numbered.take(limit) {
            last = Some(number);
            let state = action.state.clone().unwrap_or_default();
            if let Some(bytes) = change(&action.goblin, action.v, &state)? {
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
        let operations = Arc::make_mut(&mut self.tables.operations);
        let mut last = None;
        for (number, held) in operations.range_mut(after + 1..).take(limit) {
            last = Some(*number);
            if let Some(bytes) = change(&held.org, &held.account, &held.operation)? {
                let (org, account) = (held.org.clone(), held.account.clone());
                let operation = Operation { result: bytes, ..held.operation.clone() };
                *held = Arc::new(OperationAtRest { org, account, operation });
            }
        }
        Ok(last)
    }

    fn commit(self: Box<Self>) -> Result<()> {
        let mut committed = lock(&self.database.committed);
        committed.tables = self.tables.clone();
        committed.revision += 1;
        Ok(())
    }
}
