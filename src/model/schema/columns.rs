//! The columns of a row: the part of a document that a database can see, apart from its sealed `data`.

use std::collections::BTreeMap;

use smol_str::SmolStr;

use super::{Class, Collection, Index, IndexType};
use crate::error::{Code, Error, Result, fail};
use crate::limits::VERSION_MAX;
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
    /// An integer.
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
        let mut collections = SortedMap::new();
        for collection in &self.collections {
            let hashes = collection.memberships(data)?.unwrap_or_default();
            collections.insert(collection.name.clone(), hashes);
        }
        Ok(Columns { pk, collections, indexes: self.index_columns(data)?, max_life: max_life(data)? })
    }

    /// Rejects properties of a patch that no document may have: a value of another type than its index has, or
    /// a `maxLife` that is no minute.
    pub fn check_patch(&self, set: &BTreeMap<String, Value>) -> Result<()> {
        self.index_columns(set)?;
        max_life(set)?;
        Ok(())
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

/// The minute at which a document's life ends.
fn max_life(data: &BTreeMap<String, Value>) -> Result<Option<u64>> {
    match data.get("maxLife") {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            let minutes = value.as_u64().filter(|minutes| *minutes <= VERSION_MAX / 60_000);
            let error = || Error::new(Code::BadValue, "maxLife is minutes since 1970");
            minutes.ok_or_else(error).map(Some)
        }
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
        };
        Error::new(
            Code::BadValue,
            format!("property {} of index {} must be {what}", self.property, self.name),
        )
    }
}
