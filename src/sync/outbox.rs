//! Sending operations and taking their results (R10 to R12).

use std::collections::{BTreeSet, HashSet};

use super::event::Effect;
use super::machine::Machine;
use super::writes::{Known, Write};
use crate::codec::{Fault, Op, OpResult};
use crate::error::{Code, Error, Result, fail};
use crate::journal::{IfVersion, OpId, PendingOp, Policy, Settlement, settle};
use crate::limits::OPS_MAX;
use crate::model::{Def, Value};
use crate::session::DocKey;

/// Bytes of operations in one request: with its subscriptions it stays below what a server accepts.
const OPS_BYTES_MAX: usize = 1 << 20;

impl Machine {
    /// The operations to send now, numbered, and the defs whose pull must show their effect.
    pub(super) fn ops_to_send(&mut self, now: u64) -> (Vec<Op>, BTreeSet<Def>) {
        let mut defs = BTreeSet::new();
        if now < self.writes.not_before_ms || self.writes.waiting.is_empty() {
            return (Vec::new(), defs);
        }
        let held = self.writes.held();
        let mut orders: Vec<u64> = Vec::new();
        let mut bytes = 0;
        for order in &self.writes.waiting {
            let op = &self.writes.ops[order];
            if !op.saved || !op.prepared {
                break; // R10; and R12: what follows waits for it.
            }
            if held.contains(&op.state.id) {
                continue;
            }
            bytes += crate::codec::encode(crate::codec::Format::Msgpack, &op.state.args).map_or(0, |b| b.len());
            if orders.len() == OPS_MAX || (bytes > OPS_BYTES_MAX && !orders.is_empty()) {
                break;
            }
            orders.push(*order);
        }
        // Those that may have been executed keep their numbers and go first; the others follow.
        orders.sort_by_key(|order| (self.writes.ops[order].seq.unwrap_or(u64::MAX), *order));
        let mut seq = self.writes.mark.last_seq;
        let mut ops = Vec::with_capacity(orders.len());
        for order in orders {
            seq += 1;
            let after = self.dependency(order);
            let keys = self.writes.ops[&order].keys.clone();
            let mut awaits: BTreeSet<Def> = keys.iter().flat_map(|key| self.memory.defs_of(key)).collect();
            awaits.retain(|def| self.memory.collection(def).is_some());
            defs.extend(awaits.iter().cloned());
            let op = self.writes.ops.get_mut(&order).expect("listed");
            op.seq = Some(seq);
            op.awaits = Some(awaits);
            let state = &op.state;
            let (id, name, args) = (state.id.clone(), state.name.clone(), state.args.clone());
            ops.push(Op { id, seq, name, args, at: state.at, after });
        }
        (ops, defs)
    }

    /// The latest earlier operation that this one depends on and that the server has not accepted.
    fn dependency(&self, order: u64) -> Option<OpId> {
        let op = &self.writes.ops[&order];
        let on = |key| self.writes.on_before(key, order).rfind(|other| other.is_waiting());
        let by_documents = op.keys.iter().filter_map(on);
        let by_word = op.state.after.iter().filter_map(|id| self.writes.get(id));
        let by_word = by_word.filter(|other| other.state.order < order && other.is_waiting());
        by_documents.chain(by_word).max_by_key(|other| other.state.order).map(|other| other.state.id.clone())
    }

    /// Takes the results of a request; those that have none were not executed.
    pub(super) fn take_results(&mut self, sent: &[(OpId, u64)], results: Vec<OpResult>) -> Result<()> {
        // As they were numbered when they were sent, whatever was met meanwhile.
        for (id, seq) in sent {
            if let Some(op) = self.writes.get_mut(id) {
                op.seq = Some(*seq);
            }
        }
        let ids: HashSet<&OpId> = sent.iter().map(|(id, _)| id).collect();
        let mut executed: HashSet<OpId> = HashSet::new();
        for result in results {
            if !ids.contains(&result.id) {
                continue;
            }
            let Some(order) = self.writes.by_id.get(&result.id).copied() else { continue };
            match (result.ok, result.fault) {
                (Some(ok), _) => {
                    executed.insert(result.id.clone());
                    self.accept(order, ok.v);
                    self.effects.push(Effect::Accepted { id: result.id, result: Ok((ok.v, ok.value)) });
                }
                (None, Some(fault)) => {
                    if self.take_fault(order, fault)? {
                        executed.insert(result.id);
                    }
                }
                (None, None) => {}
            }
        }
        for (id, _) in sent.iter().filter(|(id, _)| !executed.contains(id)) {
            if let Some(op) = self.writes.get_mut(id) {
                op.seq = None;
            }
        }
        Ok(())
    }

