//! Reading: the same queries for a snapshot and for a transaction.

use escale::Result;
use escale::model::{Def, DefKind, Version};
use smol_str::SmolStr;

use super::tables::{Tables, document_key, entry_key};
use crate::provider::spent::spent_key;
use crate::provider::{
    Change, ChangeState, Document, Entry, FeedRow, Operation, Place, Session, Snapshot, Spent, State,
};

/// The tables at one point in time.
pub(super) struct MemorySnapshot(pub(super) Tables);

/// A source of reads: a snapshot, or a transaction with its own writes.
pub(super) trait Reads {
    fn tables(&self) -> &Tables;
}

impl Reads for MemorySnapshot {
    fn tables(&self) -> &Tables {
        &self.0
    }
}

/// A document or departure of a def, without its data.
struct Found {
    pk: SmolStr,
    v: Version,
    state: ChangeState,
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

impl Tables {
    /// Everything in a def, in no order.
    fn of_def(&self, org: &str, def: &Def) -> Vec<Found> {
        let (org, class) = (SmolStr::new(org), SmolStr::new(def.class().as_str()));
        match def.kind() {
            DefKind::Class => {
                let first = (org.clone(), class.clone(), SmolStr::default());
                let documents = self.documents.range(first..);
                let own = documents.take_while(|((o, c, _), _)| (o, c) == (&org, &class));
                own.map(|((_, _, pk), document)| Found::of(pk, document)).collect()
            }
            DefKind::Document(pk) => {
                let pk = SmolStr::new(pk.as_str());
                let document = self.documents.get(&(org, class, pk.clone()));
                document.map(|document| Found::of(&pk, document)).into_iter().collect()
            }
            DefKind::Collection(name, hash) => {
                let (name, hash) = (SmolStr::new(name.as_str()), SmolStr::new(hash.as_str()));
                let first = (org.clone(), class.clone(), name.clone(), hash.clone(), SmolStr::default());
                let links = self.links.range(first..);
                let own =
                    links.take_while(|((o, c, n, h, _), _)| (o, c, n, h) == (&org, &class, &name, &hash));
                let found = own.map(|((_, _, _, _, pk), link)| Found {
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

impl<T: Reads> Snapshot for T {
    fn state(&self) -> Result<State> {
        Ok(self.tables().state.as_ref().clone())
    }

    fn knows_org(&self, org: &str) -> Result<bool> {
        Ok(self.tables().orgs.contains(org))
    }

    fn document(&self, at: Place) -> Result<Option<Document>> {
        Ok(self.tables().documents.get(&document_key(at)).map(|document| document.as_ref().clone()))
    }

    fn changes(
        &self,
        org: &str,
        def: &Def,
        after: (Version, &str),
        gone_from: Version,
        visit: &mut dyn FnMut(Change) -> Result<bool>,
    ) -> Result<()> {
        let tables = self.tables();
        let mut found = tables.of_def(org, def);
        found.retain(|f| (f.v, f.pk.as_str()) > after && (f.state == ChangeState::Alive || f.v >= gone_from));
        found.sort_by(|a, b| (a.v, &a.pk).cmp(&(b.v, &b.pk)));
        for Found { pk, v, state, max_life } in found {
            let at = Place { org, class: def.class().as_str(), pk: &pk };
            let data = match state {
                ChangeState::Alive => tables.documents.get(&document_key(at)).map(|d| d.data.clone()),
                ChangeState::Left | ChangeState::Deleted => None,
            };
            let data = data.unwrap_or_default();
            if !visit(Change { pk: pk.into(), v, state, max_life, data })? {
                break;
            }
        }
        Ok(())
    }

    fn count(&self, org: &str, def: &Def, v: Version, gone_from: Version, minute: u64) -> Result<u64> {
        let mut found = self.tables().of_def(org, def);
        found
            .retain(|f| f.v >= v && f.state != ChangeState::Left && (f.lives_at(minute) || f.v >= gone_from));
        Ok(found.len() as u64)
    }

    fn members(&self, org: &str, def: &Def, minute: u64) -> Result<Vec<String>> {
        let found = self.tables().of_def(org, def);
        Ok(found.into_iter().filter(|f| f.lives_at(minute)).map(|f| f.pk.into()).collect())
    }

    fn is_held(&self, at: Place, scope: &str, entry: &Entry) -> Result<bool> {
        let nobody = Place { org: "", pk: "", ..at };
        let first = entry_key(nobody, scope, entry);
        let holders = self.tables().entries.range(first.clone()..);
        let mut holders =
            holders.take_while(|e| (&e.0, &e.1, &e.2, &e.3) == (&first.0, &first.1, &first.2, &first.3));
        Ok(holders.any(|e| (e.4.as_str(), e.5.as_str()) != (at.org, at.pk)))
    }

    fn feed(&self, after: u64, limit: usize) -> Result<(u64, Vec<FeedRow>)> {
        let feed = &self.tables().feed;
        let oldest = feed.keys().next().copied().unwrap_or(0);
        let rows = feed.range(after + 1..).take(limit).map(|(_, row)| row.as_ref().clone());
        Ok((oldest, rows.collect()))
    }

    fn session(&self, org: &str, session: &str) -> Result<Option<Session>> {
        Ok(self.tables().sessions.get(&(org.into(), session.into())).cloned())
    }

    fn operation(&self, org: &str, account: &str, id: &str) -> Result<Option<Operation>> {
        let tables = self.tables();
        let number = tables.by_id.get(&(org.into(), account.into(), id.into()));
        Ok(number.and_then(|number| tables.operations.get(number)).map(|held| held.operation.clone()))
    }

    fn spent(&self, org: &str, account: &str, id: &str) -> Result<Option<Spent>> {
        Ok(self.tables().spent.get(&spent_key(org, account, id)).copied())
    }
}
