//! Operations: each executed once, in the order of its session, as one transaction that holds its result (R11, R12).
// A fault is as large as what it tells the session; refusals are rare.
#![allow(clippy::result_large_err)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use escale::codec::{Fault, Format, Op, OpOk, OpResult, SyncRequest, decode, encode};
use escale::limits::{DOCUMENT_BYTES_MAX, RESULTS_BYTES_MAX, TEXT_CHARS_MAX, VERSION_MAX};
use escale::model::{Epoch, Value, Version, sha_s};
use escale::{Code, Error, Kind, Result};

use super::attempts::TRIES_MAX;
use super::known::{Known, known};
use super::open::put_state;
use super::operation::{Ran, Tx, WORKING, fault_of, working};
use super::write::RESTARTS_MAX;
use super::{Caller, Engine};
use crate::provider::{Operation, Place, Session, Snapshot, State, Transaction};

/// Milliseconds after which no further operation of a request is begun: far from where its caller gives up. The
/// session sends the rest again.
const OPERATE_MS_MAX: u64 = 20_000;

/// What results weigh beside the documents and values that they bring: 500 ids of 1 KiB, and some words for each.
const RESULTS_BARE_BYTES: usize = 1 << 20;

/// The phase of a fault that arose before the operation started: while it waited for its turn to write, say.
const WAITING: u8 = 0;

/// The phase of a fault that arose while the result was committed.
const COMMITTING: u8 = 2;

/// Who asks, and where.
#[derive(Clone, Copy)]
struct Asking<'a> {
    org: &'a str,
    caller: &'a Caller,
    session: &'a str,
    /// The epoch that the operations are for; `None` where the request names none.
    epoch: Option<&'a Epoch>,
}

/// A transaction, and the database's state as it finds it.
type Begun<'a> = (Box<dyn Transaction + 'a>, State);

/// What was known of an operation before it runs.
enum Before {
    /// It was executed, or refused; the number is the session's next one, or not.
    Known { known: Known, is_next: bool },
    /// It is not executed, and leaves nothing.
    Refused(Fault),
    /// It is the session's next.
    Next,
}

/// What came of the operations of a request.
pub(super) struct Operated {
    /// The results of those executed, in order.
    results: Vec<OpResult>,
    /// Why the next one was not.
    fault: Option<Fault>,
    /// Bytes that results may still take.
    room: usize,
}

/// What came of an operation.
enum Done {
    /// Its result: what follows goes on.
    Result(OpResult),
    /// It was not executed: the request's results end here.
    Not(Fault),
    /// It met a document of this version: it starts again above it.
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
        // Whatever the last one brings, the bound of all is kept.
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

    /// The results of a request, completed in the reply's snapshot where they end with an operation that was not executed:
    /// of it and of those behind it, what is known by then is answered, be it from before or from another copy of the
    /// request. So its fault says of all that have no result that they are not in the parts; a session that has forgotten
    /// its numbers need not guess. It stands at the first that is not known by then, for the operation that met it may be
    /// known now; it is left out where not every result can be told.
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
                // It was executed, and that cannot be told: the fault must not speak for it.
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

    /// The result of an operation, or why it was not executed.
    fn operate_one(&self, asking: Asking, op: &Op) -> std::result::Result<OpResult, Fault> {
        let mut at_least = 0;
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
        let tx = self.provider.write(self.settings.write_wait).map_err(waiting)?;
        let state = tx.state().map_err(waiting)?;
        if asking.epoch.is_some_and(|epoch| *epoch != state.epoch) {
            // A copy may come late, after the server was put back: what had been refused since, and discarded by its
            // user, would be executed (R11).
            let what = "the request was sent in another epoch";
            return Ok(Done::Not(Fault::new(Code::Contention, what)));
        }
        match before(tx.as_ref(), asking, op).map_err(waiting)? {
            Before::Refused(fault) => Ok(Done::Not(fault)),
            Before::Known { known, is_next } => {
                let result = self.known_result(asking, &op.id, &known);
                if is_next {
                    // The session took a new name, or lost its count: this number of it is used now.
                    self.spend((tx, state), asking, op.seq).map_err(committing)?;
                }
                Ok(Done::Result(result))
            }
            Before::Next => self.execute((tx, state), asking, op, at_least).map_err(committing),
        }
    }

