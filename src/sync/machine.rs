//! The machine itself: a session as its driver sees it. `handle` takes each event. The other functions begin a
//! session or read its state, and the router does the work.

use super::context::{Config, Ctx};
use super::message::{Clock, Effect, Event, Phase, Status};
use super::outbox::{self, Application, Outbox};
use super::reads::{self, Changes};
use super::role::{Fence, Role};
use super::router::Router;
use crate::crypto::Random;
use crate::error::{Code, Error, Result};
use crate::journal::{OpId, PendingOp, Request, Signal, Wanted, key_of};
use crate::memory::query::Query;
use crate::memory::{DocKey, Memory};
use crate::model::{Def, Name, Pk, Value};
use crate::storage::{Damage, JournalAtRest, Layout, StateReader};
use crate::store::{Batch, Durability, RecordKey};

/// A session without input or output.
pub struct Machine {
    router: Router,
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
        Machine { router: Router::new(Ctx::new(config, memory, layout, session, random), &damage) }
    }

    /// Adds the operations in storage, and the application's functions.
    pub fn with_writes(mut self, journal: JournalAtRest, application: Box<dyn Application>) -> Self {
        let Router { ctx, outbox, .. } = &mut self.router;
        let summary = ctx.layout.as_ref().map(Layout::journal_summary).unwrap_or_default();
        *outbox = Outbox::new(journal, summary, application);
        outbox.restore_ops(ctx);
        outbox.overlay.show_operations(ctx, &mut outbox.table, &*outbox.application);
        self
    }

    /// Handles an event, and returns the effects to carry out.
    pub fn handle(&mut self, event: Event, clock: Clock) -> Vec<Effect> {
        self.router.handle(event, clock)
    }

    /// The status.
    pub fn status(&self) -> Status {
        self.router.status()
    }

    /// Whether a batch is in flight.
    pub fn is_committing(&self) -> bool {
        self.router.is_committing()
    }

    /// The session's random name (R11).
    pub fn session(&self) -> &str {
        self.router.ctx.session()
    }

    /// The session memory.
    pub fn memory(&self) -> &Memory {
        &self.router.ctx.memory
    }

    /// The layout of the device's storage; `None` in incognito.
    pub fn layout(&self) -> Option<&Layout> {
        self.router.ctx.layout.as_ref()
    }

    /// The ids of a def's documents that have not expired, with those of one page next to each other; whether
    /// the def has been loaded whole once; and its `v`.
    pub fn list(&self, def: &Def) -> Option<(Vec<u32>, bool, u64)> {
        reads::list(&self.router.ctx, def)
    }

    /// The changes of a def since the last call, for the one view that follows it.
    pub fn changes(&mut self, def: &Def, all: bool) -> Option<Changes> {
        reads::changes(&mut self.router.ctx, def, all)
    }

    /// The id of the document that a def names by its pk, if the application sees it and a def holds it: this one or another.
    pub fn held(&self, def: &Def) -> Option<u32> {
        reads::held(&self.router.ctx, def)
    }

    /// The id of a held document that has not expired.
    pub fn find(&self, class: &Name, pk: &Pk) -> Option<u32> {
        reads::find(&self.router.ctx, class, pk)
    }

    /// Checks whether a query can be answered. Errors: `bad_option` if it is within a def that is not subscribed to.
    pub fn check_query(&self, query: &Query) -> Result<()> {
        reads::check_query(&self.router.ctx, query)
    }

    /// Checks whether an operation can be issued: named errors before anything is written.
    pub fn check_write(&self, name: &str, args: &Value) -> Result<()> {
        outbox::check_write(&self.router.ctx, &self.router.outbox.table, name, args)
    }

    /// Checks whether a refused operation can be issued again in its place, with the same arguments or
    /// others. Errors: `not_found`, and those of [`Machine::check_write`].
    pub fn check_amendment(&self, id: &str, args: Option<&Value>) -> Result<()> {
        outbox::check_amendment(&self.router.ctx, &self.router.outbox.table, id, args)
    }

    /// The refused operation of that id.
    pub fn refused_op(&self, id: &str) -> Result<&PendingOp> {
        self.router.outbox.table.refused_op(id).map(|(op, _)| op)
    }

    /// The key of a document by its class and key properties.
    pub fn key_of(&self, class: &str, parts: &[impl AsRef<str>]) -> Result<DocKey> {
        key_of(self.router.ctx.memory.schema(), class, parts)
    }

    /// Whether an operation waits until its files are at the server.
    pub fn is_uploading(&self, op: &PendingOp) -> bool {
        self.router.outbox.table.files.hold(op)
    }

    /// The objects of files that local documents reference, and those of operations which are not over at the server unless
    /// `is_local`.
    pub fn files(&self, is_local: bool) -> Vec<String> {
        outbox::files(&self.router.outbox.table, is_local)
    }

    /// Operations that are not over at the server, in order, each with whether it is held: behind a refused one, or until its files
    /// are at the server.
    pub fn operations(&self) -> Vec<(&PendingOp, bool)> {
        self.router.outbox.table.operations()
    }

    /// Whether the session knows anything of this operation. If the server were restored, it would notice
    /// its loss (R8). For tests.
    #[cfg(any(test, feature = "testing"))]
    pub fn remembers(&self, id: &OpId) -> bool {
        self.router.outbox.remembers(id)
    }

    /// Ids of accepted operations that a later epoch of the server's database does not hold (R8).
    pub fn lost_by_server(&self) -> &[OpId] {
        self.router.outbox.lost_by_server()
    }

    /// The reader that loads the whole state again; `None` in incognito.
    pub fn reader(&self) -> Option<StateReader> {
        Some(
            self.router
                .ctx
                .layout
                .as_ref()?
                .reader(self.router.ctx.memory.schema().clone(), self.router.tabs.next.is_some()),
        )
    }

    /// The batch that writes a signal for all sessions. The leader's beat belongs to its generation.
    pub fn signal(&mut self, signal: Signal) -> Result<Batch> {
        let Some(layout) = &self.router.ctx.layout else {
            return Err(Error::new(Code::Internal, "nobody else is here"));
        };
        let key = if signal == Signal::Beat { layout.beat_key() } else { layout.signal_key() };
        let phase = (signal == Signal::Beat).then(|| self.router.status().phase.as_str().to_owned());
        let request = Request { stamp: self.router.ctx.clock.wall_ms, wanted: Wanted::Signal(signal), phase };
        let mut batch = layout.hand_in(&[(key, request)], &mut *self.router.ctx.random)?;
        batch.durability = Durability::Relaxed;
        if signal == Signal::Beat {
            batch.generation = layout.generation();
        }
        Ok(batch)
    }

    /// The keys of the leader's beat and of the last signal; `None` in incognito.
    pub fn signal_keys(&self) -> Option<[RecordKey; 2]> {
        self.router.ctx.layout.as_ref().map(|layout| [layout.beat_key(), layout.signal_key()])
    }

    /// Opens the last signal to all sessions.
    pub fn open_signal(&self, key: RecordKey, sealed: &[u8]) -> Option<Signal> {
        match self.router.ctx.layout.as_ref()?.open_request(key, sealed).ok()?.wanted {
            Wanted::Signal(signal) => Some(signal),
            _ => None,
        }
    }

    /// Opens the leader's beat, and returns the leader's phase.
    pub fn open_beat(&self, key: RecordKey, sealed: &[u8]) -> Option<Phase> {
        Phase::parse(&self.router.ctx.layout.as_ref()?.open_request(key, sealed).ok()?.phase?)
    }

    /// True if everything that the session holds is on the device; incognito has nothing to wait for. Errors:
    /// the reason why the last batch was not written.
    pub fn is_at_rest(&self) -> Result<bool> {
        match self.router.device.error() {
            // A dead handle that is being opened again is no failure yet.
            Some(error) if !self.router.device.is_hopeful() => Err(error.clone()),
            Some(_) => Ok(false),
            None if self.router.ctx.layout.is_none() => Ok(true),
            None => Ok(self.router.is_at_rest()),
        }
    }

    /// The batch that brings the high-water mark up to date, if it is behind. A closing session writes it
    /// last.
    pub fn last_mark(&mut self) -> Result<Option<Batch>> {
        let Role::Leader(leader) = &self.router.role else { return Ok(None) };
        if leader.fence == Fence::Missing || self.router.device.is_busy() || !self.router.is_clean() {
            return Ok(None);
        }
        let Some(layout) = &self.router.ctx.layout else { return Ok(None) };
        Ok(layout.mark_alone(&self.router.ctx.memory, &mut *self.router.ctx.random)?.map(|(batch, _)| batch))
    }

    /// The machine as a follower, until it is to lead.
    pub fn following(mut self) -> Self {
        self.router.follow();
        self
    }

    /// The generation in which this session leads.
    pub fn generation(&self) -> Option<u64> {
        self.router.ctx.generation()
    }

    /// Whether this session follows: another one leads, or none does.
    pub fn is_following(&self) -> bool {
        self.router.ctx.is_following()
    }

    /// Whether it has begun a generation, and will lead once it has read the state.
    pub fn is_about_to_lead(&self) -> bool {
        self.router.tabs.next.is_some()
    }

    /// Whether its schema knows all that the leader's knows, and more: it is to lead in the leader's place.
    pub fn is_ahead(&self) -> bool {
        self.is_following() && self.router.ctx.layout.as_ref().is_some_and(Layout::is_ahead)
    }

    /// The machine as the leader in that generation from the first event on: its state was read in that
    /// generation.
    pub fn leading(mut self, generation: u64) -> Self {
        self.router.ctx.layout.iter_mut().for_each(|layout| layout.lead(Some(generation)));
        self
    }

    /// Whether it is to lead, and the device has not taken its generation yet.
    pub fn is_unfenced(&self) -> bool {
        let is_next_unfenced = self.router.tabs.next.is_some_and(|next| !next.is_fenced);
        is_next_unfenced
            || matches!(&self.router.role, Role::Leader(leader) if leader.fence == Fence::Missing)
    }
}
