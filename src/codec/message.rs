//! The messages of protocol version 1 (docs/protocol.md).

use super::data::Data;
use super::fields::{names, record};
use super::format::Format;
use super::node::{Node, NodeError};
use super::wire::{Decode, Encode};
use super::writer::Writer;
use crate::error::{Code, Error, Kind, Result, fail};
use crate::limits::{OPS_MAX, SUBS_MAX, TEXT_CHARS_MAX, VERSION_MAX};
use crate::model::{Def, Epoch, Name, Pk, SortedMap, Value, Version};

/// `POST {base}/{org}/sync`: operations to execute, then the defs to bring up to date.
#[derive(Clone, Debug, PartialEq)]
pub struct SyncRequest {
    /// The protocol's version: 1.
    pub p: u64,
    /// The store's random name (R11).
    pub session: String,
    /// The epoch that the session knows, if any. Its operations are executed in that epoch alone (R11).
    pub epoch: Option<Epoch>,
    /// Executed in order, before the reply's snapshot; at most [`OPS_MAX`].
    pub ops: Vec<Op>,
    /// The defs to bring up to date; at most [`SUBS_MAX`].
    pub subs: Vec<Sub>,
    /// The reply may omit the data of a row that an earlier part has with it (R90).
    pub refs: bool,
    /// Bytes of rows after which the reply should stop, if that is less than the server's own bound. The parts of a
    /// tree are not bounded by it (R18).
    pub page: Option<u64>,
}

impl SyncRequest {
    /// A session's request that asks for nothing yet.
    pub fn of(session: impl Into<String>) -> Self {
        let session = session.into();
        SyncRequest { p: 1, session, epoch: None, ops: Vec::new(), subs: Vec::new(), refs: false, page: None }
    }
}

record!(SyncRequest { p, session, epoch optional, ops default, subs default, refs optional, page optional });

/// An operation to execute as one transaction.
#[derive(Clone, Debug, PartialEq)]
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
    /// An earlier operation of the session that this one depends on, if it was not accepted when this one was sent.
    /// If the server refused it or does not know it, this one is not executed (`order_held`, R12).
    pub after: Option<String>,
}

record!(Op { id, seq, name, args, at, after optional });

/// `[def, v]` or `[def, v, cursor]`: changes since `v`, or the next page of an unfinished reply.
#[derive(Clone, Debug, PartialEq)]
pub struct Sub {
    /// The def.
    pub def: Def,
    /// The version of the last answer; 0 asks for the whole def.
    pub v: Version,
    /// The position where the last reply stopped, as the server gave it.
    pub cursor: Option<String>,
}

/// The answer to a [`SyncRequest`].
#[derive(Clone, Debug, PartialEq)]
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
    pub seq: u64,
    /// In order, ending at the first that was not executed.
    pub results: Vec<OpResult>,
    /// One for each def asked for, in that order, until the reply is full.
    pub parts: Vec<Part>,
    /// The level at which the account is restricted (R89); none without a restriction.
    pub restriction: Option<u64>,
    /// The role of the account: `read`, `write` or `admin`; none if the server knows no accounts.
    pub role: Option<String>,
}

impl SyncReply {
    /// A reply with these parts and no results.
    pub fn of(epoch: Epoch, now: Version, delta: u64, parts: Vec<Part>) -> Self {
        SyncReply {
            p: 1,
            epoch,
            now,
            delta,
            seq: 0,
            results: Vec::new(),
            parts,
            restriction: None,
            role: None,
        }
    }
}

record!(SyncReply {
    p,
    epoch,
    now,
    delta,
    seq default,
    results default,
    parts default,
    restriction optional,
    role optional,
});

/// The result of one operation: `ok` or `fault`.
#[derive(Clone, Debug, PartialEq)]
pub struct OpResult {
    /// The operation's id.
    pub id: String,
    /// It was executed.
    pub ok: Option<OpOk>,
    /// It was not.
    pub fault: Option<Fault>,
}

record!(OpResult { id, ok optional, fault optional });

/// The outcome of an executed operation.
#[derive(Clone, Debug, PartialEq)]
pub struct OpOk {
    /// The version that it gave to the documents it wrote.
    pub v: Version,
    /// The value that it returned, if any.
    pub value: Option<Value>,
    /// The trees of the clock `sequence` that it wrote in, by class and pk of their parents. With each comes the number
    /// that it took there (R21).
    pub trees: Vec<(Name, Pk, Version)>,
}

record!(OpOk { v, value optional, trees optional });

