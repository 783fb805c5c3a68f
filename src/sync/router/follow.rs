//! The follower: replays the leader's log onto memory and pending operations. If the log has no continuation
//! from here, it reloads the whole state.

use super::dispatch::{Router, collections_lost};
use crate::error::Result;
use crate::journal::{JournalRecord, OpId, Outcome, PendingOp};
use crate::memory::DocKey;
use crate::model::{SortedMap, SortedSet, order};
use crate::storage::{JournalAtRest, JournalMark, LogRecord, Opened};
use crate::store::RecordKey;
use crate::sync::context::Ctx;
use crate::sync::facts::JournalPurpose;
use crate::sync::message::Effect;
use crate::sync::outbox::{self, NoApplication, Outbox, connect, restored, unpin};
use crate::sync::role::{
    Follower, Poll, Polled, Provisional, Role, Tabs, result_of, tell_news, tell_outcome, tell_replaced,
};

/// How a finished operation ended, and the ids of the operations that it had replaced.
type Ended = (Option<Outcome>, Vec<OpId>);

/// The parts that operations of other sessions change.
struct Replay<'a> {
    ctx: &'a mut Ctx,
    outbox: &'a mut Outbox,
    tabs: &'a mut Tabs,
    follower: &'a mut Follower,
}

impl Router {
    /// The records of a poll were read: replays them, or requests a reload if they do not continue from here.
    pub fn polled(&mut self, number: u64, found: Result<Vec<Option<Vec<u8>>>>) -> Result<()> {
        let Router { ctx, tabs, role: Role::Follower(follower), .. } = self else { return Ok(()) };
        if follower.poll != Poll::Log(number) {
            return Ok(());
        }
        let Some(layout) = &ctx.layout else { return Ok(()) };
        let tail = match found {
            Ok(found) => layout.read_tail(&found),
            Err(error) => {
                self.device.failed(ctx, &error);
                follower.poll_failed(ctx, error);
                return Ok(());
            }
        };
        match follower.polled(ctx, tabs, tail) {
            Polled::Same => self.end_look(false),
            Polled::Reload => Ok(()),
            Polled::On(records, numbers) if numbers.is_empty() => self.follow_on(records, Vec::new()),
            Polled::On(records, numbers) => {
                self.store_reads().start(numbers, JournalPurpose::Follow(number, records));
                Ok(())
            }
        }
    }

    /// The journal records that a poll of the log referred to have been read.
    pub fn followed(
        &mut self,
        poll: u64,
        records: Vec<LogRecord>,
        numbers: &[u64],
        found: Result<Vec<Option<Vec<u8>>>>,
    ) -> Result<()> {
        let Router { ctx, tabs, role: Role::Follower(follower), .. } = self else { return Ok(()) };
        if follower.poll != Poll::Log(poll) {
            return Ok(());
        }
        let found = match found {
            Ok(found) => found,
            Err(error) => {
                self.device.failed(ctx, &error);
                follower.poll_failed(ctx, error);
                return Ok(());
            }
        };
        let Some(layout) = &ctx.layout else { return Ok(()) };
        let opened =
            numbers.iter().zip(found).map(|(number, sealed)| layout.open_journal(*number, &sealed?).ok());
        match opened.collect::<Option<Vec<JournalRecord>>>() {
            Some(journal) => return self.follow_on(records, journal),
            // The leader has rewritten a record since.
            None => follower.request_reload(ctx, tabs),
        }
        Ok(())
    }

    /// Advances to the state after these records.
    fn follow_on(&mut self, records: Vec<LogRecord>, journal: Vec<JournalRecord>) -> Result<()> {
        let Router { ctx, outbox, tabs, role: Role::Follower(follower), .. } = self else { return Ok(()) };
        follower.has_followed = true;
        let pinned = pin_of(ctx, &journal);
        let mut deletes: Vec<u64> = Vec::new();
        for found in records {
            let record = &found.record;
            deletes.extend(record.along.iter().flat_map(|along| &along.deletes));
            for (def, is_there) in record.collections() {
                follower.note_written(def, is_there);
            }
            let defs: Vec<_> = record.collections().map(|(def, _)| def.clone()).collect();
            if let Some(layout) = &mut ctx.layout {
                layout.follow(&mut ctx.memory, found);
            }
            for def in &defs {
                outbox::show_again(ctx, &mut outbox.table, def);
            }
        }
        for def in &follower.unwanted {
            ctx.memory.unsubscribe(def);
        }
        follower.is_reload_due |= ctx.memory.end_following();
        Replay { ctx, outbox, tabs, follower }.follow_journal(journal, &deletes);
        for key in &pinned {
            self.ctx.memory.unpin(key);
        }
        self.end_look(true)
    }
}

