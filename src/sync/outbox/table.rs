//! The operations that are not over: issuing them, and indexes over them.

use super::due::Due;
use super::files::Files;
use super::local::{local_changes, write_parts};
use crate::codec::{Format, encode};
use crate::error::Result;
use crate::journal::{IfVersion, OpId, OpState, PendingOp, State, changes_of, files_of, is_built_in};
use crate::memory::{DocKey, synced};
use crate::model::{SortedMap, SortedSet, order};
use crate::storage::JournalMark;
use crate::sync::context::Ctx;
use crate::sync::message::Write;

/// Every operation that is not over.
#[derive(Default)]
pub struct Table {
    /// By their order.
    pub ops: SortedMap<u64, PendingOp>,
    pub by_id: SortedMap<OpId, u64>,
    /// The orders of operations that may name an operation, as one whose version they expect or that they
    /// wait for. Both may have changed since.
    naming: SortedMap<OpId, SortedSet<u64>>,
    pub by_key: SortedMap<DocKey, SortedSet<u64>>,
    /// The parents of the items among them.
    pub(super) trees: SortedMap<DocKey, DocKey>,
    /// Those that delete parents.
    pub(super) ending: SortedSet<u64>,
    /// Those that wait for the server's answer, and those that it refused.
    pub(super) waiting: SortedSet<u64>,
    pub(super) parked: SortedSet<u64>,
    pub last_order: u64,
    /// How many operations with local parts were issued.
    pub(super) issued: u64,
    /// A follower's new operations come after all others, until the leader gives them their place.
    pub order_floor: u64,
    /// Documents whose operations must be applied again.
    pub stale: SortedSet<DocKey>,
    /// Operations just issued, which come after every other on their documents.
    pub(super) fresh: SortedSet<u64>,
    /// The result of all operations on each document.
    pub(super) tops: SortedMap<DocKey, Option<State>>,
    pub summary: JournalMark,
    /// The changes that are due to the journal.
    pub(super) due: Due,
    /// The word on the files that they reference.
    pub files: Files,
}

impl Table {
    pub fn new(summary: JournalMark) -> Self {
        Table { summary, ..Table::default() }
    }

    pub fn get(&self, id: &str) -> Option<&PendingOp> {
        self.ops.get(self.by_id.get(id)?)
    }

    pub fn get_mut(&mut self, id: &str) -> Option<&mut PendingOp> {
        self.ops.get_mut(self.by_id.get(id)?)
    }

    /// Adds an operation at its order.
    pub fn insert(&mut self, op: PendingOp) {
        let order = op.state.order;
        debug_assert!(!self.ops.contains_key(&order), "two operations in one place of the order");
        let is_last = order > self.last_order;
        self.last_order = self.last_order.max(order);
        self.by_id.insert(op.state.id.clone(), order);
        for key in &op.keys {
            self.by_key.entry(key.clone()).or_default().insert(order);
            if !is_last {
                self.stale.insert(key.clone());
            }
        }
        for id in op.waits_for() {
            self.naming.entry(id.to_owned()).or_default().insert(order);
        }
        self.fresh.insert(order);
        self.ops.insert(order, op);
        self.sort(order);
        self.note_trees(order);
    }

    /// An operation expects the document of one of its changes to have that version.
    pub fn expect(&mut self, order: u64, index: usize, expected: IfVersion) {
        if let Some(id) = expected.of() {
            self.names(order, id);
        }
        if let Some(op) = self.ops.get_mut(&order) {
            op.expect(index, Some(expected));
        }
    }

    /// Notes that an operation names another one.
    pub fn names(&mut self, order: u64, id: &OpId) {
        self.naming.entry(id.clone()).or_default().insert(order);
    }

    /// The operations that may name this one.
    pub fn naming(&self, id: &str) -> impl Iterator<Item = u64> {
        self.naming.get(id).into_iter().flatten().copied()
    }

    /// The same, for a caller that retargets them all: the entry is removed.
    pub fn take_naming(&mut self, id: &str) -> SortedSet<u64> {
        self.naming.remove(id).unwrap_or_default()
    }

    /// Updates `waiting` and `parked` after an operation's state has changed.
    pub fn sort(&mut self, order: u64) {
        let op = self.ops.get(&order);
        for (set, is_in) in [
            (&mut self.waiting, op.is_some_and(PendingOp::is_waiting)),
            (&mut self.parked, op.is_some_and(|op| op.state.refused.is_some())),
        ] {
            if is_in {
                set.insert(order);
            } else {
                set.remove(&order);
            }
        }
    }

    pub fn remove(&mut self, order: u64) -> Option<PendingOp> {
        let op = self.ops.remove(&order)?;
        self.by_id.remove(&op.state.id);
        // Without other operations, none names another one. Local documents name none.
        if self.ops.values().all(PendingOp::is_local) {
            self.naming.clear();
        }
        for key in op.shown_on() {
            if let Some(orders) = self.by_key.get_mut(key) {
                orders.remove(&order);
                if orders.is_empty() {
                    self.by_key.remove(key);
                    self.trees.remove(key);
                    self.tops.remove(key);
                }
            }
            self.stale.insert(key.clone());
        }
        self.ending.remove(&order);
        self.fresh.remove(&order);
        self.sort(order);
        Some(op)
    }

