//! The optimistic parts of the application's own operations: the documents that they read, and their failures.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use escale::codec::{Data, Fault, OpResult, Row, ServerFrame, ServerParts, SyncReply};
use escale::crypto::SeededRandom;
use escale::journal::{Change, ChangeKind, State, make_id};
use escale::memory::DocKey;
use escale::model::schema::Schema;
use escale::model::{Name, Pk, Value};
use escale::sync::{Application, Config, Effect, Event, Reader, Write};
use escale::{Code, Error, Kind, Result};
use escale_testkit::client::Opening;

use crate::harness::{Harness, config, def, epoch, part, pk, reply, row, schema, whole};

struct Copier;

impl Application for Copier {
    /// `copy` writes the size of b into a, once a has a size. `trace` reads b then, and a document that it names. `fail`
    /// throws. `pass` copies the size of the document `from` to the document `to`, or the size that it has copied
    /// itself.
    fn optimistic(&self, name: &str, args: &Value, read: &mut Reader<'_>) -> Option<Result<Vec<Change>>> {
        if name == "fail" {
            return Some(Err(Error::new(Code::Internal, "the application throws")));
        }
        let size = |state: Option<State>| state.and_then(|state| state.get("size").cloned());
        if name == "pass" {
            let named = |name: &str| Some((0, pk(args.as_map()?.get(name)?.as_str()?)));
            let (from, to) = (named("from")?, named("to")?);
            let state = read(&from);
            let taken = state
                .as_ref()
                .and_then(|state| state.get("copied").cloned())
                .or_else(|| size(state.clone()))?;
            let kind =
                ChangeKind::Patch { set: BTreeMap::from([("copied".to_owned(), taken)]), unset: vec![] };
            return Some(Ok(vec![Change { key: to, kind, if_version: None, tree: None }]));
        }
        let is_set = size(read(&(0, pk("a")))).is_some_and(|size| size != Value::from(0_i64));
        if name == "trace" {
            let b = if is_set { read(&(0, pk("b"))) } else { None };
            let named = b.and_then(|b| b.get("copied").or_else(|| b.get("size")).and_then(Value::as_f64));
            named.map(|number| read(&(0, pk(&format!("d{number}")))));
            return Some(Ok(Vec::new()));
        }
        let copied = if is_set { size(read(&(0, pk("b")))) } else { None };
        let change = copied.map(|copied| {
            let kind =
                ChangeKind::Patch { set: BTreeMap::from([("copied".to_owned(), copied)]), unset: vec![] };
            Change { key: (0, pk("a")), kind, if_version: None, tree: None }
        });
        Some(Ok(change.into_iter().collect()))
    }
}

fn sized(id: &str, size: i64) -> Value {
    Value::from([("id", Value::from(id)), ("section", "games".into()), ("size", Value::from(size))])
}

fn sized_row(id: &str, v: u64, size: i64) -> Row {
    let data = sized(id, size);
    Row { data: Some(Data::from_map(data.as_map().expect("a map")).expect("data")), ..row(id, v) }
}

/// A session with a socket that holds a and b, and sends nothing.
fn session() -> (Harness, u64) {
    session_of(Copier)
}

/// The same with another application.
fn session_of(application: impl Application + 'static) -> (Harness, u64) {
    let config = Config { has_live: true, ..config() };
    let application = Box::new(application);
    let opening = Opening { config, application, session_seed: 7, ..Opening::of("o", "a", schema()) };
    let mut harness = Harness::of(opening.incognito("session"));
    harness.subscribe(&def("Doc"));
    let socket = harness.opened_socket().expect("a socket");
    harness.feed(Event::SocketOpened { socket });
    harness.serve(10_000, |def| whole(def, vec![sized_row("a", 100, 0), sized_row("b", 101, 5)]));
    harness.frame(socket, ServerFrame::confirm(vec![def("Doc")], vec![]));
    harness.serve(10_000, |def| part(def, vec![]));
    (harness, socket)
}

/// The server pushes rows.
fn push(harness: &mut Harness, socket: u64, rows: Vec<Row>) {
    let parts = vec![part(&def("Doc"), rows)];
    let parts = ServerParts { epoch: epoch(1), now: 11_000, delta: 100, seq: 0, parts };
    harness.frame(socket, ServerFrame::Parts(parts));
}

