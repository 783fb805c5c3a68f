//! Pending operations in memory: issuing them, what they make of documents, and who depends on whom (R12).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::application::Application;
use super::event::Effect;
use super::machine::Machine;
use super::reads::{Purpose, Reading};
use crate::error::{Code, Error, Result};
use crate::journal::{
    Action, ActionType, Change, IfVersion, OpId, OpState, PendingOp, Policy, State, changes_of,
};
use crate::model::Value;
use crate::rest::{JournalAtRest, JournalMark};
use crate::session::{Base, DocKey};

/// Times that operations are gone through in a row, where optimistic parts prove to touch more documents.
const OPTIMISTIC_ROUNDS: usize = 8;

/// What an application issues.
#[derive(Clone, Debug)]
pub struct Write {
    /// Its id, a UUID v7 that the driver has made.
    pub id: OpId,
    /// Its name.
    pub name: String,
    /// Its arguments.
    pub args: Value,
    /// The documents that it touches, where it has no optimistic part.
    pub touches: Vec<DocKey>,
    /// Operations that it waits for.
    pub after: Vec<OpId>,
}

/// Every operation that is not over.
pub(super) struct Writes {
    /// By their order.
    pub ops: BTreeMap<u64, PendingOp>,
    pub by_id: HashMap<OpId, u64>,
    by_key: HashMap<DocKey, BTreeSet<u64>>,
    /// Those that wait for the server's answer, and those that it refused.
    pub waiting: BTreeSet<u64>,
    parked: BTreeSet<u64>,
    last_order: u64,
    pub last_rowid: i64,
    pub mark: JournalMark,
    pub journal: super::history::Journal,
    pub application: Box<dyn Application>,
    /// Documents whose operations must be gone through anew.
    pub stale: BTreeSet<DocKey>,
    /// Operations just issued, after every other on their documents.
    fresh: BTreeSet<u64>,
    /// What all operations together make of each document.
    tops: HashMap<DocKey, Option<State>>,
    pins: PinReading,
    /// Not before that time: operations failed lately.
    pub not_before_ms: u64,
    /// Operations accepted under the session's present name, by their places in its order.
    pub accepted: BTreeMap<u64, OpId>,
    /// Ids of accepted operations that a later epoch of the server does not hold (R8).
    pub lost_by_server: Vec<OpId>,
}

/// The reading of documents that operations stand on.
#[derive(Default)]
struct PinReading {
    is_under_way: bool,
    /// Not before that time: the device failed.
    not_before_ms: u64,
}

/// Delay after the device could not read what operations stand on.
const PIN_RETRY_MS: u64 = 1_000;

impl Writes {
    /// The operations as they rest.
    pub fn new(at_rest: JournalAtRest, mark: JournalMark, application: Box<dyn Application>) -> Self {
        let mut writes = Writes {
            ops: BTreeMap::new(),
            by_id: HashMap::new(),
            by_key: HashMap::new(),
            waiting: BTreeSet::new(),
            parked: BTreeSet::new(),
            last_order: 0,
            last_rowid: 0,
            mark,
            journal: super::history::Journal::default(),
            application,
            stale: BTreeSet::new(),
            fresh: BTreeSet::new(),
            tops: HashMap::new(),
            pins: PinReading::default(),
            not_before_ms: 0,
            accepted: BTreeMap::new(),
            lost_by_server: Vec::new(),
        };
        writes.restore(at_rest);
        writes
    }

    pub fn get(&self, id: &str) -> Option<&PendingOp> {
        self.ops.get(self.by_id.get(id)?)
    }

    pub fn get_mut(&mut self, id: &str) -> Option<&mut PendingOp> {
        self.ops.get_mut(self.by_id.get(id)?)
    }

    /// Takes an operation in at its order.
    pub fn insert(&mut self, op: PendingOp) {
        let order = op.state.order;
        let is_last = order > self.last_order;
        self.last_order = self.last_order.max(order);
        self.by_id.insert(op.state.id.clone(), order);
        for key in &op.keys {
            self.by_key.entry(key.clone()).or_default().insert(order);
            if !is_last {
                self.stale.insert(key.clone());
            }
        }
        self.fresh.insert(order);
        self.ops.insert(order, op);
        self.sort(order);
    }

    /// An operation's state has changed: whom it waits for has.
    pub fn sort(&mut self, order: u64) {
        let op = self.ops.get(&order);
        for (set, is_in) in [
            (&mut self.waiting, op.is_some_and(PendingOp::is_waiting)),
            (&mut self.parked, op.is_some_and(|op| op.state.refused.is_some())),
        ] {
            if is_in {
                set.insert(order);
            } else {
                set.remove(&order);
            }
        }
    }

