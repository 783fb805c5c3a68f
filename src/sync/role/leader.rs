//! The leader: the requests of the inbox, until they are carried out and written.

use crate::journal::{OpId, Wanted};
use crate::model::{SortedMap, SortedSet};
use crate::store::RecordKey;

/// Whether other sessions can write the state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fence {
    /// None can: this session leads in its own generation.
    #[default]
    Own,
    /// Another session has begun a generation. This one leads until its batch in flight has ended.
    Passed,
    /// The device takes no generation. Others may still write, so this session writes nothing.
    Missing,
}

/// The state of a leader.
#[derive(Default)]
pub struct Leader {
    pub fence: Fence,
    /// Requests that became operations, by operation.
    pub from_inbox: SortedMap<OpId, RecordKey>,
    /// All requests seen.
    pub met: SortedSet<RecordKey>,
    /// Requests that were fulfilled without an operation, to be deleted with the next batch.
    pub done: Vec<RecordKey>,
    /// Requests that must wait.
    pub deferred: Vec<(Option<RecordKey>, Wanted)>,
    /// Whether it is about to step down, for another session may understand a request.
    pub steps_down: bool,
}

impl Leader {
    /// A leader with this fence, which has read nothing of the inbox.
    pub fn new(fence: Fence) -> Self {
        Leader { fence, ..Leader::default() }
    }
}
