//! Executes operations: each once, in the order of its session, as one transaction that also holds its result
//! (R11, R12).
// A fault is as large as the information that the session needs. Refusals are rare.
#![allow(clippy::result_large_err)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use escale::codec::{Fault, Format, Op, OpOk, OpResult, SyncRequest, decode, encode};
use escale::limits::{DOCUMENT_BYTES_MAX, RESULTS_BYTES_MAX, TEXT_CHARS_MAX, VERSION_MAX};
use escale::model::{Epoch, Value, Version, sha_s};
use escale::{Code, Error, Kind, Result};

use super::attempts::TRIES_MAX;
use super::begin::Begun;
use super::known::{Known, known};
use super::operation::{Ran, Tx, WORKING, fault_of, working};
use super::write::RESTARTS_MAX;
use super::{Caller, Engine};
use crate::provider::{Operation, Place, Session, Snapshot, Transaction};

/// Milliseconds after which no further operation of a request begins, well before its caller gives up. The
/// session sends the rest again.
const OPERATE_MS_MAX: u64 = 20_000;

/// The weight of results without their documents and values: 500 ids of 1 KiB, and some words for each.
const RESULTS_BARE_BYTES: usize = 1 << 20;

/// The phase of a fault that arose before the operation started, for example while it waited for its turn to
/// write.
const WAITING: u8 = 0;

/// The phase of a fault that arose while the result was committed.
const COMMITTING: u8 = 2;

/// The sender of the operations, and the org.
#[derive(Clone, Copy)]
struct Asking<'a> {
    org: &'a str,
    caller: &'a Caller,
    session: &'a str,
    /// The epoch that the operations are for; `None` if the request names none.
    epoch: Option<&'a Epoch>,
}

/// The state of an operation before it runs.
enum Before {
    /// Already executed or refused. `is_next` says whether its number is the session's next one.
    Known { known: Known, is_next: bool },
    /// Refused without a trace: it is not executed, and nothing is recorded.
    Refused(Fault),
    /// It is the session's next.
    Next,
}

/// The outcome of the operations of a request.
pub(super) struct Operated {
    /// The results of those executed, in order.
    results: Vec<OpResult>,
    /// The reason why the next one was not executed.
    fault: Option<Fault>,
    /// Bytes that results may still take.
    room: usize,
}

/// The outcome of one operation.
enum Done {
    /// Its result. The operations after it can run.
    Result(OpResult),
    /// It was not executed. The request's results end here.
    Not(Fault),
    /// It met a document of this version, so it must start again with a higher one.
    Regressed(Version),
}

impl Engine {
    /// Executes the operations of a request in order, up to the first that is not executed.
    pub(super) fn operate(&self, org: &str, caller: &Caller, request: &SyncRequest) -> Result<Operated> {
        let SyncRequest { session, epoch, ops, .. } = request;
        check(ops)?;
        let asking = Asking { org, caller, session, epoch: epoch.as_ref() };
        let started = self.clock.elapsed_ms();
        let (mut results, mut fault) = (Vec::new(), None);
        // Leaves room for the largest possible last result, so that the total stays within the bound.
        let room_max = RESULTS_BYTES_MAX - DOCUMENT_BYTES_MAX - RESULTS_BARE_BYTES;
        let mut room = self.settings.page_bytes.min(room_max);
        for op in ops {
            let is_late = self.clock.elapsed_ms().saturating_sub(started) > OPERATE_MS_MAX;
            if !results.is_empty() && (is_late || room == 0) {
                break;
            }
            match self.operate_one(asking, op) {
                Ok(result) => {
                    room = room.saturating_sub(weight(&result));
                    results.push(result);
                }
                Err(not_executed) => {
                    fault = Some(not_executed);
                    break;
                }
            }
        }
        Ok(Operated { results, fault, room })
    }