/// The changes of a def: rows and departures, or the reason why the server gives none.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Which def.
    pub def: Def,
    /// Documents changed since the asked `v`, or deleted, ascending by (v, pk).
    pub rows: Vec<Row>,
    /// Documents that left the def and still exist, with the versions; ascending by (v, pk).
    pub left: Vec<(Pk, Version)>,
    /// Every member, if the `v` of the request is before the server's horizon (R6). With the last page only.
    pub present: Option<Vec<Pk>>,
    /// For the items of a document: below this version, none of them exists any more (R17).
    pub floor: Option<Version>,
    /// For the clock `sequence`: the number of the tree in the snapshot (R21).
    pub n: Option<Version>,
    /// For the clock `sequence`, in a push: the part has every change above this number, up to `n` (R21).
    pub from: Option<Version>,
    /// The def is unfinished: the next request sends this cursor.
    pub next: Option<String>,
    /// How many rows the whole answer has, for a progress bar.
    pub total: Option<u64>,
    /// The reason why the server gives no changes; the other fields are then empty.
    pub fault: Option<Fault>,
}

record!(Part {
    def,
    rows optional,
    left optional,
    present optional,
    floor optional,
    n optional,
    from optional,
    next optional,
    total optional,
    fault optional,
});

impl Part {
    /// A part without changes.
    pub fn empty(def: Def) -> Self {
        Part {
            def,
            rows: Vec::new(),
            left: Vec::new(),
            present: None,
            floor: None,
            n: None,
            from: None,
            next: None,
            total: None,
            fault: None,
        }
    }
}

/// A document at a version, or its tombstone.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The primary key.
    pub pk: Pk,
    /// The version.
    pub v: Version,
    /// A tombstone.
    pub deleted: bool,
    /// The minute, since 1970, at which the document expires.
    pub max_life: Option<u64>,
    /// The document. A tombstone has its key properties at most. A row that is neither has none: it refers to the row of
    /// the same document and version in an earlier part of the reply (R90).
    pub data: Option<Data>,
}

record!(Row { pk, v, deleted optional, max_life("maxLife") optional, data optional });

/// The reason of a refusal, as on the wire. `code` is a [`Code`], if this version knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// A stable name.
    pub code: String,
    /// Its kind.
    pub kind: Kind,
    /// The phase of the failure: from 0, before the operation's start, to 5, sending its result.
    pub phase: u8,
    /// For developers.
    pub message: String,
    /// The current document, for `version_conflict`.
    pub doc: Option<Row>,
    /// The names of the objects that the server lacks, for `file_missing` (R25).
    pub files: Vec<String>,
}

record!(Fault { code, kind, phase default, message default, doc optional, files optional });

names!(Kind { A = "A", N = "N", B = "B", X = "X", D = "D", C = "C", O = "O", S = "S" });

/// The body of the answer to a request that was refused whole: a [`Fault`].
pub type WireFault = Fault;

impl Fault {
    /// The fault of that code, before the operation's start.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        let (doc, files) = (None, Vec::new());
        Fault { code: code.as_str().into(), kind: code.kind(), phase: 0, message: message.into(), doc, files }
    }
}

impl From<&Error> for Fault {
    fn from(error: &Error) -> Self {
        let (code, message) = (error.name().into(), error.detail().into());
        Fault { code, kind: error.kind(), phase: 0, message, doc: None, files: Vec::new() }
    }
}

impl Encode for Sub {
    fn encode(&self, out: &mut Writer) {
        let items: [&dyn Encode; 3] = [&self.def, &self.v, &self.cursor];
        let len = if self.cursor.is_some() { 3 } else { 2 };
        out.list(items.into_iter().take(len));
    }
}

impl Decode for Sub {
    fn decode(node: Node<'_>, format: Format) -> std::result::Result<Self, NodeError> {
        let mut items = node.items()?.into_iter();
        let (Some(def), Some(v), cursor, None) = (items.next(), items.next(), items.next(), items.next())
        else {
            return Err(NodeError::Words(
                "an unexpected length, [def, v] or [def, v, cursor] expected".into(),
            ));
        };
        let def = Def::decode(def, format).map_err(|error| error.in_item(0))?;
        let v = Version::decode(v, format).map_err(|error| error.in_item(1))?;
        let cursor =
            Option::decode(cursor.unwrap_or(Node::Null), format).map_err(|error| error.in_item(2))?;
        Ok(Sub { def, v, cursor })
    }
}

