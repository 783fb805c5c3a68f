//! The state of pulling: which defs must be pulled, and the request in flight. There is one at a time, and it
//! is numbered (R5).

use super::backoff::Backoff;
use super::missing::MissingOrg;
use super::pace::Pace;
use crate::codec::{OpResult, Sub};
use crate::crypto::Random;
use crate::error::Result;
use crate::journal::OpId;
use crate::model::{Def, Pk, SortedMap, SortedSet, Version, order};

/// A request in flight.
#[derive(Debug)]
pub(super) struct InFlight {
    pub number: u64,
    /// The defs of the request, each with its `v` and whether it has a cursor. A def that is unsubscribed, or
    /// loaded from scratch, is taken out: its part of the reply is dropped.
    pub asked: SortedMap<Def, Asked>,
    /// The operations sent, in order, with their numbers.
    pub ops: Vec<(OpId, u64)>,
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
    is_less: bool,
}

impl InFlight {
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
        has_asked && !self.is_less && !parts.any(|def| self.asks(def)) && !results.iter().any(answers)
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
        let is_complete = results.iter().any(|result| !result.is_final());
        let sent = self.ops.iter().map(|(id, _)| id).filter(|_| is_complete);
        sent.chain(results.iter().map(|result| &result.id)).cloned().collect()
    }

    /// Whether it had operations, and none of them was executed.
    pub fn is_not_executed(&self, results: &[OpResult]) -> bool {
        !self.ops.is_empty() && !results.iter().any(OpResult::is_final)
    }

    /// Takes out the defs that were answered.
    pub fn forget(&mut self, told: &SortedSet<Def>) {
        self.asked.retain(|def, _| !told.contains(def));
        self.repairs.retain(|def| !told.contains(def));
    }

    /// Drops the defs requested in an earlier epoch, unless they were requested whole (R5, R8).
    pub fn forget_earlier_epoch(&mut self) {
        let before = self.asked.len();
        self.asked.retain(|_, asked| asked.since == 0 && !asked.cursor);
        self.is_less |= self.asked.len() < before;
    }
}

/// A page of a load that is not its last.
pub(super) struct Page<'p> {
    /// The cursor of the request, and the next one.
    pub asked: Option<&'p str>,
    pub next: &'p str,
    /// The first and the last change.
    pub ends: Option<[(Version, Pk); 2]>,
}

/// How many replies in a row may have a cursor and no change: a server may leave out rows that it has
/// examined.
const EMPTY_PAGES_MAX: u32 = 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub since: Version,
    pub cursor: bool,
}

/// When a def is requested again, after the server refused its part temporarily.
#[derive(Debug, Default)]
pub(super) struct Retry {
    backoff: Backoff,
    /// `None` once it is requested.
    due_ms: Option<u64>,
}

#[derive(Debug, Default)]
pub(super) struct Pull {
    /// Defs that must be pulled.
    pub needed: SortedSet<Def>,
    /// Defs that were hinted at during their load. A late commit may be behind the load's cursor, so they are
    /// pulled once more after the load.
    hinted: SortedSet<Def>,
    /// The highest version received by each load of several pages in this opening.
    reached: SortedMap<Def, Version>,
    /// The last change of the last page of each load: the next page continues after it.
    ends: SortedMap<Def, (Version, Pk)>,
    /// Replies in a row that had a cursor and no change of any def.
    empty_pages: u32,
    /// Accepted operations with a version behind `reached`: only the pull after the load shows their effects.
    behind: SortedMap<Def, SortedSet<OpId>>,
    /// Damaged documents to request, as `Class@pk`.
    pub repairs: SortedSet<Def>,
    /// Defs whose part was refused temporarily.
    pub retries: SortedMap<Def, Retry>,
    pub in_flight: Option<InFlight>,
    last_number: u64,
    pub backoff: Backoff,
    pub pace: Pace,
    /// No request before this time, because of the backoff or because the server asked for it.
    pub not_before_ms: u64,
    /// No request before this time in any case: the server asked for it.
    pub retry_after_ms: u64,
    /// When a pull of every def was last scheduled.
    pub all_asked_ms: u64,
    /// Set when the server has no such org, until it gives another answer.
    pub missing: Option<MissingOrg>,
    /// Whether a request succeeded since the session was opened or the mode changed.
    pub answered: bool,
    /// Whether the last request failed.
    pub failing: bool,
    /// The maximum number of defs in a request. It is halved if the server found a request without operations
    /// too large.
    pub subs_max: usize,
}

impl Pull {
    pub fn new(subs_max: usize) -> Self {
        Pull { subs_max, ..Pull::default() }
    }

    /// Numbers a request and records it as in flight.
    pub fn launch(
        &mut self,
        subs: &[Sub],
        repairs: SortedSet<Def>,
        (ops, ops_bytes): (Vec<(OpId, u64)>, usize),
        token: u64,
        now_ms: u64,
    ) -> u64 {
        self.last_number += 1;
        self.pace.take(now_ms);
        let asked = subs
            .iter()
            .filter(|sub| !repairs.contains(&sub.def))
            .map(|sub| (sub.def.clone(), Asked { since: sub.v, cursor: sub.cursor.is_some() }))
            .collect();
        let number = self.last_number;
        self.in_flight = Some(InFlight {
            number,
            asks_epoch: subs.is_empty() && ops.is_empty(),
            asked,
            ops,
            ops_bytes,
            subs: subs.len(),
            defs: order::set_of(subs.iter().map(|sub| sub.def.clone())),
            repairs,
            token,
            is_less: false,
        });
        self.last_number
    }

