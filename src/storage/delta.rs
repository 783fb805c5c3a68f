//! State records: the changes of one batch to documents' slots, collections, links and removal tombstones.

use super::columns;
use super::journal::JournalMark;
use crate::codec::{Decode, Encode, Fields, Format, Node, NodeError, Presence, Writer, record};
use crate::error::{Code, Error, Result};
use crate::memory::{DocumentAtRest, Load, Member, PageRef, Stamp};
use crate::model::{Def, Epoch, Name, Pk};

/// A state record. The checkpoint is the records `base .. base + chunks`; the log continues from there.
#[derive(Clone, Debug, PartialEq)]
pub struct StateRecord {
    /// Its own number: contiguous, so that a missing record is noticed.
    pub number: u64,
    /// The number of the first record of its checkpoint.
    pub base: u64,
    /// How many records the checkpoint has.
    pub chunks: u32,
    /// The first number that no page has used.
    pub next_page: u64,
    /// The journal summary after this record.
    pub journal: JournalMark,
    /// The changes; in a checkpoint, the whole state.
    pub delta: Delta,
    /// The journal records that the same batch wrote and deleted, for followers; absent if there is no
    /// generation. It is the last field, so that a record may end before it.
    pub along: Option<JournalNumbers>,
}

record!(StateRecord { number, base, chunks, next_page, journal, delta, along optional });

/// Numbers of journal records.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JournalNumbers {
    /// Written.
    pub puts: Vec<u64>,
    /// Deleted.
    pub deletes: Vec<u64>,
}

record!(JournalNumbers { puts, deletes });

/// Changes, each as the state after it. Documents and links are not msgpack, but rows (`columns`).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Delta {
    /// The fields of the whole state.
    pub head: Option<Head>,
    /// Collections, or `None` if a subscription ended.
    pub collections: Vec<(Def, Option<CollectionState>)>,
    /// Documents by class, or `None` if one left.
    pub documents: Vec<ClassStates>,
    /// Links and removal tombstones by def.
    pub links: Vec<(Def, Vec<LinkState>)>,
}

impl Encode for Delta {
    fn encode(&self, out: &mut Writer) {
        out.record(&[
            ("head", Presence::Required, &self.head),
            ("collections", Presence::Required, &self.collections),
        ]);
    }
}

impl Decode for Delta {
    fn decode(node: Node<'_>, format: Format) -> std::result::Result<Self, NodeError> {
        let mut fields = Fields::new(node, &["head", "collections"], format)?;
        Ok(Delta { head: fields.required()?, collections: fields.required()?, ..Delta::default() })
    }
}

/// A class's documents, or `None` if one left.
pub type ClassStates = (Name, Vec<(Pk, Option<DocumentState>)>);

/// The fields of the whole state.
#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    /// The store's random name (R11).
    pub session: String,
    /// The epoch of the server's database, once known.
    pub epoch: Option<Epoch>,
    /// Its era, the local epoch number.
    pub era: u32,
    /// The JSON of the schema that the store was last opened under.
    pub schema: String,
}

record!(Head { session, epoch, era, schema });

/// A collection's own fields.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectionState {
    /// The version below which every change is known.
    pub v: Stamp,
    /// Whether a whole load has ended once.
    pub ready: bool,
    /// The load in progress.
    pub load: Option<Load>,
}

record!(CollectionState { v, ready, load });

/// A document's version and slot: era, v, end of life, page, slot, bytes.
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

/// A link (its version, and whether it is confirmed) and a removal tombstone: both absent if nothing is
/// remembered.
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

    /// The removal tombstone.
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
    /// The collections of the record, and whether they are subscribed to after it.
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
