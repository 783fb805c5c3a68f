//! Executes operations: each once, in the order of its session, in groups. A group is one transaction that
//! also holds the results (R11, R12).
//!
//! A commit takes far longer than most operations, because it waits for the disk. So the operations of a
//! request share one, up to a bound. Within it, each has its own savepoint and its own version. A result is
//! given once the group is committed: all of the group or none.
// A fault is as large as the information that the session needs. Refusals are rare.
#![allow(clippy::result_large_err)]

use escale::codec::{Fault, Op, OpResult, SyncRequest};
use escale::limits::{DOCUMENT_BYTES_MAX, RESULTS_BYTES_MAX, TEXT_CHARS_MAX, VERSION_MAX};
use escale::model::Version;
use escale::{Code, Error, Result};

use crate::engine::caller::Caller;
use crate::engine::effects::transact::RESTARTS_MAX;
use crate::engine::instance::work::Work;
use crate::engine::operations::context::{COMMITTING, RequestContext};
use crate::engine::operations::execute::{Done, result_bytes};
use crate::engine::operations::operator::Operator;
use crate::engine::operations::order::before::{Before, before, put_seq};
use crate::engine::operations::order::past_operation::{is_of_another_name, past_operation};
use crate::engine::operations::result::past_result;
use crate::engine::tx::budget::allowance;
use crate::engine::tx::lock::OrgLock;
use crate::engine::tx::outcome::{WORKING, fault_of};
use crate::provider::{DocumentReads, Snapshot};
use crate::spans::{kind_letter, span};

/// Milliseconds after which no further operation of a request begins, well before its caller gives up. The
/// session sends the rest again.
const OPERATE_MS_MAX: u64 = 20_000;

/// Operations in one transaction. PostgreSQL keeps 64 savepoints of a transaction at hand, and is slower
/// beyond that.
const GROUP_OPS_MAX: usize = 32;

/// Milliseconds after which a group takes no further operation, because the org's other writes wait for it.
const GROUP_MS_MAX: u64 = 200;

/// The bytes of results without their documents and values: 500 ids of 1 KiB, and some words for each.
const RESULTS_BARE_BYTES: usize = 1 << 20;

/// The phase of a fault that arose before the operation started, for example while it waited for its turn to
/// write.
const WAITING: u8 = 0;

/// The outcome of the operations of a request.
pub(in crate::engine) struct Operated {
    /// The results of those executed, in order.
    results: Vec<OpResult>,
    /// The reason why the next one was not executed.
    fault: Option<Fault>,
    /// Bytes that results may still take.
    room: usize,
    /// Bytes that the request may still add to the database.
    growth: i64,
    /// The highest number of an operation of which nothing was kept.
    pub(in crate::engine) passed: u64,
    /// Whether the results end here, without a fault.
    is_full: bool,
}

/// Operations that share a transaction.
pub(in crate::engine) struct TransactionGroup<'p> {
    pub(in crate::engine) lock: OrgLock<'p>,
    /// Whether anything is to be committed.
    pub(in crate::engine) is_dirty: bool,
    /// Whether documents have changed.
    pub(in crate::engine) has_changed: bool,
    /// Whether schedules have changed (R89).
    pub(in crate::engine) restricts: bool,
    /// The failure after which the transaction cannot be committed.
    pub(in crate::engine) broken: Option<Error>,
    /// Bytes that the request may still add to the database.
    pub(in crate::engine) room: i64,
    /// The highest number of an operation of which nothing was kept.
    pub(in crate::engine) passed: u64,
}