    fn accept(&mut self, order: u64, v: u64) {
        let Some(op) = self.writes.ops.get_mut(&order) else { return };
        let seq = op.seq.unwrap_or(0);
        op.state.accepted = Some(v);
        op.state.seq = Some(seq);
        self.writes.mark.last_seq = self.writes.mark.last_seq.max(seq);
        for action in &mut op.actions {
            action.commit = Some(v);
        }
        if seq > 0 {
            self.writes.accepted.insert(seq, op.state.id.clone());
        }
        self.writes.sort(order);
        self.writes.journal.rewrite(order);
    }

    /// Takes a fault. Gives whether the operation's number is spent.
    fn take_fault(&mut self, order: u64, fault: Fault) -> Result<bool> {
        let error = super::replies::error_of(&fault);
        let code = error.code();
        match code {
            Code::OrderHeld => return Ok(false),
            Code::SessionReused => {
                self.rename_session()?;
                return Ok(false);
            }
            _ if fault.kind.is_retryable() => {
                let delay = self.pull.backoff.next_ms(&mut *self.random)?;
                self.writes.not_before_ms = self.clock.mono_ms + delay;
                self.error = Some(error);
                return Ok(false);
            }
            _ => {}
        }
        let op = self.writes.ops.get_mut(&order).expect("the operation is there");
        let seq = op.seq.unwrap_or(0);
        self.writes.mark.last_seq = self.writes.mark.last_seq.max(seq);
        let id = op.state.id.clone();
        if code == Code::Forgotten {
            // It was executed, so long ago that its result is no longer known.
            self.accept(order, 0);
            self.effects.push(Effect::Accepted { id, result: Ok((0, None)) });
            return Ok(true);
        }
        // What the application's own function throws leaves the decision to whoever reads `refused`.
        let is_settled = code == Code::VersionConflict
            && self.settle_conflict(order, &fault).unwrap_or_else(|error| {
                self.error = Some(error);
                false
            });
        if !is_settled {
            self.park(order, fault);
            self.effects.push(Effect::Refused { id, error });
        }
        Ok(true)
    }

    /// The server refused it for good: it waits for the application, its overlay dropped.
    fn park(&mut self, order: u64, fault: Fault) {
        let op = self.writes.ops.get_mut(&order).expect("the operation is there");
        op.state.refused = Some(fault);
        op.seq = None;
        let keys = op.keys.clone();
        self.writes.stale.extend(keys);
        self.writes.sort(order);
        self.writes.journal.rewrite(order);
    }

