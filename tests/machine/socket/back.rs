//! Sessions that come back: after a server stopped, or was down.

use escale::Code;
use escale::codec::ServerFrame;
use escale::limits::SPREAD_MAX_MS;
use escale::model::Def;
use escale::sync::{Event, Phase, Updates};

use super::registered;
use crate::harness::{Harness, def, epoch, part, refusal, reply, section};

/// The server stops, and the session opens another socket.
fn come_back(harness: &mut Harness, socket: u64) -> u64 {
    harness.feed(Event::SocketClosed { socket, code: 1012, reason: "closing 5000".into() });
    assert!(harness.requests.is_empty(), "the next socket tells");
    let at = harness.wake_at().expect("a socket is opened again");
    assert!(at - harness.now <= 5_000);
    harness.wake(at);
    let next = harness.opened_socket().expect("a socket");
    harness.feed(Event::SocketOpened { socket: next });
    next
}

/// A session that has a class up to 9,900 and a list up to 19,900, and has opened another socket.
fn back() -> (Harness, u64, Vec<Def>) {
    let (mut harness, socket) = registered();
    harness.subscribe(&section("games"));
    harness.serve(20_000, |def| part(def, vec![]));
    let next = come_back(&mut harness, socket);
    (harness, next, vec![def("Doc"), section("games")])
}

#[test]
fn r43_a_session_that_comes_back_pulls_only_defs_that_may_have_changed() {
    for (head, pulled) in [
        (Some((epoch(1), 9_899)), 0),
        (Some((epoch(1), 9_900)), 1),
        (Some((epoch(1), 19_899)), 1),
        (Some((epoch(1), 19_900)), 2),
        (Some((epoch(2), 9_899)), 2),
        (None, 2),
    ] {
        let (mut harness, socket, live) = back();
        let frame = ServerFrame::Live { live, refused: vec![], head: head.clone(), spread: 0 };
        harness.frame(socket, frame);
        let asked = harness.requests.front().map_or(0, |(_, request, _)| request.subs.len());
        assert_eq!(asked, pulled, "{head:?}");
        assert_eq!(harness.client.machine.status().updates, Some(Updates::Pushed));
        assert_eq!(harness.phase(), Phase::Live);
    }
}

#[test]
fn r43_pulls_after_a_registration_are_spread() {
    let mut waits = Vec::new();
    let (mut harness, mut socket, live) = back();
    for _ in 0..20 {
        let live = live.clone();
        harness.frame(socket, ServerFrame::Live { live, refused: vec![], head: None, spread: 4_000 });
        assert!(harness.requests.is_empty(), "not at once");
        let at = harness.wake_at().expect("a pull");
        waits.push(at - harness.now);
        harness.wake(at);
        assert_eq!(harness.requests.front().expect("a pull").1.subs.len(), 2);
        harness.serve(20_000, |def| part(def, vec![]));
        socket = come_back(&mut harness, socket);
    }
    assert!(waits.iter().all(|ms| *ms <= 4_000), "{waits:?}");
    assert!(waits.iter().any(|ms| *ms < 1_500) && waits.iter().any(|ms| *ms > 2_500), "{waits:?}");
}

#[test]
fn r43_no_server_puts_a_session_off_for_longer_than_a_minute() {
    let (mut harness, socket) = registered();
    harness.feed(Event::SocketClosed { socket, code: 4429, reason: "too_many 999999999999".into() });
    let at = harness.wake_at().expect("a socket is opened again");
    assert!(at - harness.now <= SPREAD_MAX_MS);
}

/// A session whose server is down: its socket and its pulls fail, for a minute.
fn down(socket: u64, harness: &mut Harness) {
    harness.feed(Event::SocketClosed { socket, code: 1006, reason: String::new() });
    let end = harness.now + 60_000;
    while harness.now < end {
        while let Some((number, ..)) = harness.requests.pop_front() {
            harness.refuse(number, refusal(Code::Offline));
        }
        match harness.opened_socket() {
            Some(socket) => harness.feed(Event::SocketClosed { socket, code: 1006, reason: String::new() }),
            None => harness.wake(harness.wake_at().expect("something is due")),
        }
    }
    while harness.requests.is_empty() {
        if let Some(socket) = harness.opened_socket() {
            harness.feed(Event::SocketClosed { socket, code: 1006, reason: String::new() });
        }
        harness.wake(harness.wake_at().expect("a pull"));
    }
    if let Some(socket) = harness.opened_socket() {
        harness.feed(Event::SocketClosed { socket, code: 1006, reason: String::new() });
    }
    assert_eq!(harness.phase(), Phase::Offline);
}

/// It was `live` for up to half a minute, in which it heard nothing of other sessions' writes.
#[test]
fn a_server_that_is_back_is_asked_for_a_socket_at_once() {
    for round in 0..20 {
        let (mut harness, socket) = registered();
        harness.now += round;
        down(socket, &mut harness);
        harness.serve(20_000, |def| part(def, vec![]));
        let socket = harness.opened_socket().expect("a socket at once");
        assert_eq!(harness.phase(), Phase::Opening, "nothing tells of changes yet");
        harness.feed(Event::SocketOpened { socket });
        harness.frame(socket, ServerFrame::confirm(vec![def("Doc")], vec![]));
        harness.serve(20_000, |def| part(def, vec![]));
        assert_eq!(harness.phase(), Phase::Live);
    }
}

/// A server that answers every other pull, and opens no socket, is not asked for one more often than before.
#[test]
fn a_server_that_comes_and_goes_is_asked_for_few_sockets() {
    let (mut harness, socket) = registered();
    down(socket, &mut harness);
    let (mut sockets, mut pulls) = (0, 0);
    let end = harness.now + 600_000;
    while harness.now < end {
        while let Some((number, request, _)) = harness.requests.pop_front() {
            pulls += 1;
            if pulls % 2 == 0 {
                harness.refuse(number, refusal(Code::Offline));
            } else {
                let parts = request.subs.iter().map(|sub| part(&sub.def, vec![])).collect();
                harness.answer(number, reply(20_000, parts));
            }
        }
        match harness.opened_socket() {
            Some(socket) => {
                sockets += 1;
                harness.feed(Event::SocketClosed { socket, code: 1006, reason: String::new() });
            }
            None => harness.wake(harness.wake_at().expect("something is due")),
        }
    }
    assert!(sockets <= 80, "{sockets} sockets in ten minutes");
}

/// The sessions of a busy server come back over the time that it named, even if a pull finds it before.
#[test]
fn r43_a_server_that_is_back_is_asked_for_no_socket_before_the_time_it_named() {
    let mut waits = Vec::new();
    for round in 0..20 {
        let (mut harness, socket) = registered();
        harness.now += round;
        harness.feed(Event::SocketClosed { socket, code: 1012, reason: "closing 20000".into() });
        harness.subscribe(&section("games"));
        let (number, _) = harness.request();
        harness.refuse(number, refusal(Code::Offline));
        let from = harness.now;
        while harness.requests.is_empty() && harness.opened_socket().is_none() {
            harness.wake(harness.wake_at().expect("a pull"));
        }
        if harness.requests.is_empty() {
            continue;
        }
        harness.serve(20_000, |def| part(def, vec![]));
        assert_eq!(harness.phase(), Phase::Opening);
        while harness.opened_socket().is_none() {
            harness.wake(harness.wake_at().expect("a socket"));
        }
        waits.push(harness.now - from);
    }
    assert!(waits.iter().all(|ms| *ms <= 20_000), "{waits:?}");
    assert!(waits.iter().any(|ms| *ms > 5_000), "{waits:?}");
}
