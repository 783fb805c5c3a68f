//! R20, R21: the clock `sequence`. Parts carry the number of their tree, so replies and pushes are exact.

use escale::Code;
use escale::codec::{Data, OpOk, OpResult, Part, Row, ServerFrame, ServerParts, SyncReply, SyncRequest};
use escale::crypto::SeededRandom;
use escale::journal::{Policy, make_id};
use escale::memory::tree::is_whole;
use escale::model::schema::Schema;
use escale::model::{Def, Name, Pk, Value};
use escale::store::MemoryDevice;
use escale::sync::{Application, Config, Event, Reader, Write};
use escale_testkit::client::Opening;

use crate::harness::{Harness, config, epoch, reply};
use crate::harness_with_device::Desk;

const SCHEMA: &str = r#"{
    "Asso": { "key": ["id"], "clock": "sequence" },
    "Adh": { "in": "Asso", "key": ["asso", "num"] }
}"#;

fn opening() -> Opening<'static> {
    let config = Config { has_live: true, ..config() };
    let schema = Schema::from_json(SCHEMA).expect("a schema");
    Opening { config, session_seed: 7, ..Opening::of("o", "a", schema) }
}

fn pk_of(parts: &[&str]) -> Pk {
    Pk::from_key(parts).expect("a pk")
}

fn defs() -> [Def; 2] {
    let pk = pk_of(&["p"]);
    [format!("Asso@{pk}"), format!("Adh/in@{pk}")].map(|text| text.parse().expect("a def"))
}

fn row_of(pairs: &[(&str, &str)], v: u64) -> Row {
    let map = pairs.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect();
    let key: Vec<&str> = pairs.iter().map(|(_, value)| *value).take_while(|value| *value != "text").collect();
    let data = Data::from_map(&map).expect("data");
    Row { pk: pk_of(&key), v, deleted: false, max_life: None, data: Some(data) }
}

fn parent(v: u64) -> Row {
    row_of(&[("id", "p")], v)
}

fn item(num: &str, v: u64) -> Row {
    row_of(&[("asso", "p"), ("num", num)], v)
}

fn gone(num: &str, v: u64) -> Row {
    Row { deleted: true, data: None, ..item(num, v) }
}

/// The parts of the tree at that number, with these rows of the parent and of the items.
fn tree(n: u64, parent: Vec<Row>, items: Vec<Row>) -> Vec<Part> {
    let [asso, adhs] = defs();
    let part = |def, rows: Vec<Row>| Part { rows, n: Some(n), ..Part::empty(def) };
    vec![part(asso, parent), part(adhs, items)]
}

/// The same as the last page of a pull from 0.
fn whole(n: u64, parent: Vec<Row>, items: Vec<Row>) -> Vec<Part> {
    let present =
        |part: Part| Part { present: Some(part.rows.iter().map(|row| row.pk.clone()).collect()), ..part };
    tree(n, parent, items).into_iter().map(present).collect()
}

fn push(from: u64, parts: Vec<Part>) -> ServerFrame {
    let parts = parts.into_iter().map(|part| Part { from: Some(from), ..part }).collect();
    ServerFrame::Parts(ServerParts { epoch: epoch(1), now: 20_000, delta: 100, seq: 0, parts })
}

/// A session that has the tree at number 3, with its socket registered: a parent and the items 1 and 2.
fn loaded() -> (Harness, u64) {
    let mut harness = Harness::of(opening().incognito("session"));
    for def in defs() {
        harness.subscribe(&def);
    }
    let socket = harness.opened_socket().expect("a socket");
    let load = |harness: &mut Harness| {
        while let Some((number, request, _)) = harness.requests.pop_front() {
            let asked: Vec<u64> = request.subs.iter().map(|sub| sub.v).collect();
            let rows = asked.contains(&0);
            let parts = if rows {
                whole(3, vec![parent(1)], vec![item("1", 2), item("2", 3)])
            } else {
                tree(3, vec![], vec![])
            };
            let parts =
                parts.into_iter().filter(|part| request.subs.iter().any(|sub| sub.def == part.def)).collect();
            harness.answer(number, reply(10_000, parts));
        }
    };
    load(&mut harness);
    harness.feed(Event::SocketOpened { socket });
    harness.frame(socket, ServerFrame::confirm(defs().to_vec(), vec![]));
    load(&mut harness);
    harness.take_all();
    (harness, socket)
}