    /// Takes an operation out.
    pub fn remove(&mut self, order: u64) -> Option<PendingOp> {
        let op = self.ops.remove(&order)?;
        self.by_id.remove(&op.state.id);
        for key in &op.keys {
            if let Some(orders) = self.by_key.get_mut(key) {
                orders.remove(&order);
                if orders.is_empty() {
                    self.by_key.remove(key);
                    self.tops.remove(key);
                }
            }
            self.stale.insert(key.clone());
        }
        self.fresh.remove(&order);
        self.sort(order);
        Some(op)
    }

    pub fn next_order(&self) -> u64 {
        self.last_order + 1
    }

    /// The operations that stand on a document, in order.
    pub fn on(&self, key: &DocKey) -> impl DoubleEndedIterator<Item = &PendingOp> {
        self.by_key.get(key).into_iter().flatten().filter_map(|order| self.ops.get(order))
    }

    /// Those before that place in the order.
    pub fn on_before(&self, key: &DocKey, order: u64) -> impl DoubleEndedIterator<Item = &PendingOp> {
        let orders = self.by_key.get(key).into_iter().flat_map(move |orders| orders.range(..order));
        orders.filter_map(|order| self.ops.get(order))
    }

    /// Operations that wait behind a refused one (R12).
    pub fn held(&self) -> HashSet<OpId> {
        let mut held: HashSet<OpId> = HashSet::new();
        let Some(first) = self.parked.first() else { return held };
        let mut blocked: HashSet<&DocKey> = HashSet::new();
        let mut stopped: HashSet<&str> = HashSet::new();
        for (_, op) in self.ops.range(first..).filter(|(_, op)| op.state.accepted.is_none()) {
            let depends = op.keys.iter().any(|key| blocked.contains(key))
                || op.state.after.iter().any(|id| stopped.contains(id.as_str()));
            if op.state.refused.is_some() || depends {
                blocked.extend(op.keys.iter());
                stopped.insert(&op.state.id);
                if op.state.refused.is_none() {
                    held.insert(op.state.id.clone());
                }
            }
        }
        held
    }

    /// How many wait for the server's answer.
    pub fn pending(&self) -> u64 {
        self.waiting.len() as u64
    }
}

impl Machine {
    /// Whether an operation could be issued: named errors before anything is written.
    pub fn check_write(&self, name: &str, args: &Value) -> Result<()> {
        if name.is_empty() || name.len() > crate::limits::NAME_CHARS_MAX {
            return Err(Error::new(Code::BadOption, "an operation's name has 1 to 64 characters"));
        }
        let changes = changes_of(self.memory.schema(), name, args)?.unwrap_or_default();
        let bytes = crate::codec::encode(crate::codec::Format::Msgpack, args)?.len();
        if bytes > crate::limits::OPERATION_BYTES_MAX {
            let most = crate::limits::OPERATION_BYTES_MAX;
            return Err(Error::new(Code::TooLarge, format!("an operation of {bytes} bytes, {most} at most")));
        }
        for change in &changes {
            let gone = self.memory.shown(&change.key).is_some_and(|shown| shown.data.is_none());
            if gone && !matches!(change.kind, crate::journal::ChangeKind::Put(_)) {
                return Err(Error::new(Code::NotFound, "the document is deleted: only a put restores it"));
            }
        }
        Ok(())
    }

    pub(super) fn write(&mut self, write: Write) -> Result<()> {
        let order = self.writes.next_order();
        self.issue(write, order)
    }

    /// Takes an operation in at that place in the order.
    pub(super) fn issue(&mut self, write: Write, order: u64) -> Result<()> {
        let changes = changes_of(self.memory.schema(), &write.name, &write.args)?;
        let mut keys = write.touches;
        keys.extend(changes.iter().flatten().map(|change| change.key.clone()));
        keys.sort_unstable();
        keys.dedup();
        let state = OpState {
            order,
            id: write.id,
            name: write.name,
            args: write.args,
            at: self.clock.wall_ms,
            touches: keys.iter().map(|key| (self.memory.class_name(key), key.1.clone())).collect(),
            after: write.after,
            base: None,
            accepted: None,
            seq: None,
            refused: None,
        };
        for key in &keys {
            self.memory.pin(key);
        }
        let mut op = PendingOp::new(state, keys);
        op.changes = changes;
        self.writes.insert(op);
        Ok(())
    }

    /// What is due for operations after an event: their optimistic parts, their actions, and the overlay.
    pub(super) fn advance_writes(&mut self) -> Result<()> {
        let touched = self.memory.take_touched();
        self.writes.stale.extend(touched);
        self.show_operations()?;
        self.read_pins();
        Ok(())
    }

