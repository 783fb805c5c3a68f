//! The tables. They are shared between snapshots, and copied when written.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use escale::model::Version;
use smol_str::SmolStr;

use crate::provider::spent::KEY_BYTES;
use crate::provider::{
    Action, ChangeState, Document, EntryValue, FeedRow, Operation, Place, Session, Spent, State,
};

/// Org, class, pk.
pub(super) type DocumentKey = (SmolStr, SmolStr, SmolStr);

/// Org, class, collection, hash; then the pk.
pub(super) type LinkKey = (SmolStr, SmolStr, SmolStr, SmolStr, SmolStr);

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

/// An operation with its org and account.
pub(super) struct OperationAtRest {
    pub(super) org: SmolStr,
    pub(super) account: SmolStr,
    pub(super) operation: Operation,
}

/// Everything that is stored.
#[derive(Clone)]
pub(super) struct Tables {
    pub(super) state: Arc<State>,
    pub(super) orgs: Arc<BTreeSet<SmolStr>>,
    pub(super) documents: Arc<BTreeMap<DocumentKey, Arc<Document>>>,
    pub(super) links: Arc<BTreeMap<LinkKey, LinkAtRest>>,
    pub(super) entries: Arc<BTreeSet<EntryKey>>,
    pub(super) feed: Arc<BTreeMap<u64, Arc<FeedRow>>>,
    /// By org and name.
    pub(super) sessions: Arc<BTreeMap<(SmolStr, SmolStr), Session>>,
    /// By insertion number, which is never used again.
    pub(super) operations: Arc<BTreeMap<i64, Arc<OperationAtRest>>>,
    pub(super) last_operation: i64,
    /// Org, account and id, with their insertion numbers.
    pub(super) by_id: Arc<BTreeMap<(SmolStr, SmolStr, SmolStr), i64>>,
    /// Org, session and `seq`.
    pub(super) by_seq: Arc<BTreeSet<(SmolStr, SmolStr, u64)>>,
    /// The remains of purged operations.
    pub(super) spent: Arc<BTreeMap<[u8; KEY_BYTES], Spent>>,
    pub(super) actions: Arc<Vec<Arc<Action>>>,
}

impl Tables {
    pub(super) fn new(first: State) -> Self {
        Tables {
            state: Arc::new(first),
            orgs: Arc::default(),
            documents: Arc::default(),
            links: Arc::default(),
            entries: Arc::default(),
            feed: Arc::default(),
            sessions: Arc::default(),
            operations: Arc::default(),
            last_operation: 0,
            by_id: Arc::default(),
            by_seq: Arc::default(),
            spent: Arc::default(),
            actions: Arc::default(),
        }
    }
}

pub(super) fn document_key(at: Place) -> DocumentKey {
    (at.org.into(), at.class.into(), at.pk.into())
}

pub(super) fn link_key(at: Place, collection: &str, hash: &str) -> LinkKey {
    (at.org.into(), at.class.into(), collection.into(), hash.into(), at.pk.into())
}

pub(super) fn entry_key(at: Place, scope: &str, entry: &crate::provider::Entry) -> EntryKey {
    (scope.into(), at.class.into(), entry.index.clone(), (&entry.value).into(), at.org.into(), at.pk.into())
}
