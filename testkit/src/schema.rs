//! The schema of the histories, and their small set of documents and defs.

use std::collections::{BTreeMap, BTreeSet};

use escale::memory::query::Query;
use escale::model::schema::{Class, Schema};
use escale::model::{Def, DefKind, Name, Pk, Value};

use super::files::references;

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
        "indexes": { "size": "integer", "section": "string", "tags": "string[]", "origin": "hash" }
    },
    "Note": { "key": ["book", "page"] },
    "Tree": { "key": ["id"], "collections": { "section": { "key": ["section"], "mutable": true } } },
    "Twig": { "in": "Tree", "key": ["tree", "twig"], "indexes": { "size": "integer" } },
    "Vine": { "in": "Tree", "key": ["tree"] },
    "Wall": { "key": ["id"], "clock": "sequence" },
    "WallBrick": { "in": "Wall", "key": ["wall", "brick"], "indexes": { "size": "integer" } },
    "WallCap": { "in": "Wall", "key": ["wall"] },
    "Photo": { "key": ["id"], "properties": { "files": "file[]" } }
}"#;

pub const SECTIONS: [&str; 3] = ["games", "admin", "x11"];
pub const TAGS: [&str; 3] = ["role::program", "use::gaming", "interface::x11"];
pub const KINDS: [&str; 2] = ["source", "binary"];
pub const IDS: usize = 7;
pub const PAGES: usize = 2;
/// The flat documents. After them come the trees: two parents, two items of each, and one singleton of each. First those
/// of the clock `time`, then as many of the clock `sequence`.
pub const FLAT: usize = IDS + PAGES;
pub const IN_TREES: usize = 2 * OF_A_CLOCK;
const OF_A_CLOCK: usize = 8;
/// The documents that reference files come last.
pub const PHOTO: usize = FLAT + IN_TREES;
pub const PHOTOS: usize = 3;
const ALL: usize = PHOTO + PHOTOS;

/// The parents.
pub const PARENTS: [usize; 4] = [FLAT, FLAT + 1, FLAT + OF_A_CLOCK, FLAT + OF_A_CLOCK + 1];

/// The classes of the trees of a clock: of parents, of items, and of singletons.
const CLASSES: [[&str; 3]; 2] = [["Tree", "Twig", "Vine"], ["Wall", "WallBrick", "WallCap"]];

/// A text that no other part of a store can contain by chance: `r13` searches for it.
pub const CANARY: &str = "canary-4af1c97e";

thread_local! {
    static PARSED: Schema = Schema::from_json(SCHEMA).expect("the schema of the tests");
    /// The keys of the documents by their numbers, and back. A key costs a hash, and histories ask for millions.
    static KEYS: Vec<Key> = (0..ALL).map(made_key).collect();
    static NUMBERS: BTreeMap<Key, usize> = KEYS.with(|keys| keys.iter().cloned().zip(0..).collect());
    static UNIVERSE: Vec<Def> = universe();
    static TREES: Vec<Option<Key>> = (0..ALL).map(made_tree).collect();
    static DEFS_OF_TREES: Vec<(Key, Vec<Def>)> = PARENTS.map(key).into_iter().map(with_defs).collect();
}

/// Reads the parents, each with the defs of its tree: its own, then those of its items.
pub fn with_trees<T>(read: impl FnOnce(&[(Key, Vec<Def>)]) -> T) -> T {
    DEFS_OF_TREES.with(|trees| read(trees))
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

/// The class and the key properties of the document with that number in the trees.
fn in_trees(number: usize) -> (&'static str, Vec<(&'static str, String)>) {
    let of = (number - FLAT) / OF_A_CLOCK % 2;
    let [parent, items, single] = CLASSES[of];
    let [tree, twig] = [["tree", "twig"], ["wall", "brick"]][of];
    let id = format!("{}{}", ["t", "w"][of], number % 2);
    match (number - FLAT) % OF_A_CLOCK {
        0 | 1 => (parent, vec![("id", id)]),
        n @ 2..=5 => (items, vec![(tree, id), (twig, format!("twig/{n}"))]),
        _ => (single, vec![(tree, id)]),
    }
}

/// The key properties of the document with that number.
pub fn parts(number: usize) -> Vec<String> {
    match number {
        n if n < IDS => vec![format!("id{n}")],
        n if n < FLAT => vec!["book".into(), format!("page/{n}")],
        n if n >= PHOTO => vec![format!("photo{n}")],
        n => in_trees(n).1.into_iter().map(|(_, part)| part).collect(),
    }
}

/// The parent of an item that lives in the data.
pub fn parent_of(class: &Class, data: &Map) -> Option<Key> {
    let key: Vec<&str> =
        class.items()?.key().iter().filter_map(|name| data.get(name.as_str())?.as_str()).collect();
    Some((class.parent()?.clone(), Pk::from_key(&key).ok()?))
}

