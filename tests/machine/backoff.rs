//! Delays after failures: their bounds, full jitter, their end, and delays that the server asks for.

use escale::Code;
use escale::codec::ServerFrame;
use escale::limits::BACKOFF_MS;
use escale::sync::{Config, Event, Phase, Refusal};

use crate::harness::{Harness, config, def, part, refusal, reply, row, whole};

/// Fails the request in flight. Returns how long the machine waits before the next one.
fn failed(harness: &mut Harness, refusal: Refusal) -> u64 {
    let (number, _) = harness.request();
    let from = harness.now;
    harness.refuse(number, refusal);
    while harness.requests.is_empty() {
        let at = harness.wake_at().expect("a failed request is tried again");
        harness.wake(at);
    }
    harness.now - from
}

#[test]
fn delays_grow_within_their_bounds_and_are_spread() {
    let mut harness = Harness::new(config());
    harness.subscribe(&def("Doc"));
    let mut bound = BACKOFF_MS.0;
    for failure in 0..12 {
        let waited = failed(&mut harness, refusal(Code::Offline));
        assert!(waited <= bound, "failure {failure}: {waited} ms, {bound} at most");
        assert_eq!(harness.phase(), Phase::Offline);
        bound = (bound * 2).min(BACKOFF_MS.1);
    }
    let late: Vec<u64> = (0..60).map(|_| failed(&mut harness, refusal(Code::Offline))).collect();
    assert!(late.iter().all(|ms| *ms <= BACKOFF_MS.1), "{late:?}");
    // Full jitter: anything from zero to the bound.
    assert!(late.iter().any(|ms| *ms < 6_000) && late.iter().any(|ms| *ms > 24_000), "{late:?}");
}

#[test]
fn an_answer_ends_the_delays() {
    let doc = def("Doc");
    let mut harness = Harness::new(config());
    harness.subscribe(&doc);
    for _ in 0..10 {
        failed(&mut harness, refusal(Code::ServerError));
    }
    let (number, _) = harness.request();
    harness.answer(number, reply(5_000, vec![whole(&doc, vec![])]));
    assert_eq!(harness.phase(), Phase::Live);
    assert_eq!(harness.error(), None);
    harness.subscribe(&def("Note"));
    let waited = failed(&mut harness, refusal(Code::ServerError));
    assert!(waited <= BACKOFF_MS.0, "{waited} ms after the first failure");
}

#[test]
fn online_and_visible_try_at_once() {
    for event in [|| Event::Network(true), || Event::Visible] {
        let mut harness = Harness::new(config());
        harness.subscribe(&def("Doc"));
        for _ in 0..12 {
            failed(&mut harness, refusal(Code::Offline));
        }
        let (number, _) = harness.request();
        harness.refuse(number, refusal(Code::Offline));
        harness.feed(event());
        let waited = failed(&mut harness, refusal(Code::Offline));
        assert!(waited <= BACKOFF_MS.0, "the delays begin anew, {waited} ms");
    }
}

#[test]
fn nothing_is_sent_while_the_device_has_no_network() {
    let mut harness = Harness::new(config());
    harness.feed(Event::Network(false));
    harness.subscribe(&def("Doc"));
    harness.wake(harness.now + 3_600_000);
    assert!(harness.requests.is_empty());
    assert_eq!(harness.phase(), Phase::Offline);
    harness.feed(Event::Network(true));
    harness.request();
}

#[test]
fn retry_after_is_obeyed_whatever_happens() {
    for code in [Code::TooMany, Code::Unavailable] {
        let mut harness = Harness::new(config());
        harness.subscribe(&def("Doc"));
        let (number, _) = harness.request();
        let from = harness.now;
        harness.refuse(number, Refusal { retry_after_ms: Some(90_000), ..refusal(code) });
        assert_eq!(harness.error(), Some(code));
        for event in [Event::Visible, Event::Network(true), Event::Subscribe(def("Note")), Event::Woke] {
            harness.now += 1_000;
            harness.feed(event);
            assert!(harness.requests.is_empty(), "sent {} ms after it was asked to wait", harness.now - from);
        }
        let at = harness.wake_at().expect("tried again");
        assert!(at >= from + 90_000, "woken {} ms after", at - from);
        harness.wake(at);
        harness.request();
    }
}

#[test]
fn a_request_found_too_large_is_halved() {
    let mut harness = Harness::new(config());
    for n in 0..8 {
        harness.subscribe(&def(&format!("Doc@doc{n}")));
    }
    let (number, _) = harness.request();
    harness.answer(number, reply(5_000, vec![part(&def("Doc@doc0"), vec![])]));
    let (mut number, request) = harness.request();
    let mut size = request.subs.len();
    assert_eq!(size, 7, "all that were not told");
    // The bound is far above: the number is halved until the request is small enough.
    for _ in 0..20 {
        harness.refuse(number, refusal(Code::TooLarge));
        if harness.requests.is_empty() {
            let at = harness.wake_at().expect("tried again");
            harness.wake(at);
        }
        let (next, request) = harness.request();
        assert!(request.subs.len() <= size && !request.subs.is_empty());
        (number, size) = (next, request.subs.len());
        if size == 1 {
            // Nothing is forgotten: in the end all are reported, one by one.
            harness.answer(number, reply(5_000, vec![part(&request.subs[0].def, vec![])]));
            harness.serve(5_000, |def| part(def, vec![]));
            break;
        }
    }
    assert_eq!(size, 1);
    assert!(harness.client.machine.memory().collections().all(|(_, collection)| collection.ready));
}

/// A server that hints without end gets ten requests at once, then one a second. Only requests that bring
/// nothing count.
#[test]
fn requests_that_bring_changes_are_not_held_back() {
    for brings in [true, false] {
        let mut harness = Harness::new(Config { has_live: true, ..config() });
        harness.subscribe(&def("Doc"));
        let (number, _) = harness.request();
        harness.answer(number, reply(10_000, vec![part(&def("Doc"), vec![row("a", 8_000)])]));
        let socket = harness.take(|effect| match effect {
            escale::sync::Effect::OpenSocket(socket) => Some(*socket),
            _ => None,
        })[0];
        harness.feed(Event::SocketOpened { socket });
        let mut sent = 0;
        for n in 0..40 {
            harness.frame(socket, ServerFrame::Hints(vec![(def("Doc"), 1)]));
            let Some((number, ..)) = harness.requests.pop_front() else { continue };
            sent += 1;
            let v = if brings { 9_000 + n } else { 8_000 };
            harness.answer(number, reply(10_000, vec![part(&def("Doc"), vec![row("a", v)])]));
        }
        assert!(
            if brings { sent == 40 } else { sent <= 10 },
            "{sent} requests; each brings something: {brings}"
        );
    }
}
