//! The journal of operations: the records in storage, and those of the batch in flight.

use std::collections::VecDeque;
use std::sync::Arc;

use super::due::{Due, Taken};
use super::parts::Outbox;
use super::table::issue::{bytes_of, connect, unpin};
use crate::journal::{ActionType, JournalRecord, OpId, Outcome, PendingOp, Retention};
use crate::model::{Name, Pk, SortedMap, SortedSet, order};
use crate::storage::{JournalAtRest, JournalChanges};
use crate::store::RecordKey;
use crate::sync::context::Ctx;
use crate::sync::facts::JournalInFlight;
use crate::sync::message::{Effect, Swept};

/// The facts about an action that are known without reading its record.
#[derive(Clone, Debug)]
pub struct ActionIndex {
    pub rowid: i64,
    pub class: Name,
    pub pk: Pk,
    pub kind: ActionType,
    pub at: u64,
    pub accepted: bool,
}

/// A journal record on the device.
#[derive(Clone, Debug, Default)]
pub struct RecordIndex {
    /// Whether its operation is still pending.
    pub pending: bool,
    /// Whether it says that the server has lost the operation: a sweep never removes such a record entirely.
    pub lost: bool,
    /// Its operation, and the number under which the server accepted it.
    op: (Arc<str>, Option<u64>),
    /// The operations that it had replaced.
    replaces: Vec<Arc<str>>,
    pub actions: Vec<ActionIndex>,
}

/// The ticket of a sweep, its rule, and whether it is to be carried out.
pub type WaitingSweep = (u64, Retention, bool);

/// The journal's records, and the changes to them that are due.
#[derive(Default)]
pub struct Journal {
    pub records: SortedMap<u64, RecordIndex>,
    /// Waiting sweeps. Each runs on the journal that the previous one left on the device.
    pub(super) sweeps: VecDeque<WaitingSweep>,
    pub(super) is_sweeping: bool,
    /// Sweeps by ticket, reported once their actions are gone from the device.
    pub(super) swept: Vec<(u64, Swept)>,
    strays: Vec<RecordKey>,
    /// The operations that have a record, with the number of the newest one: no operation is taken in twice.
    pub ids: SortedMap<Arc<str>, u64>,
    /// In incognito, the records themselves.
    pub(super) in_memory: SortedMap<u64, JournalRecord>,
}

/// The pending operation in a journal record; `None` if the operation is over.
pub fn restored(record: JournalRecord) -> Option<PendingOp> {
    let mut op = PendingOp::new(record.op?, Vec::new());
    op.actions = record.actions;
    op.saved = true;
    op.prepared = true;
    // Only those of local documents are accepted without a number.
    op.local = (op.state.accepted.is_some() && op.state.seq.is_none()).then(|| bytes_of(&op));
    op.has_other_numbers = op.is_waiting();
    op.record = Some(record.number);
    Some(op)
}

impl Journal {
    /// Whether no stray record remains to be deleted.
    pub fn is_tidy(&self) -> bool {
        self.strays.is_empty()
    }

    /// The highest number of an action on the device.
    pub fn last_rowid(&self) -> i64 {
        self.records.values().flat_map(|record| &record.actions).map(|action| action.rowid).max().unwrap_or(0)
    }

    /// Notes the facts about a record that is in storage.
    pub fn index(&mut self, record: &JournalRecord) {
        let op_id: Arc<str> = record.op_id.as_str().into();
        self.ids.insert(op_id.clone(), record.number);
        let replaces: Vec<Arc<str>> = record.replaces.iter().map(|id| id.as_str().into()).collect();
        self.ids.extend(replaces.iter().map(|id| (id.clone(), record.number)));
        let actions = record.actions.iter().map(|action| ActionIndex {
            rowid: action.rowid,
            class: action.class.clone(),
            pk: action.pk.clone(),
            kind: action.kind,
            at: action.at,
            accepted: action.commit.is_some(),
        });
        let (pending, lost) = (record.op.is_some(), record.lost);
        let index =
            RecordIndex { pending, lost, op: (op_id, record.seq), replaces, actions: actions.collect() };
        self.records.insert(record.number, index);
    }
}

impl Outbox {
    /// Drops everything that is due: another session writes from now on. Returns the waiting sweeps, and the
    /// tickets of those that were not finished.
    pub fn let_go(&mut self) -> (VecDeque<WaitingSweep>, Vec<u64>) {
        self.table.due = Due::default();
        self.journal.strays.clear();
        let swept = std::mem::take(&mut self.journal.swept);
        (std::mem::take(&mut self.journal.sweeps), swept.into_iter().map(|(ticket, _)| ticket).collect())
    }

