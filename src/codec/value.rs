//! Values in msgpack and JSON. In JSON, bytes are `{"$bytes": base64url}`, and a map that has such a key of its
//! own is escaped with one more `$` (docs/protocol.md).

use std::collections::BTreeMap;
use std::fmt;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Deserializer, Serialize};

use crate::limits::VALUE_DEPTH_MAX;
use crate::model::{Number, Value};

/// The key under which JSON carries bytes.
const BYTES_KEY: &str = "$bytes";

/// What serde carries where a value nests too deep: readers make it `too_deep`, as they do their own limits.
pub(super) const NESTED_TOO_DEEP: &str = "a value nested too deep";

/// Whether a map's key must be escaped in JSON: `$bytes`, `$$bytes`, and so on.
pub(super) fn is_escaped(key: &str) -> bool {
    key.strip_suffix("bytes").is_some_and(|dollars| !dollars.is_empty() && dollars.bytes().all(|b| b == b'$'))
}

/// The text of bytes in JSON.
pub(super) fn bytes_text(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Number::Int(i) => serializer.serialize_i64(*i),
            Number::Float(f) => serializer.serialize_f64(*f),
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text_form = serializer.is_human_readable();
        match self {
            Value::Null => serializer.serialize_unit(),
            Value::Bool(b) => serializer.serialize_bool(*b),
            Value::Number(n) => n.serialize(serializer),
            Value::String(s) => serializer.serialize_str(s),
            Value::Bytes(bytes) if text_form => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry(BYTES_KEY, &bytes_text(bytes))?;
                map.end()
            }
            Value::Bytes(bytes) => serializer.serialize_bytes(bytes),
            Value::Array(items) => serializer.collect_seq(items),
            Value::Map(entries) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                for (key, value) in entries {
                    if text_form && is_escaped(key) {
                        map.serialize_entry(&format!("${key}"), value)?;
                    } else {
                        map.serialize_entry(key, value)?;
                    }
                }
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ValueSeed { depth: VALUE_DEPTH_MAX }.deserialize(deserializer)
    }
}

/// Reads a value that may nest `depth` levels.
#[derive(Clone, Copy)]
pub(super) struct ValueSeed {
    pub(super) depth: usize,
}

impl ValueSeed {
    fn deeper<E: de::Error>(self) -> Result<Self, E> {
        match self.depth.checked_sub(1) {
            Some(depth) => Ok(ValueSeed { depth }),
            None => Err(E::custom(NESTED_TOO_DEEP)),
        }
    }
}

impl<'de> DeserializeSeed<'de> for ValueSeed {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        let text_form = deserializer.is_human_readable();
        deserializer.deserialize_any(ValueVisitor { seed: self, text_form })
    }
}

struct ValueVisitor {
    seed: ValueSeed,
    text_form: bool,
}

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, finite number, boolean, null, bytes, array or map")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.seed.deserialize(deserializer)
    }

    fn visit_bool<E: de::Error>(self, b: bool) -> Result<Value, E> {
        Ok(Value::Bool(b))
    }

    fn visit_i64<E: de::Error>(self, i: i64) -> Result<Value, E> {
        Ok(Value::Number(Number::from_i64(i)))
    }

    fn visit_u64<E: de::Error>(self, u: u64) -> Result<Value, E> {
        Ok(Value::Number(Number::from_u64(u)))
    }

    fn visit_f64<E: de::Error>(self, f: f64) -> Result<Value, E> {
        Number::new(f).map(Value::Number).ok_or_else(|| E::custom("a number that is not finite"))
    }

    fn visit_str<E: de::Error>(self, s: &str) -> Result<Value, E> {
        Ok(Value::String(s.to_owned()))
    }

    fn visit_string<E: de::Error>(self, s: String) -> Result<Value, E> {
        Ok(Value::String(s))
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Value, E> {
        Ok(Value::Bytes(bytes.to_vec()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let seed = self.seed.deeper()?;
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(seed)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        // Bytes are no level of nesting, though in JSON they look like one.
        let deeper = self.seed.deeper::<A::Error>();
        let mut entries = BTreeMap::new();
        while let Some(mut key) = map.next_key::<String>()? {
            if key == "__proto__" {
                return Err(de::Error::custom("a map with the key __proto__"));
            }
            if self.text_form && is_escaped(&key) {
                if key == BYTES_KEY {
                    let text = map.next_value::<String>()?;
                    let bytes =
                        URL_SAFE_NO_PAD.decode(text).map_err(|_| de::Error::custom("not base64url"))?;
                    if !entries.is_empty() || map.next_key::<String>()?.is_some() {
                        return Err(de::Error::custom("$bytes stands alone in its map"));
                    }
                    return Ok(Value::Bytes(bytes));
                }
                key.remove(0);
            }
            let seed = deeper.as_ref().map_err(|_| de::Error::custom(NESTED_TOO_DEEP))?;
            let value = map.next_value_seed(*seed)?;
            if entries.insert(key, value).is_some() {
                return Err(de::Error::custom("a map with the same key twice"));
            }
        }
        deeper.map(|_| Value::Map(entries))
    }
}