    /// Brings the overlay in step with the base and the operations.
    pub(super) fn show_operations(&mut self) -> Result<()> {
        // Again where an optimistic part proved to touch more documents; one that never ends waits for the next event.
        for _ in 0..OPTIMISTIC_ROUNDS {
            if self.writes.stale.is_empty() && self.writes.fresh.is_empty() {
                break;
            }
            self.go_through()?;
        }
        Ok(())
    }

    /// The subscriptions of a class have changed: what is shown may be in other defs.
    pub(super) fn show_again(&mut self, def: &crate::model::Def) {
        let Some(position) = self.memory.schema().position(def.class()) else { return };
        let shown = self.writes.by_key.keys().filter(|(class, _)| usize::from(*class) == position);
        self.writes.stale.extend(shown.cloned());
    }

    /// Goes through the operations on stale documents in order, once, and lays what they make of them over; those just
    /// issued go on from what the others made.
    fn go_through(&mut self) -> Result<()> {
        let stale = self.with_neighbours();
        let fresh = std::mem::take(&mut self.writes.fresh);
        let mut orders: BTreeSet<u64> = fresh.clone();
        orders.extend(stale.iter().filter_map(|key| self.writes.by_key.get(key)).flatten());
        let mut states: HashMap<DocKey, Known> = HashMap::new();
        for key in stale.iter().chain(fresh.iter().filter_map(|order| self.writes.ops.get(order)).flat_map(|op| &op.keys))
        {
            if states.contains_key(key) {
                continue;
            }
            let first = self.writes.by_key.get(key).and_then(BTreeSet::first);
            let is_whole = stale.contains(key) || first.is_some_and(|first| fresh.contains(first));
            let state = match (is_whole, self.writes.tops.get(key)) {
                (true, _) => self.base_state(key),
                (false, Some(state)) => Known::State(state.clone()),
                (false, None) => Known::NotYet,
            };
            states.insert(key.clone(), state);
        }
        let mut covered: HashSet<DocKey> = HashSet::new();
        for order in orders {
            self.run_optimistic_part(order, &mut states);
            self.prepare_op(order, &states)?;
            self.apply_op(order, &mut states, &mut covered);
        }
        for (key, state) in states {
            let is_covered = covered.contains(&key) || (!stale.contains(&key) && self.memory.shown(&key).is_some());
            if !is_covered {
                self.memory.unshow(&key);
            }
            let Known::State(state) = state else {
                // Computed when its data has been read.
                self.writes.tops.remove(&key);
                continue;
            };
            if is_covered {
                self.memory.show(&key, state.as_ref())?;
            }
            if self.writes.by_key.contains_key(&key) {
                self.writes.tops.insert(key, state);
            }
        }
        Ok(())
    }

    /// The stale documents, with those that share an operation with them.
    fn with_neighbours(&mut self) -> BTreeSet<DocKey> {
        let mut stale = std::mem::take(&mut self.writes.stale);
        let mut queue: Vec<DocKey> = stale.iter().cloned().collect();
        while let Some(key) = queue.pop() {
            for op in self.writes.on(&key).filter(|op| op.keys.len() > 1) {
                for other in &op.keys {
                    if stale.insert(other.clone()) {
                        queue.push(other.clone());
                    }
                }
            }
        }
        stale
    }

    /// Whether an operation's effect is laid over a document.
    fn is_shown_on(&self, op: &PendingOp, key: &DocKey) -> bool {
        op.is_shown_on(key, self.memory.document(key).map(|document| document.at), self.memory.epoch().1)
    }

    /// A document as the server has told it.
    fn base_state(&self, key: &DocKey) -> Known {
        match self.memory.base(key) {
            Base::Known(state) => Known::State(Some(state)),
            Base::Absent | Base::Lost => Known::State(None),
            Base::AtRest => Known::NotYet,
        }
    }

