//! The check: does a document keep the rules of its class?

use std::collections::BTreeMap;

use escale::model::Value;

use super::{ClassValues, Rule};

/// The largest integer that every reader of JSON has exactly, 2^53 - 1.
const INTEGER_MAX: f64 = 9_007_199_254_740_991.0;

/// The place in a document, and the word that it breaks.
type Broken = String;

impl ClassValues {
    pub(super) fn check(&self, data: &BTreeMap<String, Value>) -> Result<(), Broken> {
        for name in &self.required {
            if matches!(data.get(name), None | Some(Value::Null)) {
                return Err(format!("{name}: required"));
            }
        }
        for (name, value) in data {
            match self.properties.get(name) {
                Some(rule) if *value != Value::Null => rule.check(name, value)?,
                _ => {}
            }
            // The name itself is the application's data. It has no place in a message.
            if self.known.as_ref().is_some_and(|known| !known.contains(name)) {
                return Err("*: additionalProperties is false".into());
            }
        }
        Ok(())
    }
}

impl Rule {
    fn check(&self, place: &str, value: &Value) -> Result<(), Broken> {
        if !is_of(&self.kind, value) {
            return Err(format!("{place}: type is {}", self.kind));
        }
        if self.one_of.as_ref().is_some_and(|values| !values.iter().any(|one| is_same(one, value))) {
            return Err(format!("{place}: enum"));
        }
        if let Some(number) = value.as_f64() {
            limit(place, "minimum", self.minimum, |limit| number >= limit)?;
            limit(place, "maximum", self.maximum, |limit| number <= limit)?;
        }
        if let Some(text) = value.as_str() {
            let count = text.chars().count() as u64;
            limit(place, "minLength", self.min_length, |limit| count >= limit)?;
            limit(place, "maxLength", self.max_length, |limit| count <= limit)?;
        }
        if let Some(items) = value.as_array() {
            limit(place, "maxItems", self.max_items, |limit| items.len() as u64 <= limit)?;
            if let Some(rule) = &self.items {
                for (at, item) in items.iter().enumerate() {
                    rule.check(&format!("{place}[{at}]"), item)?;
                }
            }
        }
        Ok(())
    }
}

/// Numbers are equal as JavaScript compares them: 0 is -0.
#[allow(clippy::float_cmp)] // exactness is the question
fn is_same(one: &Value, other: &Value) -> bool {
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => one == other,
        _ => one == other,
    }
}

fn limit<T: Copy + std::fmt::Display>(
    place: &str,
    word: &str,
    limit: Option<T>,
    is_kept: impl Fn(T) -> bool,
) -> Result<(), Broken> {
    match limit {
        Some(limit) if !is_kept(limit) => Err(format!("{place}: {word} is {limit}")),
        _ => Ok(()),
    }
}

/// Whether a value has a declared type. The schema checks references to files itself (R23).
#[allow(clippy::float_cmp)] // exactness is the question
fn is_of(kind: &str, value: &Value) -> bool {
    if let Some(of) = kind.strip_suffix("[]") {
        return value.as_array().is_some_and(|items| items.iter().all(|item| is_of(of, item)));
    }
    match kind {
        "string" => matches!(value, Value::String(_)),
        "number" => matches!(value, Value::Number(_)),
        "integer" => value.as_f64().is_some_and(|f| f.trunc() == f && f.abs() <= INTEGER_MAX),
        "boolean" => matches!(value, Value::Bool(_)),
        "bytes" => matches!(value, Value::Bytes(_)),
        "file" => matches!(value, Value::Map(_)),
        _ => true,
    }
}
