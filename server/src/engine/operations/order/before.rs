//! The rules of order: which operation may run next (R11, R12).

use escale::codec::{Fault, Op};
use escale::{Code, Result};

use crate::engine::operations::context::RequestContext;
use crate::engine::operations::order::past_operation::{PastOperation, is_of_another_name, past_operation};
use crate::provider::{Session, Snapshot, Transaction};

/// The state of an operation before it runs.
pub(in crate::engine) enum Before {
    /// Already executed or refused. `is_next` says whether its number is the session's next one.
    Past { past: PastOperation, is_next: bool },
    /// Refused without a trace: it is not executed, and nothing is recorded.
    Refused(Fault),
    /// It is the session's next.
    Next,
    /// Its number is used, and its id is not known: it may be one of which nothing was kept.
    Used,
}

/// Applies the rules of order (R11). A known id gets its stored result. Otherwise only the session's next
/// operation may run: the one after the last number, or after those that the request has used and of which nothing was kept.
///
/// A caller that may not write has no order: nothing of its operations is kept, so the answer does not depend on numbers.
pub(in crate::engine) fn before(
    snapshot: &dyn Snapshot,
    context: RequestContext,
    (op, passed): (&Op, u64),
) -> Result<Before> {
    let RequestContext { org, caller, session, .. } = context;
    let refused = |code, what: &str| Ok(Before::Refused(Fault::new(code, what)));
    let held = snapshot.session(org, session)?;
    let has_row = held.is_some();
    let last = match held {
        // Not `forbidden`: another account that used the name first must not lock this session out. It takes
        // a new name.
        Some(held) if held.account != caller.account => {
            return refused(Code::SessionReused, "the session's name belongs to another account");
        }
        Some(held) => held.seq,
        // The numbers of a session of which nothing is kept are used within the request.
        None if caller.may_write => passed,
        None => 0,
    };
    let is_next = op.seq == last + 1 && (caller.may_write || has_row);
    if let Some(past) = past_operation(snapshot, org, &caller.account, &op.id)? {
        if is_of_another_name(&past, op) {
            return refused(Code::BadValue, "the id is that of an operation of another name");
        }
        return Ok(Before::Past { past, is_next });
    }
    if !caller.may_write {
        return Ok(Before::Next);
    }
    if op.seq > last + 1 {
        let what = format!("operation {} after {last}", op.seq);
        return refused(Code::OrderGap, &what);
    }
    if !is_next {
        return Ok(Before::Used);
    }
    if let Some(after) = &op.after
        && past_operation(snapshot, org, &caller.account, after)?.is_none_or(|earlier| earlier.v().is_none())
    {
        return refused(Code::OrderHeld, "the operation that `after` names was refused, or is not known");
    }
    Ok(Before::Next)
}

/// Records the number of the session's last operation.
pub(in crate::engine) fn put_seq(tx: &mut dyn Transaction, context: RequestContext, seq: u64) -> Result<()> {
    let account = context.caller.account.clone();
    tx.put_session(context.session, &Session { account, seq })
}