    /// Settles a conflict by the class's policy: an amended operation takes the place of this one, or none does.
    /// Gives false where the application must decide.
    fn settle_conflict(&mut self, order: u64, fault: &Fault) -> Result<bool> {
        let op = &self.writes.ops[&order];
        let Some([change]) = op.changes.as_deref() else { return Ok(false) };
        let (key, class) = (change.key.clone(), self.memory.class_name(&change.key));
        let policy = self.writes.application.policy(&class);
        let Some(row) = &fault.doc else { return Ok(false) };
        if policy == Policy::Ask {
            return Ok(false);
        }
        let theirs = match &row.data {
            Some(data) if !row.deleted => Some(data.to_map()?),
            _ => None,
        };
        let base = op.state.base.as_ref().map(crate::codec::Data::to_map).transpose()?;
        let mine = change.kind.apply(base.clone());
        let settled = if policy == Policy::Custom {
            self.writes.application.settle(&class, base.as_ref(), mine.as_ref(), theirs.as_ref())?
        } else {
            settle(policy, base.as_ref(), mine.as_ref(), theirs.as_ref())
        };
        let old = op.state.id.clone();
        let theirs_data = row.data.clone().filter(|_| !row.deleted);
        let if_version = ("ifVersion", Value::from(row.v as i64));
        let class_arg = ("class", Value::from(class.as_str()));
        let (name, args) = match settled {
            Settlement::Theirs => {
                self.give_up(order);
                let error = Error::new(Code::VersionConflict, "the server's document stays, by the class's policy");
                self.effects.push(Effect::Accepted { id: old, result: Err(error) });
                return Ok(true);
            }
            Settlement::Put(state) => ("doc.put", Value::from([class_arg, ("data", Value::Map(state)), if_version])),
            Settlement::Delete if theirs.is_none() => {
                // Both sides have deleted it.
                self.give_up(order);
                self.effects.push(Effect::Accepted { id: old, result: Ok((row.v, None)) });
                return Ok(true);
            }
            Settlement::Delete => {
                let data = theirs.as_ref().expect("checked above");
                let parts = self.memory.class(key.0).key().iter().map(|name| data.get(name.as_str()).cloned());
                let key = Value::Array(parts.flatten().collect());
                ("doc.delete", Value::from([class_arg, ("key", key), if_version]))
            }
        };
        let id = crate::journal::make_id(self.clock.wall_ms, &mut *self.random)?;
        let after = op.state.after.clone();
        let replaced = self.replace(order);
        let write = Write { id: id.clone(), name: name.to_owned(), args, touches: Vec::new(), after };
        self.issue(write, order)?;
        if let Some(op) = self.writes.get_mut(&id) {
            op.state.base = theirs_data;
        }
        replaced.iter().for_each(|op| self.unpin(op));
        self.follow(&old, Some(&id), None);
        self.effects.push(Effect::Amended { id: old, by: id });
        Ok(true)
    }

    /// What waited for an operation waits for the one in its place; where there is none, what expected the version that it
    /// would have given expects the one that it expected itself.
    fn follow(&mut self, old: &str, new: Option<&OpId>, expected: Option<&IfVersion>) {
        let mut changed = Vec::new();
        for (order, op) in &mut self.writes.ops {
            let mut touched = op.state.after.iter().any(|id| id == old);
            match new {
                Some(new) => op.state.after.iter_mut().filter(|id| *id == old).for_each(|id| id.clone_from(new)),
                None => op.state.after.retain(|id| id != old),
            }
            if op.expected().is_some_and(|own| matches!(own, IfVersion::Of(id) if id == old)) {
                op.expect(new.map(|new| IfVersion::Of(new.clone())).or_else(|| expected.cloned()));
                touched = true;
            }
            if touched {
                changed.push(*order);
            }
        }
        for order in changed {
            self.writes.journal.rewrite(order);
        }
    }

    /// Takes an operation out, with what is at rest of it, for another one to stand in its place. Its documents stay
    /// pinned until then: their data is at hand.
    fn replace(&mut self, order: u64) -> Option<PendingOp> {
        let op = self.writes.remove(order)?;
        self.writes.journal.forget(order, op.record);
        Some(op)
    }

    fn unpin(&mut self, op: &PendingOp) {
        for key in &op.keys {
            self.memory.unpin(key);
        }
    }

    /// Takes an operation out for good; it never happened.
    fn give_up(&mut self, order: u64) {
        if let Some(op) = self.replace(order) {
            self.unpin(&op);
            self.follow(&op.state.id, None, op.expected());
        }
    }

    /// A message is as of the session's operation `seq`. The documents in `rows` contain the effects of operations up to
    /// it, whose overlays are dropped there; where every def that shows an effect has been `told` whole, it is dropped
    /// everywhere (R12).
    pub(super) fn effects_seen(&mut self, seq: u64, told: &BTreeSet<Def>, rows: &BTreeSet<DocKey>) {
        let era = self.memory.epoch().1;
        for op in self.writes.ops.values_mut() {
            if op.seq.or(op.state.seq).is_none_or(|own| own > seq) {
                continue;
            }
            let Some(awaits) = &mut op.awaits else { continue };
            awaits.retain(|def| !told.contains(def));
            for key in op.keys.iter().filter(|key| rows.contains(*key)) {
                if op.seen_on.insert(key.clone(), era) != Some(era) {
                    self.writes.stale.insert(key.clone());
                }
            }
            if awaits.is_empty() && op.seen != Some(era) && op.state.refused.is_none() {
                op.seen = Some(era);
                self.writes.stale.extend(op.keys.iter().cloned());
            }
        }
        self.end_seen();
    }

