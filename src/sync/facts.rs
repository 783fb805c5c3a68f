//! Facts that one part of the machine returns and the machine hands to another. This file uses no part.

use super::message::{Effect, Swept};
use crate::codec::Op;
use crate::journal::{JournalRecord, OpId, PendingOp};
use crate::memory::DocKey;
use crate::model::{Def, SortedSet};
use crate::storage::{JournalChanges, LogRecord};
use crate::store::RecordKey;

/// The operations of a request.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    /// Numbered, in order.
    pub ops: Vec<Op>,
    /// The bytes of their arguments.
    pub bytes: usize,
    /// The defs whose pull must show their effect.
    pub defs: SortedSet<Def>,
    /// Whether the request contains nothing else.
    pub is_alone: bool,
}

impl Outgoing {
    /// No operation, and nothing else in the request: it asks for the epoch.
    pub fn alone() -> Self {
        Outgoing { is_alone: true, ..Outgoing::default() }
    }
}

/// The operations that a request contained, in order, with their numbers.
pub(super) type SentOps = Vec<(OpId, u64)>;

/// Which effects of operations are shown by a def that was received whole.
pub(super) enum EffectsShown {
    /// All that were executed.
    All,
    /// After a load of several pages: those of accepted operations, except these.
    But(SortedSet<OpId>),
}

impl EffectsShown {
    /// Whether it shows the effect of an operation.
    pub fn shows(&self, op: &PendingOp) -> bool {
        match self {
            EffectsShown::All => true,
            EffectsShown::But(behind) => op.state.accepted.is_some() && !behind.contains(&op.state.issued.id),
        }
    }
}

/// The token to send.
#[derive(Debug, Default)]
pub(super) struct Bearer {
    pub value: Option<String>,
    /// How many tokens were supplied.
    pub number: u64,
}

/// The journal's part of the batch in flight.
pub(super) struct JournalInFlight {
    pub changes: JournalChanges,
    /// The operations in it: their orders, their ids, and the numbers of their records.
    pub written: Vec<(u64, OpId, u64)>,
    pub ended: Vec<(Option<u64>, JournalRecord)>,
    pub swept: Vec<(u64, Swept)>,
    /// Operations that were decided about for another session, with the reports to the application.
    pub untold: Vec<(OpId, Effect)>,
    /// Requests of the inbox that were fulfilled without a record.
    pub done: Vec<RecordKey>,
}

/// Why journal records are being read.
pub(super) enum JournalPurpose {
    /// To answer a call of the application.
    Answer(JournalCall),
    /// For the poll of that number, which found these records.
    Follow(u64, Vec<LogRecord>),
}

/// A call of the application that journal records answer.
pub(super) enum JournalCall {
    History { ticket: u64, key: DocKey },
    Sweep { ticket: u64, swept: Swept },
}
