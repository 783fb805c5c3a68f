//! Checks the application's view. At every point in time it is the base, with the pending operations that the
//! base does not contain, in order. At the end no saved operation is lost or executed twice (R10 to R12).

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use escale::journal::PendingOp;
use escale::memory::Content;
use escale::model::{Def, DefKind, Value};
use escale::sync::Machine;

use super::World;
use super::trees::is_items;
use super::writes::{Concerned, End};
use crate::backend::Backend;
use crate::outcome::{key_of, outcome};
use crate::schema::{Key, Map, is_sequence, tree_of, with};

impl<S: Backend> World<S> {
    /// Checked after every event.
    pub(super) fn check_overlay(&mut self, number: usize) {
        let client = &mut self.clients[number];
        let Some(machine) = &client.machine else { return };
        client.ledger.lost_by_server.extend(machine.lost_by_server().iter().cloned());
        if client.ledger.intents.are_open() {
            client.ledger.intents.note(&machine.operations());
        }
        let client = &self.clients[number];
        let Some(machine) = &client.machine else { return };
        let ops = machine.operations();
        let held = ops.iter().filter(|(_, held)| *held).map(|(op, _)| &op.state.issued.id);
        let (server, of, known) = (&self.server, client.setup.tenant, &client.ledger.forgotten);
        let forgotten: Vec<String> =
            held.filter(|id| !known.contains(*id) && server.result(of, id).is_some()).cloned().collect();
        if !forgotten.is_empty() {
            self.clients[number].ledger.forgotten.extend(forgotten);
            return self.check_overlay(number);
        }
        if self.was_restored && machine.memory().epoch().0 != Some(self.server.epoch(of.org)) {
            return; // It shows an effect that the server has undone. No reply has said so yet (R8).
        }
        let ops: Vec<Pending> = ops.into_iter().map(|(op, _)| (op, client.ledger.concerned(op))).collect();
        let keys: BTreeSet<&Key> = ops.iter().flat_map(|(_, concerned)| &concerned.keys).collect();
        let lists = if keys.is_empty() { Vec::new() } else { lists_of(machine) };
        let view = View { machine, ops: &ops, lists };
        for key in keys {
            self.check_key(number, &view, key);
        }
        if self.watches_flicker {
            self.check_counters(number);
        }
    }

    /// The version that the server gave to a document by executing an operation, in the current epoch. On the clock
    /// `sequence` it is a number of the tree; no version contains an operation that took none there.
    fn executed(&self, number: usize, id: &str, key: &Key) -> Option<u64> {
        let result = self.server.result(self.clients[number].setup.tenant, id)?;
        let ok = result.ok.as_ref()?;
        if !is_sequence(&key.0) {
            return Some(ok.v);
        }
        let tree = tree_of(key).unwrap_or_else(|| key.clone());
        let given = ok.trees.iter().find(|(class, pk, _)| (class, pk) == (&tree.0, &tree.1));
        Some(given.map_or(u64::MAX, |(_, _, n)| *n))
    }

