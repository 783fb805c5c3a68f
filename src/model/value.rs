//! The values that a document's `data` can contain.

use std::collections::BTreeMap;

/// A finite number as in JavaScript: an integer if it is exactly one, a double otherwise.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub enum Number {
    /// An integer between -(2^53 - 1) and 2^53 - 1.
    Int(i64),
    /// Any other finite number.
    Float(f64),
}

impl Number {
    const EXACT: i64 = (1 << 53) - 1;

    /// The number, if it is finite. Integers beyond 2^53 become doubles, as they do in JavaScript. A double
    /// that is an integer becomes one, so that equal numbers are equal however they were written.
    #[allow(clippy::float_cmp)] // exactness is the question
    pub fn new(f: f64) -> Option<Self> {
        if !f.is_finite() {
            None
        } else if f.trunc() == f && f.abs() <= Self::EXACT as f64 && !(f == 0.0 && f.is_sign_negative()) {
            Some(Number::Int(f as i64))
        } else {
            Some(Number::Float(f))
        }
    }

    /// The number of a signed integer.
    pub fn from_i64(i: i64) -> Self {
        if i.unsigned_abs() <= Self::EXACT as u64 { Number::Int(i) } else { Number::Float(i as f64) }
    }

    /// The number of an unsigned integer.
    pub fn from_u64(u: u64) -> Self {
        if u <= Self::EXACT as u64 { Number::Int(u as i64) } else { Number::Float(u as f64) }
    }

    /// The number as a double, exactly.
    pub fn as_f64(self) -> f64 {
        match self {
            Number::Int(i) => i as f64,
            Number::Float(f) => f,
        }
    }
}

/// A value: string, finite number, boolean, null, bytes, array, or map with string keys (docs/rules.md).
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `null`.
    Null,
    /// A boolean.
    Bool(bool),
    /// A finite number.
    Number(Number),
    /// A string.
    String(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// An array.
    Array(Vec<Value>),
    /// A map with string keys.
    Map(BTreeMap<String, Value>),
}

impl Value {
    /// Whether its arrays and maps nest at most that deep, itself included.
    pub fn is_within(&self, depth: usize) -> bool {
        let mut items: Box<dyn Iterator<Item = &Value>> = match self {
            Value::Array(items) => Box::new(items.iter()),
            Value::Map(map) => Box::new(map.values()),
            _ => return true,
        };
        depth.checked_sub(1).is_some_and(|depth| items.all(|item| item.is_within(depth)))
    }

    /// The string, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(s) => Some(s),
            _ => None,
        }
    }

    /// The map, if it is one.
    pub fn as_map(&self) -> Option<&BTreeMap<String, Value>> {
        match self {
            Value::Map(map) => Some(map),
            _ => None,
        }
    }

    /// The map, if it is one, mutable.
    pub fn as_map_mut(&mut self) -> Option<&mut BTreeMap<String, Value>> {
        match self {
            Value::Map(map) => Some(map),
            _ => None,
        }
    }

    /// The array, if it is one.
    pub fn as_array(&self) -> Option<&[Value]> {
        match self {
            Value::Array(items) => Some(items),
            _ => None,
        }
    }

    /// The number as a double, if it is one.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Value::Number(n) => Some(n.as_f64()),
            _ => None,
        }
    }

    /// The number, if it is an integer from 0 to 2^53 - 1.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Value::Number(Number::Int(i)) => u64::try_from(*i).ok(),
            _ => None,
        }
    }
}

impl From<&str> for Value {
    fn from(s: &str) -> Self {
        Value::String(s.to_owned())
    }
}

impl From<i64> for Value {
    fn from(i: i64) -> Self {
        Value::Number(Number::from_i64(i))
    }
}

impl From<bool> for Value {
    fn from(b: bool) -> Self {
        Value::Bool(b)
    }
}

impl<K: Into<String>, const N: usize> From<[(K, Value); N]> for Value {
    fn from(pairs: [(K, Value); N]) -> Self {
        Value::Map(pairs.into_iter().map(|(k, v)| (k.into(), v)).collect())
    }
}