fn versions(harness: &Harness) -> [u64; 2] {
    defs().map(|def| harness.v(&def))
}

fn is_tree_whole(harness: &Harness) -> bool {
    is_whole(harness.client.machine.memory(), &defs()[0])
}

fn items(harness: &Harness) -> Vec<u64> {
    let mut shown: Vec<u64> = harness.shown(&defs()[1]).into_iter().map(|(_, v)| v).collect();
    shown.sort_unstable();
    shown
}

fn asked(request: &SyncRequest) -> Vec<(Def, u64)> {
    request.subs.iter().map(|sub| (sub.def.clone(), sub.v)).collect()
}

#[test]
fn r21_the_v_of_a_collection_is_the_number_of_its_part() {
    let (harness, _) = loaded();
    assert_eq!((versions(&harness), is_tree_whole(&harness), items(&harness)), ([3, 3], true, vec![2, 3]));
}

#[test]
fn r21_present_spares_only_links_above_its_number() {
    let (mut harness, socket) = loaded();
    harness.frame(socket, push(3, tree(5, vec![], vec![item("5", 5)])));
    harness.frame(socket, ServerFrame::Hints(vec![(defs()[0].clone(), 6)]));
    let (number, _) = harness.request();
    let mut parts = tree(6, vec![], vec![]);
    parts[1].present = Some(vec![pk_of(&["p", "2"])]);
    harness.answer(number, reply(30_000, parts));
    assert_eq!(
        (versions(&harness), items(&harness)),
        ([6, 6], vec![3]),
        "a link that is as new is no exception"
    );
}

#[test]
fn r20_a_tree_in_which_nothing_was_written_is_loaded() {
    let mut harness = Harness::of(opening().incognito("session"));
    for def in defs() {
        harness.subscribe(&def);
    }
    let (number, request) = harness.request();
    assert_eq!(request.subs.len(), 1);
    let empty = |request: &SyncRequest| {
        whole(0, vec![], vec![])
            .into_iter()
            .filter(|part| request.subs.iter().any(|sub| sub.def == part.def))
            .collect()
    };
    harness.answer(number, reply(10_000, empty(&request)));
    let (number, request) = harness.request();
    assert!(asked(&request).len() == 2 && request.subs.iter().all(|sub| sub.v == 0));
    harness.answer(number, reply(11_000, empty(&request)));
    assert!(
        harness.requests.is_empty()
            && is_tree_whole(&harness)
            && defs().iter().all(|def| harness.is_ready(def))
    );
}

#[test]
fn r21_a_push_that_goes_on_moves_the_tree_without_a_request() {
    let (mut harness, socket) = loaded();
    harness.frame(socket, push(3, tree(4, vec![parent(4)], vec![gone("1", 4), item("4", 4)])));
    assert_eq!((versions(&harness), is_tree_whole(&harness), items(&harness)), ([4, 4], true, vec![3, 4]));
    // One that reaches further back goes on as well.
    harness.frame(socket, push(2, tree(5, vec![parent(4)], vec![gone("1", 4), item("4", 4), item("5", 5)])));
    assert_eq!((versions(&harness), is_tree_whole(&harness), items(&harness)), ([5, 5], true, vec![3, 4, 5]));
    // Twice, or late: it says nothing new.
    harness.frame(socket, push(3, tree(4, vec![parent(4)], vec![gone("1", 4), item("4", 4)])));
    harness.frame(socket, push(2, tree(3, vec![], vec![item("1", 2), item("2", 3)])));
    assert_eq!((versions(&harness), is_tree_whole(&harness), items(&harness)), ([5, 5], true, vec![3, 4, 5]));
    // The floor of a parent that was created again.
    let mut parts = tree(6, vec![parent(6)], vec![item("6", 6)]);
    parts[1].floor = Some(6);
    harness.frame(socket, push(5, parts));
    assert_eq!((versions(&harness), items(&harness)), ([6, 6], vec![6]));
    assert!(harness.requests.is_empty());
}

