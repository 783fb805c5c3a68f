//! A faulty server. Each mistake that a session can detect is reported once. A reply that contradicts itself
//! is reported, and requested again later. No answer makes the session ask without end.

use escale::codec::{Data, Fault, OpOk, OpResult, Part, Row, ServerFrame, SyncReply, SyncRequest};
use escale::crypto::SeededRandom;
use escale::journal::make_id;
use escale::model::Value;
use escale::sync::{Config, Effect, Event, Write};
use escale::{Code, Kind};

use crate::harness::{Harness, config, def, epoch, fault, part, pk, reply, row, whole};

/// A session with no network yet, and writes that wait.
fn waiting(writes: u64, defs: &[&str]) -> Harness {
    waiting_with(config(), writes, defs)
}

pub fn waiting_with(config: Config, writes: u64, defs: &[&str]) -> Harness {
    let mut harness = Harness::new(config);
    for text in defs {
        harness.subscribe(&def(text));
        harness.serve(5_000, |def| whole(def, vec![row("a", 1_000), row("b", 1_000)]));
    }
    let mut random = SeededRandom::new(5);
    harness.feed(Event::Network(false));
    for n in 0..writes {
        let set = Value::from([("size", Value::from(n as i64))]);
        let key = Value::Array(vec![Value::from("a")]);
        let args = Value::from([("class", Value::from("Doc")), ("key", key), ("set", set)]);
        let id = make_id(1_700_000_000_000 + n, &mut random).expect("an id");
        harness.feed(Event::Write(Write {
            id,
            name: "doc.patch".into(),
            args,
            touches: vec![],
            after: vec![],
        }));
    }
    harness.feed(Event::Network(true));
    harness
}

/// The next request, as soon as the session sends one.
fn next_request(harness: &mut Harness) -> (u64, SyncRequest) {
    while harness.requests.is_empty() {
        harness.wake(harness.wake_at().expect("a session that goes on"));
    }
    harness.request()
}

fn detail(harness: &Harness) -> String {
    harness.client.machine.status().error.map(|error| error.to_string()).unwrap_or_default()
}

/// The error after such a reply to a pull of the whole class from 0, then whether the next good reply is
/// accepted.
fn after(reply: SyncReply) -> String {
    let mut harness = Harness::new(config());
    harness.subscribe(&def("Doc"));
    let (number, _) = harness.request();
    harness.answer(number, reply);
    let first = detail(&harness);
    assert!(!harness.shown(&def("Doc")).is_empty(), "{first}: it goes on");
    harness.subscribe(&def("Note"));
    let (number, _) = harness.request();
    let good = self::reply(1_700_000_000_000, vec![whole(&def("Note"), vec![])]);
    harness.answer(number, SyncReply { epoch: epoch(1_700_000_000_000), ..good });
    assert_eq!(harness.error(), None, "told once");
    first
}

