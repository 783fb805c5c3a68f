//! Which defs must be pulled, and the request in flight: one at a time, numbered (R5).

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
    /// What was asked for each def, and whether from a cursor. A def that is unsubscribed, or loaded anew, is taken
    /// out: its part of the reply is dropped.
    pub asked: SortedMap<Def, Asked>,
    /// The operations sent, in order, with their numbers.
    pub ops: Vec<(OpId, u64)>,
    /// The bytes of their arguments.
    pub ops_bytes: usize,
    /// How many subscriptions went with them.
    pub subs: usize,
    /// Only the epoch was asked for.
    pub asks_epoch: bool,
    /// Every def that was asked for, of interest or not.
    defs: SortedSet<Def>,
    /// Single documents asked for because their data was found damaged (R14).
    pub repairs: SortedSet<Def>,
    /// Which token it carried.
    pub token: u64,
    /// Something of it is of no interest any more.
    is_less: bool,
}

impl InFlight {
    /// Whether that def's part is still of interest.
    pub fn asks(&self, def: &Def) -> bool {
        self.asked.contains_key(def) || self.repairs.contains(def)
    }

    /// Whether that def was asked for.
    pub fn has_asked(&self, def: &Def) -> bool {
        self.defs.contains(def)
    }

    /// Whether a reply with these parts and results tells nothing, though all that was asked is still of interest: it
    /// would be asked again at once, for ever.
    pub fn is_missed_by<'a>(&self, mut parts: impl Iterator<Item = &'a Def>, results: &[OpResult]) -> bool {
        let answers = |result: &OpResult| self.ops.iter().any(|(id, _)| *id == result.id);
        let has_asked = self.subs > 0 || !self.ops.is_empty();
        has_asked && !self.is_less && !parts.any(|def| self.asks(def)) && !results.iter().any(answers)
    }

    /// Whether one of its operations has come to a result.
    pub fn has_result_in(&self, results: &[OpResult]) -> bool {
        results.iter().any(|result| result.is_final() && self.ops.iter().any(|(id, _)| *id == result.id))
    }

    /// Where the server says that it has executed its operations, and gives no result: the number before theirs, since only
    /// results tell of what was executed.
    pub fn seq_without_results(&self, seq: u64, results: &[OpResult]) -> Option<u64> {
        let (_, first) = self.ops.first()?;
        let has_any = results.iter().any(|result| self.ops.iter().any(|(id, _)| *id == result.id));
        (seq >= *first && !has_any).then(|| first - 1)
    }

    /// The operations of which results tell whether they were executed: where one was not, none after it was.
    pub fn decided_by(&self, results: &[OpResult]) -> SortedSet<OpId> {
        let is_complete = results.iter().any(|result| !result.is_final());
        let sent = self.ops.iter().map(|(id, _)| id).filter(|_| is_complete);
        sent.chain(results.iter().map(|result| &result.id)).cloned().collect()
    }

    /// Whether it had operations, and none of them was executed.
    pub fn is_not_executed(&self, results: &[OpResult]) -> bool {
        !self.ops.is_empty() && !results.iter().any(OpResult::is_final)
    }

    /// What was told.
    pub fn forget(&mut self, told: &SortedSet<Def>) {
        self.asked.retain(|def, _| !told.contains(def));
        self.repairs.retain(|def| !told.contains(def));
    }

    /// What was asked in an earlier epoch is dropped, but for what asked for everything (R5, R8).
    pub fn forget_earlier_epoch(&mut self) {
        let before = self.asked.len();
        self.asked.retain(|_, asked| asked.since == 0 && !asked.cursor);
        self.is_less |= self.asked.len() < before;
    }
}

/// A page of a load that is not its last.
pub(super) struct Page<'p> {
    /// The cursor that was asked with, and the next one.
    pub asked: Option<&'p str>,
    pub next: &'p str,
    /// The first and the last change.
    pub ends: Option<[(Version, Pk); 2]>,
}

/// Replies in a row with a cursor and without any change that a session puts up with: a server may well leave out what it
/// has looked through.
const EMPTY_PAGES_MAX: u32 = 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub since: Version,
    pub cursor: bool,
}

/// When a def is asked for again after its part was refused for a while.
#[derive(Debug, Default)]
pub(super) struct Retry {
    backoff: Backoff,
    /// `None` once it is asked for.
    due_ms: Option<u64>,
}

