//! An org that the server does not have, or not yet: its first operation may create it. The session asks for
//! the current epoch, then sends the waiting operations in requests of their own. It asks for its
//! subscriptions again at growing intervals, or once an operation was accepted.

use super::machine::Machine;
use super::message::Refusal;
use super::pull::InFlight;
use crate::codec::OpResult;
use crate::error::Result;

/// A session's knowledge of a missing org.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MissingOrg {
    /// The server's current epoch is known, from a request for nothing else.
    pub has_epoch: bool,
    /// When the session asks for the subscriptions again.
    pub ask_at_ms: u64,
}

impl Machine {
    /// The server has no such org. That is an error only if a collection was loaded before: a new org begins
    /// like this.
    pub(super) fn org_is_missing(&mut self, request: InFlight, refusal: Refusal) -> Result<()> {
        let now = self.ctx.clock.mono_ms;
        self.pull.retry_after_ms = refusal.retry_after_ms.map_or(self.pull.retry_after_ms, |ms| now + ms);
        self.pull.not_before_ms = self.pull.retry_after_ms;
        let mut missing = self.pull.missing.unwrap_or_default();
        if request.subs > 0 {
            missing.ask_at_ms = now + self.pull.backoff.next_ms(&mut *self.ctx.random)?;
        }
        if request.asks_epoch || !request.ops.is_empty() {
            missing.has_epoch = false;
        }
        if request.asks_epoch || (request.subs == 0 && !request.ops.is_empty()) {
            // By the protocol, a server answers requests for the epoch alone and requests with operations
            // alone. One that does not is asked at growing intervals.
            self.writes.not_before_ms = now + self.writes.backoff.next_ms(&mut *self.ctx.random)?;
        }
        self.pull.missing = Some(missing);
        self.pull.failing = false;
        let was_there = self.ctx.memory.collections().any(|(_, collection)| collection.ready);
        self.ctx.errors.clear();
        if was_there {
            self.ctx.errors.report(refusal.error);
        }
        self.pull.ask_again(request);
        Ok(())
    }

    /// The server has answered. It has the org, or it only gave its epoch or the results of operations that
    /// created none.
    pub(super) fn org_answers(&mut self, request: &InFlight, results: &[OpResult]) {
        let Some(missing) = &mut self.pull.missing else { return };
        missing.has_epoch = true;
        let is_there = request.subs > 0 || results.iter().any(|result| result.ok.is_some());
        if is_there {
            self.pull.missing = None;
            self.need_all();
            self.live.backoff.reset();
            self.live.not_before_ms = self.pull.retry_after_ms;
        }
    }
}
