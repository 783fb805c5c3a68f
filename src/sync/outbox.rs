//! The outbox: sends operations and takes their results (R10 to R12).

use super::context::Ctx;
use super::facts::{Outgoing, Told};
use super::message::{Effect, error_of};
use super::refused::Settled;
use super::writes::Writes;
use crate::codec::{Fault, Op, OpResult};
use crate::error::{Code, Result};
use crate::journal::{IfVersion, OpId, PendingOp};
use crate::limits::OPS_MAX;
use crate::memory::DocKey;
use crate::model::{Def, SortedMap, SortedSet, Version, order};

impl Writes {
    /// Whether any operation may be sent now. `is_failing` if the device refuses all writes.
    pub fn has_ops_to_send(&self, now: u64, is_failing: bool) -> bool {
        now >= self.not_before_ms && !self.orders_to_send(is_failing).0.is_empty()
    }

    /// The operations to send now, numbered, and the defs whose pull must show their effect.
    pub fn ops_to_send(&mut self, ctx: &Ctx, now: u64, is_failing: bool) -> Outgoing {
        if now < self.not_before_ms || self.waiting.is_empty() {
            return Outgoing::default();
        }
        let (orders, bytes) = self.orders_to_send(is_failing);
        if orders.is_empty() {
            return Outgoing::default();
        }
        let mut defs = SortedSet::new();
        let sent: SortedSet<u64> = orders.iter().map(|(order, _)| *order).collect();
        let mut seq = self.mark.last_seq;
        let mut ops = Vec::with_capacity(orders.len());
        for (order, after) in orders {
            seq += 1;
            let keys = self.ops[&order].keys.clone();
            let awaits: SortedSet<Def> = order::set_of(keys.iter().flat_map(|key| ctx.memory.defs_of(key)));
            defs.extend(awaits.iter().cloned());
            let op = self.ops.get_mut(&order).expect("listed");
            op.seq = Some(seq);
            // A late copy of an earlier request may still execute another operation under this number.
            let is_in_doubt = op.sent_as.is_some() || seq <= self.highest_sent;
            op.has_other_numbers |= op.sent_as.replace(seq) != Some(seq) && is_in_doubt;
            op.awaits = Some(awaits);
            let state = &op.state;
            let (id, at, (name, args)) = (state.id.clone(), state.at, op.sent());
            ops.push(Op { id, seq, name, args, at, after });
        }
        self.highest_sent = self.highest_sent.max(seq);
        // An operation that is not in this request loses its number if another operation in it has that
        // number. A higher number stays: the server may execute the operation under it.
        for order in self.waiting.iter().filter(|order| !sent.contains(order)) {
            self.ops.get_mut(order).expect("listed").seq.take_if(|own| *own <= seq);
        }
        Outgoing { is_alone: self.room.is_alone(), ops, bytes, defs }
    }

    /// The operations of the next request, each with the latest operation that it depends on, and the bytes
    /// of their arguments. If the server refuses that one, it blocks the operation. First come those that the
    /// server may have executed already, in the order of their numbers, then the others. No operation is sent
    /// before it is saved (R10), nor are those after it (R12).
    fn orders_to_send(&self, is_failing: bool) -> (Vec<(u64, Option<OpId>)>, usize) {
        let waiting = || self.waiting.iter().map(|order| (*order, &self.ops[order]));
        let mut numbered: Vec<(u64, u64)> =
            waiting().filter_map(|(order, op)| Some((op.seq?, order))).collect();
        order::sort(&mut numbered);
        let unnumbered = waiting().filter(|(_, op)| op.seq.is_none()).map(|(order, _)| order);
        // Operations blocked by a discarded one wait until the discard is on disk. After a crash, the
        // application could amend it, and they would have been executed before it. If the device refuses all
        // writes, they do not wait.
        let held = if is_failing { self.held() } else { self.held_for_now() };
        let (mut orders, mut bytes) = (Vec::new(), 0);
        let mut chain: SortedMap<u64, u64> = SortedMap::new();
        for order in numbered.iter().map(|(_, order)| *order).chain(unnumbered) {
            let op = &self.ops[&order];
            if !op.saved || !op.prepared || orders.len() == OPS_MAX {
                break;
            }
            if held.contains(&op.state.id) {
                continue;
            }
            let dependencies = self.dependencies(order);
            // An operation that kept its number may come before one that it depends on and that was numbered
            // again. The server blocks it, and the session takes back its number.
            if !orders.is_empty() && !is_chain(&dependencies, &chain) {
                break;
            }
            let latest = dependencies.last().copied();
            chain.extend(latest.map(|latest| (order, latest)));
            let args = Some(&op.state.args).filter(|_| op.unsendable.is_none());
            let own = crate::codec::encode(crate::codec::Format::Msgpack, &args).map_or(0, |b| b.len());
            if !orders.is_empty() && !self.room.holds(bytes + own) {
                break;
            }
            bytes += own;
            orders.push((order, latest.map(|latest| self.ops[&latest].state.id.clone())));
        }
        (orders, bytes)
    }

