//! The built-in operations: their effects and their refusals, also over HTTP.
#![allow(clippy::result_large_err)] // as in the engine

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use escale::codec::{Format, Op, SyncReply, SyncRequest, decode, encode};
use escale::limits::{DOCUMENT_BYTES_MAX, OPS_MAX, RESULTS_BYTES_MAX};
use escale::model::{Pk, Value};
use escale_server::settings::Settings;

use crate::support::client::*;
use crate::support::operating::*;
use crate::support::world::*;

fn v_of(result: &escale::codec::OpResult) -> u64 {
    result.ok.as_ref().unwrap().v
}

#[test]
fn a_document_is_put_patched_deleted_and_put_again() {
    let world = operating();
    let engine = &world.engine;
    let (_, result) = one(engine, "doc.put", put_args("a", "one"));
    let set: Value = [("size", Value::from(3)), ("id", Value::from("a"))].into();
    let patch = with(with(key_args("a"), "set", set), "unset", list(&["shelf", "nothing"]));
    let (_, patched) = one(engine, "doc.patch", patch.clone());
    assert!(v_of(&patched) > v_of(&result));
    let map = document(engine, "Note", "a").unwrap();
    assert_eq!((map.get("size"), map.get("shelf")), (Some(&Value::from(3)), None));
    assert_eq!(pull(engine, &def("Note"), 0).rows[0].v, v_of(&patched));
    let (_, deleted) = one(engine, "doc.delete", key_args("a"));
    assert_eq!(one(engine, "doc.patch", patch).0, "not_found", "on a tombstone");
    assert_eq!(one(engine, "doc.delete", key_args("a")).0, "not_found");
    let again = with(put_args("a", "two"), "ifVersion", Value::from(v_of(&deleted) as i64));
    assert_eq!(one(engine, "doc.put", again).0, "ok", "a put restores it");
    assert_eq!(ids(&pull(engine, &shelf("two"), 0)), ["a"]);
}

/// Sockets hear of each change at once, and of no operation that changes nothing.
#[test]
fn an_operation_that_changes_something_is_told_and_no_other() {
    let world = operating();
    let told = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&told);
    world.engine.on_commit(move || {
        counter.fetch_add(1, Ordering::SeqCst);
    });
    let after = |name: &str, args: Value| {
        let code = one(&world.engine, name, args).0;
        (code, told.swap(0, Ordering::SeqCst))
    };
    assert_eq!(after("doc.put", put_args("a", "one")), ("ok".into(), 1));
    assert_eq!(after("doc.put", put_args("a", "one")), ("ok".into(), 0), "the same again");
    assert_eq!(after("doc.delete", key_args("b")), ("not_found".into(), 0));
    assert_eq!(after("doc.delete", key_args("a")), ("ok".into(), 1));
}

#[test]
fn a_conflict_brings_the_current_document() {
    let world = operating();
    let engine = &world.engine;
    let if_v = |args: Value, v: i64| with(args, "ifVersion", Value::from(v));
    let doc = |(code, result): (String, escale::codec::OpResult)| {
        assert_eq!(code, "version_conflict");
        result.fault.unwrap().doc.unwrap()
    };
    let row = doc(one(engine, "doc.put", if_v(put_args("a", "one"), 7)));
    assert_eq!((row.v, row.deleted, row.data, row.pk), (0, true, None, Pk::from_key(&["a"]).unwrap()));
    assert_eq!(one(engine, "doc.put", if_v(put_args("a", "one"), 0)).0, "ok", "0: there must be none");
    let row = doc(one(engine, "doc.put", if_v(put_args("a", "two"), 0)));
    assert_eq!(row.data.unwrap().to_map().unwrap()["shelf"].as_str(), Some("one"));
    let (code, deleted) = one(engine, "doc.delete", if_v(key_args("a"), row.v as i64));
    assert_eq!(code, "ok");
    for (name, args) in
        [("doc.delete", key_args("a")), ("doc.patch", with(key_args("a"), "set", map(key("a"))))]
    {
        let gone = doc(one(engine, name, if_v(args, row.v as i64)));
        assert_eq!((gone.v, gone.deleted, gone.data), (v_of(&deleted), true, None));
    }
    assert_eq!(one(engine, "doc.delete", if_v(key_args("a"), 0)).0, "not_found");
    assert_eq!(one(engine, "doc.put", if_v(put_args("a", "one"), 0)).0, "ok", "a tombstone is no document");
}