#[test]
fn each_mistake_that_a_session_can_see_is_told_once_with_its_place() {
    let doc = def("Doc");
    let a_row = |row: Row| vec![row];
    let (first, last) = if pk("a") < pk("b") { ("a", "b") } else { ("b", "a") };
    let with_left = |left| Part { left, ..whole(&doc, vec![row("a", 1), row("b", 2)]) };
    let in_seconds = SyncReply { epoch: epoch(1_700_000_000_000), ..reply(1_700_000_000, vec![]) };
    let cases: Vec<(SyncReply, &str)> = vec![
        (SyncReply { parts: vec![whole(&doc, a_row(row("a", 1)))], ..in_seconds }, "now: it is in seconds"),
        (reply(5_000, vec![part(&doc, a_row(row("a", 1)))]), "parts[0].present: "),
        (reply(5_000, vec![whole(&doc, vec![row("a", 3), row("b", 2)])]), "parts[0].rows[1].v: "),
        (
            reply(
                5_000,
                vec![Part { left: vec![(pk("x"), 3), (pk("y"), 2)], ..whole(&doc, a_row(row("a", 1))) }],
            ),
            "parts[0].left[1].v: ",
        ),
        (reply(5_000, vec![whole(&doc, vec![Row { pk: pk("z"), ..row("a", 1) }])]), "parts[0].rows[0].pk: "),
        (
            reply(5_000, vec![whole(&doc, vec![row("a", 1), Row { pk: pk("z"), ..row("b", 2) }])]),
            "parts[0].rows[1].pk: it is not the one",
        ),
        (
            reply(5_000, vec![whole(&doc, a_row(row("a", 1))), part(&def("Note"), vec![])]),
            "parts[1].def: nobody asked for it",
        ),
        (
            reply(5_000, vec![whole(&doc, a_row(row("a", 1))), part(&doc, vec![])]),
            "parts[1].def: it is there twice",
        ),
        (
            reply(5_000, vec![whole(&doc, vec![row(last, 2), row(first, 2)])]),
            "parts[0].rows[1].pk: it does not come after",
        ),
        (
            reply(5_000, vec![whole(&doc, vec![row("a", 2), row("a", 2)])]),
            "parts[0].rows[1].pk: it does not come after",
        ),
        (reply(5_000, vec![with_left(vec![(pk("x"), 3), (pk("x"), 3)])]), "parts[0].left[1].pk: "),
        (
            reply(5_000, vec![with_left(vec![(pk("b"), 4), (pk("x"), 5)])]),
            "parts[0].rows[1].pk: it is in `left`",
        ),
    ];
    for (reply, place) in cases {
        let told = after(reply);
        assert!(told.starts_with(&format!("bad_reply: {place}")), "{place} {told}");
        assert!(told.contains("docs/protocol.md, "), "{told}");
    }
    assert_eq!(
        after(reply(5_000, vec![whole(&doc, vec![row("a", 1), row("b", 2)])])),
        "",
        "nothing is wrong"
    );
    let in_milliseconds = reply(1_700_000_000_500, vec![whole(&doc, vec![row("a", 1)])]);
    assert_eq!(after(SyncReply { epoch: epoch(1_700_000_000_000), ..in_milliseconds }), "");
}

/// The session looks at the keys of the first 16 living rows of a part.
#[test]
fn a_wrong_key_is_seen_in_the_first_rows_of_a_part() {
    for (wrong, is_seen) in [(15, true), (16, false)] {
        let of = |n: u64| row(&format!("key{n}"), n + 2);
        let wrong_pk = |n: u64| if n == wrong { Row { pk: pk("z"), ..of(n) } } else { of(n) };
        let deleted = Row { deleted: true, data: None, ..row("gone", 1) };
        let rows = std::iter::once(deleted).chain((0..20).map(wrong_pk)).collect();
        let place = format!("bad_reply: parts[0].rows[{}].pk: ", wrong + 1);
        assert_eq!(after(reply(5_000, vec![whole(&def("Doc"), rows)])).starts_with(&place), is_seen);
    }
}

/// The session reports a mistake once, even if the server repeats it. It reports another of the same section too.
#[test]
fn each_kind_of_mistake_is_told_once_in_an_opening() {
    let mut harness = Harness::new(config());
    harness.subscribe(&def("Doc"));
    let mut told = Vec::new();
    let rounds = [(3, 2), (3, 2), (2, 2), (3, 2), (2, 2)];
    for (first, second) in rounds {
        let (number, request) = next_request(&mut harness);
        let since = request.subs[0].v;
        let rows = vec![row("a", since + first), row("a", since + second)];
        let parts = vec![Part { present: Some(vec![pk("a")]), ..part(&def("Doc"), rows) }];
        harness.answer(number, reply(5_000, parts));
        told.push(harness.error().is_some());
    }
    assert_eq!(told, [true, false, true, false, false]);
}

#[test]
fn two_kinds_of_mistake_in_one_reply_are_both_told() {
    let mut harness = Harness::new(config());
    harness.subscribe(&def("Doc"));
    let (number, _) = harness.request();
    let rows = vec![row("b", 1_700_000_009), row("a", 1_700_000_008)];
    harness.answer(number, SyncReply { now: 1_700_000_000, ..reply(5_000, vec![whole(&def("Doc"), rows)]) });
    let told = detail(&harness);
    assert!(told.contains("now: it is in seconds") && told.contains("parts[0].rows[1].v: "), "{told}");
}