    fn check_key(&self, number: usize, view: &View, key: &Key) {
        let View { machine, ops, .. } = view;
        let of = self.clients[number].setup.tenant;
        let memory = machine.memory();
        let (epoch, era) = memory.epoch();
        let doc_key = memory.doc_key(&key.0, &key.1).expect("a class");
        let document = memory.document(&doc_key);
        let is_on_it = |(op, concerned): &&Pending| op.keys.contains(&doc_key) || concerned.ends(key);
        let mut on_it: Vec<&Pending> = ops.iter().filter(is_on_it).collect();
        // The session does not know the parent of an item that it holds by itself, if no operation tells its key. A refused
        // one is not run again: it tells nothing if the session did not have the item when it ran.
        let has_changed = |op: &PendingOp| op.changes.iter().flatten().any(|change| change.key == doc_key);
        let tells = |(op, _): &&Pending| {
            op.keys.contains(&doc_key)
                && op.state.issued.name != "blind"
                && (op.state.refused.is_none() || has_changed(op))
        };
        let is_told = on_it.iter().any(tells);
        if !is_told && !document.is_some_and(|document| document.defs.iter().any(is_items)) {
            on_it.retain(|(op, _)| op.keys.contains(&doc_key));
        }
        // The operations that the server has executed in this epoch, and whose effects the machine may have
        // seen.
        let executed: BTreeMap<&str, u64> = on_it
            .iter()
            .filter_map(|(op, _)| {
                Some((op.state.issued.id.as_str(), self.executed(number, &op.state.issued.id, key)?))
            })
            .collect();
        // Executed, and blocked again: the device forgot that the refused operation before it was discarded
        // or amended.
        if on_it.iter().any(|(op, _)| self.clients[number].ledger.forgotten.contains(&op.state.issued.id)) {
            return;
        }
        let (mut state, base_v): (Option<Map>, u64) = match document {
            None if executed.is_empty() => (None, 0),
            None => return,
            Some(document) => {
                if epoch != Some(self.server.epoch(of.org))
                    || document.at.era != era
                    || document.defs.is_empty()
                {
                    return;
                }
                if matches!(document.content, Content::AtRest) && self.clients[number].reading > 0 {
                    return;
                }
                if matches!(document.content, Content::Lost) || document.max_life.is_some() {
                    return;
                }
                let history = self.server.history(of.org, self.server.epoch(of.org)).unwrap_or_default();
                let mut written = history.iter().rev();
                let entry = written.find(|entry| entry.key == *key && entry.v == document.at.v);
                let Some(entry) = entry else { panic!("a base that nobody wrote") };
                (Some(entry.data.clone()), document.at.v)
            }
        };
        let base = state.clone();
        for (op, concerned) in on_it.iter().filter(|(op, _)| op.state.refused.is_none()) {
            if executed.get(op.state.issued.id.as_str()).is_some_and(|v| base_v >= *v) {
                continue;
            }
            // The server refused it, and the machine may know the server's progress: then the operation has
            // no effect.
            let result = self.server.result(of, &op.state.issued.id);
            let is_refused = result.is_some_and(|result| result.fault.is_some());
            // It knows of this epoch alone.
            let is_seen = op.state.seen == Some(era) || op.seen_on.get(&doc_key) == Some(&era);
            if is_refused && is_seen {
                continue;
            }
            if op.changes.is_none() {
                return; // It has not run yet: its documents are being read.
            }
            if concerned.keys.contains(key) || concerned.ends(key) {
                state = apply(&op.state.issued.name, &op.state.issued.args, key, state);
            }
        }
        if state.as_ref().is_some_and(|state| state.contains_key("maxLife")) {
            return; // The document is hidden at its end.
        }
        let id = machine.find(&key.0, &key.1);
        let seen = match (id, id.and_then(|id| memory.shown_by_id(id))) {
            (None, _) => None,
            (Some(_), Some((_, shown))) => shown.data.clone().map(|data| data.to_map().expect("a map")),
            (Some(_), None) => base.clone(),
        };
        // The server has refused the deletion of its parent, and this session does not know that yet.
        let is_open = |op: &PendingOp| op.state.refused.is_none() && op.state.accepted.is_none();
        if seen.is_none() && on_it.iter().any(|(op, concerned)| concerned.ends(key) && is_open(op)) {
            return;
        }
        let place = || {
            format!(
                "client {number}, {key:?}, content {:?} era {:?} {era}, base at {base_v}, executed {executed:?}, operations {on_it:#?}",
                document.map(|d| &d.content),
                document.map(|d| d.at)
            )
        };
        // A server adds the release to data without one. A session's view of its own operation may still lack
        // it.
        let bare = |state: &Option<Map>| {
            let mut state = state.clone();
            state.as_mut().map(|map| map.remove("release"));
            state
        };
        assert_eq!(bare(&seen), bare(&state), "overlay: {}", place());
        self.check_membership(view, key, (base.as_ref(), state.as_ref()), id, &place);
    }

