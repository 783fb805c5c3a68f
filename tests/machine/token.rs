//! The token: requested, refused, renewed.

use escale::Code;
use escale::limits::{BACKOFF_MS, SOCKET_SILENCE_MS};
use escale::sync::{Config, Effect, Event, Phase};

use crate::harness::{Harness, config, def, part, refusal, reply, whole};

fn asked(harness: &mut Harness) -> Vec<bool> {
    harness.take(|effect| match effect {
        Effect::AskToken { refused } => Some(*refused),
        _ => None,
    })
}

/// A session that has sent a request and opened a socket, both under a token that the server does not know.
fn with_socket() -> (Harness, u64) {
    let mut harness = Harness::new(Config { has_token: true, has_live: true, ..config() });
    harness.feed(Event::Token(Some("bad".into())));
    harness.subscribe(&def("Doc"));
    asked(&mut harness);
    let socket = harness.opened_socket().expect("a socket");
    harness.feed(Event::SocketOpened { socket });
    (harness, socket)
}

fn with_token() -> Harness {
    Harness::new(Config { has_token: true, ..config() })
}

#[test]
fn nothing_is_sent_before_the_token_is_there() {
    let mut harness = with_token();
    assert_eq!(asked(&mut harness), [false]);
    harness.subscribe(&def("Doc"));
    harness.wake(harness.now + 3_600_000);
    assert!(harness.requests.is_empty());
    harness.feed(Event::Token(Some("t1".into())));
    let (_, _, token) = harness.requests.pop_front().expect("a request");
    assert_eq!(token.as_deref(), Some("t1"));
}

#[test]
fn a_401_pauses_and_a_new_token_resumes() {
    let mut harness = with_token();
    harness.subscribe(&def("Doc"));
    harness.feed(Event::Token(Some("t1".into())));
    asked(&mut harness);
    let (number, _) = harness.request();
    harness.refuse(number, refusal(Code::Unauthorized));
    assert_eq!(asked(&mut harness), [true]);
    assert_eq!(harness.phase(), Phase::Paused);
    assert_eq!(harness.error(), Some(Code::Unauthorized));
    harness.wake(harness.now + 3_600_000);
    assert!(harness.requests.is_empty(), "paused");
    harness.feed(Event::Token(Some("t2".into())));
    let (number, request, token) = harness.requests.pop_front().expect("a request");
    assert_eq!(token.as_deref(), Some("t2"));
    assert_eq!(request.subs[0].def, def("Doc"), "nothing is forgotten");
    harness.answer(number, reply(9_000, vec![whole(&def("Doc"), vec![])]));
    assert_eq!(harness.phase(), Phase::Live);
    assert_eq!(harness.error(), None);
}

#[test]
fn tokens_refused_in_a_row_are_tried_with_growing_delays() {
    let mut harness = with_token();
    harness.subscribe(&def("Doc"));
    harness.feed(Event::Token(Some("t0".into())));
    let mut waited = Vec::new();
    for _ in 0..20 {
        let (number, _) = harness.request();
        let refused_at = harness.now;
        harness.refuse(number, refusal(Code::Unauthorized));
        // At once, like an application that caches its token.
        harness.feed(Event::Token(Some("the same".into())));
        if harness.requests.is_empty() {
            harness.wake(harness.wake_at().expect("a wish"));
        }
        waited.push(harness.now - refused_at);
    }
    assert_eq!(waited[0], 0, "the first refused token is replaced at once");
    assert!(waited.iter().any(|ms| *ms > BACKOFF_MS.1 / 2), "{waited:?}");
    assert!(waited.iter().all(|ms| *ms <= BACKOFF_MS.1), "{waited:?}");
}

