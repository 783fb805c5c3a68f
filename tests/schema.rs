//! The language of schemas, compared in all places that describe it. The examples of `docs/schema.md` are
//! read, and the tables of `js/src/schema/schema-types.ts` are compared with the core's.

#![cfg(not(target_family = "wasm"))] // needs a machine

use std::collections::{BTreeMap, BTreeSet};

use escale::Code;
use escale::codec::read_json;
use escale::memory::query::Predicate;
use escale::model::schema::{ColumnValue, IndexType, PROPERTY_TYPES, Schema};
use escale::model::{Name, Value};

const PAGE: &str = include_str!("../docs/schema.md");
const TYPES: &str = include_str!("../js/src/schema/schema-types.ts");

/// The page's blocks of that language, each with the rest of its first line: "", or the expected result.
fn blocks(language: &str) -> Vec<(&'static str, &'static str)> {
    let fence = format!("\n```{language}");
    let ends = |rest: &'static str| rest.split_once("\n```").expect("a block ends").0;
    PAGE.match_indices(&fence)
        .map(|(at, _)| ends(&PAGE[at + fence.len()..]).split_once('\n').expect("a block has lines"))
        .map(|(expected, text)| (expected.trim(), text))
        .collect()
}

fn example() -> Schema {
    let (_, text) = blocks("json").into_iter().find(|(expected, _)| expected.is_empty()).expect("an example");
    Schema::from_json(text).expect("the example is a schema")
}

#[test]
fn the_schemas_of_the_page_are_taken_or_refused_as_it_says() {
    let mut seen = BTreeSet::new();
    for (expected, text) in blocks("json").into_iter().filter(|(expected, _)| *expected != "document") {
        let code = Schema::from_json(text).err().map_or("", |error| error.code().as_str());
        assert_eq!(code, expected, "{text}");
        seen.insert(expected);
    }
    assert_eq!(seen, ["", "bad_schema", "not_supported"].into());
}

#[test]
fn the_documents_of_the_page_show_what_it_says() {
    let schema = example();
    let class = schema.class("Article").expect("the page's class");
    let documents: Vec<_> = blocks("json").into_iter().filter(|(what, _)| *what == "document").collect();
    let columns: Vec<_> = documents
        .iter()
        .map(|(_, text)| {
            let map: BTreeMap<String, Value> = read_json(text, Code::BadValue).expect("a document");
            class.columns(&map).expect("a document of the class")
        })
        .collect();
    let [first, second] = columns.as_slice() else { panic!("two documents: {documents:?}") };
    let members = |name: &str| first.collections[&Name::new(name).expect("a name")].len();
    assert_eq!((members("status"), members("authors"), members("place")), (1, 2, 0));
    assert_eq!(first.indexes.values().collect::<Vec<_>>(), [&ColumnValue::Int(12)]);
    assert_eq!((first.max_life, second.max_life), (None, Some(29_919_873)));
}

/// A database orders the column as sessions order booleans: `false` first.
#[test]
fn a_bool_index_takes_booleans_alone() {
    let schema = Schema::from_json(r#"{"A":{"key":["x"],"indexes":{"i":"boolean"}}}"#).expect("a schema");
    let class = schema.class("A").expect("the class");
    let columns = |value: Value| {
        let data = BTreeMap::from([("x".to_owned(), Value::from("1")), ("i".to_owned(), value)]);
        class.columns(&data).map(|columns| columns.indexes.values().cloned().collect::<Vec<_>>())
    };
    assert_eq!(columns(Value::from(false)), Ok(vec![ColumnValue::Int(0)]));
    assert_eq!(columns(Value::from(true)), Ok(vec![ColumnValue::Int(1)]));
    assert_eq!(columns(Value::Null), Ok(vec![]));
    for wrong in [Value::from(1), Value::from("true"), Value::Array(vec![])] {
        let error = columns(wrong).expect_err("no boolean");
        assert_eq!(
            (error.code(), error.detail()),
            (Code::BadValue, "property i of index i must be a boolean")
        );
    }
}

/// The page's table of indexes, row by row.
#[test]
fn the_page_lists_each_type_of_index_with_what_it_answers() {
    let rows: BTreeMap<&str, &str> = PAGE
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` | "))
        .filter(|(name, _)| IndexType::parse(name).is_some())
        .collect();
    assert_eq!(rows.len(), IndexType::ALL.len(), "{rows:?}");
    for kind in IndexType::ALL {
        let asked = rows[kind.as_str()].split_once(" | ").expect("three columns").1;
        let listed: BTreeSet<&str> = asked.split('`').skip(1).step_by(2).collect();
        assert_eq!(listed, operators(kind).0, "{kind:?}");
    }
}

