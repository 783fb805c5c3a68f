//! The sender: sends operations and takes their results (R10 to R12).

use super::application::Application;
use super::conflicts::{doubt_named, settle_conflict};
use super::due::GivenUp;
use super::files::is_to_upload_again;
use super::refused::amend;
use super::request_limits::{Room, take_unsendable};
use super::table::PendingOps;
use super::table::trees::expect_given;
use crate::codec::{Fault, Op, OpResult};
use crate::error::{Code, Error, Result};
use crate::journal::{OpId, Unsendable, make_id};
use crate::limits::OPS_MAX;
use crate::memory::DocKey;
use crate::model::{Def, Name, Pk, SortedMap, SortedSet, order};
use crate::sync::backoff::Backoff;
use crate::sync::context::Ctx;
use crate::sync::facts::Outgoing;
use crate::sync::message::{Effect, error_of};

/// The way of operations to the server.
#[derive(Default)]
pub struct Sender {
    /// The delays after temporary failures of operations, and the time before which none is sent again.
    backoff: Backoff,
    pub not_before_ms: u64,
    /// The limits of one request.
    pub room: Room,
    /// Whether the server had other operations under this session's numbers once: the session then took its
    /// numbers from the reply.
    is_renumbered: bool,
    /// The highest number under which an operation was sent in the session's present name.
    pub(super) highest_sent: u64,
    /// Operations accepted in the session's present name, by their numbers.
    pub accepted: SortedSet<(u64, OpId)>,
}

impl Sender {
    /// A request with these operations was refused whole, before any of it was executed. If its size or its
    /// depth was the reason, the next one takes fewer operations. Each attempt takes less, until the one
    /// operation at fault is found.
    pub fn found_too_large(
        &mut self,
        table: &mut PendingOps,
        sent: &[(OpId, u64)],
        bytes: usize,
        has_subs: bool,
        error: &Error,
    ) {
        if !matches!(error.code(), Code::TooLarge | Code::TooDeep) {
            return;
        }
        match sent {
            [] => {}
            [(id, _)] if !has_subs => {
                let Some(op) = table.get_mut(id).filter(|op| op.is_waiting()) else { return };
                // If even the operation that does nothing is too large, the session can only try later.
                op.unsendable.get_or_insert(Unsendable { fault: Fault::from(error), is_id_known: false });
                self.room.reset();
            }
            [_] => self.room.is_alone = true,
            _ => self.room.bytes_max = bytes / 2,
        }
    }

    /// There is a reason to try at once: delays end, except those that the server asked for.
    pub fn try_at_once(&mut self, not_before_ms: u64) {
        self.backoff.reset();
        self.not_before_ms = not_before_ms;
        self.room.reset();
    }

    /// Whether any operation may be sent now. `is_failing` if the device refuses all writes.
    pub fn has_ops_to_send(&self, table: &PendingOps, now: u64, is_failing: bool) -> bool {
        now >= self.not_before_ms && !self.orders_to_send(table, is_failing).0.is_empty()
    }

    /// The operations to send now, numbered, and the defs whose pull must show their effect.
    pub fn ops_to_send(&mut self, ctx: &Ctx, table: &mut PendingOps, now: u64, is_failing: bool) -> Outgoing {
        if now < self.not_before_ms || table.pending() == 0 {
            return Outgoing::default();
        }
        let (orders, bytes, has_passed) = self.orders_to_send(table, is_failing);
        self.room.passes = if has_passed { self.room.passes + 1 } else { 0 };
        if orders.is_empty() {
            return Outgoing::default();
        }
        let mut defs = SortedSet::new();
        let sent: SortedSet<u64> = orders.iter().map(|(order, _)| *order).collect();
        let mut seq = table.summary.last_seq;
        let mut ops = Vec::with_capacity(orders.len());
        for (order, after) in orders {
            seq += 1;
            let keys = table[order].keys.clone();
            let awaits: SortedSet<Def> = order::set_of(keys.iter().flat_map(|key| ctx.memory.defs_of(key)));
            defs.extend(awaits.iter().cloned());
            let op = table.op_mut(order).expect("listed");
            op.seq = Some(seq);
            // A late copy of an earlier request may still execute another operation under this number.
            let is_in_doubt = op.sent_as.is_some() || seq <= self.highest_sent;
            op.has_other_numbers |= op.sent_as.replace(seq) != Some(seq) && is_in_doubt;
            op.awaits = Some(awaits);
            let issued = &op.state.issued;
            let (id, at, (name, args)) = (issued.id.clone(), issued.at, op.sent());
            ops.push(Op { id, seq, name, args, at, after });
        }
        self.highest_sent = self.highest_sent.max(seq);
        // An operation that is not in this request loses its number if another operation in it has that
        // number. A higher number stays: the server may execute the operation under it.
        table.release(|order, own| own <= seq && !sent.contains(&order));
        Outgoing { is_alone: self.room.is_alone(), ops, bytes, defs }
    }

