//! The journal of operations as the machine keeps it: which records must be written or deleted, and the
//! sweeper that removes old actions.

use std::collections::VecDeque;
use std::sync::Arc;

use super::context::Ctx;
use super::facts::JournalInFlight;
use super::follow::restored;
use super::journal_reads::JournalPurpose;
use super::machine::Machine;
use super::message::{Effect, Swept};
use super::writes::Writes;
use crate::journal::{
    ActionMeta, ActionType, JournalRecord, OpId, Outcome, PendingOp, Protect, Retention, iso8601, plan,
};
use crate::model::{Name, Pk, SortedMap, SortedSet, order};
use crate::storage::{JournalAtRest, JournalChanges};
use crate::store::RecordKey;

/// The facts about an action that are known without reading its record.
#[derive(Clone, Debug)]
pub(super) struct ActionIndex {
    rowid: i64,
    pub class: Name,
    pub pk: Pk,
    kind: ActionType,
    at: u64,
    accepted: bool,
}

/// A journal record on the device.
#[derive(Clone, Debug, Default)]
pub(super) struct RecordIndex {
    /// Whether its operation is still pending.
    pending: bool,
    /// Whether it says that the server has lost the operation: a sweep never removes such a record entirely.
    lost: bool,
    /// Its operation, and the number under which the server accepted it.
    op: (Arc<str>, Option<u64>),
    pub actions: Vec<ActionIndex>,
}

/// The journal's records, and the changes to them that are due.
#[derive(Default)]
pub(super) struct Journal {
    pub records: SortedMap<u64, RecordIndex>,
    /// Operations whose record must be written, by order.
    dirty: SortedSet<u64>,
    /// Records of operations that are over, to be written. The first part is the number of the record to be
    /// replaced.
    pub ended: Vec<(Option<u64>, JournalRecord)>,
    /// Records to delete.
    pub dropped: SortedSet<u64>,
    /// Waiting sweeps. Each runs on the journal that the previous one left on the device.
    sweeps: VecDeque<(u64, Retention, bool)>,
    pub is_sweeping: bool,
    /// Sweeps by ticket, reported once their actions are gone from the device.
    pub swept: Vec<(u64, Swept)>,
    strays: Vec<RecordKey>,
    /// The records in `dropped` that belonged to discarded operations. Operations blocked by one are not sent
    /// before its record is deleted (R12).
    pub given_up: Vec<super::dependencies::GivenUp>,
    /// The operations that have a record, with the number of the newest one: no operation is taken in twice.
    pub ids: SortedMap<Arc<str>, u64>,
    /// In incognito, the records themselves.
    pub in_memory: SortedMap<u64, JournalRecord>,
}

impl Journal {
    /// Drops everything that is due: another session writes from now on. Returns the waiting sweeps, and the
    /// tickets of those that were not finished.
    pub fn let_go(&mut self) -> (VecDeque<(u64, Retention, bool)>, Vec<u64>) {
        self.dirty.clear();
        self.ended.clear();
        self.dropped.clear();
        self.given_up.clear();
        self.strays.clear();
        self.is_sweeping = false;
        let swept = std::mem::take(&mut self.swept);
        (std::mem::take(&mut self.sweeps), swept.into_iter().map(|(ticket, _)| ticket).collect())
    }

    /// The highest number of an action on the device.
    pub fn last_rowid(&self) -> i64 {
        self.records.values().flat_map(|record| &record.actions).map(|action| action.rowid).max().unwrap_or(0)
    }

    /// Whether nothing remains to be written or deleted.
    pub fn is_clean(&self) -> bool {
        self.dirty.is_empty() && self.ended.is_empty() && self.dropped.is_empty() && self.strays.is_empty()
    }

    /// The same, except that records of pending operations may remain to be written.
    pub fn is_removed(&self) -> bool {
        self.ended.is_empty() && self.dropped.is_empty() && self.strays.is_empty()
    }

    /// Schedules an operation's record to be written again.
    pub fn rewrite(&mut self, order: u64) {
        self.dirty.insert(order);
    }

    /// Cancels the writing of an operation's record.
    pub fn leave(&mut self, order: u64) {
        self.dirty.remove(&order);
    }

