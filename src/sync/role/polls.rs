//! Reads the state that the leader has written: a poll of its log, or a reload of the whole state.

use super::state::{Next, Tabs};
use crate::sync::context::Ctx;
use crate::sync::message::{Effect, TabEffect};

impl Tabs {
    /// Polls the log, or notes that it must be polled again.
    pub fn look(&mut self, ctx: &mut Ctx) {
        if ctx.layout.is_none() {
            return;
        }
        if self.is_looking || self.reading.is_some() {
            self.looks_again = true;
            return;
        }
        if self.is_reload_due {
            self.request_reload(ctx);
            return;
        }
        self.is_looking = true;
        self.look_at_log(ctx);
    }

    /// Whether the poll of that number is in progress.
    pub fn awaits_look(&self, number: u64) -> bool {
        self.is_looking && number == self.last_look
    }

    /// Reads the newest log record that is known here, and those that may follow it.
    pub fn look_at_log(&mut self, ctx: &mut Ctx) {
        let Some(layout) = &ctx.layout else { return };
        self.last_look += 1;
        ctx.effects.push(Effect::Tab(TabEffect::Look { number: self.last_look, keys: layout.look_keys() }));
    }

    /// Requests a reload of the whole state; the result of any earlier reload will be ignored.
    pub fn request_reload(&mut self, ctx: &mut Ctx) {
        self.is_looking = false;
        self.is_reload_due = true;
        self.last_reading += 1;
        self.reading = Some(self.last_reading);
        ctx.effects.push(Effect::Tab(TabEffect::Read(self.last_reading)));
    }

    /// The generation has begun after all: no other session writes from now on. Checks whether one has
    /// written so far.
    pub fn look_whether_fenced(&mut self, ctx: &mut Ctx, generation: u64) {
        self.next = Some(Next::fenced(generation));
        self.look_at_log(ctx);
    }
}
