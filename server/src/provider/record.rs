//! The records that a provider stores.

use std::collections::BTreeMap;

use escale::journal::ActionType;
use escale::model::{Epoch, Version};
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

/// The place of a document.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The org's code.
    pub org: &'a str,
    /// The class's name.
    pub class: &'a str,
    /// The primary key.
    pub pk: &'a str,
}

impl<'a> Place<'a> {
    /// The actor of a document in the journal.
    pub fn actor(&self) -> String {
        format!("{}/{}@{}", self.org, self.class, self.pk)
    }

    /// The place of an actor of the journal.
    pub fn of_actor(actor: &'a str) -> Option<Self> {
        let (org, document) = actor.split_once('/')?;
        let (class, pk) = document.split_once('@')?;
        Some(Place { org, class, pk })
    }
}

/// A document or its tombstone, as stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// The version of the operation that wrote it.
    pub v: Version,
    /// Whether it is a tombstone.
    pub deleted: bool,
    /// Minutes since 1970 of the end of its logical life.
    pub max_life: Option<u64>,
    /// Milliseconds since 1970 after which it may be purged.
    pub ttl: Option<u64>,
    /// The columns that the database can see. A tombstone has them too, because it stays in the defs that
    /// held the document.
    pub shown: Shown,
    /// Its data, sealed if there is a site key. A tombstone has only the key properties.
    pub data: Vec<u8>,
}

/// The result of a query, and how many rows it had to look at for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Looked<T> {
    /// The result.
    pub found: T,
    /// Rows, those left out included: tombstones, for example.
    pub rows: u64,
}

/// The columns of a document: the defs that hold it and the values of its indexes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Shown {
    /// For each collection, the hashes under which the document is a member.
    #[serde(rename = "c", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub links: BTreeMap<SmolStr, Vec<SmolStr>>,
    /// The values of its indexes.
    #[serde(rename = "i", default, skip_serializing_if = "Vec::is_empty")]
    pub entries: Vec<Entry>,
}

/// A value of an index.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The index's name.
    pub index: SmolStr,
    /// The value.
    pub value: EntryValue,
}

/// The value that an index holds of a document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum EntryValue {
    /// An integer.
    Int(i64),
    /// A number.
    Float(f64),
    /// A string, or its hash.
    Text(String),
}

/// A document's membership of a collection, or its departure.
#[derive(Clone, Copy, Debug)]
pub struct Link<'a> {
    /// The collection's name.
    pub collection: &'a str,
    /// The hash of the value.
    pub hash: &'a str,
    /// The document's version, or that of its departure.
    pub v: Version,
    /// Whether the member lives, was deleted, or left.
    pub state: ChangeState,
    /// As in the document.
    pub max_life: Option<u64>,
}

/// The state of a document in a def.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeState {
    /// A member.
    Alive,
    /// It left this def, and still exists elsewhere.
    Left,
    /// It was deleted while it was a member.
    Deleted,
}

/// A change in a def.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The primary key.
    pub pk: String,
    /// The version of the change.
    pub v: Version,
    /// The state after it.
    pub state: ChangeState,
    /// Minutes since 1970 of the end of its logical life.
    pub max_life: Option<u64>,
    /// The data of a member or its tombstone, as stored. The seal in it tells whether it belongs there.
    pub data: Vec<u8>,
}

/// A row of the feed: a document was written, and these links are affected.
#[derive(Clone, Debug, PartialEq)]
pub struct FeedRow {
    /// The org.
    pub org: String,
    /// The class.
    pub class: String,
    /// The pk.
    pub pk: String,
    /// The version written.
    pub v: Version,
    /// The collections and hashes that held the document before, or hold it now.
    pub links: BTreeMap<SmolStr, Vec<SmolStr>>,
}

/// The outcome of [`super::Transaction::purge`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Purged {
    /// The documents and tombstones removed, each by class and pk.
    pub documents: Vec<(String, String, Document)>,
    /// The number of departures removed.
    pub departures: u64,
}

impl Purged {
    /// The number of all that was removed.
    pub fn count(&self) -> u64 {
        self.documents.len() as u64 + self.departures
    }
}

/// A session, as far as operations need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The account that it belongs to; empty if the server requires no tokens.
    pub account: String,
    /// The number of its last executed operation.
    pub seq: u64,
}