    /// Notes the facts about a record that is in storage.
    pub fn index(&mut self, record: &JournalRecord) {
        let op_id: Arc<str> = record.op_id.as_str().into();
        self.ids.insert(op_id.clone(), record.number);
        let actions = record.actions.iter().map(|action| ActionIndex {
            rowid: action.rowid,
            class: action.class.clone(),
            pk: action.pk.clone(),
            kind: action.kind,
            at: action.at,
            accepted: action.commit.is_some(),
        });
        let (pending, lost) = (record.op.is_some(), record.lost);
        let index = RecordIndex { pending, lost, op: (op_id, record.seq), actions: actions.collect() };
        self.records.insert(record.number, index);
    }
}

impl Writes {
    /// An operation is over: only its actions remain.
    pub fn end(&mut self, op: PendingOp) {
        self.journal.dirty.remove(&op.state.order);
        let (seq, op_id, name, replaces) = (op.state.seq, op.state.id, self.mark.name, op.state.replaces);
        let outcome = op.state.accepted.map(|v| Outcome::Accepted { v, value: op.state.value });
        let record =
            JournalRecord { seq, actions: op.actions, outcome, replaces, ..JournalRecord::of(op_id, name) };
        self.journal.ended.push((op.record, record));
    }

    /// The server has lost an operation that it had accepted. A record keeps this across openings.
    pub fn lose(&mut self, id: OpId) {
        let record = JournalRecord { lost: true, ..JournalRecord::of(id.clone(), self.mark.name) };
        self.journal.ended.push((None, record));
        self.lost_by_server.push(id);
    }

    /// The device has lost the whole journal: pending operations must be written again. The history of
    /// operations that are over is lost.
    pub(super) fn unsettle(&mut self) {
        self.journal.records.clear();
        self.journal.dropped.clear();
        self.journal.given_up.clear();
        self.journal.strays.clear();
        for (order, op) in self.ops.iter_mut() {
            op.record = None;
            self.journal.dirty.insert(*order);
        }
        for (old, _) in &mut self.journal.ended {
            *old = None;
        }
        self.journal.ended.retain(|(_, record)| !record.lost);
        for id in std::mem::take(&mut self.lost_by_server) {
            self.lose(id);
        }
    }

    /// An operation ended without being executed. A record tells the session that issued it how.
    pub fn leave_outcome(&mut self, op_id: OpId, outcome: Outcome) {
        let record = JournalRecord { outcome: Some(outcome), ..JournalRecord::of(op_id, self.mark.name) };
        self.journal.ended.push((None, record));
    }

    /// A record is gone from the device. An operation without another record is forgotten, as it would be
    /// after an opening. Otherwise a session that stays open for long would grow with everything that it ever
    /// wrote.
    fn forget_record(&mut self, number: u64) {
        let Some(RecordIndex { op: (op_id, seq), .. }) = self.journal.records.remove(&number) else { return };
        if self.journal.ids.get(&op_id) == Some(&number) {
            self.journal.ids.remove(&op_id);
            self.accepted.remove(&(seq.unwrap_or(0), String::from(&*op_id)));
        }
    }

    /// Takes in the journal from storage.
    pub(super) fn restore(&mut self, at_rest: JournalAtRest) {
        self.journal.strays = at_rest.strays;
        let lost = at_rest.records.iter().filter(|record| record.lost);
        self.lost_by_server = lost.map(|record| record.op_id.clone()).collect();
        let lost: SortedSet<OpId> = order::set_of(self.lost_by_server.iter().cloned());
        for record in at_rest.records {
            let last = record.actions.iter().map(|action| action.rowid).max().unwrap_or(0);
            self.last_rowid = self.last_rowid.max(last);
            self.mark.next_record = self.mark.next_record.max(record.number + 1);
            self.journal.index(&record);
            let is_counted = record.name == self.mark.name && !lost.contains(&record.op_id);
            if let Some(seq) = record.seq.filter(|seq| *seq > 0 && is_counted) {
                self.accepted.insert((seq, record.op_id.clone()));
            }
            if let Some(op) = restored(record) {
                self.insert(op);
            }
        }
        // An earlier opening may have sent every waiting operation, under numbers up to this one.
        self.highest_sent = self.mark.last_seq + self.waiting.len() as u64;
    }
}