fn write(harness: &mut Harness, random: &mut SeededRandom, name: &str, args: Value) -> String {
    let id = make_id(1_700_000_000_000, random).expect("an id");
    let write = Write { id: id.clone(), name: name.into(), args, touches: vec![], after: vec![] };
    harness.feed(Event::Write(write));
    id
}

fn put(size: i64) -> Value {
    Value::from([("class", Value::from("Doc")), ("data", sized("b", size))])
}

/// A property of a, as the application sees it.
fn seen(harness: &mut Harness, property: &str) -> Option<Value> {
    seen_of(harness, "a", property)
}

/// The same of another document.
fn seen_of(harness: &mut Harness, id: &str, property: &str) -> Option<Value> {
    let id = harness.client.machine.find(&Name::new("Doc").expect("a name"), &pk(id)).expect("held");
    harness.feed(Event::Read { ticket: 2, ids: vec![id] });
    let mut answers = harness.take(|effect| match effect {
        Effect::Answer { rows, .. } => Some(rows.as_ref().expect("rows")[0].data.clone()),
        _ => None,
    });
    answers.pop().expect("an answer").to_map().expect("a map").get(property).cloned()
}

/// An operation that runs again reads a document for the first time. It sees the operations before it, and none after.
#[test]
fn an_operation_that_runs_again_reads_what_comes_before_it() {
    for has_earlier in [false, true] {
        let (mut harness, socket) = session();
        let mut random = SeededRandom::new(1);
        if has_earlier {
            write(&mut harness, &mut random, "doc.put", put(7));
        }
        let copy = write(&mut harness, &mut random, "copy", Value::from([("n", Value::from(1_i64))]));
        write(&mut harness, &mut random, "doc.put", put(50));
        assert_eq!(seen(&mut harness, "copied"), None);
        push(&mut harness, socket, vec![sized_row("a", 10_500, 1)]);
        let before = if has_earlier { 7_i64 } else { 5 };
        assert_eq!(seen(&mut harness, "copied"), Some(Value::from(before)));
        let operations = harness.client.machine.operations();
        let (op, _) = operations.iter().find(|(op, _)| op.state.issued.id == copy).expect("it waits");
        assert_eq!((op.keys.len(), op.state.issued.touches.len()), (2, 2), "it depends on both documents");
        // Another operation after all of them sees the last put.
        write(&mut harness, &mut random, "copy", Value::from([("n", Value::from(2_i64))]));
        assert_eq!(seen(&mut harness, "copied"), Some(Value::from(50_i64)));
    }
}

/// The documents that an operation depends on.
fn keys_of(harness: &Harness, id: &str) -> BTreeSet<DocKey> {
    let operations = harness.client.machine.operations();
    let (op, _) = operations.iter().find(|(op, _)| op.state.issued.id == id).expect("it waits");
    op.keys.iter().cloned().collect()
}

fn keys(ids: [&str; 3]) -> BTreeSet<DocKey> {
    ids.map(|id| (0, pk(id))).into()
}

/// An operation runs again and reads a document that names another one. An earlier operation has written that name, and
/// the operation depends on no document of the name before.
#[test]
fn an_operation_that_runs_again_depends_only_on_documents_named_before_it() {
    let (mut harness, socket) = session();
    let mut random = SeededRandom::new(1);
    write(&mut harness, &mut random, "doc.put", put(7));
    let trace = write(&mut harness, &mut random, "trace", Value::from([("n", Value::from(1_i64))]));
    write(&mut harness, &mut random, "doc.put", put(50));
    push(&mut harness, socket, vec![sized_row("a", 10_500, 1)]);
    assert_eq!(keys_of(&harness, &trace), keys(["a", "b", "d7"]));
}

