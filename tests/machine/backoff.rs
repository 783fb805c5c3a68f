//! Delays after failures: their bounds, full jitter, their end, and delays that the server asks for.

use escale::Code;
use escale::codec::ServerFrame;
use escale::limits::BACKOFF_MS;
use escale::sync::{Config, Event, Phase, Refusal};

use crate::harness::{Bench, config, def, part, refusal, reply, row, whole};

/// Fails the request in flight. Returns how long the machine waits before the next one.
fn failed(bench: &mut Bench, refusal: Refusal) -> u64 {
    let (number, _) = bench.request();
    let from = bench.now;
    bench.refuse(number, refusal);
    while bench.requests.is_empty() {
        let at = bench.wake_at().expect("a failed request is tried again");
        bench.wake(at);
    }
    bench.now - from
}

#[test]
fn delays_grow_within_their_bounds_and_are_spread() {
    let mut bench = Bench::new(config());
    bench.subscribe(&def("Doc"));
    let mut bound = BACKOFF_MS.0;
    for failure in 0..12 {
        let waited = failed(&mut bench, refusal(Code::Offline));
        assert!(waited <= bound, "failure {failure}: {waited} ms, {bound} at most");
        assert_eq!(bench.phase(), Phase::Offline);
        bound = (bound * 2).min(BACKOFF_MS.1);
    }
    let late: Vec<u64> = (0..60).map(|_| failed(&mut bench, refusal(Code::Offline))).collect();
    assert!(late.iter().all(|ms| *ms <= BACKOFF_MS.1), "{late:?}");
    // Full jitter: anything from zero to the bound.
    assert!(late.iter().any(|ms| *ms < 6_000) && late.iter().any(|ms| *ms > 24_000), "{late:?}");
}

#[test]
fn an_answer_ends_the_delays() {
    let doc = def("Doc");
    let mut bench = Bench::new(config());
    bench.subscribe(&doc);
    for _ in 0..10 {
        failed(&mut bench, refusal(Code::ServerError));
    }
    let (number, _) = bench.request();
    bench.answer(number, reply(5_000, vec![whole(&doc, vec![])]));
    assert_eq!(bench.phase(), Phase::Live);
    assert_eq!(bench.error(), None);
    bench.subscribe(&def("Note"));
    let waited = failed(&mut bench, refusal(Code::ServerError));
    assert!(waited <= BACKOFF_MS.0, "{waited} ms after the first failure");
}

#[test]
fn online_and_visible_try_at_once() {
    for event in [|| Event::Network(true), || Event::Visible] {
        let mut bench = Bench::new(config());
        bench.subscribe(&def("Doc"));
        for _ in 0..12 {
            failed(&mut bench, refusal(Code::Offline));
        }
        let (number, _) = bench.request();
        bench.refuse(number, refusal(Code::Offline));
        bench.feed(event());
        let waited = failed(&mut bench, refusal(Code::Offline));
        assert!(waited <= BACKOFF_MS.0, "the delays begin anew, {waited} ms");
    }
}

#[test]
fn nothing_is_sent_while_the_device_has_no_network() {
    let mut bench = Bench::new(config());
    bench.feed(Event::Network(false));
    bench.subscribe(&def("Doc"));
    bench.wake(bench.now + 3_600_000);
    assert!(bench.requests.is_empty());
    assert_eq!(bench.phase(), Phase::Offline);
    bench.feed(Event::Network(true));
    bench.request();
}

#[test]
fn retry_after_is_obeyed_whatever_happens() {
    for code in [Code::TooMany, Code::Unavailable] {
        let mut bench = Bench::new(config());
        bench.subscribe(&def("Doc"));
        let (number, _) = bench.request();
        let from = bench.now;
        bench.refuse(number, Refusal { retry_after_ms: Some(90_000), ..refusal(code) });
        assert_eq!(bench.error(), Some(code));
        for event in [Event::Visible, Event::Network(true), Event::Subscribe(def("Note")), Event::Woke] {
            bench.now += 1_000;
            bench.feed(event);
            assert!(bench.requests.is_empty(), "sent {} ms after it was asked to wait", bench.now - from);
        }
        let at = bench.wake_at().expect("tried again");
        assert!(at >= from + 90_000, "woken {} ms after", at - from);
        bench.wake(at);
        bench.request();
    }
}

#[test]
fn a_request_found_too_large_is_halved() {
    let mut bench = Bench::new(config());
    for n in 0..8 {
        bench.subscribe(&def(&format!("Doc@doc{n}")));
    }
    let (number, _) = bench.request();
    bench.answer(number, reply(5_000, vec![part(&def("Doc@doc0"), vec![])]));
    let (mut number, request) = bench.request();
    let mut size = request.subs.len();
    assert_eq!(size, 7, "all that were not told");
    // The bound is far above: the number is halved until the request is small enough.
    for _ in 0..20 {
        bench.refuse(number, refusal(Code::TooLarge));
        if bench.requests.is_empty() {
            let at = bench.wake_at().expect("tried again");
            bench.wake(at);
        }
        let (next, request) = bench.request();
        assert!(request.subs.len() <= size && !request.subs.is_empty());
        (number, size) = (next, request.subs.len());
        if size == 1 {
            // Nothing is forgotten: in the end all are reported, one by one.
            bench.answer(number, reply(5_000, vec![part(&request.subs[0].def, vec![])]));
            bench.serve(5_000, |def| part(def, vec![]));
            break;
        }
    }
    assert_eq!(size, 1);
    assert!(bench.client.machine.memory().collections().all(|(_, collection)| collection.ready));
}

/// A server that hints without end gets ten requests at once, then one a second. Only requests that bring
/// nothing count.
#[test]
fn requests_that_bring_changes_are_not_held_back() {
    for brings in [true, false] {
        let mut bench = Bench::new(Config { has_live: true, ..config() });
        bench.subscribe(&def("Doc"));
        let (number, _) = bench.request();
        bench.answer(number, reply(10_000, vec![part(&def("Doc"), vec![row("a", 8_000)])]));
        let socket = bench.take(|effect| match effect {
            escale::sync::Effect::OpenSocket(socket) => Some(*socket),
            _ => None,
        })[0];
        bench.feed(Event::SocketOpened { socket });
        let mut sent = 0;
        for n in 0..40 {
            bench.frame(socket, ServerFrame::Hints(vec![(def("Doc"), 1)]));
            let Some((number, ..)) = bench.requests.pop_front() else { continue };
            sent += 1;
            let v = if brings { 9_000 + n } else { 8_000 };
            bench.answer(number, reply(10_000, vec![part(&def("Doc"), vec![row("a", v)])]));
        }
        assert!(
            if brings { sent == 40 } else { sent <= 10 },
            "{sent} requests; each brings something: {brings}"
        );
    }
}