    /// The earlier operations that this one depends on and that the server has not accepted, in ascending
    /// order. These are the latest one on each document, those that it names in `after`, and those whose
    /// versions it expects.
    fn dependencies(&self, order: u64) -> Vec<u64> {
        let op = &self.ops[&order];
        let on = |key| self.on_before(key, order).rfind(|other| other.is_waiting());
        let by_documents = op.keys.iter().filter_map(on);
        let by_word = op.waits_for().filter_map(|id| self.get(id));
        let by_word = by_word.filter(|other| other.state.order < order && other.is_waiting());
        let orders: SortedSet<u64> =
            order::set_of(by_documents.chain(by_word).map(|other| other.state.order));
        orders.into_iter().collect()
    }

    /// Delays operations: the server answers none of their requests.
    pub fn delay(&mut self, ctx: &mut Ctx) -> Result<()> {
        self.not_before_ms = ctx.clock.mono_ms + self.backoff.next_ms(&mut *ctx.random)?;
        Ok(())
    }

    /// Whether an operation was sent under one number only.
    pub fn has_one_number(&self, id: &str) -> bool {
        self.get(id).is_some_and(|op| !op.has_other_numbers)
    }

    /// Those of these documents that pending operations touch.
    pub fn touched(&self, keys: Vec<DocKey>) -> Vec<DocKey> {
        keys.into_iter().filter(|key| self.by_key.contains_key(key)).collect()
    }

    /// Whether one of the operations of these orders touches one of these documents.
    pub fn touches_any(&self, keys: &[DocKey], orders: &SortedSet<u64>) -> bool {
        keys.iter().any(|key| self.on(key).any(|op| orders.contains(&op.state.order)))
    }

    /// Whether an operation on these documents may be executed under other numbers.
    pub fn is_any_renumbered(&self, keys: &[DocKey]) -> bool {
        keys.iter().any(|key| self.on(key).any(|op| op.has_other_numbers))
    }

    /// The operations of a request that were executed, with their versions and the defs that must show them.
    pub fn executed(&self, sent: &[(OpId, u64)]) -> Vec<(OpId, Version, SortedSet<Def>)> {
        let ops = sent.iter().filter_map(|(id, _)| self.get(id));
        let executed =
            ops.filter_map(|op| Some((op.state.id.clone(), op.state.accepted?, op.awaits.clone()?)));
        executed.collect()
    }

