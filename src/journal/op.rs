//! A pending operation, as the session keeps it in memory and in storage.
//!
//! An operation is issued, then `prepared` once its documents' states are known, then `saved` in storage,
//! then sent under a number (`seq`). The server accepts it (`state.accepted`), or refuses it for good
//! (`state.refused`). A refused operation is parked until the application amends or discards it. An accepted
//! one is over once every def in `awaits` has shown its effect.

use std::collections::BTreeMap;

use super::action::Action;
use super::change::{Change, ChangeKind, IfVersion, batched, is_built_in};
use crate::codec::Fault;
use crate::crypto::{Random, drawn};
use crate::error::Result;
use crate::memory::{DocKey, Stamp};
use crate::model::{Def, Name, Pk, SortedMap, SortedSet, Value};

pub use state::{Draft, OpState};

/// The id of an operation: a UUID v7.
pub type OpId = String;

/// A version that an operation expects. With it comes the era, if an earlier operation of the session gave it.
pub type Expectation = (IfVersion, Option<u32>);

/// Why an operation cannot be sent as it is.
#[derive(Clone, Debug)]
pub struct Unsendable {
    /// The fault from the server or a proxy.
    pub fault: Fault,
    /// Whether the server knows its id, from the first operation that came under it.
    pub is_id_known: bool,
}

/// An operation before it was taken into parts.
#[derive(Clone, Debug)]
pub struct Whole {
    /// Its place among all that were issued so.
    pub nth: u64,
    /// Its name.
    pub name: String,
    /// Its arguments.
    pub args: Value,
    /// Its `insists`, if another session issued it.
    pub insists: Option<Vec<u32>>,
}

/// An operation in memory.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools)] // independent facts
pub struct PendingOp {
    /// The stored part.
    pub state: OpState,
    /// The keys of the documents that it touches.
    pub keys: Vec<DocKey>,
    /// Items with operations of their own that it deletes together with their parent. They depend on it, and
    /// it depends on none of them (R19).
    pub covers: Vec<DocKey>,
    /// Its changes to documents; `None` until its optimistic part could run.
    pub changes: Option<Vec<Change>>,
    /// Whether it is on the device (in incognito, in memory): it may be sent (R10).
    pub saved: bool,
    /// The number of its journal record, once it has one.
    pub record: Option<u64>,
    /// Its number in the session while it is being sent.
    pub seq: Option<u64>,
    /// The defs whose next pull must show its effect before its overlay is dropped; `None` before it was
    /// sent.
    pub awaits: Option<SortedSet<Def>>,
    /// `state.seen_on` by the keys of this schema.
    pub seen_on: SortedMap<DocKey, u32>,
    /// The objects of the files that it references, if the session has files.
    pub files: Vec<String>,
    /// The actions that it causes, until it is over.
    pub actions: Vec<Action>,
    /// Whether its documents' earlier states were known, so that its actions are complete.
    pub prepared: bool,
    /// Whether another session issued it, and has set the versions that it expects.
    pub is_taken_in: bool,
    /// Whether it has no optimistic part, so that its effect on the documents that it touches is not known
    /// here.
    pub is_blind: bool,
    /// The number under which it was last sent.
    pub sent_as: Option<u64>,
    /// Set if it is too large to be sent: the session asks only for its result.
    pub unsendable: Option<Unsendable>,
    /// The versions of documents for which it was issued, in conflicts where it replaced another operation.
    pub issued_for: Vec<(DocKey, u64)>,
    /// Whether it may be executed under another number, or another operation under its number. It may have
    /// been sent before the session was opened, or renumbered since, or its number may have been sent for
    /// another one.
    pub has_other_numbers: bool,
    /// The bytes of its arguments, if it is about local documents alone (R29): it is never sent, and no answer of the
    /// server ends it.
    pub local: Option<usize>,
    /// The operation of the application that was issued in parts, which are saved together. One of them has its id.
    pub with: Option<OpId>,
    /// Whether it is such a part, with an id that the application does not know.
    pub is_part: bool,
    /// Earlier operations on its local document that were not saved yet: they are saved with it.
    pub unsaved: Vec<PendingOp>,
    /// Until it is saved, if it was issued in parts: how it was issued.
    pub whole: Option<Box<Whole>>,
}

impl PendingOp {
    /// Whether it waits for the server's answer, and is not parked.
    pub fn is_waiting(&self) -> bool {
        self.state.accepted.is_none() && self.state.refused.is_none() && !self.is_local()
    }

