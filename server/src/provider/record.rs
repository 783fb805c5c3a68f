//! What a provider stores.

use std::collections::BTreeMap;

use escale::model::{Epoch, Version};
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

/// Where a document is.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The org's code.
    pub org: &'a str,
    /// The class's name.
    pub class: &'a str,
    /// The primary key.
    pub pk: &'a str,
}

/// A document, or its tombstone, as it rests.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// The version of the operation that wrote it.
    pub v: Version,
    /// A tombstone.
    pub deleted: bool,
    /// Minutes since 1970 of the end of its logical life.
    pub max_life: Option<u64>,
    /// Milliseconds since 1970 after which it may be purged.
    pub ttl: Option<u64>,
    /// What the database sees of it: also of a tombstone, which stays in the defs that held the document.
    pub shown: Shown,
    /// Its data, sealed where there is a site key; of a tombstone, the key properties only.
    pub data: Vec<u8>,
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

/// What an index holds of a document.
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
    /// As the document's.
    pub max_life: Option<u64>,
}

/// How a document stands in a def.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeState {
    /// A member.
    Alive,
    /// It left, and lives on elsewhere.
    Left,
    /// It was deleted while it was a member.
    Deleted,
}

/// Something that changed in a def.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The primary key.
    pub pk: String,
    /// When.
    pub v: Version,
    /// What.
    pub state: ChangeState,
    /// Minutes since 1970 of the end of its logical life.
    pub max_life: Option<u64>,
    /// The data of a living member, as it rests.
    pub data: Vec<u8>,
}

/// A line of the feed: a document was written, and these links saw it.
#[derive(Clone, Debug, PartialEq)]
pub struct FeedRow {
    /// Its number, ascending with the commits.
    pub number: u64,
    /// The org.
    pub org: String,
    /// The class.
    pub class: String,
    /// The pk.
    pub pk: String,
    /// The version written.
    pub v: Version,
    /// The collections and hashes that held it before, or hold it now.
    pub links: BTreeMap<SmolStr, Vec<SmolStr>>,
}

/// A session, as far as operations know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The account that it belongs to; empty where there are no tokens.
    pub account: String,
    /// Its last executed operation.
    pub seq: u64,
}

/// An executed operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The session that sent it.
    pub session: String,
    /// Its number there.
    pub seq: u64,
    /// Its id.
    pub id: String,
    /// The hash of its name.
    pub name: String,
    /// The version that it gave; none where it was refused.
    pub v: Option<Version>,
    /// When, in milliseconds since 1970.
    pub at: u64,
    /// What was answered, as it rests.
    pub result: Vec<u8>,
}

/// A `persist` of the journal: a document's state after a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// The actor: `org/Class@pk`.
    pub goblin: String,
    /// The document's data as it rests; none where it was deleted.
    pub state: Option<Vec<u8>>,
    /// The document's version.
    pub v: Version,
    /// The operation that wrote it.
    pub commit: String,
    /// ISO 8601 text.
    pub timestamp: String,
}

/// What is known of the database as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// The database's life (R8).
    pub epoch: Epoch,
    /// How many transactions have changed the database: unlike versions, each has its own number (R8).
    pub commits: u64,
    /// The highest version committed (R4).
    pub highest: Version,
    /// The highest `now` told to a session, to the second (R4).
    pub told: Version,
    /// Tombstones and departures below it may be gone (R6).
    pub horizon: Version,
    /// The key that cursors are signed with.
    pub cursor_key: Vec<u8>,
    /// The schema that the documents were written under, as JSON; empty at first.
    pub schema: String,
    /// A known text sealed with the site key; empty while data is in clear.
    pub seal_check: Vec<u8>,
}
