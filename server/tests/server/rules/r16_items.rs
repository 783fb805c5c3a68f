//! R16: an item exists only while its parent does, and the end of a parent costs the same for any number of items.

use std::collections::BTreeMap;

use escale::Code;
use escale::codec::{Op, OpResult, SyncRequest};
use escale::model::{Pk, Value};
use escale_server::engine::Engine;
use escale_server::import::{Target, import};
use escale_server::settings::Settings;

use crate::support::items::*;
use crate::support::world::*;

fn code<T: std::fmt::Debug>(result: escale::Result<T>) -> Code {
    result.unwrap_err().code()
}

/// The result of the session's next operation.
fn run(engine: &Engine, name: &str, args: Value) -> OpResult {
    let ask = |ops| SyncRequest { ops, ..SyncRequest::of("s") };
    let seq = engine.sync("o", &caller(), &ask(Vec::new())).unwrap().seq + 1;
    let op = Op { id: format!("id-{seq}"), seq, name: name.into(), args, at: 0, after: None };
    engine.sync("o", &caller(), &ask(vec![op])).unwrap().results.remove(0)
}

fn put_args(num: &str, if_version: u64) -> Value {
    let data = Value::Map(adh("p", num));
    [("class", "Adh".into()), ("data", data), ("ifVersion", Value::from(if_version as i64))].into()
}

#[test]
fn r16_an_item_without_a_living_parent_is_not_found() {
    let world = items();
    let put = || world.engine.write("o", |w| w.put("Adh", adh("p", "1"))).map(drop);
    let error = put().unwrap_err();
    assert_eq!(error.code(), Code::NotFound);
    assert!(error.detail().contains("Asso") && error.detail().contains("first"), "{}", error.detail());
    write(&world.engine, |w| w.put("Asso", asso("p")).map(drop));
    put().unwrap();
    write(&world.engine, |w| w.delete("Asso", &asso("p")));
    assert_eq!(code(put()), Code::NotFound);
    let gone = world.engine.write("o", |w| w.delete("Adh", &adh("p", "1")));
    assert_eq!(code(gone), Code::NotFound, "it ended with its parent");
    let pk = Pk::from_key(&["p", "1"]).unwrap();
    assert_eq!(world.engine.write("o", |w| w.get("Adh", pk.as_str())).unwrap().value, None);
    // In one write, the order decides.
    let both = |w: &mut escale_server::engine::WriteTx<'_>| {
        w.put("Adh", adh("q", "1"))?;
        w.put("Asso", asso("q")).map(drop)
    };
    assert_eq!(code(world.engine.write("o", both)), Code::NotFound);
    write(&world.engine, |w| {
        w.put("Asso", asso("q"))?;
        w.put("Adh", adh("q", "1")).map(drop)
    });
}

#[test]
fn r16_an_ended_item_counts_as_deleted_at_the_floor() {
    let world = items();
    write(&world.engine, |w| w.put("Asso", asso("p")).map(drop));
    let old = write(&world.engine, |w| w.put("Adh", adh("p", "1")).map(drop));
    let floor = write(&world.engine, |w| w.delete("Asso", &asso("p")));
    let result = run(&world.engine, "doc.put", put_args("1", old));
    let fault = result.fault.unwrap();
    assert_eq!(fault.code, "version_conflict");
    let row = fault.doc.unwrap();
    assert_eq!((row.v, row.deleted, row.data), (floor, true, None));
    // `ifVersion: 0` holds, and the parent is missing all the same.
    assert_eq!(run(&world.engine, "doc.put", put_args("1", 0)).fault.unwrap().code, "not_found");
    let floor = write(&world.engine, |w| w.put("Asso", asso("p")).map(drop));
    assert_eq!(tree(&world.engine, "p").unwrap().floor, floor);
    let patch = [
        ("class", "Adh".into()),
        ("key", Value::Array(vec!["p".into(), "1".into()])),
        ("set", Value::Map([("x".to_owned(), Value::from(1))].into())),
        ("unset", Value::Array(vec![])),
    ];
    assert_eq!(run(&world.engine, "doc.patch", patch.clone().into()).fault.unwrap().code, "not_found");
    assert!(run(&world.engine, "doc.put", put_args("1", 0)).ok.is_some());
    assert!(run(&world.engine, "doc.patch", patch.into()).ok.is_some());
    assert_eq!(tree(&world.engine, "p").unwrap().items, 1);
}

