//! The socket: registrations, hints, pushed parts, silence, and the reasons that close it.

mod back;

use escale::Code;
use escale::codec::{Fault, Part, ServerFrame, ServerParts};
use escale::limits::{BACKOFF_MS, FIRST_SUBS_MAX, PULL_EVERY_MS, SOCKET_SILENCE_MS, SUBS_MAX, pull_every_ms};
use escale::sync::{Config, Effect, Event, Mode, Phase, Updates};

use crate::harness::{Bench, config, def, epoch, gone, part, pk, refusal, reply, row, section, these, whole};

fn live() -> Config {
    Config { has_live: true, ..config() }
}

/// A machine with a def subscribed and loaded at 10,000, its socket open and registered.
fn registered() -> (Bench, u64) {
    let doc = def("Doc");
    let mut bench = Bench::new(live());
    bench.subscribe(&doc);
    let socket = bench.opened_socket().expect("a socket");
    bench.serve(10_000, |def| part(def, vec![row("a", 100)]));
    bench.feed(Event::SocketOpened { socket });
    let said = bench.said();
    assert_eq!(said.len(), 1);
    assert_eq!(said[0].subs, std::slice::from_ref(&doc));
    assert_eq!(bench.phase(), Phase::Opening);
    bench.frame(socket, ServerFrame::confirm(vec![doc], vec![]));
    bench.serve(10_000, |def| part(def, vec![]));
    assert_eq!(bench.phase(), Phase::Live);
    bench.take_all();
    (bench, socket)
}

#[test]
fn no_socket_without_subscriptions() {
    let mut bench = Bench::new(live());
    assert_eq!(bench.opened_socket(), None);
    bench.subscribe(&def("Doc"));
    assert!(bench.opened_socket().is_some());
}

#[test]
fn every_def_is_pulled_once_after_its_registration() {
    let (mut bench, socket) = registered();
    bench.subscribe(&section("games"));
    let (number, _) = bench.request();
    assert_eq!(bench.said().len(), 1, "the socket follows the subscriptions");
    bench.answer(number, crate::harness::reply(20_000, vec![part(&section("games"), vec![])]));
    assert!(bench.requests.is_empty());
    let both = vec![def("Doc"), section("games")];
    bench.frame(socket, ServerFrame::confirm(both.clone(), vec![]));
    let (number, request) = bench.request();
    let asked: Vec<_> = request.subs.iter().map(|sub| sub.def.clone()).collect();
    assert_eq!(asked, [section("games")], "only the one that is new to the socket");
    bench.answer(number, crate::harness::reply(20_001, vec![part(&section("games"), vec![])]));
    bench.frame(socket, ServerFrame::confirm(both, vec![]));
    assert!(bench.requests.is_empty(), "registered already");
}

#[test]
fn a_new_socket_registers_and_pulls_everything() {
    let (mut bench, socket) = registered();
    bench.subscribe(&section("games"));
    bench.serve(20_000, |def| part(def, vec![]));
    bench.feed(Event::SocketClosed { socket, code: 1006, reason: String::new() });
    bench.serve(20_000, |def| part(def, vec![]));
    let at = bench.wake_at().expect("a socket is opened again");
    assert!(at - bench.now <= BACKOFF_MS.0);
    bench.wake(at);
    let next = bench.opened_socket().expect("a socket");
    assert_ne!(next, socket);
    bench.feed(Event::SocketOpened { socket: next });
    let said = bench.said();
    assert_eq!(said.last().expect("a registration").subs.len(), 2);
    bench.frame(next, ServerFrame::confirm(vec![def("Doc"), section("games")], vec![]));
    assert_eq!(bench.request().1.subs.len(), 2);
}

#[test]
fn r43_each_session_has_an_interval_of_its_own() {
    let all: Vec<u64> = (0..1_000).map(|n| pull_every_ms(&format!("session {n}"))).collect();
    assert!(all.iter().all(|ms| (PULL_EVERY_MS * 4 / 5..=PULL_EVERY_MS * 6 / 5).contains(ms)));
    let mean = all.iter().sum::<u64>() / 1_000;
    assert!(mean.abs_diff(PULL_EVERY_MS) < PULL_EVERY_MS / 50, "{mean}");
}

/// The server may be back for one pull and die again. Without a socket, nothing else would notice for half a
/// minute.
#[test]
fn a_socket_that_cannot_be_opened_again_asks_whether_the_server_is_there() {
    let (mut bench, socket) = registered();
    bench.feed(Event::SocketClosed { socket, code: 1006, reason: String::new() });
    bench.serve(20_000, |def| part(def, vec![]));
    assert_eq!(bench.client.machine.status().updates, Some(Updates::Polled));
    assert_eq!(bench.phase(), Phase::Live);
    let at = bench.wake_at().expect("a socket is opened again");
    bench.wake(at);
    let next = bench.opened_socket().expect("a socket");
    assert!(bench.requests.is_empty());
    bench.feed(Event::SocketClosed { socket: next, code: 1006, reason: String::new() });
    let (number, _) = bench.request();
    bench.refuse(number, refusal(Code::Offline));
    assert_eq!(bench.phase(), Phase::Offline);
}

