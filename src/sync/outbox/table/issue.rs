//! Issuing operations: their place in the order, their documents and their files.

use super::PendingOps;
use crate::codec::{Format, encode};
use crate::error::Result;
use crate::journal::{Issued, OpState, PendingOp, changes_of, files_of, is_built_in};
use crate::model::order;
use crate::sync::context::Ctx;
use crate::sync::message::Write;
use crate::sync::outbox::local::{local_changes, places_left, write_parts};

impl PendingOps {
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

    /// Issues an operation of another session, with everything that this one had noted with it.
    pub fn take_in(&mut self, ctx: &mut Ctx, wanted: &Issued) -> Result<()> {
        let local = local_changes(ctx.memory.schema(), &wanted.name, &wanted.args)?;
        let keys = wanted.touches.iter().filter_map(|(class, pk)| ctx.memory.doc_key(class, pk));
        let touches = keys.collect();
        let Issued { id, name, args, after, .. } = wanted.clone();
        self.write(ctx, Write { id, name, args, touches, after })?;
        if let Some(op) = self.get_mut(&wanted.id) {
            let Issued { at, base, bases, insists, policies, .. } = wanted.clone();
            op.is_taken_in = true;
            op.whole.iter_mut().for_each(|whole| whole.insists = Some(insists.clone()));
            let issued = &mut op.state.issued;
            (issued.at, issued.base, issued.bases, issued.policies) = (at, base, bases, policies);
            issued.insists = places_left(&insists, &local);
        }
        Ok(())
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
        ops.map(|op| (op, held.contains(&op.state.issued.id))).collect()
    }
}

/// Issues an operation as it is, after all others.
pub fn write_one(ctx: &mut Ctx, table: &mut PendingOps, write: Write) -> Result<()> {
    let order = table.places.next();
    table.issue(ctx, write, order)?;
    if let Some(op) = table.op_mut(order) {
        op.insist(|_| true);
    }
    Ok(())
}

/// A new operation at that position in the order. Its documents stay in memory from now on.
pub fn make(ctx: &mut Ctx, write: Write, order: u64) -> Result<PendingOp> {
    let changes = changes_of(ctx.memory.schema(), &write.name, &write.args)?;
    let mut keys = write.touches;
    keys.extend(changes.iter().flatten().map(|change| change.key.clone()));
    order::sort(&mut keys);
    keys.dedup();
    let is_local = is_built_in(&write.name, &write.args)
        && !keys.is_empty()
        && keys.iter().all(|key| ctx.memory.class(key.0).is_local());
    let mut state = OpState::new(order, write.id, (write.name, write.args), ctx.clock.wall_ms);
    state.issued.touches = keys.iter().map(|key| (ctx.memory.class_name(key), key.1.clone())).collect();
    state.issued.after = write.after;
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
pub fn bytes_of(op: &PendingOp) -> usize {
    encode(Format::Msgpack, &op.state.issued.args).map_or(0, |bytes| bytes.len())
}

/// Notes the files that an operation references. Without a module for files the device holds none, and nothing waits.
fn note_files(ctx: &Ctx, op: &mut PendingOp) {
    if ctx.config.has_files {
        op.files = files_of(&op.state.issued.args);
    }
}

/// Connects a restored operation with its documents.
pub fn connect(ctx: &Ctx, op: &mut PendingOp) {
    op.keys =
        op.state.issued.touches.iter().filter_map(|(class, pk)| ctx.memory.doc_key(class, pk)).collect();
    op.changes =
        changes_of(ctx.memory.schema(), &op.state.issued.name, &op.state.issued.args).unwrap_or(None);
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