    /// When the next request may be sent.
    pub fn free_at_ms(&self) -> u64 {
        self.not_before_ms.max(self.pace.free_at_ms())
    }

    /// Takes the request in flight, if it has that number.
    pub fn land(&mut self, number: u64) -> Option<InFlight> {
        self.in_flight.take_if(|request| request.number == number)
    }

    /// A def is unsubscribed, or must be loaded from scratch: the request in flight for it is ignored.
    pub fn drop_def(&mut self, def: &Def) {
        self.needed.remove(def);
        self.hinted.remove(def);
        self.reached.remove(def);
        self.ends.remove(def);
        self.behind.remove(def);
        self.retries.remove(def);
        if let Some(request) = &mut self.in_flight {
            request.is_less |= request.asked.remove(def).is_some();
        }
    }

    /// The socket brought a later epoch: the request in flight drops its earlier defs too.
    pub fn forget_earlier_epoch(&mut self) {
        if let Some(request) = &mut self.in_flight {
            request.forget_earlier_epoch();
        }
    }

    /// The server has a change of a def, whose load may be in progress.
    pub fn hint(&mut self, def: Def, is_loading: bool) {
        if is_loading {
            self.hinted.insert(def.clone());
        }
        self.needed.insert(def);
    }

    /// An operation was executed at that version during the load of a def.
    pub fn is_executed(&mut self, def: &Def, id: &OpId, v: Version) {
        if self.reached.get(def).is_none_or(|reached| v <= *reached) {
            self.behind.entry(def.clone()).or_default().insert(id.clone());
        }
    }

    /// A page of a load arrived that is not its last; its versions go up to `highest`.
    pub fn is_unfinished(&mut self, def: &Def, is_first: bool, highest: Option<Version>) {
        if is_first {
            self.reached.insert(def.clone(), 0);
        }
        if let Some(reached) = self.reached.get_mut(def) {
            *reached = highest.map_or(*reached, |highest| highest.max(*reached));
        }
        self.needed.insert(def.clone());
    }

    /// Whether a page with a cursor continues from the one before it: otherwise a load might never end.
    /// `is_alone` means that the whole reply contains no change: only then did this page certainly have room
    /// for one.
    pub fn goes_on(&mut self, def: &Def, page: Page<'_>, is_alone: bool) -> bool {
        if page.asked.is_none() {
            // A new load begins, and an earlier one may have come further.
            self.ends.remove(def);
        }
        let Some([(first, _), (v, pk)]) = page.ends else {
            self.empty_pages = if is_alone { self.empty_pages + 1 } else { 0 };
            return !is_alone || (page.asked != Some(page.next) && self.empty_pages < EMPTY_PAGES_MAX);
        };
        self.empty_pages = 0;
        let before = self.ends.insert(def.clone(), (v, pk.clone()));
        let Some(before) = before.filter(|_| page.asked.is_some()) else { return true };
        first >= before.0 && (v, pk) != before
    }

    /// A def was received whole, by one page or by the last of several. Returns the operations whose effects
    /// it has not shown.
    pub fn is_whole(&mut self, def: &Def) -> SortedSet<OpId> {
        self.reached.remove(def);
        self.ends.remove(def);
        let behind = self.behind.remove(def).unwrap_or_default();
        if self.hinted.remove(def) || !behind.is_empty() {
            self.needed.insert(def.clone());
        }
        behind
    }

    /// Abandons the request in flight; its defs are needed again.
    pub fn give_up(&mut self) -> Option<u64> {
        let request = self.in_flight.take()?;
        let number = request.number;
        self.ask_again(request);
        Some(number)
    }

    /// The unanswered defs of a request are needed again.
    pub fn ask_again(&mut self, request: InFlight) {
        self.needed.extend(request.asked.into_keys());
        self.repairs.extend(request.repairs);
    }

    /// A part was refused temporarily. Its def has a delay of its own, so that it delays no other def.
    pub fn retry(&mut self, def: &Def, now_ms: u64, random: &mut dyn Random) -> Result<()> {
        let retry = self.retries.entry(def.clone()).or_default();
        retry.due_ms = Some(now_ms + retry.backoff.next_ms(random)?);
        Ok(())
    }

    /// The defs whose delay has passed.
    pub fn due_retries(&mut self, now_ms: u64) -> Vec<Def> {
        let due = self
            .retries
            .iter_mut()
            .filter_map(|(def, retry)| retry.due_ms.take_if(|due| *due <= now_ms).map(|_| def.clone()));
        due.collect()
    }

    /// When the next delay of a def passes.
    pub fn next_retry_ms(&self) -> Option<u64> {
        self.retries.values().filter_map(|retry| retry.due_ms).min()
    }

    /// There is a reason to try at once: every refused def is requested again.
    pub fn end_retries(&mut self, now_ms: u64) {
        for retry in self.retries.values_mut() {
            retry.backoff.reset();
            retry.due_ms = retry.due_ms.map(|due| due.min(now_ms));
        }
    }
}
