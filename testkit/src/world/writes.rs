//! The application's writes: issues them, decides about refusals, sweeps, and remembers each write (R10 to
//! R12).

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use escale::codec::SyncRequest;
use escale::journal::{Change, ChangeKind, PendingOp, Policy, Retention, Settlement, State, make_id};
use escale::memory::DocKey;
use escale::model::{Name, Value};
use escale::sync::{Application, Effect, Event, Mode, Reader, Write};
use escale::{Code, Error, Result};

use super::World;
use super::act::following;
use super::intents::Intents;
use crate::backend::Backend;
use crate::files::references;
use crate::outcome::{key_of, outcome};
use crate::schema::{IDS, Key, PHOTO, data, key, tree_of};

/// How an operation ended, for the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    Accepted(u64),
    /// The server's document stayed, by the class's policy.
    GivenUp,
    Refused,
    AmendedBy(String),
    Discarded,
}

/// The application's memory of an operation.
#[derive(Clone, Debug)]
pub struct Issued {
    /// Its position among the application's operations. An amended one takes that of the refused one.
    pub place: usize,
    /// The documents that it concerns.
    pub keys: BTreeSet<Key>,
    pub saved: bool,
    /// Whether the device has known of it without interruption.
    pub is_remembered: bool,
    pub end: Option<End>,
}

/// The documents of an operation, by its arguments.
#[derive(Debug, Default)]
pub struct Concerned {
    pub keys: BTreeSet<Key>,
    /// Those that it deletes.
    deleted: BTreeSet<Key>,
}

impl Concerned {
    pub fn of(name: &str, args: &Value) -> Self {
        let mut concerned = Concerned::default();
        concerned.collect(name, args);
        concerned
    }

    fn collect(&mut self, name: &str, args: &Value) {
        if name != "batch" {
            let key = key_of(args);
            if name == "doc.delete" {
                self.deleted.insert(key.clone());
            }
            self.keys.insert(key);
            return;
        }
        for op in args.as_map().expect("arguments")["ops"].as_array().expect("operations") {
            let map = op.as_map().expect("an operation");
            self.collect(map["name"].as_str().expect("a name"), &map["args"]);
        }
    }

    /// Whether the operation deletes the parent of that item.
    pub fn ends(&self, item: &Key) -> bool {
        !self.deleted.is_empty() && tree_of(item).is_some_and(|tree| self.deleted.contains(&tree))
    }
}

/// The memory of a client's applications, which survives every crash.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    places: usize,
    pub ops: BTreeMap<String, Issued>,
    /// Documents that operations were issued on.
    pub written: BTreeSet<Key>,
    /// The changes that they were to make.
    pub intents: Intents,
    pub lost_by_server: BTreeSet<String>,
    /// Operations that were executed, and are blocked behind one whose end the device has forgotten.
    pub forgotten: BTreeSet<String>,
    /// The documents of each operation, by the operation's id. An id never stands for another operation, so its keys
    /// are hashed once.
    concerned: RefCell<BTreeMap<String, Rc<Concerned>>>,
    /// The counters last seen, for flicker.
    pub counters: BTreeMap<Key, i64>,
    /// A sweep is in progress, and was not reported as done.
    is_sweeping: bool,
    /// The replacement of each operation, even if the device has forgotten it.
    replaced: BTreeMap<String, String>,
    /// The device has refused a batch, or was restored from a copy: it may not know which operations were
    /// discarded.
    pub may_forget_discards: bool,
}

impl Ledger {
    fn issue(&mut self, id: String, keys: BTreeSet<Key>) {
        self.places += 1;
        self.written.extend(keys.clone());
        self.intents.issue(id.clone());
        self.ops
            .insert(id, Issued { place: self.places, keys, saved: false, is_remembered: true, end: None });
    }

    /// Replaces an operation by another. A device that was restored may have forgotten that the operation was
    /// already replaced or discarded; a failed one may have been discarded, too. The new operation is then
    /// exempt from the order, because later operations may be executed already. `keys` are its documents, if they are others.
    fn replace(&mut self, id: &str, by: String, keys: Option<BTreeSet<Key>>) {
        let (mut place, before) =
            self.ops.get(id).map(|issued| (issued.place, issued.keys.clone())).unwrap_or_default();
        let end = self.ops.get(id).and_then(|issued| issued.end.as_ref());
        let is_undone = matches!(end, Some(End::Discarded)) && self.may_forget_discards;
        let earlier = self.replaced.insert(id.to_owned(), by.clone());
        if is_undone || earlier.is_some_and(|earlier| earlier != by) {
            place = 0;
        }
        let keys = keys.unwrap_or(before);
        self.ops.insert(by, Issued { place, keys, saved: false, is_remembered: true, end: None });
    }

