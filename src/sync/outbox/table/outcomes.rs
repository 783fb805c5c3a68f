//! How operations ended, for the session that issued them. That may be another one than the leader.

use super::PendingOps;
use crate::error::Error;
use crate::journal::{JournalRecord, OpId, Outcome, PendingOp};
use crate::model::Value;
use crate::sync::context::Ctx;
use crate::sync::message::Effect;

impl PendingOps {
    /// An operation is over: only its actions remain.
    pub fn end(&mut self, op: PendingOp) {
        self.due.leave(op.state.order);
        let (seq, op_id, name, replaces) =
            (op.state.seq, op.state.issued.id, self.summary.name, op.state.replaces);
        let outcome = op.state.accepted.map(|v| Outcome::Accepted { v, value: op.state.value });
        let record =
            JournalRecord { seq, actions: op.actions, outcome, replaces, ..JournalRecord::of(op_id, name) };
        self.due.end(op.record, record);
    }

    /// An operation ended without being executed. A record tells the session that issued it how.
    fn leave_outcome(&mut self, op_id: OpId, replaces: Vec<OpId>, outcome: Outcome) {
        let outcome = Some(outcome);
        let record = JournalRecord { outcome, replaces, ..JournalRecord::of(op_id, self.summary.name) };
        self.due.end(None, record);
    }

    /// An operation cannot be issued: tells the session that wrote it.
    pub fn refuse(&mut self, ctx: &mut Ctx, id: OpId, error: Error) {
        self.tell_end(ctx, &id, Vec::new(), Err(&error));
        ctx.effects.push(Effect::Accepted { id, result: Err(error) });
    }

    /// Stores the outcome of an operation that has no result from the server, for the other sessions to read.
    /// `replaces` are the operations that it had replaced: another session may only know one of these.
    pub fn tell_end(
        &mut self,
        ctx: &Ctx,
        id: &OpId,
        replaces: Vec<OpId>,
        end: std::result::Result<u64, &Error>,
    ) {
        if ctx.layout.is_none() {
            return;
        }
        let outcome = match end {
            Ok(v) => Outcome::Accepted { v, value: None },
            Err(error) => Outcome::Failed(error.code().as_str().to_owned(), error.detail().to_owned()),
        };
        self.leave_outcome(id.clone(), replaces, outcome);
    }

    /// Keeps the value that the server returned, for the session that issued the operation.
    pub fn keep_value(&mut self, order: u64, value: Option<&Value>) {
        if let Some(op) = self.ops.get_mut(&order) {
            op.state.value = value.cloned();
        }
    }
}
