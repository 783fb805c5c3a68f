//! The follower: replays the leader's log onto memory and pending operations. If the log has no continuation
//! from here, it reloads the whole state.

use super::dispatch::{Router, collections_lost};
use crate::error::{Error, Result};
use crate::journal::{JournalRecord, OpId, Outcome, PendingOp, Wanted};
use crate::memory::DocKey;
use crate::model::{Def, SortedMap, SortedSet, order};
use crate::storage::{LogRecord, Opened, Tail};
use crate::store::RecordKey;
use crate::sync::context::Ctx;
use crate::sync::device::Device;
use crate::sync::facts::JournalPurpose;
use crate::sync::message::Effect;
use crate::sync::outbox;
use crate::sync::outbox::restored;
use crate::sync::outbox::{Outbox, connect, unpin};
use crate::sync::role::{ORDER_FLOOR, Provisional, Tabs, tell_news, tell_outcome, tell_replaced};

/// Delay after the device could not be read, or its state was incomplete.
const LOOK_RETRY_MS: u64 = 1_000;

/// How a finished operation ended, and the ids of the operations that it had replaced.
type Ended = (Option<Outcome>, Vec<OpId>);

/// The parts that operations of other sessions change.
pub struct Replay<'a> {
    pub(super) ctx: &'a mut Ctx,
    pub(super) outbox: &'a mut Outbox,
    pub(super) tabs: &'a mut Tabs,
}