#[test]
fn r21_a_gap_applies_nothing_and_pulls_the_tree() {
    let [asso, adhs] = defs();
    let lacks_items = || vec![tree(4, vec![parent(4)], vec![]).remove(0)];
    let mut apart = tree(5, vec![parent(4)], vec![item("5", 5)]);
    apart[0].n = Some(4);
    let mut twice = tree(4, vec![], vec![item("4", 4)]);
    twice.extend(tree(6, vec![], vec![item("6", 6)]));
    let no_from = tree(4, vec![], vec![item("4", 4)]);
    let no_from =
        ServerFrame::Parts(ServerParts { epoch: epoch(1), now: 20_000, delta: 100, seq: 0, parts: no_from });
    for (frame, what) in [
        (push(4, tree(5, vec![], vec![item("5", 5)])), "the push of 4 is lost"),
        (push(3, lacks_items()), "a def of the tree is missing"),
        (push(3, apart), "two numbers"),
        (push(3, twice), "a def is there twice"),
        (no_from, "no `from`"),
    ] {
        let (mut harness, socket) = loaded();
        harness.frame(socket, frame);
        assert_eq!((versions(&harness), items(&harness)), ([3, 3], vec![2, 3]), "{what}");
        assert_eq!(asked(&harness.request().1), [(asso.clone(), 3), (adhs.clone(), 3)], "{what}");
    }
}

#[test]
fn r21_a_push_during_a_load_is_a_gap() {
    let (mut harness, socket) = loaded();
    harness.frame(socket, ServerFrame::Hints(vec![(defs()[0].clone(), 4)]));
    let (number, _) = harness.request();
    let mut parts = tree(4, vec![], vec![item("4", 4)]);
    parts[1].next = Some("more".into());
    harness.answer(number, reply(30_000, parts));
    let (number, _) = harness.request();
    harness.frame(socket, push(4, tree(5, vec![], vec![item("5", 5)])));
    assert!(!items(&harness).contains(&5));
    harness.answer(number, reply(31_000, tree(5, vec![], vec![])));
    // It goes to the number of its first page, and is pulled once more.
    assert_eq!(versions(&harness)[1], 4);
    harness.request();
}

#[test]
fn r21_a_reply_that_is_behind_a_push_is_ignored_and_asked_again() {
    let (mut harness, socket) = loaded();
    harness.frame(socket, ServerFrame::Hints(vec![(defs()[1].clone(), 4)]));
    let (number, _) = harness.request();
    // The reply is on its way, with item 1. The push deletes it.
    harness.frame(socket, push(3, tree(5, vec![], vec![gone("1", 5), item("4", 4)])));
    harness.answer(number, reply(30_000, tree(4, vec![], vec![item("1", 4), item("4", 4)])));
    assert_eq!((versions(&harness), items(&harness)), ([5, 5], vec![3, 4]));
    let (number, request) = harness.request();
    assert_eq!(asked(&request), defs().map(|def| (def, 5)));
    harness.answer(number, reply(31_000, tree(5, vec![], vec![])));
    assert!(is_tree_whole(&harness) && harness.requests.is_empty());
}

#[test]
fn r21_a_hint_is_ignored_unless_it_is_above_the_collection() {
    let (mut harness, socket) = loaded();
    let hint = |v| ServerFrame::Hints(vec![(defs()[1].clone(), v)]);
    harness.frame(socket, hint(2));
    harness.frame(socket, hint(3));
    assert!(harness.requests.is_empty());
    harness.frame(socket, hint(4));
    assert_eq!(asked(&harness.request().1), [(defs()[1].clone(), 3), (defs()[0].clone(), 3)]);
}

#[test]
fn r21_a_part_without_a_number_is_refused() {
    let mut harness = Harness::of(opening().incognito("session"));
    harness.subscribe(&defs()[0]);
    let (number, _) = harness.request();
    let part = Part { n: None, ..whole(1, vec![parent(1)], vec![]).remove(0) };
    harness.answer(number, reply(10_000, vec![part]));
    assert_eq!(harness.client.machine.status().faults[&defs()[0]].code(), Code::BadReply);
    assert!(harness.shown(&defs()[0]).is_empty());
}

#[test]
fn r20_only_documents_with_their_items_can_be_subscribed_to() {
    let harness = Harness::of(opening().incognito("session"));
    let schema = harness.client.machine.memory().schema();
    let single = format!("Adh@{}", pk_of(&["p", "1"]));
    for def in ["Asso", "Adh", &single] {
        let error = schema.check_def(&def.parse().expect("a def")).expect_err(def);
        assert_eq!(error.code(), Code::UnknownDef, "{def}");
    }
    assert!(defs().iter().all(|def| schema.check_def(def).is_ok()));
}