    /// Completes the results of a request from the reply's snapshot, if they end with an operation that was
    /// not executed.
    ///
    /// Each later operation whose id is known by now, from before or through another copy of the request,
    /// gets its stored result. The fault is attached to the first operation that is still unknown; the
    /// operation that met it may be known by now. The fault then means that the parts contain no effect of
    /// any operation without a result. So a session that has forgotten its numbers need not guess.
    ///
    /// The fault is left out if some known result cannot be given, for want of room for example.
    pub(super) fn complete(
        &self,
        snapshot: &dyn Snapshot,
        (org, caller): (&str, &Caller),
        request: &SyncRequest,
        operated: Operated,
    ) -> Result<Vec<OpResult>> {
        let Operated { mut results, mut fault, mut room } = operated;
        if fault.is_none() {
            return Ok(results);
        }
        let SyncRequest { session, epoch, ops, .. } = request;
        let asking = Asking { org, caller, session, epoch: epoch.as_ref() };
        let first = results.len();
        let mut told_at = None;
        for (place, op) in ops.iter().enumerate().skip(first) {
            match known(snapshot, org, &caller.account, &op.id)? {
                Some(known) if room > 0 && !is_of_another_name(&known, op) => {
                    let result = self.known_result(asking, &op.id, &known);
                    room = room.saturating_sub(weight(&result));
                    results.push(result);
                }
                // The operation was executed, but its result cannot be given. The fault must not claim
                // otherwise.
                Some(_) if place > first => {
                    told_at.map(|place| results.remove(place));
                    break;
                }
                Some(_) | None => {
                    let fault = fault.take().map(|fault| if place == first { fault } else { passed() });
                    told_at = told_at.or(fault.is_some().then_some(results.len()));
                    let id = op.id.clone();
                    results.extend(fault.map(|fault| OpResult { id, ok: None, fault: Some(fault) }));
                }
            }
        }
        Ok(results)
    }

    /// Gives the result of an operation, or the reason why it was not executed.
    fn operate_one(&self, asking: Asking, op: &Op) -> std::result::Result<OpResult, Fault> {
        let mut at_least = Version::default();
        for _ in 0..RESTARTS_MAX {
            match self.try_operate(asking, op, at_least)? {
                Done::Result(result) => {
                    self.tries.ended(asking.org, asking.session);
                    return Ok(result);
                }
                Done::Not(fault) => return Err(fault),
                Done::Regressed(v) => at_least = v + 1,
            }
        }
        let what = "the documents read kept a version above the operation's";
        Err(Fault { phase: WORKING, ..Fault::new(Code::Contention, what) })
    }

    fn try_operate(&self, asking: Asking, op: &Op, at_least: Version) -> std::result::Result<Done, Fault> {
        let waiting = |error| fault_of(&error, WAITING);
        let committing = |error| fault_of(&error, COMMITTING);
        let begun = self.begin(asking.org, self.settings.write_wait).map_err(waiting)?;
        if asking.epoch.is_some_and(|epoch| *epoch != begun.head.epoch) {
            // A copy of the request may arrive after the server was restored from a backup. It could execute
            // operations that the server had refused and their user had discarded since (R11).
            let what = "the request was sent in another epoch";
            return Ok(Done::Not(Fault::new(Code::Contention, what)));
        }
        match before(begun.tx.as_ref(), asking, op).map_err(waiting)? {
            Before::Refused(fault) => Ok(Done::Not(fault)),
            Before::Known { known, is_next } => {
                let result = self.known_result(asking, &op.id, &known);
                if is_next {
                    // The session took a new name, or lost its count. This number of it is used now.
                    self.spend(begun, asking, op.seq).map_err(committing)?;
                }
                Ok(Done::Result(result))
            }
            Before::Next => self.execute(begun, asking, op, at_least).map_err(committing),
        }
    }

    /// Records that a number is used, for an operation that was executed under another number. An older copy
    /// of the database does not know that, so it counts as a commit (R8).
    fn spend(&self, mut begun: Begun, asking: Asking, seq: u64) -> Result<()> {
        put_seq(begun.tx.as_mut(), asking, seq)?;
        self.commit(begun).map(drop)
    }

