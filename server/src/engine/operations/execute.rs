//! Executes one operation, within the transaction of its group.
// A fault is as large as the information that the session needs. Refusals are rare.
#![allow(clippy::result_large_err)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use escale::codec::{Fault, Format, Op, OpOk, OpResult, encode};
use escale::limits::DOCUMENT_BYTES_MAX;
use escale::model::{Value, Version, sha_s};
use escale::{Code, Kind, Result};

use crate::engine::effects::numbers::numbers;
use crate::engine::instance::refusals::level_of;
use crate::engine::operations::context::{COMMITTING, RequestContext};
use crate::engine::operations::operate::TransactionGroup;
use crate::engine::operations::operator::Operator;
use crate::engine::operations::order::attempts::TRIES_MAX;
use crate::engine::operations::order::before::put_seq;
use crate::engine::operations::reader::{leaves_nothing, use_number};
use crate::engine::operations::result::stored_form;
use crate::engine::records::record::{result_pk, result_place};
use crate::engine::tx::budget::Growth;
use crate::engine::tx::journal::cause_of;
use crate::engine::tx::operation::OperationTx;
use crate::engine::tx::outcome::{Ran, WORKING, fault_of, working};
use crate::engine::tx::write_tx::{Notes, Referenced, WriteTx};
use crate::provider::Operation;

/// The outcome of one operation.
pub(in crate::engine) enum Done {
    /// Its result. The operations after it can run.
    Result(OpResult),
    /// It was not executed. The request's results end here.
    Not(Fault),
    /// The request may add no more to the database. Its results end here, without a fault.
    Full,
    /// It met a document of this version, so it must start again with a higher one.
    Regressed(Version),
}