/// An application whose writes expect the versions that they were made on.
struct Merges;

impl Application for Merges {
    fn optimistic(
        &self,
        _: &str,
        _: &Value,
        _: &mut Reader<'_>,
    ) -> Option<escale::Result<Vec<escale::journal::Change>>> {
        None
    }

    fn policy(&self, _: &Name) -> Policy {
        Policy::Client
    }
}

fn put(harness: &mut Harness, num: &str, text: &str, n: u64) -> String {
    let data = [("asso", "p"), ("num", num), ("text", text)].map(|(name, value)| (name, Value::from(value)));
    let args = Value::from([("class", Value::from("Adh")), ("data", Value::from(data))]);
    let id = make_id(1_700_000_000_000 + n, &mut SeededRandom::new(n)).expect("an id");
    harness.feed(Event::Write(Write {
        id: id.clone(),
        name: "doc.put".into(),
        args,
        touches: vec![],
        after: vec![],
    }));
    id
}

fn accepted(id: &str, n: u64) -> OpResult {
    let trees = vec![(Name::new("Asso").expect("a name"), pk_of(&["p"]), n)];
    OpResult { id: id.into(), ok: Some(OpOk { v: 40_000, value: None, trees }), fault: None }
}

fn expected(request: &SyncRequest) -> Vec<Value> {
    let of = |op: &escale::codec::Op| op.args.as_map().expect("arguments").get("ifVersion").cloned();
    request.ops.iter().filter_map(of).collect()
}

fn text_of(harness: &Harness, num: &str) -> Option<String> {
    let machine = &harness.client.machine;
    let id = machine.find(&Name::new("Adh").expect("a name"), &pk_of(&["p", num]))?;
    let (_, shown) = machine.memory().shown_by_id(id)?;
    let map = shown.data.as_ref()?.to_map().expect("a map");
    Some(map.get("text")?.as_str()?.to_owned())
}

#[test]
fn r21_writes_expect_numbers_and_later_ones_that_of_the_earlier() {
    let device = MemoryDevice::new();
    let opened = || Opening { application: Box::new(Merges), x: [3; 32], ..opening() };
    let (mut desk, _) = Desk::open_as(&device, opened());
    for def in defs() {
        desk.harness.subscribe(&def);
        desk.work();
    }
    while let Some((number, request, _)) = desk.harness.requests.pop_front() {
        let parts = whole(3, vec![parent(1)], vec![item("1", 2), item("2", 3)]);
        let parts =
            parts.into_iter().filter(|part| request.subs.iter().any(|sub| sub.def == part.def)).collect();
        desk.harness.answer(number, reply(10_000, parts));
        desk.work();
    }
    let first = put(&mut desk.harness, "1", "one", 1);
    desk.work();
    let (number, request) = desk.harness.request();
    assert_eq!(expected(&request), [Value::from(2)]);
    let second = put(&mut desk.harness, "1", "two", 2);
    desk.work();
    // The first is accepted at number 4, and its effect is not received yet: the reply lacks the parts.
    let results = vec![accepted(&first, 4)];
    desk.harness.answer(number, SyncReply { results, seq: 1, ..reply(20_000, vec![]) });
    desk.work();
    assert_eq!(text_of(&desk.harness, "1").as_deref(), Some("two"));
    drop(desk);
    // Restored from the device, it knows the number.
    let (mut desk, _) = Desk::open_as(&device, opened());
    desk.work();
    let (number, request) = desk.harness.request();
    assert_eq!((expected(&request), &request.ops[0].id), (vec![Value::from(4)], &second));
    assert_eq!(asked(&request).len(), 2);
    // The parts have both effects, by their numbers: nothing is laid over them.
    let results = vec![accepted(&second, 5)];
    let text = [("asso", "p"), ("num", "1"), ("text", "two")];
    let data = text.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect();
    let row = Row { data: Some(Data::from_map(&data).expect("data")), ..item("1", 5) };
    desk.harness.answer(number, SyncReply { results, seq: 2, ..reply(30_000, tree(5, vec![], vec![row])) });
    desk.work();
    assert_eq!((versions(&desk.harness), text_of(&desk.harness, "1")), ([5, 5], None));
    assert!(desk.harness.client.machine.operations().is_empty());
}