    /// The server has lost an operation that it had accepted. A record keeps this across openings.
    pub fn lose(&mut self, id: OpId) {
        let record = JournalRecord { lost: true, ..JournalRecord::of(id.clone(), self.table.summary.name) };
        self.table.due.end(None, record);
        self.lost_by_server.push(id);
    }

    /// The device has lost the whole journal: pending operations must be written again. The history of
    /// operations that are over is lost.
    pub fn unsettle(&mut self) {
        self.journal.records.clear();
        self.journal.strays.clear();
        self.table.iter_mut().for_each(|op| op.record = None);
        self.table.due.start_over(self.table.iter().map(|op| op.state.order).collect());
        for id in std::mem::take(&mut self.lost_by_server) {
            self.lose(id);
        }
    }

    /// A record is gone from the device. An operation without another record is forgotten, as it would be
    /// after an opening. Otherwise a session that stays open for long would grow with everything that it ever
    /// wrote.
    fn forget_record(&mut self, number: u64) {
        let Some(RecordIndex { op: (op_id, seq), replaces, .. }) = self.journal.records.remove(&number)
        else {
            return;
        };
        for id in replaces {
            if self.journal.ids.get(&id) == Some(&number) {
                self.journal.ids.remove(&id);
            }
        }
        if self.journal.ids.get(&op_id) == Some(&number) {
            self.journal.ids.remove(&op_id);
            self.sender.accepted.remove(&(seq.unwrap_or(0), String::from(&*op_id)));
        }
    }

    /// Takes in the journal from storage.
    pub fn restore(&mut self, at_rest: JournalAtRest) {
        self.journal.strays = at_rest.strays;
        let lost = at_rest.records.iter().filter(|record| record.lost);
        self.lost_by_server = lost.map(|record| record.op_id.clone()).collect();
        let lost: SortedSet<OpId> = order::set_of(self.lost_by_server.iter().cloned());
        for record in at_rest.records {
            let last = record.actions.iter().map(|action| action.rowid).max().unwrap_or(0);
            self.overlay.last_rowid = self.overlay.last_rowid.max(last);
            self.table.summary.next_record = self.table.summary.next_record.max(record.number + 1);
            self.journal.index(&record);
            let is_counted = record.name == self.table.summary.name && !lost.contains(&record.op_id);
            if let Some(seq) = record.seq.filter(|seq| *seq > 0 && is_counted) {
                self.sender.accepted.insert((seq, record.op_id.clone()));
            }
            if let Some(op) = restored(record) {
                self.table.insert(op);
            }
        }
        // An earlier opening may have sent every waiting operation, under numbers up to this one.
        self.sender.highest_sent = self.table.summary.last_seq + self.table.pending();
    }
}

impl Outbox {
    /// Connects the restored operations with their documents, which `open` has pinned.
    pub fn restore_ops(&mut self, ctx: &mut Ctx) {
        let orders: Vec<u64> = self.table.iter().map(|op| op.state.order).collect();
        for order in orders {
            let Some(mut op) = self.table.remove(order) else { continue };
            connect(ctx, &mut op);
            self.table.insert(op);
        }
    }