#[test]
fn a_hint_pulls_its_def_only() {
    let (mut bench, socket) = registered();
    bench.subscribe(&section("games"));
    bench.serve(20_000, |def| part(def, vec![]));
    bench.frame(socket, ServerFrame::Hints(vec![(def("Doc"), 30_000), (def("Note"), 30_000)]));
    let (_, request) = bench.request();
    assert_eq!(request.subs.len(), 1);
    assert_eq!(request.subs[0].def, def("Doc"));
}

#[test]
fn a_socket_silent_for_25_seconds_is_given_up() {
    let (mut bench, socket) = registered();
    bench.now += SOCKET_SILENCE_MS - 1;
    bench.frame(socket, ServerFrame::Alive);
    assert_eq!(bench.wake_at(), Some(bench.now + SOCKET_SILENCE_MS), "every frame is a sign of life");
    bench.wake(bench.now + SOCKET_SILENCE_MS - 1);
    let closed = |effect: &Effect| matches!(effect, Effect::CloseSocket(_)).then_some(());
    assert!(bench.take(closed).is_empty());
    bench.wake(bench.now + 1);
    assert_eq!(bench.take(closed).len(), 1);
    if let Some(at) = bench.wake_at() {
        bench.wake(at);
    }
    let next = bench.opened_socket().expect("another socket");
    // Further frames of the abandoned socket are ignored.
    bench.frame(socket, ServerFrame::Hints(vec![(def("Doc"), 99_000)]));
    bench.feed(Event::SocketClosed { socket, code: 1000, reason: String::new() });
    assert!(bench.requests.is_empty());
    bench.feed(Event::SocketOpened { socket: next });
    assert_eq!(bench.said().len(), 1);
}

/// Without subscriptions, a session was not to be woken for its silent socket, and closed it minutes later.
#[test]
fn a_silent_socket_is_given_up_without_subscriptions_too() {
    let (mut bench, _) = registered();
    bench.feed(Event::Unsubscribe(def("Doc")));
    assert_eq!(bench.wake_at(), Some(bench.now + SOCKET_SILENCE_MS));
    bench.wake(bench.now + SOCKET_SILENCE_MS);
    let closed = |effect: &Effect| matches!(effect, Effect::CloseSocket(_)).then_some(());
    assert_eq!(bench.take(closed).len(), 1);
    bench.wake(bench.now + SOCKET_SILENCE_MS);
    assert_eq!(bench.opened_socket(), None, "there is nothing to hear of");
}

#[test]
fn an_adapter_without_signs_of_life_is_not_given_up() {
    let mut bench = Bench::new(Config { watches_silence: false, ..live() });
    bench.subscribe(&def("Doc"));
    let socket = bench.opened_socket().expect("a listening");
    bench.feed(Event::SocketOpened { socket });
    bench.serve(10_000, |def| part(def, vec![]));
    bench.wake(bench.now + 4 * 60_000);
    let closed = |effect: &Effect| matches!(effect, Effect::CloseSocket(_)).then_some(());
    assert!(bench.take(closed).is_empty());
}

#[test]
fn a_socket_that_cannot_open_is_tried_with_growing_delays() {
    let mut bench = Bench::new(live());
    bench.subscribe(&def("Doc"));
    bench.serve(10_000, |def| part(def, vec![]));
    let mut bound = BACKOFF_MS.0;
    for _ in 0..12 {
        let socket = bench.opened_socket().expect("a socket");
        let from = bench.now;
        bench.feed(Event::SocketClosed { socket, code: 1006, reason: String::new() });
        bench.serve(10_000, |def| part(def, vec![]));
        if let Some(at) = bench.wake_at() {
            bench.wake(at);
        }
        assert!(bench.now - from <= bound, "{} ms, {bound} at most", bench.now - from);
        bound = (bound * 2).min(BACKOFF_MS.1);
    }
    assert_eq!(bench.phase(), Phase::Live);
}

