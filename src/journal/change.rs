//! The effects of operations on documents, as far as the session can compute them: the optimistic part of
//! built-in operations.

use std::collections::BTreeMap;

use crate::codec::Data;
use crate::error::{Code, Error, Result, fail};
use crate::journal::State;
use crate::limits::OPS_MAX;
use crate::memory::DocKey;
use crate::model::schema::{Class, Schema};
use crate::model::{Name, Pk, Value};

/// A change to one document.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Which document.
    pub key: DocKey,
    /// The change.
    pub kind: ChangeKind,
    /// Its condition.
    pub if_version: Option<IfVersion>,
    /// The tree that the document is in, by the key of its parent: a document with items is in its own (R19).
    pub tree: Option<DocKey>,
}

impl Change {
    /// Whether it is the deletion of that parent, which ends all its items.
    pub fn ends(&self, tree: &DocKey) -> bool {
        matches!(self.kind, ChangeKind::Delete) && self.tree.as_ref() == Some(&self.key) && self.key == *tree
    }

    /// Whether it creates or deletes a parent: operations on its items depend on it (R19).
    pub fn decides(&self, tree: &DocKey) -> bool {
        !matches!(self.kind, ChangeKind::Patch { .. }) && self.key == *tree
    }

    /// Its effect on a document of that tree, if it has any.
    pub fn on<'c>(&'c self, key: &DocKey, tree: Option<&DocKey>) -> Option<&'c ChangeKind> {
        let is_end = || tree.is_some_and(|tree| tree != key && self.ends(tree));
        (self.key == *key || is_end()).then_some(&self.kind)
    }

    /// Whether it expects the version given by that operation.
    pub fn expects(&self, id: &str) -> bool {
        self.if_version.as_ref().and_then(IfVersion::of).is_some_and(|of| of == id)
    }
}

/// The kind of a change to a document.
#[derive(Clone, Debug, PartialEq)]
pub enum ChangeKind {
    /// The document becomes this, key properties included.
    Put(BTreeMap<String, Value>),
    /// Sets some properties and removes others.
    Patch {
        /// Properties to set.
        set: BTreeMap<String, Value>,
        /// Properties to remove.
        unset: Vec<String>,
    },
    /// The document is deleted.
    Delete,
}

/// The version that a document must have.
#[derive(Clone, Debug, PartialEq)]
pub enum IfVersion {
    /// This version; 0 if there must be no document.
    At(u64),
    /// The version given by this earlier operation of the session.
    Of(String),
}

impl IfVersion {
    /// The operation that it names, if any.
    pub fn of(&self) -> Option<&String> {
        match self {
            IfVersion::At(_) => None,
            IfVersion::Of(id) => Some(id),
        }
    }
}

impl ChangeKind {
    /// The state after the change; `None` if there is no document. A patch of no document changes nothing:
    /// the server refuses it.
    pub fn apply(&self, state: Option<BTreeMap<String, Value>>) -> Option<BTreeMap<String, Value>> {
        match self {
            ChangeKind::Put(map) => Some(map.clone()),
            ChangeKind::Patch { set, unset } => state.map(|mut map| {
                map.retain(|name, _| !unset.contains(name));
                map.extend(set.iter().map(|(name, value)| (name.clone(), value.clone())));
                map
            }),
            ChangeKind::Delete => None,
        }
    }
}

/// The changes of a built-in operation; `None` for an operation of the application's own. Rejects arguments
/// that no server would take: `unknown_class`, `bad_key`, `bad_value`, `key_mismatch`, `too_large`.
pub fn changes_of(schema: &Schema, name: &str, args: &Value) -> Result<Option<Vec<Change>>> {
    let change = match name {
        "doc.put" => put(schema, args)?,
        "doc.patch" => patch(schema, args)?,
        "doc.delete" => {
            let (class, key) = class_and_key(schema, args)?;
            let tree = tree_of(schema, class, &key_parts(args)?)?;
            Change { key, kind: ChangeKind::Delete, if_version: if_version(args)?, tree }
        }
        "batch" => return batch(schema, args).map(Some),
        _ => return Ok(None),
    };
    Ok(Some(vec![change]))
}

