//! Rights in the engine (R86): reads are decided in the snapshot of a reply, writes in their transaction, and the
//! application's own functions may refuse more. Also the records behind them: counters, and those of accounts.
//!
//! A schema without rights costs nothing here: each question begins with a look into a map that is empty.

mod accounts;
mod gone;
mod hooks;
mod kept;
mod quotas;
mod read;
pub(super) mod restrictions;
mod write;

pub use accounts::{ACCOUNT_IDS, ACCOUNTS, ROLES, put_account};
pub(super) use accounts::{account_of, is_login};
pub use hooks::{Ask, DocumentChange, Hooks, NewAccount, Verdict};
pub use kept::{KeptWrite, read_kept, read_kept_or_like, site_secret, write_kept};
pub use quotas::Counter;
pub(super) use quotas::{
    COUNTERS, Counted, Counters, differ, get, lacks_files, put_counter, read_counter, set, stored_counter,
};
pub(super) use read::Reads;
pub use read::{Access, Decision, Readable};

use escale::model::Value;

use super::operation::Properties;
use super::pull::Caller;
use crate::rights::Asker;

/// The caller, as rules see it.
fn asker(caller: &Caller) -> Asker<'_> {
    Asker { account: &caller.account, is_admin: caller.is_admin }
}

/// The minute at which the life of a document ends; none if it has no end.
fn end_of(document: &Properties) -> Option<u64> {
    document.get("maxLife").and_then(Value::as_u64)
}

/// Whether the life of a document has ended at that time. The right that a membership gives ends with it, in writes too.
fn is_over(document: &Properties, now_ms: u64) -> bool {
    end_of(document).is_some_and(|minute| minute.saturating_mul(60_000) <= now_ms)
}
