//! The tables, apart for each org. They are shared between snapshots, and copied when written.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use escale::model::Version;
use smol_str::SmolStr;

use super::files::FileTables;
use crate::provider::spent::KEY_BYTES;
use crate::provider::{
    Action, ChangeState, Document, EntryValue, FeedRow, Head, Link, Operation, Place, Session, Site, Spent,
    Tree,
};

/// Class and pk.
pub(super) type DocumentKey = (SmolStr, SmolStr);

/// Class, collection, hash; then the pk.
pub(super) type LinkKey = (SmolStr, SmolStr, SmolStr, SmolStr);

/// A membership or departure, as stored.
#[derive(Clone, Copy)]
pub(super) struct LinkAtRest {
    pub(super) v: Version,
    pub(super) state: ChangeState,
    pub(super) max_life: Option<u64>,
}

/// Scope, class, index, value; then the org and the pk of the document.
pub(super) type EntryKey = (SmolStr, SmolStr, SmolStr, Indexed, SmolStr, SmolStr);

/// A value of an index, with an order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Indexed {
    Int(i64),
    /// Its bits: only equality counts.
    Float(u64),
    Text(SmolStr),
}

impl From<&EntryValue> for Indexed {
    fn from(value: &EntryValue) -> Self {
        match value {
            EntryValue::Int(i) => Indexed::Int(*i),
            EntryValue::Float(f) => Indexed::Float(f.to_bits()),
            EntryValue::Text(t) => Indexed::Text(SmolStr::new(t)),
        }
    }
}

/// An operation with its account.
pub(super) struct OperationAtRest {
    pub(super) account: SmolStr,
    pub(super) operation: Operation,
}

/// Everything that is stored of one org.
#[derive(Clone, Default)]
pub(super) struct OrgTables {
    pub(super) head: Option<Head>,
    pub(super) documents: Arc<BTreeMap<DocumentKey, Arc<Document>>>,
    pub(super) links: Arc<BTreeMap<LinkKey, LinkAtRest>>,
    /// The values of indexes of the org. Those across orgs are in [`Tables::shared`].
    pub(super) entries: Arc<BTreeSet<EntryKey>>,
    /// By name.
    pub(super) sessions: Arc<BTreeMap<SmolStr, Session>>,
    /// By insertion number, which is never used again.
    pub(super) operations: Arc<BTreeMap<i64, Arc<OperationAtRest>>>,
    /// Account and id, with their insertion numbers.
    pub(super) by_id: Arc<BTreeMap<(SmolStr, SmolStr), i64>>,
    /// Session and `seq`.
    pub(super) by_seq: Arc<BTreeSet<(SmolStr, u64)>>,
    /// The trees, by the class and the pk of the parent.
    pub(super) trees: Arc<BTreeMap<DocumentKey, Tree>>,
    /// Files, by hash.
    pub(super) files: Arc<FileTables>,
    /// The remains of purged operations.
    pub(super) spent: Arc<BTreeMap<[u8; KEY_BYTES], Spent>>,
}

/// Everything that is stored.
#[derive(Clone)]
pub(super) struct Tables {
    pub(super) site: Arc<Site>,
    pub(super) orgs: Arc<BTreeMap<SmolStr, Arc<OrgTables>>>,
    /// The values of indexes across orgs.
    pub(super) shared: Arc<BTreeSet<EntryKey>>,
    pub(super) feed: Arc<BTreeMap<u64, Arc<FeedRow>>>,
    /// By number. None is used again: the newest action of a document stays.
    pub(super) actions: Arc<BTreeMap<i64, Arc<Action>>>,
    /// The rows that were looked at through these tables.
    pub(super) looks: Arc<AtomicU64>,
}

impl Tables {
    pub(super) fn new(first: Site) -> Self {
        Tables {
            site: Arc::new(first),
            orgs: Arc::default(),
            shared: Arc::default(),
            feed: Arc::default(),
            actions: Arc::default(),
            looks: Arc::default(),
        }
    }

    /// The same tables, through which nothing was looked at yet.
    pub(super) fn opened(&self) -> Self {
        Tables { looks: Arc::default(), ..self.clone() }
    }

    /// Counts rows that are looked at.
    pub(super) fn look(&self, rows: usize) {
        self.looks.fetch_add(rows as u64, Ordering::Relaxed);
    }

    /// The tables of an org, if it has any.
    pub(super) fn org(&self, org: &str) -> Option<&OrgTables> {
        self.orgs.get(org).map(Arc::as_ref)
    }

    /// The tables of an org, to be changed.
    pub(super) fn org_mut(&mut self, org: &str) -> &mut OrgTables {
        Arc::make_mut(Arc::make_mut(&mut self.orgs).entry(org.into()).or_default())
    }

    pub(super) fn put_document(&mut self, at: Place, document: &Document) {
        let documents = Arc::make_mut(&mut self.org_mut(at.org).documents);
        documents.insert(document_key(at), Arc::new(document.clone()));
    }

    pub(super) fn remove_document(&mut self, at: Place) {
        Arc::make_mut(&mut self.org_mut(at.org).documents).remove(&document_key(at));
    }

    pub(super) fn put_link(&mut self, at: Place, link: &Link) {
        let rests = LinkAtRest { v: link.v, state: link.state, max_life: link.max_life };
        let key = link_key(at, link.collection, link.hash);
        Arc::make_mut(&mut self.org_mut(at.org).links).insert(key, rests);
    }

    pub(super) fn remove_link(&mut self, at: Place, collection: &str, hash: &str) {
        Arc::make_mut(&mut self.org_mut(at.org).links).remove(&link_key(at, collection, hash));
    }

    pub(super) fn put_tree(&mut self, at: Place, tree: &Tree) {
        Arc::make_mut(&mut self.org_mut(at.org).trees).insert(document_key(at), tree.clone());
    }

    pub(super) fn remove_tree(&mut self, at: Place) {
        Arc::make_mut(&mut self.org_mut(at.org).trees).remove(&document_key(at));
    }

    /// Adds the value of an index, or removes it.
    pub(super) fn set_entry(&mut self, key: EntryKey, is_there: bool) {
        let entries =
            if key.0.is_empty() { &mut self.shared } else { &mut self.org_mut(&key.4.clone()).entries };
        let entries = Arc::make_mut(entries);
        if is_there {
            entries.insert(key);
        } else {
            entries.remove(&key);
        }
    }
}

pub(super) fn document_key(at: Place) -> DocumentKey {
    (at.class.into(), at.pk.into())
}

pub(super) fn link_key(at: Place, collection: &str, hash: &str) -> LinkKey {
    (at.class.into(), collection.into(), hash.into(), at.pk.into())
}

pub(super) fn entry_key(at: Place, scope: &str, entry: &crate::provider::Entry) -> EntryKey {
    (scope.into(), at.class.into(), entry.index.clone(), (&entry.value).into(), at.org.into(), at.pk.into())
}