/// Whether it consists of built-in operations only, so that its effect is known without calling the
/// application.
pub fn is_built_in(name: &str, args: &Value) -> bool {
    match name {
        "doc.put" | "doc.patch" | "doc.delete" => true,
        "batch" => batched(args).all(|(name, args)| is_built_in(name, args)),
        _ => false,
    }
}

/// The operations in a batch, each with its arguments.
pub fn batched(args: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let ops = args.as_map().and_then(|args| args.get("ops")).and_then(Value::as_array);
    ops.into_iter().flatten().filter_map(part_of)
}

/// The name and the arguments of an operation in a batch.
pub fn part_of(op: &Value) -> Option<(&str, &Value)> {
    let op = op.as_map()?;
    Some((op.get("name")?.as_str()?, op.get("args")?))
}

/// The operation that gives a document a state, and its arguments. Without a state it deletes the document, whose key
/// stands in an earlier state. None without both.
pub fn operation_to(
    class: &Class,
    state: Option<State>,
    earlier: Option<&State>,
) -> Option<(&'static str, BTreeMap<String, Value>)> {
    let (name, what, value) = if let Some(state) = state {
        ("doc.put", "data", Value::Map(state))
    } else {
        let earlier = earlier?;
        let parts = class.key().iter().filter_map(|name| earlier.get(name.as_str()).cloned());
        ("doc.delete", "key", Value::Array(parts.collect()))
    };
    let of_class = ("class".to_owned(), Value::from(class.name().as_str()));
    Some((name, BTreeMap::from([of_class, (what.to_owned(), value)])))
}

fn field<'a>(args: &'a Value, name: &str) -> Result<&'a Value> {
    let found = args.as_map().and_then(|map| map.get(name));
    found.ok_or_else(|| Error::new(Code::BadValue, format!("argument `{name}` is missing")))
}

/// The key of a document by its class and key properties. Errors: `unknown_class`, `bad_key`.
pub fn key_of(schema: &Schema, class: &str, parts: &[impl AsRef<str>]) -> Result<DocKey> {
    let (position, class) = class_at(schema, class)?;
    let parts: Vec<&str> = parts.iter().map(AsRef::as_ref).collect();
    Ok((position, class.pk_of(&parts)?))
}

/// The tree that a document with this key is in, if it is an item or has items.
pub fn tree_of(schema: &Schema, class: &Class, parts: &[&str]) -> Result<Option<DocKey>> {
    match (class.parent(), class.parent_key(parts)) {
        (Some(parent), Some(key)) => key_of(schema, parent.as_str(), key).map(Some),
        _ if class.has_items() => key_of(schema, class.name().as_str(), parts).map(Some),
        _ => Ok(None),
    }
}

fn class_at<'s>(schema: &'s Schema, name: &str) -> Result<(u16, &'s Class)> {
    let class = schema.class(name)?;
    let position = schema.position(class.name()).expect("a class of the schema");
    Ok((position as u16, class))
}

fn class_of<'s>(schema: &'s Schema, args: &Value) -> Result<(u16, &'s Class)> {
    class_at(schema, field(args, "class")?.as_str().unwrap_or_default())
}

fn class_and_key<'s>(schema: &'s Schema, args: &Value) -> Result<(&'s Class, DocKey)> {
    let (position, class) = class_of(schema, args)?;
    Ok((class, (position, class.pk_of(&key_parts(args)?)?)))
}

fn key_parts(args: &Value) -> Result<Vec<&str>> {
    let parts = field(args, "key")?.as_array().and_then(|items| items.iter().map(Value::as_str).collect());
    parts.ok_or_else(|| Error::new(Code::BadKey, "`key` is a list of strings, one for each key property"))
}

