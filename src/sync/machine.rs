//! The machine itself: its state, the dispatch of events, and the work that is due after each event. The
//! driver calls `handle`.

use super::application::{Application, NoApplication};
use super::context::{Config, Ctx};
use super::journal::JournalInFlight;
use super::message::{Clock, Effect, Event, Mode, Refusal, Status, StorageState, Updates};
use super::pull::Pull;
use super::reads::Reads;
use super::recovery::Healing;
use super::socket::{Live, SocketState};
use super::tabs::Tabs;
use super::token::Token;
use super::writes::Writes;
use crate::codec::LiveRequest;
use crate::crypto::Random;
use crate::error::{Code, Error, Result, fail};
use crate::limits::{PULL_EVERY_MS, SOCKET_SILENCE_MS, SUBS_MAX};
use crate::memory::Memory;
use crate::model::{Def, SortedMap, SortedSet, order};
use crate::storage::{Damage, FoundPage, JournalAtRest, JournalMark, Layout, Receipt, RolledBack};

/// A session without input or output.
pub struct Machine {
    pub(super) ctx: Ctx,
    pub(super) pull: Pull,
    pub(super) live: Live,
    pub(super) reads: Reads,
    pub(super) writes: Writes,
    pub(super) tabs: Tabs,
    /// The batch in flight.
    pub(super) committing: Option<(Receipt, Option<JournalInFlight>)>,
    /// How many records of the journal are gone; each may have held an operation.
    pub(super) records_lost: u64,
    /// Set if the store was behind its high-water mark when it was opened.
    pub(super) rolled_back: Option<RolledBack>,
    pub(super) healing: Healing,
    pub(super) commit_not_before_ms: u64,
    pub(super) commit_failures: u32,
    /// When the high-water mark is due to be written, if it is behind.
    pub(super) mark_at_ms: Option<u64>,
    pub(super) compact_not_before_ms: u64,
    pub(super) storage: StorageState,
    /// Why the last batch was not written. A reply of the server in the meantime does not clear it.
    pub(super) storage_error: Option<Error>,
    /// The time up to which expired documents are hidden.
    pub(super) hidden_until_ms: u64,
    pub(super) token: Token,
    /// Collections with damaged data that were not loaded again yet.
    pub(super) lost_collections: SortedSet<Def>,
    /// Mistakes of the server that were reported already, by the section of the protocol.
    pub(super) mistakes: SortedSet<&'static str>,
    /// Defs that the server refused, and the reasons.
    pub(super) faults: SortedMap<Def, Error>,
    last_wake: Option<u64>,
    last_status: Option<Status>,
}

impl Machine {
    /// A machine over an opened device, or over none in incognito. `session` is the name in incognito.
    pub fn new(
        config: Config,
        memory: Memory,
        layout: Option<Layout>,
        damage: Damage,
        session: String,
        random: Box<dyn Random>,
    ) -> Self {
        let lost_collections = if damage.any() {
            memory
                .collections()
                .filter(|(_, c)| c.v(memory.epoch().1) == 0)
                .map(|(def, _)| def.clone())
                .collect()
        } else {
            SortedSet::new()
        };
        Machine {
            storage: if layout.is_some() { StorageState::Ok } else { StorageState::None },
            ctx: Ctx::new(config, memory, layout, session, random),
            storage_error: None,
            pull: Pull::new(SUBS_MAX),
            live: Live::default(),
            reads: Reads::default(),
            writes: Writes::new(JournalAtRest::default(), JournalMark::default(), Box::new(NoApplication)),
            tabs: Tabs::default(),
            committing: None,
            records_lost: damage.journal,
            rolled_back: damage.rolled_back,
            healing: Healing::default(),
            commit_not_before_ms: 0,
            commit_failures: 0,
            mark_at_ms: None,
            compact_not_before_ms: 0,
            hidden_until_ms: 0,
            token: Token::default(),
            lost_collections,
            mistakes: SortedSet::new(),
            faults: SortedMap::new(),
            last_wake: None,
            last_status: None,
        }
    }

