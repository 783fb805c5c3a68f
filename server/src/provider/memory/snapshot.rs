//! Reading: the same queries for a snapshot and for a transaction.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use escale::Result;
use escale::journal::ActionType;
use escale::model::{Def, DefKind, Version};
use smol_str::SmolStr;

use super::database::MemoryDatabase;
use super::tables::{EntryKey, OrgTables, Tables, document_key, entry_key};
use crate::provider::spent::spent_key;
use crate::provider::{
    Action, ActionSize, Change, ChangeState, Document, DocumentReads, Entry, FileReads, Head, Looked,
    Operation, Place, Session, Site, Snapshot, Spent, TOMBSTONES_MAX, Tree,
};

/// The tables at one point in time.
pub(super) struct MemorySnapshot<'d> {
    tables: Tables,
    database: &'d MemoryDatabase,
}

impl<'d> MemorySnapshot<'d> {
    pub(super) fn open(database: &'d MemoryDatabase) -> Self {
        MemorySnapshot { tables: database.tables(), database }
    }
}

impl Drop for MemorySnapshot<'_> {
    fn drop(&mut self) {
        let looked = self.tables.looks.load(Ordering::SeqCst);
        self.database.most_looked.in_snapshot.fetch_max(looked, Ordering::SeqCst);
    }
}

/// A source of reads: a snapshot, or a transaction with its own writes.
pub(super) trait Reads {
    fn tables(&self) -> &Tables;

    /// The documents that have a value across orgs, as keys of [`Tables::shared`]. The org and the pk of
    /// `first` are empty.
    fn across_orgs(&self, first: &EntryKey) -> Result<Vec<EntryKey>> {
        Ok(same_value(self.tables().shared.range(first..), first).cloned().collect())
    }
}

/// The entries at the beginning that have the value of `first`.
pub(super) fn same_value<'e>(
    entries: impl Iterator<Item = &'e EntryKey>,
    first: &EntryKey,
) -> impl Iterator<Item = &'e EntryKey> {
    entries.take_while(|e| (&e.0, &e.1, &e.2, &e.3) == (&first.0, &first.1, &first.2, &first.3))
}

impl Reads for MemorySnapshot<'_> {
    fn tables(&self) -> &Tables {
        &self.tables
    }
}

/// A document or departure of a def, without its data.
pub(super) struct Found {
    pub(super) pk: SmolStr,
    pub(super) v: Version,
    pub(super) state: ChangeState,
    max_life: Option<u64>,
}

impl Found {
    fn of(pk: &SmolStr, document: &Document) -> Self {
        let state = if document.deleted { ChangeState::Deleted } else { ChangeState::Alive };
        Found { pk: pk.clone(), v: document.v, state, max_life: document.max_life }
    }

    fn lives_at(&self, minute: u64) -> bool {
        self.state == ChangeState::Alive && self.max_life.is_none_or(|end| end > minute)
    }
}

impl OrgTables {
    /// Everything in a def, in no order.
    fn of_def(&self, def: &Def) -> Vec<Found> {
        let class = SmolStr::new(def.class().as_str());
        match def.kind() {
            DefKind::Class => {
                let first = (class.clone(), SmolStr::default());
                let documents = self.documents.range(first..);
                let own = documents.take_while(|((c, _), _)| c == &class);
                own.map(|((_, pk), document)| Found::of(pk, document)).collect()
            }
            DefKind::Document(pk) => {
                let pk = SmolStr::new(pk.as_str());
                let document = self.documents.get(&(class, pk.clone()));
                document.map(|document| Found::of(&pk, document)).into_iter().collect()
            }
            DefKind::Collection(name, hash) => {
                let (name, hash) = (SmolStr::new(name.as_str()), SmolStr::new(hash.as_str()));
                let first = (class.clone(), name.clone(), hash.clone(), SmolStr::default());
                let links = self.links.range(first..);
                let own = links.take_while(|((c, n, h, _), _)| (c, n, h) == (&class, &name, &hash));
                let found = own.map(|((_, _, _, pk), link)| Found {
                    pk: pk.clone(),
                    v: link.v,
                    state: link.state,
                    max_life: link.max_life,
                });
                found.collect()
            }
        }
    }
}

impl Tables {
    pub(super) fn of_def(&self, org: &str, def: &Def) -> Vec<Found> {
        self.org(org).map(|tables| tables.of_def(def)).unwrap_or_default()
    }
}

impl<T: Reads> DocumentReads for T {
    fn document(&self, at: Place) -> Result<Option<Document>> {
        self.tables().look(1);
        let found = self.tables().org(at.org).and_then(|tables| tables.documents.get(&document_key(at)));
        Ok(found.map(|document| document.as_ref().clone()))
    }

    fn neighbour(&self, at: Place) -> Result<Option<String>> {
        let Some(tables) = self.tables().org(at.org) else { return Ok(None) };
        let find = |pk| {
            let found = tables.documents.range(document_key(Place { pk, ..at })..).next();
            found.filter(|((class, _), _)| class == at.class).map(|((_, pk), _)| pk.to_string())
        };
        Ok(find(at.pk).or_else(|| find("")))
    }