    /// Operations that the server has accepted, and that nothing is awaited for any more, are over.
    pub(super) fn end_seen(&mut self) {
        let is_over = |op: &PendingOp| {
            op.state.accepted.is_some() && op.awaits.as_ref().is_some_and(BTreeSet::is_empty)
        };
        let over: Vec<u64> = self.writes.ops.iter().filter(|(_, op)| is_over(op)).map(|(order, _)| *order).collect();
        for order in over {
            let Some(op) = self.writes.remove(order) else { continue };
            self.unpin(&op);
            self.writes.end(op);
        }
    }

    /// A def is not subscribed to any more: no pull of it will show anything.
    pub(super) fn await_no_more(&mut self, def: &Def) {
        for op in self.writes.ops.values_mut() {
            if let Some(awaits) = &mut op.awaits {
                awaits.remove(def);
            }
        }
        self.end_seen();
    }

    /// The server knows this session's numbers otherwise, or not at all: another name, numbers from 1, the same ids.
    pub(super) fn rename_session(&mut self) -> Result<()> {
        let name = self.random.text()?;
        self.set_session(name);
        // The socket tells how far the other name has come.
        self.effects.extend(self.live.close().map(Effect::CloseSocket));
        self.writes.mark.last_seq = 0;
        self.writes.mark.name += 1;
        self.writes.accepted.clear();
        self.memory.mark_head();
        for op in self.writes.ops.values_mut() {
            op.seq = None;
            if op.state.accepted.is_some() {
                // Any later pull shows it.
                op.state.seq = Some(0);
            }
        }
        Ok(())
    }

    /// A later epoch knows operations up to `seq` only: those accepted beyond it are lost there (R8); what is pending is
    /// sent again, numbered from there on.
    pub(super) fn enter_epoch_with(&mut self, seq: u64) {
        let lost = self.writes.accepted.split_off(&(seq + 1));
        for id in lost.into_values() {
            if let Some(order) = self.writes.by_id.get(&id).copied() {
                let op = self.writes.remove(order).expect("listed by its id");
                self.unpin(&op);
                self.writes.end(op);
            }
            self.writes.lost_by_server.push(id);
        }
        self.writes.mark.last_seq = seq;
        for order in &self.writes.waiting {
            let op = self.writes.ops.get_mut(order).expect("listed");
            op.seq = None;
            self.writes.stale.extend(op.keys.iter().cloned());
        }
    }

    /// Issues a refused operation again, with other arguments or the same: a new operation, in the place of the old one
    /// and before what it held. Errors: `not_found`, and those of [`Machine::check_write`].
    pub(super) fn amend(&mut self, id: &str, new: OpId, args: Option<Value>) -> Result<()> {
        let op = self.refused_op(id)?;
        let (order, name, after) = (op.state.order, op.state.name.clone(), op.state.after.clone());
        let args = args.unwrap_or_else(|| op.state.args.clone());
        let touches = op.keys.clone();
        let old = op.state.id.clone();
        // Refused before the refused one is touched.
        crate::journal::changes_of(self.memory.schema(), &name, &args)?;
        let replaced = self.replace(order);
        let write = Write { id: new.clone(), name, args, touches, after };
        let issued = self.issue(write, order);
        replaced.iter().for_each(|op| self.unpin(op));
        issued?;
        self.follow(&old, Some(&new), None);
        Ok(())
    }

    /// Forgets a refused operation; what it held goes on.
    pub(super) fn discard(&mut self, id: &str) -> Result<()> {
        let order = self.refused_op(id)?.state.order;
        self.give_up(order);
        Ok(())
    }

    /// The refused operation of that id.
    pub fn refused_op(&self, id: &str) -> Result<&PendingOp> {
        match self.writes.get(id) {
            Some(op) if op.state.refused.is_some() => Ok(op),
            Some(_) => fail(Code::BadOption, "the operation was not refused"),
            None => fail(Code::NotFound, "there is no such operation"),
        }
    }

    /// A document as the application sees it now.
    pub fn visible(&self, key: &DocKey) -> Option<crate::journal::State> {
        match self.state_before(key, u64::MAX) {
            Known::State(state) => state,
            Known::NotYet => None,
        }
    }
}