    /// Adds the operations in storage, and the application's functions.
    pub fn with_writes(mut self, journal: JournalAtRest, application: Box<dyn Application>) -> Self {
        let mark = self.ctx.layout.as_ref().map(Layout::journal_mark).unwrap_or_default();
        self.writes = Writes::new(journal, mark, application);
        self.restore_ops();
        self.show_operations();
        self
    }

    /// Handles an event, and returns the effects to carry out.
    pub fn handle(&mut self, event: Event, clock: Clock) -> Vec<Effect> {
        self.ctx.clock = clock;
        if let Err(error) = self.dispatch(event) {
            self.ctx.errors.report(error);
        }
        if let Err(error) = self.advance() {
            self.ctx.errors.report(error);
        }
        self.hold_readings();
        std::mem::take(&mut self.ctx.effects)
    }

    /// Handles one event, without the work that is due after it.
    pub(super) fn dispatch(&mut self, event: Event) -> Result<()> {
        let Some(event) = self.take_as_tab(event)? else { return Ok(()) };
        match event {
            Event::Started => {
                self.start();
                Ok(())
            }
            Event::Subscribe(def) => {
                self.commanded(&def);
                self.subscribe(def)
            }
            Event::Unsubscribe(def) => {
                self.commanded(&def);
                self.unsubscribe(&def);
                Ok(())
            }
            Event::Replied { number, reply } => self.replied(number, reply),
            Event::SocketOpened { socket } => {
                if self.live.is_current(socket) {
                    self.live.state = SocketState::Open;
                    self.live.has_opened = true;
                    self.live.last_heard_ms = self.ctx.clock.mono_ms;
                }
                Ok(())
            }
            Event::Frame { socket, frame } => self.framed(socket, frame),
            Event::SocketClosed { socket, code, reason } => self.socket_closed(socket, code, &reason),
            Event::Committed(result) => {
                self.committed(result);
                Ok(())
            }
            Event::Reopened(result) => self.reopened(result),
            Event::DeviceClosed(error) => {
                self.device_failed(&error);
                Ok(())
            }
            Event::Rewrapped(header) => {
                if let Some(layout) = &mut self.ctx.layout {
                    layout.set_header(header);
                }
                Ok(())
            }
            Event::PagesRead { ticket, pages } => self.pages_read(ticket, FoundPage::sealed(pages)),
            Event::PagesOpened { ticket, pages } => self.pages_read(ticket, pages),
            Event::Read { ticket, ids } => self.read(ticket, ids),
            Event::Query { ticket, class, predicates } => self.query(ticket, &class, predicates),
            Event::Token(token) => {
                self.token_given(token);
                Ok(())
            }
            Event::Network(up) => {
                self.ctx.network = up;
                if up {
                    self.ask_token_again();
                    self.try_at_once();
                }
                Ok(())
            }
            Event::Visible => {
                self.ask_token_again();
                self.try_at_once();
                Ok(())
            }
            Event::SetMode(mode) => self.set_mode(mode),
            Event::Write(write) => self.write(write),
            Event::Amend { id, new, args } => self.amend(&id, new, args),
            Event::Discard(id) => self.discard(&id),
            Event::History { ticket, key } => {
                self.history(ticket, key);
                Ok(())
            }
            Event::Sweep { ticket, retention, apply } => {
                self.sweep(ticket, retention, apply);
                Ok(())
            }
            Event::JournalRead { ticket, records } => self.journal_read(ticket, records),
            Event::Woke => {
                self.last_wake = None;
                Ok(())
            }
            Event::Tab(_) => Ok(()),
        }
    }

    pub(super) fn start(&mut self) {
        self.need_all();
        self.ask_token();
    }

    fn set_mode(&mut self, mode: Mode) -> Result<()> {
        if mode == self.ctx.mode {
            return Ok(());
        }
        if mode == Mode::Incognito || self.ctx.mode == Mode::Incognito {
            let detail = "a session in incognito stays so; open another one to change";
            return fail(Code::BadOption, detail);
        }
        self.ctx.mode = mode;
        // Replies to requests from before the change of mode are dropped (R5).
        self.ctx.effects.extend(self.pull.give_up().map(Effect::CancelSend));
        self.ctx.effects.extend(self.live.close().map(Effect::CloseSocket));
        self.pull.answered = false;
        self.pull.failing = false;
        self.ctx.errors.clear();
        if mode != Mode::Avion {
            self.need_all();
            self.try_at_once();
            self.ask_token();
        }
        Ok(())
    }