impl Machine {
    /// Runs the waiting sweeps, each once the actions of the previous one are gone from the device. Runs all
    /// that it can: the next event may be a long time away.
    pub(super) fn advance_sweep(&mut self) {
        let is_busy = self.device.journal_in_flight().is_some();
        while !is_busy && !self.writes.journal.is_sweeping && self.writes.journal.is_removed() {
            let Some((ticket, retention, apply)) = self.writes.journal.sweeps.pop_front() else { return };
            self.sweep_now(ticket, &retention, apply);
        }
    }

    /// Plans a sweep and reports its result; if `apply` is set, begins the removal and reports when it is
    /// done.
    pub(super) fn sweep_now(&mut self, ticket: u64, retention: &Retention, apply: bool) {
        let records = self.writes.journal.records.values();
        let rows: Vec<ActionMeta> = records
            .flat_map(|record| record.actions.iter().map(|action| (record.pending, action)))
            .map(|(pending, action)| ActionMeta {
                rowid: action.rowid,
                goblin: format!("{}@{}", action.class, action.pk),
                kind: Some(action.kind),
                // Until its operation is over, an action is part of the outbox.
                accepted: action.accepted && !pending,
                timestamp: iso8601(action.at),
            })
            .collect();
        let rowids = match plan(&rows, retention, Protect::Unaccepted) {
            Ok(rowids) => rowids,
            Err(error) => {
                self.ctx.effects.push(Effect::Swept { ticket, swept: Err(error) });
                return;
            }
        };
        let swept = Swept { rowids };
        if !apply {
            self.ctx.effects.push(Effect::Swept { ticket, swept: Ok(swept) });
            return;
        }
        let removed: SortedSet<i64> = order::set_of(swept.rowids.iter().copied());
        let mut partly = Vec::new();
        for (number, record) in &self.writes.journal.records {
            let gone = record.actions.iter().filter(|action| removed.contains(&action.rowid)).count();
            // A record without actions only says that its operation was accepted, or lost.
            if record.pending || (gone == 0 && (record.lost || !record.actions.is_empty())) {
                continue;
            }
            if gone == record.actions.len() && !record.lost {
                self.writes.journal.dropped.insert(*number);
            } else {
                partly.push(*number);
            }
        }
        self.writes.journal.is_sweeping = true;
        self.read_journal(partly, JournalPurpose::Sweep { ticket, swept });
    }
}

impl Writes {
    /// Connects the restored operations with their documents, which `open` has pinned.
    pub fn restore_ops(&mut self, ctx: &mut Ctx) {
        let orders: Vec<u64> = self.ops.keys().copied().collect();
        for order in orders {
            let Some(mut op) = self.remove(order) else { continue };
            self.stand_again(ctx, &mut op);
            self.insert(op);
        }
    }

    /// Connects a restored operation with its documents.
    pub fn stand_again(&self, ctx: &Ctx, op: &mut PendingOp) {
        op.keys = op.state.touches.iter().filter_map(|(class, pk)| ctx.memory.doc_key(class, pk)).collect();
        op.changes =
            crate::journal::changes_of(ctx.memory.schema(), &op.state.name, &op.state.args).unwrap_or(None);
        let seen_on = op.state.seen_on.iter();
        op.seen_on =
            seen_on.filter_map(|(class, pk, era)| Some((ctx.memory.doc_key(class, pk)?, *era))).collect();
        if op.state.accepted.is_some() {
            op.awaits = Some(op.keys.iter().flat_map(|key| ctx.memory.defs_of(key)).collect());
        }
    }