#[test]
fn a_mistake_in_the_first_reply_of_an_epoch_is_told() {
    let mut harness = Harness::new(config());
    harness.subscribe(&def("Doc"));
    harness.serve(5_000, |def| whole(def, vec![row("a", 1_000)]));
    harness.subscribe(&def("Note"));
    let (number, request) = next_request(&mut harness);
    let part = |sub: &escale::codec::Sub| whole(&sub.def, vec![row("b", 9), row("a", 8)]);
    let parts = request.subs.iter().map(part).collect();
    harness.answer(number, SyncReply { epoch: epoch(2), ..reply(6_000, parts) });
    let told = detail(&harness);
    assert!(told.contains("it is below that of the one before"), "{told}");
}

/// The first result counts. The session reports the second as a mistake.
#[test]
fn an_operation_has_one_result_in_a_reply() {
    for is_accepted in [true, false] {
        let mut harness = waiting(1, &["Doc"]);
        let (number, request) = harness.request();
        let op = &request.ops[0];
        let refused =
            OpResult { id: op.id.clone(), ok: None, fault: Some(Fault::new(Code::NotFound, "twice")) };
        let mut results = vec![accepted(op, 5_500), refused];
        if !is_accepted {
            results.reverse();
        }
        let parts = vec![part(&def("Doc"), vec![])];
        harness.answer(number, SyncReply { results, seq: op.seq, ..reply(6_000, parts) });
        let told = harness.take(|effect| match effect {
            Effect::Accepted { .. } => Some(true),
            Effect::Refused { .. } => Some(false),
            _ => None,
        });
        assert_eq!(told, [is_accepted]);
        assert!(detail(&harness).starts_with("bad_reply: results[1].id: "), "{}", detail(&harness));
    }
}

#[test]
fn a_change_below_the_version_that_was_asked_is_told() {
    for (below, is_mistake) in [(0, false), (1, true)] {
        let mut harness = Harness::new(config());
        harness.subscribe(&def("Doc"));
        harness.serve(5_000, |def| whole(def, vec![row("a", 1)]));
        let (number, request) = next_request(&mut harness);
        let v = request.subs[0].v - below;
        harness.answer(number, reply(6_000, vec![part(&def("Doc"), vec![row("b", v)])]));
        let place = "bad_reply: parts[0].rows[0].v: it is below the `v` that was asked";
        assert_eq!(detail(&harness).starts_with(place), is_mistake, "{}", detail(&harness));
    }
}

/// The times of the years 2001 to 2286 count as seconds, even if the epoch is in milliseconds.
#[test]
fn a_time_in_seconds_is_a_mistake() {
    for (now, is_mistake) in
        [(999_999_999, false), (1_000_000_000, true), (9_999_999_999, true), (10_000_000_000, false)]
    {
        for of_epoch in [1_600_000_000, 1_600_000_000_000] {
            let mut harness = Harness::new(config());
            harness.subscribe(&def("Doc"));
            let (number, _) = harness.request();
            let parts = vec![whole(&def("Doc"), vec![row("a", 1)])];
            harness.answer(number, SyncReply { epoch: epoch(of_epoch), ..reply(now, parts) });
            assert_eq!(detail(&harness).starts_with("bad_reply: now: "), is_mistake, "{now}");
        }
    }
}

#[test]
fn data_without_its_key_is_a_mistake() {
    let empty = Data::from_map(&[("size".to_owned(), Value::from(1_i64))].into()).expect("data");
    let told = after(reply(5_000, vec![whole(&def("Doc"), vec![Row { data: Some(empty), ..row("a", 1) }])]));
    assert!(told.starts_with("bad_reply: parts[0].rows[0].data: "), "{told}");
}

pub fn accepted(op: &escale::codec::Op, v: u64) -> OpResult {
    OpResult { id: op.id.clone(), ok: Some(OpOk { v, value: None, trees: Vec::new() }), fault: None }
}