/// An executed operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The session that sent it.
    pub session: String,
    /// Its number in that session.
    pub seq: u64,
    /// Its id.
    pub id: String,
    /// The hash of its name.
    pub name: String,
    /// The version that it gave; none if it was refused.
    pub v: Option<Version>,
    /// The time of execution, in milliseconds since 1970.
    pub at: u64,
    /// The answer, as stored.
    pub result: Vec<u8>,
}

/// Bytes of the numbers and the short texts of a row of results or of the journal.
const ROW_BYTES: u64 = 64;

impl Operation {
    /// The bytes that count in [`Head::kept`].
    pub fn bytes(&self) -> u64 {
        (self.session.len() + self.id.len() + self.result.len()) as u64 + ROW_BYTES
    }
}

/// An entry of the journal: a document's state after a write, or the change that the write made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// The actor: `org/Class@pk`.
    pub actor: String,
    /// `persist` for a state, `update` for a change.
    pub kind: ActionType,
    /// The document's data or its change, as stored; none if it was deleted.
    pub state: Option<Vec<u8>>,
    /// The document's version.
    pub v: Version,
    /// The operation that wrote it.
    pub commit: String,
    /// The time, as ISO 8601 text.
    pub timestamp: String,
}

impl Action {
    /// The bytes that count in [`Head::kept`].
    pub fn bytes(&self) -> u64 {
        (self.actor.len() + self.commit.len() + self.state.as_ref().map_or(0, Vec::len)) as u64 + ROW_BYTES
    }
}

/// An entry of the journal, as far as a sweep needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActionSize {
    /// Its number: later entries have higher ones.
    pub number: i64,
    /// Whether it is a `persist`.
    pub is_whole: bool,
    /// Its [`Action::bytes`].
    pub bytes: u64,
}

/// Rows that were removed, and the bytes by which [`Head::kept`] falls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Their number.
    pub rows: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The counters of an org. Every write of the org holds them from its beginning to its commit (R34).
#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    /// The org's epoch (R8, R37).
    pub epoch: Epoch,
    /// The number of transactions that have changed this head.
    pub commits: u64,
    /// The highest version committed in the org (R35).
    pub highest: Version,
    /// The highest `now` given to a session of the org, to the second (R4).
    pub promised_now: Version,
    /// Tombstones and departures below it may have been purged (R6).
    pub horizon: Version,
    /// The bytes of the org's results and of its journal (R88).
    pub kept: u64,
}

/// The state that all orgs share.
#[derive(Clone, Debug, PartialEq)]
pub struct Site {
    /// The epoch of every org that has no head yet (R37).
    pub epoch: Epoch,
    /// The latest epoch ever given to an org or to the site. The next one is later.
    pub last_epoch: Epoch,
    /// The number of schemas that the database has had so far (R38).
    pub generation: u64,
    /// The number of transactions committed, over all orgs (R8).
    pub commits: u64,
    /// The highest `now` given to a session of an org that has no head yet, to the second (R4).
    pub promised_now: Version,
    /// The key that signs cursors.
    pub cursor_key: Vec<u8>,
    /// The schema that the documents were written under, as JSON; empty at first.
    pub schema: String,
    /// A known text sealed with the site key; empty while data is in clear.
    pub seal_check: Vec<u8>,
    /// The database server that the site was last known to run on (R39); none if the database has no server.
    pub server: Option<ServerId>,
}

/// The identity of a database server. It changes if commits may have been lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerId {
    /// The database: a copy that was loaded elsewhere is another one.
    pub database: String,
    /// Counts the promotions and restores to a point in time.
    pub timeline: u32,
}

/// The server that runs a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its identity.
    pub id: ServerId,
    /// Its clock, in milliseconds since 1970.
    pub now_ms: u64,
}

impl Site {
    /// The head of an org in which nothing was written so far.
    pub fn first_head(&self) -> Head {
        // With a lower `promised_now`, its first write could be below a `now` that a session was given before.
        Head {
            epoch: self.epoch.clone(),
            commits: 0,
            highest: 0,
            promised_now: self.promised_now,
            horizon: 0,
            kept: 0,
        }
    }
}
