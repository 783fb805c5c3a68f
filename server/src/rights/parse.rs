//! Reads the rules of a class, and refuses those that no decision could follow.

use std::collections::BTreeMap;

use escale::model::schema::{Class, Schema};
use escale::model::{Name, Value};

use super::declare::{Quota, Right};
use super::{DEPTH_MAX, LEAVES_MAX, Membership, Parent, Rule};

/// A mistake, with its place.
type Found<T> = Result<T, String>;

/// The rules of a class, in the order of [`Right::ALL`].
pub(super) fn rules(schema: &Schema, class: &Class) -> Found<[Option<Rule>; 4]> {
    let mut rules = [const { None }; 4];
    let Some(value) = class.for_server("rights") else { return Ok(rules) };
    let map = value.as_map().ok_or("rights: a map expected")?;
    for (word, value) in map {
        let right = Right::ALL.into_iter().find(|right| right.as_str() == word);
        let right = right.ok_or_else(|| format!("rights: no right is called {word:?}"))?;
        let at = format!("rights.{word}");
        let rule = rule((schema, class, right), value, DEPTH_MAX).map_err(|what| format!("{at}: {what}"))?;
        if leaves(&rule) > LEAVES_MAX {
            return Err(format!("{at}: more than {LEAVES_MAX} rules"));
        }
        rules[right as usize] = Some(rule);
    }
    Ok(rules)
}

/// The property that documents are counted by.
pub(super) fn quota(class: &Class) -> Found<Option<Quota>> {
    let Some(value) = class.for_server("quota") else { return Ok(None) };
    let map = value.as_map().filter(|map| map.len() == 1).ok_or("quota: { by: property } expected")?;
    let by = property(map.get("by").ok_or("quota: { by: property } expected")?)?;
    check_string(class, &by)?;
    if class.parent().is_some() {
        // The end of a parent costs the same for any number of items (R16), so nobody could count them back.
        return Err("quota: the documents of a class with `in` are not counted".into());
    }
    Ok(Some(Quota { by }))
}

/// The level of restriction up to which the class stays usable.
pub(super) fn exempt(class: &Class) -> Found<u8> {
    match class.for_server("exempt") {
        None => Ok(0),
        Some(value) => match value.as_u64() {
            Some(level @ 1..=2) => Ok(level as u8),
            _ => Err("exempt: 1 or 2 expected".into()),
        },
    }
}

fn leaves(rule: &Rule) -> usize {
    match rule {
        Rule::Any(rules) | Rule::All(rules) => rules.iter().map(leaves).sum(),
        _ => 1,
    }
}

/// The declared right: that of a class of a schema.
type Declared<'s> = (&'s Schema, &'s Class, Right);

fn rule(of: Declared, value: &Value, depth: usize) -> Found<Rule> {
    let (schema, class, _) = of;
    match value {
        Value::String(word) => match word.as_str() {
            "org" => Ok(Rule::Org),
            "none" => Ok(Rule::None),
            "admin" => Ok(Rule::Admin),
            "parent" => parent(of).map(Rule::Parent),
            _ => Err(format!("no rule is called {word:?}")),
        },
        Value::Array(items) => list(of, items, depth).map(Rule::Any),
        Value::Map(map) if map.contains_key("in") => membership(schema, class, map).map(Rule::In),
        Value::Map(map) => match map.iter().next() {
            Some((word, value)) if map.len() == 1 => match (word.as_str(), value) {
                ("own", value) => property(value).map(Rule::Own),
                ("unset", value) => property(value).map(Rule::Unset),
                ("all", Value::Array(items)) => list(of, items, depth).map(Rule::All),
                _ => Err(format!("no rule is called {word:?}")),
            },
            _ => Err("a rule has one word: own, unset, in or all".into()),
        },
        _ => Err("a rule is a word, a map or a list".into()),
    }
}

fn list(of: Declared, items: &[Value], depth: usize) -> Found<Vec<Rule>> {
    let depth = depth.checked_sub(1).ok_or_else(|| format!("more than {DEPTH_MAX} levels"))?;
    if items.is_empty() {
        return Err("a list of rules has at least one".into());
    }
    items.iter().map(|item| rule(of, item, depth)).collect()
}

/// The parent that decides over the items of a class.
fn parent((schema, class, right): Declared) -> Found<Parent> {
    let of = class.parent().and_then(|parent| schema.class(parent.as_str()).ok());
    let of = of.ok_or("parent: only a class with `in` has parents")?;
    let key = class.key().iter().cloned().zip(of.key().iter().cloned()).collect();
    let right = if right == Right::Read { Right::Read } else { Right::Update };
    Ok(Parent { class: of.name().clone(), key, right })
}

fn membership(schema: &Schema, class: &Class, map: &BTreeMap<String, Value>) -> Found<Membership> {
    if let Some(word) = map.keys().find(|word| !matches!(word.as_str(), "in" | "by" | "where")) {
        return Err(format!("in: no word is called {word:?}"));
    }
    let name = map["in"].as_str().ok_or("in: the name of a class expected")?;
    let of = schema.class(name).map_err(|_| "in: the schema has no such class")?;
    let [group, account] = of.key() else { return Err("in: that class must have two key properties".into()) };
    let of_account = of.collections().iter().find(|c| c.key() == [account.clone()] && !c.is_list());
    let collection = of_account.ok_or("in: that class must have a collection of its second key property")?;
    if !of.is_sync() {
        return Err("in: that class must be synchronised".into());
    }
    let by = property(map.get("by").ok_or("in: `by` is missing")?)?;
    check_string(class, &by)?;
    let wanted = match map.get("where") {
        None => Vec::new(),
        Some(Value::Map(wanted)) => wanted.iter().map(wanted_values).collect::<Found<_>>()?,
        Some(_) => return Err("in: `where` must be a map".into()),
    };
    let (class, group, collection) = (of.name().clone(), group.clone(), collection.name().clone());
    Ok(Membership { class, group, collection, by, wanted })
}

fn wanted_values((name, values): (&String, &Value)) -> Found<(Name, Vec<Value>)> {
    let is_plain =
        |value: &Value| matches!(value, Value::String(_) | Value::Number(_) | Value::Bool(_) | Value::Null);
    let name = property(&Value::from(name.as_str()))?;
    match values {
        Value::Array(values) if !values.is_empty() && values.iter().all(is_plain) => {
            Ok((name, values.clone()))
        }
        _ => Err(format!("in: `where` gives {name} a list of strings, numbers, booleans or null")),
    }
}

/// The name of a property.
fn property(value: &Value) -> Found<Name> {
    let text = value.as_str().ok_or("the name of a property expected")?;
    Name::new(text).map_err(|_| format!("no property can be called {text:?}"))
}

/// Refuses a property that is declared to be no string.
fn check_string(class: &Class, by: &Name) -> Found<()> {
    let declared = class.properties().iter().find(|(name, _)| name == by);
    let is_other = declared.is_some_and(|(_, property)| property.kind != "string" && property.kind != "any");
    if is_other || class.collections().iter().any(|c| c.is_list() && c.key() == [by.clone()]) {
        return Err(format!("by: property {by} must be a string"));
    }
    Ok(())
}
