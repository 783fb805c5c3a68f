//! R8: a later epoch replaces, an earlier one is dropped.

use escale::Code;
use escale::codec::{Fault, Op, OpOk, OpResult, Part, ServerFrame, ServerParts, SyncReply};
use escale::crypto::SeededRandom;
use escale::journal::make_id;
use escale::model::Value;
use escale::sync::{Config, Event, Write};

use crate::harness::{Harness, config, def, epoch, part, pk, reply, row, section, these, whole};

fn in_epoch(ms: u64, now: u64, parts: Vec<Part>) -> SyncReply {
    SyncReply { epoch: epoch(ms), ..reply(now, parts) }
}

/// `Doc` loaded with a and b in epoch 1.
fn loaded() -> Harness {
    let doc = def("Doc");
    let mut harness = Harness::new(Config { has_live: true, ..config() });
    harness.subscribe(&doc);
    let (number, _) = harness.request();
    let rows = vec![row("a", 8_000), row("b", 8_000)];
    harness.answer(number, in_epoch(1, 10_000, vec![part(&doc, rows)]));
    harness
}

fn hint(harness: &mut Harness) -> u64 {
    let socket = open_socket(harness);
    harness.frame(socket, ServerFrame::Hints(vec![(def("Doc"), 1)]));
    harness.request().0
}

fn open_socket(harness: &mut Harness) -> u64 {
    let socket = harness.opened_socket().expect("a socket");
    harness.feed(Event::SocketOpened { socket });
    socket
}

#[test]
fn r8_a_new_epoch_replaces_at_any_v_once_it_is_loaded_whole() {
    let doc = def("Doc");
    let mut harness = loaded();
    let number = hint(&mut harness);
    // A server restored from a backup: a is older there, b was never written.
    harness.answer(number, in_epoch(2, 10_500, vec![part(&doc, vec![])]));
    assert_eq!(harness.shown(&doc), these(&[("a", 8_000), ("b", 8_000)]), "the old ones stay visible");
    let (number, request) = harness.request();
    assert_eq!(request.subs[0].v, 0, "loaded anew");
    harness.answer(number, in_epoch(2, 10_600, vec![part(&doc, vec![row("a", 3_000), row("c", 4_000)])]));
    assert_eq!(harness.shown(&doc), these(&[("a", 3_000), ("c", 4_000)]));
    assert_eq!(harness.v(&doc), 10_500);
}

#[test]
fn r8_an_earlier_epoch_is_dropped() {
    let doc = def("Doc");
    let mut harness = loaded();
    let number = hint(&mut harness);
    harness.answer(number, in_epoch(2, 10_500, vec![part(&doc, vec![])]));
    let (number, _) = harness.request();
    harness.answer(number, in_epoch(1, 10_600, vec![part(&doc, vec![row("z", 9_000)])]));
    assert_eq!(harness.shown(&doc), these(&[("a", 8_000), ("b", 8_000)]));
    assert_eq!(harness.error(), Some(Code::ServerError));
    assert_eq!(harness.v(&doc), 0);
    // It asks again: another instance may know the later epoch.
    if harness.requests.is_empty() {
        let at = harness.wake_at().expect("tried again");
        harness.wake(at);
    }
    let (number, request) = harness.request();
    assert_eq!(request.subs[0].v, 0);
    harness.answer(number, in_epoch(2, 10_700, vec![part(&doc, vec![row("a", 3_000)])]));
    assert_eq!(harness.shown(&doc), these(&[("a", 3_000)]));
}

/// The pull in flight asked for changes since a `v` of the earlier epoch: its reply is not the whole of the
/// later one.
#[test]
fn r8_a_later_epoch_met_on_the_socket_drops_the_pull_in_flight() {
    let doc = def("Doc");
    let mut harness = loaded();
    let socket = open_socket(&mut harness);
    harness.frame(socket, ServerFrame::Hints(vec![(doc.clone(), 1)]));
    let (number, request) = harness.request();
    assert_ne!(request.subs[0].v, 0);
    let push = ServerParts { epoch: epoch(2), now: 10_500, delta: 100, seq: 0, parts: vec![] };
    harness.frame(socket, ServerFrame::Parts(push));
    harness.answer(number, in_epoch(2, 10_600, vec![part(&doc, vec![])]));
    assert_eq!(harness.v(&doc), 0, "not loaded in the later epoch yet");
    let (number, request) = harness.request();
    assert_eq!(request.subs[0].v, 0);
    harness.answer(number, in_epoch(2, 10_700, vec![part(&doc, vec![row("a", 3_000)])]));
    assert_eq!(harness.shown(&doc), these(&[("a", 3_000)]));
}