impl Router {
    /// The parts that operations of other sessions change.
    pub fn replay(&mut self) -> Replay<'_> {
        let Router { ctx, outbox, tabs, .. } = self;
        Replay { ctx, outbox, tabs }
    }

    /// The records of a poll were read: replays them, or requests a reload if they do not continue from here.
    pub fn looked(&mut self, number: u64, found: Result<Vec<Option<Vec<u8>>>>) -> Result<()> {
        if !self.ctx.is_following() || !self.tabs.awaits_look(number) {
            return Ok(());
        }
        let Some(layout) = &self.ctx.layout else { return Ok(()) };
        let tail = match found {
            Ok(found) => layout.looked(&found),
            Err(error) => {
                look_failed(&mut self.ctx, &mut self.tabs, &mut self.device, error);
                return Ok(());
            }
        };
        match tail {
            Tail::Same => return self.end_look(false),
            Tail::Reload => self.tabs.request_reload(&mut self.ctx),
            Tail::On(records) => {
                let along = || records.iter().filter_map(|found| found.record.along.as_ref());
                let deleted: SortedSet<u64> =
                    order::set_of(along().flat_map(|along| &along.deletes).copied());
                let put = along().flat_map(|along| &along.puts);
                let (gone, numbers): (Vec<u64>, Vec<u64>) = put.partition(|number| deleted.contains(*number));
                if !gone.is_empty() && !self.tabs.provisional.is_empty() {
                    // One of this session's operations may have been added and removed within these records.
                    // Only the inbox shows whether it was.
                    self.tabs.request_reload(&mut self.ctx);
                    return Ok(());
                }
                let keys: Vec<RecordKey> = numbers.iter().map(|number| layout.journal_key(*number)).collect();
                if keys.is_empty() {
                    return self.follow_on(records, Vec::new());
                }
                let ticket = self.reads.start_journal(numbers, JournalPurpose::Follow(number, records));
                self.ctx.effects.push(Effect::ReadJournal { ticket, keys });
            }
        }
        Ok(())
    }

    /// The journal records that a poll of the log referred to have been read.
    pub fn followed(
        &mut self,
        poll: u64,
        records: Vec<LogRecord>,
        numbers: &[u64],
        found: Result<Vec<Option<Vec<u8>>>>,
    ) -> Result<()> {
        if !self.ctx.is_following() || !self.tabs.awaits_look(poll) {
            return Ok(());
        }
        let found = match found {
            Ok(found) => found,
            Err(error) => {
                look_failed(&mut self.ctx, &mut self.tabs, &mut self.device, error);
                return Ok(());
            }
        };
        let Some(layout) = &self.ctx.layout else { return Ok(()) };
        let opened =
            numbers.iter().zip(found).map(|(number, sealed)| layout.open_journal(*number, &sealed?).ok());
        match opened.collect::<Option<Vec<JournalRecord>>>() {
            Some(journal) => return self.follow_on(records, journal),
            // The leader has rewritten a record since.
            None => self.tabs.request_reload(&mut self.ctx),
        }
        Ok(())
    }

    /// Advances to the state after these records.
    fn follow_on(&mut self, records: Vec<LogRecord>, journal: Vec<JournalRecord>) -> Result<()> {
        self.tabs.has_followed = true;
        let pinned = pin_of(&mut self.ctx, &journal);
        let mut deletes: Vec<u64> = Vec::new();
        for found in records {
            let record = &found.record;
            deletes.extend(record.along.iter().flat_map(|along| &along.deletes));
            for (def, is_there) in record.collections() {
                let tabs = &mut self.tabs;
                let (awaited, other) = if is_there {
                    (&mut tabs.wanted, &tabs.unwanted)
                } else {
                    (&mut tabs.unwanted, &tabs.wanted)
                };
                awaited.remove(def);
                // The leader may have carried out this session's command, and a later one of another session
                // that undid it. Only the inbox shows whether it did.
                tabs.is_reload_due |= other.contains(def);
            }
            let defs: Vec<_> = record.collections().map(|(def, _)| def.clone()).collect();
            if let Some(layout) = &mut self.ctx.layout {
                layout.follow(&mut self.ctx.memory, found);
            }
            for def in &defs {
                outbox::show_again(&mut self.ctx, &mut self.outbox.table, def);
            }
        }
        for def in self.tabs.unwanted.clone() {
            self.ctx.memory.unsubscribe(&def);
        }
        self.tabs.is_reload_due |= self.ctx.memory.end_following();
        self.replay().follow_journal(journal, &deletes);
        unpin_keys(&mut self.ctx, pinned);
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
                Some(_) if self.tabs.dealt.contains(&id) => {}
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
                        Some(own) if own.is_local() && !self.tabs.provisional.contains_key(&own.state.id) => {
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
        let is_own = |op: &PendingOp| self.tabs.provisional.contains_key(&op.state.id);
        let is_gone =
            |op: &&PendingOp| !is_own(op) && op.record.is_some_and(|number| deletes.contains(&number));
        let gone: Vec<OpId> =
            self.outbox.table.ops.values().filter(is_gone).map(|op| op.state.id.clone()).collect();
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
        self.tabs.provisional.remove(id);
        let order = self.outbox.table.by_id.get(id).copied()?;
        self.outbox.table.remove(order)
    }
}

/// The device failed during a poll or a reload: the session tries again later.
fn look_failed(ctx: &mut Ctx, tabs: &mut Tabs, device: &mut Device, error: Error) {
    tabs.is_looking = false;
    tabs.look_at_ms = Some(ctx.clock.mono_ms + LOOK_RETRY_MS);
    device.failed(ctx, &error);
    ctx.errors.report(error);
}

impl Router {
    /// The poll has ended: this session now knows the state in the store.
    fn end_look(&mut self, is_new: bool) -> Result<()> {
        self.tabs.is_looking = false;
        if self.tabs.next.is_some() && self.tabs.must_read_to_lead() {
            self.tabs.begin_to_lead(&mut self.ctx);
            return Ok(());
        }
        if self.tabs.next.is_some() && !self.tabs.is_handing_in() {
            return self.promote();
        }
        self.readings().resume_readings(is_new);
        if std::mem::take(&mut self.tabs.looks_again) || is_new {
            self.tabs.look(&mut self.ctx);
        }
        Ok(())
    }

