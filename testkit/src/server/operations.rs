//! Operations (R11, R12), written from the protocol alone: executed in order, each in one transaction with
//! its result.
#![allow(clippy::result_large_err)] // a fault is as large as the information that the session needs

use std::collections::{BTreeMap, BTreeSet};

use escale::Code;
use escale::codec::{Data, Fault, Op, OpOk, OpResult, Row, SyncRequest};
use escale::model::{Value, Version};

use super::database::tree_of;
use super::{Committed, Database, Idle, ModelServer, Write};
use crate::outcome::{key_of, outcome, text};
use crate::schema::{Key, Map, is_sequence};

/// A session as the server knows it.
#[derive(Clone, Debug, Default)]
pub struct Session {
    /// The last operation executed.
    pub last: u64,
}

/// The server's records of operations, backed up and restored with the documents.
#[derive(Clone, Debug, Default)]
pub struct Operations {
    pub sessions: BTreeMap<String, Session>,
    /// By account and id.
    pub results: BTreeMap<(usize, String), OpResult>,
    /// The names of the operations.
    pub names: BTreeMap<(usize, String), String>,
    /// All executed operations in order. One that occurs twice would break R11.
    pub executed: Vec<(usize, String)>,
}

/// A transaction in progress, with its changes of documents.
struct Draft<'a> {
    db: &'a Database,
    idle: Idle,
    account: usize,
    states: BTreeMap<Key, Option<Map>>,
    /// Parents that it has deleted: their items are gone, even if it creates the parent again.
    ended: BTreeSet<Key>,
    value: Option<Value>,
}

impl ModelServer {
    /// Receives the operations of a request. Those of another epoch are not executed.
    pub fn operate(
        &mut self,
        account: usize,
        request: &SyncRequest,
        at: (usize, u64),
        is_contended: &mut dyn FnMut() -> bool,
    ) -> (Vec<OpResult>, Vec<Committed>) {
        if request.epoch.as_ref().is_none_or(|epoch| *epoch == self.db.epoch) {
            return self.execute(account, &request.session, &request.ops, at, is_contended);
        }
        let not_executed = |op| failed(op, Fault::new(Code::Contention, "another epoch"));
        (request.ops.first().map(not_executed).into_iter().collect(), Vec::new())
    }

    /// Executes the operations of a request. `is_contended` tells whether the next one meets contention.
    pub fn execute(
        &mut self,
        account: usize,
        session: &str,
        ops: &[Op],
        (instance, now): (usize, u64),
        is_contended: &mut dyn FnMut() -> bool,
    ) -> (Vec<OpResult>, Vec<Committed>) {
        let (mut results, mut commits) = (Vec::new(), Vec::new());
        let mut rest = ops.iter();
        for op in &mut rest {
            let contended = is_contended();
            let result = self.execute_one(account, session, op, (instance, now), contended, &mut commits);
            let ends = result.fault.as_ref().is_some_and(|fault| fault.kind.is_retryable());
            results.push(result);
            if ends {
                break;
            }
        }
        let known = |op: &Op| self.db.operations.results.get(&(account, op.id.clone())).cloned();
        results.extend(rest.filter_map(known));
        (results, commits)
    }

    /// Another copy of the request may have executed further operations by the time of the reply's snapshot.
    /// Their results are then added. The effects of the others are not in the parts.
    pub fn complete(&self, account: usize, ops: &[Op], results: &[OpResult]) -> Vec<OpResult> {
        let operations = &self.db.operations;
        let known = |op: &Op| {
            let key = (account, op.id.clone());
            let is_same = operations.names.get(&key) == Some(&op.name);
            operations.results.get(&key).filter(|_| is_same)
        };
        let result_of = |op: &Op| results.iter().find(|result| result.id == op.id);
        // The fault that ended the results is attached to the first unknown operation. The operation that met
        // it may be known by now.
        let is_end =
            |result: &&OpResult| result.fault.as_ref().is_some_and(|fault| fault.kind.is_retryable());
        let mut is_passed = results
            .iter()
            .find(is_end)
            .is_some_and(|end| ops.iter().any(|op| op.id == end.id && known(op).is_some()));
        let mut complete = Vec::new();
        for op in ops {
            if let Some(known) = known(op) {
                complete.push(known.clone());
            } else if std::mem::take(&mut is_passed) {
                complete.push(failed(op, Fault::new(Code::Contention, "the model")));
            } else {
                complete.extend(result_of(op).cloned());
            }
        }
        complete
    }