    /// A number is used for an operation that was executed under another one. A copy of the database from before does not
    /// know of it: it counts as a commit (R8).
    fn spend(&self, (mut tx, mut state): Begun, asking: Asking, seq: u64) -> Result<()> {
        put_seq(tx.as_mut(), asking, seq)?;
        put_state(tx.as_mut(), &mut state)?;
        tx.commit()?;
        self.remember(&state);
        Ok(())
    }

    /// Runs an operation, and commits its effect with its result; of a refused one, the result alone.
    fn execute(
        &self,
        (mut tx, mut state): Begun,
        asking: Asking,
        op: &Op,
        at_least: Version,
    ) -> Result<Done> {
        tx.savepoint()?;
        let writing = self.writing(asking.org, &state, at_least, tx.as_mut())?.of_operation(&op.id);
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
        let ran = ran.and_then(|value| in_time.map(|()| value).map_err(working));
        let ran = match ran {
            Err(fault) if fault.kind.is_retryable() => match self.given_up(asking, op, &fault) {
                Some(refused) => Err(refused),
                None => return Ok(Done::Not(fault)),
            },
            ran => ran,
        };
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
        tx.append_operation(asking.org, account, &operation)?;
        put_seq(tx.as_mut(), asking, op.seq)?;
        tx.add_org(asking.org)?;
        if changed {
            state.highest = state.highest.max(now);
        }
        // A result counts too: a copy from before it does not know of it (R8).
        put_state(tx.as_mut(), &mut state)?;
        tx.commit()?;
        if changed {
            self.after_commit(&state);
        } else {
            self.remember(&state);
        }
        Ok(Done::Result(result))
    }

    /// Counts a try that failed while the operation ran; of the last one, the fault that is the operation's result.
    /// A fault of kind O says that its cause is known and passes, `order_held` that another operation's fate decides.
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

    /// What an operation was answered. A result that is gone, or cannot be read, will not be read the next time either:
    /// the operation was executed all the same, or refused, and its session goes on.
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

/// Where a result rests, for its seal; no document's place has an empty class.
pub(super) fn result_place<'a>(org: &'a str, pk: &'a str) -> Place<'a> {
    Place { org, class: "", pk }
}

/// The pk of that place.
pub(super) fn result_pk(account: &str, id: &str) -> String {
    format!("{account}/{id}")
}

/// Refuses a request whose operations no session could have numbered so.
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

/// The rules of the order (R11): what is known by its id is answered as it was; of the others the next one of the session
/// is executed.
fn before(tx: &dyn Transaction, asking: Asking, op: &Op) -> Result<Before> {
    let Asking { org, caller, session, .. } = asking;
    let refused = |code, what: &str| Ok(Before::Refused(Fault::new(code, what)));
    let last = match tx.session(org, session)? {
        // Not `forbidden`: whoever uses a name first must not shut its owner out. It takes a new one.
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
        // Its own id would be known.
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

/// The name goes with the result.
fn is_of_another_name(known: &Known, op: &Op) -> bool {
    matches!(known, Known::Kept(operation) if operation.name != sha_s(&op.name))
}

/// What ends the results at another operation than the one that met it.
fn passed() -> Fault {
    Fault::new(Code::Contention, "another copy of the request executed what stands before it")
}

/// A session has come this far.
fn put_seq(tx: &mut dyn Transaction, asking: Asking, seq: u64) -> Result<()> {
    let account = asking.caller.account.clone();
    tx.put_session(asking.org, asking.session, &Session { account, seq })
}

/// An operation that panics is refused for good: tried again, it would stop its session for ever.
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

/// What a result weighs in the reply, as far as it can be large: small ones never end the results.
fn weight(result: &OpResult) -> usize {
    let value = result.ok.as_ref().and_then(|ok| ok.value.as_ref());
    let data = result.fault.as_ref().and_then(|fault| fault.doc.as_ref()).and_then(|row| row.data.as_ref());
    value.map_or(0, |value| encode(Format::Msgpack, value).map_or(0, |bytes| bytes.len()))
        + data.map_or(0, |data| data.as_bytes().len())
}