    /// Everything that is due to the journal, as one part of the next batch. `done` are requests of the inbox
    /// that were fulfilled without a record, and `inbox` has those that became operations.
    pub fn journal_changes(
        &mut self,
        done: Vec<RecordKey>,
        inbox: &SortedMap<OpId, RecordKey>,
    ) -> Option<JournalInFlight> {
        if self.is_clean() && done.is_empty() {
            return None;
        }
        let journal = &mut self.journal;
        let due = self.table.due.take();
        let mut changes =
            JournalChanges { strays: std::mem::take(&mut journal.strays), ..JournalChanges::default() };
        let mut deletes = due.dropped;
        let swept = std::mem::take(&mut journal.swept);
        let mut next = self.table.summary.next_record;
        let (mut written, mut ends) = (Vec::new(), 0);
        for order in due.dirty {
            let Some(op) = self.table.at(order) else { continue };
            let (op_id, seq, name) = (op.state.issued.id.clone(), op.state.seq, self.table.summary.name);
            written.push((order, op_id.clone(), next));
            let mut record = JournalRecord {
                number: next,
                seq,
                actions: op.actions.clone(),
                ..JournalRecord::of(op_id, name)
            };
            let mut state = op.state.clone();
            if op.is_local() {
                state.accepted = Some(0);
            }
            if op.is_local_end() {
                ends += 1;
                record.outcome = Some(Outcome::Accepted { v: 0, value: None });
                record.replaces = state.replaces;
            } else {
                record.op = Some(state);
            }
            deletes.extend(op.record);
            changes.records.push(record);
            next += 1;
        }
        let mut ended = due.ended;
        for (old, record) in &mut ended {
            record.number = next;
            deletes.extend(*old);
            changes.records.push(record.clone());
            next += 1;
        }
        self.table.summary.next_record = next;
        let replaced = deletes.iter().filter(|number| journal.records.contains_key(number)).count();
        self.table.summary.records = (journal.records.len() + changes.records.len() - replaced) as u64;
        self.table.summary.pending = self.table.iter().count() as u64 - ends;
        changes.summary = self.table.summary;
        changes.deletes = deletes.into_iter().collect();
        let replaced = |(order, ..): &(u64, OpId, u64)| self.table[*order].state.replaces.iter();
        let ids = written.iter().map(|(_, id, _)| id).chain(written.iter().flat_map(replaced));
        changes.taken = ids.filter_map(|id| inbox.get(id)).copied().collect();
        changes.taken.extend(&done);
        Some(JournalInFlight { changes, written, ended, swept, untold: Vec::new(), done })
    }

    /// The journal's part of a batch is on the device (in incognito, in memory): its operations are saved
    /// (R10). Returns the operations that have a record now.
    pub fn journal_committed(&mut self, ctx: &mut Ctx, in_flight: JournalInFlight) -> Vec<OpId> {
        let JournalInFlight { changes, written, swept, untold, .. } = in_flight;
        ctx.effects.extend(untold.into_iter().map(|(_, report)| report));
        self.table.due.deleted(&changes.deletes);
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
            let Some(op) = self.table.op_mut(order) else {
                // The operation ended, or was discarded, while its record was being written.
                self.table.due.delete(number);
                continue;
            };
            recorded.push(id.clone());
            // If the id differs, another operation has taken the place of the one written. The old record
            // stays until the new operation's own record is written.
            op.record = Some(number);
            if op.state.issued.id != id {
                continue;
            }
            recorded.extend(op.state.replaces.iter().cloned());
            let is_new = !std::mem::replace(&mut op.saved, true);
            op.whole = None;
            for own in std::mem::take(&mut op.unsaved) {
                let id = own.state.issued.id;
                ctx.effects.push(Effect::Saved { id: id.clone() });
                ctx.effects.push(Effect::Accepted { id, result: Ok((0, None)) });
            }
            if is_new {
                ctx.effects.push(Effect::Saved { id: id.clone() });
            }
            if op.is_local() {
                op.state.accepted = Some(0);
                let is_end = op.is_local_end();
                if is_new {
                    ctx.effects.push(Effect::Accepted { id, result: Ok((0, None)) });
                }
                if is_end && let Some(op) = self.table.remove(order) {
                    unpin(ctx, &op);
                }
            }
        }
        let effects = swept.into_iter().map(|(ticket, swept)| Effect::Swept { ticket, swept: Ok(swept) });
        ctx.effects.extend(effects);
        recorded
    }

    /// Nothing of the batch was written: all of it is due again. Returns the fulfilled requests of the inbox.
    pub fn journal_failed(&mut self, in_flight: JournalInFlight) -> Vec<RecordKey> {
        let JournalInFlight { changes, written, ended, swept, done, .. } = in_flight;
        self.journal.swept.extend(swept);
        self.journal.strays = changes.strays;
        // When these operations are written again, that batch deletes the records that they replace.
        let mut dirty = SortedSet::new();
        let mut again: SortedSet<u64> = order::set_of(ended.iter().filter_map(|(old, _)| *old));
        for (order, id, _) in &written {
            if let Some(op) = self.table.at(*order) {
                again.extend(op.record);
                if op.state.issued.id == *id {
                    dirty.insert(*order);
                }
            }
        }
        let dropped = order::set_of(changes.deletes.into_iter().filter(|number| !again.contains(number)));
        self.table.due.put_back(Taken { dirty, ended, dropped });
        done
    }
}
