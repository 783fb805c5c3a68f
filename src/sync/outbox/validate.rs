//! Validates operations at the call: those that no server would take are rejected by name, before anything is
//! written.
//!
//! Only certain errors are rejected here. A document that is not read yet, or that this session does not
//! hold, may allow an operation that seems impossible.

use super::local::refuse_local;
use super::optimistic::is_shown_on;
use super::table::PendingOps;
use crate::codec::{Data, Format, encode};
use crate::error::{Code, Error, Result, fail};
use crate::journal::{Change, ChangeKind, IfVersion, PendingOp, State, changes_of, is_built_in};
use crate::limits::{
    LOCAL_BYTES_MAX, LOCAL_DOCUMENTS_MAX, NAME_CHARS_MAX, OPERATION_BYTES_MAX, VALUE_DEPTH_MAX,
};
use crate::memory::{Base, DocKey};
use crate::model::{SortedMap, Value};
use crate::sync::context::Ctx;

/// The knowledge about a document at an operation's position.
enum Knowledge {
    /// None: only the server has the document, or it is not read yet.
    Nothing,
    Deleted,
    Holds(State),
}

impl Knowledge {
    /// The knowledge after a change, whether or not the change is possible.
    fn after(self, kind: &ChangeKind) -> Self {
        match (kind, self) {
            (ChangeKind::Put(state), _) => Knowledge::Holds(state.clone()),
            (ChangeKind::Delete, _) => Knowledge::Deleted,
            (patch, Knowledge::Holds(state)) => {
                patch.apply(Some(state)).map_or(Knowledge::Nothing, Knowledge::Holds)
            }
            (ChangeKind::Patch { .. }, knowledge) => knowledge,
        }
    }
}

/// Checks whether an operation can be issued: named errors before anything is written.
pub fn check_write(ctx: &Ctx, table: &PendingOps, name: &str, args: &Value) -> Result<()> {
    check_at(ctx, table, name, args, u64::MAX)
}

/// Checks whether a refused operation can be issued again in its place, with the same arguments or
/// others. Errors: `not_found`, and those of [`check_write`].
pub fn check_amendment(ctx: &Ctx, table: &PendingOps, id: &str, args: Option<&Value>) -> Result<()> {
    let (op, _) = table.refused_op(id)?;
    check_at(ctx, table, &op.state.issued.name, args.unwrap_or(&op.state.issued.args), op.state.order)
}

/// Checks whether an operation is possible at that position in the order.
fn check_at(ctx: &Ctx, table: &PendingOps, name: &str, args: &Value, order: u64) -> Result<()> {
    if name.is_empty() || name.len() > NAME_CHARS_MAX {
        return fail(Code::BadOption, "an operation's name has 1 to 64 characters");
    }
    if !args.is_within(VALUE_DEPTH_MAX) {
        return fail(Code::TooDeep, format!("arguments nest {VALUE_DEPTH_MAX} deep at most"));
    }
    let changes = changes_of(ctx.memory.schema(), name, args)?.unwrap_or_default();
    let bytes = encode(Format::Msgpack, args)?.len();
    if bytes > OPERATION_BYTES_MAX {
        let most = OPERATION_BYTES_MAX;
        return fail(Code::TooLarge, format!("an operation of {bytes} bytes, {most} at most"));
    }
    if order < u64::MAX {
        refuse_local(ctx.memory.schema(), name, args)?;
    }
    // The effect of the application's own operations on the documents of a batch is known only when they
    // run. They have none on local documents.
    let is_known = is_built_in(name, args);
    let known = changes.into_iter().filter(|change| is_known || is_local(ctx, &change.key));
    check_outcome(ctx, table, &known.collect::<Vec<_>>(), order)
}