#[test]
fn an_application_without_a_token_is_asked_again_when_visible() {
    let mut harness = with_token();
    harness.subscribe(&def("Doc"));
    asked(&mut harness);
    harness.feed(Event::Token(None));
    assert_eq!(harness.phase(), Phase::Paused);
    assert!(harness.requests.is_empty());
    harness.feed(Event::Visible);
    assert_eq!(asked(&mut harness), [true]);
    harness.feed(Event::Token(Some("t".into())));
    harness.request();
}

#[test]
fn a_socket_closed_for_its_token_asks_for_another() {
    let mut harness = Harness::new(Config { has_token: true, has_live: true, ..config() });
    harness.feed(Event::Token(Some("t1".into())));
    harness.subscribe(&def("Doc"));
    asked(&mut harness);
    let socket = harness.opened_socket().expect("a socket");
    harness.serve(5_000, |def| part(def, vec![]));
    harness.feed(Event::SocketOpened { socket });
    assert_eq!(harness.said()[0].token.as_deref(), Some("t1"));
    harness.feed(Event::SocketClosed { socket, code: 4401, reason: String::new() });
    assert_eq!(asked(&mut harness), [true]);
    assert_eq!((harness.phase(), harness.error()), (Phase::Paused, Some(Code::Unauthorized)));
    harness.wake(harness.now + SOCKET_SILENCE_MS);
    assert_eq!(harness.opened_socket(), None, "paused");
    harness.feed(Event::Token(Some("t2".into())));
    harness.serve(5_000, |def| part(def, vec![]));
    let socket = harness.opened_socket().expect("a socket");
    harness.feed(Event::SocketOpened { socket });
    assert_eq!(harness.said()[0].token.as_deref(), Some("t2"));
}

#[test]
fn the_end_of_a_socket_under_an_earlier_token_refuses_nothing() {
    let (mut harness, socket) = with_socket();
    assert_eq!(harness.said()[0].token.as_deref(), Some("bad"));
    let (number, _) = harness.request();
    harness.refuse(number, refusal(Code::Unauthorized));
    assert_eq!(asked(&mut harness), [true]);
    harness.feed(Event::Token(Some("good".into())));
    // The server had not closed it yet.
    harness.feed(Event::SocketClosed { socket, code: 4401, reason: String::new() });
    assert!(asked(&mut harness).is_empty(), "the good one was refused by nobody");
    let (number, _, token) = harness.requests.pop_front().expect("a request");
    assert_eq!(token.as_deref(), Some("good"));
    harness.answer(number, reply(5_000, vec![whole(&def("Doc"), vec![])]));
    assert_eq!(harness.error(), None);
    harness.wake(harness.now + BACKOFF_MS.0);
    let socket = harness.opened_socket().expect("another socket");
    harness.feed(Event::SocketOpened { socket });
    assert_eq!(harness.said()[0].token.as_deref(), Some("good"));
}

#[test]
fn a_401_under_an_earlier_token_refuses_nothing() {
    let (mut harness, socket) = with_socket();
    let (number, _) = harness.request();
    harness.feed(Event::SocketClosed { socket, code: 4401, reason: String::new() });
    assert_eq!(asked(&mut harness), [true]);
    harness.feed(Event::Token(Some("good".into())));
    harness.refuse(number, refusal(Code::Unauthorized));
    assert!(asked(&mut harness).is_empty(), "the good one was refused by nobody");
    let (_, _, token) = harness.requests.pop_front().expect("asked again at once");
    assert_eq!(token.as_deref(), Some("good"));
}

#[test]
fn an_earlier_question_answered_with_nothing_takes_no_token_away() {
    let mut harness = with_token();
    harness.subscribe(&def("Doc"));
    harness.feed(Event::Visible);
    assert_eq!(asked(&mut harness), [false, true], "asked twice");
    harness.feed(Event::Token(Some("good".into())));
    harness.feed(Event::Token(None));
    let (number, _) = harness.request();
    harness.refuse(number, refusal(Code::Unauthorized));
    assert_eq!(asked(&mut harness), [true]);
}
