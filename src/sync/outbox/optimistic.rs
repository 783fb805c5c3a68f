//! The overlay of pending operations. Their optimistic parts run again in order, on the newest documents from
//! the server, and their result is laid over these documents (docs/rules.md).
//!
//! The table keeps the work that is due. `stale` has the documents whose operations must run again, `fresh`
//! the operations just issued, and `tops` the result of all operations on each document.

use super::application::{self, Application, policy_of};
use super::conflicts::{UNKNOWN, is_rebased};
use super::retained::PinReading;
use super::table::PendingOps;
use super::table::trees::{given_to, hide_items};
use crate::codec::Data;
use crate::error::{Error, Result};
use crate::journal::{
    Action, ActionType, Change, ChangeKind, IfVersion, PendingOp, Policy, State, is_built_in,
};
use crate::memory::{Base, DocKey};
use crate::model::{SortedMap, SortedSet, Value};
use crate::sync::context::Ctx;

/// Passes in a row over the operations, as long as optimistic parts turn out to touch more documents.
const OPTIMISTIC_ROUNDS: usize = 8;

/// The overlay's own state.
#[derive(Default)]
pub struct Overlay {
    /// The number of the last action.
    pub last_rowid: i64,
    pub(super) pins: PinReading,
}

impl Overlay {
    /// Does the work that is due for operations after an event: optimistic parts, actions and the overlay.
    pub fn advance_writes(&mut self, ctx: &mut Ctx, table: &mut PendingOps, app: &dyn Application) {
        let touched = ctx.memory.pins.take_touched();
        table.unshown.note_all(touched);
        self.show_operations(ctx, table, app);
    }

    /// Updates the overlay to the current base and operations. An error in one operation concerns that one
    /// alone: the loop never ends early, which would leave the others outdated.
    pub fn show_operations(&mut self, ctx: &mut Ctx, table: &mut PendingOps, app: &dyn Application) {
        // A further pass follows if an optimistic part touched more documents. If the passes reach no end, the rest
        // waits for the next turn.
        for _ in 0..OPTIMISTIC_ROUNDS {
            if !table.is_unshown() {
                break;
            }
            self.go_through(ctx, table, app);
        }
        hide_items(ctx, table);
    }

    /// Makes one pass over the operations on stale documents, in order, and lays their result over the
    /// documents. Operations just issued continue from the result of the others.
    fn go_through(&mut self, ctx: &mut Ctx, table: &mut PendingOps, app: &dyn Application) {
        let (stale, fresh) = table.unshown.take();
        let stale = with_neighbours(table, stale);
        let mut orders: SortedSet<u64> = fresh.clone();
        orders.extend(stale.iter().flat_map(|key| table.orders_on(key)));
        let mut states: SortedMap<DocKey, Computed> = SortedMap::new();
        for key in
            stale.iter().chain(fresh.iter().filter_map(|order| table.at(*order)).flat_map(|op| &op.keys))
        {
            if states.contains_key(key) {
                continue;
            }
            let first = table.orders_on(key).next();
            let is_whole = stale.contains(key) || first.is_some_and(|first| fresh.contains(&first));
            let state = match (is_whole, table.unshown.top(key)) {
                (true, _) => base_state(ctx, key),
                (false, Some(state)) => Computed::State(state.clone()),
                (false, None) => Computed::NotYet,
            };
            states.insert(key.clone(), state);
        }
        let mut covered: SortedSet<DocKey> = SortedSet::new();
        for order in orders {
            run_optimistic_part(ctx, table, app, order, &mut states);
            self.prepare_op(ctx, table, app, order, &states);
            apply_op(ctx, table, order, &mut states, &mut covered);
        }
        for (key, state) in states {
            let is_covered =
                covered.contains(&key) || (!stale.contains(&key) && ctx.memory.shown(&key).is_some());
            if !is_covered {
                ctx.memory.unshow(&key);
            }
            let Computed::State(mut state) = state else {
                // Computed once its data has been read.
                table.unshown.forget_top(&key);
                continue;
            };
            if is_covered && ctx.memory.show(&key, state.as_ref()).is_err() {
                state = show_fitting(ctx, table, &key);
            }
            if table.orders_on(&key).next().is_some() {
                table.unshown.set_top(key, state);
            }
        }
    }