/// The document that has that key, by its number; none if it is no document of the histories.
pub fn number_of(of: &Key) -> Option<usize> {
    NUMBERS.with(|numbers| numbers.get(of).copied())
}

/// The parent of the item with that key, if it is one of the histories.
pub fn tree_of(of: &Key) -> Option<Key> {
    TREES.with(|trees| trees[number_of(of)?].clone())
}

fn made_tree(number: usize) -> Option<Key> {
    if !(FLAT..PHOTO).contains(&number) || PARENTS.contains(&number) {
        return None;
    }
    let [parent, ..] = CLASSES[(number - FLAT) / OF_A_CLOCK];
    Some((name(parent), Pk::from_key(&[&parts(number)[0]]).expect("a pk")))
}

/// Whether the documents of that class are parents.
pub fn is_parent(class: &Name) -> bool {
    CLASSES.iter().any(|[parent, ..]| class.as_str() == *parent)
}

/// Whether the versions of that class are numbers.
pub fn is_sequence(class: &Name) -> bool {
    CLASSES[1].contains(&class.as_str())
}

/// A parent, with the defs of its tree.
fn with_defs(parent: Key) -> (Key, Vec<Def>) {
    let defs = [vec![Def::document(&parent.0, &parent.1)], items_of(&parent)].concat();
    (parent, defs)
}

/// The defs of the items of a parent.
fn items_of(parent: &Key) -> Vec<Def> {
    let [_, items @ ..] = CLASSES[usize::from(is_sequence(&parent.0))];
    items.map(|class| Def::collection_hashed(&name(class), &name("in"), parent.1.as_str())).into()
}

/// The tree of a def: that of a parent, or of the items of one parent.
pub fn tree_of_def(def: &Def) -> Option<Key> {
    match def.kind() {
        DefKind::Document(pk) if is_parent(def.class()) => Some((def.class().clone(), pk.clone())),
        DefKind::Collection(collection, hash) if collection.as_str() == "in" => {
            let [parent, ..] = CLASSES[usize::from(is_sequence(def.class()))];
            Some((name(parent), Pk::parse(hash).expect("a pk")))
        }
        _ => None,
    }
}

/// The key of the document with that number: a few `Doc`s, a few `Note`s, those in trees, then a few `Photo`s.
pub fn key(number: usize) -> Key {
    KEYS.with(|keys| keys[number].clone())
}

fn made_key(number: usize) -> Key {
    if number >= PHOTO {
        return (name("Photo"), Pk::from_key(&[&parts(number)[0]]).expect("a pk"));
    }
    if number >= FLAT {
        let parts = parts(number);
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        return (name(in_trees(number).0), Pk::from_key(&parts).expect("a pk"));
    }
    if number < IDS {
        (name("Doc"), Pk::from_key(&[&format!("id{number}")]).expect("a pk"))
    } else {
        (name("Note"), Pk::from_key(&["book", &format!("page/{number}")]).expect("a pk"))
    }
}

/// The data of the document with that number; without `section` if it is none. The tags of a `Photo` are its files.
pub fn data(number: usize, section: Option<usize>, tags: u8, edition: u64) -> Map {
    let mut map = Map::new();
    let text = format!("{CANARY} edition {edition} {}", "lorem ".repeat(edition as usize % 40));
    map.insert("text".into(), Value::String(text));
    map.insert("size".into(), Value::from(edition as i64));
    map.insert("raw".into(), Value::Bytes(edition.to_be_bytes().to_vec()));
    if number >= PHOTO {
        map.insert("id".into(), Value::String(parts(number).remove(0)));
        map.insert("files".into(), references(tags));
        return map;
    }
    if number >= FLAT {
        let (class, parts) = in_trees(number);
        map.extend(parts.into_iter().map(|(name, part)| (name.to_owned(), Value::String(part))));
        if let Some(section) = section.filter(|_| class == "Tree") {
            map.insert("section".into(), SECTIONS[section % SECTIONS.len()].into());
        }
        return map;
    }
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
    if class.parent().is_some() || class.is_sequence() {
        defs.remove(&Def::class_of(class.name()));
    }
    if class.parent().is_some() && class.is_sequence() {
        defs.remove(&Def::document(class.name(), pk));
    }
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
    // The defs of trees.
    let trees = PARENTS.map(|number| with_defs(key(number)).1);
    let [timed @ .., third, fourth] = trees;
    defs.extend(timed.concat());
    defs.push(Def::class_of(&name("Tree")));
    let (class, pk) = key(FLAT + 2);
    defs.push(Def::document(&class, &pk));
    defs.extend([third, fourth].concat());
    let (class, pk) = key(PHOTO);
    defs.extend([Def::class_of(&class), Def::document(&class, &pk)]);
    defs
}

/// The def with that number in [`universe`].
pub fn def(number: usize) -> Def {
    UNIVERSE.with(|all| all[number % all.len()].clone())
}