    /// Membership follows the overlay: by the data if it differs from the base's, otherwise by the server's
    /// decision.
    fn check_membership(
        &self,
        View { machine, lists, .. }: &View,
        key: &Key,
        (base, state): (Option<&Map>, Option<&Map>),
        id: Option<u32>,
        place: &dyn Fn() -> String,
    ) {
        let memory = machine.memory();
        let document = memory.document(&memory.doc_key(&key.0, &key.1).expect("a class"));
        let linked = document.map(|d| d.defs.clone());
        let is_at_rest = document.is_some_and(|d| matches!(d.content, Content::AtRest));
        for (def, ids) in lists.iter().filter(|(def, _)| *def.class() == key.0) {
            let is_in = id.is_some_and(|id| ids.contains(&id));
            let wanted = match (def.kind(), state) {
                (_, None) => false,
                (DefKind::Class, Some(_)) if state != base => true,
                (DefKind::Document(pk), Some(_)) if state != base => *pk == key.1,
                (DefKind::Collection(name, _), Some(state)) if Some(state) != base => {
                    let (before, now) = with(|schema| {
                        let class = schema.class(key.0.as_str()).expect("a class");
                        let found = class.collections().iter().find(|c| c.name() == name);
                        let collection = found.expect("a collection");
                        let hashes =
                            |map: &Map| collection.memberships(map).ok().flatten().unwrap_or_default();
                        (base.map(hashes), hashes(state))
                    });
                    if before.as_ref() == Some(&now) {
                        continue; // By the server's decision, which other checks cover.
                    }
                    now.iter().any(|hash| Def::collection_hashed(&key.0, name, hash) == **def)
                }
                // The overlay equals the base. The session cannot tell while the device alone has the base's data.
                _ if is_at_rest && is_in => continue,
                _ => linked.as_ref().is_some_and(|defs| defs.contains(*def)),
            };
            assert_eq!(is_in, wanted, "membership of {def}: {}", place());
        }
    }

    /// Only this client writes, and only adds: a value that it sees never goes back.
    fn check_counters(&mut self, number: usize) {
        let now: BTreeMap<Key, i64> = (0..3)
            .filter_map(|n| {
                let key = crate::schema::key(n);
                Some((key.clone(), self.counter(number, &key)?))
            })
            .collect();
        for (key, before) in &self.clients[number].ledger.counters {
            if let Some(after) = now.get(key) {
                assert!(after >= before, "flicker: {key:?} went from {before} back to {after}");
            } else {
                panic!("flicker: {key:?} is gone");
            }
        }
        self.clients[number].ledger.counters = now;
    }

    fn counter(&self, number: usize, key: &Key) -> Option<i64> {
        let machine = self.clients[number].machine.as_ref()?;
        let id = machine.find(&key.0, &key.1)?;
        let n = |data: &Map| data.get("n").and_then(Value::as_f64).unwrap_or(0.0) as i64;
        match machine.memory().shown_by_id(id) {
            Some((_, shown)) => Some(n(&shown.data.as_ref()?.to_map().expect("a map"))),
            None => {
                let v = machine.memory().by_id(id)?.1.at.v;
                let org = self.clients[number].setup.tenant.org;
                let history = self.server.history(org, self.server.epoch(org))?;
                let entry = history.iter().find(|entry| entry.key == *key && entry.v == v)?;
                Some(n(&entry.data))
            }
        }
    }

    /// At the end, the application decides about refused operations until none is left.
    pub fn drain(&mut self) {
        for round in 0..400 {
            let mut is_over = true;
            for number in 0..self.clients.len() {
                let machine = self.clients[number].machine.as_ref().expect("an open client");
                let operations = machine.operations();
                is_over &= operations.is_empty();
                if operations.iter().any(|(op, _)| op.state.refused.is_some()) {
                    self.resolve(number, round % 3 == 0);
                }
            }
            if is_over {
                return;
            }
            self.run_for(500);
        }
        let machines = self.clients.iter().filter_map(|client| client.machine.as_ref());
        let left: Vec<_> = machines.flat_map(|machine| machine.operations()).collect();
        panic!("operations are never over: {left:#?}");
    }

