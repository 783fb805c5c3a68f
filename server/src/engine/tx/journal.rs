//! The journal's record of one write: the whole state of the document, or the properties that changed.
//!
//! A few bytes can change a large document. So its whole state is recorded only if the request paid for it: it is small, or
//! the change is at least half of it. The sweep adds the states from which changes are counted.

use std::collections::BTreeMap;

use escale::Result;
use escale::codec::{Data, Format, encode};
use escale::limits::NAME_CHARS_MAX;
use escale::model::{Value, sha_s};

/// Bytes of a document that is always recorded whole.
const WHOLE_BYTES: usize = 256;

/// The form in which a write of a document is recorded.
pub(in crate::engine) enum Change {
    /// The state after it.
    Whole,
    /// The change alone, encoded: a list of the properties that have other values now, and the names of those that are gone.
    Of(Vec<u8>),
}

/// The form for a change from these bytes to this document.
pub(in crate::engine) fn change_of(
    before: &[u8],
    after: &BTreeMap<String, Value>,
    bytes: &[u8],
) -> Result<Change> {
    if bytes.len() <= WHOLE_BYTES {
        return Ok(Change::Whole);
    }
    let before = Data::from_bytes(before)?.to_map()?;
    let set: BTreeMap<String, Value> = after
        .iter()
        .filter(|(name, value)| before.get(*name) != Some(value))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let unset =
        before.keys().filter(|name| !after.contains_key(*name)).map(|name| Value::from(name.as_str()));
    let change =
        encode(Format::Msgpack, &Value::Array(vec![Value::Map(set), Value::Array(unset.collect())]))?;
    Ok(if change.len() * 2 < bytes.len() { Change::Of(change) } else { Change::Whole })
}

/// The cause that the journal names for an operation: its id, or the hash of a long one. A batch names it once for each
/// document.
pub(in crate::engine) fn cause_of(id: &str) -> String {
    if id.len() <= NAME_CHARS_MAX { id.to_owned() } else { sha_s(id) }
}