    /// Runs an operation, and commits its effect together with its result. If it is refused, only the result
    /// is committed.
    fn execute(&self, mut begun: Begun, asking: Asking, op: &Op, at_least: Version) -> Result<Done> {
        begun.tx.savepoint()?;
        let writing =
            self.writing(asking.org, &begun.head, at_least, begun.tx.as_mut())?.of_operation(&op.id);
        let mut run = Tx { writing, account: &asking.caller.account };
        let ran = if asking.caller.may_write {
            catch_unwind(AssertUnwindSafe(|| self.operations.run(&mut run, &op.name, &op.args)))
                .unwrap_or_else(|_| Err(panicked(&op.name)))
                .and_then(check_value)
        } else {
            Err(Fault::new(Code::Forbidden, "the token's role does not allow operations"))
        };
        let Tx { writing, .. } = run;
        let (now, given, in_time) = (writing.now(), writing.given(), writing.check_time());
        let changed = writing.has_changed();
        if let Some(v) = writing.regressed {
            return Ok(Done::Regressed(v));
        }
        if writing.is_blocked {
            // Not a failed attempt: the cause lies in another org's write.
            let what = "a write of another org holds a value that must be unique across orgs";
            return Ok(Done::Not(Fault { phase: WORKING, ..Fault::new(Code::Contention, what) }));
        }
        let ran = ran.and_then(|value| in_time.map(|()| value).map_err(working));
        let ran = match ran {
            Err(fault) if fault.kind.is_retryable() => match self.given_up(asking, op, &fault) {
                Some(refused) => Err(refused),
                None => return Ok(Done::Not(fault)),
            },
            ran => ran,
        };
        let tx = &mut begun.tx;
        let (v, result) = match ran {
            Ok(value) => {
                let ok = Some(OpOk { v: given, value });
                (Some(given), OpResult { id: op.id.clone(), ok, fault: None })
            }
            Err(fault) => {
                tx.undo()?;
                (None, OpResult { id: op.id.clone(), ok: None, fault: Some(fault) })
            }
        };
        let changed = changed && v.is_some();
        let bytes = encode(Format::Msgpack, &result)?;
        let (account, id, name) = (&asking.caller.account, op.id.clone(), sha_s(&op.name));
        let pk = result_pk(account, &id);
        let result_rests = self.seal.close(result_place(asking.org, &pk), op.seq, &bytes)?;
        let session = asking.session.to_owned();
        let operation = Operation { session, seq: op.seq, id, name, v, at: now, result: result_rests };
        tx.append_operation(account, &operation)?;
        put_seq(tx.as_mut(), asking, op.seq)?;
        if changed {
            begun.head.highest = begun.head.highest.max(now);
        }
        // A result counts as a commit too: a copy of the database from before does not have it (R8).
        self.commit(begun)?;
        if changed {
            self.after_commit();
        }
        Ok(Done::Result(result))
    }

    /// Counts a failed attempt to run an operation. On the last attempt it returns the fault that becomes the
    /// operation's result.
    ///
    /// Not counted: a fault of kind O, whose cause is known and passes; and `order_held`, which depends on
    /// another operation's fate.
    fn given_up(&self, asking: Asking, op: &Op, fault: &Fault) -> Option<Fault> {
        let may_last = matches!(fault.kind, Kind::C | Kind::X) && fault.code != Code::OrderHeld.as_str();
        if !may_last || !self.tries.failed(asking.org, asking.session, &op.id) {
            return None;
        }
        let Fault { code, message, .. } = fault;
        tracing::error!(name = op.name, code, message, "an operation failed each time; it is refused");
        let what = format!("given up after {TRIES_MAX} tries, the last one: {code}, {message}");
        Some(Fault { phase: WORKING, ..Fault::new(Code::Internal, what) })
    }

    /// The result that an operation got. If the stored result is purged or unreadable, it will not be
    /// readable next time either. The operation was executed or refused all the same. So the answer says
    /// that, and the session proceeds.
    fn known_result(&self, asking: Asking, id: &str, known: &Known) -> OpResult {
        if let Known::Kept(operation) = known {
            match self.stored_result(asking, operation) {
                Ok(result) => return result,
                Err(error) => tracing::error!(org = asking.org, %error, "a stored result cannot be read"),
            }
        }
        let fault = match known.v() {
            Some(_) => Fault::new(Code::Forgotten, "the operation was executed; its result is gone"),
            None => Fault::new(Code::Internal, "the operation was refused; why is not known any more"),
        };
        OpResult { id: id.to_owned(), ok: None, fault: Some(fault) }
    }