    fn changes(
        &self,
        org: &str,
        def: &Def,
        after: (Version, &str),
        gone_from: Version,
        visit: &mut dyn FnMut(Change) -> Result<bool>,
    ) -> Result<u64> {
        let tables = self.tables();
        let mut found = tables.of_def(org, def);
        found.retain(|f| (f.v, f.pk.as_str()) > after);
        found.sort_by(|a, b| (a.v, &a.pk).cmp(&(b.v, &b.pk)));
        let mut looked = 0;
        for Found { pk, v, state, max_life } in found {
            looked += 1;
            if state != ChangeState::Alive && v < gone_from {
                continue;
            }
            let at = Place { org, class: def.class().as_str(), pk: &pk };
            let data = match state {
                ChangeState::Alive | ChangeState::Deleted => {
                    let documents = tables.org(org).map(|tables| &tables.documents);
                    documents.and_then(|all| all.get(&document_key(at))).map(|d| d.data.clone())
                }
                ChangeState::Left => None,
            };
            let data = data.unwrap_or_default();
            if !visit(Change { pk: pk.into(), v, state, max_life, data })? {
                break;
            }
        }
        tables.look(looked as usize);
        Ok(looked)
    }

    fn count(
        &self,
        org: &str,
        def: &Def,
        v: Version,
        gone_from: Version,
        minute: u64,
    ) -> Result<Looked<u64>> {
        let mut found = self.tables().of_def(org, def);
        found.retain(|f| f.v >= v);
        let rows = found.len() as u64;
        self.tables().look(found.len());
        found.retain(|f| f.state != ChangeState::Left && (f.lives_at(minute) || f.v >= gone_from));
        Ok(Looked { found: found.len() as u64, rows })
    }

    fn members(&self, org: &str, def: &Def, v: Version, minute: u64) -> Result<Looked<Vec<String>>> {
        let mut found = self.tables().of_def(org, def);
        found.retain(|f| f.v >= v);
        let rows = found.len() as u64;
        self.tables().look(found.len());
        let living = found.into_iter().filter(|f| f.lives_at(minute));
        Ok(Looked { found: living.map(|f| f.pk.into()).collect(), rows })
    }

    fn tree(&self, at: Place) -> Result<Option<Tree>> {
        Ok(self.tables().org(at.org).and_then(|tables| tables.trees.get(&document_key(at))).cloned())
    }

    fn is_held(&self, at: Place, scope: &str, entry: &Entry) -> Result<bool> {
        let nobody = Place { org: "", pk: "", ..at };
        let first = entry_key(nobody, scope, entry);
        let is_other = |e: &EntryKey| (e.4.as_str(), e.5.as_str()) != (at.org, at.pk);
        if scope.is_empty() {
            return Ok(self.across_orgs(&first)?.iter().any(is_other));
        }
        let entries = self.tables().org(scope).map(|tables| tables.entries.range(&first..));
        Ok(entries.is_some_and(|entries| same_value(entries, &first).any(is_other)))
    }
}

impl<T: Reads> Snapshot for T {
    fn site(&self) -> Result<Site> {
        Ok(self.tables().site.as_ref().clone())
    }

    fn head(&self, org: &str) -> Result<Option<Head>> {
        Ok(self.tables().org(org).and_then(|tables| tables.head.clone()))
    }

    fn heads(&self, after: &str, limit: usize) -> Result<Vec<(String, Head)>> {
        let later = (Bound::Excluded(SmolStr::new(after)), Bound::Unbounded);
        let orgs = self.tables().orgs.range(later);
        let heads = orgs.filter_map(|(org, tables)| Some((org.to_string(), tables.head.clone()?)));
        Ok(heads.take(limit).collect())
    }

    fn due_trees(
        &self,
        org: &str,
        after: (&str, &str),
        before: Version,
        limit: usize,
    ) -> Result<Vec<(String, String, Tree)>> {
        let Some(tables) = self.tables().org(org) else { return Ok(Vec::new()) };
        let first = (SmolStr::new(after.0), SmolStr::new(after.1));
        let later = tables.trees.range((Bound::Excluded(first), Bound::Unbounded));
        let is_due = |tree: &Tree| (1..before).contains(&tree.due) || tree.tombstones > TOMBSTONES_MAX;
        let due = later.filter(|(_, tree)| is_due(tree)).take(limit);
        Ok(due.map(|((class, pk), tree)| (class.to_string(), pk.to_string(), tree.clone())).collect())
    }

    fn session(&self, org: &str, session: &str) -> Result<Option<Session>> {
        Ok(self.tables().org(org).and_then(|tables| tables.sessions.get(session)).cloned())
    }

    fn operation(&self, org: &str, account: &str, id: &str) -> Result<Option<Operation>> {
        let Some(tables) = self.tables().org(org) else { return Ok(None) };
        let number = tables.by_id.get(&(account.into(), id.into()));
        Ok(number.and_then(|number| tables.operations.get(number)).map(|held| held.operation.clone()))
    }

    fn files(&self) -> &dyn FileReads {
        self.tables()
    }

    fn spent(&self, org: &str, account: &str, id: &str) -> Result<Option<Spent>> {
        let tables = self.tables().org(org);
        Ok(tables.and_then(|tables| tables.spent.get(&spent_key(org, account, id))).copied())
    }

    fn actors(&self, org: &str, after: &str, more_than: u64, limit: usize) -> Result<Vec<String>> {
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        let is_of_org = |actor: &str| Place::of_actor(actor).is_some_and(|at| at.org == org);
        for action in self.tables().actions.values().filter(|action| is_of_org(&action.actor)) {
            *counts.entry(&action.actor).or_default() += 1;
        }
        let found = counts.into_iter().filter(|(actor, count)| *actor > after && *count > more_than);
        Ok(found.take(limit).map(|(actor, _)| actor.to_owned()).collect())
    }

    fn actions_of(&self, actor: &str, below: i64, limit: usize) -> Result<Vec<ActionSize>> {
        let older = self.tables().actions.range(..below).rev().filter(|(_, action)| action.actor == actor);
        let size = |(number, action): (&i64, &Arc<Action>)| ActionSize {
            number: *number,
            is_whole: action.kind == ActionType::Persist,
            bytes: action.bytes(),
        };
        Ok(older.take(limit).map(size).collect())
    }
}