    /// Takes the results of a request; operations without a result were not executed. `last_seq` is the
    /// session's last executed operation by the reply. `is_later` means a later epoch: operations that were
    /// not executed are then sent again at once, with the next pull, whose parts may show their effects.
    /// Returns whether the session took another name.
    pub fn take_results(
        &mut self,
        ctx: &mut Ctx,
        sent: &[(OpId, u64)],
        results: Vec<OpResult>,
        (last_seq, is_later): (u64, bool),
    ) -> Result<bool> {
        // The operations have the numbers under which they were sent, regardless of changes in the meantime.
        for (id, seq) in sent {
            if let Some(op) = self.get_mut(id) {
                op.seq = Some(*seq);
            }
        }
        let (name, known_seq) = (self.mark.name, self.mark.last_seq);
        let (mut has_ended, mut is_complete) = (false, false);
        let numbers: SortedMap<&OpId, u64> = sent.iter().map(|(id, seq)| (id, *seq)).collect();
        let mut executed: SortedSet<OpId> = SortedSet::new();
        for result in results {
            let Some(number) = numbers.get(&result.id) else { continue };
            let Some(order) = self.by_id.get(&result.id).copied() else { continue };
            let is_executed = result.is_final();
            is_complete |= !is_executed;
            executed.extend(is_executed.then(|| result.id.clone()));
            let is_renamed = self.mark.name != name;
            if let Some(op) = self.ops.get_mut(&order).filter(|_| is_executed) {
                // `last_seq` is lower if the operation ran under an earlier number that this session forgot.
                // After a renaming it is 0: any pull shows the effect.
                op.seq = Some(if is_renamed { 0 } else { last_seq.min(*number) });
            }
            match (result.ok, result.fault) {
                (Some(ok), _) => {
                    has_ended = true;
                    self.accept(order, ok.v);
                    self.keep_value(order, ok.value.as_ref());
                    ctx.effects.push(Effect::Accepted { id: result.id, result: Ok((ok.v, ok.value)) });
                }
                (None, Some(fault)) => has_ended |= self.take_fault(ctx, order, fault)?,
                (None, None) => {}
            }
        }
        let is_same_name = self.mark.name == name;
        if !sent.is_empty() {
            self.room.was_enough();
            // If a server repeats any other answer, the session asks at growing intervals.
            if has_ended || is_later || (is_same_name && last_seq > known_seq) {
                self.backoff.reset();
            } else {
                self.not_before_ms = ctx.clock.mono_ms + self.backoff.next_ms(&mut *ctx.random)?;
            }
        }
        if is_same_name {
            // The reply says how far the session has come; operations that were not executed are numbered
            // from there.
            self.mark.last_seq = last_seq;
            if is_complete {
                self.release_passed(sent, &executed);
            }
        }
        Ok(!is_same_name)
    }

    /// The results show for each operation sent whether the reply's parts contain it. If `last_seq` has
    /// passed the number of one that they do not contain, that number was another operation's: the store or
    /// the server was restored. No copy of the request can be executed under it any more.
    fn release_passed(&mut self, sent: &[(OpId, u64)], executed: &SortedSet<OpId>) {
        let last_seq = self.mark.last_seq;
        let mut passed = sent.iter().filter(|(id, seq)| *seq <= last_seq && !executed.contains(id));
        if let Some(order) = passed.find_map(|(id, _)| self.by_id.get(id).copied()) {
            self.release_numbers(order);
        }
    }

    /// The operations that may have been executed under other numbers, and that the reply has not decided:
    /// its parts may contain their effects or not. Operations blocked behind a refused one were not executed.
    pub fn in_doubt(&self, told: &SortedSet<OpId>) -> SortedSet<u64> {
        let waiting = self.waiting.iter().map(|order| &self.ops[order]);
        let mut in_doubt: Vec<&PendingOp> =
            waiting.filter(|op| op.has_other_numbers && !told.contains(&op.state.id)).collect();
        if !in_doubt.is_empty() {
            let held = self.held();
            in_doubt.retain(|op| !held.contains(&op.state.id));
        }
        in_doubt.into_iter().map(|op| op.state.order).collect()
    }

    fn accept(&mut self, order: u64, v: u64) {
        let Some(op) = self.ops.get_mut(&order) else { return };
        let seq = op.seq.unwrap_or(0);
        op.state.accepted = Some(v);
        op.state.seq = Some(seq);
        op.has_other_numbers = false;
        for action in &mut op.actions {
            action.commit = Some(v);
        }
        if seq > 0 {
            self.accepted.insert((seq, op.state.id.clone()));
        }
        let op = op.clone();
        self.sort(order);
        self.journal.rewrite(order);
        self.expect_given(&op, v);
    }