#[test]
fn r4_pushed_parts_never_move_a_collections_v() {
    let (mut bench, socket) = registered();
    let doc = def("Doc");
    let before = bench.v(&doc);
    let push =
        |parts| ServerFrame::Parts(ServerParts { epoch: epoch(1), now: 99_000, delta: 100, seq: 0, parts });
    bench.frame(socket, push(vec![part(&doc, vec![row("b", 98_000)])]));
    assert_eq!(bench.shown(&doc), these(&[("a", 100), ("b", 98_000)]));
    assert_eq!(bench.v(&doc), before);
    bench.frame(socket, push(vec![part(&doc, vec![gone("b", 98_001)])]));
    assert_eq!(bench.shown(&doc), these(&[("a", 100)]));
    // R5: a late push does not bring it back.
    bench.frame(socket, push(vec![part(&doc, vec![row("b", 98_000)])]));
    bench.frame(socket, push(vec![part(&doc, vec![row("c", before - 1)])]));
    assert_eq!(bench.shown(&doc), these(&[("a", 100)]));
    assert_eq!(bench.client.machine.find(doc.class(), &pk("c")), None);
}

#[test]
fn a_refused_registration_is_a_fault_of_its_def() {
    let (mut bench, socket) = registered();
    let refused = vec![(def("Doc"), Fault::new(Code::Forbidden, "no"))];
    bench.frame(socket, ServerFrame::confirm(vec![], refused));
    assert_eq!(bench.client.machine.status().faults[&def("Doc")].code(), Code::Forbidden);
}

#[test]
fn a_frame_that_is_none_is_reported_and_the_socket_kept() {
    let (mut bench, socket) = registered();
    let frame = Err(escale::Error::new(Code::Malformed, "no frame"));
    bench.feed(Event::Frame { socket, frame });
    assert_eq!(bench.error(), Some(Code::Malformed));
    bench.frame(socket, ServerFrame::Hints(vec![(def("Doc"), 30_000)]));
    bench.request();
}

#[test]
fn avion_says_nothing_to_anybody() {
    let mut bench = Bench::new(Config { mode: Mode::Avion, has_token: true, ..live() });
    bench.subscribe(&def("Doc"));
    bench.feed(Event::Network(true));
    bench.feed(Event::Visible);
    bench.wake(bench.now + 3_600_000);
    let said = |effect: &Effect| {
        let quiet = matches!(effect, Effect::Changed { .. } | Effect::StatusChanged | Effect::WakeAt(_));
        (!quiet).then(|| format!("{effect:?}"))
    };
    assert_eq!(bench.take(said), Vec::<String>::new());
    assert!(bench.requests.is_empty());
    assert_eq!(bench.phase(), Phase::Avion);
}

#[test]
fn going_to_avion_gives_up_what_is_under_way() {
    let (mut bench, _) = registered();
    bench.feed(Event::SetMode(Mode::Avion));
    let closed = |effect: &Effect| matches!(effect, Effect::CloseSocket(_)).then_some(());
    assert_eq!(bench.take(closed).len(), 1);
    bench.feed(Event::SetMode(Mode::Synced));
    let (number, _) = bench.request();
    bench.feed(Event::SetMode(Mode::Avion));
    let cancelled = |effect: &Effect| match effect {
        Effect::CancelSend(number) => Some(*number),
        _ => None,
    };
    assert_eq!(bench.take(cancelled), [number]);
    // R5: requested before the change of mode.
    bench.answer(number, crate::harness::reply(50_000, vec![part(&def("Doc"), vec![row("z", 49_000)])]));
    assert_eq!(bench.shown(&def("Doc")), these(&[("a", 100)]));
}

#[test]
fn a_mode_that_the_session_was_not_opened_for_is_refused() {
    let mut bench = Bench::new(Config { mode: Mode::Incognito, ..config() });
    bench.feed(Event::SetMode(Mode::Synced));
    assert_eq!(bench.client.machine.status().mode, Mode::Incognito);
    assert_eq!(bench.error(), Some(Code::BadOption));
    let mut bench = Bench::new(config());
    bench.feed(Event::SetMode(Mode::Incognito));
    assert_eq!(bench.client.machine.status().mode, Mode::Synced);
}

#[test]
fn a_hint_before_the_last_page_of_a_load_is_followed_once_it_has_ended() {
    let doc = def("Doc");
    let mut bench = Bench::new(live());
    bench.subscribe(&doc);
    let socket = bench.opened_socket().expect("a socket");
    bench.feed(Event::SocketOpened { socket });
    let (number, _) = bench.request();
    bench.frame(socket, ServerFrame::confirm(vec![doc.clone()], vec![]));
    let first = Part { next: Some("there".into()), ..part(&doc, vec![row("b", 200)]) };
    // Its commit was late: it will be behind the cursor, and no page of this load brings it.
    bench.frame(socket, ServerFrame::Hints(vec![(doc.clone(), 150)]));
    bench.answer(number, crate::harness::reply(10_000, vec![first]));
    let (number, request) = bench.request();
    assert!(request.subs[0].cursor.is_some());
    bench.answer(number, crate::harness::reply(10_001, vec![part(&doc, vec![row("c", 300)])]));
    let (number, request) = bench.request();
    assert_eq!((&request.subs[0].def, &request.subs[0].cursor), (&doc, &None), "asked once more");
    bench.answer(number, crate::harness::reply(10_002, vec![part(&doc, vec![row("a", 150)])]));
    assert!(bench.requests.is_empty(), "and once only");
}