    /// Runs the application's optimistic part on what the operations before it have made.
    fn run_optimistic_part(&mut self, order: u64, states: &mut HashMap<DocKey, Known>) {
        let op = &self.writes.ops[&order];
        if op.state.refused.is_some() || is_built_in(&op.state.name) {
            return;
        }
        let mut touched: Vec<DocKey> = Vec::new();
        // Documents that no operation after it stands on: it goes on from what those before have made.
        let mut joined: Vec<(DocKey, Known)> = Vec::new();
        let mut is_complete = true;
        let mut read = |key: &DocKey| {
            let known = states.get(key).or_else(|| joined.iter().find(|(joined, _)| joined == key).map(|(_, s)| s));
            let elsewhere;
            let state = match known {
                Some(state) => state,
                None => {
                    elsewhere = match self.top(key, order) {
                        Some(state) => {
                            joined.push((key.clone(), state.clone()));
                            state
                        }
                        None => self.state_before(key, order),
                    };
                    &elsewhere
                }
            };
            touched.push(key.clone());
            match state {
                Known::State(state) => state.clone(),
                Known::NotYet => {
                    is_complete = false;
                    None
                }
            }
        };
        let result = self.writes.application.optimistic(&op.state.name, &op.state.args, &mut read);
        let changes = match result {
            None => Vec::new(),
            Some(Ok(changes)) => changes,
            // What the application throws concerns its own screen: the operation itself goes on.
            Some(Err(error)) => {
                self.error = Some(error);
                Vec::new()
            }
        };
        for (key, state) in joined {
            self.stand_on(order, &key);
            states.insert(key, state);
        }
        touched.extend(changes.iter().map(|change| change.key.clone()));
        self.touch(order, touched);
        if is_complete {
            self.writes.ops.get_mut(&order).expect("listed").changes = Some(changes);
        }
    }

    /// Makes of the documents what an operation does to them, where their base does not contain it already.
    fn apply_op(&self, order: u64, states: &mut HashMap<DocKey, Known>, covered: &mut HashSet<DocKey>) {
        let op = &self.writes.ops[&order];
        for change in op.changes.iter().flatten() {
            if !self.is_shown_on(op, &change.key) {
                continue;
            }
            if !covered.contains(&change.key) {
                covered.insert(change.key.clone());
            }
            if let Some(Known::State(state)) = states.get_mut(&change.key) {
                *state = change.kind.apply(state.take());
            }
        }
    }

    /// An operation stands on these documents too.
    fn touch(&mut self, order: u64, keys: Vec<DocKey>) {
        for key in keys {
            if self.stand_on(order, &key) {
                self.writes.stale.insert(key);
            }
        }
    }

    /// An operation stands on this document. Gives whether that is new.
    fn stand_on(&mut self, order: u64, key: &DocKey) -> bool {
        let touched = (self.memory.class_name(key), key.1.clone());
        let Some(op) = self.writes.ops.get_mut(&order).filter(|op| !op.keys.contains(key)) else { return false };
        op.keys.push(key.clone());
        op.state.touches.push(touched);
        if op.prepared {
            self.writes.journal.rewrite(order);
        }
        self.memory.pin(key);
        self.writes.by_key.entry(key.clone()).or_default().insert(order);
        true
    }

    /// What all operations on a document make of it, where that order comes after them all.
    fn top(&self, key: &DocKey, order: u64) -> Option<Known> {
        if self.writes.stale.contains(key) {
            return None;
        }
        match self.writes.by_key.get(key).and_then(BTreeSet::last) {
            None => Some(self.base_state(key)),
            Some(last) if *last < order => self.writes.tops.get(key).cloned().map(Known::State),
            Some(_) => None,
        }
    }

    /// A document as it is before the operation of that order.
    pub(super) fn state_before(&self, key: &DocKey, order: u64) -> Known {
        let Known::State(mut state) = self.base_state(key) else { return Known::NotYet };
        for op in self.writes.on_before(key, order).filter(|op| self.is_shown_on(op, key)) {
            for change in op.changes.iter().flatten().filter(|change| change.key == *key) {
                state = change.kind.apply(state);
            }
        }
        Known::State(state)
    }

    /// Completes an operation once the documents it stands on are known: the version it expects, and its actions.
    fn prepare_op(&mut self, order: u64, states: &HashMap<DocKey, Known>) -> Result<()> {
        let op = &self.writes.ops[&order];
        if op.prepared {
            return Ok(());
        }
        let Some(changes) = op.changes.clone() else { return Ok(()) };
        let is_known = |key: &DocKey| matches!(states.get(key), Some(Known::State(_)));
        if !op.keys.iter().all(is_known) {
            return Ok(());
        }
        if let ([change], true) = (&changes[..], op.state.name.starts_with("doc.")) {
            let before = match &states[&change.key] {
                Known::State(before) => before.as_ref().map(crate::codec::Data::from_map).transpose()?,
                Known::NotYet => None,
            };
            self.expect_version(order, change, before);
        }
        let at = self.clock.wall_ms;
        let mut actions: Vec<Action> = Vec::new();
        let mut seen: BTreeSet<DocKey> = BTreeSet::new();
        for change in changes {
            let Known::State(before) = &states[&change.key] else { continue };
            if !seen.insert(change.key.clone()) {
                continue;
            }
            let mut after = before.clone();
            let op = &self.writes.ops[&order];
            for change in op.changes.iter().flatten().filter(|other| other.key == change.key) {
                after = change.kind.apply(after);
            }
            let begins = before.is_none() && after.is_some();
            let data = after.as_ref().map(crate::codec::Data::from_map).transpose()?;
            for (kind, data) in [
                (if begins { ActionType::Create } else { ActionType::Update }, None),
                (ActionType::Persist, data),
            ] {
                self.writes.last_rowid += 1;
                let (rowid, class, pk) =
                    (self.writes.last_rowid, self.memory.class_name(&change.key), change.key.1.clone());
                actions.push(Action { rowid, class, pk, kind, at, commit: None, data });
            }
        }
        let op = self.writes.ops.get_mut(&order).expect("the operation is there");
        op.actions = actions;
        op.prepared = true;
        self.writes.journal.rewrite(order);
        Ok(())
    }