    /// The operations of the next request, and the bytes of their arguments. Each comes with the latest
    /// operation that it depends on: if the server refuses the latter, it blocks the former. First come those
    /// that the server may have executed already, in the order of their numbers, then the others. No
    /// operation is sent before it is saved (R10), nor are those after it (R12). One that is too large for a piece lets
    /// those pass that do not depend on it; the third value tells that some do.
    fn orders_to_send(
        &self,
        table: &PendingOps,
        is_failing: bool,
    ) -> (Vec<(u64, Option<OpId>)>, usize, bool) {
        let waiting = || table.waiting().map(|op| (op.state.order, op));
        let mut numbered: Vec<(u64, u64)> =
            waiting().filter_map(|(order, op)| Some((op.seq?, order))).collect();
        order::sort(&mut numbered);
        let unnumbered = waiting().filter(|(_, op)| op.seq.is_none()).map(|(order, _)| order);
        // Operations blocked by a discarded one wait until the discard is on disk. After a crash, the
        // application could amend it, and they would have been executed before it. If the device refuses all
        // writes, they do not wait.
        let given_up: &[GivenUp] = if is_failing { &[] } else { table.due.given_up() };
        let held = table.held_from_sending(given_up);
        let (mut orders, mut bytes) = (Vec::new(), 0);
        let mut chain: SortedMap<u64, u64> = SortedMap::new();
        let (mut passed, mut alone) = (SortedSet::new(), None);
        for order in numbered.iter().map(|(_, order)| *order).chain(unnumbered) {
            let op = &table[order];
            if !op.saved || !op.prepared || orders.len() + passed.len() == OPS_MAX {
                break;
            }
            if held.contains(&op.state.issued.id) {
                continue;
            }
            let dependencies = dependencies(table, order);
            if dependencies.iter().any(|order| passed.contains(order)) {
                passed.insert(order);
                continue;
            }
            // An operation that kept its number may come before one that it depends on and that was numbered
            // again. The server blocks it, and the session takes back its number.
            if !orders.is_empty() && !is_chain(&dependencies, &chain) {
                break;
            }
            let latest = dependencies.last().copied();
            chain.extend(latest.map(|latest| (order, latest)));
            let args = Some(&op.state.issued.args).filter(|_| op.unsendable.is_none());
            let own = crate::codec::encode(crate::codec::Format::Msgpack, &args).unwrap_or_default().len();
            let it = (order, latest.map(|latest| table[latest].state.issued.id.clone()));
            if self.room.postpones(own) {
                passed.insert(order);
                alone.get_or_insert((it, own));
                continue;
            }
            if !orders.is_empty() && !self.room.holds(bytes + own) {
                break;
            }
            bytes += own;
            orders.push(it);
        }
        match alone {
            Some((it, own)) if orders.is_empty() => (vec![it], own, false),
            _ => (orders, bytes, !passed.is_empty()),
        }
    }

    /// Delays operations: the server answers none of their requests.
    pub fn delay(&mut self, ctx: &mut Ctx) -> Result<()> {
        self.not_before_ms = ctx.clock.mono_ms + self.backoff.next_ms(&mut *ctx.random)?;
        Ok(())
    }

