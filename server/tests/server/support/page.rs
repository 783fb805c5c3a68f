//! Answers that docs/protocol.md spells out for authors of other servers.

use std::fmt::Debug;

use escale::codec::{Decode, Encode, Format, SyncReply, SyncRequest, decode, encode};
use escale::limits::VALUE_DEPTH_MAX;
use escale::model::{Value, sha_s};

use crate::support::client::*;
use crate::support::operating::*;
use crate::support::world::*;

fn nested(depth: usize) -> Value {
    (0..depth).fold(Value::Null, |inner, _| Value::Array(vec![inner]))
}

#[test]
fn of_a_def_that_is_named_several_times_the_first_one_counts() {
    let world = world();
    put(&world.engine, note("a", "one")).unwrap();
    let (all, one) = (def("Note"), shelf("one"));
    let subs = vec![sub(&all, 0), sub(&all, NOON + 1), sub(&one, NOON + 1), sub(&all, 0), sub(&one, 0)];
    let reply = ask(&world.engine, subs);
    let answered = reply.parts.iter().map(|part| (part.def.clone(), part.rows.len()));
    assert_eq!(answered.collect::<Vec<_>>(), [(all, 1), (one, 0)]);
}

#[tokio::test]
async fn what_is_wrong_in_the_envelope_refuses_the_request_and_what_is_wrong_in_the_arguments_the_operation()
{
    let world = operating();
    let running = serve(&world, |_| {}).await;
    let request = |op: &str| format!(r#"{{"p":1,"session":"s","ops":[{op}]}}"#);
    let args = r#"{"class":"Note","data":{"id":"a"}}"#;
    for op in [
        format!(r#"{{"id":"1","seq":1.0,"name":"doc.put","at":0,"args":{args}}}"#),
        format!(r#"{{"id":"1","seq":1,"name":"doc.put","args":{args}}}"#),
        format!(r#"{{"id":"","seq":1,"name":"doc.put","at":0,"args":{args}}}"#),
        r#"{"id":"1","seq":1,"name":"doc.put","at":0}"#.to_owned(),
        r#"{"id":"1","seq":1,"name":"doc.put","at":0,"args":{"x":1,"x":2}}"#.to_owned(),
        r#"{"id":"1","seq":1,"name":"doc.put","at":0,"args":{"__proto__":1}}"#.to_owned(),
    ] {
        let answer = post_json(&running, "/o/sync", &request(&op)).await;
        assert_eq!((answer.status, answer.fault().code.as_str()), (400, "malformed"), "{op}");
    }
    let mut extension = encode(Format::Msgpack, &Value::from([("p", Value::from(1))])).unwrap();
    extension.splice(.., [0x81, 0xa1, b'p', 0xd4, 0, 0]);
    let answer = request_in(&running, &extension).await;
    assert_eq!((answer.status, answer.fault().code.as_str()), (400, "malformed"));
    let any_id = r#"{"id":"no UUID","seq":1,"name":"doc.put","at":0,"args":1}"#;
    let reply: SyncReply = post_json(&running, "/o/sync", &request(any_id)).await.json();
    assert_eq!((told(&reply), reply.seq), (vec![("no UUID", "bad_value")], 1));
    running.stop().await;
}

async fn request_in(running: &escale_server::http::Running, bytes: &[u8]) -> Answer {
    request(running, "POST", "/o/sync", &[MSGPACK], bytes).await
}

/// An operation's arguments are one value. The document is at its second level, in a batch at its fifth.
#[tokio::test]
async fn a_document_nests_as_deep_as_the_arguments_that_bring_it() {
    let world = operating();
    let running = serve(&world, |_| {}).await;
    let put = |depth: usize| {
        let mut data = note("a", "one");
        data.insert("deep".into(), nested(depth));
        Value::from([("class", Value::from("Note")), ("data", map(data))])
    };
    let batch = |depth| {
        let part = Value::from([("name", Value::from("doc.put")), ("args", put(depth))]);
        Value::from([("ops", Value::Array(vec![part]))])
    };
    for (name, args, is_ok) in [
        ("doc.put", put(VALUE_DEPTH_MAX - 2), true),
        ("doc.put", put(VALUE_DEPTH_MAX - 1), false),
        ("batch", batch(VALUE_DEPTH_MAX - 5), true),
        ("batch", batch(VALUE_DEPTH_MAX - 4), false),
    ] {
        for format in [Format::Json, Format::Msgpack] {
            let op = Value::from([
                ("id", Value::from("1")),
                ("seq", Value::from(1)),
                ("name", Value::from(name)),
                ("at", Value::from(0)),
                ("args", args.clone()),
            ]);
            let asked = Value::from([
                ("p", Value::from(1)),
                ("session", Value::from(name)),
                ("ops", Value::Array(vec![op])),
            ]);
            let bytes = encode(format, &asked).unwrap();
            let kind = if format == Format::Json { JSON } else { MSGPACK };
            let answer = request(&running, "POST", "/o/sync", &[kind], &bytes).await;
            assert_eq!(answer.status, if is_ok { 200 } else { 400 }, "{name} {format:?}");
            assert!(is_ok || answer.fault().code == "too_deep");
        }
    }
    running.stop().await;
}

#[test]
fn a_patch_that_sets_and_unsets_one_property_sets_it() {
    let world = operating();
    put(&world.engine, note("a", "one")).unwrap();
    let set = with(key_args("a"), "set", map([("size".to_owned(), Value::from(1))].into()));
    assert_eq!(one(&world.engine, "doc.patch", with(set, "unset", list(&["size"]))).0, "ok");
    assert_eq!(document(&world.engine, "Note", "a").unwrap()["size"], Value::from(1));
}

/// The refusal of an operation must not depend on any clock.
#[test]
fn a_document_past_its_life_is_still_there_for_writes() {
    let world = operating();
    let engine = &world.engine;
    let mut ended = note("a", "one");
    ended.insert("maxLife".into(), Value::from((NOON / 60_000) as i64));
    ended.insert("mail".into(), "m".into());
    put(engine, ended).unwrap();
    world.clock.advance(60_000);
    assert!(pull(engine, &def("Note"), 0).present.unwrap().is_empty(), "it is told to nobody");
    let mut other = note("b", "one");
    other.insert("mail".into(), "m".into());
    let other = Value::from([("class", Value::from("Note")), ("data", map(other))]);
    assert_eq!(one(engine, "doc.put", other).0, "not_unique");
    assert_eq!(one(engine, "doc.put", with(put_args("a", "one"), "ifVersion", 0)).0, "version_conflict");
    let longer = map([("maxLife".to_owned(), Value::from((NOON / 60_000 + 1_000) as i64))].into());
    assert_eq!(one(engine, "doc.patch", with(key_args("a"), "set", longer)).0, "ok");
    assert_eq!(ids(&pull(engine, &def("Note"), 0)), ["a"]);
    assert_eq!(one(engine, "doc.delete", key_args("a")).0, "ok");
}

#[test]
fn what_is_expected_is_looked_at_before_whether_there_is_anything() {
    let world = operating();
    let size = || with(key_args("a"), "set", map([("size".to_owned(), Value::from(1))].into()));
    for (name, args) in [("doc.patch", size()), ("doc.delete", key_args("a"))] {
        assert_eq!(one(&world.engine, name, with(args.clone(), "ifVersion", 7)).0, "version_conflict");
        assert_eq!(one(&world.engine, name, with(args, "ifVersion", 0)).0, "not_found");
    }
    let moved = with(key_args("a"), "set", map(key("b")));
    assert_eq!(one(&world.engine, "doc.patch", with(moved, "ifVersion", 7)).0, "key_mismatch");
    let wrong =
        with(put_args("a", "one"), "data", map([("id".into(), "a".into()), ("_x".into(), 1.into())].into()));
    assert_eq!(one(&world.engine, "doc.put", with(wrong, "ifVersion", 7)).0, "version_conflict");
}

#[test]
fn operations_write_classes_that_nobody_can_subscribe_to() {
    let world = operating();
    let log = || with(put_args("a", "one"), "class", "Log");
    assert_eq!(one(&world.engine, "doc.put", log()).0, "ok");
    assert_eq!(one(&world.engine, "doc.delete", with(key_args("a"), "class", "Log")).0, "ok");
    assert!(document(&world.engine, "Log", "a").is_none());
    let fault = pull(&world.engine, &def("Log"), 0).fault.unwrap();
    assert_eq!((fault.code.as_str(), fault.kind), ("unknown_def", escale::Kind::N));
}

#[test]
fn a_document_without_a_release_gets_its_class_s() {
    let world = operating();
    assert_eq!(one(&world.engine, "doc.put", put_args("a", "one")).0, "ok");
    assert_eq!(document(&world.engine, "Note", "a").unwrap()["release"], Value::from(1));
    let later = map([("id".to_owned(), "b".into()), ("release".to_owned(), Value::from(2))].into());
    assert_eq!(one(&world.engine, "doc.put", with(put_args("b", "one"), "data", later)).0, "bad_value");
}

#[tokio::test]
async fn every_refusal_has_a_body_in_the_form_of_the_question_or_json() {
    let world = world();
    let running = serve(&world, |_| {}).await;
    for (method, path, kind, status, form) in [
        ("GET", "/o/sync", None, 405, "application/json"),
        ("POST", "/nothing", None, 404, "application/json"),
        ("POST", "/nothing", Some(MSGPACK), 404, "application/msgpack"),
        ("POST", "/o/sync", Some(("Content-Type", "text/plain")), 400, "application/json"),
        ("POST", "/o/sync", Some(MSGPACK), 400, "application/msgpack"),
    ] {
        let headers: Vec<_> = kind.into_iter().collect();
        let answer = request(&running, method, path, &headers, b"").await;
        assert_eq!(
            (answer.status, answer.headers["content-type"].as_str()),
            (status, form),
            "{method} {path}"
        );
        assert!(!answer.fault().code.is_empty());
    }
    running.stop().await;
}

#[tokio::test]
async fn a_page_that_may_call_is_told_so_on_every_answer() {
    let world = world();
    let running = serve(&world, |_| {}).await;
    let origin = ("Origin", "http://localhost:5173");
    let asked = [
        origin,
        ("Access-Control-Request-Method", "POST"),
        ("Access-Control-Request-Headers", "authorization,content-type"),
    ];
    let answer = request(&running, "OPTIONS", "/o/sync", &asked, b"").await;
    assert_eq!((answer.status, answer.body.len()), (204, 0));
    for (name, value) in [
        ("access-control-allow-origin", "http://localhost:5173"),
        ("access-control-allow-methods", "POST, GET, PUT"),
        ("access-control-allow-headers", "Authorization, Content-Type, Range"),
        ("access-control-max-age", "600"),
        ("vary", "Origin"),
    ] {
        assert_eq!(answer.headers[name], value);
    }
    for (path, status) in [("/o/sync", 400), ("/a%20b/sync", 404), ("/nothing", 404)] {
        let answer = request(&running, "POST", path, &[origin, JSON], b"{}").await;
        assert_eq!(answer.status, status);
        assert_eq!(answer.headers["access-control-allow-origin"], origin.1, "also where it is refused");
        assert_eq!(answer.headers["access-control-expose-headers"], "Retry-After, Content-Range");
    }
    running.stop().await;
}

fn page() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/protocol.md")).unwrap()
}

/// The blocks of code under a heading, each joined into one line.
fn blocks(page: &str, heading: &str) -> Vec<String> {
    let (_, section) = page.split_once(heading).unwrap();
    let section = section.split("\n#").next().unwrap();
    let paragraphs = section.split("\n\n").filter(|paragraph| paragraph.starts_with("    "));
    paragraphs.map(|block| block.lines().map(str::trim).collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn the_messages_of_the_page_are_the_same_in_both_forms() {
    let page = page();
    let blocks = blocks(&page, "\n### Two messages in both forms\n");
    let [request, packed_request, reply, packed_reply] = &blocks[..] else { panic!("{blocks:?}") };
    check_pair::<SyncRequest>(request, packed_request);
    check_pair::<SyncReply>(reply, packed_reply);
}

fn check_pair<T: Decode + Encode + PartialEq + Debug>(json: &str, hex: &str) {
    let bytes: Vec<u8> = hex.split(' ').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
    let message: T = decode(Format::Json, json.as_bytes(), usize::MAX).unwrap();
    assert_eq!(decode::<T>(Format::Msgpack, &bytes, usize::MAX).unwrap(), message);
    assert_eq!(encode(Format::Msgpack, &message).unwrap(), bytes);
}

#[test]
fn the_hashes_of_the_page_are_those_of_the_rules() {
    let page = page();
    let (_, table) = page.split_once("| text | its `shaS` |\n|---|---|\n").unwrap();
    let rows: Vec<_> = table.lines().take_while(|line| line.starts_with('|')).collect();
    assert!(rows.len() >= 3);
    for row in rows {
        let cells: Vec<&str> = row.split('`').collect();
        assert_eq!(sha_s(cells[1]), cells[3], "{row}");
    }
}