    /// The documents of an operation.
    pub fn concerned(&self, op: &PendingOp) -> Rc<Concerned> {
        let mut known = self.concerned.borrow_mut();
        if let Some(concerned) = known.get(&op.state.issued.id) {
            return concerned.clone();
        }
        let concerned = Rc::new(Concerned::of(&op.state.issued.name, &op.state.issued.args));
        known.insert(op.state.issued.id.clone(), concerned.clone());
        concerned
    }

    /// The device is restored to a state that held these operations. Of the others, only those that have
    /// ended are still known.
    pub fn keep(&mut self, saved: &BTreeSet<String>) {
        self.ops.retain(|id, issued| saved.contains(id) || issued.end.is_some());
        self.forget_accepted();
    }

    /// The device has forgotten which operations were reported as accepted. If a server is restored, nobody
    /// knows which of them are lost.
    pub fn forget_accepted(&mut self) {
        for issued in self.ops.values_mut() {
            issued.is_remembered = false;
        }
    }

    /// The application ends: operations that were not reported as saved may be lost; in incognito all of
    /// them.
    pub fn crash(&mut self, incognito: bool) {
        self.counters.clear();
        self.ops.retain(|_, issued| issued.saved && !(incognito && issued.end.is_none()));
        // A sweep that was not reported as done may have been written.
        if incognito || std::mem::take(&mut self.is_sweeping) {
            self.forget_accepted();
        }
    }
}

/// The application-defined operations: `add` with an optimistic part, `blind` without.
pub struct Counters {
    pub policy: Policy,
}

fn doc_key(key: &Key) -> DocKey {
    let place =
        crate::schema::with(|schema| schema.classes().iter().position(|class| *class.name() == key.0));
    (place.expect("a class") as u16, key.1.clone())
}

impl Application for Counters {
    fn optimistic(&self, name: &str, args: &Value, read: &mut Reader<'_>) -> Option<Result<Vec<Change>>> {
        if name != "add" {
            return None;
        }
        let key = doc_key(&key_of(args));
        let property = args.as_map()?.get("property")?.as_str()?;
        // Another document, which is only read.
        if let Some(other) = args.as_map()?.get("reads") {
            let other = Value::from([("class", Value::from("Doc")), ("key", other.clone())]);
            let _ = read(&doc_key(&key_of(&other)));
        }
        let Some(after) = outcome(name, args, read(&key)).ok().flatten() else { return Some(Ok(Vec::new())) };
        let set = BTreeMap::from([(property.to_owned(), after[property].clone())]);
        let kind = ChangeKind::Patch { set, unset: Vec::new() };
        let of = key_of(&args.clone());
        let own = crate::schema::is_parent(&of.0).then(|| of.clone());
        let tree = crate::schema::tree_of(&of).or(own).map(|tree| doc_key(&tree));
        Some(Ok(vec![Change { key, kind, if_version: None, tree }]))
    }

    fn policy(&self, _: &Name) -> Policy {
        self.policy
    }

    fn settle(
        &self,
        _: &Name,
        base: Option<&State>,
        mine: Option<&State>,
        theirs: Option<&State>,
    ) -> Result<Settlement> {
        match (base, mine, theirs) {
            (None, None, _) => Err(Error::new(Code::Internal, "the application throws")),
            (_, Some(mine), Some(theirs)) => {
                let mut both = theirs.clone();
                both.extend(mine.clone());
                Ok(Settlement::Put(both))
            }
            (_, Some(mine), None) => Ok(Settlement::Put(mine.clone())),
            (_, None, _) => Ok(Settlement::Theirs),
        }
    }
}

/// The key properties of a document of the tests.
fn parts(number: usize) -> Value {
    Value::Array(crate::schema::parts(number).into_iter().map(Value::String).collect())
}