/// Goes through the changes in order, each on the result of those before it.
fn check_outcome(ctx: &Ctx, table: &PendingOps, changes: &[Change], order: u64) -> Result<()> {
    let mut states: SortedMap<&DocKey, Knowledge> = SortedMap::new();
    for change in changes {
        let parent = change.tree.as_ref().filter(|tree| **tree != change.key);
        let is_ended = |parent: &DocKey| match states.get(parent) {
            Some(known) => matches!(known, Knowledge::Deleted),
            None => matches!(knowledge_before(ctx, table, parent, order), Knowledge::Deleted),
        };
        if parent.is_some_and(is_ended) {
            return Err(Error::new(
                Code::NotFound,
                "the parent of this item is deleted: put the parent first",
            ));
        }
        let is_of_local = |expected: &IfVersion| {
            is_local(ctx, &change.key)
                || matches!(expected, IfVersion::Of(id) if table.get(id).is_some_and(PendingOp::is_local))
        };
        if change.if_version.as_ref().is_some_and(is_of_local) {
            return fail(
                Code::BadOption,
                "a local document has no version: `ifVersion` is neither for its writes nor names one",
            );
        }
        let before =
            states.remove(&change.key).unwrap_or_else(|| knowledge_before(ctx, table, &change.key, order));
        if matches!(
            (&before, &change.kind),
            (Knowledge::Deleted, ChangeKind::Patch { .. } | ChangeKind::Delete)
        ) {
            return Err(Error::new(
                Code::NotFound,
                "there is no document, or it is deleted: only a put restores it",
            ));
        }
        let after = before.after(&change.kind);
        if let (Knowledge::Holds(state), ChangeKind::Patch { .. }) = (&after, &change.kind) {
            Data::from_map(state)?;
        }
        states.insert(&change.key, after);
    }
    check_room(ctx, table, &states)
}

fn is_local(ctx: &Ctx, key: &DocKey) -> bool {
    ctx.memory.class(key.0).is_local()
}

/// Checks whether the device has room for local documents in these states (R29).
fn check_room(ctx: &Ctx, table: &PendingOps, states: &SortedMap<&DocKey, Knowledge>) -> Result<()> {
    let (mut documents, mut bytes) = (0, 0);
    for (_, known) in states.iter().filter(|(key, _)| is_local(ctx, key)) {
        if let Knowledge::Holds(state) = known {
            documents += 1;
            bytes += encode(Format::Msgpack, state)?.len();
        }
    }
    if documents == 0 {
        return Ok(());
    }
    for op in table.iter().filter(|op| op.is_local() && !op.is_local_end()) {
        if !op.keys.iter().any(|key| states.contains_key(key)) {
            documents += 1;
            bytes += op.local.unwrap_or_default();
        }
    }
    if documents > LOCAL_DOCUMENTS_MAX || bytes > LOCAL_BYTES_MAX {
        let most = format!("local documents: {LOCAL_DOCUMENTS_MAX} of {LOCAL_BYTES_MAX} bytes at most");
        return fail(Code::TooLarge, most);
    }
    Ok(())
}

/// The knowledge about a document before that position in the order.
fn knowledge_before(ctx: &Ctx, table: &PendingOps, key: &DocKey, order: u64) -> Knowledge {
    if order == u64::MAX
        && !is_local(ctx, key)
        && let Some(Some(state)) = table.unshown.top(key)
    {
        return Knowledge::Holds(state.clone());
    }
    let base = match ctx.memory.base(key) {
        Base::Known(state) => Knowledge::Holds(state),
        Base::Deleted => Knowledge::Deleted,
        // Nobody else has it.
        Base::Absent if is_local(ctx, key) => Knowledge::Deleted,
        Base::Absent | Base::AtRest | Base::Lost => Knowledge::Nothing,
    };
    let ops = table.on_before(key, order).filter(|op| is_shown_on(ctx, table, op, key));
    let steps = ops.flat_map(|op| op.steps_on(key, table.tree_of(key)));
    steps.fold(base, Knowledge::after)
}
