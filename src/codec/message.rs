//! The messages of protocol version 1 (docs/protocol.md).

use serde::de::{self, SeqAccess, Visitor};
use serde::ser::SerializeTuple;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::data::Data;
use crate::error::{Code, Error, Kind, Result, fail};
use crate::limits::{OPS_MAX, SUBS_MAX, TEXT_CHARS_MAX, VERSION_MAX};
use crate::model::{Def, Epoch, Pk, Value, Version};

/// `POST {base}/{org}/sync`: operations to execute, then the defs to bring up to date.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SyncRequest {
    /// The protocol's version: 1.
    pub p: u64,
    /// The store's random name (R11).
    pub session: String,
    /// The epoch that the session knows, where it knows one: its operations are executed in that one alone (R11).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<Epoch>,
    /// Executed in order, before the reply's snapshot; at most [`OPS_MAX`].
    #[serde(default)]
    pub ops: Vec<Op>,
    /// What to bring up to date; at most [`SUBS_MAX`].
    #[serde(default)]
    pub subs: Vec<Sub>,
}

/// An operation to execute as one transaction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Op {
    /// A UUID v7.
    pub id: String,
    /// 1, 2, 3 and so on within the session (R11).
    pub seq: u64,
    /// `doc.put`, `doc.patch`, `doc.delete`, `batch`, or one of the application's.
    pub name: String,
    /// The arguments.
    pub args: Value,
    /// Milliseconds since 1970 by the client's clock: information, never compared.
    pub at: u64,
    /// An earlier operation of the session that this one depends on, not accepted when this one was sent: where it
    /// was refused, or is not known, this one is not executed (`order_held`, R12).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// `[def, v]` or `[def, v, cursor]`: changes since `v`, or the next page of an unfinished reply.
#[derive(Clone, Debug, PartialEq)]
pub struct Sub {
    /// What.
    pub def: Def,
    /// Since when; 0 asks for all of it.
    pub v: Version,
    /// Where the last reply stopped, as the server gave it.
    pub cursor: Option<String>,
}

/// The answer to a [`SyncRequest`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SyncReply {
    /// The protocol's version: 1.
    pub p: u64,
    /// The life of the server's database (R8).
    pub epoch: Epoch,
    /// The server's time, read before the reply's snapshot was opened (R4).
    pub now: Version,
    /// Milliseconds to take off `now` for the collections' new `v` (R4).
    pub delta: u64,
    /// The session's last executed operation, read in the snapshot (R12).
    #[serde(default)]
    pub seq: u64,
    /// In order, ending at the first that was not executed.
    #[serde(default)]
    pub results: Vec<OpResult>,
    /// One for each def asked for, in that order, until the reply is full.
    #[serde(default)]
    pub parts: Vec<Part>,
}

/// The result of one operation: `ok` or `fault`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpResult {
    /// The operation's id.
    pub id: String,
    /// It was executed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ok: Option<OpOk>,
    /// It was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
}

/// What an executed operation gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpOk {
    /// The version that it gave to the documents it wrote.
    pub v: Version,
    /// What it returned, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}

/// What changed in a def: rows and departures, or why it cannot be told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Which def.
    pub def: Def,
    /// Documents changed since the asked `v`, or deleted, ascending by (v, pk).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<Row>,
    /// Documents that left the def and live on elsewhere, and when; ascending by (v, pk).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<(Pk, Version)>,
    /// Every member, when the asked `v` is before the server's horizon (R6). With the last page only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub present: Option<Vec<Pk>>,
    /// The def is unfinished: ask on with this cursor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// How many rows the whole answer has, for a progress bar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// Why the def cannot be told; the rest of the part is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
}

impl Part {
    /// A part without changes.
    pub fn empty(def: Def) -> Self {
        Part { def, rows: Vec::new(), left: Vec::new(), present: None, next: None, total: None, fault: None }
    }
}

/// A document at a version, or its tombstone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The primary key.
    pub pk: Pk,
    /// The version.
    pub v: Version,
    /// A tombstone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deleted: bool,
    /// Minutes since 1970 of the end of its logical life.
    #[serde(default, rename = "maxLife", skip_serializing_if = "Option::is_none")]
    pub max_life: Option<u64>,
    /// The document; of a tombstone, its key properties at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Data>,
}

/// Why something was refused, as the wire tells it. `code` is a [`Code`] where this version knows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    /// A stable name.
    pub code: String,
    /// Its kind.
    pub kind: Kind,
    /// When: from 0, before the operation's start, to 5, sending its result.
    #[serde(default)]
    pub phase: u8,
    /// For developers.
    #[serde(default)]
    pub message: String,
    /// The current document, for `version_conflict`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doc: Option<Row>,
}

