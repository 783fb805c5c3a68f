//! Answers from the journal: the past states of a document, and sweeps that keep a part of a record.

use super::journal::{RecordIndex, WaitingSweep};
use super::parts::Outbox;
use crate::error::{Code, Error};
use crate::journal::{Action, ActionMeta, JournalRecord, OpId, Protect, Retention, iso8601, plan};
use crate::memory::DocKey;
use crate::model::{SortedMap, SortedSet, order};
use crate::sync::context::Ctx;
use crate::sync::facts::JournalInFlight;
use crate::sync::message::{Effect, Swept};

impl Outbox {
    /// The numbers of the records on the device that contain actions on a document.
    pub fn records_of(&self, ctx: &Ctx, key: &DocKey) -> Vec<u64> {
        let name = ctx.memory.class_name(key);
        let of_it = |record: &RecordIndex| record.actions.iter().any(|a| a.pk == key.1 && a.class == name);
        self.journal.records.iter().filter(|(_, record)| of_it(record)).map(|(number, _)| *number).collect()
    }

    /// The records of these numbers, if they are in memory, as in incognito.
    pub fn records_in_memory(&self, numbers: &[u64]) -> Vec<JournalRecord> {
        numbers.iter().filter_map(|number| self.journal.in_memory.get(number).cloned()).collect()
    }

    /// Opens records that were read. Leaves out those that were rewritten in the meantime, also by the batch in flight: the
    /// device may have written it already. A leader rewrites the records of a follower at any time.
    pub fn open_records(
        &self,
        ctx: &mut Ctx,
        (numbers, sealed): (Vec<u64>, Vec<Option<Vec<u8>>>),
        in_flight: Option<&JournalInFlight>,
    ) -> Vec<JournalRecord> {
        let Some(layout) = &ctx.layout else { return Vec::new() };
        let deletes = in_flight.map_or(&[][..], |journal| &journal.changes.deletes);
        let is_following = ctx.is_following();
        let may_be_gone = |number: u64| is_following || deletes.binary_search(&number).is_ok();
        let mut found = Vec::new();
        for (number, sealed) in numbers.into_iter().zip(sealed) {
            match sealed.map(|sealed| layout.open_journal(number, &sealed)) {
                Some(Ok(record)) => found.push(record),
                None if may_be_gone(number) => {}
                _ if self.journal.records.contains_key(&number) => {
                    let error = Error::new(Code::LocalDataLost, "a journal record could not be read");
                    ctx.errors.report(error);
                }
                _ => {}
            }
        }
        found
    }

    /// Past states of a document, the newest last: from records on the device, from pending operations, and
    /// from operations that are over and whose records are not yet on the device.
    pub fn past(
        &self,
        ctx: &Ctx,
        key: &DocKey,
        records: Vec<JournalRecord>,
        in_flight: Option<&JournalInFlight>,
    ) -> Vec<(OpId, Action)> {
        let class = ctx.memory.class_name(key);
        let mut actions: SortedMap<i64, (OpId, Action)> = SortedMap::new();
        let at_rest = records.into_iter().map(|record| (record.op_id, record.actions));
        let pending = self.table.on(key).map(|op| (op.state.issued.id.clone(), op.actions.clone()));
        let over = in_flight.into_iter().flat_map(|journal| &journal.ended).chain(self.table.due.ended());
        let over = over.map(|(_, record)| (record.op_id.clone(), record.actions.clone()));
        // If an action comes twice, the later copy has more information.
        for (id, of_op) in at_rest.chain(pending).chain(over) {
            for action in of_op.into_iter().filter(|a| a.class == class && a.pk == key.1) {
                actions.insert(action.rowid, (id.clone(), action));
            }
        }
        actions.into_values().collect()
    }

    /// The records were read of which a sweep keeps some actions: they are written again without the others.
    pub fn end_sweep(&mut self, ctx: &mut Ctx, (ticket, swept): (u64, Swept), records: Vec<JournalRecord>) {
        let removed: SortedSet<i64> = order::set_of(swept.rowids.iter().copied());
        for mut record in records {
            record.actions.retain(|action| !removed.contains(&action.rowid));
            let number = record.number;
            self.table.due.end(Some(number), record);
        }
        self.journal.is_sweeping = false;
        if self.is_removed() {
            ctx.effects.push(Effect::Swept { ticket, swept: Ok(swept) });
        } else {
            self.journal.swept.push((ticket, swept));
        }
    }

    /// The records could not be read of which a sweep keeps some actions.
    pub fn fail_sweep(&mut self, ctx: &mut Ctx, ticket: u64, error: Error) {
        self.journal.is_sweeping = false;
        ctx.effects.push(Effect::Swept { ticket, swept: Err(error) });
    }
}

impl Outbox {
    /// Requests a sweep of the device's journal: reports the actions that the rule removes, and removes them if `apply` is
    /// set. Actions that the server has not accepted stay, regardless of their type.
    pub fn sweep(&mut self, ticket: u64, retention: Retention, apply: bool) {
        self.journal.sweeps.push_back((ticket, retention, apply));
    }

    /// The next waiting sweep, once the actions of the previous one are gone from the device.
    pub fn next_sweep(&mut self) -> Option<WaitingSweep> {
        let is_free = !self.journal.is_sweeping && self.is_removed();
        if is_free { self.journal.sweeps.pop_front() } else { None }
    }

    /// Plans a sweep and reports its result; if `apply` is set, begins the removal. Returns the records of
    /// which some actions remain, and the result, to be reported once it is done.
    pub fn plan_sweep(
        &mut self,
        ctx: &mut Ctx,
        ticket: u64,
        retention: &Retention,
        apply: bool,
    ) -> Option<(Vec<u64>, Swept)> {
        let records = self.journal.records.values();
        let rows: Vec<ActionMeta> = records
            .flat_map(|record| record.actions.iter().map(|action| (record.pending, action)))
            .map(|(pending, action)| ActionMeta {
                rowid: action.rowid,
                actor: format!("{}@{}", action.class, action.pk),
                kind: Some(action.kind),
                // Until its operation is over, an action is part of the outbox.
                accepted: action.accepted && !pending,
                timestamp: iso8601(action.at),
            })
            .collect();
        let rowids = match plan(&rows, retention, Protect::Unaccepted) {
            Ok(rowids) => rowids,
            Err(error) => {
                ctx.effects.push(Effect::Swept { ticket, swept: Err(error) });
                return None;
            }
        };
        let swept = Swept { rowids };
        if !apply {
            ctx.effects.push(Effect::Swept { ticket, swept: Ok(swept) });
            return None;
        }
        let removed: SortedSet<i64> = order::set_of(swept.rowids.iter().copied());
        let mut partly = Vec::new();
        for (number, record) in &self.journal.records {
            let gone = record.actions.iter().filter(|action| removed.contains(&action.rowid)).count();
            // A record without actions only says that its operation was accepted, or lost.
            if record.pending || (gone == 0 && (record.lost || !record.actions.is_empty())) {
                continue;
            }
            if gone == record.actions.len() && !record.lost {
                self.table.due.delete(*number);
            } else {
                partly.push(*number);
            }
        }
        self.journal.is_sweeping = true;
        Some((partly, swept))
    }
}