impl Replay<'_> {
    /// Replays the journal records that the leader has written and deleted.
    fn follow_journal(&mut self, journal: Vec<JournalRecord>, deletes: &[u64]) {
        for record in journal {
            self.outbox.journal.index(&record);
            let (id, outcome) = (record.op_id.clone(), record.outcome.clone());
            let replaces = record.replaces.clone();
            if record.lost {
                self.outbox.lost_by_server.push(id);
                continue;
            }
            let old = self.take_out(&id);
            match restored(record) {
                Some(_) if self.tabs.decided.contains(&id) => {}
                Some(mut op) => {
                    connect(self.ctx, &mut op);
                    op.keys.iter().for_each(|key| self.ctx.memory.pins.add(key));
                    let replaced = self.replaced(&op.state.replaces, &id);
                    for op in &replaced {
                        unpin(self.ctx, op);
                    }
                    tell_news(self.ctx, old.as_ref(), &op);
                    // Another session has amended the same refused operation: the amendment made here gives
                    // up its place.
                    match self.outbox.table.remove(op.state.order) {
                        // An earlier state of the same document.
                        Some(own)
                            if own.is_local()
                                && !self.follower.provisional.contains_key(&own.state.issued.id) =>
                        {
                            unpin(self.ctx, &own);
                        }
                        Some(own) => self.keep_provisional(own, None),
                        None => {}
                    }
                    self.outbox.table.insert(op);
                }
                None => {
                    let replaced = self.replaced(&replaces, &id);
                    tell_outcome(self.ctx, &id, old.as_ref().or(replaced.last()), outcome);
                    for op in &replaced {
                        unpin(self.ctx, op);
                    }
                }
            }
            if let Some(op) = &old {
                unpin(self.ctx, op);
            }
        }
        if deletes.is_empty() {
            return;
        }
        let deletes: SortedSet<u64> = order::set_of(deletes.iter().copied());
        self.outbox.journal.records.retain(|number, _| !deletes.contains(number));
        // An amendment made here has the record number of the operation that it amends. If that record is
        // deleted, the amendment is not over.
        let is_own = |op: &PendingOp| self.follower.provisional.contains_key(&op.state.issued.id);
        let is_gone =
            |op: &&PendingOp| !is_own(op) && op.record.is_some_and(|number| deletes.contains(&number));
        let gone: Vec<OpId> =
            self.outbox.table.iter().filter(is_gone).map(|op| op.state.issued.id.clone()).collect();
        for id in gone {
            let op = self.take_out(&id);
            tell_outcome(self.ctx, &id, op.as_ref(), None);
            if let Some(op) = &op {
                unpin(self.ctx, op);
            }
        }
    }

    /// Removes the operations that another one replaces. Their documents stay pinned.
    fn replaced(&mut self, replaces: &[OpId], by: &OpId) -> Vec<PendingOp> {
        let replaced: Vec<PendingOp> = replaces.iter().filter_map(|id| self.take_out(id)).collect();
        for op in replaced.iter().filter(|op| op.state.accepted.is_none()) {
            tell_replaced(self.ctx, op, by);
        }
        replaced
    }

    /// Removes an operation. Its documents stay pinned.
    fn take_out(&mut self, id: &str) -> Option<PendingOp> {
        self.follower.provisional.remove(id);
        let order = self.outbox.table.get(id)?.state.order;
        self.outbox.table.remove(order)
    }
}

impl Router {
    /// The poll has ended: this session now knows the state in the store.
    fn end_look(&mut self, is_new: bool) -> Result<()> {
        let Router { ctx, tabs, role: Role::Follower(follower), .. } = self else { return Ok(()) };
        follower.poll = Poll::None;
        if tabs.next.is_some() && follower.must_read_to_lead(tabs) {
            follower.begin_to_lead(ctx, tabs);
            return Ok(());
        }
        if tabs.next.is_some() && !follower.is_handing_in() {
            return self.promote();
        }
        let polls_again = std::mem::take(&mut follower.polls_again) || is_new;
        self.store_reads().resume_readings(is_new);
        if polls_again {
            self.poll();
        }
        Ok(())
    }

