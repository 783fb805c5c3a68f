//! State records: what one batch changed of documents' places, collections, links and marks.

use serde::{Deserialize, Serialize};

use super::columns;
use super::journal::JournalMark;
use crate::error::{Code, Error, Result};
use crate::memory::{DocumentAtRest, Load, Member, PageRef, Stamp};
use crate::model::{Def, Epoch, Name, Pk};

/// A state record. The checkpoint is the records `base .. base + chunks`; the log goes on from there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StateRecord {
    /// Its own number: contiguous, so that a missing record is noticed.
    pub number: u64,
    /// The number of the first record of the checkpoint that it stands on.
    pub base: u64,
    /// How many records the checkpoint has.
    pub chunks: u32,
    /// The first number that no page has used.
    pub next_page: u64,
    /// What the journal holds since this record.
    pub journal: JournalMark,
    /// What changed; in a checkpoint, what there is.
    pub delta: Delta,
    /// Journal records written and deleted along, for sessions that follow; absent where nobody does. The last field, so
    /// that a record may end before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub along: Option<JournalNumbers>,
}

/// Numbers of journal records.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JournalNumbers {
    /// Written.
    pub puts: Vec<u64>,
    /// Deleted.
    pub deletes: Vec<u64>,
}

/// Changes, each telling the state after it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Delta {
    /// The fields of the whole.
    pub head: Option<Head>,
    /// Collections, or `None` where a subscription ended.
    pub collections: Vec<(Def, Option<CollectionState>)>,
    /// Documents by class, or `None` where one left.
    #[serde(skip)]
    pub documents: Vec<ClassStates>,
    /// Links and marks by def.
    #[serde(skip)]
    pub links: Vec<(Def, Vec<LinkState>)>,
}

/// A class's documents, or `None` where one left.
pub type ClassStates = (Name, Vec<(Pk, Option<DocumentState>)>);

/// The fields of the whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// The store's random name (R11).
    pub session: String,
    /// The epoch of the server's database, once known.
    pub epoch: Option<Epoch>,
    /// Its era.
    pub era: u32,
    /// The schema under which the store was written.
    pub schema: String,
}

/// A collection's own fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CollectionState {
    /// The version up to which every change is known.
    pub v: Stamp,
    /// Whether a whole load has ended once.
    pub ready: bool,
    /// The load under way.
    pub load: Option<Load>,
}

/// A document's version and place: era, v, end of life, page, slot, bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DocumentState(
    pub(super) u32,
    pub(super) u64,
    pub(super) Option<u64>,
    pub(super) u64,
    pub(super) u32,
    pub(super) u32,
);

impl From<DocumentAtRest> for DocumentState {
    fn from(d: DocumentAtRest) -> Self {
        DocumentState(d.at.era, d.at.v, d.max_life, d.place.page, d.place.slot, d.place.bytes)
    }
}

impl From<DocumentState> for DocumentAtRest {
    fn from(d: DocumentState) -> Self {
        let place = PageRef { page: d.3, slot: d.4, bytes: d.5 };
        DocumentAtRest { at: Stamp::new(d.0, d.1), max_life: d.2, place }
    }
}

/// A link (its version, and whether it is confirmed) and a mark: both absent where nothing is remembered.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkState(pub Pk, pub(super) Option<(u32, u64, bool)>, pub(super) Option<(u32, u64)>);

impl LinkState {
    /// The state of one pk in a def.
    pub fn new(pk: Pk, member: Option<Member<Stamp>>, mark: Option<Stamp>) -> Self {
        LinkState(pk, member.map(|m| (m.at.era, m.at.v, m.confirmed)), mark.map(|m| (m.era, m.v)))
    }

    /// The link.
    pub fn member(&self) -> Option<Member<Stamp>> {
        self.1.map(|(era, v, confirmed)| Member { at: Stamp::new(era, v), confirmed })
    }

    /// The mark.
    pub fn mark(&self) -> Option<Stamp> {
        self.2.map(|(era, v)| Stamp::new(era, v))
    }
}

impl Delta {
    /// The latest era of anything in it.
    pub fn newest_era(&self) -> u32 {
        let collections = self.collections.iter().filter_map(|(_, state)| Some(state.as_ref()?.v.era));
        let documents = self.documents.iter().flat_map(|(_, states)| states);
        let documents = documents.filter_map(|(_, state)| Some(state.as_ref()?.0));
        let links = self.links.iter().flat_map(|(_, states)| states);
        let links =
            links.flat_map(|state| state.1.map(|link| link.0).into_iter().chain(state.2.map(|m| m.0)));
        collections.chain(documents).chain(links).max().unwrap_or(0)
    }
}

impl StateRecord {
    /// The collections that it tells of, and whether they are subscribed to after it.
    pub fn collections(&self) -> impl Iterator<Item = (&Def, bool)> {
        self.delta.collections.iter().map(|(def, state)| (def, state.is_some()))
    }

    /// The plain bytes.
    pub fn encode(&self) -> Result<Vec<u8>> {
        columns::encode(self)
    }

    /// Reads a record. Errors: `record_damaged` if the bytes are not one.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        columns::decode(bytes).ok_or_else(|| Error::new(Code::RecordDamaged, "not a state record"))
    }
}
