//! R98 in the engine: each way to write a living document meets the rules of its class, and documents from before them
//! stay.

// A fault is as large as the information that the session needs.
#![allow(clippy::result_large_err)]

use std::path::Path;
use std::sync::Arc;

use escale::model::Value;
use escale::model::schema::Schema;
use escale_server::clock::ManualClock;
use escale_server::engine::{Engine, Opening};
use escale_server::seal::Seal;
use escale_server::settings::Settings;

use crate::rights::support::{Client, Map, doc, single, texts};
use crate::support::world::{NOON, quick_folder};

/// Tasks without rules.
const PLAIN: &str = r#"{ "Task": { "key": ["id"] } }"#;

/// Tasks whose title has four characters at most, and that only administrators create.
const RULED: &str = r#"{ "Task": { "key": ["id"], "required": ["title"],
    "properties": { "title": { "type": "string", "maxLength": 4 }, "text": "string" },
    "rights": { "create": "admin" } } }"#;

fn open(folder: &Path, clock: &Arc<ManualClock>, schema: &str) -> Engine {
    let schema = Schema::from_json(schema).unwrap();
    let opening =
        Opening { schema, settings: Settings::default(), seal: Seal::clear(), clock: clock.clone() };
    Engine::open(folder, opening).unwrap()
}

fn task(title: &str) -> Map {
    doc(&[("id", "1"), ("title", title)])
}

#[test]
fn r98_each_way_to_write_a_document_meets_the_rules() {
    let (folder, clock) = (quick_folder(), ManualClock::at(NOON));
    let engine = open(folder.path(), &clock, RULED);
    let put = |title: &'static str| {
        move |tx: &mut escale_server::engine::OperationTx<'_>, _: &Value| {
            tx.put("Task", task(title)).map(|()| None)
        }
    };
    let engine = engine.operation("task.long", put("Butter")).unwrap();
    let engine = engine.operation("task.fine", put("Rice")).unwrap();
    let mut root = Client::new(&engine, "o", "root");
    assert_eq!(
        (root.put("Task", task("Butter")), root.put("Task", task("Milk"))),
        ("bad_value".into(), "ok".into())
    );
    let fault = root.fault("doc.patch", args("Butter")).unwrap();
    assert_eq!((&*fault.code, &*fault.message), ("bad_value", "Task.title: maxLength is 4"));
    assert_eq!(root.patch("Task", &["1"], Map::from([("title".into(), Value::Null)])), "bad_value");
    // One broken rule refuses all of a batch.
    let op = |title: &str| Value::from([("name", "doc.patch".into()), ("args", args(title))]);
    let ops = Value::from([("ops", Value::Array(vec![op("Eggs"), op("Butter")]))]);
    assert_eq!(root.code("batch", ops), "bad_value");
    assert_eq!(root.code("task.long", Value::Map(Map::new())), "bad_value");
    assert!(engine.write("o", |w| w.put("Task", task("Butter")).map(drop)).is_err());
    assert_eq!(engine.write("o", |w| w.get("Task", &pk())).unwrap().value.unwrap().1["title"], "Milk".into());
    assert_eq!(root.code("task.fine", Value::Map(Map::new())), "ok");
    // Who may not write learns nothing of the rules.
    let other = doc(&[("id", "2"), ("title", "Butter")]);
    assert_eq!(Client::new(&engine, "o", "bob").put("Task", other), "forbidden");
    // A deletion has no values.
    assert_eq!(root.delete("Task", &["1"]), "ok");
}

#[test]
fn r98_a_document_from_before_the_rules_stays_and_a_write_mends_it() {
    let (folder, clock) = (quick_folder(), ManualClock::at(NOON));
    let engine = open(folder.path(), &clock, PLAIN);
    assert_eq!(Client::new(&engine, "o", "root").put("Task", task("Butter")), "ok");
    drop(engine);
    clock.advance(1);
    let engine = open(folder.path(), &clock, RULED);
    let mut root = Client::new(&engine, "o", "root");
    assert_eq!(root.rows(&single("Task", &["1"])), Ok(vec![pk()]), "it is read as it was");
    assert_eq!(root.patch("Task", &["1"], doc(&[("text", "soft")])), "bad_value");
    assert_eq!(root.patch("Task", &["1"], doc(&[("text", "soft"), ("title", "Oats")])), "ok");
    assert_eq!(root.patch("Task", &["1"], doc(&[("text", "hard")])), "ok");
}

fn pk() -> String {
    crate::rights::support::pk(&["1"])
}

fn args(title: &str) -> Value {
    let set = Value::Map(doc(&[("title", title)]));
    Value::from([("class", "Task".into()), ("key", texts(&["1"])), ("set", set)])
}