    /// Polls the log, or notes that it must be polled again.
    pub fn poll(&mut self) {
        if let Role::Follower(follower) = &mut self.role {
            follower.poll(&mut self.ctx, &mut self.tabs);
        }
    }

    /// The whole state was read.
    pub fn reloaded(&mut self, number: u64, opened: Result<Box<Opened>>) -> Result<()> {
        let Router { ctx, tabs, role: Role::Follower(follower), .. } = self else { return Ok(()) };
        if follower.poll != Poll::State(number) {
            return Ok(());
        }
        follower.poll = Poll::None;
        let opened = match opened {
            Ok(opened) => opened,
            Err(error) => {
                self.device.failed(ctx, &error);
                follower.poll_failed(ctx, error);
                return Ok(());
            }
        };
        // Another session has begun a later generation meanwhile.
        let given_up = tabs.next.take_if(|next| next.generation < opened.generation);
        if given_up.is_some_and(|next| !next.is_fenced) {
            // The device takes generations again.
            self.device.served();
        }
        if tabs.next.is_none() && opened.damage.any() {
            // The leader repairs the damage. Until then, this session has nothing better than the state that
            // it shows.
            follower.try_later(ctx);
            return Ok(());
        }
        self.adopt(*opened);
        if self.tabs.next.is_some() && !self.role.is_handing_in() {
            return self.promote();
        }
        self.end_look(true)
    }

    /// Takes over a state that was reloaded.
    fn adopt(&mut self, opened: Opened) {
        let Router { ctx, outbox, tabs, role: Role::Follower(follower), .. } = self else { return };
        let Opened { memory, layout, journal, damage, inbox, .. } = opened;
        follower.has_followed = true;
        follower.is_reload_due = false;
        self.device.reloaded(&damage);
        follower.keep_open(&memory, &layout, &inbox);
        let inbox: SortedSet<RecordKey> = order::set_of(inbox.into_iter().map(|(key, _)| key));
        pin_of(ctx, &journal.records);
        self.pull.set_lost(collections_lost(&memory, &damage));
        ctx.memory.adopt(memory, &follower.wanted, &follower.unwanted);
        if tabs.next.is_none() {
            // A follower writes nothing.
            ctx.memory.dirty.take();
        }
        self.reads.forget_found(ctx);
        let summary = layout.journal_summary();
        if let Some(own) = &mut ctx.layout {
            own.go_on_from(layout);
        }
        Replay { ctx, outbox, tabs, follower }.adopt_operations(journal, summary, &inbox);
    }
}