#[test]
fn a_seq_below_what_was_accepted_is_told() {
    let mut harness = waiting(1, &["Doc"]);
    let (number, request) = harness.request();
    let results = vec![accepted(&request.ops[0], 5_500)];
    harness.answer(
        number,
        SyncReply { results, ..reply(6_000, vec![part(&def("Doc"), vec![row("a", 5_500)])]) },
    );
    assert!(
        detail(&harness).starts_with("bad_reply: seq: it is below the number of an operation"),
        "{}",
        detail(&harness)
    );
}

/// Without progress, a session sends at most ten requests in the first second and one in each later second. Those
/// to this server are sent later each time.
#[test]
fn a_seq_beyond_the_results_does_not_make_a_hot_loop() {
    let mut harness = waiting(1, &["Doc"]);
    let mut times = Vec::new();
    while harness.now < 61_000 {
        if let Some((number, request, _)) = harness.requests.pop_front() {
            times.push(harness.now);
            let seq = request.ops.last().map_or(1, |op| op.seq);
            let parts = request.subs.iter().map(|sub| part(&sub.def, vec![])).collect();
            harness.answer(number, SyncReply { seq, ..reply(6_000, parts) });
            assert!(
                request.ops.is_empty() || detail(&harness).starts_with("bad_reply: seq: "),
                "{}",
                detail(&harness)
            );
        } else {
            harness.wake(harness.wake_at().expect("something is due"));
        }
    }
    assert!(times.len() < 40, "{} requests in a minute", times.len());
    assert_eq!(harness.client.machine.status().pending, 1, "nothing is given up");
}

/// One server ignores the cursor, one hands out the same cursor, and one has empty pages for ever.
#[test]
fn a_cursor_that_never_ends_is_named_and_asked_later_each_time() {
    type Page = fn(u64) -> (Vec<Row>, String);
    let pages: [Page; 5] = [
        |n| (vec![row("a", 1), row("b", 2)], format!("c{n}")),
        |_| (vec![], "same".into()),
        |n| (vec![], format!("c{n}")),
        |n| (vec![row("a", 5), row("b", 5)], format!("c{n}")),
        |n| (vec![row(if n % 2 == 0 { "a" } else { "b" }, 5)], format!("c{n}")),
    ];
    for page in pages {
        let mut harness = Harness::new(config());
        harness.subscribe(&def("Doc"));
        harness.subscribe(&def("Note"));
        let (mut asked, mut was_named) = (0, false);
        while harness.now < 121_000 {
            let Some((number, request, _)) = harness.requests.pop_front() else {
                harness.wake(harness.wake_at().expect("something is due"));
                continue;
            };
            asked += 1;
            let answer = |place: &escale::codec::Sub| {
                if place.def != def("Doc") {
                    return whole(&place.def, vec![]);
                }
                let (rows, next) = page(asked);
                Part { next: Some(next), ..part(&place.def, rows) }
            };
            let parts = request.subs.iter().map(answer).collect();
            harness.answer(number, reply(6_000, parts));
            was_named |= detail(&harness).starts_with("bad_reply: parts[0].next: ");
        }
        assert!(was_named);
        assert!(asked < 60, "{asked} requests in two minutes");
        assert!(harness.is_ready(&def("Note")), "the other def goes on");
        assert_eq!(harness.client.machine.status().faults[&def("Doc")].code(), Code::BadReply);
    }
}

/// Two instances of a server that sign with different keys answer like this.
#[test]
fn a_cursor_that_is_refused_each_time_makes_no_hot_loop() {
    let mut harness = Harness::new(config());
    harness.subscribe(&def("Doc"));
    let mut times = Vec::new();
    while harness.now < 121_000 {
        let (number, request) = next_request(&mut harness);
        times.push(harness.now);
        let answer = match request.subs[0].cursor {
            None => Part { next: Some("c".into()), ..part(&def("Doc"), vec![row("a", 5)]) },
            Some(_) => fault(&def("Doc"), Code::BadCursor),
        };
        harness.answer(number, reply(6_000, vec![answer]));
    }
    assert_eq!(times[2], times[0], "the first time, the load begins again at once");
    assert!(times.len() < 60, "{} requests in two minutes", times.len());
}

