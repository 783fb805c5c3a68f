//! The work that is due after each event, and the time of the next one.

use super::dispatch::Router;
use crate::error::Result;
use crate::sync::message::{Effect, Mode};

impl Router {
    /// Does the work that is due after an event, whichever event it was.
    pub fn advance(&mut self) -> Result<()> {
        let now = self.ctx.clock.mono_ms;
        self.reads.hide_expired(&mut self.ctx);
        self.outbox.overlay.advance_writes(&mut self.ctx, &mut self.outbox.table, &*self.outbox.application);
        self.readings().read_bases();
        if self.ctx.is_following {
            self.batches().advance_device();
            self.batches().advance_following(now)?;
        } else {
            self.readings().advance_sweep();
            self.batches().advance_device();
            self.batches().advance_commit()?;
        }
        if self.is_connected() {
            self.live.advance(&mut self.ctx, self.token.bearer())?;
            self.pull.advance(&self.ctx, self.live.updates(&self.ctx));
            self.advance_pull(now);
        }
        // Rewriting the documents of sparse pages waits until the device has nothing else to do.
        if !self.ctx.is_following && !self.device.is_busy() && self.ctx.memory.is_clean() {
            self.reads.advance_compaction(&mut self.ctx);
        }
        Ok(())
    }

    /// Tells the driver of the differences since the last event: the documents, the status, and the time of the next
    /// work.
    pub fn tell_changes(&mut self) {
        let (defs, gone) = self.ctx.memory.take_changes();
        if !defs.is_empty() || !gone.is_empty() {
            self.ctx.effects.push(Effect::Changed { defs, gone });
        }
        let status = Some(self.status());
        if status != self.last_status {
            self.last_status = status;
            self.ctx.effects.push(Effect::StatusChanged);
        }
        let wake = next_wake(self);
        if wake != self.last_wake {
            self.last_wake = wake;
            self.ctx.effects.push(Effect::WakeAt(wake));
        }
    }

    /// Sends the request that is due. None is sent while one batch is in flight and another is due: this
    /// bounds the memory.
    fn advance_pull(&mut self, now: u64) {
        let device_is_behind = self.device.is_committing() && !self.ctx.memory.is_clean();
        if device_is_behind || self.pull.next_send_ms().is_none_or(|at| now < at) {
            return;
        }
        let is_failing = self.device.error().is_some();
        let asks_epoch = self.pull.lacks_epoch(&self.ctx)
            && self.outbox.sender.has_ops_to_send(&self.outbox.table, now, is_failing);
        let outgoing = (!asks_epoch)
            .then(|| self.outbox.sender.ops_to_send(&self.ctx, &mut self.outbox.table, now, is_failing));
        self.pull.send(&mut self.ctx, outgoing, self.token.bearer());
    }

    /// Whether the server may be contacted now.
    fn is_connected(&self) -> bool {
        !self.ctx.is_following && self.ctx.mode != Mode::Avion && self.ctx.network && !self.token.is_awaited()
    }
}

/// When there is work to do next.
fn next_wake(router: &Router) -> Option<u64> {
    let now = router.ctx.clock.mono_ms;
    let mut times = Vec::new();
    if router.is_connected() {
        times.extend(router.pull.next_wake(&router.ctx, router.live.updates(&router.ctx)));
        if router.outbox.table.pending() > 0 {
            times.extend(router.pull.next_send_ms().map(|at| at.max(router.outbox.sender.not_before_ms)));
        }
        times.extend(router.live.next_wake(&router.ctx));
    }
    times.extend(router.device.reopens_at_ms().filter(|_| !router.is_committing()));
    times.extend(router.tabs.next_look_ms());
    if !router.device.is_away() && !router.is_committing() {
        times.extend(router.device.next_commit(&router.ctx));
    }
    times.extend(router.outbox.overlay.pins_due());
    times.push(router.reads.compact_not_before_ms);
    let life = router.ctx.life_now();
    times.extend(router.ctx.memory.next_expiry(life).map(|end| now + end.saturating_sub(life)));
    times.into_iter().filter(|time| *time > now).min()
}
