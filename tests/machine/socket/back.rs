//! Sessions that come back: after a server stopped, or was down.

use escale::Code;
use escale::codec::ServerFrame;
use escale::limits::SPREAD_MAX_MS;
use escale::model::Def;
use escale::sync::{Event, Phase, Updates};

use super::registered;
use crate::harness::{Bench, def, epoch, part, refusal, reply, section};

/// The server stops, and the session opens another socket.
fn come_back(bench: &mut Bench, socket: u64) -> u64 {
    bench.feed(Event::SocketClosed { socket, code: 1012, reason: "closing 5000".into() });
    assert!(bench.requests.is_empty(), "the next socket tells");
    let at = bench.wake_at().expect("a socket is opened again");
    assert!(at - bench.now <= 5_000);
    bench.wake(at);
    let next = bench.opened_socket().expect("a socket");
    bench.feed(Event::SocketOpened { socket: next });
    next
}

/// A session that has a class up to 9,900 and a list up to 19,900, and has opened another socket.
fn back() -> (Bench, u64, Vec<Def>) {
    let (mut bench, socket) = registered();
    bench.subscribe(&section("games"));
    bench.serve(20_000, |def| part(def, vec![]));
    let next = come_back(&mut bench, socket);
    (bench, next, vec![def("Doc"), section("games")])
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
        let (mut bench, socket, live) = back();
        let frame = ServerFrame::Live { live, refused: vec![], head: head.clone(), spread: 0 };
        bench.frame(socket, frame);
        let asked = bench.requests.front().map_or(0, |(_, request, _)| request.subs.len());
        assert_eq!(asked, pulled, "{head:?}");
        assert_eq!(bench.client.machine.status().updates, Some(Updates::Pushed));
        assert_eq!(bench.phase(), Phase::Live);
    }
}

#[test]
fn r43_pulls_after_a_registration_are_spread() {
    let mut waits = Vec::new();
    let (mut bench, mut socket, live) = back();
    for _ in 0..20 {
        let live = live.clone();
        bench.frame(socket, ServerFrame::Live { live, refused: vec![], head: None, spread: 4_000 });
        assert!(bench.requests.is_empty(), "not at once");
        let at = bench.wake_at().expect("a pull");
        waits.push(at - bench.now);
        bench.wake(at);
        assert_eq!(bench.requests.front().expect("a pull").1.subs.len(), 2);
        bench.serve(20_000, |def| part(def, vec![]));
        socket = come_back(&mut bench, socket);
    }
    assert!(waits.iter().all(|ms| *ms <= 4_000), "{waits:?}");
    assert!(waits.iter().any(|ms| *ms < 1_500) && waits.iter().any(|ms| *ms > 2_500), "{waits:?}");
}

#[test]
fn r43_no_server_puts_a_session_off_for_longer_than_a_minute() {
    let (mut bench, socket) = registered();
    bench.feed(Event::SocketClosed { socket, code: 4429, reason: "too_many 999999999999".into() });
    let at = bench.wake_at().expect("a socket is opened again");
    assert!(at - bench.now <= SPREAD_MAX_MS);
}

/// A session whose server is down: its socket and its pulls fail, for a minute.
fn down(socket: u64, bench: &mut Bench) {
    bench.feed(Event::SocketClosed { socket, code: 1006, reason: String::new() });
    let end = bench.now + 60_000;
    while bench.now < end {
        while let Some((number, ..)) = bench.requests.pop_front() {
            bench.refuse(number, refusal(Code::Offline));
        }
        match bench.opened_socket() {
            Some(socket) => bench.feed(Event::SocketClosed { socket, code: 1006, reason: String::new() }),
            None => bench.wake(bench.wake_at().expect("something is due")),
        }
    }
    while bench.requests.is_empty() {
        if let Some(socket) = bench.opened_socket() {
            bench.feed(Event::SocketClosed { socket, code: 1006, reason: String::new() });
        }
        bench.wake(bench.wake_at().expect("a pull"));
    }
    if let Some(socket) = bench.opened_socket() {
        bench.feed(Event::SocketClosed { socket, code: 1006, reason: String::new() });
    }
    assert_eq!(bench.phase(), Phase::Offline);
}

/// It was `live` for up to half a minute, in which it heard nothing of other sessions' writes.
#[test]
fn a_server_that_is_back_is_asked_for_a_socket_at_once() {
    for round in 0..20 {
        let (mut bench, socket) = registered();
        bench.now += round;
        down(socket, &mut bench);
        bench.serve(20_000, |def| part(def, vec![]));
        let socket = bench.opened_socket().expect("a socket at once");
        assert_eq!(bench.phase(), Phase::Opening, "nothing tells of changes yet");
        bench.feed(Event::SocketOpened { socket });
        bench.frame(socket, ServerFrame::confirm(vec![def("Doc")], vec![]));
        bench.serve(20_000, |def| part(def, vec![]));
        assert_eq!(bench.phase(), Phase::Live);
    }
}

/// A server that answers every other pull, and opens no socket, is not asked for one more often than before.
#[test]
fn a_server_that_comes_and_goes_is_asked_for_few_sockets() {
    let (mut bench, socket) = registered();
    down(socket, &mut bench);
    let (mut sockets, mut pulls) = (0, 0);
    let end = bench.now + 600_000;
    while bench.now < end {
        while let Some((number, request, _)) = bench.requests.pop_front() {
            pulls += 1;
            if pulls % 2 == 0 {
                bench.refuse(number, refusal(Code::Offline));
            } else {
                let parts = request.subs.iter().map(|sub| part(&sub.def, vec![])).collect();
                bench.answer(number, reply(20_000, parts));
            }
        }
        match bench.opened_socket() {
            Some(socket) => {
                sockets += 1;
                bench.feed(Event::SocketClosed { socket, code: 1006, reason: String::new() });
            }
            None => bench.wake(bench.wake_at().expect("something is due")),
        }
    }
    assert!(sockets <= 80, "{sockets} sockets in ten minutes");
}

/// The sessions of a busy server come back over the time that it named, even if a pull finds it before.
#[test]
fn r43_a_server_that_is_back_is_asked_for_no_socket_before_the_time_it_named() {
    let mut waits = Vec::new();
    for round in 0..20 {
        let (mut bench, socket) = registered();
        bench.now += round;
        bench.feed(Event::SocketClosed { socket, code: 1012, reason: "closing 20000".into() });
        bench.subscribe(&section("games"));
        let (number, _) = bench.request();
        bench.refuse(number, refusal(Code::Offline));
        let from = bench.now;
        while bench.requests.is_empty() && bench.opened_socket().is_none() {
            bench.wake(bench.wake_at().expect("a pull"));
        }
        if bench.requests.is_empty() {
            continue;
        }
        bench.serve(20_000, |def| part(def, vec![]));
        assert_eq!(bench.phase(), Phase::Opening);
        while bench.opened_socket().is_none() {
            bench.wake(bench.wake_at().expect("a socket"));
        }
        waits.push(bench.now - from);
    }
    assert!(waits.iter().all(|ms| *ms <= 20_000), "{waits:?}");
    assert!(waits.iter().any(|ms| *ms > 5_000), "{waits:?}");
}
