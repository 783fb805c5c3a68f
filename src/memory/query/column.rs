//! The value of a document that an index enters.
//!
//! Values of all types become text whose order, byte by byte, is the order of the values. So there is one kind of
//! index, and one kind of range.

use std::collections::BTreeMap;

use smol_str::SmolStr;

use crate::model::schema::{Class, Collection, Index as Declared, IndexType};
use crate::model::{Name, Value};

/// The properties that an index reads.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    names: Vec<Name>,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    /// Strings; several make one value.
    Text,
    Number,
    Bool,
    /// A list of strings: the document has an entry for each element.
    List,
    /// The hashes under which the document is a member of a collection.
    Members(Collection),
}

impl Column {
    /// The column of a declared index.
    pub fn of(index: &Declared) -> Self {
        let kind = match index.kind() {
            IndexType::Hash | IndexType::String => Kind::Text,
            IndexType::Int | IndexType::Float => Kind::Number,
            IndexType::List => Kind::List,
            IndexType::Bool => Kind::Bool,
        };
        Column { names: vec![index.property().clone()], kind }
    }

    /// The key of the class's documents: its properties, one after the other.
    pub fn key(class: &Class) -> Self {
        Column { names: class.key().to_vec(), kind: Kind::Text }
    }

    /// The collections of that name that a document is a member of.
    pub fn members(collection: &Collection) -> Self {
        Column { names: collection.key().to_vec(), kind: Kind::Members(collection.clone()) }
    }

    /// The properties that it reads.
    pub fn names(&self) -> &[Name] {
        &self.names
    }

    /// A value to compare with, as it is entered; `None` if it is of another type.
    pub fn entered(&self, value: &Value) -> Option<SmolStr> {
        match (&self.kind, value) {
            (Kind::Text | Kind::List, Value::String(text)) => Some(text.as_str().into()),
            (Kind::Number, Value::Number(number)) => Some(text_of(number.as_f64())),
            (Kind::Bool, Value::Bool(is_true)) => Some(SmolStr::new_static(if *is_true { "1" } else { "0" })),
            _ => None,
        }
    }

    /// The values of a document; none if it lacks the property, or has one of another type.
    pub(super) fn values(&self, properties: &BTreeMap<String, Value>) -> Vec<SmolStr> {
        if let Kind::Members(collection) = &self.kind {
            return collection.memberships(properties).ok().flatten().unwrap_or_default();
        }
        let value = |name: &Name| properties.get(name.as_str());
        if self.kind == Kind::List {
            let items = value(&self.names[0]).and_then(Value::as_array).unwrap_or_default();
            return items.iter().filter_map(|item| self.entered(item)).collect();
        }
        let mut parts = Vec::new();
        for name in &self.names {
            let Some(value) = value(name).and_then(|value| self.entered(value)) else { return Vec::new() };
            parts.push(value);
        }
        if let [value] = &parts[..] {
            return vec![value.clone()];
        }
        vec![joined(&parts.iter().map(SmolStr::as_str).collect::<Vec<_>>())]
    }
}

/// Key properties as one text. It orders documents by the first property, then by the next.
pub fn joined(parts: &[&str]) -> SmolStr {
    parts.join("\0").into()
}

/// A number as ten characters of seven bits.
fn text_of(number: f64) -> SmolStr {
    // 0 and -0 are equal.
    let bits = if number == 0.0 { 0 } else { number.to_bits() };
    let mut ascending = if bits >> 63 == 0 { bits | 1 << 63 } else { !bits };
    let mut text = String::new();
    for _ in 0..10 {
        text.push(char::from((ascending >> 57) as u8));
        ascending <<= 7;
    }
    text.into()
}
