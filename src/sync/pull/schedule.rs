//! Which defs must be pulled, and when. One request is in flight at a time, and it is numbered (R5).

use super::in_flight::InFlight;
use super::loads::Loads;
use super::missing::MissingOrg;
use super::pace::Pace;
use super::page_size::PageSize;
use super::retries::Retries;
use super::violations::Violations;
use crate::codec::Fault;
use crate::error::{Code, Error, Result};
use crate::journal::PendingOp;
use crate::limits::{DAMAGED_DOCUMENTS_MAX, SPREAD_MAX_MS, pull_every_ms};
use crate::memory::tree::{is_sequence, tree_of};
use crate::memory::{DocKey, EpochChange, Memory, is_local, synced};
use crate::model::{Def, DefKind, Epoch, SortedMap, SortedSet, Version};
use crate::sync::backoff::Backoff;
use crate::sync::context::Ctx;
use crate::sync::message::{Effect, Refusal, Updates, error_of};

#[derive(Debug, Default)]
pub struct Pull {
    /// Defs that must be pulled.
    pub(super) needed: SortedSet<Def>,
    pub(super) loads: Loads,
    /// Damaged documents to request, as `Class@pk`.
    pub(super) repairs: SortedSet<Def>,
    pub(super) retries: Retries,
    pub(super) in_flight: Option<InFlight>,
    last_number: u64,
    pub(super) backoff: Backoff,
    pace: Pace,
    /// No request before this time, because of the backoff or because the server asked for it.
    pub(super) not_before_ms: u64,
    /// No request before this time in any case: the server asked for it.
    pub retry_after_ms: u64,
    /// When a pull of every def was last scheduled.
    all_asked_ms: u64,
    /// Set when the server has no such org, until it gives another answer.
    pub(super) missing: Option<MissingOrg>,
    /// Whether a request succeeded since the session was opened or the mode changed.
    has_answered: bool,
    /// Whether the last request failed.
    pub(super) is_failing: bool,
    /// The maximum number of defs in a request. It is halved if the server found a request without operations
    /// too large.
    pub(super) subs_max: usize,
    pub page_size: PageSize,
    /// Whether the server sent a reference that leads nowhere: it is not asked for references again in this opening (R90).
    pub has_bad_refs: bool,
    /// Collections with damaged data that were not loaded again yet.
    pub(super) lost: SortedSet<Def>,
    /// Defs that the server refused, and the reasons.
    pub faults: SortedMap<Def, Error>,
    /// The level at which the server restricts the account (R89).
    pub restriction: u64,
    /// The role that the server gives the account.
    pub role: Option<&'static str>,
    pub violations: Violations,
}

/// The outcome of the last requests, for the status.
#[derive(Clone, Copy, Debug)]
pub struct Contact {
    /// Whether a request succeeded since the session was opened or the mode changed.
    pub has_answered: bool,
    /// Whether the last request failed.
    pub is_failing: bool,
    /// Whether the server has no such org.
    pub lacks_org: bool,
}

/// Whether a def holds all that its org had at this head: its own version is beyond it (R4, R43). Numbers tell nothing of
/// times.
pub fn is_beyond(memory: &Memory, def: &Def, head: Option<&(Epoch, Version)>) -> bool {
    let (epoch, era) = memory.epoch();
    head.zip(memory.collection(def)).is_some_and(|((of, highest), collection)| {
        epoch == Some(of)
            && !collection.is_loading(era)
            && collection.v(era) > *highest
            && !is_sequence(memory, def)
    })
}

/// Whether the last answer was that the right to a def has ended (R22).
pub fn is_withdrawn(faults: &SortedMap<Def, Error>, def: &Def) -> bool {
    faults.get(def).is_some_and(|error| error.code() == Code::Withdrawn)
}

impl Pull {
    /// `lost` are collections with damaged data.
    pub fn new(subs_max: usize, lost: SortedSet<Def>) -> Self {
        Pull { subs_max, lost, ..Pull::default() }
    }