    /// Takes the results of a request; operations without a result were not executed. `last_seq` is the
    /// session's last executed operation by the reply. `is_later` means a later epoch: operations that were
    /// not executed are then sent again at once, with the next pull, whose parts may show their effects.
    /// Returns whether the session took another name.
    pub fn take_results(
        &mut self,
        ctx: &mut Ctx,
        table: &mut PendingOps,
        app: &dyn Application,
        sent: &[(OpId, u64)],
        results: Vec<OpResult>,
        (last_seq, is_later): (u64, bool),
    ) -> Result<bool> {
        // The operations have the numbers under which they were sent, regardless of changes in the meantime.
        for (id, seq) in sent {
            if let Some(op) = table.get_mut(id) {
                op.seq = Some(*seq);
            }
        }
        let (name, seq_before) = (table.summary.name, table.summary.last_seq);
        let pending_before = table.pending();
        let mut has_unexecuted = false;
        let mut numbers: SortedMap<&OpId, u64> = sent.iter().map(|(id, seq)| (id, *seq)).collect();
        let mut executed: SortedSet<OpId> = SortedSet::new();
        for result in results {
            // A second result of an operation does not count.
            let Some(number) = numbers.remove(&result.id) else { continue };
            let Some(order) = table.get(&result.id).map(|op| op.state.order) else { continue };
            let is_executed = result.is_final();
            has_unexecuted |= !is_executed;
            executed.extend(is_executed.then(|| result.id.clone()));
            let is_renamed = table.summary.name != name;
            if let Some(op) = table.op_mut(order).filter(|_| is_executed) {
                // `last_seq` is lower if the operation ran under an earlier number that this session forgot.
                // After a renaming it is 0: any pull shows the effect.
                op.seq = Some(if is_renamed { 0 } else { last_seq.min(number) });
            }
            match (result.ok, result.fault) {
                (Some(ok), _) => {
                    self.accept(ctx, table, order, (ok.v, ok.trees));
                    table.keep_value(order, ok.value.as_ref());
                    ctx.effects.push(Effect::Accepted { id: result.id, result: Ok((ok.v, ok.value)) });
                }
                (None, Some(fault)) => self.take_fault(ctx, table, app, order, fault)?,
                (None, None) => {}
            }
        }
        let is_same_name = table.summary.name == name;
        if !sent.is_empty() {
            self.room.was_enough();
            // If a server repeats any other answer, the session asks at growing intervals.
            let has_ended = table.pending() < pending_before;
            if has_ended || is_later || (is_same_name && last_seq > seq_before) {
                self.backoff.reset();
            } else {
                self.not_before_ms = ctx.clock.mono_ms + self.backoff.next_ms(&mut *ctx.random)?;
            }
        }
        if is_same_name {
            // The reply says how far the session has come; operations that were not executed are numbered
            // from there.
            table.summary.last_seq = last_seq;
            if has_unexecuted {
                release_passed(table, sent, &executed);
            }
        }
        Ok(!is_same_name)
    }

    /// The server has executed an operation, at that version and with those numbers in trees.
    fn accept(
        &mut self,
        ctx: &Ctx,
        table: &mut PendingOps,
        order: u64,
        (v, trees): (u64, Vec<(Name, Pk, u64)>),
    ) {
        let Some(op) = table.op_mut(order) else { return };
        let seq = op.seq.unwrap_or(0);
        op.state.accepted = Some(v);
        op.state.trees = trees;
        op.state.seq = Some(seq);
        op.has_other_numbers = false;
        for action in &mut op.actions {
            action.commit = Some(v);
        }
        if seq > 0 {
            self.accepted.insert((seq, op.state.issued.id.clone()));
        }
        let op = op.clone();
        table.sort(order);
        table.due.rewrite(order);
        expect_given(ctx, table, &op);
    }

    /// Whether an operation expects the version of another one that this session does not know, or that comes
    /// later in the order. No later event can make that version known.
    fn expects_unknown(&self, table: &PendingOps, order: u64) -> bool {
        let is_over = |id: &str| self.accepted.iter().any(|(_, accepted)| accepted == id);
        table[order].named().any(|id| match table.get(id) {
            Some(named) => named.state.order >= order || named.is_local(),
            None => !is_over(id),
        })
    }

    /// Takes a fault. If the fault is not its result, the operation keeps its number: the same request may
    /// still reach the server again.
    fn take_fault(
        &mut self,
        ctx: &mut Ctx,
        table: &mut PendingOps,
        app: &dyn Application,
        order: u64,
        fault: Fault,
    ) -> Result<()> {
        let error = error_of(&fault);
        let code = error.code();
        match code {
            Code::OrderHeld if !self.expects_unknown(table, order) => {
                release_numbers(table, order);
                return Ok(());
            }
            // No later event can make the expected version known. It was not executed: its number goes to the next
            // one. The server decides by the document, or the operation is refused.
            Code::OrderHeld => {
                release_numbers(table, order);
                if doubt_named(table, order) {
                    return Ok(());
                }
            }
            // After a restart, this session may have come further than it remembers: the reply says how far.
            // A second fault means that another store has the same name.
            Code::SessionReused if !std::mem::replace(&mut self.is_renumbered, true) => {
                release_numbers(table, order);
                return Ok(());
            }
            Code::SessionReused => return self.rename_session(ctx, table),
            _ if fault.kind.is_retryable() => {
                ctx.errors.report(error);
                return Ok(());
            }
            _ => {}
        }
        let id = table[order].state.issued.id.clone();
        if code == Code::Forgotten {
            // It was executed so long ago that the server no longer knows its result.
            self.accept(ctx, table, order, (0, Vec::new()));
            ctx.effects.push(Effect::Accepted { id, result: Ok((0, None)) });
            return Ok(());
        }
        if code == Code::BadValue && table[order].unsendable.is_some() {
            take_unsendable(ctx, table, order);
            return Ok(());
        }
        if code == Code::VersionConflict && settle_conflict(ctx, table, app, order, &fault) {
            return Ok(());
        }
        let is_to_upload = code == Code::FileMissing && is_to_upload_again(table, order, &fault);
        table.park(order, fault);
        if is_to_upload {
            // Its id is spent: the same operation goes under another one, once its files are there.
            let new = make_id(ctx.clock.wall_ms, &mut *ctx.random)?;
            amend(ctx, table, app, &id, new.clone(), None)?;
            ctx.effects.push(Effect::Amended { id, by: new });
        } else {
            ctx.effects.push(Effect::Refused { id, error });
        }
        Ok(())
    }

