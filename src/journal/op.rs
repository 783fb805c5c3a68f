//! A pending operation, as the session keeps it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::action::Action;
use super::change::{Change, IfVersion, batched, is_built_in};
use crate::codec::{Data, Fault};
use crate::crypto::Random;
use crate::error::Result;
use crate::memory::{DocKey, Stamp};
use crate::model::{Def, Name, Pk, SortedMap, SortedSet, Value};

/// The id of an operation: a UUID v7.
pub type OpId = String;

/// What is kept at rest of an operation until it is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpState {
    /// Where it stands among the others: they execute in ascending order (R12).
    pub order: u64,
    /// Its id.
    pub id: OpId,
    /// Its name.
    pub name: String,
    /// Its arguments.
    pub args: Value,
    /// Milliseconds since 1970 by the device's clock when it was issued: information.
    pub at: u64,
    /// The documents that it touches.
    pub touches: Vec<(Name, Pk)>,
    /// Operations that it waits for, by the application's word.
    pub after: Vec<OpId>,
    /// What its document was when it was issued, for conflicts.
    pub base: Option<Data>,
    /// The same for each document of a batch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bases: Vec<(Name, Pk, Data)>,
    /// Places of the changes whose version the application itself expects: no policy settles those.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub insists: Vec<u32>,
    /// The version that the server gave, once it has accepted; the effect may not be seen yet.
    pub accepted: Option<u64>,
    /// Its place in the session's order on the server, kept while the effect is not seen.
    pub seq: Option<u64>,
    /// Why the server refused it for good.
    pub refused: Option<Fault>,
    /// In which era what the server has told contains its effect everywhere: its overlay is dropped, for good.
    pub seen: Option<u32>,
    /// Documents whose base contains its effect already, while others' do not, and in which era.
    pub seen_on: Vec<(Name, Pk, u32)>,
    /// What the server returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// The operations that it was issued in the place of, the first one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaces: Vec<OpId>,
}

/// Why an operation cannot be sent as it is.
#[derive(Clone, Debug)]
pub struct Unsendable {
    /// What the server, or a proxy, said of it.
    pub fault: Fault,
    /// Its id is known to the server, as that of whatever came first.
    pub is_known: bool,
}

/// An operation in memory.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools)] // facts that have nothing to do with each other
pub struct PendingOp {
    /// What is kept at rest.
    pub state: OpState,
    /// The keys of the documents that it touches.
    pub keys: Vec<DocKey>,
    /// What it does to documents; `None` until its optimistic part could run.
    pub changes: Option<Vec<Change>>,
    /// Whether it is on the device (in incognito, in memory): it may be sent (R10).
    pub saved: bool,
    /// The number of its journal record, once it has one.
    pub record: Option<u64>,
    /// Its place in the session's order while it is under way.
    pub seq: Option<u64>,
    /// The defs whose next pull must show its effect before its overlay is dropped; `None` before it was sent.
    pub awaits: Option<SortedSet<Def>>,
    /// `state.seen_on` by the keys of this schema.
    pub seen_on: SortedMap<DocKey, u32>,
    /// The actions that it causes, until it is over.
    pub actions: Vec<Action>,
    /// Whether its documents' states before it were known, so that its actions are complete.
    pub prepared: bool,
    /// Without an optimistic part, what it does to the documents that it touches is not known here.
    pub is_blind: bool,
    /// The number that it was last sent under.
    pub sent_as: Option<u64>,
    /// Found too large for the way to the server: only what became of it is asked.
    pub unsendable: Option<Unsendable>,
    /// The versions that its documents have, by the conflicts in which it took the place of another one.
    pub issued_for: Vec<(DocKey, u64)>,
    /// Whether it may be executed under another number than its present one, or another under its number: sent before the
    /// session was opened, numbered anew since it was sent, or given a number that another was sent under before.
    pub has_other_numbers: bool,
}

impl PendingOp {
    /// Whether it waits for the server's answer, and is not parked.
    pub fn is_waiting(&self) -> bool {
        self.state.accepted.is_none() && self.state.refused.is_none()
    }

    /// Whether the server may have it: sent now, or perhaps before the session was opened.
    pub fn may_be_sent(&self) -> bool {
        self.sent_as.is_some() || self.has_other_numbers
    }

    /// Whether its effect is laid over that document, whose base is of that version; of the present era where there is
    /// none.
    pub fn is_shown_on(&self, key: &DocKey, base: Option<Stamp>, era: u32) -> bool {
        let base = base.unwrap_or(Stamp::new(era, 0));
        let contained = self.state.accepted.is_some_and(|v| v > 0 && base.v >= v) && base.era == era;
        let is_seen = self.state.seen == Some(base.era) || self.seen_on.get(key) == Some(&base.era);
        self.state.refused.is_none() && !contained && !is_seen
    }