    /// Operations that expect the version given by `given` expect the number `v` from now on. A restored
    /// server may not know that operation any more, and then this is an ordinary conflict. A server that
    /// gives no version to an operation that changes nothing answers 0. The document then still has the
    /// version that `given` itself expected. If `given` expected none, version 0 is refused with the
    /// document, which shows whether anybody else wrote.
    fn expect_given(&mut self, given: &PendingOp, v: u64) {
        let id = &given.state.id;
        let instead = |key: Option<&DocKey>| match (v, key) {
            (0, Some(key)) => Some(given.expected_of(key).cloned().unwrap_or(IfVersion::At(0))),
            // For a batch with operations of the application, the earlier state of the document is not known.
            (0, None) => Some(IfVersion::Of(id.clone())),
            _ => Some(IfVersion::At(v)),
        };
        for order in self.take_naming(id) {
            if let Some(op) = self.ops.get_mut(&order).filter(|op| op.expects(id)) {
                op.expect_instead(id, instead);
                let named: Vec<OpId> = op.named().map(str::to_owned).collect();
                for id in named {
                    self.names(order, &id);
                }
                self.journal.rewrite(order);
            }
        }
    }

    /// Whether an operation expects the version of one that this session does not know, or that comes after
    /// it. No later event can make that version known.
    fn expects_unknown(&self, order: u64) -> bool {
        let is_over = |id: &str| self.accepted.iter().any(|(_, accepted)| accepted == id);
        self.ops[&order].named().any(|id| match self.by_id.get(id) {
            Some(named) => *named >= order,
            None => !is_over(id),
        })
    }

    /// Takes a fault, and returns whether it ends the operation. If the fault is not its result, the
    /// operation keeps its number: the same request may still reach the server again.
    fn take_fault(&mut self, ctx: &mut Ctx, order: u64, fault: Fault) -> Result<bool> {
        let error = error_of(&fault);
        let code = error.code();
        match code {
            Code::OrderHeld if !self.expects_unknown(order) => {
                self.release_numbers(order);
                return Ok(false);
            }
            // No later event makes it known, so the operation is refused. It was not executed: its number
            // goes to the next one.
            Code::OrderHeld => self.release_numbers(order),
            // After a restart, this session may have come further than it remembers: the reply says how far.
            // A second fault means that another store has the same name.
            Code::SessionReused if !std::mem::replace(&mut self.is_renumbered, true) => {
                self.release_numbers(order);
                return Ok(false);
            }
            Code::SessionReused => {
                self.rename_session(ctx)?;
                return Ok(false);
            }
            _ if fault.kind.is_retryable() => {
                ctx.errors.report(error);
                return Ok(false);
            }
            _ => {}
        }
        let id = self.ops[&order].state.id.clone();
        if code == Code::Forgotten {
            // It was executed so long ago that the server no longer knows its result.
            self.accept(order, 0);
            ctx.effects.push(Effect::Accepted { id, result: Ok((0, None)) });
            return Ok(true);
        }
        if code == Code::BadValue && self.ops[&order].unsendable.is_some() {
            return Ok(self.take_unsendable(ctx, order));
        }
        if code == Code::VersionConflict
            && let Some(settled) = self.settle_conflict(ctx, order, &fault)
        {
            return Ok(settled == Settled::Ended);
        }
        self.park(order, fault);
        ctx.effects.push(Effect::Refused { id, error });
        Ok(true)
    }

    /// The server blocks an operation behind one that it refused. Neither it nor those numbered after it can
    /// be executed under their numbers, which go to the operation that replaces the refused one.
    fn release_numbers(&mut self, order: u64) {
        let Some(held) = self.ops[&order].seq else { return };
        for order in &self.waiting {
            let op = self.ops.get_mut(order).expect("listed");
            op.seq.take_if(|seq| *seq >= held);
        }
    }