impl<S: Backend> World<S> {
    /// The operation of those numbers: its name and arguments.
    pub(super) fn operation(&mut self, what: u8, doc: u8, arg: u8) -> (&'static str, Value) {
        self.editions += 1;
        let number = usize::from(doc);
        let class = Value::from(key(number).0.as_str());
        let edition = Value::from(self.editions as i64);
        match what % 16 {
            0..=4 => ("add", counter(class, parts(number), i64::from(arg % 5) + 1)),
            5 => ("blind", counter(class, parts(number), 1)),
            6..=9 => {
                let mut set =
                    BTreeMap::from([(["text", "size", "color"][usize::from(arg % 3)].to_owned(), edition)]);
                if number < IDS && arg & 8 != 0 {
                    set.insert("section".into(), crate::schema::SECTIONS[usize::from(arg) % 3].into());
                }
                if number >= PHOTO && arg & 3 != 0 {
                    set.insert("files".into(), references(arg));
                }
                if arg > 235 {
                    set.insert("poison".into(), true.into());
                }
                let mut args = vec![("class", class), ("key", parts(number)), ("set", Value::Map(set))];
                if arg & 48 == 48 {
                    args.push(("unset", Value::Array(vec!["color".into()])));
                }
                let args = args.into_iter().map(|(name, value)| (name.to_owned(), value));
                ("doc.patch", Value::Map(args.collect()))
            }
            10..=12 => {
                let tags = if number >= PHOTO { arg } else { arg % 8 };
                let section = Some(usize::from(arg % 4)).filter(|s| *s < 3);
                let mut data = data(number, section, tags, self.editions);
                if arg > 240 {
                    data.insert("poison".into(), true.into());
                }
                ("doc.put", Value::from([("class", class), ("data", Value::Map(data))]))
            }
            13 => ("doc.delete", Value::from([("class", class), ("key", parts(number))])),
            _ => {
                let ops: Vec<Value> = [(what / 16, doc), (what / 8, following(number, 1) as u8)]
                    .into_iter()
                    .map(|(what, doc)| self.operation(what % 14, doc, arg & 127))
                    .filter(|(name, _)| name.starts_with("doc."))
                    .map(|(name, args)| Value::from([("name", name.into()), ("args", args)]))
                    .collect();
                ("batch", Value::from([("ops", Value::Array(ops))]))
            }
        }
    }

    /// The application issues an operation. Returns its id, if the machine took it.
    pub fn issue(&mut self, client: usize, name: &str, args: Value) -> Option<String> {
        self.who = client + 1;
        let at = self.clients[client].clock(self.now).wall_ms;
        let id = make_id(at, &mut self.sources[client + 1]).expect("an id");
        let machine = self.clients[client].machine.as_ref()?;
        if let Err(error) = machine.check_write(name, &args) {
            assert_eq!(error.code(), Code::NotFound, "{name} {args:?}: {error}");
            return None;
        }
        let touched = Concerned::of(name, &args).keys;
        let touches = if name == "blind" { touched.iter().map(doc_key).collect() } else { Vec::new() };
        self.figures.ops += 1;
        self.clients[client].ledger.issue(id.clone(), touched);
        let write = Write { id: id.clone(), name: name.to_owned(), args, touches, after: Vec::new() };
        self.feed(client, Event::Write(write));
        Some(id)
    }

    /// The application amends or discards the first refused operation.
    pub fn resolve(&mut self, client: usize, amends: bool) {
        self.who = client + 1;
        let Some(machine) = &self.clients[client].machine else { return };
        let refused =
            machine.operations().into_iter().map(|(op, _)| &op.state).find(|op| op.refused.is_some());
        let issued = refused.map(|op| op.issued.clone());
        let Some((id, name, mut args)) = issued.map(|op| (op.id, op.name, op.args)) else {
            return;
        };
        if !amends || !matches!(name.as_str(), "doc.patch" | "doc.put") {
            if let Some(issued) = self.clients[client].ledger.ops.get_mut(&id) {
                issued.end = Some(End::Discarded);
            }
            return self.feed(client, Event::Discard(id));
        }
        let of = key_of(&args);
        let map = args.as_map_mut().expect("arguments");
        for inner in ["set", "data"] {
            if let Some(inner) = map.get_mut(inner).and_then(Value::as_map_mut) {
                inner.remove("poison");
                self.clients[client].at_hand.leave_out_lost(inner);
                self.clients[client].ledger.intents.resolve(&of);
            }
        }
        map.remove("ifVersion");
        let at = self.clients[client].clock(self.now).wall_ms;
        let new = make_id(at, &mut self.sources[client + 1]).expect("an id");
        let ledger = &mut self.clients[client].ledger;
        ledger.replace(&id, new.clone(), None);
        if let Some(issued) = ledger.ops.get_mut(&id) {
            issued.end = Some(End::AmendedBy(new.clone()));
        }
        self.feed(client, Event::Amend { id, new, args: Some(args) });
    }

    pub fn sweep(&mut self, client: usize, how: u8, apply: bool) {
        let before =
            || escale::journal::iso8601(self.clients[client].clock(self.now).wall_ms - u64::from(how) * 500);
        let retention = match how % 3 {
            0 => Retention::Count(u32::from(how) / 3 % 4 + 1),
            1 => Retention::Before(before()),
            _ => Retention::Days { max: u32::from(how) / 3 % 4 + 1, before: before() },
        };
        let ticket = self.ticket(client);
        self.clients[client].ledger.is_sweeping |= apply;
        self.feed(client, Event::Sweep { ticket, retention, apply });
    }