/// The body of a request that was refused whole: a [`Fault`].
pub type WireFault = Fault;

impl Fault {
    /// The fault of that code, before the operation's start.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Fault { code: code.as_str().into(), kind: code.kind(), phase: 0, message: message.into(), doc: None }
    }
}

impl From<&Error> for Fault {
    fn from(error: &Error) -> Self {
        Fault::new(error.code(), error.detail())
    }
}

/// What a session says on the socket: at first, and whenever its subscriptions change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LiveRequest {
    /// The bearer token, on servers that ask for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The store's random name.
    pub session: String,
    /// Every def subscribed to.
    pub subs: Vec<Def>,
}

/// What a server says on the socket.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerFrame {
    /// These defs are registered, those refused: the session pulls every def once.
    Live {
        /// Registered.
        live: Vec<Def>,
        /// Refused, and why.
        refused: Vec<(Def, Fault)>,
    },
    /// These defs changed at these versions.
    Hints(Vec<(Def, Version)>),
    /// Changes pushed without being asked for; they never move a collection's `v`.
    Parts(ServerParts),
    /// A sign of life, at least every 10 seconds.
    Alive,
}

/// Parts pushed over the socket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerParts {
    /// The life of the server's database (R8).
    pub epoch: Epoch,
    /// The server's time.
    pub now: Version,
    /// As in [`SyncReply`].
    pub delta: u64,
    /// As in [`SyncReply`].
    #[serde(default)]
    pub seq: u64,
    /// The changes.
    pub parts: Vec<Part>,
}

#[derive(Default, Serialize, Deserialize)]
struct FrameFields {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    live: Option<Vec<Def>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    refused: Vec<(Def, Fault)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hints: Option<Vec<(Def, Version)>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    epoch: Option<Epoch>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    now: Option<Version>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    delta: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parts: Option<Vec<Part>>,
}

impl Serialize for ServerFrame {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let fields = match self.clone() {
            ServerFrame::Live { live, refused } => {
                FrameFields { live: Some(live), refused, ..FrameFields::default() }
            }
            ServerFrame::Hints(hints) => FrameFields { hints: Some(hints), ..FrameFields::default() },
            ServerFrame::Parts(p) => FrameFields {
                epoch: Some(p.epoch),
                now: Some(p.now),
                delta: Some(p.delta),
                seq: Some(p.seq),
                parts: Some(p.parts),
                ..FrameFields::default()
            },
            ServerFrame::Alive => FrameFields::default(),
        };
        fields.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ServerFrame {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let fields = FrameFields::deserialize(deserializer)?;
        Ok(match fields {
            FrameFields { live: Some(live), refused, .. } => ServerFrame::Live { live, refused },
            FrameFields { hints: Some(hints), .. } => ServerFrame::Hints(hints),
            FrameFields {
                parts: Some(parts),
                epoch: Some(epoch),
                now: Some(now),
                delta: Some(delta),
                seq,
                ..
            } => ServerFrame::Parts(ServerParts { epoch, now, delta, seq: seq.unwrap_or(0), parts }),
            FrameFields { parts: Some(_), .. } => {
                return Err(de::Error::custom("parts without epoch, now and delta"));
            }
            // Later versions may say more: what is not understood is a sign of life.
            _ => ServerFrame::Alive,
        })
    }
}

impl Serialize for Sub {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut tuple = serializer.serialize_tuple(if self.cursor.is_some() { 3 } else { 2 })?;
        tuple.serialize_element(&self.def)?;
        tuple.serialize_element(&self.v)?;
        if let Some(cursor) = &self.cursor {
            tuple.serialize_element(cursor)?;
        }
        tuple.end()
    }
}

impl<'de> Deserialize<'de> for Sub {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct SubVisitor;
        impl<'de> Visitor<'de> for SubVisitor {
            type Value = Sub;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("[def, v] or [def, v, cursor]")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> std::result::Result<Sub, A::Error> {
                let def = seq.next_element()?.ok_or_else(|| de::Error::invalid_length(0, &self))?;
                let v = seq.next_element()?.ok_or_else(|| de::Error::invalid_length(1, &self))?;
                let cursor = seq.next_element::<Option<String>>()?.flatten();
                if seq.next_element::<de::IgnoredAny>()?.is_some() {
                    return Err(de::Error::invalid_length(4, &self));
                }
                Ok(Sub { def, v, cursor })
            }
        }
        deserializer.deserialize_seq(SubVisitor)
    }
}

