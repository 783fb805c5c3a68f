//! Sessions of accounts that may not write. Nothing of their operations is kept but the last number of a session, and that of
//! a few sessions only: an account has a fixed room, however much it sends.

use escale::Result;
use escale::codec::Data;
use escale::model::{Value, Version, sha_s};

use crate::engine::operate::Asking;
use crate::engine::operation::Properties;
use crate::provider::{Document, Place, Session, Shown, Transaction};
use crate::seal::Seal;

/// Sessions of an account whose numbers are kept though it may not write.
const SESSIONS_MAX: i64 = 16;

/// The class of the records that count them.
const READERS: &str = "#reader";

/// Uses the number of an operation, if it is the session's next. A late copy of the request then finds it used, also once
/// the account may write (R11). Returns the last number of the session now, 0 without one, and whether that was written.
pub(in crate::engine) fn use_number(
    tx: &mut dyn Transaction,
    seal: &Seal,
    asking: Asking,
    (seq, now): (u64, Version),
) -> Result<(u64, bool)> {
    let session = match tx.session(asking.org, asking.session)? {
        Some(session) if session.seq + 1 == seq => session,
        None if seq == 1 && may_begin(tx, seal, asking, now)? => {
            Session { account: asking.caller.account.clone(), seq }
        }
        session => return Ok((session.map_or(0, |session| session.seq), false)),
    };
    tx.put_session(asking.session, &Session { seq, ..session })?;
    Ok((seq, true))
}

/// Counts another session of the account, unless it has as many as are kept.
fn may_begin(tx: &mut dyn Transaction, seal: &Seal, asking: Asking, now: Version) -> Result<bool> {
    let pk = sha_s(&asking.caller.account);
    let at = Place { org: asking.org, class: READERS, pk: &pk };
    let count = match tx.document(at)? {
        None => 0,
        Some(document) => {
            let map = Data::from_bytes(&seal.open(at, document.v, &document.data)?)?.to_map()?;
            map.get("sessions").and_then(Value::as_u64).map_or(SESSIONS_MAX, |n| n as i64)
        }
    };
    if count >= SESSIONS_MAX {
        return Ok(false);
    }
    let map = Properties::from([("sessions".to_owned(), Value::from(count + 1))]);
    let data = seal.close(at, now, Data::from_map(&map)?.as_bytes())?;
    let shown = Shown::default();
    tx.put_document(at, &Document { v: now, deleted: false, max_life: None, ttl: None, shown, data })?;
    Ok(true)
}
