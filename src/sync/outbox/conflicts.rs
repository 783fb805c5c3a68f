//! Resolves conflicts by the policy of the class.

use super::application::Application;
use super::table::Table;
use super::trees::given_to;
use crate::codec::{Data, Fault};
use crate::error::{Code, Error, Result};
use crate::journal::{ChangeKind, IfVersion, PendingOp, Policy, Settlement, changes_of, settle};
use crate::limits::VALUE_DEPTH_MAX;
use crate::memory::DocKey;
use crate::model::Value;
use crate::sync::context::Ctx;
use crate::sync::message::{Effect, Write};

/// The operations that expected the version of a resolved one, if no other has taken its place.
type Standing = Vec<u64>;

/// Resolves a conflict by the class's policy: an amended operation takes the place of this one, or none
/// does. If none does, the operations that expected its version conflict with the same document, and are
/// resolved at once. Returns false if the application must decide.
pub fn settle_conflict(
    ctx: &mut Ctx,
    table: &mut Table,
    app: &dyn Application,
    order: u64,
    fault: &Fault,
) -> bool {
    let Some(mut next) = settle_or_leave(ctx, table, app, order, fault) else { return false };
    while let Some(order) = next.pop() {
        // One that cannot be resolved here will receive the conflict from the server.
        next.extend(settle_or_leave(ctx, table, app, order, fault).unwrap_or_default());
    }
    true
}

/// If the application's own function throws, the conflict is left to the application, as `refused`.
fn settle_or_leave(
    ctx: &mut Ctx,
    table: &mut Table,
    app: &dyn Application,
    order: u64,
    fault: &Fault,
) -> Option<Standing> {
    settle_one(ctx, table, app, order, fault).unwrap_or_else(|error| {
        ctx.errors.report(error);
        None
    })
}

/// Resolves the conflict of one operation. Returns `None` if the application must decide.
fn settle_one(
    ctx: &mut Ctx,
    table: &mut Table,
    app: &dyn Application,
    order: u64,
    fault: &Fault,
) -> Result<Option<Standing>> {
    let op = &table.ops[&order];
    let Some(row) = &fault.doc else { return Ok(None) };
    let Some(key) = op.expected_at(&row.pk).cloned() else { return Ok(None) };
    // It was issued for exactly the version that the document has. No policy can resolve that, and it
    // would be sent for ever.
    if op.issued_for.contains(&(key.clone(), row.v)) {
        return Ok(None);
    }
    let class = ctx.memory.class_name(&key);
    let policy = app.policy(&class);
    let theirs = match &row.data {
        Some(data) if !row.deleted => Some(data.to_map()?),
        _ => None,
    };
    let base = op.base_of(&class, &key.1).map(Data::to_map).transpose()?;
    if (base.is_some() && base == theirs) || is_unwritten_since(ctx, table, op, &key, row.v) {
        return send_for_version(ctx, table, order, &key, row.v).map(Some);
    }
    // If the application set the precondition itself, it decides.
    if policy == Policy::Ask || op.insists_on(&key) {
        return Ok(None);
    }
    let changes = || op.changes.iter().flatten().filter(|change| change.key == key);
    let mine = changes().fold(base.clone(), |state, change| change.kind.apply(state));
    let is_deletion = changes().next_back().is_some_and(|last| last.kind == ChangeKind::Delete);
    if mine.is_none() && !is_deletion && policy != Policy::Server {
        // A patch of a document that is not known here: its intended result is unknown, and it is not a
        // deletion.
        return Ok(None);
    }
    let settled = if policy == Policy::Custom {
        app.settle(&class, base.as_ref(), mine.as_ref(), theirs.as_ref())?
    } else {
        settle(policy, base.as_ref(), mine.as_ref(), theirs.as_ref())
    };
    let old = op.state.id.clone();
    let theirs_data = row.data.clone().filter(|_| !row.deleted);
    let if_version = ("ifVersion", Value::from(row.v as i64));
    let class_arg = ("class", Value::from(class.as_str()));
    let issued = match settled {
        Settlement::Theirs => {
            let standing = table.standing_on(&old, &key);
            let replaces = table.give_up(ctx, order);
            let error =
                Error::new(Code::VersionConflict, "the server's document stays, by the class's policy");
            table.tell_end(ctx, &old, replaces, Err(&error));
            ctx.effects.push(Effect::Accepted { id: old, result: Err(error) });
            return Ok(Some(standing));
        }
        Settlement::Put(state) => {
            Some(("doc.put", Value::from([class_arg, ("data", Value::Map(state)), if_version])))
        }
        // Both sides have deleted it.
        Settlement::Delete if theirs.is_none() => None,
        Settlement::Delete => {
            let data = theirs.as_ref().expect("checked above");
            let parts = ctx.memory.class(key.0).key().iter().map(|name| data.get(name.as_str()).cloned());
            let key = Value::Array(parts.flatten().collect());
            Some(("doc.delete", Value::from([class_arg, ("key", key), if_version])))
        }
    };
    // If no server would accept the policy's result, or if it is another document, the application
    // decides.
    let is_possible = |(name, args): &(&str, Value)| {
        let changes = changes_of(ctx.memory.schema(), name, args);
        args.is_within(VALUE_DEPTH_MAX)
            && changes.is_ok_and(|changes| changes.iter().flatten().all(|change| change.key == key))
    };
    if issued.as_ref().is_some_and(|issued| !is_possible(issued)) {
        return Ok(None);
    }
    let Some((name, args)) = op.with_settled(&key, issued) else {
        let replaces = table.give_up(ctx, order);
        table.tell_end(ctx, &old, replaces, Ok(row.v));
        ctx.effects.push(Effect::Accepted { id: old, result: Ok((row.v, None)) });
        return Ok(Some(Standing::new()));
    };
    issue_in_place(ctx, table, order, (&key, row.v), (name, args), theirs_data).map(Some)
}