impl SyncRequest {
    /// Refuses a message that a server must not take: another protocol, lists or texts over their bounds.
    pub fn check(&self) -> Result<()> {
        check_protocol(self.p)?;
        check_text("session", &self.session)?;
        if self.ops.len() > OPS_MAX {
            return fail(Code::TooLarge, format!("{} operations, {OPS_MAX} at most", self.ops.len()));
        }
        if self.subs.len() > SUBS_MAX {
            return fail(Code::TooLarge, format!("{} subscriptions, {SUBS_MAX} at most", self.subs.len()));
        }
        check_v("page", self.page.unwrap_or(0))?;
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
    /// Gives each reference the data of the row that it refers to (R90). Errors: `malformed` for a reference to a row that
    /// is not in an earlier part.
    pub fn resolve(&mut self) -> Result<()> {
        if !self.parts.iter().flat_map(|part| &part.rows).any(Row::is_reference) {
            return Ok(());
        }
        let mut sent: SortedMap<(Name, Pk, Version), Data> = SortedMap::new();
        for part in &mut self.parts {
            let of = |row: &Row| (part.def.class().clone(), row.pk.clone(), row.v);
            for row in part.rows.iter_mut().filter(|row| row.is_reference()) {
                row.data = sent.get(&of(row)).cloned();
            }
            for row in part.rows.iter().filter(|row| !row.deleted) {
                sent.extend(row.data.clone().map(|data| (of(row), data)));
            }
        }
        check_each("parts", &self.parts, Part::check_data)
    }

    /// Refuses a message that a session must not apply: another protocol, numbers that JavaScript cannot hold, or an
    /// empty result. [`SyncReply::resolve`] refuses rows without data.
    pub fn check(&self) -> Result<()> {
        check_protocol(self.p)?;
        check_numbers(self.now, self.delta, self.seq)?;
        check_each("results", &self.results, OpResult::check)?;
        check_each("parts", &self.parts, Part::check)
    }
}

impl OpResult {
    /// Whether it is the operation's last result. After a retryable fault the operation may still be executed.
    pub fn is_final(&self) -> bool {
        self.fault.as_ref().is_none_or(|fault| !fault.kind.is_retryable())
    }

    fn check(&self) -> Result<()> {
        match (&self.ok, &self.fault) {
            (Some(ok), None) => {
                check_v("ok.v", ok.v)?;
                ok.trees.iter().try_for_each(|(_, _, n)| check_v("ok.trees", *n))
            }
            (None, Some(fault)) => fault.check().map_err(|error| error.within("fault")),
            _ => fail(Code::Malformed, "ok: a result is `ok` or `fault`"),
        }
    }
}

impl Fault {
    fn check(&self) -> Result<()> {
        let whole = |row: &Row| row.check().and_then(|()| row.check_data());
        self.doc.as_ref().map_or(Ok(()), whole).map_err(|error| error.within("doc"))
    }
}

impl Part {
    pub(super) fn check_data(&self) -> Result<()> {
        check_each("rows", &self.rows, Row::check_data)
    }

    pub(super) fn check(&self) -> Result<()> {
        check_each("rows", &self.rows, Row::check)?;
        check_v("total", self.total.unwrap_or(0))?;
        check_v("floor", self.floor.unwrap_or(0))?;
        check_v("n", self.n.unwrap_or(0))?;
        check_v("from", self.from.unwrap_or(0))?;
        self.fault.as_ref().map_or(Ok(()), Fault::check).map_err(|error| error.within("fault"))?;
        check_each("left", &self.left, |(_, v)| check_v("v", *v))?;
        if self.next.is_some() && self.present.is_some() {
            return fail(Code::Malformed, "present: it comes with the last page only");
        }
        check_text("next", self.next.as_deref().unwrap_or("-"))
    }
}

impl Row {
    fn check_data(&self) -> Result<()> {
        if !self.is_reference() {
            return Ok(());
        }
        fail(
            Code::Malformed,
            "data: a row that is neither deleted nor has data, and refers to no earlier row",
        )
    }

    /// Whether its data is in an earlier part (R90).
    pub fn is_reference(&self) -> bool {
        !self.deleted && self.data.is_none()
    }

    fn check(&self) -> Result<()> {
        check_v("v", self.v)?;
        if self.max_life.is_some_and(|minutes| minutes > VERSION_MAX / 60_000) {
            return fail(Code::Malformed, "maxLife: out of range");
        }
        Ok(())
    }
}

pub(super) fn check_numbers(now: Version, delta: u64, seq: u64) -> Result<()> {
    check_v("now", now)?;
    check_v("delta", delta)?;
    check_v("seq", seq)
}

pub(super) fn check_each<T>(name: &str, items: &[T], check: impl Fn(&T) -> Result<()>) -> Result<()> {
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
