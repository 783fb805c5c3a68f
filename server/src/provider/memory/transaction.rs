//! Writing: a copy of the org's tables that replaces them at the commit.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use escale::model::{Def, DefKind, Version};
use escale::{Code, Error, Result};
use smol_str::SmolStr;

use super::database::MemoryDatabase;
use super::snapshot::{Reads, same_value};
use super::tables::{EntryKey, LinkAtRest, OperationAtRest, OrgTables, Tables, entry_key};
use crate::lock::lock;
use crate::provider::spent::spent_key;
use crate::provider::{
    Action, ChangeState, Document, Edit, Entry, FeedRow, FileEdits, Head, Link, Operation, Place, Purged,
    Removed, Session, Snapshot, Spent, Transaction, Tree, Trimmed,
};

/// A write of one org in progress. Dropped before its commit, it leaves no trace.
pub(super) struct MemoryTransaction<'d> {
    database: &'d MemoryDatabase,
    org: SmolStr,
    /// All tables as they were at the beginning, those of the org with the changes so far.
    tables: Tables,
    outside: Outside,
    saved: Option<(Tables, Outside)>,
}

/// Changes of the tables that all orgs share. Another org may commit before this one does, so they are applied to the
/// tables as they are at the commit.
#[derive(Clone, Default)]
struct Outside {
    feed: Vec<FeedRow>,
    actions: Vec<Arc<Action>>,
    /// The numbers of actions that are removed.
    swept: Vec<i64>,
    /// Values of indexes across orgs, added (`true`) or removed.
    entries: Vec<(EntryKey, bool)>,
}

impl<'d> MemoryTransaction<'d> {
    /// Begins. The caller has taken the turn of the org.
    pub(super) fn begin(database: &'d MemoryDatabase, org: &str) -> Self {
        let (tables, outside) = (database.tables(), Outside::default());
        MemoryTransaction { database, org: org.into(), tables, outside, saved: None }
    }

    fn own(&mut self) -> &mut OrgTables {
        self.tables.org_mut(&self.org)
    }

    /// Another org's tables would be lost at the commit.
    fn check(&self, at: Place) -> Result<()> {
        if at.org == self.org {
            return Ok(());
        }
        Err(Error::new(Code::Internal, "a write of one org changes another"))
    }

    fn set_entry(&mut self, at: Place, scope: &str, entry: &Entry, is_there: bool) -> Result<()> {
        self.check(at)?;
        let key = entry_key(at, scope, entry);
        if scope.is_empty() {
            self.take_value(&key)?;
            self.outside.entries.push((key, is_there));
        } else {
            self.tables.set_entry(key, is_there);
        }
        Ok(())
    }

    fn take_value(&self, key: &EntryKey) -> Result<()> {
        let value = (key.0.clone(), key.1.clone(), key.2.clone(), key.3.clone(), "".into(), "".into());
        self.database.turns.take_value(value, &self.org)
    }
}

impl Drop for MemoryTransaction<'_> {
    fn drop(&mut self) {
        let looked = self.tables.looks.load(Ordering::SeqCst);
        self.database.most_looked.in_write.fetch_max(looked, Ordering::SeqCst);
        self.database.turns.give_back_org(&self.org);
    }
}

impl Reads for MemoryTransaction<'_> {
    fn tables(&self) -> &Tables {
        &self.tables
    }

    /// The present holders: nobody else changes them once the value is taken.
    fn across_orgs(&self, first: &EntryKey) -> Result<Vec<EntryKey>> {
        self.take_value(first)?;
        let committed = lock(&self.database.committed).shared.clone();
        let mut held: Vec<EntryKey> = same_value(committed.range(first..), first).cloned().collect();
        for (key, is_there) in &self.outside.entries {
            if same_value(std::iter::once(key), first).next().is_some() {
                held.retain(|other| other != key);
                held.extend(is_there.then(|| key.clone()));
            }
        }
        Ok(held)
    }
}

