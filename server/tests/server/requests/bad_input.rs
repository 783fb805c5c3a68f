//! Bad input: the answer to any bytes is a named fault, and the server goes on.

use escale::codec::{Format, ServerFrame, SyncReply, SyncRequest, encode};
use escale::limits::REQUEST_BYTES_MAX;
use escale::{Code, Kind};
use futures_util::SinkExt;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tokio_tungstenite::tungstenite::Message;

use crate::support::client::*;
use crate::support::world::*;

#[tokio::test]
async fn what_is_no_request_is_refused_by_name() {
    let world = world();
    put(&world.engine, note("a", "one")).unwrap();
    let running = serve(&world, |_| {}).await;
    let good = r#"{"p":1,"session":"s","subs":[]}"#;
    let deep = format!(
        r#"{{"p":1,"session":"s","ops":[{{"id":"1","seq":1,"name":"x","at":0,"args":{}1{}}}]}}"#,
        "[".repeat(120),
        "]".repeat(120)
    );
    let many = format!(r#"{{"p":1,"session":"s","subs":[{}]}}"#, vec![r#"["Note",0]"#; 1_001].join(","));
    let ops = format!(
        r#"{{"p":1,"session":"s","ops":[{}]}}"#,
        vec![r#"{"id":"1","seq":1,"name":"x","args":null,"at":0}"#; 501].join(",")
    );
    let long = format!(r#"{{"p":1,"session":"{}"}}"#, "s".repeat(1_025));
    let cases: &[(u16, &str, &str)] = &[
        (400, "malformed", ""),
        (400, "malformed", "null"),
        (400, "malformed", "[]"),
        (400, "malformed", r#"{"p":1"#),
        (400, "malformed", "<!doctype html><html></html>"),
        (400, "malformed", r#"{"p":1,"session":""}"#),
        (400, "malformed", r#"{"p":1,"session":"s","subs":[["1A",0]]}"#),
        (400, "malformed", r#"{"p":1,"session":"s","subs":[["Note",9007199254740992]]}"#),
        (400, "malformed", r#"{"p":1,"session":"s","subs":[["Note",-1]]}"#),
        (400, "malformed", r#"{"p":1,"session":"s","subs":[["Note"]]}"#),
        (400, "malformed", &long),
        (400, "wrong_protocol", r#"{"p":2,"session":"s","subs":[]}"#),
        (400, "wrong_protocol", r#"{"p":2,"what":"else"}"#),
        (400, "too_deep", &deep),
        (413, "too_large", &many),
        (413, "too_large", &ops),
    ];
    for (status, code, body) in cases {
        let answer = post_json(&running, "/o/sync", body).await;
        let fault = answer.fault();
        let text: String = body.chars().take(60).collect();
        // Input too deep for the decoder's stack may be `malformed` or `too_deep`, depending on the format.
        let same = fault.code == *code || (*code == "too_deep" && fault.code == "malformed");
        assert!(answer.status == *status && same, "{text}: {} {fault:?}", answer.status);
        if *code == "wrong_protocol" {
            assert_eq!(fault.kind, Kind::D);
        }
    }
    for headers in [vec![], vec![("Content-Type", "text/plain")], vec![("Content-Type", "nonsense")]] {
        let answer = request(&running, "POST", "/o/sync", &headers, good.as_bytes()).await;
        assert_eq!((answer.status, answer.fault().code.as_str()), (400, "malformed"));
    }
    for (method, path, status) in [
        ("GET", "/o/sync", 405),
        ("POST", "/o/live", 405),
        ("GET", "/o/live", 400),
        ("GET", "/x", 404),
        ("PUT", "/o/file/x", 404),
        ("GET", "/o/file/x", 404),
        ("POST", "/o/file/x", 405),
        ("GET", "/o/files", 405),
    ] {
        let answer = request(&running, method, path, &[JSON], b"").await;
        assert_eq!(answer.status, status, "{method} {path}");
        assert!(!answer.fault().code.is_empty());
    }
    assert_eq!(post_json(&running, "/o/sync", good).await.status, 200);
    running.stop().await;
}

#[tokio::test]
async fn what_is_too_large_is_refused_before_it_is_read() {
    let world = world();
    put(&world.engine, note("a", "one")).unwrap();
    let running = serve(&world, |_| {}).await;
    let announced = format!(
        "POST /o/sync HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        REQUEST_BYTES_MAX + 1
    );
    let answer = exchange(running.address, announced.as_bytes()).await;
    assert_eq!((answer.status, answer.fault().code.as_str()), (413, "too_large"));
    let mut chunked =
        b"POST /o/sync HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for _ in 0..5 {
        chunked.extend_from_slice(b"100000\r\n");
        chunked.extend_from_slice(&vec![b' '; 1 << 20]);
        chunked.extend_from_slice(b"\r\n");
    }
    let answer = exchange(running.address, &chunked).await;
    assert_eq!((answer.status, answer.fault().code.as_str()), (413, "too_large"));
    let header = format!("GET / HTTP/1.1\r\nHost: h\r\nX: {}\r\n\r\n", "x".repeat(64 << 10));
    assert_eq!(exchange(running.address, header.as_bytes()).await.status, 431);
    running.stop().await;
}

#[tokio::test]
async fn a_def_that_cannot_be_told_is_a_fault_of_its_part() {
    let world = world();
    put(&world.engine, note("a", "one")).unwrap();
    let running = serve(&world, |_| {}).await;
    let (hash, one) = (escale::model::sha_s("x"), escale::model::sha_s("one"));
    let body = format!(
        r#"{{"p":1,"session":"s","subs":[["Nope",0],["Log",0],["Note/nope@{hash}",0],["Log/shelf@{hash}",0],["Note",0,"forged"],["Note/shelf@{one}",0]]}}"#
    );
    let reply: SyncReply = post_json(&running, "/o/sync", &body).await.json();
    let codes: Vec<_> = reply.parts.iter().map(|p| p.fault.as_ref().map(|f| f.code.as_str())).collect();
    let unknown = Some("unknown_def");
    assert_eq!(codes, [unknown, unknown, unknown, unknown, Some("bad_cursor"), None]);
    assert_eq!(ids(&reply.parts[5]), ["a"]);
    running.stop().await;
}

/// Bytes near a request: valid ones, altered, cut, repeated.
fn near_request() -> impl Strategy<Value = Vec<u8>> {
    let whole = SyncRequest { subs: vec![sub(&def("Note"), 5)], ..SyncRequest::of("s") };
    let json = encode(Format::Json, &whole).unwrap();
    let msgpack = encode(Format::Msgpack, &whole).unwrap();
    let base = prop_oneof![Just(json), Just(msgpack), prop::collection::vec(any::<u8>(), 0..80)];
    (
        base,
        prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        any::<prop::sample::Index>(),
    )
        .prop_map(|(mut bytes, changes, cut)| {
            for (at, byte) in changes {
                if !bytes.is_empty() {
                    let at = at.index(bytes.len());
                    bytes[at] = byte;
                }
            }
            if cut.index(3) == 0 && !bytes.is_empty() {
                bytes.truncate(cut.index(bytes.len()));
            }
            bytes
        })
}

#[test]
fn no_bytes_make_the_server_fail() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let world = world();
    put(&world.engine, note("a", "one")).unwrap();
    let running = runtime.block_on(serve(&world, |_| {}));
    let mut runner = TestRunner::new(cases(256));
    let result = runner.run(&(near_request(), any::<bool>()), |(bytes, is_json)| {
        let header = if is_json { JSON } else { MSGPACK };
        let answer = runtime.block_on(request(&running, "POST", "/o/sync", &[header], &bytes));
        prop_assert!(matches!(answer.status, 200 | 400 | 413), "{}", answer.status);
        if answer.status != 200 {
            prop_assert!(Code::parse(&answer.fault().code).is_some());
        }
        Ok(())
    });
    runtime.block_on(running.stop());
    if let Err(failure) = result {
        panic!("{failure}");
    }
}

#[tokio::test]
async fn a_socket_that_says_nonsense_is_closed_with_a_reason() {
    let world = world();
    put(&world.engine, note("a", "one")).unwrap();
    let running = serve(&world, |_| {}).await;
    let many = format!(r#"{{"session":"s","subs":[{}]}}"#, vec![r#""Note""#; 1_001].join(","));
    let cases: [(Message, u16, &str); 6] = [
        (Message::text("{"), 1008, "malformed"),
        (Message::text("{}"), 1008, "malformed"),
        (Message::text(r#"{"session":"","subs":[]}"#), 1008, "malformed"),
        (Message::text(many), 1008, "too_large"),
        (Message::binary(vec![0xc1]), 1008, "malformed"),
        (Message::binary(vec![0x91; 4_000]), 1008, "too_deep"),
    ];
    for (message, code, reason) in cases {
        let mut socket = connect(&running, "/o/live", &[]).await;
        socket.send(message).await.unwrap();
        let closed = hear(&mut socket).await.unwrap_err();
        assert!(
            closed.0 == code && (closed.1 == reason || closed.1 == "malformed"),
            "{closed:?} for {reason}"
        );
    }
    let mut socket = connect(&running, "/o/live", &[]).await;
    let _ = socket.send(Message::binary(vec![0; 2 << 20])).await;
    assert!(hear(&mut socket).await.is_err(), "a message over its bound ends the socket");
    running.stop().await;
}

#[tokio::test]
async fn a_socket_refuses_a_def_and_takes_the_others() {
    let world = world();
    put(&world.engine, note("a", "one")).unwrap();
    let running = serve(&world, |_| {}).await;
    let mut socket = connect(&running, "/o/live", &[]).await;
    say(&mut socket, Format::Json, None, &[def("Nope"), def("Note"), def("Log")]).await;
    let (format, frame) = hear(&mut socket).await.unwrap();
    let ServerFrame::Live { live, refused, .. } = frame else { panic!("{frame:?}") };
    assert_eq!((format, live), (Format::Json, vec![def("Note")]));
    let refused: Vec<_> = refused.iter().map(|(def, fault)| (def.to_string(), fault.code.as_str())).collect();
    assert_eq!(refused, [("Nope".into(), "unknown_def"), ("Log".into(), "unknown_def")]);
    running.stop().await;
}
