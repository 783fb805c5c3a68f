//! The socket: registrations, hints, pushed parts, silence, and the reasons that close it.

mod back;

use escale::Code;
use escale::codec::{Fault, Part, ServerFrame, ServerParts};
use escale::limits::{BACKOFF_MS, FIRST_SUBS_MAX, PULL_EVERY_MS, SOCKET_SILENCE_MS, SUBS_MAX, pull_every_ms};
use escale::sync::{Config, Effect, Event, Mode, Phase, Updates};

use crate::harness::{
    Harness, config, def, epoch, gone, part, pk, refusal, reply, row, section, these, whole,
};

fn live() -> Config {
    Config { has_live: true, ..config() }
}

/// A machine with a def subscribed and loaded at 10,000, its socket open and registered.
fn registered() -> (Harness, u64) {
    let doc = def("Doc");
    let mut harness = Harness::new(live());
    harness.subscribe(&doc);
    let socket = harness.opened_socket().expect("a socket");
    harness.serve(10_000, |def| part(def, vec![row("a", 100)]));
    harness.feed(Event::SocketOpened { socket });
    let said = harness.said();
    assert_eq!(said.len(), 1);
    assert_eq!(said[0].subs, std::slice::from_ref(&doc));
    assert_eq!(harness.phase(), Phase::Opening);
    harness.frame(socket, ServerFrame::confirm(vec![doc], vec![]));
    harness.serve(10_000, |def| part(def, vec![]));
    assert_eq!(harness.phase(), Phase::Live);
    harness.take_all();
    (harness, socket)
}

#[test]
fn no_socket_without_subscriptions() {
    let mut harness = Harness::new(live());
    assert_eq!(harness.opened_socket(), None);
    harness.subscribe(&def("Doc"));
    assert!(harness.opened_socket().is_some());
}

#[test]
fn every_def_is_pulled_once_after_its_registration() {
    let (mut harness, socket) = registered();
    harness.subscribe(&section("games"));
    let (number, _) = harness.request();
    assert_eq!(harness.said().len(), 1, "the socket follows the subscriptions");
    harness.answer(number, crate::harness::reply(20_000, vec![part(&section("games"), vec![])]));
    assert!(harness.requests.is_empty());
    let both = vec![def("Doc"), section("games")];
    harness.frame(socket, ServerFrame::confirm(both.clone(), vec![]));
    let (number, request) = harness.request();
    let asked: Vec<_> = request.subs.iter().map(|sub| sub.def.clone()).collect();
    assert_eq!(asked, [section("games")], "only the one that is new to the socket");
    harness.answer(number, crate::harness::reply(20_001, vec![part(&section("games"), vec![])]));
    harness.frame(socket, ServerFrame::confirm(both, vec![]));
    assert!(harness.requests.is_empty(), "registered already");
}

#[test]
fn a_new_socket_registers_and_pulls_everything() {
    let (mut harness, socket) = registered();
    harness.subscribe(&section("games"));
    harness.serve(20_000, |def| part(def, vec![]));
    harness.feed(Event::SocketClosed { socket, code: 1006, reason: String::new() });
    harness.serve(20_000, |def| part(def, vec![]));
    let at = harness.wake_at().expect("a socket is opened again");
    assert!(at - harness.now <= BACKOFF_MS.0);
    harness.wake(at);
    let next = harness.opened_socket().expect("a socket");
    assert_ne!(next, socket);
    harness.feed(Event::SocketOpened { socket: next });
    let said = harness.said();
    assert_eq!(said.last().expect("a registration").subs.len(), 2);
    harness.frame(next, ServerFrame::confirm(vec![def("Doc"), section("games")], vec![]));
    assert_eq!(harness.request().1.subs.len(), 2);
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
    let (mut harness, socket) = registered();
    harness.feed(Event::SocketClosed { socket, code: 1006, reason: String::new() });
    harness.serve(20_000, |def| part(def, vec![]));
    assert_eq!(harness.client.machine.status().updates, Some(Updates::Polled));
    assert_eq!(harness.phase(), Phase::Live);
    let at = harness.wake_at().expect("a socket is opened again");
    harness.wake(at);
    let next = harness.opened_socket().expect("a socket");
    assert!(harness.requests.is_empty());
    harness.feed(Event::SocketClosed { socket: next, code: 1006, reason: String::new() });
    let (number, _) = harness.request();
    harness.refuse(number, refusal(Code::Offline));
    assert_eq!(harness.phase(), Phase::Offline);
}