    /// The whole state was read.
    pub fn reloaded(&mut self, number: u64, opened: Result<Box<Opened>>) -> Result<()> {
        if self.tabs.reading != Some(number) {
            return Ok(());
        }
        self.tabs.reading = None;
        let opened = match opened {
            Ok(opened) => opened,
            Err(error) => {
                look_failed(&mut self.ctx, &mut self.tabs, &mut self.device, error);
                return Ok(());
            }
        };
        // Another session has begun a later generation meanwhile.
        let given_up = self.tabs.next.take_if(|next| next.generation < opened.generation);
        if given_up.is_some_and(|next| !next.is_fenced) {
            // The device takes generations again.
            self.device.served();
        }
        if self.tabs.next.is_none() && opened.damage.any() {
            // The leader repairs the damage. Until then, this session has nothing better than the state that
            // it shows.
            self.tabs.look_at_ms = Some(self.ctx.clock.mono_ms + LOOK_RETRY_MS);
            return Ok(());
        }
        self.adopt(*opened);
        if self.tabs.next.is_some() && !self.tabs.is_handing_in() {
            return self.promote();
        }
        self.end_look(true)
    }

    /// Takes over a state that was reloaded.
    fn adopt(&mut self, opened: Opened) {
        let Opened { memory, layout, journal, damage, inbox, .. } = opened;
        self.tabs.has_followed = true;
        self.tabs.is_reload_due = false;
        self.device.reloaded(&damage);
        let (mut begun, mut dropped): (SortedSet<Def>, SortedSet<Def>) = Default::default();
        let mut note = |wanted: &Wanted| match wanted {
            Wanted::Subscribe(def) => drop(begun.insert(def.clone())),
            Wanted::Unsubscribe(def) => drop(dropped.insert(def.clone())),
            _ => {}
        };
        // Requests are opened only if a subscription waits for the leader.
        if !(self.tabs.wanted.is_empty() && self.tabs.unwanted.is_empty()) {
            let own = self.tabs.queue.iter().chain(self.tabs.sending.iter().flatten());
            own.for_each(|(_, request)| note(&request.wanted));
            let handed_in = inbox.iter().filter_map(|(key, sealed)| layout.open_request(*key, sealed).ok());
            handed_in.for_each(|request| note(&request.wanted));
        }
        let inbox: SortedSet<RecordKey> = order::set_of(inbox.into_iter().map(|(key, _)| key));
        let finished = journal.records.iter().filter(|record| record.op.is_none() && !record.lost);
        let ended: SortedMap<OpId, Ended> = finished
            .map(|record| (record.op_id.clone(), (record.outcome.clone(), record.replaces.clone())))
            .collect();
        // The leader has carried out all other commands.
        self.tabs.wanted.retain(|def| memory.collection(def).is_none() && begun.contains(def));
        self.tabs.unwanted.retain(|def| memory.collection(def).is_some() && dropped.contains(def));
        pin_of(&mut self.ctx, &journal.records);
        self.pull.set_lost(collections_lost(&memory, &damage));
        self.ctx.memory.adopt(memory, &self.tabs.wanted, &self.tabs.unwanted);
        if self.tabs.next.is_none() {
            // A follower writes nothing.
            self.ctx.memory.dirty.take();
        }
        self.reads.forget_found(&self.ctx);
        let summary = layout.journal_summary();
        if let Some(own) = &mut self.ctx.layout {
            own.go_on_from(layout);
        }
        self.replay().adopt_operations(journal, summary, &ended, &inbox);
    }
}