    /// Everything that is due to the journal, as one part of the next batch. `done` are requests of the inbox
    /// that were fulfilled without a record, and `inbox` has those that became operations.
    pub fn journal_changes(
        &mut self,
        done: Vec<RecordKey>,
        inbox: &SortedMap<OpId, RecordKey>,
    ) -> Option<JournalInFlight> {
        let journal = &mut self.journal;
        if journal.is_clean() && done.is_empty() {
            return None;
        }
        let mut changes =
            JournalChanges { strays: std::mem::take(&mut journal.strays), ..JournalChanges::default() };
        let mut deletes = std::mem::take(&mut journal.dropped);
        let swept = std::mem::take(&mut journal.swept);
        let mut next = self.mark.next_record;
        let mut written = Vec::new();
        for order in std::mem::take(&mut journal.dirty) {
            let Some(op) = self.ops.get(&order) else { continue };
            let (op_id, seq, name) = (op.state.id.clone(), op.state.seq, self.mark.name);
            written.push((order, op_id.clone(), next));
            let (op_state, actions) = (Some(op.state.clone()), op.actions.clone());
            let record =
                JournalRecord { number: next, op: op_state, seq, actions, ..JournalRecord::of(op_id, name) };
            deletes.extend(op.record);
            changes.records.push(record);
            next += 1;
        }
        let mut ended = std::mem::take(&mut journal.ended);
        for (old, record) in &mut ended {
            record.number = next;
            deletes.extend(*old);
            changes.records.push(record.clone());
            next += 1;
        }
        self.mark.next_record = next;
        let replaced = deletes.iter().filter(|number| journal.records.contains_key(number)).count();
        self.mark.records = (journal.records.len() + changes.records.len() - replaced) as u64;
        self.mark.pending = self.ops.len() as u64;
        changes.mark = self.mark;
        changes.deletes = deletes.into_iter().collect();
        changes.taken = written.iter().filter_map(|(_, id, _)| inbox.get(id)).copied().collect();
        changes.taken.extend(&done);
        Some(JournalInFlight { changes, written, ended, swept, done })
    }

    /// The journal's part of a batch is on the device (in incognito, in memory): its operations are saved
    /// (R10). Returns the operations that have a record now.
    pub fn journal_committed(&mut self, ctx: &mut Ctx, in_flight: JournalInFlight) -> Vec<OpId> {
        let JournalInFlight { changes, written, swept, .. } = in_flight;
        self.journal.given_up.retain(|op| changes.deletes.binary_search(&op.record).is_err());
        for record in changes.records {
            self.journal.index(&record);
            if ctx.layout.is_none() {
                self.journal.in_memory.insert(record.number, record);
            }
        }
        for number in &changes.deletes {
            self.forget_record(*number);
            self.journal.in_memory.remove(number);
        }
        let mut recorded = Vec::new();
        for (order, id, number) in written {
            let Some(op) = self.ops.get_mut(&order) else {
                // The operation ended, or was discarded, while its record was being written.
                self.journal.dropped.insert(number);
                continue;
            };
            recorded.push(id.clone());
            // If the id differs, another operation has taken the place of the one written. The old record
            // stays until the new operation's own record is written.
            op.record = Some(number);
            if op.state.id != id {
                continue;
            }
            if !std::mem::replace(&mut op.saved, true) {
                ctx.effects.push(Effect::Saved { id: op.state.id.clone() });
            }
        }
        let told = swept.into_iter().map(|(ticket, swept)| Effect::Swept { ticket, swept: Ok(swept) });
        ctx.effects.extend(told);
        recorded
    }

    /// Nothing of the batch was written: all of it is due again. Returns the fulfilled requests of the inbox.
    pub fn journal_failed(&mut self, in_flight: JournalInFlight) -> Vec<RecordKey> {
        let JournalInFlight { changes, written, ended, swept, done } = in_flight;
        let journal = &mut self.journal;
        journal.swept.extend(swept);
        journal.strays = changes.strays;
        // When these operations are written again, that batch deletes the records that they replace.
        let mut again: SortedSet<u64> = order::set_of(ended.iter().filter_map(|(old, _)| *old));
        for (order, id, _) in &written {
            if let Some(op) = self.ops.get(order) {
                again.extend(op.record);
                if op.state.id == *id {
                    journal.dirty.insert(*order);
                }
            }
        }
        journal.dropped.extend(changes.deletes.into_iter().filter(|number| !again.contains(number)));
        journal.ended.extend(ended);
        done
    }

    /// Sweeps the device's journal: reports the actions that the rule removes, and removes them if `apply` is
    /// set. Actions that the server has not accepted stay, regardless of their type.
    pub fn sweep(&mut self, ctx: &mut Ctx, ticket: u64, retention: Retention, apply: bool) {
        match retention.check() {
            Ok(()) => self.journal.sweeps.push_back((ticket, retention, apply)),
            Err(error) => ctx.effects.push(Effect::Swept { ticket, swept: Err(error) }),
        }
    }
}