fn put(schema: &Schema, args: &Value) -> Result<Change> {
    let (position, class) = class_of(schema, args)?;
    let Value::Map(map) = field(args, "data")? else {
        return fail(Code::BadValue, "`data` must be a map");
    };
    let pk: Pk = class.columns(map)?.pk;
    check_names(map.keys())?;
    Data::from_map(map)?;
    // The columns have found each key property to be a string.
    let parts: Vec<&str> = class.key().iter().filter_map(|name| map.get(name.as_str())?.as_str()).collect();
    let (key, kind) = ((position, pk), ChangeKind::Put(map.clone()));
    Ok(Change { key, kind, if_version: if_version(args)?, tree: tree_of(schema, class, &parts)? })
}

fn patch(schema: &Schema, args: &Value) -> Result<Change> {
    let (class, key) = class_and_key(schema, args)?;
    let Value::Map(set) = field(args, "set")? else {
        return fail(Code::BadValue, "`set` must be a map");
    };
    let unset: Vec<String> = match args.as_map().and_then(|map| map.get("unset")) {
        None => Vec::new(),
        Some(value) => {
            let names = value
                .as_array()
                .and_then(|items| items.iter().map(Value::as_str).collect::<Option<Vec<_>>>());
            let names = names.ok_or_else(|| Error::new(Code::BadValue, "`unset` must be a list of names"))?;
            names.into_iter().map(str::to_owned).collect()
        }
    };
    check_names(set.keys().chain(&unset))?;
    for (name, part) in class.key().iter().zip(key_parts(args)?) {
        let kept = set.get(name.as_str()).is_none_or(|value| value.as_str() == Some(part));
        if !kept || unset.iter().any(|unset| unset == name.as_str()) {
            return fail(Code::KeyMismatch, format!("key property {name} cannot change"));
        }
    }
    class.check_patch(set)?;
    Data::from_map(set)?;
    let kind = ChangeKind::Patch { set: set.clone(), unset };
    let tree = tree_of(schema, class, &key_parts(args)?)?;
    Ok(Change { key, kind, if_version: if_version(args)?, tree })
}

fn batch(schema: &Schema, args: &Value) -> Result<Vec<Change>> {
    let ops = field(args, "ops")?.as_array();
    let ops = ops.ok_or_else(|| Error::new(Code::BadValue, "`ops` must be a list of operations"))?;
    if ops.len() > OPS_MAX {
        return fail(Code::TooLarge, format!("{} operations in a batch, {OPS_MAX} at most", ops.len()));
    }
    let mut changes = Vec::new();
    for (index, op) in ops.iter().enumerate() {
        let at = |error: Error| error.at(&format!("operation {index} of the batch"));
        let name = field(op, "name").map_err(at)?.as_str().unwrap_or_default();
        if name == "batch" {
            return fail(Code::BadValue, "a batch in a batch");
        }
        changes.extend(
            changes_of(schema, name, field(op, "args").map_err(at)?).map_err(at)?.unwrap_or_default(),
        );
    }
    Ok(changes)
}

/// Names that begin with `_` are reserved and never come from the application.
fn check_names<'a>(names: impl IntoIterator<Item = &'a String>) -> Result<()> {
    for name in names {
        Name::new(name).map_err(|_| {
            Error::new(Code::BadValue, "a property's name is a letter, then letters and digits").at(name)
        })?;
    }
    Ok(())
}

fn if_version(args: &Value) -> Result<Option<IfVersion>> {
    let wrong = || Error::new(Code::BadValue, "`ifVersion` is a version or { op: id }");
    match args.as_map().and_then(|map| map.get("ifVersion")) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Map(map)) => {
            let id = map.get("op").and_then(Value::as_str).ok_or_else(wrong)?;
            Ok(Some(IfVersion::Of(id.to_owned())))
        }
        Some(value) => value.as_u64().map(|v| Some(IfVersion::At(v))).ok_or_else(wrong),
    }
}

#[cfg(test)]
mod tests;