impl Operator<'_> {
    /// Runs an operation behind a savepoint, and writes its effect together with its result. If it is refused,
    /// only the result is written. If it is not executed, it leaves nothing.
    pub(in crate::engine) fn execute(
        &self,
        context: RequestContext,
        op: &Op,
        group: &mut TransactionGroup,
        at_least: Version,
    ) -> Done {
        if let Err(error) = group.lock.tx.savepoint() {
            // There is nothing to undo: the database has given up the transaction, or is gone.
            let fault = fault_of(&error, COMMITTING);
            group.broken = Some(error);
            return Done::Not(fault);
        }
        let done = self.run(context, op, group, at_least);
        let tx = &mut group.lock.tx;
        let ended = match &done {
            Ok(Done::Result(_)) => tx.release(),
            _ => tx.undo().and_then(|()| tx.release()),
        };
        if let Err(error) = ended {
            // A database may give up a whole transaction, for example if its disk is full.
            let fault = fault_of(&error, COMMITTING);
            group.broken = Some(error);
            return Done::Not(fault);
        }
        done.unwrap_or_else(|error| Done::Not(fault_of(&error, COMMITTING)))
    }

    fn run(
        &self,
        context: RequestContext,
        op: &Op,
        group: &mut TransactionGroup,
        at_least: Version,
    ) -> Result<Done> {
        let lock = &mut group.lock;
        let level = level_of(self.instance, context.org, context.caller);
        let write = lock.write(self.instance, context.caller, at_least)?;
        let files = Referenced::by(self.instance, context.work);
        let growth = Growth { most: Some(group.room.max(0)), ..Growth::default() };
        let notes = Notes { growth, ..Notes::default() };
        let write = WriteTx { level, commit: cause_of(&op.id), files, notes, ..write };
        let mut run = OperationTx { write, hooks: self.hooks };
        // It writes nothing.
        let ran = if context.caller.may_write || op.name == "quota.get" {
            catch_unwind(AssertUnwindSafe(|| self.operations.run(&mut run, &op.name, &op.args)))
                .unwrap_or_else(|_| Err(panicked(&op.name)))
                .and_then(check_value)
        } else {
            Err(Fault::new(Code::Forbidden, "the token's role does not allow operations"))
        };
        let OperationTx { mut write, .. } = run;
        let ran = ran.and_then(|value| write.finish().map(|()| value).map_err(working));
        let files = std::mem::take(&mut write.files.missing);
        let ran = ran.map_err(|fault| Fault { files, ..fault });
        let trees = numbers(&write.trees);
        let in_time = write.check_time();
        let WriteTx { now, time, notes, .. } = write;
        let Growth { added, is_over, .. } = notes.growth;
        if let Some(v) = notes.regressed {
            return Ok(Done::Regressed(v));
        }
        if notes.is_blocked {
            // Not a failed attempt: the cause lies in another org's write.
            let what = "a write of another org holds a value that must be unique across orgs";
            return Ok(Done::Not(Fault { phase: WORKING, ..Fault::new(Code::Contention, what) }));
        }
        let ran = ran.and_then(|value| in_time.map(|()| value).map_err(working));
        if is_over && !context.is_first {
            return Ok(Done::Full);
        }
        // The answer follows from the caller's rights again. Kept, it would fill the database without any right.
        let is_unkept = leaves_nothing((context.caller, level), &ran, notes.changed);
        if context.is_used && !is_unkept {
            // If it had been executed, its id would be known. It will not be: another operation may have had its number,
            // or this is a late copy of one that was refused, and discarded by its user.
            let what = "the session used this number for another operation, or for one that was refused";
            return Ok(Done::Not(Fault::new(Code::SessionReused, what)));
        }
        let ran = match ran {
            Err(fault) if fault.kind.is_retryable() => match self.given_up(context, op, &fault) {
                Some(refused) => Err(refused),
                None => return Ok(Done::Not(fault)),
            },
            ran => ran,
        };
        let tx = &mut lock.tx;
        let (v, result) = match ran {
            Ok(value) => {
                // Documents that it wrote have `now`, which is above all that it read.
                let given = if notes.changed { now } else { notes.kept };
                let ok = Some(OpOk { v: given, value, trees: trees? });
                (Some(given), OpResult { id: op.id.clone(), ok, fault: None })
            }
            Err(fault) => {
                tx.undo()?;
                (None, OpResult { id: op.id.clone(), ok: None, fault: Some(fault) })
            }
        };
        if is_unkept {
            let (last, is_written) = use_number(tx.as_mut(), &self.seal, context, (op.seq, now))?;
            group.is_dirty |= is_written;
            if op.seq == last.max(group.passed) + 1 {
                group.passed = op.seq;
            }
            return Ok(Done::Result(result));
        }
        let added = if v.is_some() { added.max(0) } else { 0 };
        let bytes = stored_form(&result, notes.met.as_ref(), group.room - added)?;
        let (account, id, name) = (&context.caller.account, op.id.clone(), sha_s(&op.name));
        let pk = result_pk(account, &id);
        let result_rests = self.seal.close(result_place(context.org, &pk), op.seq, &bytes)?;
        let session = context.session.to_owned();
        let operation = Operation { session, seq: op.seq, id, name, v, at: now, result: result_rests };
        let kept = operation.bytes();
        if !context.is_first && added + kept as i64 > group.room {
            return Ok(Done::Full);
        }
        tx.append_operation(account, &operation)?;
        put_seq(tx.as_mut(), context, op.seq)?;
        group.is_dirty = true;
        group.room -= added + kept as i64;
        lock.head.kept += kept;
        if notes.changed && v.is_some() {
            // The next operation of the group is stamped above this one.
            lock.keep(now, &notes);
            if now > time {
                self.pace.take(context.org, self.clock.as_ref());
            }
            group.has_changed = true;
            group.restricts |= notes.restricts;
        }
        Ok(Done::Result(result))
    }

    /// Counts a failed attempt to run an operation. On the last attempt it returns the fault that becomes the
    /// operation's result.
    ///
    /// Not counted: a fault of kind O, whose cause is known and passes; and `order_held`, which depends on
    /// another operation's fate.
    fn given_up(&self, context: RequestContext, op: &Op, fault: &Fault) -> Option<Fault> {
        let may_last = matches!(fault.kind, Kind::C | Kind::X) && fault.code != Code::OrderHeld.as_str();
        if !may_last || !self.tries.failed(context.org, context.session, &op.id) {
            return None;
        }
        let Fault { code, message, .. } = fault;
        tracing::error!(name = op.name, code, message, "an operation failed each time; it is refused");
        let what = format!("given up after {TRIES_MAX} tries, the last one: {code}, {message}");
        Some(Fault { phase: WORKING, ..Fault::new(Code::Internal, what) })
    }
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

/// The bytes of a result that can be large: its value, its document and its files. Small results count as none.
pub(in crate::engine) fn result_bytes(result: &OpResult) -> usize {
    let value = result.ok.as_ref().and_then(|ok| ok.value.as_ref());
    let data = result.fault.as_ref().and_then(|fault| fault.doc.as_ref()).and_then(|row| row.data.as_ref());
    value.map_or(0, |value| encode(Format::Msgpack, value).map_or(0, |bytes| bytes.len()))
        + data.map_or(0, |data| data.as_bytes().len())
        + result.fault.as_ref().map_or(0, |fault| fault.files.iter().map(|sha| sha.len() + 2).sum())
}
