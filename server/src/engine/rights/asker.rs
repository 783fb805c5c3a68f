//! Words of rules for the callers and the documents of the engine.

use escale::model::Value;

use crate::engine::caller::Caller;
use crate::engine::records::record::Properties;
use crate::rights::Asker;

/// The caller, as rules see it.
pub(in crate::engine) fn asker(caller: &Caller) -> Asker<'_> {
    Asker { account: &caller.account, is_admin: caller.is_admin }
}

/// The minute at which the life of a document ends; none if it has no end.
pub(in crate::engine) fn expiry_minute(document: &Properties) -> Option<u64> {
    document.get("maxLife").and_then(Value::as_u64)
}

/// Whether the life of a document has ended at that time. The right that a membership gives ends with it, in writes too.
pub(in crate::engine) fn is_over(document: &Properties, now_ms: u64) -> bool {
    expiry_minute(document).is_some_and(|minute| minute.saturating_mul(60_000) <= now_ms)
}