#[test]
fn empty_pages_of_a_full_reply_are_no_mistake() {
    let mut harness = Harness::new(config());
    harness.subscribe(&def("Doc"));
    harness.subscribe(&def("Note"));
    for n in 0..30 {
        let (number, request) = harness.request();
        let page = |sub: &escale::codec::Sub| {
            let rows = if sub.def == def("Doc") { vec![row(&format!("d{n}"), n)] } else { vec![] };
            Part { next: Some(format!("c{}", if rows.is_empty() { 0 } else { n })), ..part(&sub.def, rows) }
        };
        let parts = request.subs.iter().map(page).collect();
        harness.answer(number, reply(6_000, parts));
        assert_eq!(harness.error(), None);
    }
}

/// History: a load reached a row and started again. Its new first page was empty, and the next one had that
/// row.
#[test]
fn a_load_that_begins_again_may_come_to_where_the_last_one_ended() {
    let mut harness = Harness::new(config());
    harness.subscribe(&def("Doc"));
    let page = |rows, next: &str| Part { next: Some(next.into()), ..part(&def("Doc"), rows) };
    let (number, _) = harness.request();
    harness.answer(number, reply(6_000, vec![page(vec![row("a", 5)], "c1")]));
    let (number, _) = harness.request();
    harness.answer(number, reply(6_000, vec![crate::harness::fault(&def("Doc"), Code::BadCursor)]));
    let (number, request) = harness.request();
    assert_eq!(request.subs[0].cursor, None);
    harness.answer(number, reply(6_000, vec![page(vec![], "c2")]));
    let (number, _) = harness.request();
    harness.answer(number, reply(6_000, vec![page(vec![row("a", 5)], "c3")]));
    assert_eq!(harness.error(), None);
    assert_eq!(harness.request().1.subs[0].cursor.as_deref(), Some("c3"));
}

/// A server that confirms a socket and closes it, over and over.
#[test]
fn sockets_that_close_at_once_are_not_opened_in_a_hot_loop() {
    let mut harness = Harness::new(Config { has_live: true, ..config() });
    harness.subscribe(&def("Doc"));
    let (mut opened, start) = (0, harness.now);
    while harness.now < start + 60_000 {
        while let Some((number, request, _)) = harness.requests.pop_front() {
            let parts = request.subs.iter().map(|sub| whole(&sub.def, vec![])).collect();
            harness.answer(number, reply(6_000, parts));
        }
        if let Some(socket) = harness.opened_socket() {
            opened += 1;
            harness.feed(Event::SocketOpened { socket });
            let live = ServerFrame::confirm(vec![def("Doc")], vec![]);
            harness.frame(socket, live);
            harness.feed(Event::SocketClosed { socket, code: 1006, reason: String::new() });
        } else {
            harness.wake(harness.wake_at().expect("something is due"));
        }
    }
    assert!(opened <= 10 + 60, "{opened} sockets in a minute");
}

/// A code that only this server and its application know.
#[test]
fn a_servers_own_code_reaches_the_application_as_it_is() {
    for (kind, reaches) in [(Kind::A, true), (Kind::N, true), (Kind::S, true), (Kind::B, false)] {
        let mut harness = waiting(1, &["Doc"]);
        let (number, request) = harness.request();
        let message = "no credit is left".to_owned();
        let bare = Fault::new(Code::ServerRefused, message.clone());
        let fault = Fault { code: "credit_limit".into(), kind, phase: 1, ..bare };
        let results = vec![OpResult { id: request.ops[0].id.clone(), ok: None, fault: Some(fault) }];
        harness
            .answer(number, SyncReply { results, seq: 1, ..reply(6_000, vec![part(&def("Doc"), vec![])]) });
        let told = harness.take(|effect| match effect {
            Effect::Refused { error, .. } => Some(error.clone()),
            _ => None,
        });
        let name = if reaches { "credit_limit" } else { "server_error" };
        assert_eq!((told[0].name(), told[0].detail()), (name, message.as_str()));
        assert!(!reaches || (told[0].kind() == kind && told[0].code() == Code::ServerRefused));
    }
}
