//! Local documents (R29): only this device has them. Each is the journal record of a put that is never sent. The next
//! write of the document takes the record over.

use super::table::PendingOps;
use super::table::issue::{make, unpin, write_one};
use crate::codec::Data;
use crate::error::{Code, Result, fail};
use crate::journal::{
    Change, ChangeKind, Draft, Issued, OpId, PendingOp, State, Whole, changes_of, make_id, operation_to,
    part_of,
};
use crate::limits::LOCAL_REPLACED_MAX;
use crate::memory::DocKey;
use crate::model::schema::Schema;
use crate::model::{SortedMap, Value};
use crate::sync::context::Ctx;
use crate::sync::message::Write;

/// The changes to local documents in an operation, each with its place in a batch.
pub fn local_changes(schema: &Schema, name: &str, args: &Value) -> Result<Vec<(usize, Change)>> {
    let of = |(place, (name, args)): (usize, (&str, &Value))| {
        let changes = changes_of(schema, name, args).map(Option::unwrap_or_default);
        let is_local = |change: &Change| schema.classes()[usize::from(change.key.0)].is_local();
        let local = changes.map(|changes| changes.into_iter().find(is_local));
        local.transpose().map(|change| change.map(|change| (place, change)))
    };
    match ops_of(name, args) {
        Some(ops) => ops.iter().map(part_of).enumerate().filter_map(|(at, part)| of((at, part?))).collect(),
        None => of((0, (name, args))).into_iter().collect(),
    }
}

/// An operation that the server refused concerns no local document: its local part was over at once.
pub(super) fn refuse_local(schema: &Schema, name: &str, args: &Value) -> Result<()> {
    if local_changes(schema, name, args)?.is_empty() {
        return Ok(());
    }
    fail(Code::BadValue, "an operation in the place of a refused one changes no local document")
}

/// The operations of a batch.
fn ops_of<'a>(name: &str, args: &'a Value) -> Option<&'a [Value]> {
    if name == "batch" { args.as_map()?.get("ops")?.as_array() } else { None }
}

/// Issues an operation in parts, which the next batch writes together: one for the server, if there is one, and
/// one for each local document. The id stays with the server's part, or else with the first one.
pub(super) fn write_parts(
    ctx: &mut Ctx,
    table: &mut PendingOps,
    mut write: Write,
    local: &[(usize, Change)],
) -> Result<()> {
    let id = write.id.clone();
    let (name, args) = (write.name.clone(), write.args.clone());
    let whole = Whole { nth: table.places.count_issued(), name, args, insists: None };
    let has_rest = take_out(&mut write, local);
    let mut parts: Vec<(&DocKey, OpId, (String, Value))> = Vec::new();
    let mut drafts = Vec::new();
    for (_, Change { key, .. }) in local {
        if parts.iter().any(|(other, ..)| *other == key) {
            continue;
        }
        let changes = local.iter().map(|(_, change)| change).filter(|change| change.key == *key);
        if let Some(settled) = settled(ctx, table, key, changes) {
            let is_first = parts.is_empty() && !has_rest;
            let new = if is_first { id.clone() } else { make_id(ctx.clock.wall_ms, &mut *ctx.random)? };
            let before = Data::from_map(&local_state(table, key).unwrap_or_default())?;
            drafts.push((ctx.memory.class_name(key), key.1.clone(), before));
            parts.push((key, new, settled));
        }
    }
    let count = parts.len() + usize::from(has_rest);
    if count == 0 {
        return fail(Code::NotFound, "another session has deleted the document: only a put restores it");
    }
    // Nothing fails from here on.
    if has_rest {
        write_one(ctx, table, write)?;
    }
    for (key, new, (name, args)) in parts {
        let with = (new != id, (count > 1).then_some(&id));
        let write = Write { id: new, name, args, touches: Vec::new(), after: Vec::new() };
        put_local(ctx, table, write, key, with)?;
    }
    if let Some(op) = table.get_mut(&id) {
        op.with = Some(id.clone()).filter(|_| count > 1).or(op.with.take());
        op.whole = Some(Box::new(whole));
        if has_rest {
            op.state.drafts = drafts;
        }
    }
    Ok(())
}

/// The put or the deletion that has the effect of these changes to a local document. None if another session has deleted it,
/// and nothing puts it again.
fn settled<'c>(
    ctx: &Ctx,
    table: &PendingOps,
    key: &DocKey,
    changes: impl Iterator<Item = &'c Change>,
) -> Option<(String, Value)> {
    let (mut last, mut state) = (None, local_state(table, key));
    for change in changes {
        last = state.clone().or(last);
        state = change.kind.apply(state);
    }
    let (name, args) = operation_to(ctx.memory.class(key.0), state, last.as_ref())?;
    Some((name.to_owned(), Value::Map(args)))
}

/// A local document as this session's operations leave it.
fn local_state(table: &PendingOps, key: &DocKey) -> Option<State> {
    let op = table.on(key).rfind(|op| op.is_local())?;
    op.steps_on(key, None).fold(None, |state, step| step.apply(state))
}

