//! The machine itself: its state, the dispatch of events, and the work that is due after each event. The
//! driver calls `handle`.

use super::context::{Config, Ctx};
use super::device::Device;
use super::message::{Clock, Effect, Event, Mode, Status};
use super::outbox;
use super::outbox::Outbox;
use super::outbox::{Application, NoApplication};
use super::pull::{Live, Pull, Token};
use super::reads::{self, Reads};
use super::role::Tabs;
use crate::crypto::Random;
use crate::error::{Code, Result, fail};
use crate::journal::{OpId, PendingOp, key_of};
use crate::limits::SUBS_MAX;
use crate::memory::{DocKey, Memory};
use crate::model::{Def, Name, Pk, SortedSet, Value};
use crate::storage::{Damage, FoundPage, JournalAtRest, JournalMark, Layout};

/// A session without input or output.
pub struct Machine {
    pub(super) ctx: Ctx,
    pub(super) pull: Pull,
    pub(super) live: Live,
    pub(super) reads: Reads,
    pub(super) outbox: Outbox,
    pub(super) tabs: Tabs,
    pub(super) device: Device,
    pub(super) token: Token,
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
        let lost = if damage.any() {
            memory
                .collections()
                .filter(|(_, c)| c.v(memory.epoch().1) == 0)
                .map(|(def, _)| def.clone())
                .collect()
        } else {
            SortedSet::new()
        };
        Machine {
            device: Device::new(&damage, layout.is_some()),
            ctx: Ctx::new(config, memory, layout, session, random),
            pull: Pull::new(SUBS_MAX, lost),
            live: Live::default(),
            reads: Reads::default(),
            outbox: Outbox::new(JournalAtRest::default(), JournalMark::default(), Box::new(NoApplication)),
            tabs: Tabs::default(),
            token: Token::default(),
            last_wake: None,
            last_status: None,
        }
    }

    /// Adds the operations in storage, and the application's functions.
    pub fn with_writes(mut self, journal: JournalAtRest, application: Box<dyn Application>) -> Self {
        let mark = self.ctx.layout.as_ref().map(Layout::journal_mark).unwrap_or_default();
        self.outbox = Outbox::new(journal, mark, application);
        self.outbox.restore_ops(&mut self.ctx);
        self.outbox.overlay.show_operations(&mut self.ctx, &mut self.outbox.table, &*self.outbox.application);
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
        self.device.hold_readings(&mut self.ctx);
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
                self.tabs.commanded(&mut self.ctx, &def);
                self.subscribe(def)
            }
            Event::Unsubscribe(def) => {
                self.tabs.commanded(&mut self.ctx, &def);
                self.unsubscribe(&def);
                Ok(())
            }
            Event::Replied { number, reply } => self.replied(number, reply),
            Event::SocketOpened { socket } => {
                self.live.opened(&self.ctx, socket);
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
                self.device.failed(&self.ctx, &error);
                Ok(())
            }
            Event::Rewrapped(header) => {
                if let Some(layout) = &mut self.ctx.layout {
                    layout.set_header(header);
                }
                Ok(())
            }
            Event::PagesRead { ticket, pages } => {
                self.pages_read(ticket, FoundPage::sealed(pages));
                Ok(())
            }
            Event::PagesOpened { ticket, pages } => {
                self.pages_read(ticket, pages);
                Ok(())
            }
            Event::Read { ticket, ids } => self.reads.read(&mut self.ctx, ticket, ids),
            Event::Query { ticket, class, predicates } => {
                self.reads.query(&mut self.ctx, ticket, &class, predicates)
            }
            Event::Token(token) => {
                self.token_given(token);
                Ok(())
            }
            Event::Network(up) => {
                self.ctx.network = up;
                if up {
                    self.token.ask_again(&mut self.ctx);
                    self.try_at_once();
                }
                Ok(())
            }
            Event::Visible => {
                self.token.ask_again(&mut self.ctx);
                self.try_at_once();
                Ok(())
            }
            Event::SetMode(mode) => self.set_mode(mode),
            Event::Write(write) => self.outbox.table.write(&mut self.ctx, write),
            Event::Amend { id, new, args } => {
                outbox::amend(&mut self.ctx, &mut self.outbox.table, &id, new, args)
            }
            Event::Discard(id) => self.outbox.table.discard(&mut self.ctx, &id),
            Event::History { ticket, key } => {
                self.history(ticket, key);
                Ok(())
            }
            Event::Sweep { ticket, retention, apply } => {
                self.outbox.sweep(&mut self.ctx, ticket, retention, apply);
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
        self.pull.need_all(&self.ctx);
        self.ask_token();
    }

    /// Asks for a token, unless another session contacts the server.
    fn ask_token(&mut self) {
        if !self.ctx.is_following {
            self.token.ask(&mut self.ctx);
        }
    }

    /// The application supplied a token, or has none. A new one is tried at once.
    fn token_given(&mut self, token: Option<String>) {
        if self.token.give(&mut self.ctx, token) {
            self.pull.try_token();
            self.live.try_token(self.pull.retry_after_ms());
        }
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
        self.pull.give_up(&mut self.ctx);
        self.live.close(&mut self.ctx);
        self.pull.begin(&mut self.ctx);
        if mode != Mode::Avion {
            self.pull.need_all(&self.ctx);
            self.try_at_once();
            self.ask_token();
        }
        Ok(())
    }

    /// Begins a subscription. If there was none, its documents are pulled.
    pub(super) fn subscribe(&mut self, def: Def) -> Result<()> {
        if self.ctx.memory.subscribe(&def)? {
            outbox::show_again(&mut self.ctx, &mut self.outbox.table, &def);
            self.pull.subscribed(def);
        }
        Ok(())
    }

    /// Ends a subscription, and forgets all that was due for it.
    pub(super) fn unsubscribe(&mut self, def: &Def) {
        self.pull.unsubscribed(def);
        self.ctx.memory.unsubscribe(def);
        outbox::await_no_more(&mut self.ctx, &mut self.outbox.table, def);
        outbox::show_again(&mut self.ctx, &mut self.outbox.table, def);
        if self.has_nothing_to_do() {
            self.pull.rest(&mut self.ctx);
        }
    }

    /// There is a reason to try at once: delays end, except those that the server asked for.
    pub(super) fn try_at_once(&mut self) {
        self.device.try_soon(&self.ctx);
        self.pull.try_at_once(&self.ctx);
        let retry_after_ms = self.pull.retry_after_ms();
        self.outbox.sender.try_at_once(retry_after_ms);
        self.live.try_at_once(retry_after_ms);
    }

    /// Whether the server may be contacted now.
    fn is_connected(&self) -> bool {
        !self.ctx.is_following && self.ctx.mode != Mode::Avion && self.ctx.network && !self.token.is_awaited()
    }

    pub(super) fn has_nothing_to_do(&self) -> bool {
        self.ctx.memory.collections().next().is_none() && self.outbox.table.pending() == 0
    }

    /// Does the work that is due after an event, whichever event it was.
    fn advance(&mut self) -> Result<()> {
        let now = self.ctx.clock.mono_ms;
        self.reads.hide_expired(&mut self.ctx);
        self.outbox.overlay.advance_writes(&mut self.ctx, &mut self.outbox.table, &*self.outbox.application);
        self.read_bases();
        if self.ctx.is_following {
            self.advance_device();
            self.advance_following(now)?;
        } else {
            self.advance_sweep();
            self.advance_device();
            self.advance_commit()?;
        }
        if self.is_connected() {
            self.live.advance(&mut self.ctx, self.token.bearer())?;
            self.pull.advance(&self.ctx, self.live.updates(&self.ctx));
            self.advance_pull(now);
        }
        if !self.ctx.is_following {
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

    /// Sends the request that is due. None is sent while one batch is in flight and another is due: this
    /// bounds the memory.
    fn advance_pull(&mut self, now: u64) {
        let device_is_behind = self.device.is_committing() && !self.ctx.memory.is_clean();
        if device_is_behind || self.pull.next_send_ms().is_none_or(|at| now < at) {
            return;
        }
        let is_failing = self.device.error().is_some();
        let asks_epoch = self.pull.lacks_epoch(&self.ctx)
            && self.outbox.sender.has_ops_to_send(&self.outbox.table, now, is_failing);
        let outgoing = (!asks_epoch)
            .then(|| self.outbox.sender.ops_to_send(&self.ctx, &mut self.outbox.table, now, is_failing));
        self.pull.send(&mut self.ctx, outgoing, self.token.bearer());
    }

    fn next_wake(&self) -> Option<u64> {
        let now = self.ctx.clock.mono_ms;
        let mut times = Vec::new();
        if self.is_connected() {
            times.extend(self.pull.next_wake(&self.ctx, self.live.updates(&self.ctx)));
            if self.outbox.table.pending() > 0 {
                times.extend(self.pull.next_send_ms().map(|at| at.max(self.outbox.sender.not_before_ms)));
            }
            times.extend(self.live.next_wake(&self.ctx));
        }
        times.extend(self.device.reopens_at_ms().filter(|_| !self.is_committing()));
        times.extend(self.tabs.next_look_ms());
        if !self.device.is_away() && !self.is_committing() {
            let is_clean = self.is_clean() && self.tabs.is_clean() && !self.tabs.has_requests();
            times.extend(self.device.next_commit(&self.ctx, !is_clean));
        }
        times.extend(self.outbox.overlay.pins_due());
        times.push(self.reads.compact_not_before_ms);
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

    /// The ids of a def's documents that have not expired, with those of one page next to each other; whether
    /// the def has been loaded whole once; and its `v`.
    pub fn list(&self, def: &Def) -> Option<(Vec<u32>, bool, u64)> {
        reads::list(&self.ctx, def)
    }

    /// The id of a held document that has not expired.
    pub fn find(&self, class: &Name, pk: &Pk) -> Option<u32> {
        reads::find(&self.ctx, class, pk)
    }

    /// Checks whether an operation can be issued: named errors before anything is written.
    pub fn check_write(&self, name: &str, args: &Value) -> Result<()> {
        outbox::check_write(&self.ctx, &self.outbox.table, name, args)
    }

    /// Checks whether a refused operation can be issued again in its place, with the same arguments or
    /// others. Errors: `not_found`, and those of [`Machine::check_write`].
    pub fn check_amendment(&self, id: &str, args: Option<&Value>) -> Result<()> {
        outbox::check_amendment(&self.ctx, &self.outbox.table, id, args)
    }

    /// The refused operation of that id.
    pub fn refused_op(&self, id: &str) -> Result<&PendingOp> {
        self.outbox.table.refused_op(id)
    }

    /// The key of a document by its class and key properties.
    pub fn key_of(&self, class: &str, parts: &[impl AsRef<str>]) -> Result<DocKey> {
        key_of(self.ctx.memory.schema(), class, parts)
    }

    /// Operations that are not over, in order, each with whether it is blocked behind a refused one.
    pub fn operations(&self) -> Vec<(&PendingOp, bool)> {
        self.outbox.table.operations()
    }

    /// Whether the session would notice the loss of this operation if the server were restored (R8). For
    /// tests.
    #[cfg(any(test, feature = "testing"))]
    pub fn remembers(&self, id: &str) -> bool {
        self.outbox.remembers(id)
    }

    /// Ids of accepted operations that a later epoch of the server's database does not hold (R8).
    pub fn lost_by_server(&self) -> &[OpId] {
        self.outbox.lost_by_server()
    }
}
