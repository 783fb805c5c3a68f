//! Hands each event to the parts of the machine that it concerns.

use crate::error::{Code, Result, fail};
use crate::limits::SUBS_MAX;
use crate::memory::{Memory, synced};
use crate::model::{Def, SortedSet, order};
use crate::storage::{Damage, FoundPage, JournalAtRest, JournalMark};
use crate::sync::context::Ctx;
use crate::sync::device::Device;
use crate::sync::message::{Clock, Effect, Event, Mode, Phase, Status};
use crate::sync::outbox::{self, NoApplication, Outbox};
use crate::sync::pull::{Live, Pull, Token};
use crate::sync::reads::Reads;
use crate::sync::role::{Leader, Provisional, Role, Tabs};
use crate::sync::status::{Facts, status_of};

/// The parts of the machine, and the sequences that need several of them. No part names another one.
pub struct Router {
    pub ctx: Ctx,
    pub pull: Pull,
    pub live: Live,
    pub reads: Reads,
    pub outbox: Outbox,
    pub role: Role,
    pub tabs: Tabs,
    pub device: Device,
    pub token: Token,
    pub(super) last_wake: Option<u64>,
    pub(super) last_status: Option<Status>,
}

impl Router {
    /// The parts of a new session, over a store with this damage. It has no operations yet.
    pub fn new(ctx: Ctx, damage: &Damage) -> Self {
        let lost = collections_lost(&ctx.memory, damage);
        Router {
            device: Device::new(damage, ctx.layout.is_some()),
            ctx,
            pull: Pull::new(SUBS_MAX, lost),
            live: Live::default(),
            reads: Reads::default(),
            outbox: Outbox::new(JournalAtRest::default(), JournalMark::default(), Box::new(NoApplication)),
            role: Role::Leader(Leader::default()),
            tabs: Tabs::default(),
            token: Token::default(),
            last_wake: None,
            last_status: None,
        }
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
        let (defs, gone) = self.ctx.memory.unreported.take();
        if !defs.is_empty() || !gone.is_empty() {
            self.ctx.effects.push(Effect::Changed { defs, gone });
        }
        // After the errors: the status has them.
        let status = Some(self.status());
        if status != self.last_status {
            self.last_status = status;
            self.ctx.effects.push(Effect::StatusChanged);
        }
        let wake = self.next_wake();
        // A timer for this very moment may have run out already.
        if wake != self.last_wake || wake == Some(clock.mono_ms) {
            self.last_wake = wake;
            self.ctx.effects.push(Effect::WakeAt(wake));
        }
        self.device.hold_readings(&mut self.ctx);
        std::mem::take(&mut self.ctx.effects)
    }

    /// Handles one event, without the work that is due after it.
    fn dispatch(&mut self, event: Event) -> Result<()> {
        match event {
            Event::Started => {
                self.link().start();
                Ok(())
            }
            Event::Subscribe(def) => {
                self.tabs.commanded(&self.ctx, &def);
                self.subscribe(def)
            }
            Event::Unsubscribe(def) => {
                self.tabs.commanded(&self.ctx, &def);
                self.unsubscribe(def)
            }
            Event::Lease(def, lease) => self.lease(def, lease),
            Event::Replied { number, reply } => self.replied(number, reply),
            Event::SocketOpened { socket } => {
                self.live.opened(&self.ctx, socket);
                Ok(())
            }
            Event::Frame { socket, frame } => self.framed(socket, frame),
            Event::SocketClosed { socket, code, reason } => self.link().socket_closed(socket, code, &reason),
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
            Event::Query { ticket, class, query } => self.reads.query(&mut self.ctx, ticket, &class, query),
            Event::Watch { class, begins } => {
                self.reads.watch(&mut self.ctx, &class, begins);
                Ok(())
            }
            Event::Token(token) => {
                self.link().token_given(token);
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
            Event::Write(write) => {
                let id = write.id.clone();
                self.outbox.table.write(&mut self.ctx, write)?;
                if let Role::Follower(follower) = &mut self.role {
                    follower.provisional.insert(id, Provisional::default());
                }
                Ok(())
            }
            Event::Amend { id, new, args } => self.amend(id, new, args),
            Event::Discard(id) => self.discard(id),
            Event::History { ticket, key } => {
                self.store_reads().history(ticket, key);
                Ok(())
            }
            Event::Sweep { ticket, retention, apply } => self.sweep(ticket, retention, apply),
            Event::FilesSettled { shas, word } => {
                outbox::settle_files(&mut self.ctx, &mut self.outbox.table, shas, word);
                Ok(())
            }
            Event::JournalRead { ticket, records } => self.journal_read(ticket, records),
            Event::Woke => {
                self.last_wake = None;
                Ok(())
            }
            Event::Committed(result) => self.committed(result),
            Event::Tab(event) => self.tab(event),
        }
    }

    fn set_mode(&mut self, mode: Mode) -> Result<()> {
        if let Role::Follower(follower) = &mut self.role {
            follower.phase = Phase::Opening;
        }
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
            self.link().ask_token();
        }
        Ok(())
    }

    /// There is a reason to try at once: delays end, except those that the server asked for.
    pub fn try_at_once(&mut self) {
        self.device.try_soon(&self.ctx);
        self.pull.try_at_once(&self.ctx);
        let retry_after_ms = self.pull.retry_after_ms;
        self.outbox.sender.try_at_once(retry_after_ms);
        self.live.try_at_once(retry_after_ms);
    }

    /// The status.
    pub fn status(&self) -> Status {
        let (records_lost, rolled_back) = self.device.losses();
        let facts = Facts {
            contact: self.pull.contact(),
            faults: &self.pull.faults,
            restriction: self.pull.restriction,
            role: self.pull.role,
            collections_lost: self.pull.lost().len() as u64,
            documents_lost: self.reads.lost.len() as u64,
            records_lost,
            rolled_back,
            storage: self.device.state(),
            storage_error: self.device.error(),
            updates: self.live.updates(&self.ctx),
            socket_error: self.live.error(),
            is_socket_due: self.live.is_due(&self.ctx),
            is_token_awaited: self.token.is_awaited(),
            pending: self.outbox.table.pending(),
            drafts: self.outbox.table.drafts(),
            leader: match &self.role {
                Role::Follower(follower) => follower.phase,
                Role::Leader(_) => Phase::Opening,
            },
            has_nothing_to_do: self.outbox.table.has_nothing_to_do(&self.ctx),
        };
        status_of(&self.ctx, &facts)
    }
}

/// The collections that are loaded from scratch, since the store was damaged.
pub(super) fn collections_lost(memory: &Memory, damage: &Damage) -> SortedSet<Def> {
    let era = memory.epoch().1;
    let lost = synced(memory).filter(|(_, collection)| damage.any() && collection.v(era) == 0);
    order::set_of(lost.map(|(def, _)| def.clone()))
}