    fn execute_one(
        &mut self,
        account: usize,
        session: &str,
        op: &Op,
        (instance, now): (usize, u64),
        contended: bool,
        commits: &mut Vec<Committed>,
    ) -> OpResult {
        let not_executed = |code: Code| failed(op, Fault::new(code, "the model"));
        // It waits for its turn to write before it is looked at.
        if contended {
            return not_executed(Code::Contention);
        }
        let known = self.db.operations.results.get(&(account, op.id.clone())).cloned();
        let of = self.db.operations.sessions.entry(session.to_owned()).or_default();
        let name = self.db.operations.names.get(&(account, op.id.clone()));
        if known.is_some() && name.is_some_and(|name| *name != op.name) {
            return not_executed(Code::BadValue);
        }
        if let Some(known) = known {
            if op.seq == of.last + 1 {
                self.keep(session, op, None);
            }
            return known;
        }
        if op.seq <= of.last {
            // If it were the same operation, its id would be known.
            return not_executed(Code::SessionReused);
        }
        if op.seq > of.last + 1 {
            return not_executed(Code::OrderGap);
        }
        let is_ok = |id: &String| {
            let result = self.db.operations.results.get(&(account, id.clone()));
            result.is_some_and(|result| result.ok.is_some())
        };
        if op.after.as_ref().is_some_and(|id| !is_ok(id)) {
            return not_executed(Code::OrderHeld);
        }
        let v = self.stamp(instance, now);
        let idle = self.habits.idle;
        let mut draft = Draft {
            db: &self.db,
            idle,
            account,
            states: BTreeMap::new(),
            ended: BTreeSet::new(),
            value: None,
        };
        let result = match draft.run(&op.name, &op.args) {
            Err(fault) if fault.kind.is_retryable() => return failed(op, fault),
            Err(fault) => failed(op, fault),
            Ok(()) => {
                let (states, ended, value) = (draft.states, draft.ended, draft.value);
                let timed = states.keys().filter(|key| !is_sequence(&key.0));
                let kept = timed.filter_map(|key| Some(self.db.docs.get(key)?.v)).max().unwrap_or(0);
                let mut numbers: BTreeMap<Key, u64> = BTreeMap::new();
                for key in states.keys().filter(|key| is_sequence(&key.0)) {
                    let kept = self.db.docs.get(key).map_or(0, |stored| stored.v);
                    let number = numbers.entry(tree_of(key).expect("a tree")).or_default();
                    *number = kept.max(*number);
                }
                let is_so_already = |(key, state): &(Key, Option<Map>)| {
                    let is_new =
                        ended.contains(key) || tree_of(key).is_some_and(|tree| ended.contains(&tree));
                    *state == self.db.living(key).cloned()
                        && idle != Idle::Written
                        && !(is_new && state.is_some())
                };
                let deletions = ended.iter().cloned().map(Write::Delete);
                let writes =
                    states.clone().into_iter().filter(|change| !is_so_already(change)).map(|(key, state)| {
                        match state {
                            Some(data) => {
                                let max_life = self.db.docs.get(&key).and_then(|stored| stored.max_life);
                                Write::Put { key, data, max_life }
                            }
                            None => Write::Delete(key),
                        }
                    });
                // Parents come before their items: the classes are in that order.
                let writes: Vec<Write> = deletions.chain(writes).collect();
                let committed = self.db.write(v, &writes);
                let v = match (committed.keys.is_empty(), idle) {
                    (true, Idle::Kept | Idle::Written) => kept,
                    (true, Idle::Zero) => 0,
                    (true, Idle::Stamped) => committed.v,
                    (false, _) => committed.v.max(kept),
                };
                numbers.extend(committed.numbers.clone());
                let trees = numbers.into_iter().filter(|(_, n)| *n > 0);
                let trees = trees.map(|((class, pk), n)| (class, pk, n)).collect();
                let ok = OpOk { v, value, trees };
                commits.push(committed);
                self.db.operations.executed.push((account, op.id.clone()));
                OpResult { id: op.id.clone(), ok: Some(ok), fault: None }
            }
        };
        self.keep(session, op, Some((account, result.clone())));
        result
    }

    fn keep(&mut self, session: &str, op: &Op, result: Option<(usize, OpResult)>) {
        let of = self.db.operations.sessions.get_mut(session).expect("a session");
        of.last = op.seq;
        if let Some((account, result)) = result {
            self.db.operations.names.insert((account, op.id.clone()), op.name.clone());
            self.db.operations.results.insert((account, op.id.clone()), result);
        }
    }