#[test]
fn a_batch_is_whole_or_not_at_all() {
    let world = operating();
    let engine = &world.engine;
    let item = |name: &str, args: Value| -> Value { [("name", Value::from(name)), ("args", args)].into() };
    let batch = |items: &[Value]| -> Value { [("ops", Value::Array(items.to_vec()))].into() };
    put(engine, note("c", "one")).unwrap();
    let good = [
        item("doc.put", put_args("a", "one")),
        item("doc.patch", with(key_args("a"), "set", map([("size".to_owned(), Value::from(1))].into()))),
        item("counter.add", add_args("n", 5)),
        item("take", Value::from("c")),
    ];
    let (code, result) = one(engine, "batch", batch(&good));
    assert_eq!(code, "ok");
    let rows = pull(engine, &def("Note"), 0).rows;
    assert!(rows.iter().all(|row| row.v == v_of(&result)), "one version for all");
    assert_eq!((counted(engine, "n"), document(engine, "Note", "c")), (5, None));
    let bad = [item("doc.put", put_args("z", "one")), item("doc.delete", key_args("nobody"))];
    let (code, result) = one(engine, "batch", batch(&bad));
    assert_eq!(code, "not_found");
    assert!(result.fault.unwrap().message.starts_with("operation 1 of the batch"));
    assert!(document(engine, "Note", "z").is_none());
    let (code, result) = one(engine, "batch", batch(&[]));
    assert_eq!((code.as_str(), v_of(&result)), ("ok", 0), "nothing was written");
    for (code, args) in [
        ("bad_value", batch(&[item("batch", batch(&[]))])),
        ("bad_value", batch(&[Value::Null])),
        ("bad_value", Value::Null),
        ("bad_value", [("ops", Value::from(1))].into()),
        ("unknown_operation", batch(&[item("nonsense", Value::Null)])),
        ("too_large", batch(&vec![Value::Null; OPS_MAX + 1])),
        ("internal", batch(&[item("doc.put", put_args("z", "one")), item("panic", Value::Null)])),
    ] {
        assert_eq!(one(engine, "batch", args).0, code);
    }
    assert!(document(engine, "Note", "z").is_none());
}