/// Issues an operation on a local document. It takes the place of the one before it, and its record. No batch before it puts the
/// document back any more.
fn put_local(
    ctx: &mut Ctx,
    table: &mut PendingOps,
    write: Write,
    key: &DocKey,
    (is_part, with): (bool, Option<&OpId>),
) -> Result<()> {
    let old = table.on(key).rfind(|op| op.is_local()).map(|op| op.state.order);
    let order = old.unwrap_or_else(|| table.places.next());
    let mut op = make(ctx, write, order)?;
    (op.is_part, op.with) = (is_part, with.cloned());
    if let Some(mut old) = table.replace(order) {
        unpin(ctx, &old);
        op.record = old.record;
        op.with = op.with.or(old.with.clone());
        // A write that comes a second time, from the inbox or its copy, must not undo a later one. Those that are not saved
        // yet are in both.
        op.state.replaces.clone_from(&old.state.replaces);
        let surplus = op.state.replaces.len().saturating_sub(LOCAL_REPLACED_MAX);
        op.state.replaces.drain(..if old.saved { surplus } else { 0 });
        op.state.replaces.push(old.state.issued.id.clone());
        op.unsaved = std::mem::take(&mut old.unsaved);
        if !old.saved && !old.is_part {
            op.unsaved.push(old);
        }
    }
    table.insert(op);
    table.keep_written(&ctx.memory.class_name(key), &key.1);
    Ok(())
}

/// A batch is discarded: its local documents are again as they were before. In a session that follows, the leader does
/// that.
pub fn put_back(ctx: &mut Ctx, table: &mut PendingOps, drafts: &[Draft]) -> Result<()> {
    if ctx.is_following() {
        return Ok(());
    }
    for (class, pk, before) in drafts {
        // A later release may lack the class.
        let Some(key) = ctx.memory.doc_key(class, pk) else { continue };
        let change = |kind| Change { key: key.clone(), kind, if_version: None, tree: None };
        let state = before.to_map()?;
        let change = change(if state.is_empty() { ChangeKind::Delete } else { ChangeKind::Put(state) });
        let Some((name, args)) = settled(ctx, table, &key, std::iter::once(&change)) else { continue };
        let id = make_id(ctx.clock.wall_ms, &mut *ctx.random)?;
        let write = Write { id, name, args, touches: Vec::new(), after: Vec::new() };
        put_local(ctx, table, write, &key, (true, None))?;
    }
    Ok(())
}

/// Another session leads, before these operations are saved: they are again as they were issued, each with its id and in
/// their order. That session makes the parts.
pub fn undo_parts(ctx: &mut Ctx, table: &mut PendingOps) -> Result<()> {
    let is_open = |op: &PendingOp| !op.saved && (op.is_part || op.whole.is_some());
    let orders: Vec<u64> = table.iter().filter(|op| is_open(op)).map(|op| op.state.order).collect();
    let mut again: SortedMap<u64, PendingOp> = SortedMap::new();
    for order in orders {
        let Some(mut op) = table.remove(order) else { continue };
        unpin(ctx, &op);
        for op in std::mem::take(&mut op.unsaved).into_iter().chain([op]) {
            if let Some(nth) = op.whole.as_ref().map(|whole| whole.nth) {
                again.insert(nth, op);
            }
        }
    }
    for (_, op) in again {
        let Some(Whole { name, args, insists, .. }) = op.whole.map(|whole| *whole) else { continue };
        let Issued { id, at, after, base, bases, policies, .. } = op.state.issued;
        let write = Write { id, name, args, touches: op.keys, after };
        let order = table.places.next();
        let mut op = make(ctx, write, order)?;
        let issued = &mut op.state.issued;
        (issued.at, issued.base, issued.bases, issued.policies) = (at, base, bases, policies);
        op.is_taken_in = insists.is_some();
        match insists {
            Some(insists) => op.state.issued.insists = insists,
            None => op.insist(|_| true),
        }
        table.insert(op);
    }
    Ok(())
}

/// Takes the local parts out of an operation. Returns whether anything remains.
fn take_out(write: &mut Write, local: &[(usize, Change)]) -> bool {
    let Some(Value::Array(ops)) = write.args.as_map_mut().and_then(|args| args.get_mut("ops")) else {
        return false;
    };
    if write.name != "batch" {
        return false;
    }
    let mut at = 0..;
    ops.retain(|_| at.next().is_some_and(|at| !local.iter().any(|(place, _)| *place == at)));
    !ops.is_empty()
}

/// The positions of a batch's changes, once its local parts are taken out.
pub fn places_left(places: &[u32], local: &[(usize, Change)]) -> Vec<u32> {
    let is_local = |place: u32| local.iter().any(|(at, _)| *at == place as usize);
    let before = |place: u32| local.iter().filter(|(at, _)| *at < place as usize).count() as u32;
    places.iter().filter(|place| !is_local(**place)).map(|place| place - before(*place)).collect()
}