    fn stored_result(&self, asking: Asking, operation: &Operation) -> Result<OpResult> {
        let pk = result_pk(&asking.caller.account, &operation.id);
        let bytes = self.seal.open(result_place(asking.org, &pk), operation.seq, &operation.result)?;
        decode(Format::Msgpack, &bytes, usize::MAX)
            .map_err(|error| Error::new(Code::StorageFailed, error.detail()).at("a stored result"))
    }
}

/// The place of a result, for its seal. No document's place has an empty class.
pub(super) fn result_place<'a>(org: &'a str, pk: &'a str) -> Place<'a> {
    Place { org, class: "", pk }
}

/// The pk of that place.
pub(super) fn result_pk(account: &str, id: &str) -> String {
    format!("{account}/{id}")
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

/// Applies the rules of order (R11). A known id gets its stored result. Otherwise only the session's next
/// operation may run.
fn before(tx: &dyn Transaction, asking: Asking, op: &Op) -> Result<Before> {
    let Asking { org, caller, session, .. } = asking;
    let refused = |code, what: &str| Ok(Before::Refused(Fault::new(code, what)));
    let last = match tx.session(org, session)? {
        // Not `forbidden`: another account that used the name first must not lock this session out. It takes
        // a new name.
        Some(held) if held.account != caller.account => {
            return refused(Code::SessionReused, "the session's name belongs to another account");
        }
        Some(held) => held.seq,
        None => 0,
    };
    let is_next = op.seq == last + 1;
    if let Some(known) = known(tx, org, &caller.account, &op.id)? {
        if is_of_another_name(&known, op) {
            return refused(Code::BadValue, "the id is that of an operation of another name");
        }
        return Ok(Before::Known { known, is_next });
    }
    if op.seq > last + 1 {
        let what = format!("operation {} after {last}", op.seq);
        return refused(Code::OrderGap, &what);
    }
    if !is_next {
        // If it were the same operation, its id would be known.
        return refused(Code::SessionReused, "the session used this number for another operation");
    }
    if let Some(after) = &op.after
        && caller.may_write
        && known(tx, org, &caller.account, after)?.is_none_or(|earlier| earlier.v().is_none())
    {
        return refused(Code::OrderHeld, "the operation that `after` names was refused, or is not known");
    }
    Ok(Before::Next)
}

/// The stored name is purged together with the result.
fn is_of_another_name(known: &Known, op: &Op) -> bool {
    matches!(known, Known::Kept(operation) if operation.name != sha_s(&op.name))
}

/// The fault for another operation than the one that met the original fault.
fn passed() -> Fault {
    Fault::new(Code::Contention, "another copy of the request executed what stands before it")
}

/// Records the number of the session's last operation.
fn put_seq(tx: &mut dyn Transaction, asking: Asking, seq: u64) -> Result<()> {
    let account = asking.caller.account.clone();
    tx.put_session(asking.session, &Session { account, seq })
}

/// An operation that panics is refused for good. Retried, it would block its session for ever.
fn panicked(name: &str) -> Fault {
    tracing::error!(name, "an operation panicked; it is refused");
    Fault { phase: WORKING, ..Fault::new(Code::Internal, "the operation failed; the server's log says more") }
}

fn check_value(value: Option<Value>) -> Ran {
    if let Some(value) = &value {
        let refused = |code, what: &str| Err(Fault { phase: WORKING, ..Fault::new(code, what) });
        match encode(Format::Msgpack, value) {
            Ok(bytes) if bytes.len() <= DOCUMENT_BYTES_MAX => {}
            Ok(_) => return refused(Code::TooLarge, "what the operation returned is too large"),
            Err(_) => return refused(Code::Internal, "what the operation returned cannot be sent"),
        }
    }
    Ok(value)
}

/// The bytes of a result that can be large: its value and its document. Small results have no weight.
fn weight(result: &OpResult) -> usize {
    let value = result.ok.as_ref().and_then(|ok| ok.value.as_ref());
    let data = result.fault.as_ref().and_then(|fault| fault.doc.as_ref()).and_then(|row| row.data.as_ref());
    value.map_or(0, |value| encode(Format::Msgpack, value).map_or(0, |bytes| bytes.len()))
        + data.map_or(0, |data| data.as_bytes().len())
}