    /// A message reflects the session's operations up to `seq`. The documents in `rows` contain their
    /// effects, and the overlays on these are dropped. Once every def that shows an effect is whole in
    /// `told`, its overlay is dropped on all documents (R12). A push shows no def whole, and decides nothing
    /// about operations whose numbers are in doubt: only a reply does, with their results.
    pub fn effects_seen(
        &mut self,
        ctx: &mut Ctx,
        seq: u64,
        told: Option<&SortedMap<Def, Told>>,
        rows: &SortedSet<DocKey>,
    ) {
        let era = ctx.memory.epoch().1;
        for (order, op) in self.ops.iter_mut() {
            if op.has_other_numbers || op.seq.or(op.state.seq).is_none_or(|own| own > seq) {
                continue;
            }
            let Some(mut awaits) = op.awaits.take() else { continue };
            awaits.retain(|def| !told.and_then(|told| told.get(def)).is_some_and(|told| told.shows(op)));
            for key in op.keys.iter().filter(|key| rows.contains(*key)) {
                if op.seen_on.insert(key.clone(), era) != Some(era) {
                    // Stored in the same batch as the base that contains the effect; otherwise a restart
                    // would show it twice.
                    op.state.seen_on.push((ctx.memory.class_name(key), key.1.clone(), era));
                    self.journal.rewrite(*order);
                    self.stale.insert(key.clone());
                }
            }
            if awaits.is_empty() && op.state.seen != Some(era) && op.state.refused.is_none() {
                op.state.seen = Some(era);
                self.journal.rewrite(*order);
                self.stale.extend(op.keys.iter().cloned());
            }
            op.awaits = Some(awaits);
        }
        self.end_seen(ctx);
    }

    /// Ends the operations that the server has accepted and whose effects are shown by every def.
    pub fn end_seen(&mut self, ctx: &mut Ctx) {
        let is_over = |op: &PendingOp| {
            op.state.accepted.is_some() && op.awaits.as_ref().is_some_and(SortedSet::is_empty)
        };
        let over: Vec<u64> = self.ops.iter().filter(|(_, op)| is_over(op)).map(|(order, _)| *order).collect();
        for order in over {
            let Some(op) = self.remove(order) else { continue };
            self.unpin(ctx, &op);
            self.end(op);
        }
    }

    /// A subscription has ended: no pull of its def will show an effect.
    pub fn await_no_more(&mut self, ctx: &mut Ctx, def: &Def) {
        for op in self.ops.values_mut() {
            if let Some(awaits) = &mut op.awaits {
                awaits.remove(def);
            }
        }
        self.end_seen(ctx);
    }

    /// The server knows other operations under this session's numbers, or does not know the session. It takes
    /// another name, and numbers the same ids from 1.
    pub fn rename_session(&mut self, ctx: &mut Ctx) -> Result<()> {
        let name = ctx.random.text()?;
        ctx.set_session(name);
        self.mark.last_seq = 0;
        self.mark.name += 1;
        self.highest_sent = 0;
        self.accepted.clear();
        ctx.memory.mark_head();
        for op in self.ops.values_mut() {
            op.seq = None;
            if op.state.accepted.is_some() {
                // Any later pull shows it.
                op.state.seq = Some(0);
            }
        }
        Ok(())
    }

    /// A later epoch knows operations up to `seq` only. Those accepted beyond it are lost there (R8); pending
    /// ones are sent again, numbered from there.
    pub fn enter_epoch_with(&mut self, ctx: &mut Ctx, seq: u64) {
        let lost = self.accepted.split_off(&(seq + 1, OpId::new()));
        for (_, id) in lost {
            if let Some(order) = self.by_id.get(&id).copied() {
                let op = self.remove(order).expect("listed by its id");
                self.unpin(ctx, &op);
                self.end(op);
            }
            self.lose(id);
        }
        self.mark.last_seq = seq;
        // An operation in flight keeps its number until it is sent again: the server may execute it under
        // that number in the new epoch too.
        for order in &self.waiting {
            self.stale.extend(self.ops[order].keys.iter().cloned());
        }
    }
}

/// Whether the dependencies form a chain in which each blocks the next: a request names only one for an
/// operation. If they are independent of each other, the operation waits for the next request.
fn is_chain(dependencies: &[u64], chain: &SortedMap<u64, u64>) -> bool {
    let Some((last, others)) = dependencies.split_last() else { return true };
    let held: SortedSet<u64> =
        std::iter::successors(Some(*last), |order| chain.get(order).copied()).collect();
    others.iter().all(|order| held.contains(order))
}