impl Edit for MemoryTransaction<'_> {
    fn snapshot(&self) -> &dyn Snapshot {
        self
    }

    fn put_document(&mut self, at: Place, document: &Document) -> Result<()> {
        self.check(at)?;
        self.tables.put_document(at, document);
        Ok(())
    }

    fn remove_document(&mut self, at: Place) -> Result<()> {
        self.check(at)?;
        self.tables.remove_document(at);
        Ok(())
    }

    fn put_link(&mut self, at: Place, link: &Link) -> Result<()> {
        self.check(at)?;
        self.tables.put_link(at, link);
        Ok(())
    }

    fn remove_link(&mut self, at: Place, collection: &str, hash: &str) -> Result<()> {
        self.check(at)?;
        self.tables.remove_link(at, collection, hash);
        Ok(())
    }

    fn put_entry(&mut self, at: Place, scope: &str, entry: &Entry) -> Result<()> {
        self.set_entry(at, scope, entry, true)
    }

    fn remove_entry(&mut self, at: Place, scope: &str, entry: &Entry) -> Result<()> {
        self.set_entry(at, scope, entry, false)
    }

    fn put_tree(&mut self, at: Place, tree: &Tree) -> Result<()> {
        self.check(at)?;
        self.tables.put_tree(at, tree);
        Ok(())
    }

    fn remove_tree(&mut self, at: Place) -> Result<()> {
        self.check(at)?;
        self.tables.remove_tree(at);
        Ok(())
    }

    fn edit_files(&mut self) -> &mut dyn FileEdits {
        &mut self.tables
    }
}