/// The equal item of an earlier life is written again, and its index holds one value.
#[test]
fn r16_an_item_of_an_earlier_life_is_written_and_not_kept() {
    let world = items();
    let indexed = |joined: i64| {
        let mut map = adh("p", "1");
        map.insert("joined".into(), Value::from(joined));
        map
    };
    write(&world.engine, |w| w.put("Asso", asso("p")).map(drop));
    write(&world.engine, |w| w.put("Adh", indexed(1)).map(drop));
    write(&world.engine, |w| w.delete("Asso", &asso("p")));
    write(&world.engine, |w| w.put("Asso", asso("p")).map(drop));
    let again = write(&world.engine, |w| w.put("Adh", indexed(1)).map(drop));
    write(&world.engine, |w| w.put("Adh", indexed(2)).map(drop));
    let raw = rusqlite::Connection::open(Engine::database_in(world.folder.path())).unwrap();
    let values: Vec<i64> = raw
        .prepare("SELECT value FROM entries WHERE name = 'joined'")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(values, [2]);
    assert!(again > tree(&world.engine, "p").unwrap().floor);
}

/// The rows that the deletion of a parent of so many items wrote, by table, and the bytes of the next reply.
fn end_of(count: u64) -> ([u64; 5], usize) {
    let world = items();
    write(&world.engine, |w| w.put("Asso", asso("p")).map(drop));
    let item = write(&world.engine, |w| w.put("Adh", adh("p", "1")).map(drop));
    let raw = rusqlite::Connection::open(Engine::database_in(world.folder.path())).unwrap();
    let numbers =
        format!("WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < {count})");
    raw.execute_batch(&format!(
        "BEGIN; {numbers} INSERT INTO documents SELECT org, class, pk || '-' || i, v, deleted, max_life, ttl, shown, data
           FROM documents, n WHERE class = 'Adh';
         {numbers} INSERT INTO memberships SELECT org, class, collection, hash, pk || '-' || i, v, del, max_life
           FROM memberships, n WHERE class = 'Adh';
         UPDATE trees SET items = {count}; COMMIT;"
    ))
    .unwrap();
    let one = |sql: &str, v: u64| raw.query_row(sql, [v], |row| row.get::<_, u64>(0)).unwrap();
    if count == escale::limits::ITEMS_MAX as u64 {
        let put = world.engine.write("o", |w| w.put("Adh", adh("p", "more")));
        assert_eq!(code(put), Code::TooLarge);
        write(&world.engine, |w| w.put("Adh", merged(adh("p", "1"), asso("other"))).map(drop));
    }
    assert_eq!(one("SELECT count(*) FROM documents WHERE class = 'Adh' AND v >= ?1", item), count);
    let v = write(&world.engine, |w| w.delete("Asso", &asso("p")));
    let written = [
        one("SELECT count(*) FROM documents WHERE v = ?1", v),
        one("SELECT count(*) FROM memberships WHERE v = ?1", v),
        one("SELECT count(*) FROM feed WHERE v = ?1", v),
        one("SELECT count(*) FROM actions WHERE version = ?1", v),
        one("SELECT count(*) FROM trees WHERE v = ?1", v),
    ];
    let reply = ask(&world.engine, tree_defs("p").iter().map(|def| sub(def, item)).collect());
    assert_eq!(reply.parts.len(), 3);
    (written, escale::codec::encode(escale::codec::Format::Msgpack, &reply).unwrap().len())
}

/// The properties of both.
fn merged(one: BTreeMap<String, Value>, other: BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    one.into_iter().chain(other).collect()
}

