//! The columns of a row: the part of a document that a database can see, apart from its sealed `data`.

use std::collections::BTreeMap;

use smol_str::SmolStr;

use super::{Class, Collection, Index, IndexType};
use crate::error::{Code, Error, Result, fail};
use crate::limits::{ITEM_KEY_CHARS_MAX, VERSION_MAX};
use crate::model::{Name, Number, Pk, SortedMap, Value, join_key, order, sha_s};

/// The visible part of a document: its pk, and one column for each collection and each index.
#[derive(Clone, Debug, PartialEq)]
pub struct Columns {
    /// The primary key.
    pub pk: Pk,
    /// For each collection, the hashes of the values under which the document is a member.
    pub collections: SortedMap<Name, Vec<SmolStr>>,
    /// For each index whose property the document has, its value.
    pub indexes: SortedMap<Name, ColumnValue>,
    /// Minutes since 1970 at which it expires, if it does.
    pub max_life: Option<u64>,
}

/// The value of an index.
#[derive(Clone, Debug, PartialEq)]
pub enum ColumnValue {
    /// A string, in clear (`string`) or hashed (`hash`).
    Text(String),
    /// An integer, or a boolean as 0 or 1.
    Int(i64),
    /// A number.
    Float(f64),
    /// Strings, in clear.
    List(Vec<String>),
}

impl Class {
    /// The columns of a document with this data; rejects key properties that are missing or of another type.
    pub fn columns(&self, data: &BTreeMap<String, Value>) -> Result<Columns> {
        let mut parts = Vec::with_capacity(self.key.len());
        for name in &self.key {
            match data.get(name.as_str()) {
                Some(Value::String(text)) => parts.push(text.as_str()),
                Some(_) => return fail(Code::BadKey, format!("key property {name} must be a string")),
                None => return fail(Code::BadKey, format!("key property {name} is missing")),
            }
        }
        let pk = self.pk_of(&parts)?;
        self.check_item(&parts, data)?;
        self.files(data)?;
        let mut collections = SortedMap::new();
        for collection in &self.collections {
            let hashes = collection.memberships(data)?.unwrap_or_default();
            collections.insert(collection.name.clone(), hashes);
        }
        Ok(Columns { pk, collections, indexes: self.index_columns(data)?, max_life: self.max_life(data)? })
    }

    /// Rejects an item whose key is too long, and a raw item with other properties than its key and `raw`.
    fn check_item(&self, parts: &[&str], data: &BTreeMap<String, Value>) -> Result<()> {
        let Some(parent) = self.parent_key(parts) else { return Ok(()) };
        if parts[parent.len()..].iter().map(|part| part.chars().count() + 1).sum::<usize>()
            > ITEM_KEY_CHARS_MAX + 1
        {
            let what =
                format!("the key of an item has {ITEM_KEY_CHARS_MAX} characters at most behind its parent's");
            return fail(Code::BadKey, what);
        }
        if self.is_raw() && !matches!(data.get("raw"), Some(Value::Bytes(_))) {
            return fail(Code::BadValue, "`raw` must be bytes");
        }
        self.check_raw(data)
    }

    fn check_raw(&self, data: &BTreeMap<String, Value>) -> Result<()> {
        let is_known = |name: &str| {
            matches!(name, "raw" | "release" | "maxLife") || self.key.iter().any(|key| key.as_str() == name)
        };
        if self.is_raw() && !data.keys().all(|name| is_known(name)) {
            return fail(Code::BadValue, format!("a document of class {} is its key and `raw`", self.name));
        }
        Ok(())
    }

    /// Rejects properties of a patch that no document may have: a value of another type than its index has, a
    /// `maxLife` that is no minute, or another property than `raw` of a raw document. The same goes for a value in a
    /// property for files that is none.
    pub fn check_patch(&self, set: &BTreeMap<String, Value>) -> Result<()> {
        self.index_columns(set)?;
        self.max_life(set)?;
        self.files(set)?;
        self.check_raw(set)
    }