    /// Every saved operation has ended as reported, and none was executed twice (R10, R11).
    pub fn compare_operations(&self) {
        let mut seen = BTreeSet::new();
        for executed in self.server.executed() {
            assert!(seen.insert(executed), "R11: executed twice: {executed:?}");
        }
        if !self.was_restored {
            // A lost effect may have come back through a late request.
            self.compare_order();
        }
        self.compare_intents();
        for (number, client) in self.clients.iter().enumerate() {
            for (id, issued) in client.ledger.ops.iter().filter(|(_, issued)| issued.saved) {
                if client.ledger.lost_by_server.contains(id) {
                    continue;
                }
                let result = self.server.result(client.setup.tenant, id);
                let is_ok = result.is_some_and(|result| result.ok.is_some());
                match &issued.end {
                    Some(End::Accepted(v)) => {
                        // Both sides deleted it: accepted without a separate transaction. The answer that said so
                        // may be of an epoch that has ended.
                        let results = self.server.results(client.setup.tenant, id);
                        let both = results.iter().any(|result| result.fault.is_some())
                            || (self.was_restored && *v == 0);
                        // Without a subscription, this client does not know that the server was restored
                        // (R8).
                        let machine = client.machine.as_ref().expect("an open client");
                        let org = client.setup.tenant.org;
                        let is_told = machine.memory().epoch().0 == Some(self.server.epoch(org));
                        assert!(
                            is_ok || both || !is_told || (self.was_restored && !issued.is_remembered),
                            "R11: client {number}, {id} was accepted, and is not there"
                        );
                    }
                    Some(_) => {
                        assert!(!is_ok, "R11: client {number}, {id} {:?}, and was executed", issued.end)
                    }
                    // Reported by an epoch that has ended, or in an epoch of which nobody heard.
                    None => assert!(
                        result.is_some() || self.was_restored,
                        "R10: client {number}, {id} was saved, and never sent"
                    ),
                }
            }
        }
    }
}

impl<S: Backend> World<S> {
    /// R12: the operations on one document were executed in the order issued, amended ones in the position of
    /// the refused.
    fn compare_order(&self) {
        for (number, client) in self.clients.iter().enumerate() {
            let mut last: BTreeMap<&Key, usize> = BTreeMap::new();
            let of = client.setup.tenant;
            let executed = self.server.executed().into_iter().filter(|(tenant, _)| *tenant == of);
            for issued in
                executed.filter_map(|(_, id)| client.ledger.ops.get(id)).filter(|issued| issued.place > 0)
            {
                for key in &issued.keys {
                    let before = last.insert(key, issued.place).unwrap_or(0);
                    assert!(
                        before < issued.place,
                        "R12: client {number}, {key:?}: {} after {before}",
                        issued.place
                    );
                }
            }
        }
    }
}

/// The effect of an operation on one document.
fn apply(name: &str, args: &Value, key: &Key, state: Option<Map>) -> Option<Map> {
    if name == "blind" {
        return state;
    }
    if name != "batch" {
        let of = key_of(args);
        if name == "doc.delete" && tree_of(key).as_ref() == Some(&of) {
            return None; // R19
        }
        // An impossible operation has no effect on the overlay: the server will refuse it.
        return if of == *key { outcome(name, args, state.clone()).unwrap_or(None) } else { state };
    }
    let ops = args.as_map().expect("arguments")["ops"].as_array().expect("operations");
    ops.iter().fold(state, |state, op| {
        let map = op.as_map().expect("an operation");
        apply(map["name"].as_str().expect("a name"), &map["args"], key, state)
    })
}

/// An operation that waits, and the documents that it concerns.
type Pending<'a> = (&'a PendingOp, Rc<Concerned>);

/// The view of one session's application, at one point in time.
struct View<'a> {
    machine: &'a Machine,
    ops: &'a [Pending<'a>],
    /// The ids in each subscribed collection.
    lists: Vec<(&'a Def, Vec<u32>)>,
}

fn lists_of(machine: &Machine) -> Vec<(&Def, Vec<u32>)> {
    let defs = machine.memory().collections().map(|(def, _)| def);
    defs.map(|def| (def, machine.list(def).expect("subscribed").0)).collect()
}
