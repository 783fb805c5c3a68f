//! Resolves conflicts by the policy of the class, and rebases the writes made on top of a resolved one (R92).

use super::application::{Application, policy_of};
use super::local::put_back;
use super::table::PendingOps;
use super::table::trees::given_to;
use crate::codec::{Data, Fault};
use crate::error::{Code, Error, Result};
use crate::journal::{
    ChangeKind, IfVersion, Issued, PendingOp, Policy, Settlement, State, changes_of, operation_to, settle,
};
use crate::limits::{VALUE_DEPTH_MAX, VERSION_MAX};
use crate::memory::DocKey;
use crate::model::{Name, SortedSet, Value};
use crate::sync::context::Ctx;
use crate::sync::message::{Effect, Write};

/// The version that no document has.
pub const UNKNOWN: IfVersion = IfVersion::At(VERSION_MAX);

/// A document that a pending write meets, and that may be another one than it was made on.
struct Ground {
    order: u64,
    key: DocKey,
    theirs: Option<State>,
    /// The version to expect of it, if that is not the one that the write expects.
    expected: Option<IfVersion>,
    /// If the write before deletes the document: its own base, and the document that it met. A put after it is
    /// merged with these, as in a batch of both.
    deleted: Option<(Option<State>, Option<State>)>,
}

/// Resolves a conflict by the class's policy: an amended operation takes the place of this one, or none
/// does. The writes made on top of it are then judged in their order, each on the result of the one before.
/// Returns false if the application must decide.
pub fn settle_conflict(
    ctx: &mut Ctx,
    table: &mut PendingOps,
    app: &dyn Application,
    order: u64,
    fault: &Fault,
) -> bool {
    let Some(row) = &fault.doc else { return false };
    let Some(key) = table[order].expected_at(&row.pk).cloned() else { return false };
    let theirs = row.data.as_ref().filter(|_| !row.deleted).map(Data::to_map).transpose();
    let mut grounds = Vec::new();
    let settled = theirs.and_then(|theirs| {
        let met = Ground { order, key, theirs, expected: Some(IfVersion::At(row.v)), deleted: None };
        settle_write(ctx, table, app, &[met], Some(row.v), &mut grounds)
    });
    let is_settled = or_leave(ctx, settled);
    while let Some(order) = grounds.iter().map(|ground| ground.order).min() {
        let (met, others) = grounds.into_iter().partition(|ground| ground.order == order);
        grounds = others;
        let met: Vec<Ground> = met;
        if !table.at(order).is_some_and(PendingOp::is_waiting) {
            continue;
        }
        let settled = settle_write(ctx, table, app, &met, None, &mut grounds);
        if !or_leave(ctx, settled) {
            // The server shows it the document. If it cannot be resolved then, the application decides.
            for ground in &met {
                doubt(table, order, &ground.key);
            }
        }
    }
    is_settled
}

/// Whether the policy of a document's class judges that operation, so that it must know the document that the operation is
/// executed on.
pub fn is_rebased(ctx: &Ctx, app: &dyn Application, op: &PendingOp, key: &DocKey) -> bool {
    let policy = policy_of(app, op, &ctx.memory.class_name(key));
    matches!(policy, Policy::Ask | Policy::Merge | Policy::Custom)
}

/// If the application's own function throws, the conflict is left to the application, as `refused`.
fn or_leave(ctx: &mut Ctx, settled: Result<bool>) -> bool {
    settled.unwrap_or_else(|error| {
        ctx.errors.report(error);
        false
    })
}

