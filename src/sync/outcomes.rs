//! How operations ended, for the session that issued them. That may be another one than the leader.

use super::context::Ctx;
use super::message::Effect;
use super::writes::Writes;
use crate::error::{Code, Error};
use crate::journal::{OpId, Outcome};
use crate::model::Value;

impl Writes {
    /// Whether the leader has taken in this operation before.
    pub fn is_known(&self, id: &OpId) -> bool {
        self.by_id.contains_key(id) || self.journal.ids.contains_key(id.as_str())
    }

    /// An operation cannot be issued: tells the session that wrote it.
    pub fn refuse(&mut self, ctx: &mut Ctx, id: OpId, error: Error) {
        self.tell_end(ctx, &id, Err(&error));
        ctx.effects.push(Effect::Accepted { id, result: Err(error) });
    }

    /// Stores the outcome of an operation that has no result from the server, for the other sessions to read.
    pub fn tell_end(&mut self, ctx: &Ctx, id: &OpId, end: std::result::Result<u64, &Error>) {
        if ctx.layout.is_none() {
            return;
        }
        let outcome = match end {
            Ok(v) => Outcome::Accepted { v, value: None },
            Err(error) => Outcome::Failed(error.code().as_str().to_owned(), error.detail().to_owned()),
        };
        self.leave_outcome(id.clone(), outcome);
    }

    /// Keeps the value that the server returned, for the session that issued the operation.
    pub fn keep_value(&mut self, order: u64, value: Option<&Value>) {
        if let Some(op) = self.ops.get_mut(&order) {
            op.state.value = value.cloned();
        }
    }
}

/// The error that an outcome describes.
pub(super) fn error_of_outcome(code: &str, detail: &str) -> Error {
    Error::new(Code::parse(code).unwrap_or(Code::Internal), detail)
}