/// The same if the earlier operation writes that name in the same pass: its own document has changed too.
#[test]
fn an_operation_that_runs_again_reads_the_result_of_one_that_ran_just_before() {
    let (mut harness, socket) = session();
    let mut random = SeededRandom::new(1);
    let unsized_data = Value::from([("id", Value::from("a")), ("section", "games".into())]);
    let data = Data::from_map(unsized_data.as_map().expect("a map")).expect("data");
    push(&mut harness, socket, vec![Row { data: Some(data), ..row("a", 10_400) }]);
    write(&mut harness, &mut random, "doc.put", put(7));
    let args = Value::from([("from", Value::from("a")), ("to", Value::from("b"))]);
    let pass = write(&mut harness, &mut random, "pass", args);
    let trace = write(&mut harness, &mut random, "trace", Value::from([("n", Value::from(1_i64))]));
    for id in [&pass, &trace] {
        assert_eq!(keys_of(&harness, id), [(0, pk("a"))].into(), "neither has touched b yet");
    }
    push(&mut harness, socket, vec![sized_row("a", 10_500, 9)]);
    assert_eq!(keys_of(&harness, &trace), keys(["a", "b", "d9"]));
}

/// Counts how often its functions run.
struct Counted(Rc<Cell<usize>>);

impl Application for Counted {
    fn optimistic(&self, name: &str, args: &Value, read: &mut Reader<'_>) -> Option<Result<Vec<Change>>> {
        self.0.set(self.0.get() + 1);
        Copier.optimistic(name, args, read)
    }
}

/// A new operation comes after all others and begins with their result: none of them runs again. If they did, a long
/// queue would take longer with each operation.
#[test]
fn a_new_operation_runs_once_and_no_other_runs_again() {
    let runs = Rc::new(Cell::new(0));
    let (mut harness, socket) = session_of(Counted(Rc::clone(&runs)));
    let mut random = SeededRandom::new(1);
    push(&mut harness, socket, vec![sized_row("a", 10_500, 1)]);
    for n in 1..=3_usize {
        write(&mut harness, &mut random, "doc.put", put(n as i64));
        write(&mut harness, &mut random, "copy", Value::from([("n", Value::from(n as i64))]));
        assert_eq!(seen(&mut harness, "copied"), Some(Value::from(n as i64)));
        assert_eq!(runs.get(), n);
    }
}

/// Operations connect documents in a row. News of the first one reach the last one.
#[test]
fn news_of_a_document_reach_all_that_operations_connect_with_it() {
    let (mut harness, socket) = session();
    let mut random = SeededRandom::new(1);
    push(&mut harness, socket, ["c", "d"].map(|id| sized_row(id, 10_100, 0)).to_vec());
    for (from, to) in [("a", "b"), ("b", "c"), ("c", "d")] {
        let args = Value::from([("from", Value::from(from)), ("to", Value::from(to))]);
        write(&mut harness, &mut random, "pass", args);
    }
    assert_eq!(seen_of(&mut harness, "d", "copied"), Some(Value::from(0_i64)));
    push(&mut harness, socket, vec![sized_row("a", 10_500, 9)]);
    assert_eq!(seen_of(&mut harness, "d", "copied"), Some(Value::from(9_i64)));
}

/// An exception in the application's function concerns the display alone: the operation is sent all the same.
#[test]
fn an_operation_whose_function_throws_is_reported_and_sent() {
    let part_of =
        |name: &str| Value::from([("name", Value::from(name)), ("args", Value::from([("n", 1_i64.into())]))]);
    let batch = Value::from([("ops", Value::Array(vec![part_of("fail")]))]);
    for (name, args) in [("fail", Value::from([("n", Value::from(1_i64))])), ("batch", batch)] {
        let (mut harness, _) = session();
        assert_eq!(harness.error(), None);
        let id = write(&mut harness, &mut SeededRandom::new(1), name, args);
        assert_eq!(harness.error(), Some(Code::Internal));
        let (_, request) = harness.request();
        assert_eq!(request.ops.iter().map(|op| &op.id).collect::<Vec<_>>(), [&id]);
    }
}

/// A document grows under an operation that is on its way, and both together are too large. Only the server can refuse
/// that operation now. The application learns why it is not shown.
#[test]
fn a_document_too_large_under_an_operation_on_its_way_is_reported() {
    let (mut harness, socket) = session();
    let text = |property: &str| (property.to_owned(), Value::String("x".repeat(600 << 10)));
    let key = Value::Array(vec!["a".into()]);
    let set = Value::Map([text("mine")].into());
    let args = Value::from([("class", "Doc".into()), ("key", key), ("set", set)]);
    let id = write(&mut harness, &mut SeededRandom::new(1), "doc.patch", args);
    assert_eq!((harness.request().1.ops.len(), harness.error()), (1, None));
    assert!(seen(&mut harness, "mine").is_some());
    let mut grown = sized("a", 9).as_map().expect("a map").clone();
    grown.extend([text("theirs")]);
    let grown = Row { data: Some(Data::from_map(&grown).expect("data")), ..row("a", 10_500) };
    push(&mut harness, socket, vec![grown]);
    assert_eq!(harness.error(), Some(Code::TooLarge));
    assert_eq!((seen(&mut harness, "mine"), seen(&mut harness, "size")), (None, Some(Value::from(9_i64))));
    let [(op, _)] = harness.client.machine.operations()[..] else { panic!("it waits for the server") };
    assert_eq!((&op.state.issued.id, op.is_waiting()), (&id, true));
}

