//! The JSON form of the schema, and the validation of a schema.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Class, Collection, Index, IndexType, Schema};
use crate::error::{Code, Error, Result, fail};
use crate::limits::SCHEMA_ITEMS_MAX;
use crate::model::Name;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClassJson {
    key: Vec<Name>,
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    sync: bool,
    #[serde(default = "one", skip_serializing_if = "is_one")]
    release: u64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    collections: BTreeMap<Name, CollectionJson>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    indexes: BTreeMap<Name, IndexJson>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    properties: BTreeMap<Name, String>,
    #[serde(default, skip_serializing)]
    clock: Option<String>,
    #[serde(default, skip_serializing)]
    sealed: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CollectionJson {
    key: Vec<Name>,
    #[serde(default, skip_serializing_if = "is_false")]
    list: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    mutable: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum IndexJson {
    Short(String),
    Long(IndexLong),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct IndexLong {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    property: Option<Name>,
    #[serde(default, skip_serializing_if = "is_false")]
    global: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    unique: bool,
}

fn yes() -> bool {
    true
}
fn one() -> u64 {
    1
}
#[allow(clippy::trivially_copy_pass_by_ref)] // the shape that serde asks for
fn is_true(b: &bool) -> bool {
    *b
}
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_false(b: &bool) -> bool {
    !*b
}
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_one(n: &u64) -> bool {
    *n == 1
}

/// The types that `properties` may declare for a property, for TypeScript.
pub const PROPERTY_TYPES: [&str; 8] =
    ["string", "number", "boolean", "bytes", "string[]", "number[]", "boolean[]", "any"];

pub(super) fn schema(text: &str) -> Result<Schema> {
    let classes: BTreeMap<Name, ClassJson> =
        serde_json::from_str(text).map_err(|e| Error::new(Code::BadSchema, e.to_string()))?;
    if classes.is_empty() {
        return fail(Code::BadSchema, "a schema has at least one class");
    }
    if classes.len() > SCHEMA_ITEMS_MAX {
        return fail(Code::BadSchema, format!("more than {SCHEMA_ITEMS_MAX} classes"));
    }
    let classes: Result<Vec<Class>> = classes.into_iter().map(|(name, json)| class(name, json)).collect();
    Ok(Schema::new(classes?))
}

fn class(name: Name, json: ClassJson) -> Result<Class> {
    let bad = |what: String| Error::new(Code::BadSchema, format!("class {name}: {what}"));
    let wrong = |what: String| Err(bad(what));
    match json.clock.as_deref() {
        None | Some("time") => {}
        Some("sequence") => {
            return fail(Code::NotSupported, format!("class {name}: the clock `sequence` comes later"));
        }
        Some(_) => return wrong("clock must be `time`".into()),
    }
    if json.sealed {
        return fail(Code::NotSupported, format!("class {name}: sealed classes come later"));
    }
    check_key(&json.key).map_err(|what| bad(what.into()))?;
    if json.release == 0 || json.release > u64::from(u32::MAX) {
        return wrong("release starts at 1".into());
    }
    if json.collections.len() > SCHEMA_ITEMS_MAX || json.indexes.len() > SCHEMA_ITEMS_MAX {
        return wrong(format!("more than {SCHEMA_ITEMS_MAX} collections or indexes"));
    }
    let mut collections = Vec::new();
    for (collection, c) in json.collections {
        check_key(&c.key).map_err(|what| bad(format!("collection {collection}: {what}")))?;
        if c.list && c.key.len() != 1 {
            return wrong(format!("collection {collection}: a list has one property"));
        }
        collections.push(Collection { name: collection, key: c.key, list: c.list, mutable: c.mutable });
    }
    let mut indexes = Vec::new();
    for (index, json) in json.indexes {
        let long = match json {
            IndexJson::Short(kind) => IndexLong { kind, property: None, global: false, unique: false },
            IndexJson::Long(long) => long,
        };
        let Some(kind) = IndexType::parse(&long.kind) else {
            let names = IndexType::ALL.map(IndexType::as_str).join(", ");
            return wrong(format!("index {index}: type must be one of {names}"));
        };
        if long.unique && kind == IndexType::List {
            return wrong(format!("index {index}: a list cannot be unique"));
        }
        let property = long.property.unwrap_or_else(|| index.clone());
        indexes.push(Index { name: index, property, kind, global: long.global, unique: long.unique });
    }
    for (property, kind) in &json.properties {
        if !PROPERTY_TYPES.contains(&kind.as_str()) {
            return wrong(format!("property {property}: type must be one of {}", PROPERTY_TYPES.join(", ")));
        }
    }
    let properties = json.properties.into_iter().collect();
    Ok(Class {
        name,
        key: json.key,
        sync: json.sync,
        release: json.release,
        collections,
        indexes,
        properties,
    })
}

fn check_key(key: &[Name]) -> std::result::Result<(), &'static str> {
    if key.is_empty() || key.len() > 8 {
        return Err("a key has 1 to 8 properties");
    }
    if key.iter().enumerate().any(|(i, name)| key[..i].contains(name)) {
        return Err("a key names a property once");
    }
    Ok(())
}

pub(super) fn to_json(schema: &Schema) -> String {
    let classes: BTreeMap<&Name, ClassJson> =
        schema.classes().iter().map(|c| (c.name(), class_json(c))).collect();
    serde_json::to_string(&classes).expect("names and flags always serialise")
}

fn class_json(class: &Class) -> ClassJson {
    let index = |i: &Index| {
        IndexJson::Long(IndexLong {
            kind: i.kind.as_str().into(),
            property: (i.property != i.name).then(|| i.property.clone()),
            global: i.global,
            unique: i.unique,
        })
    };
    ClassJson {
        key: class.key.clone(),
        sync: class.sync,
        release: class.release,
        collections: class
            .collections
            .iter()
            .map(|c| {
                (c.name.clone(), CollectionJson { key: c.key.clone(), list: c.list, mutable: c.mutable })
            })
            .collect(),
        indexes: class.indexes.iter().map(|i| (i.name.clone(), index(i))).collect(),
        properties: class.properties.iter().cloned().collect(),
        clock: None,
        sealed: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> Code {
        Schema::from_json(text).unwrap_err().code()
    }

    #[test]
    fn a_schema_reads_back_from_its_json() {
        let text = r#"{"A":{"key":["x","y"],"release":3,"sync":false,"properties":{"z":"string[]"},
            "collections":{"c":{"key":["p","q"]},"l":{"key":["t"],"list":true,"mutable":true}},
            "indexes":{"i":"int","u":{"type":"hash","property":"mail","unique":true}}}}"#;
        let schema = Schema::from_json(text).unwrap();
        assert_eq!(Schema::from_json(&schema.to_json()).unwrap(), schema);
    }

    #[test]
    fn wrong_schemas_are_refused_by_name() {
        assert_eq!(code("{}"), Code::BadSchema);
        assert_eq!(code("[]"), Code::BadSchema);
        assert_eq!(code(r#"{"A":{"key":[]}}"#), Code::BadSchema);
        assert_eq!(code(r#"{"A b":{"key":["x"]}}"#), Code::BadSchema);
        assert_eq!(code(r#"{"A":{"key":["x","x"]}}"#), Code::BadSchema);
        assert_eq!(code(r#"{"A":{"key":["x"],"colections":{}}}"#), Code::BadSchema);
        assert_eq!(code(r#"{"A":{"key":["x"],"indexes":{"i":"date"}}}"#), Code::BadSchema);
        assert_eq!(
            code(r#"{"A":{"key":["x"],"collections":{"c":{"key":["p","q"],"list":true}}}}"#),
            Code::BadSchema
        );
        assert_eq!(code(r#"{"A":{"key":["x"],"clock":"sequence"}}"#), Code::NotSupported);
        assert_eq!(code(r#"{"A":{"key":["x"],"sealed":true}}"#), Code::NotSupported);
    }

    #[test]
    fn a_schema_that_contradicts_an_older_one_is_refused() {
        let of = |text| Schema::from_json(text).unwrap();
        let old =
            of(r#"{"A":{"key":["x"],"release":2,"collections":{"c":{"key":["p"]}}},"B":{"key":["y"]}}"#);
        let follows = |text| of(text).check_follows(&old).map_err(|e| e.code());
        assert_eq!(follows(r#"{"A":{"key":["x"],"release":3,"indexes":{"i":"int"}}}"#), Ok(()));
        assert_eq!(follows(r#"{"A":{"key":["z"],"release":2}}"#), Err(Code::SchemaMismatch));
        assert_eq!(follows(r#"{"A":{"key":["x"],"release":1}}"#), Err(Code::SchemaMismatch));
        let other = r#"{"A":{"key":["x"],"release":2,"collections":{"c":{"key":["q"]}}}}"#;
        assert_eq!(follows(other), Err(Code::SchemaMismatch));
    }
}
