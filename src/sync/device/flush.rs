//! Writing to storage. At most one batch is in flight, and it is built from the memory as it is at that time
//! (R7).

use super::recovery::Handle;
use crate::error::{Code, Error, Result};
use crate::storage::{Damage, Layout, Receipt, RolledBack};
use crate::sync::backoff::doubled_ms;
use crate::sync::context::Ctx;
use crate::sync::facts::JournalInFlight;
use crate::sync::message::{Effect, StorageState};

/// Delays after a failed attempt: 1 s, doubling to 30 s. An event that changes something does not shorten them.
const RETRY_MS: (u64, u64) = (1_000, 30_000);

/// How late the high-water mark may be, if the store took only changes that the server can send again.
const MARK_DELAY_MS: u64 = 1_000;

/// The attempts at one thing: those that failed in a row, and when the next one may follow.
#[derive(Default)]
pub(super) struct Attempts {
    pub failures: u32,
    pub not_before_ms: u64,
}

impl Attempts {
    /// An attempt has failed.
    pub fn failed(&mut self, now_ms: u64) {
        self.not_before_ms = now_ms + doubled_ms(RETRY_MS, self.failures);
        self.failures = self.failures.saturating_add(1);
    }
}

/// The device as this session knows it.
pub struct Device {
    pub(super) handle: Handle,
    /// The batch in flight.
    committing: Option<(Receipt, Option<JournalInFlight>)>,
    pub(super) commits: Attempts,
    /// When the high-water mark is due to be written, if it is behind.
    mark_at_ms: Option<u64>,
    /// How many records of the journal are gone; each may have held an operation.
    records_lost: u64,
    /// Set if the store was behind its high-water mark when it was opened.
    rolled_back: Option<RolledBack>,
    state: StorageState,
    /// Why the last batch was not written. A reply of the server in the meantime does not clear it.
    error: Option<Error>,
}

/// The journal's part of a batch, and whether it was written.
pub struct Flushed {
    pub journal: Option<JournalInFlight>,
    pub result: Result<()>,
}

impl Device {
    /// `has_storage` is false in incognito.
    pub fn new(damage: &Damage, has_storage: bool) -> Self {
        Device {
            handle: Handle::default(),
            committing: None,
            commits: Attempts::default(),
            mark_at_ms: None,
            records_lost: damage.journal,
            rolled_back: damage.rolled_back,
            state: if has_storage { StorageState::Ok } else { StorageState::None },
            error: None,
        }
    }

    /// Whether a batch can be written now. Also notes when the high-water mark is due.
    pub fn may_commit(&mut self, ctx: &Ctx) -> bool {
        let now = ctx.clock.mono_ms;
        let is_mark_behind = ctx.layout.as_ref().is_some_and(Layout::is_mark_behind);
        self.mark_at_ms = is_mark_behind.then_some(self.mark_at_ms.unwrap_or(now + MARK_DELAY_MS));
        !self.is_busy() && now >= self.commits.not_before_ms
    }

    /// Builds and writes the next batch if there is anything to write. Gives the journal's part back, with
    /// the reason, if the batch cannot be built.
    pub fn commit(&mut self, ctx: &mut Ctx, journal: Option<JournalInFlight>) -> Option<Flushed> {
        let layout = ctx.layout.as_mut()?;
        let changes = journal.as_ref().map(|in_flight| &in_flight.changes);
        let marks = self.mark_at_ms.is_some_and(|at| ctx.clock.mono_ms >= at);
        match layout.batch(&mut ctx.memory, changes, marks, &mut *ctx.random) {
            Ok(Some((batch, receipt))) => {
                self.committing = Some((receipt, journal));
                ctx.effects.push(Effect::Commit(batch));
                None
            }
            Ok(None) => None,
            Err(error) => Some(Flushed { journal, result: Err(error) }),
        }
    }

    /// Whether a batch of the state is in flight.
    pub fn is_committing(&self) -> bool {
        self.committing.is_some()
    }

    /// Whether no batch can be written now: one is in flight, or there is no handle.
    pub fn is_busy(&self) -> bool {
        self.committing.is_some() || self.handle.is_away()
    }

    /// The journal's part of the batch in flight.
    pub fn journal_in_flight(&self) -> Option<&JournalInFlight> {
        self.committing.as_ref()?.1.as_ref()
    }

    /// The batch in flight was written, or writing it failed.
    pub fn committed(&mut self, ctx: &mut Ctx, result: Result<()>) -> Option<Flushed> {
        let layout = ctx.layout.as_mut()?;
        let (receipt, journal) = self.committing.take()?;
        match result {
            Ok(()) => layout.committed(&mut ctx.memory, receipt),
            Err(_) => layout.failed(&mut ctx.memory, receipt),
        }
        Some(Flushed { journal, result })
    }

    /// The device has carried out a write.
    pub fn served(&mut self) {
        self.commits.failures = 0;
        self.handle.served();
        self.is_well();
    }

    /// Nothing is wrong with the storage.
    pub(super) fn is_well(&mut self) {
        self.state = StorageState::Ok;
        self.error = None;
    }

    /// The device refused a write: the status says so, and the next attempt follows after a delay.
    pub fn refused(&mut self, ctx: &Ctx, error: Error) {
        self.commits.failed(ctx.clock.mono_ms);
        self.failed(ctx, &error);
        let is_full = error.code() == Code::StorageFull;
        self.is_refusing(if is_full { StorageState::Full } else { StorageState::Memory }, error);
    }

    /// The device takes no changes.
    pub(super) fn is_refusing(&mut self, state: StorageState, error: Error) {
        self.state = state;
        self.error = Some(error);
    }

    /// This session writes the state no more: delays and failures of its batches no longer count.
    pub fn forget_failures(&mut self) {
        self.commits = Attempts::default();
        self.is_well();
    }

    /// The device can take the changes that are due.
    pub fn commit_now(&mut self, ctx: &Ctx) {
        self.commits.not_before_ms = ctx.clock.mono_ms;
    }

    /// When the next batch may be written.
    pub fn commit_not_before_ms(&self) -> u64 {
        self.commits.not_before_ms
    }

    /// When there is work to do next, if the device is free. Only a batch that failed delays the next one, so that
    /// there is something to write whenever this time is not past.
    pub fn next_commit(&self, ctx: &Ctx) -> impl Iterator<Item = u64> {
        let changes = ctx.layout.is_some().then_some(self.commits.not_before_ms);
        let mark = self.mark_at_ms.map(|at| at.max(self.commits.not_before_ms));
        changes.into_iter().chain(mark)
    }

    pub fn state(&self) -> StorageState {
        self.state
    }

    /// Why the last batch was not written.
    pub fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    /// The records of the journal that are gone; whether the store was behind its high-water mark.
    pub fn losses(&self) -> (u64, Option<RolledBack>) {
        (self.records_lost, self.rolled_back)
    }

    /// The whole state was read again, with this damage.
    pub fn reloaded(&mut self, damage: &Damage) {
        self.records_lost = self.records_lost.max(damage.journal);
        self.rolled_back = damage.rolled_back.or(self.rolled_back);
    }
}
