//! The endpoints of files, on a real instance.

use std::time::Duration;

use escale::codec::{FileReply, FilesReply};
use escale_server::engine::sha_of;
use escale_server::http::Running;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::support::chance::Chance;
use crate::support::client::*;
use crate::support::world::*;

const MIB: usize = 1 << 20;

async fn put(running: &Running, sha: &str, query: &str, bytes: &[u8]) -> Answer {
    request(running, "PUT", &format!("/o/file/{sha}{query}"), &[], bytes).await
}

async fn get(running: &Running, sha: &str, headers: &[(&str, &str)]) -> Answer {
    request(running, "GET", &format!("/o/file/{sha}"), headers, b"").await
}

/// The digests of these chunks, one after another.
fn list_of(chunks: &[Vec<u8>]) -> Vec<u8> {
    use base64::Engine as _;
    let digest =
        |chunk: &Vec<u8>| base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(sha_of(chunk)).unwrap();
    chunks.iter().flat_map(digest).collect()
}

fn refused(answer: &Answer) -> (u16, String) {
    (answer.status, answer.fault().code)
}

/// A file of several chunks goes up and comes down, in any order, with repetitions and ranges.
#[tokio::test]
async fn r26_a_file_goes_up_and_down_in_any_order() {
    let mut chance = Chance::new();
    let world = world();
    let running = serve(&world, |_| {}).await;
    let mut chunk = |length: usize| -> Vec<u8> { (0..length).map(|_| chance.next() as u8).collect() };
    let chunks = [chunk(MIB), chunk(MIB), chunk(17)];
    let list = list_of(&chunks);
    let size = 2 * MIB + 17;
    let name = sha_of(&list);
    let listed = format!("?list={size}");
    let missing = put(&running, &name, &listed, &list).await;
    assert_eq!(refused(&missing), (409, "file_missing".into()));
    let mut order: Vec<usize> = (0..6).map(|_| chance.below(3) as usize).chain(0..3).collect();
    order.sort_by_key(|_| chance.next());
    for at in order {
        let answer = put(&running, &sha_of(&chunks[at]), "", &chunks[at]).await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.json::<FileReply>().until, NOON + 7 * DAY);
    }
    for _ in 0..2 {
        assert_eq!(put(&running, &name, &listed, &list).await.status, 200);
    }
    let have = format!(r#"{{"p":1,"have":["{name}","{}","{}"]}}"#, sha_of(b"nothing"), sha_of(&chunks[2]));
    let reply: FilesReply = post_json(&running, "/o/files", &have).await.json();
    assert_eq!(reply.there, [name.clone(), sha_of(&chunks[2])]);
    assert_eq!(reply.until, NOON + 7 * DAY);
    let mut whole = Vec::new();
    assert_eq!(get(&running, &name, &[]).await.body, list);
    for chunk in &chunks {
        let answer = get(&running, &sha_of(chunk), &[]).await;
        assert_eq!(
            (answer.status, answer.headers["content-type"].as_str()),
            (200, "application/octet-stream")
        );
        assert_eq!(
            (answer.headers["cache-control"].as_str(), answer.headers["accept-ranges"].as_str()),
            ("no-store", "bytes")
        );
        whole.extend(answer.body);
    }
    assert!(whole == chunks.concat());
    let one = &chunks[0];
    for _ in 0..8 {
        let from = chance.below(MIB as u64) as usize;
        let to = (from + chance.below(5_000) as usize).min(MIB - 1);
        let range = format!("bytes={from}-{to}");
        let answer = get(&running, &sha_of(one), &[("Range", &range)]).await;
        assert_eq!((answer.status, &answer.body[..]), (206, &one[from..=to]));
        assert_eq!(answer.headers["content-range"], format!("bytes {from}-{to}/{MIB}"));
    }
    for range in ["bytes=1048576-", "bytes=99999999999999999999-"] {
        let answer = get(&running, &sha_of(one), &[("Range", range)]).await;
        assert_eq!((answer.status, answer.headers["content-range"].as_str()), (416, "bytes */1048576"));
    }
    let answer = get(&running, &sha_of(one), &[("Range", "bytes=1048570-99999999999999999999")]).await;
    assert_eq!((answer.status, &answer.body[..]), (206, &one[MIB - 6..]));
    running.stop().await;
}

