//! Tells the application of this session about operations that the leader carries out.

use crate::error::{Code, Error, Result};
use crate::journal::{OpId, Outcome, PendingOp};
use crate::model::Value;
use crate::sync::context::Ctx;
use crate::sync::message::{Effect, error_of, error_of_outcome};

/// Tells the application how an operation ended, as far as this session knows.
pub fn tell_outcome(ctx: &mut Ctx, id: &OpId, old: Option<&PendingOp>, outcome: Option<Outcome>) {
    tell_saved(ctx, id, old);
    let Some(old) = old.filter(|old| old.state.accepted.is_none()) else { return };
    let fault = old.state.refused.as_ref().filter(|_| old.state.issued.id == *id);
    let result = match (outcome, fault) {
        (Some(outcome @ Outcome::Accepted { .. }), _) | (Some(outcome), None) => result_of(outcome),
        // Later writes of local documents have taken its record over.
        (None, None) if old.is_local() => Ok((0, None)),
        // Discarded by the application.
        (_, Some(fault)) => Err(error_of(fault)),
        (None, None) => Err(Error::new(Code::Forgotten, "nothing tells any more how the operation ended")),
    };
    ctx.effects.push(Effect::Accepted { id: id.clone(), result });
}

/// The end of an operation, for the application.
pub fn result_of(outcome: Outcome) -> Result<(u64, Option<Value>)> {
    match outcome {
        Outcome::Accepted { v, value } => Ok((v, value)),
        Outcome::Failed(code, detail) => Err(error_of_outcome(&code, &detail)),
    }
}

/// Tells the application how an operation's state differs from the state that it knows.
pub fn tell_news(ctx: &mut Ctx, old: Option<&PendingOp>, op: &PendingOp) {
    let id = op.state.issued.id.clone();
    let before = old.map(|old| &old.state);
    tell_saved(ctx, &id, old);
    // A later write may have taken its place here, before a device that failed had written it.
    if old.is_none() && op.is_local() {
        ctx.effects.push(Effect::Saved { id: id.clone() });
    }
    if let Some(v) = op.state.accepted.filter(|_| before.is_none_or(|old| old.accepted.is_none())) {
        let result = Ok((v, op.state.value.clone()));
        ctx.effects.push(Effect::Accepted { id: id.clone(), result });
    }
    if let Some(fault) = &op.state.refused
        && before.is_none_or(|old| old.refused.is_none())
    {
        ctx.effects.push(Effect::Refused { id, error: error_of(fault) });
    }
}

/// Tells the application that another operation has taken the place of this one.
pub fn tell_replaced(ctx: &mut Ctx, old: &PendingOp, by: &OpId) {
    let id = old.state.issued.id.clone();
    tell_saved(ctx, &id, Some(old));
    ctx.effects.push(Effect::Amended { id, by: by.clone() });
}

/// Reports an operation as saved if it was not reported yet: its batch was said to have failed, and was
/// written nevertheless.
fn tell_saved(ctx: &mut Ctx, id: &OpId, old: Option<&PendingOp>) {
    if old.is_some_and(|old| !old.saved) {
        ctx.effects.push(Effect::Saved { id: id.clone() });
    }
}