#[test]
fn r8_each_collection_keeps_its_old_documents_until_its_own_load() {
    let (doc, games) = (def("Doc"), section("games"));
    let mut harness = loaded();
    harness.subscribe(&games);
    let (number, _) = harness.request();
    let rows = vec![row("a", 8_000), row("b", 8_000)];
    harness.answer(number, in_epoch(1, 10_100, vec![part(&games, rows)]));
    harness.subscribe(&def("Note"));
    let (number, _) = harness.request();
    harness.answer(number, in_epoch(2, 10_500, vec![part(&def("Note"), vec![])]));
    let (number, request) = harness.request();
    let of_docs = |sub: &&escale::codec::Sub| sub.def.class().as_str() == "Doc";
    assert!(request.subs.iter().filter(of_docs).all(|sub| sub.v == 0));
    // The reply has room for one def only.
    let first = request.subs.iter().find(of_docs).expect("one").def.clone();
    let other = if first == doc { games } else { doc };
    harness.answer(number, in_epoch(2, 10_600, vec![part(&first, vec![row("a", 3_000)])]));
    assert_eq!(harness.shown(&first), these(&[("a", 3_000)]));
    assert_eq!(harness.shown(&other), these(&[("a", 3_000), ("b", 8_000)]));
    assert!(harness.client.machine.find(other.class(), &pk("b")).is_some());
    harness.serve_in(2, 10_700);
    assert_eq!(harness.shown(&other), these(&[("a", 3_000)]));
}

impl Harness {
    /// Answers each request with the one document of the later epoch.
    fn serve_in(&mut self, ms: u64, now: u64) {
        while let Some((number, request, _)) = self.requests.pop_front() {
            let rows = |def: &escale::model::Def| match def.class().as_str() {
                "Doc" => vec![row("a", 3_000)],
                _ => vec![],
            };
            let parts = request.subs.iter().map(|sub| part(&sub.def, rows(&sub.def))).collect();
            self.answer(number, in_epoch(ms, now, parts));
        }
    }
}

/// A session that took another name asks nothing about its operations under the old one: their numbers mean others now.
#[test]
fn r8_operations_of_an_earlier_name_are_not_reported_as_lost() {
    let mut harness = Harness::new(config());
    let mut random = SeededRandom::new(1);
    let mut write = |harness: &mut Harness| {
        let id = make_id(1_700_000_000_000, &mut random).expect("an id");
        let note = Value::from([("id", Value::from(id.as_str()))]);
        let args = Value::from([("class", Value::from("Note")), ("data", note)]);
        harness.feed(Event::Write(Write {
            id,
            name: "doc.put".into(),
            args,
            touches: vec![],
            after: vec![],
        }));
    };
    harness.subscribe(&def("Doc"));
    harness.serve(5_000, |def| whole(def, vec![]));
    // Answers the next request with that result of each operation.
    let answer = |harness: &mut Harness, epoch: u64, code: Option<Code>| {
        if harness.requests.is_empty() {
            harness.wake(harness.wake_at().expect("something is due"));
        }
        let (number, request) = harness.request();
        let result = |op: &Op| OpResult {
            id: op.id.clone(),
            ok: code.is_none().then_some(OpOk { v: 5_000, value: None, trees: Vec::new() }),
            fault: code.map(|code| Fault::new(code, "by the test")),
        };
        let seq = if code.is_none() { request.ops.last().map_or(1, |op| op.seq) } else { 2 };
        let results = request.ops.iter().map(result).collect();
        let parts = request.subs.iter().map(|sub| whole(&sub.def, vec![])).collect();
        harness.answer(number, SyncReply { seq, results, ..in_epoch(epoch, 6_000, parts) });
        request
    };
    for _ in 0..2 {
        write(&mut harness);
        answer(&mut harness, 1, None);
    }
    write(&mut harness);
    let before = answer(&mut harness, 1, Some(Code::SessionReused));
    answer(&mut harness, 1, Some(Code::SessionReused));
    let after = answer(&mut harness, 1, None);
    assert_ne!(after.session, before.session);
    assert_eq!((after.ops[0].seq, &after.ops[0].id), (1, &before.ops[0].id));
    harness.wake(harness.now + escale::limits::PULL_EVERY_MS);
    answer(&mut harness, 2, None);
    assert!(
        harness.client.machine.lost_by_server().is_empty(),
        "{:?}",
        harness.client.machine.lost_by_server()
    );
}
