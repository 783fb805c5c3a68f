//! Operations without the right to write. Nothing of them is kept but the last number of a session. Of sessions that have had
//! nothing else, a few numbers are kept: an account has a fixed room, however much it sends.

use escale::model::{Version, sha_s};
use escale::{Code, Result};

use crate::engine::caller::{Caller, NO_WRITES};
use crate::engine::operations::context::RequestContext;
use crate::engine::records::reader::{Reader, SESSIONS_MAX};
use crate::engine::records::system::{put_record, read_record};
use crate::engine::tx::outcome::Ran;
use crate::provider::{Session, Transaction};
use crate::seal::Seal;

/// Whether nothing is kept of an operation that ended so, and changed documents or not. The answer follows from the caller's
/// rights, and is found again when the operation comes again. A caller that may not write gets each answer again.
pub(in crate::engine) fn leaves_nothing((caller, level): (&Caller, u8), ran: &Ran, changed: bool) -> bool {
    let may_write = caller.may_write && level < NO_WRITES;
    match ran {
        Ok(_) => !may_write && !changed,
        Err(_) if !caller.may_write => true,
        Err(fault) => {
            let of_rights = [Code::Forbidden, Code::Blocked, Code::QuotaExceeded];
            let is_of_rights = of_rights.iter().any(|code| fault.code == code.as_str());
            (is_of_rights || !may_write) && !fault.kind.is_retryable()
        }
    }
}

/// Uses the number of an operation, if it is the session's next. A late copy of the request then finds it used, also once
/// the account may write (R11). Returns the last number of the session now, 0 without one, and whether that was written.
pub(in crate::engine) fn use_number(
    tx: &mut dyn Transaction,
    seal: &Seal,
    context: RequestContext,
    (seq, now): (u64, Version),
) -> Result<(u64, bool)> {
    let session = match tx.snapshot().session(context.org, context.session)? {
        Some(session) if session.seq + 1 == seq => session,
        None if seq == 1 && may_begin(tx, seal, context, now)? => {
            Session { account: context.caller.account.clone(), seq }
        }
        session => return Ok((session.map_or(0, |session| session.seq), false)),
    };
    tx.put_session(context.session, &Session { seq, ..session })?;
    Ok((seq, true))
}

/// Counts another session of the account, unless it has as many as are kept.
fn may_begin(tx: &mut dyn Transaction, seal: &Seal, context: RequestContext, now: Version) -> Result<bool> {
    let pk = sha_s(&context.caller.account);
    let found = read_record::<Reader>(tx.snapshot(), seal, (context.org, &pk))?;
    let sessions = found.map_or(0, |reader| reader.sessions);
    if sessions >= SESSIONS_MAX {
        return Ok(false);
    }
    put_record(tx, seal, (context.org, &pk, now), &Reader { sessions: sessions + 1 })?;
    Ok(true)
}