    /// Completes an operation once the state of its documents is known: sets the version that it expects, and
    /// its actions.
    fn prepare_op(
        &mut self,
        ctx: &mut Ctx,
        table: &mut PendingOps,
        app: &dyn Application,
        order: u64,
        states: &SortedMap<DocKey, Computed>,
    ) {
        let op = &table[order];
        if op.prepared || op.with.as_ref().is_some_and(|id| is_ahead(table, op, id)) {
            return;
        }
        let Some(changes) = op.changes.clone() else { return };
        let is_computed = |key: &DocKey| matches!(states.get(key), Some(Computed::State(_)));
        if !op.keys.iter().all(is_computed) {
            return;
        }
        if is_built_in(&op.state.issued.name, &op.state.issued.args) {
            note_policies(ctx, table, app, order, &changes);
            let mut visited: SortedSet<&DocKey> = SortedSet::new();
            for (index, change) in
                changes.iter().enumerate().filter(|(_, change)| visited.insert(&change.key))
            {
                if ctx.memory.class(change.key.0).is_local() {
                    continue;
                }
                let before = match &states[&change.key] {
                    // Without a base, the application must resolve a conflict.
                    Computed::State(Some(before)) => Data::from_map(before).ok(),
                    Computed::State(None) | Computed::NotYet => None,
                };
                pin_expected_version(ctx, table, app, order, (index, change), before);
            }
        }
        let (actions, error) = match self.actions_of(ctx, &changes, states) {
            Ok(actions) => (actions, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        let op = table.op_mut(order).expect("the operation is there");
        op.actions = actions;
        op.prepared = true;
        let parts = op.with.clone().filter(|id| *id == op.state.issued.id);
        table.due.rewrite(order);
        if let Some(parts) = parts {
            let of_it = table.iter().filter(|op| op.with.as_ref() == Some(&parts));
            for order in of_it.map(|op| op.state.order).collect::<Vec<_>>() {
                table.op_mut(order).expect("listed").prepared = true;
                table.due.rewrite(order);
            }
        }
        if let Some(error) = error {
            refuse_unsent(ctx, table, order, error);
        }
    }

    /// The effect of changes on each document, as actions. Errors: `too_large`.
    fn actions_of(
        &mut self,
        ctx: &mut Ctx,
        changes: &[Change],
        states: &SortedMap<DocKey, Computed>,
    ) -> Result<Vec<Action>> {
        let at = ctx.clock.wall_ms;
        let mut actions: Vec<Action> = Vec::new();
        let mut visited: SortedSet<&DocKey> = SortedSet::new();
        for Change { key, .. } in changes {
            let Computed::State(before) = &states[key] else { continue };
            // The journal has one record of a local document: its last put.
            if ctx.memory.class(key.0).is_local() || !visited.insert(key) {
                continue;
            }
            let of_it = changes.iter().filter(|change| change.key == *key);
            let after = of_it.fold(before.clone(), |state, change| change.kind.apply(state));
            let begins = before.is_none() && after.is_some();
            let data = after.as_ref().map(Data::from_map).transpose()?;
            for (kind, data) in [
                (if begins { ActionType::Create } else { ActionType::Update }, None),
                (ActionType::Persist, data),
            ] {
                self.last_rowid += 1;
                let (rowid, class, pk) = (self.last_rowid, ctx.memory.class_name(key), key.1.clone());
                actions.push(Action { rowid, class, pk, kind, at, commit: None, data });
            }
        }
        Ok(actions)
    }
}

/// Notes the policies of an operation that this session issues. One that comes from another tab has those of that tab.
fn note_policies(ctx: &Ctx, table: &mut PendingOps, app: &dyn Application, order: u64, changes: &[Change]) {
    let Some(op) = table.op_mut(order).filter(|op| !op.is_taken_in && op.state.issued.policies.is_none())
    else {
        return;
    };
    for change in changes {
        let class = ctx.memory.class(change.key.0);
        let policy = app.policy(class.name());
        if !class.is_local() && policy != Policy::Overwrite {
            let policies = op.state.issued.policies.get_or_insert_default();
            policies.insert(class.name().to_string(), Value::from(policy.name()));
        }
    }
}

/// Whether the operation of this id is not prepared yet, of which this other one is a part: they are saved together.
fn is_ahead(table: &PendingOps, op: &PendingOp, id: &str) -> bool {
    op.state.issued.id != id && table.get(id).is_some_and(|whole| !whole.prepared)
}

/// The subscriptions of a class have changed: its overlaid documents may belong to other defs now.
pub fn show_again(ctx: &mut Ctx, table: &mut PendingOps, def: &crate::model::Def) {
    let Some(position) = ctx.memory.schema().position(def.class()) else { return };
    let shown = table.keys().filter(|(class, _)| usize::from(*class) == position);
    let shown: Vec<DocKey> = shown.cloned().collect();
    table.unshown.note_all(shown);
}

/// The operations on a document, taken together, exceed the maximum size: the document has grown under
/// them. Those that exceed it are refused and not shown. If the server may already have one of them, the
/// server decides.
fn show_fitting(ctx: &mut Ctx, table: &mut PendingOps, key: &DocKey) -> Option<State> {
    let Computed::State(mut state) = base_state(ctx, key) else { return None };
    let orders: Vec<u64> = table.orders_on(key).collect();
    for order in orders {
        let op = &table[order];
        if !is_shown_on(ctx, table, op, key) {
            continue;
        }
        let steps = op.steps_on(key, table.tree_of(key));
        let after = steps.fold(state.clone(), |state, step| step.apply(state));
        match after.as_ref().map(Data::from_map).transpose() {
            Ok(_) => state = after,
            Err(error) => refuse_unsent(ctx, table, order, error),
        }
    }
    if let Err(error) = ctx.memory.show(key, state.as_ref()) {
        ctx.errors.report(error);
    }
    state
}

/// An operation makes a document larger than the maximum: no server would take it. If it may have been
/// sent, it waits for the answer, since it may be executed. The results of the application's own
/// functions are the application's responsibility.
fn refuse_unsent(ctx: &mut Ctx, table: &mut PendingOps, order: u64, error: Error) {
    let op = &table[order];
    if op.may_be_sent() || !op.is_waiting() || !is_built_in(&op.state.issued.name, &op.state.issued.args) {
        ctx.errors.report(error);
        return;
    }
    table.refuse_here(ctx, order, error);
}

/// The stale documents, and all documents connected to them by operations on several documents.
fn with_neighbours(table: &PendingOps, mut stale: SortedSet<DocKey>) -> SortedSet<DocKey> {
    let mut queue: Vec<DocKey> = stale.iter().cloned().collect();
    while let Some(key) = queue.pop() {
        for other in table.on(&key).flat_map(|op| &op.keys) {
            if stale.insert(other.clone()) {
                queue.push(other.clone());
            }
        }
    }
    stale
}

/// Whether an operation's effect is laid over a document.
pub fn is_shown_on(ctx: &Ctx, table: &PendingOps, op: &PendingOp, key: &DocKey) -> bool {
    let base = ctx.memory.document(key).map(|document| document.at);
    op.is_shown_on(key, base, (given_to(ctx, table, op, key), ctx.memory.epoch().1))
}

/// A document as received from the server.
fn base_state(ctx: &Ctx, key: &DocKey) -> Computed {
    match ctx.memory.base(key) {
        Base::Known(state) => Computed::State(Some(state)),
        Base::Absent | Base::Deleted | Base::Lost => Computed::State(None),
        Base::AtRest => Computed::NotYet,
    }
}

/// Runs the application's optimistic part on the result of the operations before it.
fn run_optimistic_part(
    ctx: &mut Ctx,
    table: &mut PendingOps,
    app: &dyn Application,
    order: u64,
    states: &mut SortedMap<DocKey, Computed>,
) {
    let op = &table[order];
    if op.state.refused.is_some() || is_built_in(&op.state.issued.name, &op.state.issued.args) {
        return;
    }
    let mut touched: Vec<DocKey> = Vec::new();
    // Documents that the part reads in addition, and that no later operation touches. It reads the result
    // of the earlier operations.
    let mut joined: Vec<(DocKey, Computed)> = Vec::new();
    let mut is_complete = true;
    let mut read = |key: &DocKey| {
        let computed =
            states.get(key).or_else(|| joined.iter().find(|(joined, _)| joined == key).map(|(_, s)| s));
        let elsewhere;
        let state = if let Some(state) = computed {
            state
        } else {
            let top = top(ctx, table, key, order);
            joined.extend(top.iter().map(|state| (key.clone(), state.clone())));
            elsewhere = top.unwrap_or_else(|| state_before(ctx, table, key, order));
            &elsewhere
        };
        touched.push(key.clone());
        match state {
            Computed::State(state) => state.clone(),
            Computed::NotYet => {
                is_complete = false;
                None
            }
        }
    };
    let issued = (op.state.issued.name.as_str(), &op.state.issued.args);
    let ran = application::run(app, ctx.memory.schema(), issued, &mut read);
    let is_blind = ran.is_blind;
    // An exception in the application's function concerns the display alone: the operation is still sent.
    let changes = ran.changes.unwrap_or_else(|error| {
        ctx.errors.report(error);
        Vec::new()
    });
    for (key, state) in joined {
        table.touch(ctx, order, &key);
        states.insert(key, state);
    }
    touched.extend(changes.iter().map(|change| change.key.clone()));
    touch(ctx, table, order, touched);
    if is_complete {
        table.change(order, changes, is_blind);
    }
}

/// Applies an operation's changes to the documents whose base does not contain them already.
fn apply_op(
    ctx: &Ctx,
    table: &PendingOps,
    order: u64,
    states: &mut SortedMap<DocKey, Computed>,
    covered: &mut SortedSet<DocKey>,
) {
    let op = &table[order];
    for change in op.changes.iter().flatten() {
        for key in std::iter::once(&change.key).chain(&op.covers) {
            let step = change.on(key, table.tree_of(key));
            let Some(step) = step.filter(|_| is_shown_on(ctx, table, op, key)) else { continue };
            if !covered.contains(key) {
                covered.insert(key.clone());
            }
            match states.get_mut(key) {
                Some(Computed::State(state)) => *state = step.apply(state.take()),
                // An item that is deleted with its parent: its data need not be read.
                Some(state) if *key != change.key => *state = Computed::State(None),
                _ => {}
            }
        }
    }
}

/// Adds these documents to those that an operation touches.
fn touch(ctx: &mut Ctx, table: &mut PendingOps, order: u64, keys: Vec<DocKey>) {
    for key in keys {
        if table.touch(ctx, order, &key) {
            table.unshown.note(key);
        }
    }
}

/// The result of all operations on a document, if `order` comes after them all.
fn top(ctx: &Ctx, table: &PendingOps, key: &DocKey, order: u64) -> Option<Computed> {
    if table.unshown.is_stale(key) {
        return None;
    }
    match table.orders_on(key).next_back() {
        None => Some(base_state(ctx, key)),
        Some(last) if last < order => table.unshown.top(key).cloned().map(Computed::State),
        Some(_) => None,
    }
}

/// A document as it is before the operation of that order.
pub fn state_before(ctx: &Ctx, table: &PendingOps, key: &DocKey, order: u64) -> Computed {
    let Computed::State(mut state) = base_state(ctx, key) else { return Computed::NotYet };
    for op in table.on_before(key, order).filter(|op| is_shown_on(ctx, table, op, key)) {
        for step in op.steps_on(key, table.tree_of(key)) {
            state = step.apply(state);
        }
    }
    Computed::State(state)
}

/// If the policy of its class is not `Overwrite`, an operation expects the version that it was made on. It also
/// keeps the document's state at that time, earlier operations included. In a batch, the first operation on
/// each document expects the version.
fn pin_expected_version(
    ctx: &mut Ctx,
    table: &mut PendingOps,
    app: &dyn Application,
    order: u64,
    (index, change): (usize, &Change),
    before: Option<Data>,
) {
    let class = ctx.memory.class_name(&change.key);
    match change.if_version {
        Some(IfVersion::At(_)) => return,
        // The operation named here may change nothing. The kept state then shows that a conflict with it
        // is not a real one.
        Some(IfVersion::Of(_)) => {
            let op = table.op_mut(order).expect("the operation is there");
            return op.keep_base(class, &change.key.1, before);
        }
        None if table[order].is_taken_in || policy_of(app, &table[order], &class) == Policy::Overwrite => {
            return;
        }
        None => {}
    }
    // An operation that only read the document gives it no version.
    let writes = |op: &&PendingOp| is_shown_on(ctx, table, op, &change.key) && op.may_write(&change.key);
    // A patch of a document that is not held: the result is on the server alone, and a put was made without it.
    let is_blind = |op: &PendingOp| {
        let is_patch = op
            .changes_on(&change.key)
            .next_back()
            .is_some_and(|last| matches!(last.kind, ChangeKind::Patch { .. }));
        is_patch && before.is_none() && matches!(change.kind, ChangeKind::Put(_))
    };
    let expected = match table.on_before(&change.key, order).rfind(writes) {
        // That one is executed on any document: nobody knows its result here.
        Some(op)
            if (op.expected_of(&change.key).is_none() || is_blind(op))
                && is_rebased(ctx, app, &table[order], &change.key) =>
        {
            UNKNOWN
        }
        Some(op) => IfVersion::Of(op.state.issued.id.clone()),
        None => IfVersion::At(ctx.memory.document(&change.key).map_or(0, |document| document.at.v)),
    };
    let op = table.op_mut(order).expect("the operation is there");
    op.keep_base(class, &change.key.1, before);
    table.expect(order, index, expected);
}

/// A document's state, or `NotYet` if its base is still to be read.
#[derive(Clone)]
pub enum Computed {
    State(Option<State>),
    NotYet,
}