    /// The server knows other operations under this session's numbers, or does not know the session. It takes
    /// another name, and numbers the same ids from 1.
    pub fn rename_session(&mut self, ctx: &mut Ctx, table: &mut PendingOps) -> Result<()> {
        let name = ctx.random.text()?;
        ctx.set_session(name);
        table.summary.last_seq = 0;
        table.summary.name += 1;
        self.highest_sent = 0;
        self.accepted.clear();
        ctx.memory.dirty.head = true;
        for op in table.iter_mut() {
            op.seq = None;
            // A copy of a request in the earlier name may still execute it.
            op.has_other_numbers |= op.is_waiting() && op.sent_as.is_some();
            if op.state.seq.is_some() {
                // Any later pull shows it.
                op.state.seq = Some(0);
            }
        }
        Ok(())
    }
}

/// The earlier operations that this one depends on and that the server has not accepted, in ascending
/// order. These are the latest one on each document, those that it names in `after`, and those whose versions
/// it expects. For an item, it is also the latest one that creates or deletes its parent (R19).
fn dependencies(table: &PendingOps, order: u64) -> Vec<u64> {
    let op = &table[order];
    let on = |key: &DocKey| {
        table.on_before(key, order).rfind(|other| other.is_waiting() && other.keys.contains(key))
    };
    let decides =
        |tree: &DocKey| table.on_before(tree, order).rfind(|other| other.is_waiting() && other.decides(tree));
    let trees = op.keys.iter().filter_map(|key| table.tree_of(key));
    let by_documents = op.keys.iter().filter_map(on).chain(trees.filter_map(decides));
    let by_name = op.waits_for().filter_map(|id| table.get(id));
    let by_name = by_name.filter(|other| other.is_waiting());
    let orders: SortedSet<u64> = order::set_of(by_documents.chain(by_name).map(|other| other.state.order));
    orders.range(..order).copied().collect()
}

/// The results show for each operation sent whether the reply's parts contain it. Suppose that `last_seq` has
/// passed the number of an operation that the parts do not contain. Then another operation had this number,
/// because the store or the server was restored. No copy of the request can be executed under this number any
/// more.
fn release_passed(table: &mut PendingOps, sent: &[(OpId, u64)], executed: &SortedSet<OpId>) {
    let last_seq = table.summary.last_seq;
    let mut passed = sent.iter().filter(|(id, seq)| *seq <= last_seq && !executed.contains(id));
    if let Some(order) = passed.find_map(|(id, _)| Some(table.get(id)?.state.order)) {
        release_numbers(table, order);
    }
}

/// The server blocks an operation behind one that it refused. Neither it nor those numbered after it can
/// be executed under their numbers, which go to the operation that replaces the refused one.
fn release_numbers(table: &mut PendingOps, order: u64) {
    let Some(first) = table[order].seq else { return };
    table.release(|_, seq| seq >= first);
}

/// Whether the dependencies form a chain in which each blocks the next. A request can name only one
/// dependency of an operation. If they are independent of each other, the operation waits for the next
/// request.
fn is_chain(dependencies: &[u64], chain: &SortedMap<u64, u64>) -> bool {
    let Some((last, others)) = dependencies.split_last() else { return true };
    let chained: SortedSet<u64> =
        std::iter::successors(Some(*last), |order| chain.get(order).copied()).collect();
    others.iter().all(|order| chained.contains(order))
}