#[test]
fn what_cannot_be_written_is_refused_by_name() {
    let world = operating();
    let engine = &world.engine;
    let mut authored = note("a", "one");
    authored.insert("author".into(), "Zola".into());
    authored.insert("mail".into(), "m".into());
    put(engine, authored).unwrap();
    let class = |name: &str| with(put_args("a", "one"), "class", name);
    let data = |pairs: &[(&str, Value)]| {
        let map: std::collections::BTreeMap<String, Value> =
            pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        with(put_args("a", "one"), "data", Value::Map(map))
    };
    let set = |name: &str, value: Value| with(key_args("a"), "set", map([(name.to_owned(), value)].into()));
    let empty = || map([].into());
    let a = || Value::from("a");
    let huge = Value::from(&*"x".repeat(DOCUMENT_BYTES_MAX));
    let cases: Vec<(&str, &str, Value)> = vec![
        ("unknown_class", "doc.put", class("Nope")),
        ("unknown_class", "doc.patch", with(class("Nope"), "key", list(&["a"]))),
        ("unknown_class", "doc.delete", with(class("Nope"), "key", list(&["a"]))),
        ("bad_value", "doc.put", with(put_args("a", "one"), "class", Value::Null)),
        ("bad_value", "doc.put", with(put_args("a", "one"), "data", Value::Null)),
        ("bad_key", "doc.put", data(&[("shelf", a())])),
        ("bad_key", "doc.put", data(&[("id", Value::from(1))])),
        ("bad_value", "doc.put", data(&[("id", a()), ("_x", a())])),
        ("bad_value", "doc.put", data(&[("id", a()), ("size", a())])),
        ("bad_value", "doc.put", data(&[("id", a()), ("release", Value::from(9))])),
        ("immutable_key", "doc.put", data(&[("id", a()), ("author", "Hugo".into())])),
        ("not_unique", "doc.put", data(&[("id", "b".into()), ("mail", "m".into())])),
        ("too_large", "doc.put", data(&[("id", a()), ("author", "Zola".into()), ("text", huge.clone())])),
        ("bad_value", "doc.put", with(put_args("a", "one"), "ifVersion", Value::from("x"))),
        ("bad_value", "doc.put", with(put_args("a", "one"), "ifVersion", Value::from(-1))),
        ("bad_value", "doc.put", with(put_args("a", "one"), "ifVersion", empty())),
        ("bad_value", "doc.patch", key_args("a")),
        ("bad_key", "doc.patch", with(with(key_args("a"), "set", empty()), "key", list(&[]))),
        ("bad_key", "doc.patch", with(with(key_args("a"), "set", empty()), "key", list(&["a", "b"]))),
        ("bad_key", "doc.delete", with(key_args("a"), "key", "a")),
        ("bad_value", "doc.delete", with(key_args("a"), "class", Value::Null)),
        ("bad_value", "doc.patch", with(set("size", Value::from(1)), "unset", "size")),
        ("key_mismatch", "doc.patch", set("id", "b".into())),
        ("key_mismatch", "doc.patch", with(set("size", Value::from(1)), "unset", list(&["id"]))),
        ("immutable_key", "doc.patch", set("author", "Hugo".into())),
        ("too_large", "doc.patch", set("text", huge)),
        ("not_found", "doc.patch", with(set("size", Value::from(1)), "key", list(&["nobody"]))),
        ("bad_value", "counter.add", Value::Null),
        ("bad_value", "counter.add", with(add_args("n", 1), "by", "x")),
    ];
    let before = pull(engine, &def("Note"), 0).rows;
    for (code, name, args) in cases {
        let shown: String = format!("{name} {args:?}").chars().take(120).collect();
        assert_eq!(one(engine, name, args).0, code, "{shown}");
    }
    assert_eq!(pull(engine, &def("Note"), 0).rows, before);
}

#[test]
fn names_that_are_taken_are_refused() {
    let World { folder, clock, .. } = operating();
    for name in ["doc.put", "batch", "", "counter.add", &*"x".repeat(2_000)] {
        let engine =
            open_with(folder.path(), &clock, Settings::default(), escale_server::seal::Seal::clear());
        let error = engine.operation(name, |_, _| Ok(None)).err().unwrap();
        assert_eq!(error.code(), escale::Code::BadOption);
    }
}

#[test]
fn an_operation_restarts_above_what_it_reads() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { delta_ms: 3_000, skew_ms: 2_000, ..Settings::default() };
    let seal = escale_server::seal::Seal::clear;
    let (early, late) =
        (escale_server::clock::ManualClock::at(NOON), escale_server::clock::ManualClock::at(NOON + 1_500));
    let ahead = open_with(folder.path(), &late, settings.clone(), seal());
    let behind = open_with(folder.path(), &early, settings, seal());
    let first = v_of(&send(&ahead, vec![op("1", 1, "counter.add", add_args("c", 1))]).results[0]);
    let second = v_of(&send(&behind, vec![op("2", 2, "counter.add", add_args("c", 1))]).results[0]);
    assert!(first > NOON + 1_000 && second == first + 1, "{first} {second}");
    assert_eq!(counted(&ahead, "c"), 2);
}

#[test]
fn results_stop_where_the_reply_is_full() {
    let world = operating();
    let mut large = note("a", "one");
    large.insert("text".into(), Value::from(&*"x".repeat(600_000)));
    put(&world.engine, large).unwrap();
    let conflict = |seq: u64| {
        op(&seq.to_string(), seq, "doc.put", with(put_args("a", "one"), "ifVersion", Value::from(1)))
    };
    let ops: Vec<Op> = (1..=5).map(conflict).collect();
    let reply = send(&world.engine, ops.clone());
    assert_eq!((reply.results.len(), reply.seq), (2, 2), "the rest was not executed");
    let reply = send(&world.engine, ops[2..].to_vec());
    assert_eq!(reply.seq, 4);
}

