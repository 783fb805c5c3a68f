//! The JSON form of the schema, and the validation of a schema.

use super::Presence::{Optional, Required};
use super::fields::{Fields, reads};
use super::format::{Format, read_json, write_json};
use super::node::{Node, NodeError};
use super::wire::{Decode, Encode, Named};
use super::writer::{FieldOut, Writer};
use crate::error::{Code, Error, Result, fail};
use crate::limits::SCHEMA_ITEMS_MAX;
use crate::model::schema::{
    Class, Collection, FOR_SERVER, Index, IndexType, PROPERTY_TYPES, Property, Schema, connect,
};
use crate::model::{Name, SortedMap, Value};

/// The types of an index, as the message about another type lists them. Drafts of this language had four other words.
const INDEX_TYPES: &str =
    "hash, string, integer (not int), number (not float), string[] (not list), boolean (not bool)";

#[allow(clippy::struct_excessive_bools)] // independent facts
struct ClassJson {
    key: Vec<Name>,
    sync: bool,
    release: u64,
    collections: SortedMap<Name, CollectionJson>,
    indexes: SortedMap<Name, IndexJson>,
    properties: SortedMap<Name, Property>,
    clock: Option<String>,
    sealed: bool,
    parent: Option<Name>,
    raw: bool,
    local: bool,
    for_server: [Option<Value>; FOR_SERVER.len()],
}

impl Decode for ClassJson {
    fn decode(node: Node<'_>, format: Format) -> std::result::Result<Self, NodeError> {
        const NAMES: &[&str] = &[
            "key",
            "sync",
            "release",
            "collections",
            "indexes",
            "properties",
            "clock",
            "sealed",
            "in",
            "raw",
            "local",
            FOR_SERVER[0],
            FOR_SERVER[1],
            FOR_SERVER[2],
            FOR_SERVER[3],
            FOR_SERVER[4],
        ];
        let mut fields = Fields::only(node, NAMES, format)?;
        let mut class = ClassJson {
            key: fields.required()?,
            sync: fields.or(true)?,
            release: fields.or(1)?,
            collections: fields.or_default()?,
            indexes: fields.or_default()?,
            properties: fields.or_default()?,
            clock: fields.or_default()?,
            sealed: fields.or_default()?,
            parent: fields.or_default()?,
            raw: fields.or_default()?,
            local: fields.or_default()?,
            for_server: Default::default(),
        };
        for value in &mut class.for_server {
            *value = fields.or_default()?;
        }
        Ok(class)
    }
}

struct CollectionJson {
    key: Vec<Name>,
    list: bool,
    mutable: bool,
}

reads!(only CollectionJson { key, list default, mutable default });

struct IndexJson {
    kind: String,
    property: Option<Name>,
    global: bool,
    unique: bool,
}

impl Decode for IndexJson {
    /// Its type alone, or a record.
    fn decode(node: Node<'_>, format: Format) -> std::result::Result<Self, NodeError> {
        if let Node::Text(kind) = node {
            return Ok(IndexJson { kind: kind.into_owned(), property: None, global: false, unique: false });
        }
        let mut fields = Fields::only(node, &["type", "property", "global", "unique"], format)?;
        Ok(IndexJson {
            kind: fields.required()?,
            property: fields.or_default()?,
            global: fields.or_default()?,
            unique: fields.or_default()?,
        })
    }
}

impl Decode for Property {
    /// Its type alone, or a record that only the server and `escale/values` read.
    fn decode(node: Node<'_>, format: Format) -> std::result::Result<Self, NodeError> {
        if let Node::Text(kind) = node {
            return Ok(Property { kind: kind.into_owned(), words: None });
        }
        let words = Value::decode(node, format)?;
        let kind = words.as_map().and_then(|map| map.get("type")).and_then(Value::as_str);
        Ok(Property { kind: kind.unwrap_or_default().to_owned(), words: Some(words) })
    }
}

impl<T: Decode> Decode for SortedMap<Name, T> {
    fn decode(node: Node<'_>, format: Format) -> std::result::Result<Self, NodeError> {
        let Node::Map(entries) = node else { return Err(NodeError::wrong_type("a map")) };
        let mut map = SortedMap::new();
        for (key, value) in entries {
            let name = Name::decode(key, format)?;
            let value = T::decode(value, format).map_err(|error| error.within(name.as_str()))?;
            map.insert(name, value);
        }
        Ok(map)
    }
}

