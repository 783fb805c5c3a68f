//! Asynchronous reads of journal records from the device: for the history of a document, for sweeps that
//! remove some of a record's actions, and for the follower. Also the readings that pending operations need.

use super::dispatch::Router;
use super::storing::waits;
use crate::error::Result;
use crate::journal::{JournalRecord, Retention};
use crate::memory::DocKey;
use crate::sync::context::Ctx;
use crate::sync::device::Device;
use crate::sync::facts::{JournalCall, JournalPurpose};
use crate::sync::message::Effect;
use crate::sync::outbox::Outbox;
use crate::sync::reads::Reads;

/// The parts that read the store: the journal, and the bases of operations.
pub struct StoreReads<'a> {
    ctx: &'a mut Ctx,
    outbox: &'a mut Outbox,
    reads: &'a mut Reads,
    device: &'a Device,
}

impl Router {
    /// The parts that read the store: the journal, and the bases of operations.
    pub fn store_reads(&mut self) -> StoreReads<'_> {
        let Router { ctx, outbox, reads, device, .. } = self;
        StoreReads { ctx, outbox, reads, device }
    }

    pub fn journal_read(&mut self, ticket: u64, records: Result<Vec<Option<Vec<u8>>>>) -> Result<()> {
        if waits(&self.ctx, &mut self.device, &self.reads, ticket, records.as_ref().err()) {
            return Ok(());
        }
        let Some((numbers, purpose)) = self.reads.end_journal(ticket) else { return Ok(()) };
        let call = match purpose {
            JournalPurpose::Follow(poll, log) => return self.followed(poll, log, &numbers, records),
            JournalPurpose::Answer(call) => call,
        };
        let sealed = match records {
            Ok(sealed) => sealed,
            Err(error) => {
                match call {
                    JournalCall::Sweep { ticket, .. } => {
                        self.outbox.fail_sweep(&mut self.ctx, ticket, error);
                    }
                    JournalCall::History { ticket, .. } => {
                        self.ctx.effects.push(Effect::Past { ticket, actions: Err(error) });
                    }
                }
                return Ok(());
            }
        };
        if let JournalCall::History { ticket, key } = &call
            && self.outbox.records_of(&self.ctx, key) != numbers
        {
            // Records were added, or rewritten under another number, in the meantime.
            self.store_reads().history(*ticket, key.clone());
            return Ok(());
        }
        let in_flight = self.device.journal_in_flight();
        let found = self.outbox.open_records(&mut self.ctx, (numbers, sealed), in_flight);
        self.store_reads().answer(call, found);
        Ok(())
    }
}

impl StoreReads<'_> {
    /// Runs the waiting sweeps, each once the actions of the previous one are gone from the device. Runs all
    /// that it can: the next event may be a long time away.
    pub fn advance_sweep(&mut self) {
        let is_busy = self.device.journal_in_flight().is_some();
        while !is_busy && let Some((ticket, retention, apply)) = self.outbox.next_sweep() {
            self.sweep_now(ticket, &retention, apply);
        }
    }

    /// Plans a sweep, and begins it if `apply` is set.
    pub fn sweep_now(&mut self, ticket: u64, retention: &Retention, apply: bool) {
        if let Some((partly, swept)) = self.outbox.plan_sweep(self.ctx, ticket, retention, apply) {
            self.read_journal(partly, JournalCall::Sweep { ticket, swept });
        }
    }

    /// Past states of a document, the newest last.
    pub fn history(&mut self, ticket: u64, key: DocKey) {
        let numbers = self.outbox.records_of(self.ctx, &key);
        self.read_journal(numbers, JournalCall::History { ticket, key });
    }

    fn read_journal(&mut self, numbers: Vec<u64>, call: JournalCall) {
        if self.ctx.layout.is_some() && !numbers.is_empty() {
            self.start(numbers, JournalPurpose::Answer(call));
        } else {
            self.answer(call, self.outbox.records_in_memory(&numbers));
        }
    }

    /// Reads the records of these numbers.
    pub fn start(&mut self, numbers: Vec<u64>, purpose: JournalPurpose) {
        let Some(layout) = &self.ctx.layout else { return };
        let keys = numbers.iter().map(|number| layout.journal_key(*number)).collect();
        let ticket = self.reads.start_journal(numbers, purpose);
        self.ctx.effects.push(Effect::ReadJournal { ticket, keys });
    }

    fn answer(&mut self, call: JournalCall, records: Vec<JournalRecord>) {
        match call {
            JournalCall::History { ticket, key } => {
                let in_flight = self.device.journal_in_flight();
                let actions = self.outbox.past(self.ctx, &key, records, in_flight);
                self.ctx.effects.push(Effect::Past { ticket, actions: Ok(actions) });
            }
            JournalCall::Sweep { ticket, swept } => {
                self.outbox.end_sweep(self.ctx, (ticket, swept), records);
            }
        }
    }

    /// Reads the bases of documents with pending operations.
    pub fn read_bases(&mut self) {
        let ids = self.outbox.overlay.pins_to_read(self.ctx);
        if !ids.is_empty() && self.reads.read_pins(self.ctx, ids) {
            self.outbox.overlay.reads_pins();
        }
    }

    /// The follower's poll of the log has ended: the readings that waited for it continue.
    pub fn resume_readings(&mut self, is_new: bool) {
        if let Some(bases) = self.reads.resume(self.ctx, is_new) {
            self.outbox.overlay.pins_read(self.ctx, &mut self.outbox.table, bases);
        }
    }
}