    /// Whether it is about local documents alone (R29).
    pub fn is_local(&self) -> bool {
        self.local.is_some()
    }

    /// Whether it is the deletion of a local document: once it is saved, nothing is left of either.
    pub fn is_local_end(&self) -> bool {
        let changes = self.changes.iter().flatten();
        self.is_local() && changes.last().is_some_and(|change| change.kind == ChangeKind::Delete)
    }

    /// Whether the server may have it: sent in this opening, or perhaps before.
    pub fn may_be_sent(&self) -> bool {
        self.sent_as.is_some() || self.has_other_numbers
    }

    /// Its number in a tree of the clock `sequence`, by class and pk of the parent; none if it wrote nothing there, or
    /// is not accepted.
    pub fn number_in(&self, class: &Name, pk: &Pk) -> Option<u64> {
        self.state.trees.iter().find(|(of, parent, _)| of == class && parent == pk).map(|(_, _, n)| *n)
    }

    /// Whether its effect is laid over that document, whose base has the stamp `base`. Without a document,
    /// the stamp is 0 of the present era. `given` is the version that it gave to the document, if that is known.
    pub fn is_shown_on(&self, key: &DocKey, base: Option<Stamp>, (given, era): (Option<u64>, u32)) -> bool {
        let base = base.unwrap_or(Stamp::new(era, 0));
        let contained = given.is_some_and(|v| base.v >= v) && base.era == era;
        let is_seen = self.state.seen == Some(base.era) || self.seen_on.get(key) == Some(&base.era);
        self.state.refused.is_none() && !contained && !is_seen
    }

    /// The documents over which its effect is laid.
    pub fn shown_on(&self) -> impl Iterator<Item = &DocKey> {
        self.keys.iter().chain(&self.covers)
    }