/// Whether an operation expects the version that an earlier one of the session gave, and the document is not
/// above it: nobody else has written the document since. A batch has the version of its latest document,
/// which is above that of the others.
fn is_unwritten_since(ctx: &Ctx, table: &Table, op: &PendingOp, key: &DocKey, v: u64) -> bool {
    match op.expectation(key) {
        Some((IfVersion::At(expected), era)) => v < expected && era == Some(ctx.memory.epoch().1),
        Some((IfVersion::Of(id), _)) => table
            .get(&id)
            .and_then(|named| given_to(ctx, &table.trees, named, key))
            .is_some_and(|given| v <= given),
        None => false,
    }
}

/// Nobody else wrote the document, so no policy is consulted. Either it is as it was when the operation was
/// made: the operation before it changed nothing, and the server gave that one no version that holds here,
/// though docs/protocol.md requires one. Or its version is lower than that of the earlier operation.
fn send_for_version(ctx: &mut Ctx, table: &mut Table, order: u64, key: &DocKey, v: u64) -> Result<Standing> {
    let mut op = table.ops[&order].clone();
    let base = op.base_of(&ctx.memory.class_name(key), &key.1).cloned();
    op.expect_of(key, v);
    issue_in_place(ctx, table, order, (key, v), (op.state.name, op.state.args), base)
}

/// Issues another operation in the place of one. They differ only in their effect on the document `key`,
/// whose state was `base` and whose version is `v`.
fn issue_in_place(
    ctx: &mut Ctx,
    table: &mut Table,
    order: u64,
    (key, v): (&DocKey, u64),
    (name, args): (String, Value),
    base: Option<Data>,
) -> Result<Standing> {
    let id = crate::journal::make_id(ctx.clock.wall_ms, &mut *ctx.random)?;
    let class = ctx.memory.class_name(key);
    let op = &table.ops[&order].state;
    let (old, after, mut bases) = (op.id.clone(), op.after.clone(), op.bases.clone());
    bases.retain(|(own, pk, _)| (own, pk) != (&class, &key.1));
    let replaced = table.replace(order);
    let replaced_for = replaced.as_ref().map(|op| op.issued_for.clone()).unwrap_or_default();
    let write = Write { id: id.clone(), name, args, touches: Vec::new(), after };
    table.issue(ctx, write, order)?;
    if let (Some(op), Some(replaced)) = (table.get_mut(&id), &replaced) {
        op.insist(|change| replaced.insists_on(&change.key));
        op.take_given(replaced);
    }
    table.take_place(ctx, &id, replaced);
    if let Some(op) = table.get_mut(&id) {
        op.state.bases = bases;
        op.keep_base(class, &key.1, base);
        op.issued_for = replaced_for;
        op.issued_for.push((key.clone(), v));
    }
    table.follow(ctx, &old, Some(&id), None);
    ctx.effects.push(Effect::Amended { id: old, by: id });
    Ok(Standing::new())
}