#[derive(Debug, Default)]
pub(super) struct Pull {
    /// Defs that must be pulled.
    pub needed: SortedSet<Def>,
    /// Defs that were hinted at while their load was under way: what was committed late may lie behind its cursor, so
    /// that they are asked for once more when it has ended.
    hinted: SortedSet<Def>,
    /// How far loads of several pages have come in this opening: the highest version told.
    reached: SortedMap<Def, Version>,
    /// The last change that the last page of each told: the next page goes on after it.
    ends: SortedMap<Def, (Version, Pk)>,
    /// Replies in a row that told nothing of any def, and had a cursor.
    empty_pages: u32,
    /// Accepted operations that were stamped behind there: only the pull after the load shows their effects.
    behind: SortedMap<Def, SortedSet<OpId>>,
    /// Damaged documents to ask for, as `Class@pk`.
    pub repairs: SortedSet<Def>,
    /// Defs whose part was refused for a while.
    pub retries: SortedMap<Def, Retry>,
    pub in_flight: Option<InFlight>,
    last_number: u64,
    pub backoff: Backoff,
    pub pace: Pace,
    /// Not before that time: the backoff's, or what the server asked.
    pub not_before_ms: u64,
    /// Not before that time whatever happens: what the server asked.
    pub retry_after_ms: u64,
    /// When every def was last to be pulled.
    pub all_asked_ms: u64,
    /// The server has no such org, until it answers something else.
    pub missing: Option<MissingOrg>,
    /// A request succeeded since the session was opened or the mode changed.
    pub answered: bool,
    /// The last request failed.
    pub failing: bool,
    /// Most defs in a request: halved where the server found one without operations too large.
    pub subs_max: usize,
}

impl Pull {
    pub fn new(subs_max: usize) -> Self {
        Pull { subs_max, ..Pull::default() }
    }

    /// Numbers a request and puts it in flight.
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

    /// Takes the request in flight, if it is that one.
    pub fn land(&mut self, number: u64) -> Option<InFlight> {
        self.in_flight.take_if(|request| request.number == number)
    }

    /// A def is of no interest any more, or anew: what is in flight for it is dropped.
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

    /// A later epoch was met on the socket: the same for the request in flight.
    pub fn forget_earlier_epoch(&mut self) {
        if let Some(request) = &mut self.in_flight {
            request.forget_earlier_epoch();
        }
    }

    /// The server has something of a def, whose load may be under way.
    pub fn hint(&mut self, def: Def, is_loading: bool) {
        if is_loading {
            self.hinted.insert(def.clone());
        }
        self.needed.insert(def);
    }

    /// An operation was executed at that version while the load of a def was under way.
    pub fn is_executed(&mut self, def: &Def, id: &OpId, v: Version) {
        if self.reached.get(def).is_none_or(|reached| v <= *reached) {
            self.behind.entry(def.clone()).or_default().insert(id.clone());
        }
    }

    /// A page of a load came that is not its last; the versions in it go up to `highest`.
    pub fn is_unfinished(&mut self, def: &Def, is_first: bool, highest: Option<Version>) {
        if is_first {
            self.reached.insert(def.clone(), 0);
        }
        if let Some(reached) = self.reached.get_mut(def) {
            *reached = highest.map_or(*reached, |highest| highest.max(*reached));
        }
        self.needed.insert(def.clone());
    }

    /// Whether a page with a cursor goes on from the one before it: nothing else ends a load. `is_alone` where the whole
    /// reply tells no change: then this page, and only then, had room for one.
    pub fn goes_on(&mut self, def: &Def, page: Page<'_>, is_alone: bool) -> bool {
        if page.asked.is_none() {
            // A load begins: an earlier one may have come further.
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

    /// A def was told whole, by one page or by the last of several. Gives the operations that it has not told of.
    pub fn is_whole(&mut self, def: &Def) -> SortedSet<OpId> {
        self.reached.remove(def);
        self.ends.remove(def);
        let behind = self.behind.remove(def).unwrap_or_default();
        if self.hinted.remove(def) || !behind.is_empty() {
            self.needed.insert(def.clone());
        }
        behind
    }

    /// Gives the request in flight up; what it asked for is needed again.
    pub fn give_up(&mut self) -> Option<u64> {
        let request = self.in_flight.take()?;
        let number = request.number;
        self.ask_again(request);
        Some(number)
    }

    /// What a request asked for, and was not told, is needed again.
    pub fn ask_again(&mut self, request: InFlight) {
        self.needed.extend(request.asked.into_keys());
        self.repairs.extend(request.repairs);
    }

    /// A part was refused for a while: its def is asked for again after a delay of its own, so that it holds no other
    /// up.
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

    /// There is a reason to hope: every def is asked for again at once.
    pub fn end_retries(&mut self, now_ms: u64) {
        for retry in self.retries.values_mut() {
            retry.backoff.reset();
            retry.due_ms = retry.due_ms.map(|due| due.min(now_ms));
        }
    }
}
