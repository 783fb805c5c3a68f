//! The request in flight: its defs and operations, and which parts of its reply still count.

use crate::codec::{OpResult, Sub};
use crate::journal::OpId;
use crate::memory::DocKey;
use crate::model::{Def, SortedMap, SortedSet, Version, order};
use crate::sync::facts::{Outgoing, SentOps};

/// How a def was requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    pub since: Version,
    pub cursor: bool,
}

/// A request in flight.
#[derive(Debug)]
pub struct InFlight {
    pub number: u64,
    pub sent_ms: u64,
    /// The defs of the request, each with its `v` and whether it has a cursor. A def that is unsubscribed, or
    /// loaded from scratch, is taken out: its part of the reply is dropped.
    pub asked: SortedMap<Def, Asked>,
    /// The operations sent.
    pub ops: SentOps,
    /// The bytes of their arguments.
    pub ops_bytes: usize,
    /// How many subscriptions the request contained.
    pub subs: usize,
    /// Whether it asked for the epoch only.
    pub asks_epoch: bool,
    /// Every def of the request, even if it was taken out of `asked`.
    defs: SortedSet<Def>,
    /// Single documents requested because their data was found damaged (R14).
    pub repairs: SortedSet<Def>,
    /// The number of the token that it carried.
    pub token: u64,
    /// Whether a def was taken out of `asked`.
    has_dropped: bool,
    /// The trees that a push changed after the request was sent: its reply may be older (R18).
    pub pushed: SortedSet<DocKey>,
}

impl InFlight {
    /// The request of that number, with these subscriptions; `repairs` are among them.
    pub fn new(number: u64, subs: &[Sub], repairs: SortedSet<Def>, outgoing: &Outgoing, token: u64) -> Self {
        let asked = subs
            .iter()
            .filter(|sub| !repairs.contains(&sub.def))
            .map(|sub| (sub.def.clone(), Asked { since: sub.v, cursor: sub.cursor.is_some() }))
            .collect();
        InFlight {
            number,
            sent_ms: 0,
            asks_epoch: subs.is_empty() && outgoing.ops.is_empty(),
            asked,
            ops: outgoing.ops.iter().map(|op| (op.id.clone(), op.seq)).collect(),
            ops_bytes: outgoing.bytes,
            subs: subs.len(),
            defs: order::set_of(subs.iter().map(|sub| sub.def.clone())),
            repairs,
            token,
            has_dropped: false,
            pushed: SortedSet::new(),
        }
    }

    /// Whether that def was requested from a cursor.
    pub fn has_cursor(&self, def: &Def) -> bool {
        self.asked.get(def).is_some_and(|asked| asked.cursor)
    }

    /// Takes out a def.
    pub fn drop_def(&mut self, def: &Def) {
        self.has_dropped |= self.asked.remove(def).is_some();
    }

    /// Whether that def's part is still needed.
    pub fn asks(&self, def: &Def) -> bool {
        self.asked.contains_key(def) || self.repairs.contains(def)
    }

    /// Whether the request contained that def.
    pub fn has_asked(&self, def: &Def) -> bool {
        self.defs.contains(def)
    }

    /// Whether a reply with these parts and results answers nothing, although the whole request is still
    /// needed: the session would repeat it at once, for ever.
    pub fn is_missed_by<'a>(&self, mut parts: impl Iterator<Item = &'a Def>, results: &[OpResult]) -> bool {
        let answers = |result: &OpResult| self.ops.iter().any(|(id, _)| *id == result.id);
        let has_asked = self.subs > 0 || !self.ops.is_empty();
        has_asked && !self.has_dropped && !parts.any(|def| self.asks(def)) && !results.iter().any(answers)
    }

    /// Whether one of its operations has a final result.
    pub fn has_result_in(&self, results: &[OpResult]) -> bool {
        results.iter().any(|result| result.is_final() && self.ops.iter().any(|(id, _)| *id == result.id))
    }

    /// If the server counts its operations as executed and returns no result: the number before theirs, since
    /// only results prove an execution.
    pub fn seq_without_results(&self, seq: u64, results: &[OpResult]) -> Option<u64> {
        let (_, first) = self.ops.first()?;
        let has_any = results.iter().any(|result| self.ops.iter().any(|(id, _)| *id == result.id));
        (seq >= *first && !has_any).then(|| first - 1)
    }

    /// The operations whose execution the results decide. If one was not executed, neither was any after it.
    pub fn decided_by(&self, results: &[OpResult]) -> SortedSet<OpId> {
        let has_unexecuted = results.iter().any(|result| !result.is_final());
        let sent = self.ops.iter().map(|(id, _)| id).filter(|_| has_unexecuted);
        sent.chain(results.iter().map(|result| &result.id)).cloned().collect()
    }

    /// Whether it had operations, and none of them was executed.
    pub fn is_not_executed(&self, results: &[OpResult]) -> bool {
        !self.ops.is_empty() && !results.iter().any(OpResult::is_final)
    }

    /// Takes out the defs that were answered.
    pub fn forget(&mut self, answered: &SortedSet<Def>) {
        self.asked.retain(|def, _| !answered.contains(def));
        self.repairs.retain(|def| !answered.contains(def));
    }

    /// Whether defs are left that no reply answered.
    pub fn is_unanswered(&self) -> bool {
        !self.asked.is_empty() || !self.repairs.is_empty()
    }

    /// Drops the defs requested in an earlier epoch, unless they were requested whole (R5, R8).
    pub fn forget_earlier_epoch(&mut self) {
        let before = self.asked.len();
        self.asked.retain(|_, asked| asked.since == 0 && !asked.cursor);
        self.has_dropped |= self.asked.len() < before;
    }
}
