//! The sequences around the device: batches, the handle of the store, and readings.

use super::dispatch::Router;
use crate::error::{Error, Result};
use crate::memory::Content;
use crate::storage::{FoundPage, Reopened};
use crate::sync::context::Ctx;
use crate::sync::device::{Device, Flushed, Reopening};
use crate::sync::facts::JournalInFlight;
use crate::sync::message::Effect;
use crate::sync::outbox::Outbox;
use crate::sync::reads::{Read, Reads};
use crate::sync::role::{Fence, Leader, Role, Tabs};

impl Router {
    /// Builds and writes the next batch if one is due.
    pub fn advance_commit(&mut self) -> Result<()> {
        let Router { ctx, outbox, tabs, device, role: Role::Leader(leader), .. } = self else {
            return Ok(());
        };
        if ctx.layout.is_none() {
            // Incognito has no device to write to: everything in memory counts as saved at once.
            ctx.memory.dirty.take();
            if let Some(journal) = journal_changes(outbox, tabs, leader) {
                journal_committed(ctx, outbox, leader, journal);
            }
            return Ok(());
        }
        // A leader without a fence does not write: another session may write at the same time.
        if !device.may_commit(ctx) || leader.fence == Fence::Missing {
            return Ok(());
        }
        let journal = journal_changes(outbox, tabs, leader);
        let Some(Flushed { journal, result }) = device.commit(ctx, journal) else { return Ok(()) };
        if let Some(journal) = journal {
            journal_failed(outbox, tabs, leader, journal);
        }
        result
    }

    /// The leader's batch in flight was written, or writing it failed.
    pub fn batch_ended(&mut self, result: Result<()>) {
        let Router { ctx, outbox, tabs, device, role: Role::Leader(leader), .. } = self else { return };
        let Some(Flushed { journal, result }) = device.committed(ctx, result) else { return };
        match result {
            Ok(()) => {
                if let Some(journal) = journal {
                    journal_committed(ctx, outbox, leader, journal);
                }
                device.served();
            }
            Err(error) => {
                if let Some(journal) = journal {
                    journal_failed(outbox, tabs, leader, journal);
                }
                device.refused(ctx, error);
            }
        }
    }

    /// Opens the store again if that is due. The batch in flight must have ended: no handle has two users.
    pub fn advance_device(&mut self) {
        if !self.is_committing() {
            let records = self.outbox.table.iter().filter_map(|op| op.record);
            self.device.advance(&mut self.ctx, records);
        }
    }

    /// Whether every change is in storage or is being written.
    pub fn is_clean(&self) -> bool {
        self.ctx.memory.is_clean() && self.outbox.is_clean()
    }

    /// Whether a batch is in flight.
    pub fn is_committing(&self) -> bool {
        self.device.is_committing() || self.role.is_handing_in()
    }

    /// Pages were read, or reading them failed: continues the reading that asked for them.
    pub fn pages_read(&mut self, ticket: u64, pages: Result<Vec<Option<FoundPage>>>) {
        if waits(&self.ctx, &mut self.device, &self.reads, ticket, pages.as_ref().err()) {
            return;
        }
        match self.reads.pages_read(&mut self.ctx, ticket, pages) {
            Read::Nothing => {}
            Read::Stalled => self.poll(),
            Read::BasesFailed => self.outbox.overlay.pins_failed(&self.ctx),
            Read::Done { bases } => {
                if let Some(bases) = bases {
                    self.outbox.overlay.pins_read(&mut self.ctx, &mut self.outbox.table, bases);
                }
                self.pull.repair(&mut self.ctx, &self.reads.lost);
            }
        }
    }

    /// The store was opened again, or opening it failed.
    pub fn reopened(&mut self, result: Result<Reopened>) -> Result<()> {
        let is_clean = self.is_clean();
        match self.device.reopened(&mut self.ctx, result, is_clean) {
            None => return Ok(()),
            Some(Reopening::Same) => {}
            Some(Reopening::Again) => self.begin_again(),
            Some(Reopening::Failed(readings, error)) => {
                // Nothing waits for ever.
                for effect in readings {
                    match effect {
                        Effect::ReadPages { ticket, .. } => self.pages_read(ticket, Err(error.clone())),
                        Effect::ReadJournal { ticket, .. } => {
                            self.journal_read(ticket, Err(error.clone()))?;
                        }
                        _ => {}
                    }
                }
                return Ok(());
            }
        }
        self.device.release_readings(&mut self.ctx);
        Ok(())
    }

    /// The store is empty, or has lost records. The session writes everything that it holds into it, and
    /// requests the documents whose data was only there.
    fn begin_again(&mut self) {
        // The data in cached pages is still in memory.
        let at_rest = self.ctx.memory.documents().filter(|(_, d)| matches!(d.content, Content::AtRest));
        let ids: Vec<u32> = at_rest.map(|(_, document)| document.id).collect();
        for id in ids {
            self.reads.reload_cached(&mut self.ctx, id);
        }
        if let Some(layout) = &mut self.ctx.layout {
            layout.begin_again();
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

/// The journal's part of the next batch, with the requests of the inbox that it fulfils.
fn journal_changes(outbox: &mut Outbox, tabs: &mut Tabs, leader: &mut Leader) -> Option<JournalInFlight> {
    let done = std::mem::take(&mut leader.done);
    let mut journal = outbox.journal_changes(done, &leader.from_inbox);
    if let Some(journal) = &mut journal {
        journal.untold = std::mem::take(&mut tabs.untold);
    }
    journal
}

fn journal_committed(ctx: &mut Ctx, outbox: &mut Outbox, leader: &mut Leader, journal: JournalInFlight) {
    for id in outbox.journal_committed(ctx, journal) {
        // It has a record, and no longer needs its request.
        leader.from_inbox.remove(&id);
    }
}

fn journal_failed(outbox: &mut Outbox, tabs: &mut Tabs, leader: &mut Leader, mut journal: JournalInFlight) {
    tabs.untold.append(&mut journal.untold);
    leader.done.extend(outbox.journal_failed(journal));
}

/// Whether a reading waits for the next handle, since it failed for the present one.
pub fn waits(ctx: &Ctx, device: &mut Device, reads: &Reads, ticket: u64, error: Option<&Error>) -> bool {
    let Some(error) = error else {
        device.answered(ticket);
        return false;
    };
    let again = reads.again(ticket, ctx.layout.as_ref());
    device.holds_back(ctx, ticket, error, again)
}