/// A server sends pages that the session holds already, as after a refused cursor. They follow each other at once.
#[test]
fn pages_of_known_rows_are_not_held_back() {
    let mut harness = Harness::new(config());
    harness.subscribe(&def("Doc"));
    let rows: Vec<Row> = (0..30).map(|n| row(&format!("d{n}"), 1_000 + n)).collect();
    harness.serve(10_000, |def| whole(def, rows.clone()));
    harness.wake(harness.now + escale::limits::PULL_EVERY_MS);
    for (n, row) in rows.iter().enumerate() {
        let (number, _) = harness.request();
        let page =
            escale::codec::Part { next: Some(format!("c{n}")), ..part(&def("Doc"), vec![row.clone()]) };
        harness.answer(number, crate::harness::reply(10_000, vec![page]));
    }
    assert_eq!(harness.request().1.subs[0].cursor.as_deref(), Some("c29"));
}

/// The item of a parent is in the def of its own key too, and each def hears that it is hidden and shown again.
#[test]
fn r19_every_def_of_an_item_hears_of_the_deletion_of_its_parent() {
    const SCHEMA: &str = r#"{"Tree": {"key": ["id"]}, "Twig": {"in": "Tree", "key": ["tree", "twig"]}}"#;
    let schema = Schema::from_json(SCHEMA).expect("a schema");
    let opening = Opening { config: config(), ..Opening::of("o", "a", schema) };
    let mut harness = Harness::of(opening.incognito("session"));
    let twig = Pk::from_key(&["t", "1"]).expect("a pk");
    let [tree, own] = ["Tree", &format!("Twig@{twig}")].map(def);
    let data = Data::from_map(&[("tree".to_owned(), "t".into()), ("twig".to_owned(), "1".into())].into());
    let item = Row { pk: twig, v: 100, deleted: false, max_life: None, data: Some(data.expect("data")) };
    let items = def(&format!("Twig/in@{}", pk("t")));
    for def in [&tree, &items, &own] {
        harness.subscribe(def);
    }
    let parent = Row {
        data: Some(Data::from_map(&[("id".to_owned(), "t".into())].into()).expect("data")),
        ..row("t", 50)
    };
    harness.serve(1_000, |def| whole(def, vec![if *def == tree { parent.clone() } else { item.clone() }]));
    harness.take_all();
    let args = Value::from([("class", "Tree".into()), ("key", Value::Array(vec!["t".into()]))]);
    let id = make_id(1_700_000_000_000, &mut SeededRandom::new(1)).expect("an id");
    let write = Write { id, name: "doc.delete".into(), args, touches: vec![], after: vec![] };
    let told = |harness: &mut Harness| {
        let told = harness.take(|effect| match effect {
            Effect::Changed { defs, .. } => Some(defs.clone()),
            _ => None,
        });
        told.concat()
    };
    harness.feed(Event::Write(write));
    for left in [0, 1] {
        let told = told(&mut harness);
        for def in [&items, &own] {
            assert_eq!(harness.client.machine.list(def).expect("subscribed").0.len(), left);
            assert!(told.contains(def), "{def} hears of it: {told:?}");
        }
        if left == 1 {
            break;
        }
        // The server refuses the deletion.
        let (number, request) = harness.request();
        let refused = Fault { kind: Kind::A, ..Fault::new(Code::ServerRefused, "by the test") };
        let results = vec![OpResult { id: request.ops[0].id.clone(), ok: None, fault: Some(refused) }];
        let parts = request.subs.iter().map(|sub| part(&sub.def, vec![])).collect();
        harness.answer(number, SyncReply { results, ..reply(1_100, parts) });
    }
}
