//! Nodes of a document's data: checked, then as values or as JSON text.

use super::json::{write_float, write_text};
use super::{Node, NodeError};
use crate::codec::escape::{bytes_text, is_escaped};
use crate::model::{Number, SortedSet, Value, order};

/// Keys that are compared with each other one by one; more go through a set.
const FEW_KEYS: usize = 16;

/// An entry of a map with string keys.
pub type Entry<'n> = (&'n str, &'n Node<'n>);

impl Node<'_> {
    /// The entries of a map whose keys are strings, each once, and all of whose values are values.
    pub fn checked_entries(&self) -> Result<Vec<Entry<'_>>, NodeError> {
        let Node::Map(entries) = self else { return Err(refused("a map with string keys expected")) };
        let mut checked: Vec<Entry<'_>> = Vec::with_capacity(entries.len());
        let mut keys: SortedSet<&str> = SortedSet::new();
        let is_many = entries.len() > FEW_KEYS;
        for (key, value) in entries {
            let Node::Text(key) = key else { return Err(refused("a map with string keys expected")) };
            let is_there =
                if is_many { !keys.insert(key) } else { checked.iter().any(|(other, _)| other == key) };
            if is_there || key == "__proto__" {
                return Err(refused("a map with the key __proto__, or with the same key twice"));
            }
            value.check()?;
            checked.push((key, value));
        }
        Ok(checked)
    }

    fn check(&self) -> Result<(), NodeError> {
        match self {
            Node::Float(f) if !f.is_finite() => Err(refused("a number that is not finite")),
            Node::Extension => Err(refused("an extension of msgpack")),
            Node::Array(items) => items.iter().try_for_each(Node::check),
            Node::Map(_) => self.checked_entries().map(|_| ()),
            _ => Ok(()),
        }
    }

    /// The value of a node that was checked.
    pub fn to_value(&self) -> Value {
        match self {
            Node::Null | Node::Extension => Value::Null,
            Node::Bool(value) => Value::Bool(*value),
            Node::Unsigned(n) => Value::Number(Number::from_u64(*n)),
            Node::Signed(n) => Value::Number(Number::from_i64(*n)),
            Node::Float(f) => Number::new(*f).map_or(Value::Null, Value::Number),
            Node::Text(text) => Value::String(text.as_ref().to_owned()),
            Node::Bytes(bytes) => Value::Bytes((*bytes).to_owned()),
            Node::Array(items) => Value::Array(items.iter().map(Node::to_value).collect()),
            Node::Map(entries) => {
                let entries = entries.iter().filter_map(|(key, value)| match key {
                    Node::Text(key) => Some((key.as_ref().to_owned(), value.to_value())),
                    _ => None,
                });
                Value::Map(order::map_of(entries))
            }
        }
    }

    /// Writes a map that was checked as JSON, but for the property of that name.
    pub fn write_json_but(&self, left_out: &str, out: &mut Vec<u8>) {
        let Node::Map(entries) = self else { return self.write_json(out) };
        let is_kept = |key: &Node| !matches!(key, Node::Text(key) if key.as_ref() == left_out);
        write_entries(entries.iter().filter(|(key, _)| is_kept(key)), out);
    }

    /// Writes a node that was checked as JSON (docs/protocol.md).
    pub fn write_json(&self, out: &mut Vec<u8>) {
        match self {
            Node::Null | Node::Extension => out.extend(b"null"),
            Node::Bool(true) => out.extend(b"true"),
            Node::Bool(false) => out.extend(b"false"),
            Node::Unsigned(n) => write_number(Number::from_u64(*n), out),
            Node::Signed(n) => write_number(Number::from_i64(*n), out),
            Node::Float(f) => match Number::new(*f) {
                Some(number) => write_number(number, out),
                None => out.extend(b"null"),
            },
            Node::Text(text) => write_text(text, out),
            Node::Bytes(bytes) => {
                out.extend(b"{\"$bytes\":");
                write_text(&bytes_text(bytes), out);
                out.push(b'}');
            }
            Node::Array(items) => {
                for (at, item) in items.iter().enumerate() {
                    out.push(if at == 0 { b'[' } else { b',' });
                    item.write_json(out);
                }
                out.extend(if items.is_empty() { &b"[]"[..] } else { &b"]"[..] });
            }
            Node::Map(entries) => write_entries(entries.iter(), out),
        }
    }
}

fn write_entries<'n>(entries: impl Iterator<Item = &'n (Node<'n>, Node<'n>)>, out: &mut Vec<u8>) {
    out.push(b'{');
    for (at, (key, value)) in entries.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        match key {
            Node::Text(key) if is_escaped(key) => write_text(&format!("${key}"), out),
            Node::Text(key) => write_text(key, out),
            _ => write_text("", out),
        }
        out.push(b':');
        value.write_json(out);
    }
    out.push(b'}');
}

/// Writes a number as JSON.
pub fn write_number(number: Number, out: &mut Vec<u8>) {
    match number {
        Number::Int(n) => out.extend(n.to_string().as_bytes()),
        Number::Float(f) => write_float(f, out),
    }
}

fn refused(words: &str) -> NodeError {
    NodeError::Words(words.into())
}
