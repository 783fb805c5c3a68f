//! The work that is due after each event, and the time of the next one.

use super::dispatch::Router;
use crate::error::Result;
use crate::sync::message::Mode;
use crate::sync::outbox;
use crate::sync::role::Role;

impl Router {
    /// Does the work that is due after an event, whichever event it was.
    pub fn advance(&mut self) -> Result<()> {
        let now = self.ctx.clock.mono_ms;
        self.reads.hide_expired(&mut self.ctx);
        self.outbox.overlay.advance_writes(&mut self.ctx, &mut self.outbox.table, &*self.outbox.application);
        outbox::ask_for_files(&mut self.ctx, &mut self.outbox.table);
        self.reads.answer_late(&mut self.ctx);
        // An answer may have been the last thing that kept an index.
        self.reads.drop_unused(&mut self.ctx);
        self.store_reads().read_bases();
        match self.role {
            Role::Follower(_) => {
                self.advance_device();
                self.advance_following()?;
            }
            Role::Leader(_) => {
                self.store_reads().advance_sweep();
                self.advance_device();
                self.advance_commit()?;
            }
        }
        if self.is_connected() {
            self.live.advance(&mut self.ctx, self.token.bearer())?;
            self.pull.advance(&self.ctx, self.live.updates(&self.ctx));
            self.advance_pull(now);
        }
        // Rewriting the documents of sparse pages waits until the device has nothing else to do.
        if !self.ctx.is_following() && !self.device.is_busy() && self.ctx.memory.is_clean() {
            self.reads.advance_compaction(&mut self.ctx);
        }
        Ok(())
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
        let subs_max = self.outbox.sender.room.subs_max();
        self.pull.send(&mut self.ctx, outgoing, self.token.bearer(), subs_max);
    }

    /// Whether the server may be contacted now.
    fn is_connected(&self) -> bool {
        !self.ctx.is_following()
            && self.ctx.mode != Mode::Avion
            && self.ctx.network
            && !self.token.is_awaited()
    }

    /// When there is work to do next.
    pub fn next_wake(&self) -> Option<u64> {
        let now = self.ctx.clock.mono_ms;
        if self.outbox.table.is_unshown() {
            return Some(now);
        }
        let mut times = Vec::new();
        if self.is_connected() {
            times.extend(self.pull.next_wake(&self.ctx, self.live.updates(&self.ctx)));
            if self.outbox.table.pending() > 0 {
                times.extend(self.pull.next_send_ms().map(|at| at.max(self.outbox.sender.not_before_ms)));
            }
            times.extend(self.live.next_wake(&self.ctx));
        }
        times.extend(self.device.reopens_at_ms().filter(|_| !self.is_committing()));
        times.extend(self.role.next_look_ms());
        if !self.device.is_away() && !self.is_committing() {
            times.extend(self.device.next_commit(&self.ctx));
        }
        times.extend(self.outbox.overlay.pins_due());
        times.push(self.reads.compact_not_before_ms);
        times.extend(self.reads.next_drop_ms());
        let life = self.ctx.life_now();
        times.extend(self.ctx.memory.next_expiry(life).map(|end| now + end.saturating_sub(life)));
        times.into_iter().filter(|time| *time > now).min()
    }
}