impl Operator<'_> {
    /// Executes the operations of a request in order, up to the first that is not executed.
    pub(in crate::engine) fn operate(
        &self,
        org: &str,
        caller: &Caller,
        request: &SyncRequest,
        work: &Work,
    ) -> Result<Operated> {
        let ops = &request.ops;
        check(ops)?;
        let context = RequestContext::of((org, caller), request, work);
        let started = self.clock.elapsed_ms();
        // Leaves room for the largest possible last result, so that the total stays within the bound.
        let room_max = RESULTS_BYTES_MAX - DOCUMENT_BYTES_MAX - RESULTS_BARE_BYTES;
        let room = self.settings.page_bytes.min(room_max);
        let growth = allowance(ops);
        let mut operated =
            Operated { results: Vec::new(), fault: None, room, growth, passed: 0, is_full: false };
        while operated.fault.is_none() && !operated.is_full && operated.results.len() < ops.len() {
            work.check_caller()?;
            let is_late = self.clock.elapsed_ms().saturating_sub(started) > OPERATE_MS_MAX;
            if !operated.results.is_empty() && (is_late || operated.room == 0) {
                break;
            }
            let rest = &ops[operated.results.len()..];
            operated = self.operate_group(context, rest, operated);
        }
        Ok(operated)
    }

    /// Executes the next operations in one transaction.
    fn operate_group(&self, context: RequestContext, ops: &[Op], operated: Operated) -> Operated {
        let Operated { mut results, room, .. } = operated;
        let first = results.len();
        let (clock, wait) = (self.clock.as_ref(), self.settings.write_wait);
        let in_turn = self.pace.keep(context.org, clock, wait);
        let lock = match in_turn.and_then(|()| self.begin(context.org, wait)) {
            Ok(lock) => lock,
            Err(error) => {
                return Operated { results, fault: Some(fault_of(&error, WAITING)), ..operated };
            }
        };
        if context.epoch.is_some_and(|epoch| *epoch != lock.head.epoch) {
            // A copy of the request may arrive after the server was restored from a backup. It could execute
            // operations that the server had refused and their user had discarded since (R11).
            let what = "the request was sent in another epoch";
            return Operated { results, fault: Some(Fault::new(Code::Contention, what)), ..operated };
        }
        let mut group = TransactionGroup {
            lock,
            is_dirty: false,
            has_changed: false,
            restricts: false,
            broken: None,
            room: operated.growth,
            passed: operated.passed,
        };
        let started = self.clock.elapsed_ms();
        let (mut fault, mut left, mut is_full) = (None, room, false);
        // The results and the room so far, as long as nothing is to be committed.
        let mut settled = (first, room);
        for op in ops.iter().take(GROUP_OPS_MAX) {
            let is_late = self.clock.elapsed_ms().saturating_sub(started) >= GROUP_MS_MAX;
            let is_ahead = self.pace.is_ahead(context.org, clock);
            if results.len() > first && (is_late || left == 0 || is_ahead) {
                break;
            }
            let span = span!("operation", end = tracing::field::Empty);
            let context = RequestContext { is_first: results.is_empty(), ..context };
            let ended = span.in_scope(|| self.operate_one(context, op, &mut group));
            span.record("end", span_outcome(&ended));
            match ended {
                Ok(result) => {
                    left = left.saturating_sub(result_bytes(&result));
                    results.push(result);
                    if !group.is_dirty {
                        settled = (results.len(), left);
                    }
                }
                Err(not_executed) => {
                    (is_full, fault) = (not_executed.is_none(), not_executed);
                    break;
                }
            }
        }
        let (growth, passed) = (group.room, group.passed);
        match self.end_group(context.org, group) {
            Ok(()) => Operated { results, fault, room: left, growth, passed, is_full },
            Err(error) => {
                // Nothing of the group happened. Only results from before it can be given.
                results.truncate(settled.0);
                let fault = Some(fault_of(&error, COMMITTING));
                Operated { results, fault, room: settled.1, ..operated }
            }
        }
    }

    fn end_group(&self, org: &str, group: TransactionGroup) -> Result<()> {
        if let Some(error) = group.broken {
            return Err(error);
        }
        if group.is_dirty {
            // A result counts as a commit too: a copy of the database from before does not have it (R8).
            self.commit(group.lock)?;
        }
        if group.restricts {
            self.known_schedules.forget(org);
        }
        if group.has_changed {
            self.after_commit();
        }
        Ok(())
    }

    /// Gives the result of an operation, or the reason why it was not executed. None: the request may add no more to the
    /// database.
    fn operate_one(
        &self,
        context: RequestContext,
        op: &Op,
        group: &mut TransactionGroup,
    ) -> std::result::Result<OpResult, Option<Fault>> {
        let before = before(group.lock.tx.snapshot(), context, (op, group.passed));
        let before = before.map_err(|error| fault_of(&error, WAITING))?;
        let result = match before {
            Before::Refused(fault) => return Err(Some(fault)),
            Before::Past { past, is_next } => {
                if is_next {
                    // The session took a new name, or lost its count. This number of it is used now. An older
                    // copy of the database does not know that, so it counts as a commit (R8).
                    let put = put_seq(group.lock.tx.as_mut(), context, op.seq);
                    put.map_err(|error| fault_of(&error, COMMITTING))?;
                    group.is_dirty = true;
                }
                past_result(self.instance, group.lock.tx.snapshot(), context, (&op.id, &past))
            }
            Before::Next => self.operate_next(context, op, group)?,
            Before::Used => self.operate_next(RequestContext { is_used: true, ..context }, op, group)?,
        };
        self.tries.ended(context.org, context.session);
        Ok(result)
    }

    fn operate_next(
        &self,
        context: RequestContext,
        op: &Op,
        group: &mut TransactionGroup,
    ) -> std::result::Result<OpResult, Option<Fault>> {
        let mut at_least = Version::default();
        for _ in 0..RESTARTS_MAX {
            match self.execute(context, op, group, at_least) {
                Done::Result(result) => return Ok(result),
                Done::Not(fault) => return Err(Some(fault)),
                Done::Full => return Err(None),
                Done::Regressed(v) => at_least = v + 1,
            }
        }
        let what = "the documents read kept a version above the operation's";
        Err(Some(Fault { phase: WORKING, ..Fault::new(Code::Contention, what) }))
    }

    /// Completes the results of a request from the reply's snapshot, if they end with an operation that was
    /// not executed.
    ///
    /// Another copy of the request may have executed some of the later operations. Each of these gets its
    /// stored result, and so does each one that was executed earlier. The fault is attached to the first
    /// operation that was not executed. This may be a later one than the operation that met the fault. The
    /// fault then means that the parts contain no effect of any operation without a result. So a session that
    /// has forgotten its numbers need not guess.
    ///
    /// The fault is left out if a stored result cannot be given, for example because there is no room for it.
    pub(in crate::engine) fn complete(
        &self,
        (snapshot, documents): (&dyn Snapshot, &dyn DocumentReads),
        (org, caller): (&str, &Caller),
        request: &SyncRequest,
        operated: Operated,
    ) -> Result<Vec<OpResult>> {
        let Operated { mut results, mut fault, mut room, .. } = operated;
        if fault.is_none() {
            return Ok(results);
        }
        let (ops, work) = (&request.ops, &Work::of(0));
        let context = RequestContext::of((org, caller), request, work);
        let first = results.len();
        let mut fault_at = None;
        for (index, op) in ops.iter().enumerate().skip(first) {
            match past_operation(snapshot, org, &caller.account, &op.id)? {
                Some(past) if room > 0 && !is_of_another_name(&past, op) => {
                    let result = past_result(self.instance, documents, context, (&op.id, &past));
                    room = room.saturating_sub(result_bytes(&result));
                    results.push(result);
                }
                // The operation was executed, but its result cannot be given. The fault would claim that the
                // parts do not contain its effect.
                Some(_) if index > first => {
                    fault_at.map(|index| results.remove(index));
                    break;
                }
                Some(_) | None => {
                    let fault = fault.take().map(|fault| if index == first { fault } else { passed() });
                    fault_at = fault_at.or(fault.is_some().then_some(results.len()));
                    let id = op.id.clone();
                    results.extend(fault.map(|fault| OpResult { id, ok: None, fault: Some(fault) }));
                }
            }
        }
        Ok(results)
    }
}

/// The end of an operation, in the words of its span: "ok", or the kind of its fault.
fn span_outcome(ended: &std::result::Result<OpResult, Option<Fault>>) -> &'static str {
    let fault = match ended {
        Ok(result) => result.fault.as_ref(),
        Err(fault) => fault.as_ref(),
    };
    fault.map_or("ok", |fault| kind_letter(fault.kind))
}

/// Refuses a request with operations that no session could have numbered so.
fn check(ops: &[Op]) -> Result<()> {
    for op in ops {
        if op.seq == 0 || op.seq > VERSION_MAX {
            return Err(Error::new(Code::Malformed, "`seq` counts from 1"));
        }
        if op.after.as_ref().is_some_and(|id| id.is_empty() || id.len() > TEXT_CHARS_MAX) {
            return Err(Error::new(
                Code::Malformed,
                format!("`after` must have 1 to {TEXT_CHARS_MAX} characters"),
            ));
        }
    }
    Ok(())
}

/// The fault for another operation than the one that met the original fault.
fn passed() -> Fault {
    Fault::new(Code::Contention, "another copy of the request executed what stands before it")
}
