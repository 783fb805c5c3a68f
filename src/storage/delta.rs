//! State records: the changes of one batch to documents' slots, collections, links and removal tombstones.

use super::columns;
use super::journal::JournalMark;
use crate::codec::{Decode, Encode, Fields, Format, Node, NodeError, Presence, Writer, record};
use crate::error::{Code, Error, Result};
use crate::memory::{ClassAtRest, CollectionAtRest, LinkAtRest, StoredChanges};
use crate::model::{Def, Epoch};

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
    pub collections: Vec<(Def, Option<CollectionAtRest>)>,
    /// Documents by class, or `None` if one left.
    pub documents: Vec<ClassAtRest>,
    /// Links and removal tombstones by def.
    pub links: Vec<(Def, Vec<LinkAtRest>)>,
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

impl Delta {
    /// The head, and the changes that the memory takes.
    pub fn split(self) -> (Option<Head>, StoredChanges) {
        let Delta { head, collections, documents, links } = self;
        (head, StoredChanges { epoch: None, collections, documents, links })
    }

    /// The latest era of anything in it.
    pub fn newest_era(&self) -> u32 {
        let collections = self.collections.iter().filter_map(|(_, state)| Some(state.as_ref()?.v.era));
        let documents = self.documents.iter().flat_map(|(_, states)| states);
        let documents = documents.filter_map(|(_, state)| Some(state.as_ref()?.at.era));
        let links = self.links.iter().flat_map(|(_, links)| links);
        let links = links.flat_map(|link| {
            link.member.map(|member| member.at.era).into_iter().chain(link.mark.map(|mark| mark.era))
        });
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