    pub fn next_order(&self) -> u64 {
        (self.last_order + 1).max(self.order_floor)
    }

    /// The operations that touch a document, in order.
    pub fn on(&self, key: &DocKey) -> impl DoubleEndedIterator<Item = &PendingOp> {
        self.by_key.get(key).into_iter().flatten().filter_map(|order| self.ops.get(order))
    }

    /// Those before that position in the order.
    pub fn on_before(&self, key: &DocKey, order: u64) -> impl DoubleEndedIterator<Item = &PendingOp> {
        let orders = self.by_key.get(key).into_iter().flat_map(move |orders| orders.range(..order));
        orders.filter_map(|order| self.ops.get(order))
    }

    /// Whether no operation is pending or refused.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Whether there is nothing to ask the server for: no subscription, and no pending operation.
    pub fn has_nothing_to_do(&self, ctx: &Ctx) -> bool {
        synced(&ctx.memory).next().is_none() && self.pending() == 0
    }

    /// How many wait for the server's answer.
    pub fn pending(&self) -> u64 {
        self.waiting.len() as u64
    }
}

impl Table {
    /// Issues an operation of the application, after all others. A follower hands it in as it is: the leader has the
    /// state of local documents.
    pub fn write(&mut self, ctx: &mut Ctx, mut write: Write) -> Result<()> {
        write.touches.retain(|key| !ctx.memory.class(key.0).is_local());
        let local = local_changes(ctx.memory.schema(), &write.name, &write.args)?;
        if local.is_empty() || ctx.is_following() {
            write_one(ctx, self, write)
        } else {
            write_parts(ctx, self, write, &local)
        }
    }

    /// Adds a new operation at that position in the order.
    pub fn issue(&mut self, ctx: &mut Ctx, write: Write, order: u64) -> Result<()> {
        self.insert(make(ctx, write, order)?);
        Ok(())
    }

    /// Operations that are not over at the server, in order, each with whether it is held: behind a refused one, or until its files
    /// are at the server.
    pub fn operations(&self) -> Vec<(&PendingOp, bool)> {
        let held = self.held_from_sending(&[]);
        let ops = self.ops.values().filter(|op| !op.is_local());
        ops.map(|op| (op, held.contains(&op.state.id))).collect()
    }
}

/// Issues an operation as it is, after all others.
pub(super) fn write_one(ctx: &mut Ctx, table: &mut Table, write: Write) -> Result<()> {
    let order = table.next_order();
    table.issue(ctx, write, order)?;
    if let Some(op) = table.ops.get_mut(&order) {
        op.insist(|_| true);
    }
    Ok(())
}

/// A new operation at that position in the order. Its documents stay in memory from now on.
pub(super) fn make(ctx: &mut Ctx, write: Write, order: u64) -> Result<PendingOp> {
    let changes = changes_of(ctx.memory.schema(), &write.name, &write.args)?;
    let mut keys = write.touches;
    keys.extend(changes.iter().flatten().map(|change| change.key.clone()));
    order::sort(&mut keys);
    keys.dedup();
    let is_local = is_built_in(&write.name, &write.args)
        && !keys.is_empty()
        && keys.iter().all(|key| ctx.memory.class(key.0).is_local());
    let mut state = OpState::new(order, write.id, (write.name, write.args), ctx.clock.wall_ms);
    state.touches = keys.iter().map(|key| (ctx.memory.class_name(key), key.1.clone())).collect();
    state.after = write.after;
    for key in &keys {
        ctx.memory.pins.add(key);
    }
    let mut op = PendingOp::new(state, keys);
    op.changes = changes;
    op.local = is_local.then(|| bytes_of(&op));
    note_files(ctx, &mut op);
    Ok(op)
}

/// The bytes of an operation's arguments.
pub(super) fn bytes_of(op: &PendingOp) -> usize {
    encode(Format::Msgpack, &op.state.args).map_or(0, |bytes| bytes.len())
}

/// Notes the files that an operation references. Without a module for files the device holds none, and nothing waits.
fn note_files(ctx: &Ctx, op: &mut PendingOp) {
    if ctx.config.has_files {
        op.files = files_of(&op.state.args);
    }
}

/// Connects a restored operation with its documents.
pub fn connect(ctx: &Ctx, op: &mut PendingOp) {
    op.keys = op.state.touches.iter().filter_map(|(class, pk)| ctx.memory.doc_key(class, pk)).collect();
    op.changes = changes_of(ctx.memory.schema(), &op.state.name, &op.state.args).unwrap_or(None);
    note_files(ctx, op);
    let seen_on = op.state.seen_on.iter();
    op.seen_on =
        seen_on.filter_map(|(class, pk, era)| Some((ctx.memory.doc_key(class, pk)?, *era as u32))).collect();
    if op.state.accepted.is_some() && !op.is_local() {
        op.awaits = Some(op.keys.iter().flat_map(|key| ctx.memory.defs_of(key)).collect());
    }
}

/// The documents of an operation need not stay in memory for it any more.
pub fn unpin(ctx: &mut Ctx, op: &PendingOp) {
    for key in &op.keys {
        ctx.memory.unpin(key);
    }
}
