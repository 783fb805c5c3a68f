//! The knowledge of a session about the other sessions of the store.

use std::collections::VecDeque;

use crate::journal::{OpId, PendingOp, Request, Wanted, WantedWrite};
use crate::model::{Def, SortedMap, SortedSet};
use crate::store::RecordKey;
use crate::sync::context::{Ctx, Role};
use crate::sync::message::{Effect, Phase};

/// Orders from here on belong to operations that the leader has not taken in yet.
pub const ORDER_FLOOR: u64 = 1 << 52;

/// An operation of this session that the leader has not taken in yet.
#[derive(Clone, Debug, Default)]
pub struct Provisional {
    /// The key of its request in the inbox, once the request is written or being written.
    pub key: Option<RecordKey>,
    /// The refused operation that it replaces.
    pub amends: Option<OpId>,
}

/// A generation in which this session will lead.
#[derive(Clone, Copy, Debug)]
pub struct Next {
    pub generation: u64,
    /// Whether the device has taken it. Otherwise it is the last one that the device has.
    pub is_fenced: bool,
}

impl Next {
    /// A generation that this session has begun.
    pub fn fenced(generation: u64) -> Self {
        Next { generation, is_fenced: true }
    }
}

/// A session's knowledge of the other sessions.
#[derive(Default)]
#[allow(clippy::struct_excessive_bools)] // each is an activity that is independent of the others
pub struct Tabs {
    /// Where this session will lead, once it has read the state of that time.
    pub next: Option<Next>,
    /// Whether anything was read since the opening.
    pub has_followed: bool,
    /// Whether a poll of the log is in progress; `last_look` is its number.
    pub is_looking: bool,
    pub last_look: u64,
    /// Whether to poll again when it ends.
    pub looks_again: bool,
    /// The number of the reload of the whole state that is in progress.
    pub reading: Option<u64>,
    pub(super) last_reading: u64,
    /// The memory may hold state that was never stored. The log does not continue from it: the whole state is
    /// read again.
    pub is_reload_due: bool,
    /// When to poll the log again after the device failed.
    pub look_at_ms: Option<u64>,
    /// The phase that the leader reported.
    pub phase: Phase,
    /// Requests to be written to the inbox, and those being written.
    pub queue: VecDeque<(RecordKey, Request)>,
    pub sending: Option<Vec<(RecordKey, Request)>>,
    pub(super) last_stamp: u64,
    pub provisional: SortedMap<OpId, Provisional>,
    /// Refused operations that were amended or discarded here. Those that are over leave with the next reload.
    pub dealt: SortedSet<OpId>,
    /// Subscriptions begun and ended here that the leader has not written yet.
    pub wanted: SortedSet<Def>,
    pub unwanted: SortedSet<Def>,
    /// The stamps of this session's own commands about subscriptions, the last one of each def. If it leads, a
    /// request of the inbox with an earlier stamp does not count. All tabs have one clock: the device's.
    pub commanded: SortedMap<Def, u64>,
    /// For the leader. Requests that became operations, by operation; all requests seen; and those fulfilled
    /// otherwise.
    pub from_inbox: SortedMap<OpId, RecordKey>,
    pub met: SortedSet<RecordKey>,
    pub done: Vec<RecordKey>,
    /// Refused operations that were amended or discarded for another session, each with the report on that to this
    /// session's own application. It may have issued them, and lists them as refused. The report waits until the
    /// decision is on the device: the next leader may take in another one first.
    pub untold: Vec<(OpId, Effect)>,
    /// Requests that must wait.
    pub deferred: Vec<(Option<RecordKey>, Wanted)>,
    /// The requests for which this session has stepped down, as it does not understand them: once for each, since perhaps
    /// no other session does. And whether it is about to.
    pub passed_on: SortedSet<RecordKey>,
    pub steps_down: bool,
    /// Whether the inbox is being read; if it must be read again, whether with the backup database.
    pub is_reading_inbox: bool,
    pub reads_inbox_again: Option<bool>,
}

impl Tabs {
    /// Whether it leads, or is about to, in a generation that it has not begun.
    pub fn is_unfenced(&self, ctx: &Ctx) -> bool {
        ctx.role == Role::Unfenced || self.next.is_some_and(|next| !next.is_fenced)
    }

    /// Whether a batch of requests is being written.
    pub fn is_handing_in(&self) -> bool {
        self.sending.is_some()
    }

    /// When to poll the log again after the device failed.
    pub fn next_look_ms(&self) -> Option<u64> {
        self.look_at_ms
    }
}

impl Tabs {
    /// This session's generation has begun: no other session writes the state any more, so it can be read. A
    /// batch of requests in flight ends first.
    pub fn begin_to_lead(&mut self, ctx: &mut Ctx) {
        if self.next.is_none() || self.is_handing_in() {
            return;
        }
        if self.must_read_to_lead() || self.reading.is_some() {
            self.request_reload(ctx);
        } else {
            // Just opened: usually nothing has been written since.
            self.is_looking = false;
            self.look(ctx);
        }
    }

    /// Whether the state here differs from the one that was opened. Either this session has read since, or it
    /// has amended or discarded an operation, which is gone from the table.
    pub fn must_read_to_lead(&self) -> bool {
        self.has_followed || !self.dealt.is_empty()
    }
}

/// The request for an operation of this session.
pub fn wanted_of(op: &PendingOp, amends: Option<OpId>) -> Wanted {
    let state = &op.state;
    match amends {
        Some(id) => Wanted::Amend { id, new: state.id.clone(), args: Some(state.args.clone()) },
        None => Wanted::Write(WantedWrite {
            id: state.id.clone(),
            name: state.name.clone(),
            args: state.args.clone(),
            at: state.at,
            touches: state.touches.clone(),
            after: state.after.clone(),
            base: state.base.clone(),
            bases: state.bases.clone(),
            insists: state.insists.clone(),
        }),
    }
}