impl Replay<'_> {
    /// Takes over the operations in storage, and keeps those of this session that the leader has not taken in
    /// yet.
    fn adopt_operations(
        &mut self,
        journal: crate::storage::JournalAtRest,
        summary: crate::storage::JournalMark,
        ended: &SortedMap<OpId, Ended>,
        inbox: &SortedSet<RecordKey>,
    ) {
        let nobody = Box::new(crate::sync::outbox::NoApplication);
        let application = std::mem::replace(&mut self.outbox.application, nobody);
        let fresh = Outbox::new(journal, summary, application);
        let old = std::mem::replace(self.outbox, fresh);
        self.outbox.restore_ops(self.ctx);
        self.outbox.table.order_floor = ORDER_FLOOR;
        self.outbox.overlay.last_rowid = ORDER_FLOOR as i64;
        for (id, number) in old.journal.ids {
            self.outbox.journal.ids.entry(id).or_insert(number);
        }
        self.outbox.table.stale.extend(old.table.by_key.keys().cloned());
        self.outbox.table.stale.extend(self.outbox.table.by_key.keys().cloned().collect::<Vec<_>>());
        self.tabs.dealt.retain(|id| self.outbox.table.by_id.contains_key(id));
        let mut orders: SortedMap<OpId, u64> = SortedMap::new();
        // A session that is about to lead carries out these amendments and discards itself.
        let dealt = if self.tabs.next.is_none() { self.tabs.dealt.clone() } else { SortedSet::new() };
        // Written, although the device said that it was not: otherwise the operation is here again.
        let untold = std::mem::take(&mut self.tabs.untold).into_iter();
        let is_over = |(id, _): &(OpId, Effect)| !self.outbox.table.by_id.contains_key(id);
        self.ctx.effects.extend(untold.filter(is_over).map(|(_, report)| report));
        for id in dealt {
            let order = self.outbox.table.by_id[&id];
            if let Some(op) = self.outbox.table.remove(order) {
                orders.insert(id, order);
                unpin(self.ctx, &op);
            }
        }
        let of_ops = self.outbox.table.ops.values().map(|op| (&op.state.id, &op.state.replaces));
        let by = of_ops.chain(ended.iter().map(|(id, (_, replaces))| (id, replaces)));
        let by =
            by.flat_map(|(id, replaces)| replaces.iter().map(move |replaced| (replaced.clone(), id.clone())));
        let replaced: SortedMap<OpId, OpId> = by.collect();
        let met: SortedSet<OpId> = order::set_of(old.table.ops.values().map(|op| op.state.id.clone()));
        for op in self
            .outbox
            .table
            .ops
            .values()
            .filter(|op| !met.contains(&op.state.id))
            .cloned()
            .collect::<Vec<_>>()
        {
            let replaced = op.state.replaces.iter().filter_map(|id| old.table.get(id));
            for replaced in replaced.filter(|replaced| replaced.state.accepted.is_none()) {
                tell_replaced(self.ctx, replaced, &op.state.id);
            }
            tell_news(self.ctx, None, &op);
        }
        // Only those that the leader has not taken in yet stay provisional.
        let mut provisional = std::mem::take(&mut self.tabs.provisional);
        for (_, op) in old.table.ops {
            let id = op.state.id.clone();
            if let Some(order) = self.outbox.table.by_id.get(&id) {
                let new = self.outbox.table.ops[order].clone();
                tell_news(self.ctx, Some(&op), &new);
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
            self.tabs.provisional.insert(id, own);
            self.keep_provisional(op, amended);
        }
    }

    /// Keeps an operation of this session: at the place of the one that it amends, or else after all others.
    fn keep_provisional(&mut self, mut op: PendingOp, order: Option<u64>) {
        op.state.order = order.unwrap_or_else(|| self.outbox.table.next_order());
        op.record = None;
        op.seq = None;
        self.outbox.table.insert(op);
    }
}

/// Pins the documents of operations that are about to be restored, so that they stay in memory.
fn pin_of(ctx: &mut Ctx, journal: &[JournalRecord]) -> Vec<DocKey> {
    let touched = journal.iter().filter_map(|record| record.op.as_ref()).flat_map(|op| &op.touches);
    let keys: Vec<DocKey> = touched.filter_map(|(class, pk)| ctx.memory.doc_key(class, pk)).collect();
    for key in &keys {
        ctx.memory.pins.add(key);
    }
    keys
}

fn unpin_keys(ctx: &mut Ctx, keys: Vec<DocKey>) {
    for key in &keys {
        ctx.memory.unpin(key);
    }
}