    /// The last operation of a session.
    pub fn seq(&self, session: &str) -> u64 {
        self.db.operations.sessions.get(session).map_or(0, |session| session.last)
    }
}

fn failed(op: &Op, fault: Fault) -> OpResult {
    OpResult { id: op.id.clone(), ok: None, fault: Some(fault) }
}

/// The number that an operation took in the tree of a document.
fn given_in(ok: &OpOk, key: &Key) -> Option<u64> {
    let tree = tree_of(key)?;
    ok.trees.iter().find(|(class, pk, _)| (class, pk) == (&tree.0, &tree.1)).map(|(_, _, n)| *n)
}

impl Draft<'_> {
    fn run(&mut self, op: &str, args: &Value) -> Result<(), Fault> {
        let named = if op == "batch" { "ops" } else { "class" };
        if args.as_map().is_none_or(|map| !map.contains_key(named)) {
            return Err(Fault::new(Code::BadValue, "the model"));
        }
        if op == "batch" {
            for op in args.as_map().expect("arguments")["ops"].as_array().expect("operations") {
                let map = op.as_map().expect("an operation");
                self.run(map["name"].as_str().expect("a name"), &map["args"])?;
            }
            return Ok(());
        }
        let key = key_of(args);
        self.expect(&key, args.as_map().and_then(|map| map.get("ifVersion")))?;
        let before = self.now(&key);
        let tree = tree_of(&key);
        if op == "doc.put" && tree.as_ref().is_some_and(|tree| *tree != key && self.now(tree).is_none()) {
            return Err(Fault::new(Code::NotFound, "no parent")); // R16
        }
        let after = outcome(op, args, before).map_err(|code| Fault::new(code, "the model"))?;
        if after.as_ref().is_some_and(|state| state.contains_key("poison")) {
            return Err(Fault::new(Code::NotUnique, "poisoned"));
        }
        if after.as_ref().is_some_and(|state| Data::from_map(state).is_err()) {
            return Err(Fault::new(Code::TooLarge, "the model"));
        }
        if op == "add" {
            self.value = after.as_ref().and_then(|state| state.get(text(args, "property")).cloned());
        }
        if after.is_none() && tree.as_ref() == Some(&key) {
            for (_, state) in self.states.iter_mut().filter(|(item, _)| tree_of(item) == tree) {
                *state = None;
            }
            self.ended.insert(key.clone());
        }
        self.states.insert(key, after);
        Ok(())
    }

    /// A document, as the draft leaves it so far.
    fn now(&self, key: &Key) -> Option<Map> {
        match self.states.get(key) {
            Some(state) => state.clone(),
            None if tree_of(key).is_some_and(|tree| tree != *key && self.ended.contains(&tree)) => None,
            None => self.db.living(key).cloned(),
        }
    }

    fn expect(&self, key: &Key, expected: Option<&Value>) -> Result<(), Fault> {
        let stored = self.db.docs.get(key);
        let current: Version = stored.map_or(0, |stored| stored.v);
        let is_gone = stored.is_none_or(|stored| stored.deleted);
        let (wanted, may_be_older) = match expected {
            None => return Ok(()),
            Some(Value::Map(map)) => {
                let id = map["op"].as_str().expect("an id").to_owned();
                let result = self.db.operations.results.get(&(self.account, id));
                let may_be_older = matches!(self.idle, Idle::Kept | Idle::Written);
                match result.and_then(|result| result.ok.as_ref()) {
                    // R21: without a number nothing shows who wrote last, and no version is wanted.
                    Some(ok) if is_sequence(&key.0) => (given_in(ok, key).unwrap_or(u64::MAX), true),
                    Some(ok) => (ok.v, may_be_older),
                    None => return Err(Fault::new(Code::OrderHeld, "the model")),
                }
            }
            Some(v) => (v.as_u64().expect("a version"), false),
        };
        let is_older = may_be_older && stored.is_some() && current <= wanted && wanted < u64::MAX;
        if wanted == current || is_older || (wanted == 0 && is_gone) {
            return Ok(());
        }
        let data = stored.filter(|_| !is_gone).map(|stored| Data::from_map(&stored.data).expect("data"));
        let (pk, deleted) = (key.1.clone(), is_gone);
        let mut fault = Fault::new(Code::VersionConflict, "the model");
        fault.doc = Some(Row { pk, v: current, deleted, max_life: None, data });
        Err(fault)
    }
}