    /// Schedules a pull of every def.
    pub(super) fn need_all(&mut self) {
        self.pull.needed.extend(self.ctx.memory.collections().map(|(def, _)| def.clone()));
        self.pull.all_asked_ms = self.ctx.clock.mono_ms;
    }

    /// When every def is pulled regardless of other reasons: seldom if the socket reports all changes.
    fn all_at_ms(&self) -> u64 {
        let every_ms =
            if self.updates() == Updates::Pushed { PULL_EVERY_MS } else { self.ctx.config.poll_every_ms };
        self.pull.all_asked_ms + every_ms
    }

    /// How the session learns of changes.
    pub(super) fn updates(&self) -> Updates {
        let told = self.live.registered.as_ref().and(self.live.said.as_ref());
        match told {
            Some(said) if said.len() == self.ctx.memory.collections().count() => Updates::Pushed,
            _ => Updates::Polled,
        }
    }

    /// There is a reason to try at once: delays end, except those that the server asked for.
    pub(super) fn try_at_once(&mut self) {
        self.try_device_soon();
        self.pull.backoff.reset();
        self.pull.pace.reset();
        self.live.backoff.reset();
        self.writes.try_at_once(self.pull.retry_after_ms);
        self.pull.not_before_ms = self.pull.retry_after_ms;
        self.pull.end_retries(self.ctx.clock.mono_ms);
        self.live.not_before_ms = self.pull.retry_after_ms;
        if let Some(missing) = &mut self.pull.missing {
            missing.ask_at_ms = self.ctx.clock.mono_ms;
        }
    }

    /// Handles a failed request.
    pub(super) fn refused(&mut self, refusal: Refusal) -> Result<()> {
        let now = self.ctx.clock.mono_ms;
        if let Some(ms) = refusal.retry_after_ms {
            self.pull.retry_after_ms = now + ms;
        }
        if refusal.error.code() == Code::Unauthorized {
            self.token_refused();
        } else {
            self.pull.failing = true;
        }
        let delay = self.pull.backoff.next_ms(&mut *self.ctx.random)?;
        self.pull.not_before_ms = (now + delay).max(self.pull.retry_after_ms);
        self.ctx.errors.report(refusal.error);
        Ok(())
    }

    /// Whether the server may be contacted now.
    fn is_connected(&self) -> bool {
        !self.tabs.is_following && self.ctx.mode != Mode::Avion && self.ctx.network && !self.token.is_awaited
    }

    pub(super) fn has_nothing_to_do(&self) -> bool {
        self.ctx.memory.collections().next().is_none() && self.writes.pending() == 0
    }

    /// Does the work that is due after an event, whichever event it was.
    fn advance(&mut self) -> Result<()> {
        let now = self.ctx.clock.mono_ms;
        self.hide_expired();
        self.advance_writes();
        if self.tabs.is_following {
            self.advance_healing(now);
            self.advance_following(now)?;
        } else {
            self.advance_sweep();
            self.advance_healing(now);
            self.advance_commit(now)?;
        }
        if self.is_connected() {
            self.advance_socket(now)?;
            if now >= self.all_at_ms() {
                self.need_all();
            }
            for def in self.pull.due_retries(now) {
                let wanted = match self.ctx.memory.collection(&def) {
                    Some(_) => &mut self.pull.needed,
                    None => &mut self.pull.repairs,
                };
                wanted.insert(def);
            }
            self.advance_pull(now);
        }
        if !self.tabs.is_following {
            self.advance_compaction();
        }
        let (defs, gone) = self.ctx.memory.take_changes();
        if !defs.is_empty() || !gone.is_empty() {
            self.ctx.effects.push(Effect::Changed { defs, gone });
        }
        let status = Some(self.status());
        if status != self.last_status {
            self.last_status = status;
            self.ctx.effects.push(Effect::StatusChanged);
        }
        let wake = self.next_wake();
        if wake != self.last_wake {
            self.last_wake = wake;
            self.ctx.effects.push(Effect::WakeAt(wake));
        }
        Ok(())
    }