impl SyncRequest {
    /// Refuses what a server must not take: another protocol, lists or texts over their bounds.
    pub fn check(&self) -> Result<()> {
        check_protocol(self.p)?;
        check_text("session", &self.session)?;
        if self.ops.len() > OPS_MAX {
            return fail(Code::TooLarge, format!("{} operations, {OPS_MAX} at most", self.ops.len()));
        }
        if self.subs.len() > SUBS_MAX {
            return fail(Code::TooLarge, format!("{} subscriptions, {SUBS_MAX} at most", self.subs.len()));
        }
        check_each("ops", &self.ops, |op| {
            check_text("id", &op.id)?;
            check_text("name", &op.name)
        })?;
        check_each("subs", &self.subs, |sub| {
            check_v("v", sub.v)?;
            check_text("cursor", sub.cursor.as_deref().unwrap_or("-"))
        })
    }
}

impl SyncReply {
    /// Refuses what a session must not apply: another protocol, numbers that JavaScript cannot hold, a row or a result
    /// that says nothing.
    pub fn check(&self) -> Result<()> {
        check_protocol(self.p)?;
        check_numbers(self.now, self.delta, self.seq)?;
        check_each("results", &self.results, OpResult::check)?;
        check_each("parts", &self.parts, Part::check)
    }
}

impl OpResult {
    /// Whether it is the operation's result: a fault that may pass says that it was not executed.
    pub fn is_final(&self) -> bool {
        self.fault.as_ref().is_none_or(|fault| !fault.kind.is_retryable())
    }

    fn check(&self) -> Result<()> {
        match (&self.ok, &self.fault) {
            (Some(ok), None) => check_v("ok.v", ok.v),
            (None, Some(fault)) => fault.check().map_err(|error| error.within("fault")),
            _ => fail(Code::Malformed, "ok: a result is `ok` or `fault`"),
        }
    }
}

impl Fault {
    fn check(&self) -> Result<()> {
        self.doc.as_ref().map_or(Ok(()), Row::check).map_err(|error| error.within("doc"))
    }
}

impl ServerParts {
    /// As [`SyncReply::check`].
    pub fn check(&self) -> Result<()> {
        check_numbers(self.now, self.delta, self.seq)?;
        check_each("parts", &self.parts, Part::check)
    }
}

impl Part {
    fn check(&self) -> Result<()> {
        check_each("rows", &self.rows, Row::check)?;
        check_v("total", self.total.unwrap_or(0))?;
        self.fault.as_ref().map_or(Ok(()), Fault::check).map_err(|error| error.within("fault"))?;
        check_each("left", &self.left, |(_, v)| check_v("v", *v))?;
        if self.next.is_some() && self.present.is_some() {
            return fail(Code::Malformed, "present: it comes with the last page only");
        }
        check_text("next", self.next.as_deref().unwrap_or("-"))
    }
}

impl Row {
    fn check(&self) -> Result<()> {
        check_v("v", self.v)?;
        if !self.deleted && self.data.is_none() {
            return fail(Code::Malformed, "data: a row that is neither deleted nor has data");
        }
        if self.max_life.is_some_and(|minutes| minutes > VERSION_MAX / 60_000) {
            return fail(Code::Malformed, "maxLife: out of range");
        }
        Ok(())
    }
}

fn check_numbers(now: Version, delta: u64, seq: u64) -> Result<()> {
    check_v("now", now)?;
    check_v("delta", delta)?;
    check_v("seq", seq)
}

fn check_each<T>(name: &str, items: &[T], check: impl Fn(&T) -> Result<()>) -> Result<()> {
    let mut checked = items.iter().map(check).enumerate();
    match checked.find_map(|(place, checked)| Some((place, checked.err()?))) {
        None => Ok(()),
        Some((place, error)) => Err(error.within(&format!("{name}[{place}]"))),
    }
}

fn check_protocol(p: u64) -> Result<()> {
    if p == 1 { Ok(()) } else { fail(Code::WrongProtocol, format!("protocol {p}, 1 expected")) }
}

fn check_v(name: &str, v: u64) -> Result<()> {
    if v <= VERSION_MAX { Ok(()) } else { fail(Code::Malformed, format!("{name}: it must be below 2^53")) }
}

fn check_text(name: &str, text: &str) -> Result<()> {
    if text.is_empty() || text.len() > TEXT_CHARS_MAX {
        return fail(Code::Malformed, format!("{name}: it must have 1 to {TEXT_CHARS_MAX} characters"));
    }
    Ok(())
}