#[test]
fn a_hint_pulls_its_def_only() {
    let (mut harness, socket) = registered();
    harness.subscribe(&section("games"));
    harness.serve(20_000, |def| part(def, vec![]));
    harness.frame(socket, ServerFrame::Hints(vec![(def("Doc"), 30_000), (def("Note"), 30_000)]));
    let (_, request) = harness.request();
    assert_eq!(request.subs.len(), 1);
    assert_eq!(request.subs[0].def, def("Doc"));
}

#[test]
fn a_socket_silent_for_25_seconds_is_given_up() {
    let (mut harness, socket) = registered();
    harness.now += SOCKET_SILENCE_MS - 1;
    harness.frame(socket, ServerFrame::Alive);
    assert_eq!(harness.wake_at(), Some(harness.now + SOCKET_SILENCE_MS), "every frame is a sign of life");
    harness.wake(harness.now + SOCKET_SILENCE_MS - 1);
    let closed = |effect: &Effect| matches!(effect, Effect::CloseSocket(_)).then_some(());
    assert!(harness.take(closed).is_empty());
    harness.wake(harness.now + 1);
    assert_eq!(harness.take(closed).len(), 1);
    if let Some(at) = harness.wake_at() {
        harness.wake(at);
    }
    let next = harness.opened_socket().expect("another socket");
    // Further frames of the abandoned socket are ignored.
    harness.frame(socket, ServerFrame::Hints(vec![(def("Doc"), 99_000)]));
    harness.feed(Event::SocketClosed { socket, code: 1000, reason: String::new() });
    assert!(harness.requests.is_empty());
    harness.feed(Event::SocketOpened { socket: next });
    assert_eq!(harness.said().len(), 1);
}

/// Without subscriptions, a session was not to be woken for its silent socket, and closed it minutes later.
#[test]
fn a_silent_socket_is_given_up_without_subscriptions_too() {
    let (mut harness, _) = registered();
    harness.feed(Event::Unsubscribe(def("Doc")));
    assert_eq!(harness.wake_at(), Some(harness.now + SOCKET_SILENCE_MS));
    harness.wake(harness.now + SOCKET_SILENCE_MS);
    let closed = |effect: &Effect| matches!(effect, Effect::CloseSocket(_)).then_some(());
    assert_eq!(harness.take(closed).len(), 1);
    harness.wake(harness.now + SOCKET_SILENCE_MS);
    assert_eq!(harness.opened_socket(), None, "there is nothing to hear of");
}

#[test]
fn an_adapter_without_signs_of_life_is_not_given_up() {
    let mut harness = Harness::new(Config { watches_silence: false, ..live() });
    harness.subscribe(&def("Doc"));
    let socket = harness.opened_socket().expect("a listening");
    harness.feed(Event::SocketOpened { socket });
    harness.serve(10_000, |def| part(def, vec![]));
    harness.wake(harness.now + 4 * 60_000);
    let closed = |effect: &Effect| matches!(effect, Effect::CloseSocket(_)).then_some(());
    assert!(harness.take(closed).is_empty());
}

#[test]
fn a_socket_that_cannot_open_is_tried_with_growing_delays() {
    let mut harness = Harness::new(live());
    harness.subscribe(&def("Doc"));
    harness.serve(10_000, |def| part(def, vec![]));
    let mut bound = BACKOFF_MS.0;
    for _ in 0..12 {
        let socket = harness.opened_socket().expect("a socket");
        let from = harness.now;
        harness.feed(Event::SocketClosed { socket, code: 1006, reason: String::new() });
        harness.serve(10_000, |def| part(def, vec![]));
        if let Some(at) = harness.wake_at() {
            harness.wake(at);
        }
        assert!(harness.now - from <= bound, "{} ms, {bound} at most", harness.now - from);
        bound = (bound * 2).min(BACKOFF_MS.1);
    }
    assert_eq!(harness.phase(), Phase::Live);
}