    fn advance_socket(&mut self, now: u64) -> Result<()> {
        if !self.ctx.config.has_live {
            return Ok(());
        }
        let silent = self.ctx.config.watches_silence && now >= self.live.last_heard_ms + SOCKET_SILENCE_MS;
        if silent && let Some(socket) = self.live.close() {
            self.ctx.effects.push(Effect::CloseSocket(socket));
            self.live.not_before_ms = now + self.live.backoff.next_ms(&mut *self.ctx.random)?;
        }
        match self.live.state {
            SocketState::Closed
                if now >= self.live.free_at_ms() && self.ctx.memory.collections().next().is_some() =>
            {
                let socket = self.live.open(now);
                self.ctx.effects.push(Effect::OpenSocket(socket));
            }
            SocketState::Open => {
                // A message names at most `SUBS_MAX` defs. The others are pulled, as they would be without a
                // socket.
                let subs: SortedSet<Def> =
                    order::set_of(self.ctx.memory.collections().map(|(def, _)| def.clone()));
                let subs: SortedSet<Def> = order::set_of(subs.into_iter().take(SUBS_MAX));
                if self.live.said.as_ref() != Some(&subs) {
                    let request = LiveRequest {
                        token: self.token.value(),
                        session: self.session().to_owned(),
                        subs: subs.iter().cloned().collect(),
                    };
                    self.live.said = Some(subs);
                    self.live.said_token = self.token.number();
                    self.ctx.effects.push(Effect::Say { socket: self.live.socket, request });
                }
            }
            SocketState::Closed | SocketState::Opening => {}
        }
        Ok(())
    }

    fn next_wake(&self) -> Option<u64> {
        let now = self.ctx.clock.mono_ms;
        let mut times = Vec::new();
        if self.is_connected() {
            times.push(self.all_at_ms());
            times.extend(self.pull.next_retry_ms());
            if self.pull.in_flight.is_none() && !(self.pull.needed.is_empty() && self.pull.repairs.is_empty())
            {
                let asked_again_ms = self.pull.missing.map_or(0, |missing| missing.ask_at_ms);
                times.push(self.pull.free_at_ms().max(asked_again_ms));
            }
            if self.pull.in_flight.is_none() && self.writes.pending() > 0 {
                times.push(self.pull.free_at_ms().max(self.writes.not_before_ms));
            }
            if self.ctx.config.has_live && self.ctx.memory.collections().next().is_some() {
                match self.live.state {
                    SocketState::Closed => times.push(self.live.free_at_ms()),
                    _ if self.ctx.config.watches_silence => {
                        times.push(self.live.last_heard_ms + SOCKET_SILENCE_MS);
                    }
                    _ => {}
                }
            }
        }
        times.extend(self.healing.due().filter(|_| !self.is_committing()));
        times.extend(self.tabs.next_look_ms());
        let is_clean = self.ctx.memory.is_clean() && self.writes.journal.is_clean() && self.tabs.is_clean();
        let is_clean = is_clean && !self.tabs.has_requests();
        let is_free = !self.healing.is_away() && !self.is_committing();
        if is_free && !is_clean && self.ctx.layout.is_some() {
            times.push(self.commit_not_before_ms);
        }
        times.extend(self.mark_at_ms.filter(|_| is_free).map(|at| at.max(self.commit_not_before_ms)));
        times.extend(self.pins_due());
        let life = self.ctx.life_now();
        times.extend(self.ctx.memory.next_expiry(life).map(|end| now + end.saturating_sub(life)));
        times.into_iter().filter(|time| *time > now).min()
    }

    /// The session's random name (R11).
    pub fn session(&self) -> &str {
        self.ctx.session()
    }

    /// The session memory.
    pub fn memory(&self) -> &Memory {
        &self.ctx.memory
    }

    /// The layout of the device's storage; `None` in incognito.
    pub fn layout(&self) -> Option<&Layout> {
        self.ctx.layout.as_ref()
    }
}