/// A server without a socket is complete: the session is live, and polls.
#[test]
fn without_a_socket_the_session_is_live_and_polls() {
    let mut bench = Bench::new(Config { poll_every_ms: 30_000, ..live() });
    bench.subscribe(&def("Doc"));
    bench.serve(10_000, |def| whole(def, vec![]));
    let mut pulls = 0;
    let end = bench.now + 5 * 60_000;
    while bench.now < end {
        if let Some(socket) = bench.opened_socket() {
            bench.feed(Event::SocketClosed { socket, code: 1006, reason: String::new() });
        }
        pulls += bench.requests.len();
        bench.serve(10_000, |def| part(def, vec![]));
        assert_eq!((bench.phase(), bench.error()), (Phase::Live, None));
        assert_eq!(bench.client.machine.status().updates, Some(Updates::Polled));
        bench.wake(bench.wake_at().expect("something is due"));
    }
    assert!((9..=11).contains(&pulls), "{pulls} pulls in five minutes");
    // The same if it is known from the start that there is none.
    let mut bench = Bench::new(Config { poll_every_ms: 2_000, ..config() });
    bench.subscribe(&def("Doc"));
    bench.serve(10_000, |def| whole(def, vec![]));
    assert_eq!(bench.client.machine.status().updates, Some(Updates::Polled));
    assert_eq!(bench.wake_at(), Some(bench.now + 2_000));
}

#[test]
fn a_socket_that_the_server_closed_with_a_reason_shows_it() {
    let closes = [
        (1008, "too_large", Some(Code::TooLarge)),
        (1011, "", Some(Code::ServerError)),
        (1012, "the server stops", Some(Code::Unavailable)),
        (4429, "too many sockets", Some(Code::TooMany)),
        (4123, "house rules", Some(Code::ServerRefused)),
        (1008, "unknown_org", None),
        (1001, "", None),
        (1006, "", None),
    ];
    for (code, reason, expected) in closes {
        let (mut bench, socket) = registered();
        bench.feed(Event::SocketClosed { socket, code, reason: reason.to_owned() });
        bench.serve(10_000, |def| part(def, vec![]));
        assert_eq!(bench.error(), expected, "{code} {reason}: a pull that works does not hide it");
        assert_eq!(bench.phase(), Phase::Live);
        if let Some(error) = bench.client.machine.status().error {
            assert!(error.detail().ends_with(format!("{code} {reason}").trim_end()), "{error}");
        }
        bench.wake(bench.now + 60_000);
        let socket = bench.opened_socket().expect("another socket");
        bench.feed(Event::SocketOpened { socket });
        bench.frame(socket, ServerFrame::confirm(vec![def("Doc")], vec![]));
        assert_eq!(bench.error(), None, "another one is registered");
    }
}

/// More subscriptions than a message may hold: the socket covers the first ones, the others are polled.
#[test]
fn past_a_thousand_subscriptions_the_rest_is_polled() {
    let mut bench = Bench::new(Config { poll_every_ms: 30_000, ..live() });
    for n in 0..SUBS_MAX + 102 {
        bench.subscribe(&section(&n.to_string()));
    }
    let socket = bench.opened_socket().expect("a socket");
    bench.feed(Event::SocketOpened { socket });
    let said = bench.said().pop().expect("its subscriptions");
    assert_eq!(said.subs.len(), FIRST_SUBS_MAX, "a slow line carries the first message in time");
    assert!(bench.said().is_empty(), "the others wait for the confirmation");
    bench.frame(socket, ServerFrame::confirm(said.subs, vec![]));
    let said = bench.said().pop().expect("all subscriptions");
    assert_eq!(said.subs.len(), SUBS_MAX);
    bench.frame(socket, ServerFrame::confirm(said.subs, vec![]));
    assert!(bench.said().is_empty());
    let mut most = 0;
    while let Some((number, request, _)) = bench.requests.pop_front() {
        most = most.max(request.subs.len());
        let parts = request.subs.iter().map(|sub| whole(&sub.def, vec![])).collect();
        bench.answer(number, reply(10_000, parts));
    }
    assert_eq!(most, SUBS_MAX, "requests are split");
    assert_eq!((bench.phase(), bench.error()), (Phase::Live, None));
    assert_eq!(bench.client.machine.status().updates, Some(Updates::Polled));
    assert!(bench.client.machine.memory().collections().all(|(_, collection)| collection.ready));
    assert!(bench.wake_at().expect("the next pull") <= bench.now + 30_000);
}