#[test]
fn typescript_names_every_type_of_index_and_of_property() {
    let indexes: BTreeSet<&str> = IndexType::ALL.into_iter().map(IndexType::as_str).collect();
    assert_eq!(strings(between("export type IndexType =", ";")), indexes);
    assert_eq!(strings(between("export type PropertyType =", ";")), PROPERTY_TYPES.into());
}

/// `Comparison` in TypeScript: the operators of each type of index, and the type of its operand.
#[test]
fn typescript_lets_indexes_be_asked_what_the_core_answers() {
    let table: BTreeMap<&str, &str> = between("interface Comparison {", "}")
        .lines()
        .filter_map(|line| line.trim().split_once(": "))
        .map(|(name, row)| (name.trim_matches('"'), row))
        .collect();
    assert_eq!(table.len(), IndexType::ALL.len(), "{table:?}");
    for kind in IndexType::ALL {
        let row = table[kind.as_str()];
        let (known, operand) = operators(kind);
        assert_eq!(strings(row), known, "{kind:?}");
        assert!(row.ends_with(&format!("{operand}];")), "{kind:?} compares with {row}");
    }
}

#[test]
fn typescript_declares_the_fields_that_the_core_reads() {
    let fields = |of: &str| -> BTreeSet<&str> {
        between(&format!("export interface {of} {{"), "\n}")
            .lines()
            .filter_map(|line| line.trim().strip_prefix("readonly ")?.split_once([':', '?']))
            .map(|(name, _)| name)
            .collect()
    };
    // The core lists the expected names if one is misspelt. `sealed` is refused by name.
    let class = expected(r#"{"A":{"key":["x"],"misspelt":1}}"#);
    assert_eq!(fields("ClassDeclaration").into_iter().chain(["sealed"]).collect::<BTreeSet<_>>(), of(&class));
    let collection = expected(r#"{"A":{"key":["x"],"collections":{"c":{"key":["y"],"misspelt":1}}}}"#);
    assert_eq!(fields("CollectionDeclaration"), of(&collection));
}

fn between(start: &str, end: &str) -> &'static str {
    let (_, rest) = TYPES.split_once(start).unwrap_or_else(|| panic!("{start}"));
    rest.split_once(end).expect("the part ends").0
}

/// The strings in quotes.
fn strings(text: &str) -> BTreeSet<&str> {
    text.split('"').skip(1).step_by(2).collect()
}

/// The operators of an index of this type, and the type of value that it compares with.
fn operators(kind: IndexType) -> (BTreeSet<&'static str>, &'static str) {
    let text = format!(r#"{{"A":{{"key":["x"],"indexes":{{"i":"{}"}}}}}}"#, kind.as_str());
    let schema = Schema::from_json(&text).expect("a schema");
    let class = schema.class("A").expect("the class");
    let answers = |operator: &str, value: Value| {
        let operand = if operator == "in" { Value::Array(vec![value]) } else { value };
        Predicate::new(class, "i", operator, &operand).is_ok()
    };
    let all = ["==", "<", "<=", ">", ">=", "contains", "startsWith", "in"];
    let operands = [("string", Value::from("x")), ("number", Value::from(1)), ("boolean", Value::from(true))];
    let answered = operands.map(|(name, value)| {
        let known = all.into_iter().filter(|operator| answers(operator, value.clone()));
        (known.collect::<BTreeSet<_>>(), name)
    });
    let mut taken = answered.into_iter().filter(|(known, _)| !known.is_empty());
    let one = taken.next().unwrap_or_else(|| panic!("no operand: {kind:?}"));
    assert!(taken.next().is_none(), "one type of operand: {kind:?}");
    one
}

/// The names that the core says it expected.
fn expected(text: &str) -> String {
    let error = Schema::from_json(text).expect_err("a misspelt word");
    let (_, expected) = error.detail().split_once("expected one of ").expect("what was expected");
    expected.to_owned()
}

/// The names in backticks.
fn of(expected: &str) -> BTreeSet<&str> {
    expected.split('`').skip(1).step_by(2).collect()
}
