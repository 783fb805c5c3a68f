//! Reads the state that the leader has written: a poll of its log, or a reload of the whole state.

use super::follower::{Follower, Poll};
use super::state::{Next, Tabs};
use crate::error::Error;
use crate::model::{SortedSet, order};
use crate::storage::{LogRecord, Tail};
use crate::sync::context::Ctx;
use crate::sync::message::{Effect, TabEffect};

/// Delay after the device could not be read, or its state was incomplete.
const POLL_RETRY_MS: u64 = 1_000;

/// How a poll of the log continues.
pub enum Polled {
    /// The state here is the leader's.
    Same,
    /// The whole state is being read again.
    Reload,
    /// These records follow, and those of the journal under these numbers.
    On(Vec<LogRecord>, Vec<u64>),
}

impl Tabs {
    /// Reads the newest log record that is known here, and those that may follow it. Returns the number of this poll.
    pub fn poll_log(&mut self, ctx: &mut Ctx) -> u64 {
        if let Some(layout) = &ctx.layout {
            self.last_poll += 1;
            let keys = layout.look_keys();
            ctx.effects.push(Effect::Tab(TabEffect::Poll { number: self.last_poll, keys }));
        }
        self.last_poll
    }

    /// The generation has begun after all: no other session writes from now on. Checks whether one has
    /// written so far.
    pub fn look_whether_fenced(&mut self, ctx: &mut Ctx, generation: u64) {
        self.next = Some(Next::fenced(generation));
        self.poll_log(ctx);
    }
}

impl Follower {
    /// Polls the log, or notes that it must be polled again.
    pub fn poll(&mut self, ctx: &mut Ctx, tabs: &mut Tabs) {
        if self.poll != Poll::None {
            self.polls_again = true;
        } else if self.is_reload_due {
            self.request_reload(ctx, tabs);
        } else {
            self.poll = Poll::Log(tabs.poll_log(ctx));
        }
    }

    /// The records of a poll were read, and continue from here in that way.
    pub fn polled(&mut self, ctx: &mut Ctx, tabs: &mut Tabs, tail: Tail) -> Polled {
        let records = match tail {
            Tail::Same => return Polled::Same,
            Tail::Reload => {
                self.request_reload(ctx, tabs);
                return Polled::Reload;
            }
            Tail::On(records) => records,
        };
        let along = || records.iter().filter_map(|found| found.record.along.as_ref());
        let deleted: SortedSet<u64> = order::set_of(along().flat_map(|along| &along.deletes).copied());
        let put = along().flat_map(|along| &along.puts);
        let (gone, numbers): (Vec<u64>, Vec<u64>) = put.partition(|number| deleted.contains(*number));
        if !gone.is_empty() && !self.provisional.is_empty() {
            // One of this session's operations may have been added and removed within these records.
            // Only the inbox shows whether it was.
            self.request_reload(ctx, tabs);
            return Polled::Reload;
        }
        Polled::On(records, numbers)
    }

    /// The device failed during a poll or a reload: the session tries again later.
    pub fn poll_failed(&mut self, ctx: &mut Ctx, error: Error) {
        self.poll = Poll::None;
        self.try_later(ctx);
        ctx.errors.report(error);
    }

    /// Reads the state again after a delay.
    pub fn try_later(&mut self, ctx: &Ctx) {
        self.poll_at_ms = Some(ctx.clock.mono_ms + POLL_RETRY_MS);
    }

    /// Reads the whole state again if that delay is over.
    pub fn advance_poll(&mut self, ctx: &mut Ctx, tabs: &mut Tabs) {
        if self.poll_at_ms.take_if(|at| ctx.clock.mono_ms >= *at).is_some() {
            self.request_reload(ctx, tabs);
        }
    }

    /// Requests a reload of the whole state; the result of any earlier reload will be ignored.
    pub fn request_reload(&mut self, ctx: &mut Ctx, tabs: &mut Tabs) {
        self.is_reload_due = true;
        tabs.last_reading += 1;
        self.poll = Poll::State(tabs.last_reading);
        ctx.effects.push(Effect::Tab(TabEffect::Read(tabs.last_reading)));
    }

    /// This session's generation has begun: no other session writes the state any more, so it can be read. A
    /// batch of requests in flight ends first.
    pub fn begin_to_lead(&mut self, ctx: &mut Ctx, tabs: &mut Tabs) {
        if tabs.next.is_none() || self.is_handing_in() {
            return;
        }
        if self.must_read_to_lead(tabs) || matches!(self.poll, Poll::State(_)) {
            self.request_reload(ctx, tabs);
        } else {
            // Just opened: usually nothing has been written since.
            self.poll = Poll::None;
            self.poll(ctx, tabs);
        }
    }

    /// Whether the state here differs from the one that was opened. Either this session has read since, or it
    /// has amended or discarded an operation, which is gone from the table.
    pub fn must_read_to_lead(&self, tabs: &Tabs) -> bool {
        self.has_followed || !tabs.decided.is_empty()
    }
}