    /// Schedules a pull of every def.
    pub fn need_all(&mut self, ctx: &Ctx) {
        self.needed.extend(synced(&ctx.memory).map(|(def, _)| def.clone()));
        self.all_asked_ms = ctx.clock.mono_ms;
    }

    /// Schedules a pull of these defs, if they are subscribed to: at once, or within `spread` milliseconds (R43).
    pub fn need(&mut self, ctx: &mut Ctx, mut defs: Vec<Def>, spread: u64) -> Result<()> {
        defs.retain(|def| ctx.memory.collection(def).is_some() && !is_local(&ctx.memory, def));
        if spread == 0 {
            self.needed.extend(defs);
            return Ok(());
        }
        let due_ms = ctx.clock.mono_ms + ctx.random.below(spread.min(SPREAD_MAX_MS) + 1)?;
        for def in defs {
            self.retries.put_off(def, due_ms);
        }
        Ok(())
    }

    /// The server stops, and tells which defs have changed once a socket is open again. Until then all are pulled at
    /// the interval of a session without a socket, from now on.
    pub fn wait_for_socket(&mut self, ctx: &Ctx) {
        self.all_asked_ms = ctx.clock.mono_ms;
    }

    /// When every def is pulled without another reason. This is rare if the socket reports all changes. The
    /// interval is then the session's own.
    fn all_at_ms(&self, ctx: &Ctx, updates: Updates) -> u64 {
        let is_pushed = updates == Updates::Pushed;
        let every_ms = if is_pushed { pull_every_ms(ctx.session()) } else { ctx.config.poll_every_ms };
        self.all_asked_ms + every_ms
    }

    /// Schedules the pulls that have become due.
    pub fn advance(&mut self, ctx: &Ctx, updates: Updates) {
        let now = ctx.clock.mono_ms;
        if now >= self.all_at_ms(ctx, updates) {
            self.need_all(ctx);
        }
        for def in self.retries.take_due(now) {
            let wanted = match ctx.memory.collection(&def) {
                Some(_) => &mut self.needed,
                None => &mut self.repairs,
            };
            wanted.insert(def);
        }
    }

    /// When there is work to do next, operations aside.
    pub fn next_wake(&self, ctx: &Ctx, updates: Updates) -> impl Iterator<Item = u64> {
        let is_idle = self.needed.is_empty() && self.repairs.is_empty();
        let asked_again_ms = self.missing.map_or(0, |missing| missing.ask_at_ms);
        let sends_at_ms = self.next_send_ms().filter(|_| !is_idle).map(|at| at.max(asked_again_ms));
        [Some(self.all_at_ms(ctx, updates)), self.retries.next_ms(), sends_at_ms].into_iter().flatten()
    }

    /// When the next request may be sent; `None` while one is in flight.
    pub fn next_send_ms(&self) -> Option<u64> {
        self.in_flight.is_none().then(|| self.not_before_ms.max(self.pace.free_at_ms()))
    }

    /// Numbers a request, and records it as in flight.
    pub(super) fn launch(&mut self, request: impl FnOnce(u64) -> InFlight, now_ms: u64) -> u64 {
        self.last_number += 1;
        self.pace.take(now_ms);
        let mut request = request(self.last_number);
        request.sent_ms = now_ms;
        self.in_flight = Some(request);
        self.last_number
    }

    /// Takes the request in flight, if it has that number.
    pub fn land(&mut self, number: u64) -> Option<InFlight> {
        self.in_flight.take_if(|request| request.number == number)
    }

    /// A subscription begins.
    pub fn subscribed(&mut self, def: Def) {
        self.faults.remove(&def);
        self.needed.insert(def);
        self.pace.reset();
    }

    /// A subscription ends: forgets all that was due for it.
    pub fn unsubscribed(&mut self, def: &Def) {
        self.drop_def(def);
        // The application may read why the subscription has ended.
        if !is_withdrawn(&self.faults, def) {
            self.faults.remove(def);
        }
        self.lost.remove(def);
    }

    /// A def is unsubscribed, or must be loaded from scratch: the request in flight for it is ignored.
    fn drop_def(&mut self, def: &Def) {
        self.needed.remove(def);
        self.loads.drop_def(def);
        self.retries.remove(def);
        if let Some(request) = &mut self.in_flight {
            request.drop_def(def);
        }
    }