#[tokio::test]
async fn refusals_of_files_have_their_names() {
    let world = world();
    let running = serve(&world, |_| {}).await;
    let sha = sha_of(b"one");
    for (answer, expected) in [
        (put(&running, &sha, "", b"two").await, (422, "file_damaged")),
        (put(&running, &sha, "", &vec![0; MIB + 1]).await, (413, "too_large")),
        (put(&running, "name", "", b"one").await, (404, "not_found")),
        (put(&running, &sha, "?list=x", b"one").await, (400, "malformed")),
        (put(&running, &sha, "?lists=3", b"one").await, (400, "malformed")),
        (put(&running, &sha, "?list=2097152", b"one").await, (400, "bad_value")),
        (put(&running, &sha, "?list=34359738369", b"one").await, (413, "too_large")),
        (get(&running, &sha, &[]).await, (404, "not_found")),
        (get(&running, "..", &[]).await, (404, "not_found")),
        (request(&running, "GET", &format!("/a%20b/file/{sha}"), &[], b"").await, (404, "unknown_org")),
        (post_json(&running, "/o/files", r#"{"p":2,"have":[]}"#).await, (400, "wrong_protocol")),
        (post_json(&running, "/o/files", r#"{"p":1,"have":["x"]}"#).await, (400, "malformed")),
        (post_json(&running, "/o/files", r#"{"have":[]}"#).await, (400, "malformed")),
        (request(&running, "POST", "/o/files", &[], b"{}").await, (400, "malformed")),
    ] {
        assert_eq!(refused(&answer), (expected.0, expected.1.to_owned()));
    }
    let names =
        |n: usize| (0..n).map(|n| format!("\"{}\"", sha_of(&[n as u8]))).collect::<Vec<_>>().join(",");
    let many = |n| format!(r#"{{"p":1,"have":[{}]}}"#, names(n));
    assert_eq!(post_json(&running, "/o/files", &many(1_000)).await.status, 200);
    assert_eq!(refused(&post_json(&running, "/o/files", &many(1_001)).await), (413, "too_large".into()));
    let snapshot = world.engine.provider().read().unwrap();
    assert_eq!(snapshot.head("o").unwrap(), None, "nothing was stored of the org");
    drop(snapshot);
    running.stop().await;
}

#[tokio::test]
async fn tokens_decide_about_files() {
    let world = world();
    let tokens = world.folder.path().join("tokens.json");
    let text = r#"{ "w": { "account": "w", "orgs": ["o"], "role": "write" },
        "r": { "account": "r", "orgs": ["o"], "role": "read" }, "p": { "account": "p", "orgs": ["p"], "role": "admin" } }"#;
    std::fs::write(&tokens, text).unwrap();
    let running = serve(&world, |options| {
        options.tokens = escale_server::http::Tokens::from_file(tokens).unwrap();
    })
    .await;
    let sha = sha_of(b"one");
    let path = format!("/o/file/{sha}");
    let bearer = |token: &str| ("Authorization", format!("Bearer {token}"));
    let ask = async |method: &str, path: &str, token: &str, body: &[u8]| {
        let (name, value) = bearer(token);
        request(&running, method, path, &[(name, &value), JSON], body).await.status
    };
    let have = format!(r#"{{"p":1,"have":["{sha}"]}}"#);
    assert_eq!(request(&running, "PUT", &path, &[], b"one").await.status, 401);
    assert_eq!(request(&running, "GET", &path, &[], b"").await.status, 401);
    for (token, put, get, asked) in
        [("x", 401, 401, 401), ("p", 403, 403, 403), ("w", 200, 200, 200), ("r", 403, 200, 403)]
    {
        assert_eq!(ask("PUT", &path, token, b"one").await, put, "{token}");
        assert_eq!(ask("GET", &path, token, b"").await, get, "{token}");
        assert_eq!(ask("POST", "/o/files", token, have.as_bytes()).await, asked, "{token}");
    }
    running.stop().await;
}

/// A body may be slow, but not silent, and not too slow.
#[tokio::test]
async fn an_upload_that_does_not_come_is_not_waited_for() {
    let world = world();
    let running = serve(&world, |options| options.body_max = Duration::from_millis(150)).await;
    let sha = sha_of(&[7; 9]);
    let head =
        format!("PUT /o/file/{sha} HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 9\r\n\r\n");
    for part in ["", "1234"] {
        let answer = exchange(running.address, format!("{head}{part}").as_bytes()).await;
        assert_eq!(refused(&answer), (408, "timeout".into()));
    }
    // An end before the announced length is no object either.
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    stream.write_all(format!("{head}1234").as_bytes()).await.unwrap();
    drop(stream);
    assert_eq!(put(&running, &sha, "", &[7; 9]).await.status, 200);
    running.stop().await;
}

#[tokio::test]
async fn transfers_have_places_of_their_own() {
    let world = world();
    let running = serve(&world, |options| options.transfers_max = (1, 1)).await;
    let sha = sha_of(&[7; 9]);
    let mut slow = TcpStream::connect(running.address).await.unwrap();
    let head =
        format!("PUT /o/file/{sha} HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n");
    slow.write_all(head.as_bytes()).await.unwrap();
    // The server asks for the body once the upload is counted.
    let mut continued = [0; 12];
    tokio::io::AsyncReadExt::read_exact(&mut slow, &mut continued).await.unwrap();
    assert_eq!(&continued, b"HTTP/1.1 100");
    let full = put(&running, &sha, "", &[7; 9]).await;
    assert_eq!((refused(&full), full.headers["retry-after"].as_str()), ((429, "too_many".into()), "1"));
    assert_eq!(refused(&get(&running, &sha, &[]).await), (404, "not_found".into()), "a download has its own");
    assert_eq!(post_json(&running, "/o/sync", r#"{"p":1,"session":"s"}"#).await.status, 200);
    running.stop().await;
}

/// R13: nothing of a file is in a cache of the browser, and a page may read every answer.
#[tokio::test]
async fn pages_of_other_origins_may_transfer() {
    let world = world();
    let running = serve(&world, |_| {}).await;
    let origin = ("Origin", "http://localhost:5173");
    let sha = sha_of(b"one");
    let path = format!("/o/file/{sha}");
    let answer =
        request(&running, "OPTIONS", &path, &[origin, ("Access-Control-Request-Method", "PUT")], b"").await;
    assert_eq!(
        (answer.status, answer.headers["access-control-allow-methods"].as_str()),
        (204, "POST, GET, PUT")
    );
    for (method, status) in [("GET", 404), ("PUT", 200), ("GET", 200)] {
        let body: &[u8] = if method == "PUT" { b"one" } else { b"" };
        let answer = request(&running, method, &path, &[origin, ("Range", "bytes=9-")], body).await;
        let status = if status == 200 && method == "GET" { 416 } else { status };
        assert_eq!((answer.status, answer.headers["cache-control"].as_str()), (status, "no-store"));
        assert_eq!(answer.headers["access-control-allow-origin"], origin.1);
    }
    let other = request(&running, "GET", &path, &[("Origin", "http://elsewhere.example")], b"").await;
    assert_eq!(refused(&other), (403, "forbidden".into()));
    running.stop().await;
}

/// An instance without a store answers by name.
#[tokio::test]
async fn a_server_without_files_says_so() {
    use escale_server::engine::{Engine, Opening, first_site};
    use escale_server::mark::Mark;
    use escale_server::provider::{MemoryDatabase, MemoryProvider};
    let schema = escale::model::schema::Schema::from_json(SCHEMA).unwrap();
    let clock = escale_server::clock::ManualClock::at(NOON);
    let (settings, seal) = (escale_server::settings::Settings::default(), escale_server::seal::Seal::clear());
    let opening = Opening { schema, settings, seal, clock: clock.clone() };
    let provider = MemoryProvider::open(&MemoryDatabase::new(first_site(1).unwrap()));
    let engine = Engine::over(Box::new(provider), Mark::none(), opening, 7).unwrap();
    let world = World { folder: tempfile::tempdir().unwrap(), clock, engine: std::sync::Arc::new(engine) };
    let running = serve(&world, |_| {}).await;
    let sha = sha_of(b"one");
    for answer in [
        put(&running, &sha, "", b"one").await,
        get(&running, &sha, &[]).await,
        post_json(&running, "/o/files", r#"{"p":1,"have":[]}"#).await,
    ] {
        assert_eq!(refused(&answer), (501, "not_supported".into()));
    }
    running.stop().await;
}