impl Replay<'_> {
    /// Takes over the operations in storage, and keeps those of this session that the leader has not taken in
    /// yet.
    fn adopt_operations(
        &mut self,
        journal: JournalAtRest,
        summary: JournalMark,
        inbox: &SortedSet<RecordKey>,
    ) {
        let finished = journal.records.iter().filter(|record| record.op.is_none() && !record.lost);
        let ended: SortedMap<OpId, Ended> = finished
            .map(|record| (record.op_id.clone(), (record.outcome.clone(), record.replaces.clone())))
            .collect();
        let application = std::mem::replace(&mut self.outbox.application, Box::new(NoApplication));
        let fresh = Outbox::new(journal, summary, application);
        let old = std::mem::replace(self.outbox, fresh);
        self.outbox.restore_ops(self.ctx);
        self.outbox.follow();
        for (id, number) in old.journal.ids {
            self.outbox.journal.ids.entry(id).or_insert(number);
        }
        let shown: Vec<DocKey> = old.table.keys().chain(self.outbox.table.keys()).cloned().collect();
        self.outbox.table.unshown.note_all(shown);
        self.tabs.decided.retain(|id| self.outbox.table.get(id).is_some());
        let mut orders: SortedMap<OpId, u64> = SortedMap::new();
        // A session that is about to lead carries out these amendments and discards itself.
        let decided = if self.tabs.next.is_none() { self.tabs.decided.clone() } else { SortedSet::new() };
        let mut untold = std::mem::take(&mut self.tabs.untold);
        untold.retain(|(id, _)| self.outbox.table.get(id).is_none());
        for id in decided {
            let order = self.outbox.table.get(&id).map(|op| op.state.order);
            if let Some(op) = order.and_then(|order| self.outbox.table.remove(order)) {
                orders.insert(id, op.state.order);
                unpin(self.ctx, &op);
            }
        }
        let of_ops = self.outbox.table.iter().map(|op| (&op.state.issued.id, &op.state.replaces));
        let by = of_ops.chain(ended.iter().map(|(id, (_, replaces))| (id, replaces)));
        let by =
            by.flat_map(|(id, replaces)| replaces.iter().map(move |replaced| (replaced.clone(), id.clone())));
        let replaced: SortedMap<OpId, OpId> = by.collect();
        // Over on the device, by the decision reported here or by that of the next leader. The device knows by which.
        for (id, report) in untold {
            self.ctx.effects.push(match (replaced.get(&id).cloned(), ended.get(&id)) {
                (Some(by), _) => Effect::Amended { id, by },
                (None, Some((Some(outcome), _))) => {
                    let result = result_of(outcome.clone());
                    Effect::Accepted { id, result }
                }
                _ => report,
            });
        }
        let met: SortedSet<OpId> = order::set_of(old.table.iter().map(|op| op.state.issued.id.clone()));
        for op in self.outbox.table.iter().filter(|op| !met.contains(&op.state.issued.id)) {
            let replaced = op.state.replaces.iter().filter_map(|id| old.table.get(id));
            for replaced in replaced.filter(|replaced| replaced.state.accepted.is_none()) {
                tell_replaced(self.ctx, replaced, &op.state.issued.id);
            }
            tell_news(self.ctx, None, op);
        }
        // Only those that the leader has not taken in yet stay provisional.
        let mut provisional = std::mem::take(&mut self.follower.provisional);
        for op in old.table {
            let id = op.state.issued.id.clone();
            if let Some(new) = self.outbox.table.get(&id) {
                tell_news(self.ctx, Some(&op), new);
                unpin(self.ctx, &op);
                continue;
            }
            if orders.contains_key(&id) {
                // The application itself has decided about it.
                unpin(self.ctx, &op);
                continue;
            }
            if let Some(by) = replaced.get(&id) {
                let is_open = op.state.accepted.is_none();
                if let Some((outcome, _)) = ended.get(by).filter(|_| is_open) {
                    self.ctx.effects.push(Effect::Amended { id, by: by.clone() });
                    tell_outcome(self.ctx, by, Some(&op), outcome.clone());
                } else if is_open && op.is_local() && met.contains(by) {
                    // Both are this session's.
                    tell_replaced(self.ctx, &op, by);
                }
                unpin(self.ctx, &op);
                continue;
            }
            let own = provisional.remove(&id).filter(|_| !ended.contains_key(&id));
            let is_due = |own: &Provisional| !op.saved || own.key.is_some_and(|key| inbox.contains(&key));
            let Some(own) = own.filter(is_due) else {
                let outcome = ended.get(&id).and_then(|(outcome, _)| outcome.clone());
                tell_outcome(self.ctx, &id, Some(&op), outcome);
                unpin(self.ctx, &op);
                continue;
            };
            let amended = own.amends.as_ref().and_then(|id| orders.get(id)).copied();
            self.follower.provisional.insert(id, own);
            self.keep_provisional(op, amended);
        }
    }

    /// Keeps an operation of this session: at the place of the one that it amends, or else after all others.
    fn keep_provisional(&mut self, mut op: PendingOp, order: Option<u64>) {
        op.state.order = order.unwrap_or_else(|| self.outbox.table.places.next());
        op.record = None;
        op.seq = None;
        self.outbox.table.insert(op);
    }
}

/// Pins the documents of operations that are about to be restored, so that they stay in memory.
fn pin_of(ctx: &mut Ctx, journal: &[JournalRecord]) -> Vec<DocKey> {
    let touched = journal.iter().filter_map(|record| record.op.as_ref()).flat_map(|op| &op.issued.touches);
    let keys: Vec<DocKey> = touched.filter_map(|(class, pk)| ctx.memory.doc_key(class, pk)).collect();
    for key in &keys {
        ctx.memory.pins.add(key);
    }
    keys
}