    /// The server has a change of a def, whose load may be in progress.
    pub fn hinted(&mut self, ctx: &Ctx, def: &Def) {
        let collection = ctx.memory.collection(def).filter(|_| !is_local(&ctx.memory, def));
        if let Some(collection) = collection {
            if collection.is_loading(ctx.memory.epoch().1) {
                self.loads.hint(def);
            }
            self.needed.insert(def.clone());
        }
    }

    /// Takes the epoch and the time of a message.
    pub fn enter(&mut self, ctx: &mut Ctx, epoch: &Epoch, now: u64) -> EpochChange {
        let change = ctx.memory.enter_epoch(epoch);
        if change != EpochChange::Earlier {
            ctx.server_now = Some((now, ctx.clock.mono_ms));
        }
        if change == EpochChange::Later {
            // The request in flight drops its earlier defs too.
            if let Some(request) = &mut self.in_flight {
                request.forget_earlier_epoch();
            }
            self.need_all(ctx);
        }
        change
    }

    /// Abandons the request in flight; its defs are needed again.
    pub fn give_up(&mut self, ctx: &mut Ctx) {
        if let Some(request) = self.in_flight.take() {
            ctx.effects.push(Effect::CancelSend(request.number));
            self.ask_again(request);
        }
    }

    /// Another session leads. Loads continue from the stored state, which may be behind, and the next leader asks
    /// for the defs that the server refused.
    pub fn demoted(&mut self, ctx: &mut Ctx) {
        self.give_up(ctx);
        ctx.seeding = SortedSet::new();
        self.loads = Loads::default();
        self.faults.clear();
    }

    /// The unanswered defs of a request are needed again.
    pub fn ask_again(&mut self, request: InFlight) {
        self.needed.extend(request.asked.into_keys());
        self.repairs.extend(request.repairs);
    }

    /// There is a reason to try at once: delays end, except those that the server asked for.
    pub fn try_at_once(&mut self, ctx: &Ctx) {
        self.backoff.reset();
        self.pace.reset();
        self.not_before_ms = self.retry_after_ms;
        self.retries.end(ctx.clock.mono_ms);
        if let Some(missing) = &mut self.missing {
            missing.ask_at_ms = ctx.clock.mono_ms;
        }
    }

    /// There is another token. If several in a row were refused, the application may have no good one. Then
    /// delays grow as after any failure; otherwise the session would ask the server without end.
    pub fn try_token(&mut self) {
        if self.backoff.failures() <= 1 {
            self.not_before_ms = self.retry_after_ms;
        }
    }

    /// A request has failed.
    pub fn refused(&mut self, ctx: &mut Ctx, refusal: Refusal) -> Result<()> {
        let now = ctx.clock.mono_ms;
        if let Some(ms) = refusal.retry_after_ms {
            self.retry_after_ms = now + ms;
        }
        if refusal.error.code() != Code::Unauthorized {
            self.is_failing = true;
        }
        let delay = self.backoff.next_ms(&mut *ctx.random)?;
        self.not_before_ms = (now + delay).max(self.retry_after_ms);
        ctx.errors.report(refusal.error);
        Ok(())
    }

    /// The whole request was sent in an earlier epoch. It is sent again at once; if one epoch follows another,
    /// at growing intervals.
    pub fn send_again(&mut self, ctx: &mut Ctx) -> Result<()> {
        let is_repeated = self.backoff.failures() > 0;
        let delay = self.backoff.next_ms(&mut *ctx.random)?;
        self.not_before_ms = ctx.clock.mono_ms + if is_repeated { delay } else { 0 };
        Ok(())
    }

    /// A request was answered: failures before it no longer count.
    pub fn end_delays(&mut self) {
        self.backoff.reset();
    }