#[test]
fn r4_pushed_parts_never_move_a_collections_v() {
    let (mut harness, socket) = registered();
    let doc = def("Doc");
    let before = harness.v(&doc);
    let push =
        |parts| ServerFrame::Parts(ServerParts { epoch: epoch(1), now: 99_000, delta: 100, seq: 0, parts });
    harness.frame(socket, push(vec![part(&doc, vec![row("b", 98_000)])]));
    assert_eq!(harness.shown(&doc), these(&[("a", 100), ("b", 98_000)]));
    assert_eq!(harness.v(&doc), before);
    harness.frame(socket, push(vec![part(&doc, vec![gone("b", 98_001)])]));
    assert_eq!(harness.shown(&doc), these(&[("a", 100)]));
    // R5: a late push does not bring it back.
    harness.frame(socket, push(vec![part(&doc, vec![row("b", 98_000)])]));
    harness.frame(socket, push(vec![part(&doc, vec![row("c", before - 1)])]));
    assert_eq!(harness.shown(&doc), these(&[("a", 100)]));
    assert_eq!(harness.client.machine.find(doc.class(), &pk("c")), None);
}

#[test]
fn a_refused_registration_is_a_fault_of_its_def() {
    let (mut harness, socket) = registered();
    let refused = vec![(def("Doc"), Fault::new(Code::Forbidden, "no"))];
    harness.frame(socket, ServerFrame::confirm(vec![], refused));
    assert_eq!(harness.client.machine.status().faults[&def("Doc")].code(), Code::Forbidden);
}

#[test]
fn a_frame_that_is_none_is_reported_and_the_socket_kept() {
    let (mut harness, socket) = registered();
    let frame = Err(escale::Error::new(Code::Malformed, "no frame"));
    harness.feed(Event::Frame { socket, frame });
    assert_eq!(harness.error(), Some(Code::Malformed));
    harness.frame(socket, ServerFrame::Hints(vec![(def("Doc"), 30_000)]));
    harness.request();
}

#[test]
fn avion_says_nothing_to_anybody() {
    let mut harness = Harness::new(Config { mode: Mode::Avion, has_token: true, ..live() });
    harness.subscribe(&def("Doc"));
    harness.feed(Event::Network(true));
    harness.feed(Event::Visible);
    harness.wake(harness.now + 3_600_000);
    let said = |effect: &Effect| {
        let quiet = matches!(effect, Effect::Changed { .. } | Effect::StatusChanged | Effect::WakeAt(_));
        (!quiet).then(|| format!("{effect:?}"))
    };
    assert_eq!(harness.take(said), Vec::<String>::new());
    assert!(harness.requests.is_empty());
    assert_eq!(harness.phase(), Phase::Avion);
}

#[test]
fn going_to_avion_gives_up_what_is_under_way() {
    let (mut harness, _) = registered();
    harness.feed(Event::SetMode(Mode::Avion));
    let closed = |effect: &Effect| matches!(effect, Effect::CloseSocket(_)).then_some(());
    assert_eq!(harness.take(closed).len(), 1);
    harness.feed(Event::SetMode(Mode::Synced));
    let (number, _) = harness.request();
    harness.feed(Event::SetMode(Mode::Avion));
    let cancelled = |effect: &Effect| match effect {
        Effect::CancelSend(number) => Some(*number),
        _ => None,
    };
    assert_eq!(harness.take(cancelled), [number]);
    // R5: requested before the change of mode.
    harness.answer(number, crate::harness::reply(50_000, vec![part(&def("Doc"), vec![row("z", 49_000)])]));
    assert_eq!(harness.shown(&def("Doc")), these(&[("a", 100)]));
}

#[test]
fn a_mode_that_the_session_was_not_opened_for_is_refused() {
    let mut harness = Harness::new(Config { mode: Mode::Incognito, ..config() });
    harness.feed(Event::SetMode(Mode::Synced));
    assert_eq!(harness.client.machine.status().mode, Mode::Incognito);
    assert_eq!(harness.error(), Some(Code::BadOption));
    let mut harness = Harness::new(config());
    harness.feed(Event::SetMode(Mode::Incognito));
    assert_eq!(harness.client.machine.status().mode, Mode::Synced);
}

#[test]
fn a_hint_before_the_last_page_of_a_load_is_followed_once_it_has_ended() {
    let doc = def("Doc");
    let mut harness = Harness::new(live());
    harness.subscribe(&doc);
    let socket = harness.opened_socket().expect("a socket");
    harness.feed(Event::SocketOpened { socket });
    let (number, _) = harness.request();
    harness.frame(socket, ServerFrame::confirm(vec![doc.clone()], vec![]));
    let first = Part { next: Some("there".into()), ..part(&doc, vec![row("b", 200)]) };
    // Its commit was late: it will be behind the cursor, and no page of this load brings it.
    harness.frame(socket, ServerFrame::Hints(vec![(doc.clone(), 150)]));
    harness.answer(number, crate::harness::reply(10_000, vec![first]));
    let (number, request) = harness.request();
    assert!(request.subs[0].cursor.is_some());
    harness.answer(number, crate::harness::reply(10_001, vec![part(&doc, vec![row("c", 300)])]));
    let (number, request) = harness.request();
    assert_eq!((&request.subs[0].def, &request.subs[0].cursor), (&doc, &None), "asked once more");
    harness.answer(number, crate::harness::reply(10_002, vec![part(&doc, vec![row("a", 150)])]));
    assert!(harness.requests.is_empty(), "and once only");
}