    /// A class that settles its conflicts lets its operations expect the version that they were made on, and keeps what
    /// the document was then, earlier operations included.
    fn expect_version(&mut self, order: u64, change: &Change, before: Option<crate::codec::Data>) {
        let class = self.memory.class_name(&change.key);
        if self.writes.application.policy(&class) == Policy::Ask {
            return;
        }
        let earlier = self.writes.on_before(&change.key, order).rfind(|op| self.is_shown_on(op, &change.key));
        let expected = match (&change.if_version, earlier) {
            (Some(expected), _) => expected.clone(),
            (None, Some(op)) => IfVersion::Of(op.state.id.clone()),
            (None, None) => IfVersion::At(self.memory.document(&change.key).map_or(0, |document| document.at.v)),
        };
        let op = self.writes.ops.get_mut(&order).expect("the operation is there");
        op.state.base = op.state.base.take().or(before);
        op.expect(Some(expected));
    }

    fn read_pins(&mut self) {
        if self.writes.pins.is_under_way || self.clock.mono_ms < self.writes.pins.not_before_ms {
            return;
        }
        let ids = self.memory.pins_at_rest();
        let places: BTreeSet<u64> =
            ids.iter().filter_map(|id| self.memory.by_id(*id)?.1.rest).map(|place| place.page).collect();
        let Some(rest) = self.rest.as_ref().filter(|_| !places.is_empty()) else { return };
        let pages: Vec<u64> = places.into_iter().collect();
        let keys = pages.iter().map(|page| rest.page_key(*page)).collect();
        let ticket = self.reads.start(Reading { pages, purpose: Purpose::Pins { ids } });
        self.writes.pins.is_under_way = true;
        self.effects.push(Effect::ReadPages { ticket, keys });
    }

    /// The data of documents that operations stand on has been read, or could not be.
    pub(super) fn pins_read(&mut self, found: Vec<(u32, crate::codec::Data)>) {
        self.writes.pins.is_under_way = false;
        for (id, data) in found {
            let key = self.memory.by_id(id).map(|(key, _)| key.clone());
            self.memory.hold(id, data);
            self.writes.stale.extend(key);
        }
    }

    /// The device could not read them: it is asked again later.
    pub(super) fn pins_failed(&mut self) {
        self.writes.pins.is_under_way = false;
        self.writes.pins.not_before_ms = self.clock.mono_ms + PIN_RETRY_MS;
    }

    /// When what operations stand on is to be read again, where the device failed.
    pub(super) fn pins_due(&self) -> Option<u64> {
        (!self.writes.pins.is_under_way).then_some(self.writes.pins.not_before_ms)
    }

    /// The key of a document by its class and key properties.
    pub fn key_of(&self, class: &str, parts: &[&str]) -> Result<DocKey> {
        let class = self.memory.schema().class(class)?;
        let position = self.memory.schema().position(class.name()).expect("a class of the schema");
        Ok((position as u16, class.pk_of(parts)?))
    }

    /// Operations that are not over, in order, each with whether it is held behind a refused one.
    pub fn operations(&self) -> Vec<(&PendingOp, bool)> {
        let held = self.writes.held();
        self.writes.ops.values().map(|op| (op, held.contains(&op.state.id))).collect()
    }

    /// Ids of accepted operations that a later epoch of the server's database does not hold (R8).
    pub fn lost_by_server(&self) -> &[OpId] {
        &self.writes.lost_by_server
    }
}

/// A state, unless its base is still to be read.
#[derive(Clone)]
pub(super) enum Known {
    State(Option<State>),
    NotYet,
}

fn is_built_in(name: &str) -> bool {
    matches!(name, "doc.put" | "doc.patch" | "doc.delete" | "batch")
}
