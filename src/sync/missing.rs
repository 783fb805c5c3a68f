//! An org that the server does not have, yet or any more: its first operation may make it. The session learns the epoch of
//! now, sends what waits by itself, and asks for its subscriptions again later each time, or once something was accepted.

use super::event::Refusal;
use super::machine::Machine;
use super::pull::InFlight;
use crate::codec::OpResult;
use crate::error::Result;

/// What a session knows of such an org.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MissingOrg {
    /// The server's epoch is known: it was asked for by itself.
    pub has_epoch: bool,
    /// When the subscriptions are asked for again.
    pub ask_at_ms: u64,
}

impl Machine {
    /// The server has no such org. Before anything was written to it, that is no error: a new org is like this.
    pub(super) fn org_is_missing(&mut self, request: InFlight, refusal: Refusal) -> Result<()> {
        let now = self.clock.mono_ms;
        self.pull.retry_after_ms = refusal.retry_after_ms.map_or(self.pull.retry_after_ms, |ms| now + ms);
        self.pull.not_before_ms = self.pull.retry_after_ms;
        let mut missing = self.pull.missing.unwrap_or_default();
        if request.subs > 0 {
            missing.ask_at_ms = now + self.pull.backoff.next_ms(&mut *self.random)?;
        }
        if request.asks_epoch || !request.ops.is_empty() {
            missing.has_epoch = false;
        }
        if request.asks_epoch || (request.subs == 0 && !request.ops.is_empty()) {
            // The protocol has these answered: whoever does not is asked later each time.
            self.writes.not_before_ms = now + self.writes.backoff.next_ms(&mut *self.random)?;
        }
        self.pull.missing = Some(missing);
        self.pull.failing = false;
        let was_there = self.memory.collections().any(|(_, collection)| collection.ready);
        self.error = was_there.then_some(refusal.error);
        self.pull.ask_again(request);
        Ok(())
    }

    /// The server has answered: it has the org, or only told its epoch, or the results of what makes none.
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
