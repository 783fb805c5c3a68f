//! The schema of the histories, and their small set of documents and defs.

use std::collections::{BTreeMap, BTreeSet};

use escale::memory::query::Query;
use escale::model::schema::{Class, Schema};
use escale::model::{Def, Name, Pk, Value};

pub type Map = BTreeMap<String, Value>;

/// A document's key, as the server knows it.
pub type Key = (Name, Pk);

pub const SCHEMA: &str = r#"{
    "Doc": {
        "key": ["id"],
        "collections": {
            "section": { "key": ["section"], "mutable": true },
            "tags": { "key": ["tags"], "list": true, "mutable": true },
            "kind": { "key": ["kind", "origin"] }
        },
        "indexes": { "size": "int", "section": "string", "tags": "list", "origin": "hash" }
    },
    "Note": { "key": ["book", "page"] }
}"#;

pub const SECTIONS: [&str; 3] = ["games", "admin", "x11"];
pub const TAGS: [&str; 3] = ["role::program", "use::gaming", "interface::x11"];
pub const KINDS: [&str; 2] = ["source", "binary"];
pub const IDS: usize = 7;
pub const PAGES: usize = 2;

/// A text that no other part of a store can contain by chance: `r13` searches for it.
pub const CANARY: &str = "canary-4af1c97e";

thread_local! {
    static PARSED: Schema = Schema::from_json(SCHEMA).expect("the schema of the tests");
}

/// Reads from the schema, which is parsed once.
pub fn with<T>(read: impl FnOnce(&Schema) -> T) -> T {
    PARSED.with(read)
}

/// The schema.
pub fn schema() -> Schema {
    PARSED.with(Schema::clone)
}

pub fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

/// The query of all documents of the class `Doc`, in the order of their keys.
pub fn by_key() -> Query {
    with(|schema| {
        let class = schema.class("Doc").expect("a class");
        Query::from_json(class, r#"[[],null,["key",false],null,null]"#).expect("a query")
    })
}

/// The key of the document with that number: a few `Doc`s, then a few `Note`s.
pub fn key(number: usize) -> Key {
    let number = number % (IDS + PAGES);
    if number < IDS {
        (name("Doc"), Pk::from_key(&[&format!("id{number}")]).expect("a pk"))
    } else {
        (name("Note"), Pk::from_key(&["book", &format!("page/{number}")]).expect("a pk"))
    }
}

/// The data of the document with that number; without `section` if it is none.
pub fn data(number: usize, section: Option<usize>, tags: u8, edition: u64) -> Map {
    let number = number % (IDS + PAGES);
    let mut map = Map::new();
    let text = format!("{CANARY} edition {edition} {}", "lorem ".repeat(edition as usize % 40));
    map.insert("text".into(), Value::String(text));
    map.insert("size".into(), Value::from(edition as i64));
    map.insert("raw".into(), Value::Bytes(edition.to_be_bytes().to_vec()));
    if number >= IDS {
        map.insert("book".into(), "book".into());
        map.insert("page".into(), Value::String(format!("page/{number}")));
        return map;
    }
    map.insert("id".into(), Value::String(format!("id{number}")));
    if let Some(section) = section {
        map.insert("section".into(), SECTIONS[section % SECTIONS.len()].into());
    }
    let tags = TAGS.iter().enumerate().filter(|(i, _)| tags >> i & 1 == 1).map(|(_, tag)| (*tag).into());
    map.insert("tags".into(), Value::Array(tags.collect()));
    map.insert("kind".into(), KINDS[number % KINDS.len()].into());
    map.insert("origin".into(), "debian".into());
    map
}

/// Every def that holds a living document.
pub fn defs_of(class: &Class, pk: &Pk, data: &Map) -> BTreeSet<Def> {
    let mut defs = BTreeSet::from([Def::class_of(class.name()), Def::document(class.name(), pk)]);
    for collection in class.collections() {
        let hashes = collection.memberships(data).expect("the data of the tests").unwrap_or_default();
        let of = hashes.iter().map(|hash| Def::collection_hashed(class.name(), collection.name(), hash));
        defs.extend(of);
    }
    defs
}

/// Every def that a client may subscribe to, in a fixed order.
pub fn universe() -> Vec<Def> {
    let doc = name("Doc");
    let mut defs = vec![Def::class_of(&doc), Def::class_of(&name("Note"))];
    let of = |collection: &str, values: &[&str]| {
        Def::collection(&doc, &name(collection), values).expect("a def of the schema")
    };
    defs.extend(SECTIONS.iter().map(|value| of("section", &[value])));
    defs.extend(TAGS.iter().map(|value| of("tags", &[value])));
    defs.extend(KINDS.iter().map(|value| of("kind", &[value, "debian"])));
    for number in [0, 1, IDS] {
        let (class, pk) = key(number);
        defs.push(Def::document(&class, &pk));
    }
    defs
}

/// The def with that number in [`universe`].
pub fn def(number: usize) -> Def {
    let mut all = universe();
    let place = number % all.len();
    all.swap_remove(place)
}