    /// What is sent of it: its name and arguments. Of one that cannot be sent, an operation under its id that does nothing:
    /// where the server has executed it, that brings its result; where not, the id is spent, and a copy of it that is
    /// still on its way comes too late. One of the application's own might do something without arguments: there another
    /// name spends the id first.
    pub fn sent(&self) -> (String, Value) {
        match &self.unsendable {
            None => (self.state.name.clone(), self.state.args.clone()),
            Some(unsendable) if unsendable.is_known || is_built_in(&self.state.name, &self.state.args) => {
                (self.state.name.clone(), Value::Map(BTreeMap::new()))
            }
            Some(_) => ("batch".to_owned(), Value::Map(BTreeMap::new())),
        }
    }

    /// What it does to each document, one change for each operation in it: nothing of the application's own, which expects
    /// no version.
    fn plain(&self) -> &[Change] {
        let is_plain = is_built_in(&self.state.name, &self.state.args);
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

    /// Whether the application itself said which version it expects of a document.
    pub fn insists_on(&self, key: &DocKey) -> bool {
        let place_of = |change: &Change| change.key == *key;
        self.state.insists.iter().any(|place| self.plain().get(*place as usize).is_some_and(place_of))
    }

    /// Notes the versions that the application itself expects, of those that the operation was issued with.
    pub fn insist(&mut self, is_own: impl Fn(&Change) -> bool) {
        let changes = (0..).zip(self.plain());
        let own = changes.filter(|(_, change)| change.if_version.is_some() && is_own(change));
        self.state.insists = own.map(|(place, _)| place).collect();
    }

    /// Whether it may write that document, and not only read it.
    pub fn may_write(&self, key: &DocKey) -> bool {
        let Some(changes) = &self.changes else { return true };
        self.is_blind || changes.iter().any(|change| change.key == *key)
    }

    /// The operations that give the versions that it expects.
    pub fn named(&self) -> impl Iterator<Item = &str> {
        let plain = self.expected().filter_map(|(_, expected)| expected.of()).map(String::as_str);
        plain.chain(self.mixed().map(|(_, id)| id))
    }

    /// Every operation that it waits for by its word: those that it comes after, and those whose versions it expects.
    pub fn waits_for(&self) -> impl Iterator<Item = &str> {
        self.state.after.iter().map(String::as_str).chain(self.named())
    }

    /// Whether it expects the version that another operation gives.
    pub fn expects(&self, id: &str) -> bool {
        self.named().any(|of| of == id)
    }

    /// Whether the application itself expects a version that an operation would have given, and no other one can stand
    /// `instead`: without it the operation would do what it was not to do.
    pub fn insists_on_version_of(&self, id: &str, instead: impl Fn(&DocKey) -> bool) -> bool {
        let mut own = (0..).zip(self.plain()).filter(|(place, _)| self.state.insists.contains(place));
        own.any(|(_, change)| change.expects(id) && !instead(&change.key))
            || self.mixed().any(|(_, of)| of == id)
    }

    /// The operations whose versions the parts of a batch expect that holds operations of the application's own as well,
    /// with the parts' places: only its arguments tell, and the application alone can have said so.
    fn mixed(&self) -> impl Iterator<Item = (usize, &str)> {
        let is_mixed = self.state.name == "batch" && !is_built_in(&self.state.name, &self.state.args);
        let parts = is_mixed.then(|| batched(&self.state.args).enumerate()).into_iter().flatten();
        parts.filter(|(_, (name, args))| is_built_in(name, args)).filter_map(|(place, (_, args))| {
            Some((place, args.as_map()?.get("ifVersion")?.as_map()?.get("op")?.as_str()?))
        })
    }

    /// The document of that pk whose version it expects, where there is one only.
    pub fn expected_at(&self, pk: &Pk) -> Option<&DocKey> {
        let mut keys = self.expected().map(|(key, _)| key).filter(|key| key.1 == *pk);
        let first = keys.next()?;
        keys.all(|key| key == first).then_some(first)
    }

    /// Expects the document of one of its changes to be of that version, or of any.
    pub fn expect(&mut self, place: usize, expected: Option<IfVersion>) {
        if self.plain().len() <= place {
            return;
        }
        self.write_expected(place, expected.as_ref());
        if let Some(change) = self.changes.as_deref_mut().and_then(|changes| changes.get_mut(place)) {
            change.if_version = expected;
        }
    }

    /// Expects a document to be of that version, wherever a change expects one of it.
    pub fn expect_of(&mut self, key: &DocKey, v: u64) {
        let places = self.plain().iter().enumerate();
        let places = places.filter(|(_, change)| change.key == *key && change.if_version.is_some());
        for place in places.map(|(place, _)| place).collect::<Vec<_>>() {
            self.expect(place, Some(IfVersion::At(v)));
        }
    }

    /// Says in the arguments which version is expected; `place` is that of a batch's part.
    fn write_expected(&mut self, place: usize, expected: Option<&IfVersion>) {
        let args = if self.state.name == "batch" {
            let ops = self.state.args.as_map_mut().and_then(|args| args.get_mut("ops"));
            let op = match ops {
                Some(Value::Array(ops)) => ops.get_mut(place),
                _ => None,
            };
            op.and_then(Value::as_map_mut).and_then(|op| op.get_mut("args"))
        } else {
            Some(&mut self.state.args)
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

    /// Expects another version in the place of that which an operation gives, or none; told for each document, and for
    /// the parts of a batch with operations of the application's own in it (`None`).
    pub fn expect_instead(&mut self, id: &str, by: impl Fn(Option<&DocKey>) -> Option<IfVersion>) {
        let places = self.plain().iter().enumerate().filter(|(_, change)| change.expects(id));
        let instead: Vec<_> = places.map(|(place, change)| (place, by(Some(&change.key)))).collect();
        for (place, expected) in instead {
            self.expect(place, expected);
        }
        let mixed: Vec<usize> = self.mixed().filter(|(_, of)| *of == id).map(|(place, _)| place).collect();
        for place in mixed {
            self.write_expected(place, by(None).as_ref());
        }
    }

    /// Its name and arguments once a conflict on a document is settled by that operation, or by none; `None` where nothing
    /// is left of it. The other operations of a batch stay as they are.
    pub fn with_settled(&self, key: &DocKey, settled: Option<(&str, Value)>) -> Option<(String, Value)> {
        if self.state.name != "batch" {
            return settled.map(|(name, args)| (name.to_owned(), args));
        }
        let mut settled =
            settled.map(|(name, args)| Value::from([("name", Value::from(name)), ("args", args)]));
        let ops = self.state.args.as_map()?.get("ops")?.as_array()?;
        let left: Vec<Value> = ops
            .iter()
            .zip(self.plain())
            .filter_map(|(op, change)| if change.key == *key { settled.take() } else { Some(op.clone()) })
            .collect();
        (!left.is_empty()).then(|| ("batch".to_owned(), Value::from([("ops", Value::Array(left))])))
    }

    /// What a document was when it was issued, for conflicts.
    pub fn base_of(&self, class: &Name, pk: &Pk) -> Option<&Data> {
        let of_batch = self.state.bases.iter().find(|(own, of, _)| own == class && of == pk);
        of_batch.map(|(_, _, data)| data).or(self.state.base.as_ref())
    }

    /// Keeps what a document was, unless it is known already.
    pub fn keep_base(&mut self, class: Name, pk: &Pk, base: Option<Data>) {
        let Some(base) = base.filter(|_| self.base_of(&class, pk).is_none()) else { return };
        if self.state.name == "batch" {
            self.state.bases.push((class, pk.clone(), base));
        } else {
            self.state.base = Some(base);
        }
    }

    /// An operation in memory, from what is kept at rest of it.
    pub fn new(state: OpState, keys: Vec<DocKey>) -> Self {
        PendingOp {
            state,
            keys,
            changes: None,
            saved: false,
            record: None,
            seq: None,
            awaits: None,
            seen_on: SortedMap::new(),
            actions: Vec::new(),
            prepared: false,
            is_blind: false,
            sent_as: None,
            unsendable: None,
            issued_for: Vec::new(),
            has_other_numbers: false,
        }
    }
}

/// A UUID v7 of that time: they sort by the time of their making.
pub fn make_id(now_ms: u64, random: &mut dyn Random) -> Result<OpId> {
    let mut bytes = [0; 16];
    random.fill(&mut bytes)?;
    bytes[..6].copy_from_slice(&now_ms.to_be_bytes()[2..]);
    bytes[6] = 0x70 | (bytes[6] & 0x0f);
    bytes[8] = 0x80 | (bytes[8] & 0x3f);
    let hex = format!("{:032x}", u128::from_be_bytes(bytes));
    Ok([&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-"))
}
