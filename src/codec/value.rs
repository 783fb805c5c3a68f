//! Values in msgpack and JSON. In JSON, bytes are `{"$bytes": base64url}`, and a map that has such a key of its
//! own is escaped with one more `$` (docs/protocol.md).

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::ser::{Serialize, Serializer};

use super::escape::{BYTES_KEY, is_escaped};
use super::format::Format;
use super::node::{Node, NodeError};
use super::wire::Decode;
use crate::limits::VALUE_DEPTH_MAX;
use crate::model::{Number, Value};

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Number::Int(i) => serializer.serialize_i64(*i),
            Number::Float(f) => serializer.serialize_f64(*f),
        }
    }
}

/// For msgpack alone: `writer.rs` writes JSON, which has forms of its own.
impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::Null => serializer.serialize_unit(),
            Value::Bool(b) => serializer.serialize_bool(*b),
            Value::Number(n) => n.serialize(serializer),
            Value::String(s) => serializer.serialize_str(s),
            Value::Bytes(bytes) => serializer.serialize_bytes(bytes),
            Value::Array(items) => serializer.collect_seq(items),
            Value::Map(entries) => serializer.collect_map(entries),
        }
    }
}

impl Decode for Value {
    fn decode(node: Node<'_>, format: Format) -> Result<Self, NodeError> {
        read_value(node, format, VALUE_DEPTH_MAX)
    }
}

/// Reads a value that may nest `depth` levels.
pub(super) fn read_value(node: Node<'_>, format: Format, depth: usize) -> Result<Value, NodeError> {
    match node {
        Node::Null => Ok(Value::Null),
        Node::Bool(value) => Ok(Value::Bool(value)),
        Node::Unsigned(n) => Ok(Value::Number(Number::from_u64(n))),
        Node::Signed(n) => Ok(Value::Number(Number::from_i64(n))),
        Node::Float(f) => {
            Number::new(f).map(Value::Number).ok_or_else(|| refused("a number that is not finite"))
        }
        Node::Text(text) => Ok(Value::String(text.into_owned())),
        Node::Bytes(bytes) => Ok(Value::Bytes(bytes.to_vec())),
        Node::Array(items) => {
            let depth = depth.checked_sub(1).ok_or(NodeError::TooDeep)?;
            let mut read = Vec::with_capacity(items.len());
            for item in items {
                read.push(read_value(item, format, depth)?);
            }
            Ok(Value::Array(read))
        }
        Node::Map(entries) => read_map(entries, format, depth),
        Node::Extension => Err(refused("an extension of msgpack")),
    }
}

fn read_map(entries: Vec<(Node<'_>, Node<'_>)>, format: Format, depth: usize) -> Result<Value, NodeError> {
    let is_json = format == Format::Json;
    let is_alone = entries.len() == 1;
    let mut map = BTreeMap::new();
    for (key, value) in entries {
        let mut key = key.text()?.into_owned();
        if key == "__proto__" {
            return Err(refused("a map with the key __proto__"));
        }
        if is_json && key == BYTES_KEY {
            if !is_alone {
                return Err(refused("$bytes must be the only key of its map"));
            }
            // Bytes are no level of nesting, though in JSON they look like one.
            let bytes = URL_SAFE_NO_PAD.decode(value.text()?.as_bytes());
            return bytes.map(Value::Bytes).map_err(|_| refused("not base64url"));
        }
        if is_json && is_escaped(&key) {
            key.remove(0);
        }
        let depth = depth.checked_sub(1).ok_or(NodeError::TooDeep)?;
        if map.insert(key, read_value(value, format, depth)?).is_some() {
            return Err(refused("a map with the same key twice"));
        }
    }
    // An empty map is a level, too.
    depth.checked_sub(1).ok_or(NodeError::TooDeep)?;
    Ok(Value::Map(map))
}

#[cold]
fn refused(words: &str) -> NodeError {
    NodeError::Words(words.into())
}