impl Transaction for MemoryTransaction<'_> {
    fn put_head(&mut self, head: &Head) -> Result<()> {
        self.own().head = Some(head.clone());
        Ok(())
    }

    fn append_feed(&mut self, row: &FeedRow) -> Result<()> {
        self.outside.feed.push(row.clone());
        Ok(())
    }

    fn purge(&mut self, now: u64, horizon: Version, limit: usize) -> Result<Purged> {
        let org = self.org.clone();
        let due = |document: &Document| document.ttl.is_some_and(|ttl| ttl <= now) && document.v < horizon;
        let documents = self.own().documents.clone();
        let gone: Vec<_> = documents.iter().filter(|(_, document)| due(document)).take(limit).collect();
        for ((class, pk), document) in &gone {
            let at = Place { org: &org, class, pk };
            self.remove_shown(at, document)?;
        }
        let has_left = |link: &LinkAtRest| link.state == ChangeState::Left && link.v < horizon;
        let links = self.own().links.clone();
        let left: Vec<_> = links.iter().filter(|(_, link)| has_left(link)).take(limit).collect();
        for (key, _) in &left {
            Arc::make_mut(&mut self.own().links).remove(key);
        }
        let named = |((class, pk), document): &(&(SmolStr, SmolStr), &Arc<Document>)| {
            (class.to_string(), pk.to_string(), Document::clone(document))
        };
        Ok(Purged { documents: gone.iter().map(named).collect(), departures: left.len() as u64 })
    }

    fn purge_items(&mut self, collection: &Def, below: Version, limit: usize) -> Result<Vec<String>> {
        let org = self.org.clone();
        let mut found = self.tables.of_def(&org, collection);
        found.retain(|found| found.v < below);
        found.sort_by(|a, b| (a.v, &a.pk).cmp(&(b.v, &b.pk)));
        found.truncate(limit);
        for item in &found {
            let at = Place { org: &org, class: collection.class().as_str(), pk: &item.pk };
            if let Some(document) = self.snapshot().document(at)? {
                self.remove_shown(at, &document)?;
            }
        }
        Ok(found.into_iter().map(|item| item.pk.into()).collect())
    }

    fn trim_items(&mut self, collection: &Def, keep: u64, below: Version, limit: usize) -> Result<Trimmed> {
        let org = self.org.clone();
        let mut found = self.tables.of_def(&org, collection);
        found.retain(|found| found.state == ChangeState::Deleted);
        found.sort_by(|a, b| (a.v, &a.pk).cmp(&(b.v, &b.pk)));
        let surplus = found.len().saturating_sub(keep as usize).min(limit);
        let old = found[..surplus].iter().take_while(|found| found.v < below);
        let mut trimmed = Trimmed { left: found.len() as u64, ..Trimmed::default() };
        let DefKind::Collection(name, hash) = collection.kind() else { return Ok(trimmed) };
        for item in old {
            let at = Place { org: &org, class: collection.class().as_str(), pk: &item.pk };
            self.tables.remove_link(at, name.as_str(), hash.as_str());
            let Trimmed { removed, left, .. } = trimmed;
            trimmed = Trimmed { removed: removed + 1, horizon: item.v + 1, left: left - 1 };
        }
        Ok(trimmed)
    }

    fn put_session(&mut self, session: &str, to: &Session) -> Result<()> {
        Arc::make_mut(&mut self.own().sessions).insert(session.into(), to.clone());
        Ok(())
    }

    fn append_operation(&mut self, account: &str, operation: &Operation) -> Result<()> {
        let number = self.database.next_operation();
        let own = self.own();
        let by_id = (account.into(), operation.id.as_str().into());
        let by_seq = (operation.session.as_str().into(), operation.seq);
        if own.by_id.contains_key(&by_id) || own.by_seq.contains(&by_seq) {
            return Err(Error::new(Code::Internal, "an operation's id or number is used twice"));
        }
        Arc::make_mut(&mut own.by_id).insert(by_id, number);
        Arc::make_mut(&mut own.by_seq).insert(by_seq);
        let rests = OperationAtRest { account: account.into(), operation: operation.clone() };
        Arc::make_mut(&mut own.operations).insert(number, Arc::new(rests));
        Ok(())
    }

    fn append_action(&mut self, action: &Action) -> Result<()> {
        self.outside.actions.push(Arc::new(action.clone()));
        Ok(())
    }

    fn savepoint(&mut self) -> Result<()> {
        self.saved = Some((self.tables.clone(), self.outside.clone()));
        Ok(())
    }

    fn undo(&mut self) -> Result<()> {
        let saved = self.saved.clone();
        (self.tables, self.outside) =
            saved.ok_or_else(|| Error::new(Code::Internal, "there is no savepoint"))?;
        Ok(())
    }

    fn release(&mut self) -> Result<()> {
        let saved = self.saved.take();
        saved.map(drop).ok_or_else(|| Error::new(Code::Internal, "there is no savepoint"))
    }

    fn purge_operations(&mut self, before: u64, limit: usize) -> Result<Removed> {
        let org = self.org.clone();
        let own = self.own();
        let old = own.operations.iter().filter(|(_, held)| held.operation.at < before);
        let old: Vec<_> = old.take(limit).map(|(number, held)| (*number, held.clone())).collect();
        for (number, held) in &old {
            let OperationAtRest { account, operation } = held.as_ref();
            let by_id = (account.clone(), operation.id.as_str().into());
            Arc::make_mut(&mut own.by_id).remove(&by_id);
            let by_seq = (operation.session.as_str().into(), operation.seq);
            Arc::make_mut(&mut own.by_seq).remove(&by_seq);
            Arc::make_mut(&mut own.operations).remove(number);
            let key = spent_key(&org, account, &operation.id);
            Arc::make_mut(&mut own.spent).insert(key, Spent { v: operation.v });
        }
        let bytes = old.iter().map(|(_, held)| held.operation.bytes()).sum();
        Ok(Removed { rows: old.len() as u64, bytes })
    }

    fn remove_actions(&mut self, actor: &str, upto: i64, limit: usize) -> Result<Removed> {
        let own = |(_, action): &(&i64, &Arc<Action>)| action.actor == actor;
        let older = self.tables.actions.range(..=upto).filter(own).take(limit);
        let gone: Vec<(i64, u64)> = older.map(|(number, action)| (*number, action.bytes())).collect();
        for (number, _) in &gone {
            Arc::make_mut(&mut self.tables.actions).remove(number);
            self.outside.swept.push(*number);
        }
        Ok(Removed { rows: gone.len() as u64, bytes: gone.iter().map(|(_, bytes)| bytes).sum() })
    }

    fn commit(self: Box<Self>) -> Result<u64> {
        let own = self.tables.orgs.get(&self.org).cloned();
        let Outside { feed, actions, swept, entries } = self.outside.clone();
        Ok(self.database.commit(|committed| {
            if let Some(own) = own {
                Arc::make_mut(&mut committed.orgs).insert(self.org.clone(), own);
            }
            for row in feed {
                let rows = Arc::make_mut(&mut committed.feed);
                let number = rows.keys().next_back().map_or(1, |last| last + 1);
                rows.insert(number, Arc::new(row));
            }
            if !actions.is_empty() || !swept.is_empty() {
                let kept = Arc::make_mut(&mut committed.actions);
                let next = kept.keys().next_back().map_or(1, |last| last + 1);
                kept.extend((next..).zip(actions));
                for number in &swept {
                    kept.remove(number);
                }
            }
            for (key, is_there) in entries {
                committed.set_entry(key, is_there);
            }
        }))
    }
}