impl Schema {
    /// Parses a schema from its JSON text; the error names the position of the mistake.
    pub fn from_json(text: &str) -> Result<Self> {
        let classes: SortedMap<Name, ClassJson> = read_json(text, Code::BadSchema)?;
        if classes.is_empty() {
            return fail(Code::BadSchema, "a schema has at least one class");
        }
        if classes.len() > SCHEMA_ITEMS_MAX {
            return fail(Code::BadSchema, format!("more than {SCHEMA_ITEMS_MAX} classes"));
        }
        let classes: Result<Vec<Class>> = classes.into_iter().map(|(name, json)| class(name, json)).collect();
        let mut classes = classes?;
        connect(&mut classes)?;
        Ok(Schema::new(classes))
    }

    /// The schema as JSON, as [`Schema::from_json`] parses it.
    pub fn to_json(&self) -> String {
        let classes = self.classes().iter().map(|class| (class.name.to_string(), class)).collect();
        write_json(&Named(classes)).expect("names and flags are JSON")
    }
}

fn class(name: Name, json: ClassJson) -> Result<Class> {
    let bad = |what: String| Error::new(Code::BadSchema, format!("class {name}: {what}"));
    let wrong = |what: String| Err(bad(what));
    if json.clock.is_some() && json.parent.is_some() {
        // Its own clock would be ignored.
        return wrong("a class with `in` has the clock of the class that it is `in`".into());
    }
    let sequence = match json.clock.as_deref() {
        None | Some("time") => false,
        Some("sequence") => true,
        Some(_) => return wrong("clock must be `time` or `sequence`".into()),
    };
    if json.sealed {
        return fail(Code::NotSupported, format!("class {name}: sealed classes come later"));
    }
    if json.local && is_for_server(&json) {
        return wrong("a local class has no `sync`, `clock`, `in`, `rights` or `quota`".into());
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
    let (mut indexes, is_local) = (Vec::new(), json.local);
    for (index, json) in json.indexes {
        let Some(kind) = IndexType::parse(&json.kind) else {
            return wrong(format!("index {index}: type must be one of {INDEX_TYPES}"));
        };
        if json.unique && kind == IndexType::List {
            return wrong(format!("index {index}: a list cannot be unique"));
        }
        if is_local && (json.unique || json.global) {
            return wrong(format!("index {index}: of a local class, it is neither unique nor global"));
        }
        let property = json.property.unwrap_or_else(|| index.clone());
        indexes.push(Index { name: index, property, kind, global: json.global, unique: json.unique });
    }
    for (property, declared) in &json.properties {
        if !PROPERTY_TYPES.contains(&declared.kind.as_str()) {
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
        parent: json.parent,
        has_items: false,
        sequence,
        raw: json.raw,
        local: json.local,
        properties,
        for_server: json.for_server,
    })
}

/// Whether a class has words that only a server can keep.
fn is_for_server(json: &ClassJson) -> bool {
    let is_said = json.for_server[..3].iter().any(Option::is_some);
    !json.sync || json.clock.is_some() || json.parent.is_some() || is_said
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

impl Encode for Class {
    fn encode(&self, out: &mut Writer) {
        // The collection of a class of items is implied.
        let declared = self.collections.iter().filter(|_| self.parent.is_none());
        let collections = Named(declared.map(|c| (c.name.to_string(), c)).collect());
        let indexes = Named(self.indexes.iter().map(|i| (i.name.to_string(), i)).collect());
        let properties =
            Named(self.properties.iter().map(|(name, property)| (name.to_string(), property)).collect());
        let mut fields: Vec<FieldOut<'_>> = vec![
            ("in", Optional, &self.parent),
            ("key", Required, &self.key),
            ("raw", Optional, &self.raw),
            ("local", Optional, &self.local),
        ];
        if self.sequence && self.parent.is_none() {
            fields.push(("clock", Required, &"sequence"));
        }
        if !self.sync {
            fields.push(("sync", Required, &self.sync));
        }
        if self.release != 1 {
            fields.push(("release", Required, &self.release));
        }
        fields.push(("collections", Optional, &collections));
        fields.push(("indexes", Optional, &indexes));
        fields.push(("properties", Optional, &properties));
        fields.extend(
            FOR_SERVER.into_iter().zip(&self.for_server).map(|(name, value)| (name, Optional, value as _)),
        );
        out.record(&fields);
    }
}

impl Encode for Property {
    fn encode(&self, out: &mut Writer) {
        match &self.words {
            Some(words) => words.encode(out),
            None => self.kind.encode(out),
        }
    }
}

impl Encode for Collection {
    fn encode(&self, out: &mut Writer) {
        out.record(&[
            ("key", Required, &self.key),
            ("list", Optional, &self.list),
            ("mutable", Optional, &self.mutable),
        ]);
    }
}

impl Encode for Index {
    fn encode(&self, out: &mut Writer) {
        out.record(&[
            ("type", Required, &self.kind.as_str()),
            ("property", Optional, &(self.property != self.name).then_some(&self.property)),
            ("global", Optional, &self.global),
            ("unique", Optional, &self.unique),
        ]);
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
            "indexes":{"i":"integer","u":{"type":"hash","property":"mail","unique":true}}}}"#;
        let schema = Schema::from_json(text).unwrap();
        assert_eq!(Schema::from_json(&schema.to_json()).unwrap(), schema);
        // A store holds this text.
        assert_eq!(
            schema.to_json(),
            r#"{"A":{"key":["x","y"],"sync":false,"release":3,"collections":{"c":{"key":["p","q"]},"#
                .to_owned()
                + r#""l":{"key":["t"],"list":true,"mutable":true}},"indexes":{"i":{"type":"integer"},"#
                + r#""u":{"type":"hash","property":"mail","unique":true}},"properties":{"z":"string[]"}}}"#
        );
        for text in [
            r#"{"B":{"key":["x"]}}"#,
            r#"{"A":{"key":["x"]},"B":{"in":"A","key":["a","n"],"raw":true},"C":{"in":"A","key":["a"]}}"#,
            r#"{"A":{"key":["x"],"clock":"sequence"},"B":{"in":"A","key":["a","n"]}}"#,
            r#"{"A":{"key":["x"],"rights":{"read":[{"own":"x"},"admin"]},"quota":{"by":"x"}}}"#,
            r#"{"A":{"key":["x"],"local":true,"properties":{"p":{"maxLength":8,"type":"string"},"q":"any"},"required":["p"]}}"#,
            r#"{"A":{"key":["x"],"additionalProperties":false}}"#,
        ] {
            assert_eq!(Schema::from_json(text).unwrap().to_json(), text);
        }
    }

    #[test]
    fn an_error_of_a_schema_names_its_place() {
        let detail = |text: &str| Schema::from_json(text).unwrap_err().detail().to_owned();
        assert_eq!(
            detail(r#"{"A":{"key":["x"],"collections":{"c":{"lists":true}}}}"#),
            "A.collections.c: unknown field `lists`, expected one of `key`, `list`, `mutable`"
        );
        assert_eq!(
            detail(r#"{"A":{"key":["x"],"collections":{"c":{"key":[1]}}}}"#),
            "A.collections.c.key[0]: an unexpected type, a string expected"
        );
        assert_eq!(detail(r#"{"A":{"sync":true}}"#), "A: missing field `key`");
        assert_eq!(
            detail(r#"{"A":{"key":["x"],"sync":null}}"#),
            "A.sync: an unexpected type, a boolean expected"
        );
        assert_eq!(detail("{\"A\": }"), "at line 1 column 7");
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
        for wrong in [
            r#"{"A":{"key":["x"],"properties":{"p":{"maxLength":8}}}}"#,
            r#"{"A":{"key":["x"],"properties":{"p":{"type":"text"}}}}"#,
            r#"{"A":{"key":["x"],"properties":{"p":7}}}"#,
            r#"{"A":{"key":["x"],"clock":"sequences"}}"#,
            r#"{"A":{"key":["x"],"clock":"sequence","sync":false}}"#,
            r#"{"A":{"key":["x"],"clock":"sequence","collections":{"c":{"key":["p"]}}}}"#,
            r#"{"A":{"key":["x"]},"B":{"in":"A","key":["x"],"clock":"sequence"}}"#,
            r#"{"A":{"key":["x"],"clock":"sequence"},"B":{"in":"A","key":["x"],"clock":"time"}}"#,
        ] {
            assert_eq!(code(wrong), Code::BadSchema, "{wrong}");
        }
        for (parent, item) in [
            (r#""key":["x"]"#, r#""in":"C","key":["x"]"#),
            (r#""key":["x"],"sync":false"#, r#""in":"A","key":["x"]"#),
            (r#""key":["x"]"#, r#""in":"A","key":["x"],"sync":false"#),
            (r#""key":["x","y"]"#, r#""in":"A","key":["x"]"#),
            (r#""key":["x"]"#, r#""in":"A","key":["x"],"collections":{"c":{"key":["p"]}}"#),
            (r#""key":["x"]"#, r#""in":"A","key":["x"],"indexes":{"i":{"type":"integer","unique":true}}"#),
            (r#""key":["x"]"#, r#""in":"A","key":["x"],"indexes":{"i":{"type":"integer","global":true}}"#),
            (r#""key":["x"]"#, r#""in":"A","key":["x"],"raw":true,"indexes":{"i":"integer"}"#),
            (r#""key":["x"]"#, r#""key":["x"],"raw":true"#),
            (r#""in":"B","key":["x"]"#, r#""in":"A","key":["x"]"#),
            (r#""key":["x"]"#, r#""in":"B","key":["x"]"#),
        ] {
            assert_eq!(code(&format!(r#"{{"A":{{{parent}}},"B":{{{item}}}}}"#)), Code::BadSchema, "{item}");
        }
        assert_eq!(code(r#"{"Org":{"key":["x"]},"B":{"in":"Org","key":["x"]}}"#), Code::BadSchema);
        assert_eq!(code(r#"{"A":{"key":["x"],"sealed":true}}"#), Code::NotSupported);
    }

    /// Properties and indexes have the same words. Those of drafts are refused with the word to write.
    #[test]
    fn words_of_drafts_are_refused_with_the_new_word() {
        let of =
            |word: &str| Schema::from_json(&format!(r#"{{"A":{{"key":["x"],"indexes":{{"i":"{word}"}}}}}}"#));
        for kind in IndexType::ALL.map(IndexType::as_str) {
            assert!(of(kind).is_ok() && INDEX_TYPES.contains(kind), "{kind}");
        }
        for (old, new) in [("int", "integer"), ("float", "number"), ("list", "string[]"), ("bool", "boolean")]
        {
            let error = of(old).unwrap_err().to_string();
            assert!(
                error.contains("class A: index i") && error.contains(&format!("{new} (not {old})")),
                "{error}"
            );
        }
    }

    #[test]
    fn a_schema_that_contradicts_an_older_one_is_refused() {
        let of = |text| Schema::from_json(text).unwrap();
        let old =
            of(r#"{"A":{"key":["x"],"release":2,"collections":{"c":{"key":["p"]}}},"B":{"key":["y"]}}"#);
        let follows = |text| of(text).check_follows(&old).map_err(|e| e.code());
        assert_eq!(follows(r#"{"A":{"key":["x"],"release":3,"indexes":{"i":"integer"}}}"#), Ok(()));
        assert_eq!(follows(r#"{"A":{"key":["z"],"release":2}}"#), Err(Code::SchemaMismatch));
        let earlier = of(r#"{"A":{"key":["x"],"release":1}}"#);
        assert_eq!(earlier.check_follows(&old), Ok(()));
        assert_eq!(earlier.check_releases(&old).map_err(|e| e.code()), Err(Code::SchemaMismatch));
        assert_eq!(old.check_releases(&earlier), Ok(()));
        let item = r#"{"A":{"key":["x"],"release":2},"B":{"in":"A","key":["y"]}}"#;
        assert_eq!(follows(item), Err(Code::SchemaMismatch));
        assert_eq!(follows(r#"{"B":{"key":["y"],"clock":"sequence"}}"#), Err(Code::SchemaMismatch));
        let other = r#"{"A":{"key":["x"],"release":2,"collections":{"c":{"key":["q"]}}}}"#;
        assert_eq!(follows(other), Err(Code::SchemaMismatch));
    }
}