/// The caller gives up after a while: no operation begins later than 20 s after the first.
#[test]
fn results_stop_after_twenty_seconds() {
    let folder = tempfile::tempdir().unwrap();
    let clock = escale_server::clock::ManualClock::at(NOON);
    let seal = escale_server::seal::Seal::clear();
    let passing = clock.clone();
    let engine =
        open_with(folder.path(), &clock, Settings::default(), seal).operation("pass", move |_, _| {
            passing.advance(1_000);
            Ok(None)
        });
    let engine = engine.unwrap();
    clock.advance(5_000);
    let ops: Vec<Op> = (1..=30).map(|seq| op(&seq.to_string(), seq, "pass", Value::Null)).collect();
    let reply = send(&engine, ops.clone());
    assert_eq!((reply.results.len(), reply.seq), (21, 21), "the last one began after exactly 20 s");
    assert!(told(&reply).iter().all(|(_, code)| *code == "ok"), "a second is in time");
    assert_eq!(send(&engine, ops[21..].to_vec()).seq, 30);
}

/// This holds even if the server is configured to make larger pages.
#[test]
fn results_of_a_reply_take_four_mebibytes_at_most() {
    let folder = tempfile::tempdir().unwrap();
    let clock = escale_server::clock::ManualClock::at(NOON);
    let settings = Settings { page_bytes: 16 << 20, ..Settings::default() };
    let engine = open_with(folder.path(), &clock, settings, escale_server::seal::Seal::clear());
    let mut large = note("a", "one");
    large.insert("text".into(), Value::from(&*"x".repeat(DOCUMENT_BYTES_MAX - 100)));
    put(&engine, large).unwrap();
    let conflict = |seq: u64| {
        op(&seq.to_string(), seq, "doc.put", with(put_args("a", "one"), "ifVersion", Value::from(1)))
    };
    let ops: Vec<Op> = (1..=10).map(conflict).collect();
    for rest in [&ops[..], &ops[3..], &[ops[9].clone(), ops[0].clone(), ops[1].clone(), ops[2].clone()]] {
        let reply = send(&engine, rest.to_vec());
        let bytes = encode(Format::Msgpack, &reply.results).unwrap().len();
        assert!(bytes <= RESULTS_BYTES_MAX && reply.results.len() > 1, "{bytes} in {}", reply.results.len());
    }
}

#[tokio::test]
async fn operations_travel_in_both_formats() {
    let world = operating();
    let running = serve(&world, |_| {}).await;
    let body = r#"{"p":1,"session":"s","ops":[
        {"id":"1","seq":1,"name":"doc.put","args":{"class":"Note","data":{"id":"a","shelf":"one","raw":{"$bytes":"AQL6"}}},"at":5},
        {"id":"2","seq":2,"name":"counter.add","args":{"key":["n"],"by":2},"at":6,"after":"1"}],"subs":[["Note",0]]}"#;
    let reply: SyncReply = post_json(&running, "/o/sync", body).await.json();
    assert_eq!(told(&reply), [("1", "ok"), ("2", "ok")]);
    assert_eq!((reply.seq, ids(&reply.parts[0])), (2, vec!["a".into()]), "the write made the org known");
    let request: SyncRequest = decode(Format::Json, body.as_bytes(), usize::MAX).unwrap();
    let bytes = encode(Format::Msgpack, &request).unwrap();
    let answer = request_msgpack(&running, &bytes).await;
    let again: SyncReply = decode(Format::Msgpack, &answer.body, usize::MAX).unwrap();
    assert_eq!(again.results, reply.results);
    assert_eq!(counted(&world.engine, "n"), 2);
    let nothing = r#"{"p":1,"session":"s","ops":[{"id":"1","seq":0,"name":"x","args":null,"at":0}]}"#;
    assert_eq!(post_json(&running, "/o/sync", nothing).await.status, 400);
    running.stop().await;
}

async fn request_msgpack(running: &escale_server::http::Running, bytes: &[u8]) -> Answer {
    request(running, "POST", "/o/sync", &[MSGPACK], bytes).await
}
