//! Matches: how an application describes a subscription, before it becomes a def.

use crate::error::{Code, Error, Result, fail};
use crate::model::schema::{Class, Collection, Schema};
use crate::model::{Def, Name, Value};

impl Schema {
    /// The def of a match: `{}` is the class, `{"key": [..]}` one document. Otherwise it is the collection
    /// whose key consists of these properties, in any order. Of two collections with the same properties,
    /// which hold the same documents, the first by name is taken.
    ///
    /// ```
    /// use escale::model::{Value, schema::Schema};
    /// let schema = Schema::from_json(
    ///     r#"{"City": {"key": ["id"], "collections": {"place": {"key": ["country", "name"]}}}}"#,
    /// )?;
    /// let matching = Value::from([("name", "Lyon".into()), ("country", "France".into())]);
    /// assert!(schema.def_of("City", &matching)?.to_string().starts_with("City/place@"));
    /// # Ok::<(), escale::Error>(())
    /// ```
    pub fn def_of(&self, class: &str, matching: &Value) -> Result<Def> {
        let class = self.class(class)?;
        let Some(map) = matching.as_map() else { return fail(Code::BadOption, "match: must be a map") };
        if map.is_empty() {
            return Ok(Def::class_of(class.name()));
        }
        if let (Some(Value::Array(parts)), 1) = (map.get("key"), map.len()) {
            let parts: Option<Vec<&str>> = parts.iter().map(Value::as_str).collect();
            let parts = parts.ok_or_else(|| Error::new(Code::BadKey, "a key is a list of strings"))?;
            return Ok(Def::document(class.name(), &class.pk_of(&parts)?));
        }
        let collection = class.made_of(map.keys().map(String::as_str))?;
        // The collection was found by these properties, so each is in the map.
        let values = collection.key().iter().map(|property| {
            let value = map.get(property.as_str()).and_then(Value::as_str);
            value.ok_or_else(|| Error::new(Code::BadOption, format!("match: {property} must be a string")))
        });
        Def::collection(class.name(), collection.name(), &values.collect::<Result<Vec<_>>>()?)
    }
}

impl Class {
    /// The collection whose key consists of exactly these properties.
    fn made_of<'a>(&self, properties: impl Iterator<Item = &'a str> + Clone) -> Result<&Collection> {
        let is_it = |collection: &&Collection| {
            let key = collection.key();
            key.len() == properties.clone().count()
                && properties.clone().all(|property| key.iter().any(|name| name.as_str() == property))
        };
        self.collections().iter().find(is_it).ok_or_else(|| {
            let known: Vec<String> = self.collections().iter().map(as_match).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let detail = format!(
                "class {} has no collection of these properties; a match is {{}}, {{key: [..]}}, or all the \
                 properties of a collection. Its collections: {known}",
                self.name()
            );
            Error::new(Code::UnknownDef, detail)
        })
    }
}

/// Formats a collection as `place {country, city}`.
fn as_match(collection: &Collection) -> String {
    let properties: Vec<&str> = collection.key().iter().map(Name::as_str).collect();
    format!("{} {{{}}}", collection.name(), properties.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::Value as Json;

    use super::*;

    const SCHEMA: &str = r#"{
        "City": {
            "key": ["id"],
            "collections": {
                "place": { "key": ["country", "region"] },
                "byCountry": { "key": ["country"] },
                "rivers": { "key": ["rivers"], "list": true },
                "name": { "key": ["key"] }
            }
        },
        "Bare": { "key": ["a", "b"] }
    }"#;

    fn def_of(class: &str, matching: &str) -> Result<String> {
        let schema = Schema::from_json(SCHEMA)?;
        let matching = serde_json::from_str(matching).expect("JSON");
        schema.def_of(class, &value_of(&matching)).map(|def| def.to_string())
    }

    fn value_of(json: &Json) -> Value {
        match json {
            Json::Null => Value::Null,
            Json::Bool(value) => Value::Bool(*value),
            Json::Number(number) => Value::from(number.as_i64().expect("a whole number")),
            Json::String(text) => Value::from(text.as_str()),
            Json::Array(items) => Value::Array(items.iter().map(value_of).collect()),
            Json::Object(map) => Value::Map(map.iter().map(|(key, v)| (key.clone(), value_of(v))).collect()),
        }
    }

    fn collection(name: &str, values: &[&str]) -> String {
        let [class, name] = ["City", name].map(|text| Name::new(text).expect("a name"));
        Def::collection(&class, &name, values).expect("a def").to_string()
    }

    #[test]
    fn a_match_names_the_class_or_a_document() {
        assert_eq!(def_of("City", "{}").expect("the class"), "City");
        let pk = Schema::from_json(SCHEMA).expect("a schema").class("City").expect("a class").pk_of(&["x"]);
        let document = format!("City@{}", pk.expect("a pk"));
        assert_eq!(def_of("City", r#"{"key":["x"]}"#).expect("a document"), document);
        for (class, key) in [("Bare", r#"{"key":["x"]}"#), ("City", r#"{"key":[1]}"#)] {
            assert_eq!(def_of(class, key).expect_err("no key").code(), Code::BadKey);
        }
    }

    #[test]
    fn a_collection_is_found_by_its_properties_in_any_order() {
        let place = collection("place", &["France", "Rhone"]);
        assert_eq!(def_of("City", r#"{"country":"France","region":"Rhone"}"#).expect("a match"), place);
        assert_eq!(def_of("City", r#"{"region":"Rhone","country":"France"}"#).expect("a match"), place);
        let one = def_of("City", r#"{"country":"France"}"#).expect("a match");
        assert_eq!(one, collection("byCountry", &["France"]));
        let list = def_of("City", r#"{"rivers":"Saone"}"#).expect("a match");
        assert_eq!(list, collection("rivers", &["Saone"]));
        // A property called `key` is a string, while the key of a document is a list.
        assert_eq!(def_of("City", r#"{"key":"x"}"#).expect("a match"), collection("name", &["x"]));
    }

    #[test]
    fn other_properties_are_unknown_and_the_collections_are_told() {
        for wrong in [
            r#"{"byCountry":"France"}"#,
            r#"{"region":"Rhone"}"#,
            r#"{"country":"France","city":"Lyon"}"#,
            r#"{"country":"France","region":"Rhone","rivers":"Saone"}"#,
            r#"{"key":["x"],"country":"France"}"#,
        ] {
            let error = def_of("City", wrong).expect_err(wrong);
            assert_eq!(error.code(), Code::UnknownDef, "{wrong}");
            let told = "byCountry {country}, name {key}, place {country, region}, rivers {rivers}";
            assert!(error.detail().ends_with(told), "{}", error.detail());
        }
        let error = def_of("Bare", r#"{"a":"x"}"#).expect_err("no collection");
        assert!(error.detail().ends_with("Its collections: none"), "{}", error.detail());
    }

    #[test]
    fn values_are_strings() {
        for wrong in [r#"{"country":["France"]}"#, r#"{"country":1}"#, r#"{"country":null}"#, "[]", "5"] {
            assert_eq!(def_of("City", wrong).expect_err(wrong).code(), Code::BadOption, "{wrong}");
        }
    }
}
