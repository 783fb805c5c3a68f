//! Operations that the server refused. They are parked until the application amends or discards them (R12).

use super::application::{Application, policy_of};
use super::conflicts::{doubt, is_rebased, stand};
use super::local::refuse_local;
use super::table::PendingOps;
use crate::codec::Data;
use crate::error::Result;
use crate::journal::{Change, IfVersion, OpId, PendingOp, Policy, changes_of, operation_to};
use crate::memory::DocKey;
use crate::model::Value;
use crate::sync::context::Ctx;
use crate::sync::message::Write;

/// Issues a refused operation again, with the same arguments or others: a new operation, in the place of
/// the old one and before those that it blocked. Errors: `not_found`, and those of
/// [`check_write`].
pub fn amend(
    ctx: &mut Ctx,
    table: &mut PendingOps,
    app: &dyn Application,
    id: &str,
    new: OpId,
    args: Option<Value>,
) -> Result<()> {
    let (op, _) = table.refused_op(id)?;
    let (order, after) = (op.state.order, op.state.issued.after.clone());
    let met = met_by(ctx, app, op);
    let again = if args.is_none() { met.as_ref().and_then(|met| brought_back(ctx, op, met)) } else { None };
    let (name, args) = again.unwrap_or_else(|| {
        (op.state.issued.name.clone(), args.unwrap_or_else(|| op.state.issued.args.clone()))
    });
    let touches = op.keys.clone();
    let old = op.state.issued.id.clone();
    // Invalid arguments are rejected before the refused operation is changed.
    changes_of(ctx.memory.schema(), &name, &args)?;
    refuse_local(ctx.memory.schema(), &name, &args)?;
    let policies = op.state.issued.policies.clone();
    let replaced = table.replace(order);
    let write = Write { id: new.clone(), name, args, touches, after };
    table.issue(ctx, write, order)?;
    if let Some(op) = table.op_mut(order) {
        op.state.issued.policies = policies;
    }
    let mut others = replaced.as_ref().map(|replaced| go_on_expecting(ctx, table, order, replaced));
    if let Some(replaced) = &replaced {
        go_on_asking(ctx, table, app, order, replaced);
    }
    let is_met =
        |key: &DocKey| table[order].changes_on(key).next().is_some() && !table[order].insists_on(key);
    if let Some((key, v, theirs)) = met.filter(|(key, ..)| is_met(key)) {
        let class = ctx.memory.class_name(&key);
        stand(table, order, (&key, &class), Some(IfVersion::At(v)), theirs);
        others.get_or_insert_default().push(key);
    }
    table.take_place(ctx, &new, replaced);
    table.follow(ctx, &old, Some(&new), None);
    for key in others.into_iter().flatten() {
        for order in table.standing_on(&new, &key) {
            if is_rebased(ctx, app, &table[order], &key) && !table[order].insists_on(&key) {
                doubt(table, order, &key);
            }
        }
    }
    Ok(())
}

/// Whether the policy `Ask` judges the operation on that document, and not the application by a version of its own.
fn is_asked(ctx: &Ctx, app: &dyn Application, op: &PendingOp, key: &DocKey) -> bool {
    policy_of(app, op, &ctx.memory.class_name(key)) == Policy::Ask && !op.insists_on(key)
}

/// By the policy `Ask`, an operation that names no version expects that of the operation that it replaces. The application
/// may not have seen a later one.
fn go_on_asking(ctx: &Ctx, table: &mut PendingOps, app: &dyn Application, order: u64, replaced: &PendingOp) {
    for (key, expected) in replaced.expected() {
        let op = &table[order];
        let is_open = op.expected_of(key).is_none() && op.changes_on(key).next().is_some();
        if is_open && is_asked(ctx, app, replaced, key) {
            let class = ctx.memory.class_name(key);
            let base = replaced.base_of(&class, &key.1).cloned();
            stand(table, order, (key, &class), Some(expected.clone()), base);
        }
    }
    if let Some(op) = table.op_mut(order) {
        op.take_given(replaced);
    }
}

/// A document that the application was shown: its key, its version, and its data unless it is deleted.
type Met = (DocKey, u64, Option<Data>);

/// The operation that brings a document back, in the place of one that would be refused: a patch of no document.
fn brought_back(ctx: &Ctx, op: &PendingOp, (key, _, theirs): &Met) -> Option<(String, Value)> {
    let class = ctx.memory.class_name(key);
    let base = op.base_of(&class, &key.1).filter(|_| theirs.is_none())?.to_map().ok()?;
    let mine = op.result_on(key, Some(base))?;
    let (name, args) = operation_to(ctx.memory.class(key.0), Some(mine), None)?;
    op.with_settled(key, Some((name, Value::Map(args))))
}

/// By the policy `Ask`, and where a function of the application has failed, the application has seen a document when it
/// decides. The next operation stands on that one: its key, its version and its data. The function is not asked again.
fn met_by(ctx: &Ctx, app: &dyn Application, op: &PendingOp) -> Option<Met> {
    let row = op.state.refused.as_ref()?.doc.as_ref()?;
    let key = op.expected_at(&row.pk)?;
    let is_own = policy_of(app, op, &ctx.memory.class_name(key)) == Policy::Custom && !op.insists_on(key);
    let is_met = is_own || is_asked(ctx, app, op, key);
    is_met.then(|| (key.clone(), row.v, row.data.clone().filter(|_| !row.deleted)))
}

/// If the session itself gave both operations the same expected version, the new one was made on the same
/// document state. Its conflicts are resolved as the old one's would have been. Returns the documents of which the
/// new one expects another version: it may meet the work of others there, which later writes have not seen.
fn go_on_expecting(ctx: &mut Ctx, table: &mut PendingOps, order: u64, replaced: &PendingOp) -> Vec<DocKey> {
    let Some(op) = table.op_mut(order) else { return Vec::new() };
    let is_same = |change: &Change| replaced.expected_of(&change.key) == change.if_version.as_ref();
    op.insist(|change| !is_same(change) || replaced.insists_on(&change.key));
    op.take_given(replaced);
    let (same, others): (Vec<&Change>, Vec<&Change>) =
        op.changes.iter().flatten().partition(|change| is_same(change));
    let keys = |changes: Vec<&Change>| changes.into_iter().map(|change| change.key.clone()).collect();
    let (same, others): (Vec<DocKey>, Vec<DocKey>) = (keys(same), keys(others));
    for key in same {
        let class = ctx.memory.class_name(&key);
        let base = replaced.base_of(&class, &key.1).cloned();
        if let Some(op) = table.op_mut(order) {
            op.keep_base(class, &key.1, base);
        }
    }
    others
}
