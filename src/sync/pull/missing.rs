//! An org that the server does not have, or not yet: its first operation may create it. The session asks for
//! the current epoch, then sends the waiting operations in requests of their own. It asks for its
//! subscriptions again at growing intervals, or once an operation was accepted.

use super::in_flight::InFlight;
use super::schedule::Pull;
use crate::codec::OpResult;
use crate::error::Result;
use crate::memory::synced;
use crate::sync::context::Ctx;
use crate::sync::message::Refusal;

/// A session's knowledge of a missing org.
#[derive(Clone, Copy, Debug, Default)]
pub struct MissingOrg {
    /// The server's current epoch is known, from a request for nothing else.
    pub has_epoch: bool,
    /// The server also refused a request without defs. So no operation can create the org.
    is_refused: bool,
    /// When the session asks for the subscriptions again.
    pub ask_at_ms: u64,
}

impl Pull {
    /// The server has no such org. A new org begins like this. So it is an error only if a collection was loaded
    /// before, or if no operation can create the org. Returns whether operations must wait: by the protocol, a
    /// server answers requests for the epoch alone and requests with operations alone. One that does not is asked
    /// at growing intervals.
    pub fn org_is_missing(&mut self, ctx: &mut Ctx, request: InFlight, refusal: Refusal) -> Result<bool> {
        let now = ctx.clock.mono_ms;
        self.retry_after_ms = refusal.retry_after_ms.map_or(self.retry_after_ms, |ms| now + ms);
        self.not_before_ms = self.retry_after_ms;
        let mut missing = self.missing.unwrap_or_default();
        if request.subs > 0 {
            missing.ask_at_ms = now + self.backoff.next_ms(&mut *ctx.random)?;
        }
        if request.asks_epoch || !request.ops.is_empty() {
            missing.has_epoch = false;
        }
        let ops_wait = request.asks_epoch || (request.subs == 0 && !request.ops.is_empty());
        missing.is_refused |= ops_wait;
        self.missing = Some(missing);
        self.is_failing = false;
        ctx.errors.clear();
        if missing.is_refused || synced(&ctx.memory).any(|(_, collection)| collection.was_loaded()) {
            ctx.errors.report(refusal.error);
        }
        self.ask_again(request);
        Ok(ops_wait)
    }

    /// The server has answered. It has the org, or it only gave its epoch or the results of operations that
    /// created none. Returns whether it has the org again.
    pub fn org_answers(&mut self, ctx: &Ctx, request: &InFlight, results: &[OpResult]) -> bool {
        let Some(missing) = &mut self.missing else { return false };
        (missing.has_epoch, missing.is_refused) = (true, false);
        let is_there = request.subs > 0 || results.iter().any(|result| result.ok.is_some());
        if is_there {
            self.missing = None;
            self.need_all(ctx);
        }
        is_there
    }
}