/// Judges a write on the documents that it meets. Adds to `next` the documents that the writes on top of it meet.
/// `refused_at` is the version in the server's answer, which has refused it. Returns false if the application must
/// decide.
fn settle_write(
    ctx: &mut Ctx,
    table: &mut PendingOps,
    app: &dyn Application,
    met: &[Ground],
    refused_at: Option<u64>,
    next: &mut Vec<Ground>,
) -> Result<bool> {
    let order = met[0].order;
    let op = table[order].clone();
    let mut judged = Vec::new();
    for ground in met {
        let (key, theirs) = (&ground.key, &ground.theirs);
        let class = ctx.memory.class_name(key);
        let policy = policy_of(app, &op, &class);
        let base = op.base_of(&class, &key.1).map(Data::to_map).transpose()?;
        if let Some(v) = refused_at {
            // It was issued for exactly the version that the document has. No policy can resolve that, and it
            // would be sent for ever.
            if op.issued_for.contains(&(key.clone(), v)) {
                return Ok(false);
            }
            if (base.is_some() && base == *theirs) || is_unwritten_since(ctx, table, &op, key, v) {
                send_for_version(ctx, table, order, key, v)?;
                return Ok(true);
            }
        }
        // The application decides if its policy says so, or if it set the precondition itself.
        if matches!(policy, Policy::Ask | Policy::Overwrite) || op.insists_on(key) {
            if refused_at.is_none() && base == *theirs {
                continue;
            }
            return Ok(false);
        }
        let on = |state: &Option<State>| op.result_on(key, state.clone());
        let mine = on(&base);
        let is_deletion = op.changes_on(key).next_back().is_some_and(|last| last.kind == ChangeKind::Delete);
        if mine.is_none() && !is_deletion && policy != Policy::Server {
            // A patch of a document that is not known here: its intended result is unknown, and it is not a
            // deletion.
            return Ok(false);
        }
        let of_both = ground.deleted.as_ref().filter(|_| policy == Policy::Merge);
        let (from, onto) = of_both.map_or((&base, theirs), |(base, theirs)| (base, theirs));
        let settled = if policy == Policy::Custom {
            app.settle(&class, base.as_ref(), mine.as_ref(), theirs.as_ref())?
        } else {
            settle(policy, from.as_ref(), mine.as_ref(), onto.as_ref())
        };
        // A write that brings a document back has changed no more of it than before: somebody else may bring it back first.
        let is_back = policy == Policy::Merge && onto.is_none();
        let stands_on = if is_back { from } else { theirs };
        let stands_on = data_of(stands_on.as_ref())?;
        let result = match settled {
            Settlement::Theirs => {
                discard(ctx, table, &op, met, next)?;
                return Ok(true);
            }
            Settlement::Put(state) => Some(state),
            Settlement::Delete => None,
        };
        // A patch or a deletion of no document would be refused.
        let is_put = op.changes_on(key).next().is_some_and(|first| matches!(first.kind, ChangeKind::Put(_)));
        let stays = refused_at.is_none() && (theirs.is_some() || is_put) && on(theirs) == result;
        let has_effect = result.is_some() || theirs.is_some();
        let becomes = (!stays || !has_effect).then(|| operation_of(ctx, ground, result.as_ref()));
        // If no server would accept the policy's result, or if it is another document, the application decides.
        if becomes.as_ref().and_then(Option::as_ref).is_some_and(|write| !is_possible(ctx, key, write)) {
            return Ok(false);
        }
        judged.push((ground, becomes, result, stands_on, (base, mine)));
    }
    for (ground, becomes, result, stands_on, (base, mine)) in judged {
        let (key, theirs) = (&ground.key, &ground.theirs);
        let Some(op) = table.at(order).cloned() else { break };
        let id = &op.state.issued.id;
        if result != mine {
            doubt_mixed(table, id);
        }
        let standing = table.standing_on(id, key);
        let on_it = ground.expected.clone().or_else(|| op.expected_of(key).cloned());
        // If nothing remains of it on this document, those on top of it meet the one that it met.
        let expected = on_it.clone().filter(|_| matches!(becomes, Some(None)));
        match becomes {
            // It has the intended result as it is.
            None => {
                stand(table, order, (key, &ctx.memory.class_name(key)), ground.expected.clone(), stands_on);
            }
            Some(write) => {
                if let Some(write) = op.with_settled(key, write) {
                    issue_in_place(ctx, table, order, (key, on_it), write, stands_on, refused_at)?;
                } else {
                    let (v, replaces) = (refused_at.unwrap_or(0), table.give_up(ctx, order));
                    table.tell_end(ctx, id, replaces, Ok(v));
                    ctx.effects.push(Effect::Accepted { id: id.clone(), result: Ok((v, None)) });
                }
            }
        }
        // It may have been deleted before.
        let deleted = result.is_none().then(|| ground.deleted.clone().unwrap_or((base, theirs.clone())));
        next.extend(standing.into_iter().map(|order| Ground {
            order,
            key: key.clone(),
            theirs: result.clone(),
            expected: expected.clone(),
            deleted: deleted.clone(),
        }));
    }
    Ok(true)
}