/// Also: a parent has 100,000 items at most. One that is there can still be replaced.
#[test]
fn r16_the_end_of_a_parent_costs_the_same_for_any_number_of_items() {
    let (few, bytes) = end_of(10);
    // The tombstone; no link, because the parent is in no collection; a line of the feed for it and for each of three
    // classes; one line of the journal; the tree.
    assert_eq!(few, [1, 0, 4, 1, 1]);
    assert_eq!(end_of(escale::limits::ITEMS_MAX as u64), (few, bytes));
    assert!(bytes <= 400, "{bytes} bytes");
}

#[test]
fn r16_items_that_were_purged_do_not_count_for_ever() {
    let world = items();
    write(&world.engine, |w| w.put("Asso", asso("p")).map(drop));
    let pk = Pk::from_key(&["p"]).unwrap();
    let mut tx = world.engine.provider().write("o", std::time::Duration::ZERO).unwrap();
    let at = escale_server::provider::Place { org: "o", class: "Asso", pk: pk.as_str() };
    let held = tx.snapshot().tree(at).unwrap().unwrap();
    let full = escale_server::provider::Tree { items: escale::limits::ITEMS_MAX as u64, ..held };
    tx.put_tree(at, &full).unwrap();
    tx.commit().unwrap();
    write(&world.engine, |w| w.put("Adh", adh("p", "1")).map(drop));
    assert_eq!(tree(&world.engine, "p").unwrap().items, 1, "counted again");
}

#[test]
fn r16_a_raw_item_and_an_import_need_the_parent_too() {
    let world = items();
    let mut scan = sta("p");
    scan.insert("page".into(), "1".into());
    scan.insert("raw".into(), Value::Bytes(vec![1, 2]));
    assert_eq!(code(world.engine.write("o", |w| w.put("Scan", scan.clone()))), Code::NotFound);
    let lines =
        |class, text: &str| import(&world.engine, Target { org: "o", class }, text.as_bytes(), |_| ());
    let error = lines("Adh", r#"{"asso":"p","num":"1"}"#).unwrap_err();
    assert_eq!((error.code(), error.detail().contains("Asso")), (Code::NotFound, true));
    lines("Asso", r#"{"id":"p"}"#).unwrap();
    let done = lines("Adh", "{\"asso\":\"p\",\"num\":\"1\"}\n{\"asso\":\"p\",\"num\":\"2\"}").unwrap();
    assert_eq!((done.written, tree(&world.engine, "p").unwrap().items), (2, 2));
    write(&world.engine, |w| w.put("Scan", scan.clone()).map(drop));
    let more = merged(scan.clone(), asso("x"));
    assert_eq!(code(world.engine.write("o", |w| w.put("Scan", more.clone()))), Code::BadValue);
}

/// A class that was in no schema for a while: its parents ended meanwhile, and it did not see that.
#[test]
fn r16_a_class_that_comes_back_has_no_items_without_a_parent() {
    let world = items();
    for id in ["gone", "stays", "again"] {
        write(&world.engine, |w| {
            w.put("Asso", asso(id))?;
            w.put("Adh", adh(id, "1")).map(drop)
        });
    }
    let World { folder, clock, engine } = world;
    drop(engine);
    let settings = Settings::default();
    let engine = open_schema(folder.path(), &clock, settings.clone(), r#"{ "Asso": { "key": ["id"] } }"#);
    for id in ["gone", "again"] {
        write(&engine, |w| w.delete("Asso", &asso(id)));
    }
    write(&engine, |w| w.put("Asso", asso("again")).map(drop));
    drop(engine);
    let engine = open_schema(folder.path(), &clock, settings, ITEMS);
    for (id, expected) in [("gone", 0), ("again", 0), ("stays", 1)] {
        assert_eq!(pull(&engine, &members(id), 0).rows.len(), expected, "{id}");
    }
    assert_eq!(tree(&engine, "stays").unwrap().items, 2, "at least as many as there are");
    assert_eq!(pull(&engine, &members("stays"), 1).present.map(|pks| pks.len()), Some(1));
}
