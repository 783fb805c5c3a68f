//! Asynchronous reads of journal records from the device: for the history of a document, for sweeps that
//! remove some of a record's actions, and for the follower.

use super::facts::JournalPurpose;
use super::machine::Machine;
use super::message::Effect;
use super::outbox::RecordIndex;
use crate::error::{Code, Error, Result};
use crate::journal::{Action, JournalRecord, OpId, Retention};
use crate::memory::DocKey;
use crate::model::{SortedMap, SortedSet, order};

impl Machine {
    /// Runs the waiting sweeps, each once the actions of the previous one are gone from the device. Runs all
    /// that it can: the next event may be a long time away.
    pub(super) fn advance_sweep(&mut self) {
        let is_busy = self.device.journal_in_flight().is_some();
        while !is_busy && let Some((ticket, retention, apply)) = self.writes.next_sweep() {
            self.sweep_now(ticket, &retention, apply);
        }
    }

    /// Plans a sweep, and begins it if `apply` is set.
    pub(super) fn sweep_now(&mut self, ticket: u64, retention: &Retention, apply: bool) {
        if let Some((partly, swept)) = self.writes.plan_sweep(&mut self.ctx, ticket, retention, apply) {
            self.read_journal(partly, JournalPurpose::Sweep { ticket, swept });
        }
    }

    /// Past states of a document, the newest last. Those of pending operations come from memory, the others
    /// from the device.
    pub(super) fn history(&mut self, ticket: u64, key: DocKey) {
        self.read_journal(self.records_of(&key), JournalPurpose::History { ticket, key });
    }

    /// The numbers of the records on the device that contain actions on a document.
    fn records_of(&self, key: &DocKey) -> Vec<u64> {
        let name = self.ctx.memory.class_name(key);
        let of_it = |record: &RecordIndex| record.actions.iter().any(|a| a.pk == key.1 && a.class == name);
        let records = self.writes.journal.records.iter();
        records.filter(|(_, record)| of_it(record)).map(|(number, _)| *number).collect()
    }

    pub(super) fn read_journal(&mut self, numbers: Vec<u64>, purpose: JournalPurpose) {
        match &self.ctx.layout {
            Some(layout) if !numbers.is_empty() => {
                let keys = numbers.iter().map(|number| layout.journal_key(*number)).collect();
                let ticket = self.reads.start_journal(numbers, purpose);
                self.ctx.effects.push(Effect::ReadJournal { ticket, keys });
            }
            _ => {
                let records =
                    numbers.iter().filter_map(|n| self.writes.journal.in_memory.get(n).cloned()).collect();
                self.journal_answer(purpose, records);
            }
        }
    }

    pub(super) fn journal_read(&mut self, ticket: u64, records: Result<Vec<Option<Vec<u8>>>>) -> Result<()> {
        if self.waits(ticket, records.as_ref().err()) {
            return Ok(());
        }
        let Some((numbers, purpose)) = self.reads.end_journal(ticket) else { return Ok(()) };
        let purpose = match purpose {
            JournalPurpose::Follow(states) => return self.followed(states, &numbers, records),
            other => other,
        };
        let Some(layout) = &self.ctx.layout else { return Ok(()) };
        let sealed = match records {
            Ok(sealed) => sealed,
            Err(error) => {
                self.ctx.effects.push(match purpose {
                    JournalPurpose::History { ticket, .. } => Effect::Past { ticket, actions: Err(error) },
                    JournalPurpose::Sweep { ticket, .. } => {
                        self.writes.journal.is_sweeping = false;
                        Effect::Swept { ticket, swept: Err(error) }
                    }
                    JournalPurpose::Follow(_) => return Ok(()),
                });
                return Ok(());
            }
        };
        if let JournalPurpose::History { ticket, key } = &purpose
            && self.records_of(key) != numbers
        {
            // Records were added, or rewritten under another number, in the meantime.
            self.history(*ticket, key.clone());
            return Ok(());
        }
        let mut found = Vec::new();
        for (number, sealed) in numbers.into_iter().zip(sealed) {
            match sealed.map(|sealed| layout.open_journal(number, &sealed)) {
                Some(Ok(record)) => found.push(record),
                _ if self.writes.journal.records.contains_key(&number) => {
                    self.ctx
                        .errors
                        .report(Error::new(Code::LocalDataLost, "a journal record could not be read"));
                }
                // Rewritten in the meantime.
                _ => {}
            }
        }
        self.journal_answer(purpose, found);
        Ok(())
    }

    fn journal_answer(&mut self, purpose: JournalPurpose, records: Vec<JournalRecord>) {
        match purpose {
            JournalPurpose::History { ticket, key } => {
                let class = self.ctx.memory.class_name(&key);
                let mut actions: SortedMap<i64, (OpId, Action)> = SortedMap::new();
                let at_rest = records.into_iter().map(|record| (record.op_id, record.actions));
                let pending = self.writes.table.on(&key).map(|op| (op.state.id.clone(), op.actions.clone()));
                // Operations that are over, and whose records are not yet on the device.
                let in_flight = self.device.journal_in_flight().into_iter();
                let over = in_flight.flat_map(|journal| &journal.ended).chain(&self.writes.table.due.ended);
                let over = over.map(|(_, record)| (record.op_id.clone(), record.actions.clone()));
                // If an action comes twice, the later copy has more information.
                for (id, of_op) in at_rest.chain(pending).chain(over) {
                    for action in of_op.into_iter().filter(|a| a.class == class && a.pk == key.1) {
                        actions.insert(action.rowid, (id.clone(), action));
                    }
                }
                self.ctx.effects.push(Effect::Past { ticket, actions: Ok(actions.into_values().collect()) });
            }
            JournalPurpose::Follow(_) => {}
            JournalPurpose::Sweep { ticket, swept } => {
                let removed: SortedSet<i64> = order::set_of(swept.rowids.iter().copied());
                for mut record in records {
                    record.actions.retain(|action| !removed.contains(&action.rowid));
                    let number = record.number;
                    self.writes.table.due.ended.push((Some(number), record));
                }
                self.writes.journal.is_sweeping = false;
                if self.writes.is_removed() {
                    self.ctx.effects.push(Effect::Swept { ticket, swept: Ok(swept) });
                } else {
                    self.writes.journal.swept.push((ticket, swept));
                }
            }
        }
    }
}
