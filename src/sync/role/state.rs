//! The role of this session, and its knowledge about the other sessions that outlives a role.

use super::follower::Follower;
use super::leader::Leader;
use crate::journal::OpId;
use crate::model::{Def, SortedMap, SortedSet};
use crate::store::RecordKey;
use crate::sync::message::Effect;

/// A session's role among the sessions of its store (docs/decisions/16-tabs-meet-in-the-store.md), with the state that ends
/// with it.
pub enum Role {
    /// It alone talks to the server and writes the state.
    Leader(Leader),
    /// Another session leads, or none does. This one writes no state and contacts no server. It is being promoted if it
    /// has a generation in which it will lead.
    Follower(Follower),
}

impl Role {
    /// Whether a batch of requests is being written.
    pub fn is_handing_in(&self) -> bool {
        matches!(self, Role::Follower(follower) if follower.is_handing_in())
    }

    /// When to poll the log again after the device failed.
    pub fn next_look_ms(&self) -> Option<u64> {
        match self {
            Role::Follower(follower) => follower.poll_at_ms,
            Role::Leader(_) => None,
        }
    }
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

/// A session's knowledge of the other sessions, in each of its roles.
#[derive(Default)]
pub struct Tabs {
    /// Where this session will lead: a follower, once it has read the state of that time; a leader without a fence, if
    /// no other session has written; a leader whose fence was passed, once it has followed.
    pub next: Option<Next>,
    /// The number of the last poll of the log.
    pub last_poll: u64,
    /// The number of the last reload of the whole state.
    pub(super) last_reading: u64,
    pub(super) last_stamp: u64,
    /// Refused operations that were amended or discarded here. Those that are over leave with the next reload.
    pub decided: SortedSet<OpId>,
    /// The stamps of this session's own commands about subscriptions, the last one of each def. If it leads, a
    /// request of the inbox with an earlier stamp does not count. All tabs have one clock: the device's.
    pub commanded: SortedMap<Def, u64>,
    /// Refused operations that were amended or discarded for another session, each with the report on that to this
    /// session's own application. It may have issued them, and lists them as refused. The report waits until the
    /// decision is on the device: the next leader may take in another one first.
    pub untold: Vec<(OpId, Effect)>,
    /// The requests for which this session has stepped down, as it does not understand them: once for each, since perhaps
    /// no other session does.
    pub(super) passed_on: SortedSet<RecordKey>,
    /// Whether the inbox is being read; if it must be read again, whether with the backup database. A reading may end in
    /// another role than it began in.
    pub is_reading_inbox: bool,
    pub reads_inbox_again: Option<bool>,
}
