//! Reads the rules of a class, and refuses words that no value could keep.

use std::collections::{BTreeMap, BTreeSet};

use escale::model::Value;
use escale::model::schema::{Class, Property};

use super::{ClassValues, ENUM_MAX, Rule};

/// A mistake, with its place.
type Found<T> = Result<T, String>;

/// The properties of every document, which no class declares.
const OWN: [&str; 2] = ["maxLife", "release"];

impl ClassValues {
    pub(super) fn of(class: &Class) -> Found<Self> {
        let mut properties = BTreeMap::new();
        for (name, property) in class.properties() {
            let rule = Rule::of(property).map_err(|what| format!("property {name}: {what}"))?;
            properties.insert(name.to_string(), rule);
        }
        let names = |names: &[escale::model::Name]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let collections = class.collections().iter().flat_map(|collection| names(collection.key()));
        let indexes = class.indexes().iter().map(|index| index.property().to_string());
        let raw = class.is_raw().then(|| "raw".to_owned());
        let mut known: BTreeSet<String> = properties.keys().cloned().chain(names(class.key())).collect();
        known.extend(collections.chain(indexes).chain(raw));
        let required = required(class, &known)?;
        let is_open = match class.for_server("additionalProperties") {
            None | Some(Value::Bool(true)) => true,
            Some(Value::Bool(false)) => false,
            Some(_) => return Err("additionalProperties: true or false expected".into()),
        };
        known.extend(OWN.map(str::to_owned));
        Ok(ClassValues { properties, required, known: (!is_open).then_some(known) })
    }
}

/// The properties that each document must have.
fn required(class: &Class, known: &BTreeSet<String>) -> Found<BTreeSet<String>> {
    let Some(value) = class.for_server("required") else { return Ok(BTreeSet::new()) };
    let names = value.as_array().ok_or("required: a list of names of properties expected")?;
    let name = |name: &Value| {
        let name = name.as_str().ok_or("required: a list of names of properties expected")?;
        // A misspelt one would refuse each write.
        known
            .contains(name)
            .then(|| name.to_owned())
            .ok_or("required: each name must be that of a declared property")
    };
    Ok(names.iter().map(name).collect::<Result<_, _>>()?)
}

impl Rule {
    fn of(property: &Property) -> Found<Self> {
        match &property.words {
            None => Ok(Rule::plain(&property.kind)),
            Some(words) => Rule::parse(&property.kind, words.as_map().ok_or("a type or a map expected")?),
        }
    }

    fn plain(kind: &str) -> Self {
        Rule {
            kind: kind.to_owned(),
            one_of: None,
            minimum: None,
            maximum: None,
            min_length: None,
            max_length: None,
            max_items: None,
            items: None,
        }
    }

    /// The rule of a value of that type.
    fn parse(kind: &str, words: &BTreeMap<String, Value>) -> Found<Self> {
        let mut rule = Rule::plain(kind);
        for (word, value) in words {
            let of = match word.as_str() {
                "type" => continue,
                "enum" => ["string", "integer", "number", "boolean", "any"].as_slice(),
                "minimum" | "maximum" => &["integer", "number"],
                "minLength" | "maxLength" => &["string"],
                "maxItems" => &["string[]", "number[]", "boolean[]", "file[]"],
                "items" => &["string[]", "number[]"],
                _ => return Err(format!("no word is called {word:?}")),
            };
            if !of.contains(&kind) {
                return Err(format!("{word} is for {}", of.join(", ")));
            }
            let number = || value.as_f64().ok_or_else(|| format!("{word}: a number expected"));
            let count = || value.as_u64().ok_or_else(|| format!("{word}: a number of 0 or more expected"));
            match word.as_str() {
                "enum" => rule.one_of = Some(one_of(kind, value)?),
                "minimum" => rule.minimum = Some(number()?),
                "maximum" => rule.maximum = Some(number()?),
                "minLength" => rule.min_length = Some(count()?),
                "maxLength" => rule.max_length = Some(count()?),
                "maxItems" => rule.max_items = Some(count()?),
                _ => rule.items = Some(Box::new(items(kind, value)?)),
            }
        }
        let is_empty = rule.minimum.zip(rule.maximum).is_some_and(|(least, most)| least > most)
            || rule.min_length.zip(rule.max_length).is_some_and(|(least, most)| least > most);
        if is_empty { Err("the least is above the most".into()) } else { Ok(rule) }
    }
}

/// The values of an `enum`.
fn one_of(kind: &str, value: &Value) -> Found<Vec<Value>> {
    let is_fine = |value: &Value| match value {
        Value::String(_) => matches!(kind, "string" | "any"),
        Value::Number(_) => matches!(kind, "integer" | "number" | "any"),
        Value::Bool(_) => matches!(kind, "boolean" | "any"),
        _ => false,
    };
    match value.as_array() {
        Some(values) if (1..=ENUM_MAX).contains(&values.len()) && values.iter().all(is_fine) => {
            Ok(values.to_vec())
        }
        _ => Err(format!("enum: a list of 1 to {ENUM_MAX} values of the type expected")),
    }
}

/// The rule of the elements of a list.
fn items(kind: &str, value: &Value) -> Found<Rule> {
    let of = kind.trim_end_matches("[]");
    let words = value.as_map().ok_or("items: a map expected")?;
    if words.get("type").is_some_and(|word| word.as_str() != Some(of)) {
        return Err(format!("items: the type is {of}"));
    }
    Rule::parse(of, words).map_err(|what| format!("items: {what}"))
}
