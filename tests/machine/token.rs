//! The token: requested, refused, renewed.

use escale::Code;
use escale::limits::{BACKOFF_MS, SOCKET_SILENCE_MS};
use escale::sync::{Config, Effect, Event, Phase};

use crate::harness::{Bench, config, def, part, refusal, reply, whole};

fn asked(bench: &mut Bench) -> Vec<bool> {
    bench.take(|effect| match effect {
        Effect::AskToken { refused } => Some(*refused),
        _ => None,
    })
}

fn with_token() -> Bench {
    Bench::new(Config { has_token: true, ..config() })
}

#[test]
fn nothing_is_sent_before_the_token_is_there() {
    let mut bench = with_token();
    assert_eq!(asked(&mut bench), [false]);
    bench.subscribe(&def("Doc"));
    bench.wake(bench.now + 3_600_000);
    assert!(bench.requests.is_empty());
    bench.feed(Event::Token(Some("t1".into())));
    let (_, _, token) = bench.requests.pop_front().expect("a request");
    assert_eq!(token.as_deref(), Some("t1"));
}

#[test]
fn a_401_pauses_and_a_new_token_resumes() {
    let mut bench = with_token();
    bench.subscribe(&def("Doc"));
    bench.feed(Event::Token(Some("t1".into())));
    asked(&mut bench);
    let (number, _) = bench.request();
    bench.refuse(number, refusal(Code::Unauthorized));
    assert_eq!(asked(&mut bench), [true]);
    assert_eq!(bench.phase(), Phase::Paused);
    assert_eq!(bench.error(), Some(Code::Unauthorized));
    bench.wake(bench.now + 3_600_000);
    assert!(bench.requests.is_empty(), "paused");
    bench.feed(Event::Token(Some("t2".into())));
    let (number, request, token) = bench.requests.pop_front().expect("a request");
    assert_eq!(token.as_deref(), Some("t2"));
    assert_eq!(request.subs[0].def, def("Doc"), "nothing is forgotten");
    bench.answer(number, reply(9_000, vec![whole(&def("Doc"), vec![])]));
    assert_eq!(bench.phase(), Phase::Live);
    assert_eq!(bench.error(), None);
}

#[test]
fn tokens_refused_in_a_row_are_tried_with_growing_delays() {
    let mut bench = with_token();
    bench.subscribe(&def("Doc"));
    bench.feed(Event::Token(Some("t0".into())));
    let mut waited = Vec::new();
    for _ in 0..20 {
        let (number, _) = bench.request();
        let refused_at = bench.now;
        bench.refuse(number, refusal(Code::Unauthorized));
        // At once, like an application that caches its token.
        bench.feed(Event::Token(Some("the same".into())));
        if bench.requests.is_empty() {
            bench.wake(bench.wake_at().expect("a wish"));
        }
        waited.push(bench.now - refused_at);
    }
    assert_eq!(waited[0], 0, "the first refused token is replaced at once");
    assert!(waited.iter().any(|ms| *ms > BACKOFF_MS.1 / 2), "{waited:?}");
    assert!(waited.iter().all(|ms| *ms <= BACKOFF_MS.1), "{waited:?}");
}

#[test]
fn an_application_without_a_token_is_asked_again_when_visible() {
    let mut bench = with_token();
    bench.subscribe(&def("Doc"));
    asked(&mut bench);
    bench.feed(Event::Token(None));
    assert_eq!(bench.phase(), Phase::Paused);
    assert!(bench.requests.is_empty());
    bench.feed(Event::Visible);
    assert_eq!(asked(&mut bench), [true]);
    bench.feed(Event::Token(Some("t".into())));
    bench.request();
}

