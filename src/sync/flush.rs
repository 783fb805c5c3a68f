//! Writing to storage. At most one batch is in flight, and it is built from the memory as it is at that time
//! (R7). Also here: rewriting the documents of sparse pages.

use super::journal::JournalInFlight;
use super::machine::Machine;
use super::message::{Effect, StorageState};
use super::reads::{Purpose, Reading};
use crate::error::{Code, Error, Result};
use crate::storage::Layout;
use crate::store::Batch;

/// Delays after a failed batch: 1 s, doubling to 30 s. An event that changes something does not shorten them.
pub(super) const COMMIT_RETRY_MS: (u64, u64) = (1_000, 30_000);

/// How late the high-water mark may be, if the store took only changes that the server can send again.
const MARK_DELAY_MS: u64 = 1_000;

/// Delay after sparse pages could not be read: compaction is not urgent.
pub(super) const COMPACT_RETRY_MS: u64 = 60_000;

impl Machine {
    /// Builds and writes the next batch if one is due.
    pub(super) fn advance_commit(&mut self, now: u64) -> Result<()> {
        if self.ctx.layout.is_none() {
            // Incognito has no device to write to: everything in memory counts as saved at once.
            self.ctx.memory.take_dirty();
            if let Some(journal) = self.journal_changes() {
                self.journal_committed(journal);
            }
            return Ok(());
        }
        let is_mark_behind = self.ctx.layout.as_ref().is_some_and(Layout::is_mark_behind);
        let mark_at_ms = self.mark_at_ms.unwrap_or(now + MARK_DELAY_MS);
        self.mark_at_ms = is_mark_behind.then_some(mark_at_ms);
        if self.is_commit_held() || now < self.commit_not_before_ms {
            return Ok(());
        }
        let journal = self.journal_changes();
        let Some(layout) = &mut self.ctx.layout else { return Ok(()) };
        let changes = journal.as_ref().map(|in_flight| &in_flight.changes);
        let marks = is_mark_behind && now >= mark_at_ms;
        match layout.batch(&mut self.ctx.memory, changes, marks, &mut *self.ctx.random) {
            Ok(Some((batch, receipt))) => {
                self.committing = Some((receipt, journal));
                self.ctx.effects.push(Effect::Commit(batch));
                Ok(())
            }
            Ok(None) => Ok(()),
            Err(error) => {
                if let Some(journal) = journal {
                    self.journal_failed(journal);
                }
                Err(error)
            }
        }
    }

    /// The journal's part of the next batch, with the requests of the inbox that it fulfils.
    fn journal_changes(&mut self) -> Option<JournalInFlight> {
        self.writes.journal_changes(self.tabs.take_done(), &self.tabs.from_inbox)
    }

    fn journal_committed(&mut self, journal: JournalInFlight) {
        for id in self.writes.journal_committed(&mut self.ctx, journal) {
            self.tabs.is_written(&id);
        }
    }

    fn journal_failed(&mut self, journal: JournalInFlight) {
        let done = self.writes.journal_failed(journal);
        self.tabs.put_back_done(done);
    }

    fn is_commit_held(&self) -> bool {
        // A leader without a fence does not write: another session may write at the same time.
        self.committing.is_some() || self.healing.is_away() || self.tabs.is_unfenced
    }

    /// True if everything that the session holds is on the device; incognito has nothing to wait for. Errors:
    /// the reason why the last batch was not written.
    pub fn is_at_rest(&self) -> Result<bool> {
        match &self.storage_error {
            // A dead handle that is being opened again is no failure yet.
            Some(error) if !self.healing.is_hopeful() => Err(error.clone()),
            Some(_) => Ok(false),
            None if self.ctx.layout.is_none() => Ok(true),
            None if self.tabs.is_following => Ok(self.is_handed_in()),
            None => Ok(!self.is_committing() && self.ctx.memory.is_clean() && self.writes.journal.is_clean()),
        }
    }

    /// The batch that brings the high-water mark up to date, if it is behind. A closing session writes it
    /// last.
    pub fn last_mark(&mut self) -> Result<Option<Batch>> {
        let is_held = self.is_commit_held() || !self.ctx.memory.is_clean() || !self.writes.journal.is_clean();
        let Some(layout) = self.ctx.layout.as_ref().filter(|_| !is_held && !self.tabs.is_following) else {
            return Ok(None);
        };
        Ok(layout.mark_alone(&self.ctx.memory, &mut *self.ctx.random)?.map(|(batch, _)| batch))
    }

    /// Whether a batch is in flight.
    pub fn is_committing(&self) -> bool {
        self.committing.is_some() || self.tabs.is_handing_in()
    }

    /// The batch in flight was written, or writing it failed.
    pub(super) fn committed(&mut self, result: Result<()>) {
        let (Some((receipt, journal)), Some(layout)) = (self.committing.take(), &mut self.ctx.layout) else {
            return;
        };
        match result {
            Ok(()) => {
                layout.committed(&mut self.ctx.memory, receipt);
                if let Some(journal) = journal {
                    self.journal_committed(journal);
                }
                self.device_served();
            }
            Err(error) => {
                layout.failed(&mut self.ctx.memory, receipt);
                if let Some(journal) = journal {
                    self.journal_failed(journal);
                }
                self.device_refused(error);
            }
        }
    }

    /// The device has carried out a write.
    pub(super) fn device_served(&mut self) {
        self.commit_failures = 0;
        self.healing.served();
        self.storage = StorageState::Ok;
        self.storage_error = None;
    }

    /// The device refused a write: the status says so, and the next attempt follows after a delay.
    pub(super) fn device_refused(&mut self, error: Error) {
        let delay = (COMMIT_RETRY_MS.0 << self.commit_failures.min(10)).min(COMMIT_RETRY_MS.1);
        self.commit_failures += 1;
        self.commit_not_before_ms = self.ctx.clock.mono_ms + delay;
        let is_full = error.code() == Code::StorageFull;
        self.storage = if is_full { StorageState::Full } else { StorageState::Memory };
        self.device_failed(&error);
        self.storage_error = Some(error);
    }

    /// Reads sparse pages in order to write their documents together into new pages: storage costs by the
    /// record.
    pub(super) fn advance_compaction(&mut self) {
        let Some(layout) = &self.ctx.layout else { return };
        let is_away = self.committing.is_some() || self.healing.is_away();
        let is_busy = is_away || !self.ctx.memory.is_clean() || self.reads.is_compacting();
        if is_busy || self.ctx.clock.mono_ms < self.compact_not_before_ms {
            return;
        }
        let pages = layout.sparse_pages(&self.reads.unreadable);
        if !pages.is_empty() {
            let keys = pages.iter().map(|page| layout.page_key(*page)).collect();
            let ticket = self.reads.start(Reading { pages, purpose: Purpose::Compact });
            self.ctx.effects.push(Effect::ReadPages { ticket, keys });
        }
    }
}
