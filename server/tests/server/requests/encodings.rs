//! R91: replies compressed for callers that accept it.

use std::io::Read;
use std::time::Duration;

use escale::codec::{Format, SyncReply, decode};
use escale::model::Value;
use escale_server::http::{Running, ServeOptions};
use escale_server::settings::Settings;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;

use crate::support::client::*;
use crate::support::world::*;

const PULL: &str = r#"{"p":1,"session":"s","subs":[["Note",0]]}"#;

/// A world with a class that is long enough to be compressed.
fn filled() -> World {
    let world = world();
    for n in 0..40 {
        put(&world.engine, note(&n.to_string(), "one")).unwrap();
    }
    world
}

async fn pull_with(running: &Running, accepted: &[(&str, &str)]) -> Answer {
    request(running, "POST", "/o/sync", &[accepted, &[JSON]].concat(), PULL.as_bytes()).await
}

/// The body as it was before its encoding.
fn decoded(answer: &Answer) -> Vec<u8> {
    let mut bytes = Vec::new();
    match answer.headers.get("content-encoding").map(String::as_str) {
        Some("gzip") => flate2::read::GzDecoder::new(&*answer.body).read_to_end(&mut bytes).unwrap(),
        Some("zstd") => zstd::Decoder::new(&*answer.body).unwrap().read_to_end(&mut bytes).unwrap(),
        None => return answer.body.clone(),
        other => panic!("{other:?}"),
    };
    bytes
}

fn parts_of(bytes: &[u8]) -> usize {
    let reply: SyncReply = decode(Format::Json, bytes, usize::MAX).unwrap();
    reply.parts[0].rows.len()
}

#[tokio::test]
async fn r91_every_encoding_gives_the_same_bytes() {
    let world = filled();
    let running = serve(&world, |_| {}).await;
    let plain = pull_with(&running, &[]).await;
    assert_eq!(plain.headers.get("content-encoding"), None);
    for (accepted, expected) in [
        ("gzip", Some("gzip")),
        ("zstd", Some("zstd")),
        // As a browser asks.
        ("gzip, deflate, br, zstd", Some("zstd")),
        ("zstd;q=0, gzip", Some("gzip")),
        ("identity", None),
        ("lzma", None),
        ("", None),
    ] {
        let answer = pull_with(&running, &[("Accept-Encoding", accepted)]).await;
        let encoding = answer.headers.get("content-encoding").map(String::as_str);
        assert_eq!((answer.status, encoding), (200, expected), "{accepted}");
        // The clock stands still, so the same request has the same answer.
        assert_eq!(decoded(&answer), plain.body, "{accepted}");
        assert_eq!(parts_of(&decoded(&answer)), 40);
        if expected.is_some() {
            assert!(answer.body.len() * 2 < plain.body.len(), "{} bytes", answer.body.len());
        }
    }
    running.stop().await;
}

#[tokio::test]
async fn r91_caches_are_told_of_both_headers_that_change_a_reply() {
    let world = filled();
    let running = serve(&world, |_| {}).await;
    let asked = [("Accept-Encoding", "gzip"), ("Origin", "http://localhost:5173")];
    let answer = pull_with(&running, &asked).await;
    let vary = answer.headers["vary"].to_ascii_lowercase();
    let mut names: Vec<&str> = vary.split(", ").collect();
    names.sort_unstable();
    assert_eq!(names, ["accept-encoding", "origin"]);
    assert_eq!(answer.headers["access-control-allow-origin"], "http://localhost:5173");
    assert_eq!(answer.headers["cache-control"], "no-store");
    running.stop().await;
}

#[tokio::test]
async fn r91_small_replies_and_those_of_a_server_told_so_stay_as_they_are() {
    let accepted = [("Accept-Encoding", "gzip, zstd")];
    let small = world();
    put(&small.engine, note("a", "one")).unwrap();
    let off = |options: &mut ServeOptions| options.compresses = false;
    for running in [serve(&small, |_| {}).await, serve(&filled(), off).await] {
        let answer = pull_with(&running, &accepted).await;
        assert_eq!((answer.status, answer.headers.get("content-encoding")), (200, None));
        assert_eq!(answer.headers["content-length"], answer.body.len().to_string());
        running.stop().await;
    }
}

#[tokio::test]
async fn r91_a_slow_reader_of_a_compressed_reply_keeps_its_place() {
    // Bytes without a pattern: compressed, they are still more than the system buffers.
    let world = world_with(Settings { page_bytes: 16 << 20, ..Settings::default() });
    let mut state = 1_u64;
    for n in 0..14 {
        let mut large = note(&n.to_string(), "one");
        let text: String = (0..1_000_000)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                char::from(b' ' + 2 + ((state >> 40) % 90) as u8)
            })
            .collect();
        large.insert("text".into(), Value::from(&*text.replace('\\', "/")));
        put(&world.engine, large).unwrap();
    }
    let running = serve(&world, |options| {
        options.requests_max = (1, 1);
        options.stall_max = Duration::from_secs(60);
    })
    .await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let mut slow = socket.connect(running.address).await.unwrap();
    let head = "POST /o/sync HTTP/1.1\r\nHost: h\r\nConnection: close\r\nAccept-Encoding: zstd\r\nContent-Type: application/json\r\n";
    let body = format!("Content-Length: {}\r\n\r\n{PULL}", PULL.len());
    slow.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    let mut start = [0; 512];
    slow.read_exact(&mut start).await.unwrap();
    assert!(start.windows(22).any(|w| w == b"content-encoding: zstd"), "it is compressed");
    // Its request is in progress until it has read its reply: nobody else of this address gets a place.
    let other = pull_with(&running, &[]).await;
    assert_eq!((other.status, other.fault().code.as_str()), (429, "too_many"));
    let mut rest = Vec::new();
    slow.read_to_end(&mut rest).await.unwrap();
    let whole = parse(&[&start[..], &rest].concat());
    assert_eq!(parts_of(&decoded(&whole)), 14);
    // The server notices the end of the reply by itself: the place is free when the connection has ended.
    assert_eq!(pull_with(&running, &[]).await.status, 200);
    running.stop().await;
}