#[test]
fn a_socket_closed_for_its_token_asks_for_another() {
    let mut bench = Bench::new(Config { has_token: true, has_live: true, ..config() });
    bench.feed(Event::Token(Some("t1".into())));
    bench.subscribe(&def("Doc"));
    asked(&mut bench);
    let socket = bench.opened_socket().expect("a socket");
    bench.serve(5_000, |def| part(def, vec![]));
    bench.feed(Event::SocketOpened { socket });
    assert_eq!(bench.said()[0].token.as_deref(), Some("t1"));
    bench.feed(Event::SocketClosed { socket, code: 4401, reason: String::new() });
    assert_eq!(asked(&mut bench), [true]);
    assert_eq!((bench.phase(), bench.error()), (Phase::Paused, Some(Code::Unauthorized)));
    bench.wake(bench.now + SOCKET_SILENCE_MS);
    assert_eq!(bench.opened_socket(), None, "paused");
    bench.feed(Event::Token(Some("t2".into())));
    bench.serve(5_000, |def| part(def, vec![]));
    let socket = bench.opened_socket().expect("a socket");
    bench.feed(Event::SocketOpened { socket });
    assert_eq!(bench.said()[0].token.as_deref(), Some("t2"));
}

#[test]
fn the_end_of_a_socket_under_an_earlier_token_refuses_nothing() {
    let mut bench = Bench::new(Config { has_token: true, has_live: true, ..config() });
    bench.feed(Event::Token(Some("bad".into())));
    bench.subscribe(&def("Doc"));
    asked(&mut bench);
    let socket = bench.opened_socket().expect("a socket");
    bench.feed(Event::SocketOpened { socket });
    assert_eq!(bench.said()[0].token.as_deref(), Some("bad"));
    let (number, _) = bench.request();
    bench.refuse(number, refusal(Code::Unauthorized));
    assert_eq!(asked(&mut bench), [true]);
    bench.feed(Event::Token(Some("good".into())));
    // The server had not closed it yet.
    bench.feed(Event::SocketClosed { socket, code: 4401, reason: String::new() });
    assert!(asked(&mut bench).is_empty(), "the good one was refused by nobody");
    let (number, _, token) = bench.requests.pop_front().expect("a request");
    assert_eq!(token.as_deref(), Some("good"));
    bench.answer(number, reply(5_000, vec![whole(&def("Doc"), vec![])]));
    assert_eq!(bench.error(), None);
    bench.wake(bench.now + BACKOFF_MS.0);
    let socket = bench.opened_socket().expect("another socket");
    bench.feed(Event::SocketOpened { socket });
    assert_eq!(bench.said()[0].token.as_deref(), Some("good"));
}

#[test]
fn a_401_under_an_earlier_token_refuses_nothing() {
    let mut bench = Bench::new(Config { has_token: true, has_live: true, ..config() });
    bench.feed(Event::Token(Some("bad".into())));
    bench.subscribe(&def("Doc"));
    asked(&mut bench);
    let socket = bench.opened_socket().expect("a socket");
    bench.feed(Event::SocketOpened { socket });
    let (number, _) = bench.request();
    bench.feed(Event::SocketClosed { socket, code: 4401, reason: String::new() });
    assert_eq!(asked(&mut bench), [true]);
    bench.feed(Event::Token(Some("good".into())));
    bench.refuse(number, refusal(Code::Unauthorized));
    assert!(asked(&mut bench).is_empty(), "the good one was refused by nobody");
    let (_, _, token) = bench.requests.pop_front().expect("asked again at once");
    assert_eq!(token.as_deref(), Some("good"));
}

#[test]
fn an_earlier_question_answered_with_nothing_takes_no_token_away() {
    let mut bench = with_token();
    bench.subscribe(&def("Doc"));
    bench.feed(Event::Visible);
    assert_eq!(asked(&mut bench), [false, true], "asked twice");
    bench.feed(Event::Token(Some("good".into())));
    bench.feed(Event::Token(None));
    let (number, _) = bench.request();
    bench.refuse(number, refusal(Code::Unauthorized));
    assert_eq!(asked(&mut bench), [true]);
}