    pub fn history_of(&mut self, client: usize, doc: u8) {
        let ticket = self.ticket(client);
        self.feed(client, Event::History { ticket, key: doc_key(&key(usize::from(doc))) });
    }

    fn ticket(&mut self, client: usize) -> u64 {
        let state = &mut self.clients[client];
        state.last_ticket += 2;
        if state.machine.is_some() {
            state.awaited.insert(state.last_ticket);
        }
        state.last_ticket
    }

    /// Takes the machine's reports on operations.
    pub(super) fn told_of_op(&mut self, client: usize, effect: Effect) {
        note!(self, "client {client} > {effect:?}");
        let server = &self.server;
        let of = self.clients[client].setup.tenant;
        if let Effect::Amended { id, by } = &effect {
            // The policy leaves out a part that has no effect any more. The operation then has no place among the
            // writes of those documents any more.
            let machine = self.clients[client].machine.as_ref().expect("an open client");
            let replacement = machine.operations().into_iter().find(|(op, _)| op.state.issued.id == *by);
            let keys = replacement.map(|(op, _)| self.clients[client].ledger.concerned(op).keys.clone());
            self.clients[client].ledger.replace(id, by.clone(), keys);
        }
        let ledger = &mut self.clients[client].ledger;
        // An operation whose bytes are lost here is refused even before it is saved.
        let unsaved: Option<String> = match &effect {
            Effect::Refused { id, error } if error.code() == Code::LocalDataLost => {
                ledger.ops.get(id).filter(|issued| !issued.saved).map(|_| id.clone())
            }
            _ => None,
        };
        let mut ended = |id: &String, end: End| {
            let unknown =
                Issued { place: 0, keys: BTreeSet::new(), saved: true, is_remembered: true, end: None };
            let issued = ledger.ops.entry(id.clone()).or_insert(unknown);
            issued.saved = unsaved.as_ref() != Some(id);
            issued.end = Some(end);
        };
        match effect {
            Effect::Saved { id } => {
                let unknown =
                    Issued { place: 0, keys: BTreeSet::new(), saved: false, is_remembered: true, end: None };
                let issued = ledger.ops.entry(id).or_insert(unknown);
                assert!(!std::mem::replace(&mut issued.saved, true), "saved twice");
            }
            Effect::Accepted { id, result: Ok((v, _)) } => {
                let results = server.results(of, &id);
                let found = results.iter().any(|result| result.ok.as_ref().is_some_and(|ok| ok.v == v));
                // Both sides deleted it: the version is that of the other deletion, even if a restored server
                // had done something else before.
                let is_other = server.result(of, &id).is_none_or(|result| result.ok.is_none());
                assert!(found || v == 0 || is_other, "R11: {id} at {v}, of no server");
                ended(&id, End::Accepted(v));
            }
            Effect::Accepted { id, result: Err(error) } => {
                assert_eq!(error.code(), Code::VersionConflict);
                ended(&id, End::GivenUp);
            }
            Effect::Refused { id, .. } => ended(&id, End::Refused),
            Effect::Amended { id, by } => ended(&id, End::AmendedBy(by)),
            Effect::Past { ticket, actions } => {
                assert!(self.clients[client].awaited.remove(&ticket), "a history that nobody awaits");
                let rowids: Vec<i64> =
                    actions.expect("a device that reads").iter().map(|(_, a)| a.rowid).collect();
                assert!(rowids.is_sorted(), "the oldest first: {rowids:?}");
            }
            Effect::Swept { ticket, swept } => {
                assert!(self.clients[client].awaited.remove(&ticket), "a sweep that nobody awaits");
                swept.expect("a device that reads");
                let state = &mut self.clients[client];
                let machine = state.machine.as_ref().expect("an open client");
                state.ledger.is_sweeping = false;
                for (id, issued) in &mut state.ledger.ops {
                    issued.is_remembered &= machine.remembers(id);
                }
            }
            _ => unreachable!(),
        }
    }

    /// R10: no part of an operation reaches the wire before the batch that holds it was written.
    pub(super) fn check_sent(&self, client: usize, request: &SyncRequest) {
        let client = &self.clients[client];
        if client.mode == Mode::Incognito || request.ops.is_empty() {
            return;
        }
        let at_rest = client.at_rest.get_or_init(|| {
            let opened = client.open_device(&client.device.snapshot(), 7).expect("a device that opens");
            opened.journal.records.into_iter().filter_map(|record| record.op).map(|op| op.issued.id).collect()
        });
        for op in &request.ops {
            assert!(at_rest.contains(&op.id), "R10: {} {} is sent, and not at rest", op.name, op.id);
        }
    }
}

fn counter(class: Value, key: Value, by: i64) -> Value {
    Value::from([("class", class), ("key", key), ("property", "n".into()), ("by", Value::from(by))])
}
