//! The fields of stored records and of messages: maps of values.

use escale::model::{Number, Value};

use crate::engine::records::record::Properties;

/// The text of a field.
pub(in crate::engine) fn text(map: &Properties, name: &str) -> Option<String> {
    map.get(name).and_then(Value::as_str).map(str::to_owned)
}

/// The time or the count of a field.
pub(in crate::engine) fn natural(map: &Properties, name: &str) -> Option<u64> {
    map.get(name).and_then(Value::as_u64)
}

/// The bytes of a field.
pub(in crate::engine) fn bytes(map: &Properties, name: &str) -> Option<Vec<u8>> {
    match map.get(name) {
        Some(Value::Bytes(bytes)) => Some(bytes.clone()),
        _ => None,
    }
}

/// The items of a field; none without it.
pub(in crate::engine) fn items<'m>(map: &'m Properties, name: &str) -> &'m [Value] {
    map.get(name).and_then(Value::as_array).unwrap_or_default()
}

/// A map of these entries.
pub(crate) fn entries_of<const N: usize>(entries: [(&str, Value); N]) -> Properties {
    entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The same as a value.
pub(crate) fn map_of<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::Map(entries_of(entries))
}

/// A time or a count.
pub(crate) fn number(n: u64) -> Value {
    Value::Number(Number::from_u64(n))
}