/// A server without a socket is complete: the session is live, and polls.
#[test]
fn without_a_socket_the_session_is_live_and_polls() {
    let mut harness = Harness::new(Config { poll_every_ms: 30_000, ..live() });
    harness.subscribe(&def("Doc"));
    harness.serve(10_000, |def| whole(def, vec![]));
    let mut pulls = 0;
    let end = harness.now + 5 * 60_000;
    while harness.now < end {
        if let Some(socket) = harness.opened_socket() {
            harness.feed(Event::SocketClosed { socket, code: 1006, reason: String::new() });
        }
        pulls += harness.requests.len();
        harness.serve(10_000, |def| part(def, vec![]));
        assert_eq!((harness.phase(), harness.error()), (Phase::Live, None));
        assert_eq!(harness.client.machine.status().updates, Some(Updates::Polled));
        harness.wake(harness.wake_at().expect("something is due"));
    }
    assert!((9..=11).contains(&pulls), "{pulls} pulls in five minutes");
    // The same if it is known from the start that there is none.
    let mut harness = Harness::new(Config { poll_every_ms: 2_000, ..config() });
    harness.subscribe(&def("Doc"));
    harness.serve(10_000, |def| whole(def, vec![]));
    assert_eq!(harness.client.machine.status().updates, Some(Updates::Polled));
    assert_eq!(harness.wake_at(), Some(harness.now + 2_000));
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
        let (mut harness, socket) = registered();
        harness.feed(Event::SocketClosed { socket, code, reason: reason.to_owned() });
        harness.serve(10_000, |def| part(def, vec![]));
        assert_eq!(harness.error(), expected, "{code} {reason}: a pull that works does not hide it");
        assert_eq!(harness.phase(), Phase::Live);
        if let Some(error) = harness.client.machine.status().error {
            assert!(error.detail().ends_with(format!("{code} {reason}").trim_end()), "{error}");
        }
        harness.wake(harness.now + 60_000);
        let socket = harness.opened_socket().expect("another socket");
        harness.feed(Event::SocketOpened { socket });
        harness.frame(socket, ServerFrame::confirm(vec![def("Doc")], vec![]));
        assert_eq!(harness.error(), None, "another one is registered");
    }
}

/// More subscriptions than a message may hold: the socket covers the first ones, the others are polled.
#[test]
fn past_a_thousand_subscriptions_the_rest_is_polled() {
    let mut harness = Harness::new(Config { poll_every_ms: 30_000, ..live() });
    for n in 0..SUBS_MAX + 102 {
        harness.subscribe(&section(&n.to_string()));
    }
    let socket = harness.opened_socket().expect("a socket");
    harness.feed(Event::SocketOpened { socket });
    let said = harness.said().pop().expect("its subscriptions");
    assert_eq!(said.subs.len(), FIRST_SUBS_MAX, "a slow line carries the first message in time");
    assert!(harness.said().is_empty(), "the others wait for the confirmation");
    harness.frame(socket, ServerFrame::confirm(said.subs, vec![]));
    let said = harness.said().pop().expect("all subscriptions");
    assert_eq!(said.subs.len(), SUBS_MAX);
    harness.frame(socket, ServerFrame::confirm(said.subs, vec![]));
    assert!(harness.said().is_empty());
    let mut most = 0;
    while let Some((number, request, _)) = harness.requests.pop_front() {
        most = most.max(request.subs.len());
        let parts = request.subs.iter().map(|sub| whole(&sub.def, vec![])).collect();
        harness.answer(number, reply(10_000, parts));
    }
    assert_eq!(most, SUBS_MAX, "requests are split");
    assert_eq!((harness.phase(), harness.error()), (Phase::Live, None));
    assert_eq!(harness.client.machine.status().updates, Some(Updates::Polled));
    assert!(harness.client.machine.memory().collections().all(|(_, collection)| collection.ready));
    assert!(harness.wake_at().expect("the next pull") <= harness.now + 30_000);
}