/// The server's document stays, so the write is discarded. Those made on top of it meet the documents that it met.
fn discard(
    ctx: &mut Ctx,
    table: &mut PendingOps,
    op: &PendingOp,
    met: &[Ground],
    next: &mut Vec<Ground>,
) -> Result<()> {
    let id = &op.state.issued.id;
    let keys: SortedSet<&DocKey> = op.expected().map(|(key, _)| key).collect();
    for key in keys {
        let ground = met.iter().find(|ground| ground.key == *key);
        let theirs = match ground {
            Some(ground) => ground.theirs.clone(),
            None => op.base_of(&ctx.memory.class_name(key), &key.1).map(Data::to_map).transpose()?,
        };
        let expected = ground.and_then(|ground| ground.expected.clone());
        let deleted = ground.and_then(|ground| ground.deleted.clone());
        next.extend(table.standing_on(id, key).into_iter().map(|order| Ground {
            order,
            key: key.clone(),
            theirs: theirs.clone(),
            expected: expected.clone(),
            deleted: deleted.clone(),
        }));
    }
    let replaces = table.give_up(ctx, op.state.order);
    put_back(ctx, table, &op.state.drafts)?;
    let error = Error::new(Code::VersionConflict, "the server's document stays, by the class's policy");
    table.tell_end(ctx, id, replaces, Err(&error));
    ctx.effects.push(Effect::Accepted { id: id.clone(), result: Err(error) });
    Ok(())
}

fn data_of(state: Option<&State>) -> Result<Option<Data>> {
    state.map(Data::from_map).transpose()
}

/// The operation that gives the document of a ground that state. None if it has no effect: there is no document, and none is
/// to be.
fn operation_of(ctx: &Ctx, ground: &Ground, state: Option<&State>) -> Option<(&'static str, Value)> {
    let class = ctx.memory.class(ground.key.0);
    let (name, mut args) = operation_to(class, state.cloned(), ground.theirs.as_ref())?;
    // The version is set once it is issued: this one marks its place.
    args.insert("ifVersion".to_owned(), Value::from(0_i64));
    Some((name, Value::Map(args)))
}

/// Whether a server could accept the operation, and it is about that document.
fn is_possible(ctx: &Ctx, key: &DocKey, (name, args): &(&str, Value)) -> bool {
    let changes = changes_of(ctx.memory.schema(), name, args);
    args.is_within(VALUE_DEPTH_MAX)
        && changes.is_ok_and(|changes| changes.iter().flatten().all(|change| change.key == *key))
}

/// Whether an operation expects the version that an earlier one of the session gave, and the document is not
/// above it: nobody else has written the document since. A batch has the version of its latest document,
/// which is above that of the others.
fn is_unwritten_since(ctx: &Ctx, table: &PendingOps, op: &PendingOp, key: &DocKey, v: u64) -> bool {
    match op.expectation(key) {
        Some((IfVersion::At(expected), era)) => v < expected && era == Some(ctx.memory.epoch().1),
        Some((IfVersion::Of(id), _)) => {
            table.get(&id).and_then(|named| given_to(ctx, table, named, key)).is_some_and(|given| v <= given)
        }
        None => false,
    }
}

/// Nobody else wrote the document, so no policy is consulted. Either it is as it was when the operation was
/// made: the operation before it changed nothing, and the server gave that one no version that holds here,
/// though docs/protocol.md requires one. Or its version is lower than that of the earlier operation.
fn send_for_version(ctx: &mut Ctx, table: &mut PendingOps, order: u64, key: &DocKey, v: u64) -> Result<()> {
    let Issued { name, args, .. } = table[order].state.issued.clone();
    let base = table[order].base_of(&ctx.memory.class_name(key), &key.1).cloned();
    issue_in_place(ctx, table, order, (key, Some(IfVersion::At(v))), (name, args), base, Some(v))
}

