//! Operations that the server refused. They are parked until the application amends or discards them (R12).

use super::application::Application;
use super::conflicts::{doubt, is_rebased};
use super::local::refuse_local;
use super::table::PendingOps;
use crate::error::Result;
use crate::journal::{Change, OpId, PendingOp, changes_of};
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
    let (order, name, after) = (op.state.order, op.state.issued.name.clone(), op.state.issued.after.clone());
    let args = args.unwrap_or_else(|| op.state.issued.args.clone());
    let touches = op.keys.clone();
    let old = op.state.issued.id.clone();
    // Invalid arguments are rejected before the refused operation is changed.
    changes_of(ctx.memory.schema(), &name, &args)?;
    refuse_local(ctx.memory.schema(), &name, &args)?;
    let replaced = table.replace(order);
    let write = Write { id: new.clone(), name, args, touches, after };
    table.issue(ctx, write, order)?;
    let others = replaced.as_ref().map(|replaced| go_on_expecting(ctx, table, order, replaced));
    table.take_place(ctx, &new, replaced);
    table.follow(ctx, &old, Some(&new), None);
    for key in others.into_iter().flatten().filter(|key| is_rebased(ctx, app, key)) {
        for order in table.standing_on(&new, &key) {
            if !table[order].insists_on(&key) {
                doubt(table, order, &key);
            }
        }
    }
    Ok(())
}

/// If the session itself gave both operations the same expected version, the new one was made on the same
/// document state. Its conflicts are resolved as the old one's would have been. Returns the documents of which the
/// new one expects another version: it may meet the work of others there, which later writes have not seen.
fn go_on_expecting(ctx: &mut Ctx, table: &mut PendingOps, order: u64, replaced: &PendingOp) -> Vec<DocKey> {
    let Some(op) = table.at_mut(order) else { return Vec::new() };
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
        if let Some(op) = table.at_mut(order) {
            op.keep_base(class, &key.1, base);
        }
    }
    others
}