    /// The minute at which a document's life ends. A parent's ends by its deletion alone: otherwise a later end
    /// would have to send all its items again.
    fn max_life(&self, data: &BTreeMap<String, Value>) -> Result<Option<u64>> {
        match data.get("maxLife") {
            None | Some(Value::Null) => Ok(None),
            Some(_) if self.has_items => fail(
                Code::BadValue,
                format!("a document of class {} is a parent: it takes no maxLife", self.name),
            ),
            Some(value) => {
                let minutes = value.as_u64().filter(|minutes| *minutes <= VERSION_MAX / 60_000);
                let error = || Error::new(Code::BadValue, "maxLife is minutes since 1970");
                minutes.ok_or_else(error).map(Some)
            }
        }
    }

    fn index_columns(&self, data: &BTreeMap<String, Value>) -> Result<SortedMap<Name, ColumnValue>> {
        let mut indexes = SortedMap::new();
        for index in &self.indexes {
            match data.get(index.property.as_str()) {
                None | Some(Value::Null) => {}
                Some(value) => {
                    indexes.insert(index.name.clone(), index.column(value)?);
                }
            }
        }
        Ok(indexes)
    }
}

impl Collection {
    /// The hashes under which a document with this data is a member; `None` if a key property is absent, so
    /// that the data decides nothing (R3).
    pub fn memberships(&self, data: &BTreeMap<String, Value>) -> Result<Option<Vec<SmolStr>>> {
        let wrong = |name: &Name, what: &str| {
            Err(Error::new(
                Code::BadKey,
                format!("property {name} of collection {} must be {what}", self.name),
            ))
        };
        if self.list {
            let name = &self.key[0];
            let items = match data.get(name.as_str()) {
                None => return Ok(None),
                Some(Value::Null) => return Ok(Some(Vec::new())),
                Some(Value::Array(items)) => items,
                Some(_) => return wrong(name, "a list of strings"),
            };
            let mut hashes = Vec::with_capacity(items.len());
            for item in items {
                match item {
                    Value::String(text) => hashes.push(SmolStr::new(sha_s(text))),
                    _ => return wrong(name, "a list of strings"),
                }
            }
            order::sort(&mut hashes);
            hashes.dedup();
            return Ok(Some(hashes));
        }
        let mut parts = Vec::with_capacity(self.key.len());
        for name in &self.key {
            match data.get(name.as_str()) {
                None => return Ok(None),
                Some(Value::Null) => return Ok(Some(Vec::new())),
                Some(Value::String(text)) => parts.push(text.as_str()),
                Some(_) => return wrong(name, "a string"),
            }
        }
        Ok(Some(vec![SmolStr::new(sha_s(&join_key(&parts)?))]))
    }
}

impl Index {
    /// The column of this index for a value of its property.
    pub fn column(&self, value: &Value) -> Result<ColumnValue> {
        match (self.kind, value) {
            (IndexType::Hash, Value::String(text)) => Ok(ColumnValue::Text(sha_s(text))),
            (IndexType::String, Value::String(text)) => Ok(ColumnValue::Text(text.clone())),
            (IndexType::Int, Value::Number(Number::Int(i))) => Ok(ColumnValue::Int(*i)),
            (IndexType::Float, Value::Number(n)) => Ok(ColumnValue::Float(n.as_f64())),
            (IndexType::Bool, Value::Bool(b)) => Ok(ColumnValue::Int(i64::from(*b))),
            (IndexType::List, Value::Array(items)) => {
                let texts: Option<Vec<String>> =
                    items.iter().map(|i| i.as_str().map(str::to_owned)).collect();
                texts.map(ColumnValue::List).ok_or_else(|| self.wrong())
            }
            _ => Err(self.wrong()),
        }
    }

    fn wrong(&self) -> Error {
        let what = match self.kind {
            IndexType::Hash | IndexType::String => "a string",
            IndexType::Int => "an integer",
            IndexType::Float => "a number",
            IndexType::List => "a list of strings",
            IndexType::Bool => "a boolean",
        };
        Error::new(
            Code::BadValue,
            format!("property {} of index {} must be {what}", self.property, self.name),
        )
    }
}
