//! Hands each event to the parts of the machine that it concerns.

use crate::error::{Code, Result, fail};
use crate::journal::Wanted;
use crate::limits::SUBS_MAX;
use crate::memory::{self, Memory, is_local, synced};
use crate::model::{Def, SortedSet, order};
use crate::storage::{Damage, FoundPage, JournalAtRest, JournalMark};
use crate::sync::context::Ctx;
use crate::sync::device::Device;
use crate::sync::message::{Clock, Effect, Event, Mode, Status};
use crate::sync::outbox::{self, NoApplication, Outbox};
use crate::sync::pull::{Live, Pull, Token};
use crate::sync::reads::Reads;
use crate::sync::role::Tabs;
use crate::sync::status::{Facts, status_of};

/// The parts of the machine, and the sequences that need several of them. No part names another one.
pub struct Router {
    pub ctx: Ctx,
    pub pull: Pull,
    pub live: Live,
    pub reads: Reads,
    pub outbox: Outbox,
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
        if wake != self.last_wake {
            self.last_wake = wake;
            self.ctx.effects.push(Effect::WakeAt(wake));
        }
        self.device.hold_readings(&mut self.ctx);
        std::mem::take(&mut self.ctx.effects)
    }

    /// Handles one event, without the work that is due after it.
    fn dispatch(&mut self, event: Event) -> Result<()> {
        let Some(event) = self.take_as_tab(event)? else { return Ok(()) };
        match event {
            Event::Started => {
                self.link().start();
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
            Event::Lease(def, lease) => {
                if memory::lease(&mut self.ctx.memory, &def, lease) && self.ctx.is_following() {
                    self.tabs.ask(&mut self.ctx, Wanted::Lease(def, lease))?;
                }
                Ok(())
            }
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
            Event::Write(write) => self.outbox.table.write(&mut self.ctx, write),
            Event::Amend { id, new, args } => {
                let outbox = &mut self.outbox;
                outbox::amend(&mut self.ctx, &mut outbox.table, &*outbox.application, &id, new, args)
            }
            Event::Discard(id) => self.outbox.table.discard(&mut self.ctx, &id).map(drop),
            Event::History { ticket, key } => {
                self.readings().history(ticket, key);
                Ok(())
            }
            Event::Sweep { ticket, retention, apply } => {
                self.outbox.sweep(ticket, retention, apply);
                Ok(())
            }
            Event::FilesSettled { shas, word } => {
                outbox::settle_files(&mut self.ctx, &mut self.outbox.table, shas, word);
                Ok(())
            }
            Event::JournalRead { ticket, records } => self.journal_read(ticket, records),
            Event::Woke => {
                self.last_wake = None;
                Ok(())
            }
            // They depend on the role, and were handled before.
            Event::Committed(_) | Event::Tab(_) => Ok(()),
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
            self.link().ask_token();
        }
        Ok(())
    }

    /// Begins a subscription. If there was none, its documents are pulled.
    pub fn subscribe(&mut self, def: Def) -> Result<()> {
        if self.ctx.memory.subscribe(&def)? {
            outbox::show_again(&mut self.ctx, &mut self.outbox.table, &def);
            if !is_local(&self.ctx.memory, &def) {
                self.reads.seed(&mut self.ctx, &def);
                self.pull.subscribed(def);
            }
        }
        Ok(())
    }

    /// Ends a subscription, and forgets all that was due for it.
    pub fn unsubscribe(&mut self, def: &Def) {
        self.pull.faults.remove(def);
        self.received().end(def);
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
            leader: self.tabs.phase,
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