    /// Its changes to a document of that tree, in order.
    pub fn steps_on<'o>(
        &'o self,
        key: &'o DocKey,
        tree: Option<&'o DocKey>,
    ) -> impl Iterator<Item = &'o ChangeKind> {
        self.changes.iter().flatten().filter_map(move |change| change.on(key, tree))
    }

    /// Whether it creates or deletes that parent (R19).
    pub fn decides(&self, tree: &DocKey) -> bool {
        self.changes.iter().flatten().any(|change| change.decides(tree))
    }

    /// Name and arguments to send. An operation that cannot be sent is replaced by one under the same id that
    /// does nothing. If the server has executed it, the reply has the stored result. If not, the id is now
    /// used, and a delayed copy can no longer be executed. One of the application's own might do something
    /// without arguments: there, another name uses the id first.
    pub fn sent(&self) -> (String, Value) {
        match &self.unsendable {
            None => (self.state.issued.name.clone(), self.state.issued.args.clone()),
            Some(unsendable)
                if unsendable.is_id_known
                    || is_built_in(&self.state.issued.name, &self.state.issued.args) =>
            {
                (self.state.issued.name.clone(), Value::Map(BTreeMap::new()))
            }
            Some(_) => ("batch".to_owned(), Value::Map(BTreeMap::new())),
        }
    }

    /// Its changes, one for each operation in it. None if it contains an operation of the application's own,
    /// which expects no version.
    fn plain(&self) -> &[Change] {
        let is_plain = is_built_in(&self.state.issued.name, &self.state.issued.args);
        self.changes.as_deref().filter(|_| is_plain).unwrap_or_default()
    }

    /// The versions that it expects of its documents.
    pub fn expected(&self) -> impl Iterator<Item = (&DocKey, &IfVersion)> {
        self.plain().iter().filter_map(|change| Some((&change.key, change.if_version.as_ref()?)))
    }

    /// The version that it expects of a document.
    pub fn expected_of(&self, key: &DocKey) -> Option<&IfVersion> {
        self.expected().find(|(own, _)| *own == key).map(|(_, expected)| expected)
    }

    /// Whether the application itself set the version expected of a document.
    pub fn insists_on(&self, key: &DocKey) -> bool {
        let place_of = |change: &Change| change.key == *key;
        self.state.issued.insists.iter().any(|place| self.plain().get(*place as usize).is_some_and(place_of))
    }

    /// Notes which of the expected versions the application set itself.
    pub fn insist(&mut self, is_own: impl Fn(&Change) -> bool) {
        let changes = (0..).zip(self.plain());
        let own = changes.filter(|(_, change)| change.if_version.is_some() && is_own(change));
        self.state.issued.insists = own.map(|(place, _)| place).collect();
    }

    /// The version that it expects of a document, with the era in which an earlier operation of the session
    /// gave it, if one did.
    pub fn expectation(&self, key: &DocKey) -> Option<Expectation> {
        let changes = (0..).zip(self.plain()).filter(|(_, change)| change.key == *key);
        let mut expected = changes.filter_map(|(place, change)| Some((place, change.if_version.as_ref()?)));
        let (place, expected) = expected.next()?;
        let given = self.state.given.iter().find(|(own, _)| *own == place);
        Some((expected.clone(), given.map(|(_, era)| *era)))
    }

    /// If it expects the same version as the operation that it replaces, and an earlier operation gave that
    /// one, the same holds for it.
    pub fn take_given(&mut self, replaced: &PendingOp) {
        let given = |change: &Change| {
            let (expected, era) = replaced.expectation(&change.key)?;
            era.filter(|_| change.if_version == Some(expected))
        };
        let changes = (0..).zip(self.plain());
        self.state.given = changes.filter_map(|(place, change)| Some((place, given(change)?))).collect();
    }

    /// Whether it may write that document, and does not only read it.
    pub fn may_write(&self, key: &DocKey) -> bool {
        let Some(changes) = &self.changes else { return true };
        self.is_blind || changes.iter().any(|change| change.key == *key)
    }

    /// The operations whose versions it expects.
    pub fn named(&self) -> impl Iterator<Item = &str> {
        let plain = self.expected().filter_map(|(_, expected)| expected.of()).map(String::as_str);
        plain.chain(self.mixed().map(|(_, id)| id))
    }

    /// Every operation that it waits for explicitly: those in `after`, and those whose versions it expects.
    pub fn waits_for(&self) -> impl Iterator<Item = &str> {
        self.state.issued.after.iter().map(String::as_str).chain(self.named())
    }

    /// Whether it expects the version given by that operation.
    pub fn expects(&self, id: &str) -> bool {
        self.named().any(|of| of == id)
    }

    /// Whether the application itself set the precondition on another operation's version, and no other
    /// version can replace it (`instead`). Without the precondition, the operation would have an effect that
    /// the application wanted to prevent.
    pub fn insists_on_version_of(&self, id: &str, instead: impl Fn(&DocKey) -> bool) -> bool {
        let mut own = (0..).zip(self.plain()).filter(|(place, _)| self.state.issued.insists.contains(place));
        own.any(|(_, change)| change.expects(id) && !instead(&change.key))
            || self.mixed().any(|(_, of)| of == id)
    }

    /// For a batch that also has operations of the application's own: the operations whose versions its parts
    /// expect, with the parts' positions. Only its arguments have these, and only the application can have
    /// set them.
    fn mixed(&self) -> impl Iterator<Item = (usize, &str)> {
        let is_mixed = self.state.issued.name == "batch"
            && !is_built_in(&self.state.issued.name, &self.state.issued.args);
        let parts = is_mixed.then(|| batched(&self.state.issued.args).enumerate()).into_iter().flatten();
        parts.filter(|(_, (name, args))| is_built_in(name, args)).filter_map(|(place, (_, args))| {
            Some((place, args.as_map()?.get("ifVersion")?.as_map()?.get("op")?.as_str()?))
        })
    }

    /// The document of that pk whose version it expects, if there is exactly one.
    pub fn expected_at(&self, pk: &Pk) -> Option<&DocKey> {
        let mut keys = self.expected().map(|(key, _)| key).filter(|key| key.1 == *pk);
        let first = keys.next()?;
        keys.all(|key| key == first).then_some(first)
    }

    /// Sets the version, or none, that it expects of the document of one of its changes.
    pub fn expect(&mut self, place: usize, expected: Option<IfVersion>) {
        if self.plain().len() <= place {
            return;
        }
        self.write_expected(place, expected.as_ref());
        if let Some(change) = self.changes.as_deref_mut().and_then(|changes| changes.get_mut(place)) {
            change.if_version = expected;
        }
    }

    /// Sets the version in every change that expects one of that document, or else in the first one. No earlier
    /// operation gave it.
    pub fn expect_of(&mut self, key: &DocKey, expected: &IfVersion) {
        let places = || self.plain().iter().enumerate().filter(|(_, change)| change.key == *key);
        let mut own: Vec<usize> =
            places().filter(|(_, change)| change.if_version.is_some()).map(|(place, _)| place).collect();
        if own.is_empty() {
            // The operation whose version it expected is gone, and had no change of the document any more.
            own.extend(places().next().map(|(place, _)| place));
        }
        for place in own {
            self.expect(place, Some(expected.clone()));
            self.state.given.retain(|(own, _)| *own as usize != place);
        }
    }

    /// Writes the expected version into the arguments; `place` is the position of a batch's part.
    fn write_expected(&mut self, place: usize, expected: Option<&IfVersion>) {
        let args = if self.state.issued.name == "batch" {
            let ops = self.state.issued.args.as_map_mut().and_then(|args| args.get_mut("ops"));
            let op = match ops {
                Some(Value::Array(ops)) => ops.get_mut(place),
                _ => None,
            };
            op.and_then(Value::as_map_mut).and_then(|op| op.get_mut("args"))
        } else {
            Some(&mut self.state.issued.args)
        };
        let Some(args) = args.and_then(Value::as_map_mut) else { return };
        match expected {
            None => args.remove("ifVersion"),
            Some(IfVersion::At(v)) => args.insert("ifVersion".to_owned(), Value::from(*v as i64)),
            Some(IfVersion::Of(id)) => {
                args.insert("ifVersion".to_owned(), Value::from([("op", Value::from(id.as_str()))]))
            }
        };
    }

    /// Replaces the expected version of an operation by another, or by none. `by` gives it for each document,
    /// or for `None` in a batch that has operations of the application's own. With it comes the era, if an
    /// earlier operation gave the version.
    pub fn expect_instead(&mut self, id: &str, by: &dyn Fn(Option<&DocKey>) -> Option<Expectation>) {
        let places = self.plain().iter().enumerate().filter(|(_, change)| change.expects(id));
        let instead: Vec<_> = places.map(|(place, change)| (place, by(Some(&change.key)))).collect();
        for (place, expected) in instead {
            let (expected, given) = expected.unzip();
            self.expect(place, expected);
            self.state.given.extend(given.flatten().map(|era| (place as u32, era)));
        }
        let mixed: Vec<usize> = self.mixed().filter(|(_, of)| *of == id).map(|(place, _)| place).collect();
        for place in mixed {
            self.write_expected(place, by(None).map(|(expected, _)| expected).as_ref());
        }
    }

    /// Its name and arguments after a conflict on a document is resolved by the operation `settled`, or by
    /// none; `None` if nothing remains. The other operations of a batch stay as they are.
    pub fn with_settled(&self, key: &DocKey, settled: Option<(&str, Value)>) -> Option<(String, Value)> {
        if self.state.issued.name != "batch" {
            return settled.map(|(name, args)| (name.to_owned(), args));
        }
        let mut settled =
            settled.map(|(name, args)| Value::from([("name", Value::from(name)), ("args", args)]));
        let ops = self.state.issued.args.as_map()?.get("ops")?.as_array()?;
        let left: Vec<Value> = ops
            .iter()
            .zip(self.plain())
            .filter_map(|(op, change)| if change.key == *key { settled.take() } else { Some(op.clone()) })
            .collect();
        (!left.is_empty()).then(|| ("batch".to_owned(), Value::from([("ops", Value::Array(left))])))
    }

    /// An operation in memory, from its stored part.
    pub fn new(state: OpState, keys: Vec<DocKey>) -> Self {
        PendingOp {
            state,
            keys,
            covers: Vec::new(),
            changes: None,
            saved: false,
            record: None,
            seq: None,
            awaits: None,
            seen_on: SortedMap::new(),
            files: Vec::new(),
            actions: Vec::new(),
            prepared: false,
            is_taken_in: false,
            is_blind: false,
            sent_as: None,
            unsendable: None,
            issued_for: Vec::new(),
            has_other_numbers: false,
            local: None,
            with: None,
            is_part: false,
            unsaved: Vec::new(),
            whole: None,
        }
    }
}

/// A UUID v7 of that time: such ids sort by their creation time.
pub fn make_id(now_ms: u64, random: &mut dyn Random) -> Result<OpId> {
    let mut bytes: [u8; 16] = drawn(random)?;
    bytes[..6].copy_from_slice(&now_ms.to_be_bytes()[2..]);
    bytes[6] = 0x70 | (bytes[6] & 0x0f);
    bytes[8] = 0x80 | (bytes[8] & 0x3f);
    let hex = format!("{:032x}", u128::from_be_bytes(bytes));
    Ok([&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-"))
}

mod bases;
mod state;
#[cfg(test)]
mod tests;