    /// An operation of the request was executed. If a load of a def has passed that version
    /// already, because a clock was behind, only the pull after the load shows its effect.
    pub fn note_executed(&mut self, ctx: &Ctx, request: &InFlight, op: &PendingOp) {
        for def in op.awaits.iter().flatten().filter(|def| request.has_cursor(def)) {
            let tree = tree_of(&ctx.memory, def).filter(|_| is_sequence(&ctx.memory, def));
            // Without a number, nothing shows whether the load has passed it.
            let v = match tree {
                Some((class, pk)) => op.number_in(ctx.memory.class(class).name(), &pk).unwrap_or(0),
                None => op.state.accepted.unwrap_or(0),
            };
            self.loads.note_executed(def, &op.state.issued.id, v);
        }
    }

    /// The last request did not fail.
    pub fn succeeded(&mut self, ctx: &mut Ctx) {
        self.has_answered = true;
        self.is_failing = false;
        ctx.errors.clear();
    }

    /// A request has brought something: requests may follow each other at once.
    pub fn progressed(&mut self) {
        self.pace.reset();
    }

    /// No request has succeeded or failed yet: the session begins again.
    pub fn begin(&mut self, ctx: &mut Ctx) {
        self.has_answered = false;
        self.is_failing = false;
        ctx.errors.clear();
    }

    /// No further request will be sent, so none can show that the server is back: the failure no longer
    /// counts.
    pub fn rest(&mut self, ctx: &mut Ctx) {
        self.is_failing = false;
        ctx.errors.forget_temporary();
    }

    /// The outcome of the last requests.
    pub fn contact(&self) -> Contact {
        Contact {
            has_answered: self.has_answered,
            is_failing: self.is_failing,
            lacks_org: self.missing.is_some(),
        }
    }

    /// Collections with damaged data that were not loaded again yet.
    pub fn lost(&self) -> &SortedSet<Def> {
        &self.lost
    }

    /// The whole state was read, with damaged data in these collections.
    pub fn set_lost(&mut self, defs: SortedSet<Def>) {
        self.lost = defs;
    }

    /// The server refused a def, or it cannot be read. The subscription of one that was withdrawn has ended.
    pub fn note_fault(&mut self, ctx: &Ctx, def: Def, error: Error) {
        let is_known = ctx.memory.collection(&def).is_some() || error.code() == Code::Withdrawn;
        if is_known && !is_local(&ctx.memory, &def) {
            self.faults.insert(def, error);
        }
    }

    /// The server refuses these defs to the leader, and no others.
    pub fn follow_faults(&mut self, ctx: &Ctx, faults: &[(Def, Fault)]) {
        self.faults.clear();
        for (def, fault) in faults {
            self.note_fault(ctx, def.clone(), error_of(fault));
        }
    }

    /// Requests the whole of a collection again; its members stay visible (R14).
    pub fn reload(&mut self, ctx: &mut Ctx, def: Def) {
        self.drop_def(&def);
        ctx.memory.restart(&def);
        self.needed.insert(def.clone());
        self.lost.insert(def);
    }

    /// Requests damaged documents one by one, or the whole of a collection that has lost many (R14).
    pub fn repair(&mut self, ctx: &mut Ctx, lost: &SortedSet<DocKey>) {
        let mut by_def: SortedMap<Def, usize> = SortedMap::new();
        for key in lost {
            for def in ctx.memory.holders(key).iter() {
                *by_def.entry(def.clone()).or_default() += 1;
            }
        }
        let mut covered: SortedSet<Def> = SortedSet::new();
        for (def, count) in by_def {
            let is_single = matches!(def.kind(), DefKind::Document(_));
            // On the clock `sequence`, an item cannot be requested alone.
            let is_numbered = is_sequence(&ctx.memory, &def);
            if count > DAMAGED_DOCUMENTS_MAX || is_single || is_numbered {
                if !self.lost.contains(&def) {
                    self.reload(ctx, def.clone());
                }
                covered.insert(def);
            }
        }
        for key in lost {
            let Some(document) = ctx.memory.document(key) else { continue };
            if !document.defs.iter().any(|def| covered.contains(def)) {
                self.repairs.insert(Def::document(ctx.memory.class(key.0).name(), &key.1));
            }
        }
    }
}