/// Issues another operation in the place of one. They differ only in their effect on the document `key`,
/// whose state was `base` and whose version is `expected`. The server refused the first one at `refused_at`.
fn issue_in_place(
    ctx: &mut Ctx,
    table: &mut PendingOps,
    order: u64,
    (key, expected): (&DocKey, Option<IfVersion>),
    (name, args): (String, Value),
    base: Option<Data>,
    refused_at: Option<u64>,
) -> Result<()> {
    let id = crate::journal::make_id(ctx.clock.wall_ms, &mut *ctx.random)?;
    let class = ctx.memory.class_name(key);
    let op = &table[order].state.issued;
    let (old, after) = (op.id.clone(), op.after.clone());
    let (bases, policies) = (op.bases.clone(), op.policies.clone());
    let replaced = table.replace(order);
    let replaced_for = replaced.as_ref().map(|op| op.issued_for.clone()).unwrap_or_default();
    let write = Write { id: id.clone(), name, args, touches: Vec::new(), after };
    table.issue(ctx, write, order)?;
    if let (Some(op), Some(replaced)) = (table.get_mut(&id), &replaced) {
        op.insist(|change| replaced.insists_on(&change.key));
        op.take_given(replaced);
        (op.state.issued.bases, op.state.issued.policies) = (bases, policies);
        op.issued_for = replaced_for;
        op.issued_for.extend(refused_at.map(|v| (key.clone(), v)));
    }
    stand(table, order, (key, &class), expected, base);
    table.take_place(ctx, &id, replaced);
    table.follow(ctx, &old, Some(&id), None);
    ctx.effects.push(Effect::Amended { id: old, by: id });
    Ok(())
}

/// A write stands on that state of a document from now on, and expects that version of it, if one is given.
pub fn stand(
    table: &mut PendingOps,
    order: u64,
    (key, class): (&DocKey, &Name),
    expected: Option<IfVersion>,
    base: Option<Data>,
) {
    table.due.rewrite(order);
    if let Some(id) = expected.as_ref().and_then(IfVersion::of) {
        table.names(order, id);
    }
    let Some(op) = table.op_mut(order) else { return };
    op.set_base(class.clone(), &key.1, base);
    if let Some(expected) = expected {
        op.expect_of(key, &expected);
    }
}

/// It is not known here on which document a write will be executed. It expects a version that no document has:
/// the server refuses it and shows the document, on which the policy then judges it.
pub fn doubt(table: &mut PendingOps, order: u64, key: &DocKey) {
    table.due.rewrite(order);
    if let Some(op) = table.op_mut(order) {
        op.expect_of(key, &UNKNOWN);
    }
}

/// An operation names others that nobody knows any more, such as one that was amended in another session. Returns
/// false if the application made it depend on them.
pub fn doubt_named(table: &mut PendingOps, order: u64) -> bool {
    let op = &table[order];
    let named = op.expected().filter(|(_, expected)| expected.of().is_some());
    let keys: Vec<DocKey> = named.map(|(key, _)| key.clone()).collect();
    if keys.is_empty() || keys.iter().any(|key| op.insists_on(key)) {
        return false;
    }
    for key in &keys {
        doubt(table, order, key);
    }
    true
}

/// A policy has changed the result of the operation `id`. The application made batches with operations of its own
/// depend on its version: they would now be executed on a document that the application has not seen.
fn doubt_mixed(table: &mut PendingOps, id: &str) {
    for order in table.naming(id).collect::<Vec<_>>() {
        let op = table.op_mut(order).filter(|op| op.expected().next().is_none());
        if let Some(op) = op.filter(|op| op.expects(id)) {
            op.expect_instead(id, &|_| Some((UNKNOWN, None)));
            table.due.rewrite(order);
        }
    }
}
