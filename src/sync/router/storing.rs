//! The sequences around the device: batches, the handle of the store, and readings.

use super::dispatch::Router;
use crate::error::{Error, Result};
use crate::memory::Content;
use crate::storage::{FoundPage, Reopened};
use crate::sync::device::{Flushed, Reopening};
use crate::sync::facts::JournalInFlight;
use crate::sync::message::Effect;
use crate::sync::reads::Read;

impl Router {
    /// Builds and writes the next batch if one is due.
    pub fn advance_commit(&mut self) -> Result<()> {
        if self.ctx.layout.is_none() {
            // Incognito has no device to write to: everything in memory counts as saved at once.
            self.ctx.memory.take_dirty();
            if let Some(journal) = self.journal_changes() {
                self.journal_committed(journal);
            }
            return Ok(());
        }
        // A leader without a fence does not write: another session may write at the same time.
        if !self.device.may_commit(&self.ctx) || self.tabs.is_unfenced {
            return Ok(());
        }
        let journal = self.journal_changes();
        let Some(Flushed { journal, result }) = self.device.commit(&mut self.ctx, journal) else {
            return Ok(());
        };
        if let Some(journal) = journal {
            self.journal_failed(journal);
        }
        result
    }

    /// The journal's part of the next batch, with the requests of the inbox that it fulfils.
    fn journal_changes(&mut self) -> Option<JournalInFlight> {
        self.outbox.journal_changes(self.tabs.take_done(), &self.tabs.from_inbox)
    }

    fn journal_committed(&mut self, journal: JournalInFlight) {
        for id in self.outbox.journal_committed(&mut self.ctx, journal) {
            self.tabs.is_written(&id);
        }
    }

    fn journal_failed(&mut self, journal: JournalInFlight) {
        let done = self.outbox.journal_failed(journal);
        self.tabs.put_back_done(done);
    }

    /// The batch in flight was written, or writing it failed.
    pub fn committed(&mut self, result: Result<()>) {
        let Some(Flushed { journal, result }) = self.device.committed(&mut self.ctx, result) else { return };
        match result {
            Ok(()) => {
                if let Some(journal) = journal {
                    self.journal_committed(journal);
                }
                self.device.served();
            }
            Err(error) => {
                if let Some(journal) = journal {
                    self.journal_failed(journal);
                }
                self.device.refused(&self.ctx, error);
            }
        }
    }

    /// Whether every change is in storage or is being written.
    pub fn is_clean(&self) -> bool {
        self.ctx.memory.is_clean() && self.outbox.is_clean()
    }

    /// Whether a batch is in flight.
    pub fn is_committing(&self) -> bool {
        self.device.is_committing() || self.tabs.is_handing_in()
    }

    /// Begins to rewrite the documents of sparse pages, if the device has nothing else to do.
    pub fn advance_compaction(&mut self) {
        if !self.device.is_busy() && self.ctx.memory.is_clean() {
            self.reads.advance_compaction(&mut self.ctx);
        }
    }

    /// Opens the store again if that is due. The batch in flight must have ended: no handle has two users.
    pub fn advance_device(&mut self) {
        if !self.is_committing() {
            let records = self.outbox.table.ops.values().filter_map(|op| op.record);
            self.device.advance(&mut self.ctx, records);
        }
    }

    /// Reads the bases of documents with pending operations.
    pub fn read_bases(&mut self) {
        let ids = self.outbox.overlay.pins_to_read(&mut self.ctx);
        if !ids.is_empty() && self.reads.read_pins(&mut self.ctx, ids) {
            self.outbox.overlay.reads_pins();
        }
    }

    /// Whether a reading waits for the next handle, since it failed for the present one.
    pub fn waits(&mut self, ticket: u64, error: Option<&Error>) -> bool {
        let Some(error) = error else {
            self.device.answered(ticket);
            return false;
        };
        let again = self.reads.again(ticket, self.ctx.layout.as_ref());
        self.device.holds_back(&self.ctx, ticket, error, again)
    }

    /// Pages were read, or reading them failed: continues the reading that asked for them.
    pub fn pages_read(&mut self, ticket: u64, pages: Result<Vec<Option<FoundPage>>>) {
        if self.waits(ticket, pages.as_ref().err()) {
            return;
        }
        match self.reads.pages_read(&mut self.ctx, ticket, pages) {
            Read::Nothing => {}
            Read::Stalled => self.tabs.look(&mut self.ctx),
            Read::BasesFailed => self.outbox.overlay.pins_failed(&self.ctx),
            Read::Done { bases } => {
                if let Some(bases) = bases {
                    self.outbox.overlay.pins_read(&mut self.ctx, &mut self.outbox.table, bases);
                }
                self.pull.repair(&mut self.ctx, &self.reads.lost);
            }
        }
    }

    /// The follower's poll of the log has ended: the readings that waited for it continue.
    pub fn resume_readings(&mut self, is_new: bool) {
        if let Some(bases) = self.reads.resume(&mut self.ctx, is_new) {
            self.outbox.overlay.pins_read(&mut self.ctx, &mut self.outbox.table, bases);
        }
    }

    /// The store was opened again, or opening it failed.
    pub fn reopened(&mut self, result: Result<Reopened>) -> Result<()> {
        let is_clean = self.is_clean();
        match self.device.reopened(&mut self.ctx, result, is_clean) {
            None => return Ok(()),
            Some(Reopening::Same) => {}
            Some(Reopening::Anew) => self.begin_anew(),
            Some(Reopening::Failed(readings, error)) => return self.fail_readings(readings, &error),
        }
        self.device.release_readings(&mut self.ctx);
        Ok(())
    }

    /// Fails the waiting readings with this error, so that nothing waits for ever.
    fn fail_readings(&mut self, readings: Vec<Effect>, error: &Error) -> Result<()> {
        for effect in readings {
            match effect {
                Effect::ReadPages { ticket, .. } => self.pages_read(ticket, Err(error.clone())),
                Effect::ReadJournal { ticket, .. } => self.journal_read(ticket, Err(error.clone()))?,
                _ => {}
            }
        }
        Ok(())
    }

    /// The store is empty, or has lost records. The session writes everything that it holds into it, and
    /// requests the documents whose data was only there.
    fn begin_anew(&mut self) {
        // The data in cached pages is still in memory.
        let at_rest = self.ctx.memory.documents().filter(|(_, d)| matches!(d.content, Content::AtRest));
        let ids: Vec<u32> = at_rest.map(|(_, document)| document.id).collect();
        for id in ids {
            self.reads.reload_cached(&mut self.ctx, id);
        }
        if let Some(layout) = &mut self.ctx.layout {
            layout.begin_anew();
        }
        let lost = self.ctx.memory.unsettle();
        self.reads.forget_pages(lost);
        self.outbox.unsettle();
        self.pull.repair(&mut self.ctx, &self.reads.lost);
        // The inbox is lost too. The backup database may have its requests.
        if self.ctx.generation().is_some() {
            self.tabs.read_inbox(&mut self.ctx, true);
        }
    }
}
