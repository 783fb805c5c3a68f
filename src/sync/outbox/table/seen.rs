//! Which effects of operations the documents from the server show already (R12).

use super::PendingOps;
use super::issue::unpin;
use crate::journal::{OpId, PendingOp};
use crate::memory::DocKey;
use crate::model::{Def, SortedMap, SortedSet};
use crate::sync::context::Ctx;
use crate::sync::facts::EffectsShown;

impl PendingOps {
    /// Whether an operation was sent under one number only.
    pub fn has_one_number(&self, id: &str) -> bool {
        self.get(id).is_some_and(|op| !op.has_other_numbers)
    }

    /// Those of these documents that pending operations touch.
    pub fn touched(&self, keys: Vec<DocKey>) -> Vec<DocKey> {
        keys.into_iter().filter(|key| self.by_key.contains_key(key)).collect()
    }

    /// Whether one of the operations of these orders touches one of these documents.
    pub fn touches_any(&self, keys: &[DocKey], orders: &SortedSet<u64>) -> bool {
        keys.iter().any(|key| self.on(key).any(|op| orders.contains(&op.state.order)))
    }

    /// Whether an operation on these documents may be executed under other numbers.
    pub fn is_any_renumbered(&self, keys: &[DocKey]) -> bool {
        keys.iter().any(|key| self.on(key).any(|op| op.has_other_numbers))
    }

    /// The operations of a request that were executed.
    pub fn executed(&self, sent: &[(OpId, u64)]) -> impl Iterator<Item = &PendingOp> {
        sent.iter().filter_map(|(id, _)| self.get(id)).filter(|op| op.state.accepted.is_some())
    }

    /// The operations that may have been executed under other numbers, and that the reply has not decided:
    /// its parts may contain their effects or not. A probed operation is in doubt until the server has said whether it
    /// was executed: the answer to a probe may leave that open. Operations blocked behind a refused one were not
    /// executed.
    pub fn in_doubt(&self, decided: &SortedSet<OpId>) -> SortedSet<u64> {
        let waiting = self.waiting.iter().map(|order| &self.ops[order]);
        let mut in_doubt: Vec<&PendingOp> = waiting
            .filter(|op| {
                op.unsendable.is_some() || (op.has_other_numbers && !decided.contains(&op.state.issued.id))
            })
            .collect();
        if !in_doubt.is_empty() {
            let held = self.held();
            in_doubt.retain(|op| !held.contains(&op.state.issued.id));
        }
        in_doubt.into_iter().map(|op| op.state.order).collect()
    }

    /// Ends the operations that the server has accepted and whose effects are shown by every def.
    pub fn end_seen(&mut self, ctx: &mut Ctx) {
        let is_over = |op: &PendingOp| {
            op.state.accepted.is_some() && op.awaits.as_ref().is_some_and(SortedSet::is_empty)
        };
        let over: Vec<u64> = self.ops.iter().filter(|(_, op)| is_over(op)).map(|(order, _)| *order).collect();
        for order in over {
            let Some(op) = self.remove(order) else { continue };
            unpin(ctx, &op);
            self.end(op);
        }
    }
}

/// A message reflects the session's operations up to `seq`. The documents in `rows` contain the effects of
/// these operations, so the overlays on these documents are dropped. `whole` are the defs that the message
/// shows completely. Once every def that must show the effect of an operation has been shown so, its overlay
/// is dropped on all documents (R12). A push shows no def completely, and decides nothing about operations
/// whose numbers are in doubt. Only a reply decides about them, because it has their results.
pub fn effects_seen(
    ctx: &mut Ctx,
    table: &mut PendingOps,
    seq: u64,
    whole: Option<&SortedMap<Def, EffectsShown>>,
    rows: &SortedSet<DocKey>,
) {
    let era = ctx.memory.epoch().1;
    for (order, op) in table.ops.iter_mut() {
        if op.has_other_numbers || op.seq.or(op.state.seq).is_none_or(|own| own > seq) {
            continue;
        }
        let Some(mut awaits) = op.awaits.take() else { continue };
        awaits.retain(|def| !whole.and_then(|whole| whole.get(def)).is_some_and(|effects| effects.shows(op)));
        let shown_on: Vec<DocKey> = op.shown_on().filter(|key| rows.contains(*key)).cloned().collect();
        for key in &shown_on {
            if op.seen_on.insert(key.clone(), era) != Some(era) {
                // Stored in the same batch as the base that contains the effect; otherwise a restart
                // would show it twice.
                op.state.seen_on.push((ctx.memory.class_name(key), key.1.clone(), era.into()));
                table.due.rewrite(*order);
                table.unshown.note(key.clone());
            }
        }
        if awaits.is_empty() && op.state.seen != Some(era) && op.state.refused.is_none() {
            op.state.seen = Some(era);
            table.due.rewrite(*order);
            table.unshown.note_all(op.shown_on().cloned());
        }
        op.awaits = Some(awaits);
    }
    table.end_seen(ctx);
}

/// A subscription has ended: no pull of its def will show an effect.
pub fn await_no_more(ctx: &mut Ctx, table: &mut PendingOps, def: &Def) {
    for op in table.ops.values_mut() {
        if let Some(awaits) = &mut op.awaits {
            awaits.remove(def);
        }
    }
    table.end_seen(ctx);
}
