//! Under fire: half-open connections, slow headers, floods, deep and huge messages, messages that grow in
//! memory, readers that do not read. The server's memory stays under a bound, and an honest caller is
//! answered all the time. All of it runs on this machine, in bounded numbers. The server is the real binary,
//! measured from outside.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use escale::codec::{Format, SyncReply, SyncRequest, decode, encode};
use escale::model::Value;
use futures_util::{SinkExt, StreamExt};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::support::client::{PATIENCE, exchange};
use crate::support::operating::{op, put_args, with};
use crate::support::outside::{Outside, post};
use crate::support::proof::shown;
use crate::support::world::*;

/// The memory that the server may take: the room for heavy requests, and that of the other requests in
/// progress.
const MEMORY_MAX: u64 = 768 << 20;

/// The longest wait of an honest caller, during floods on a machine that tests share.
const ANSWER_MAX: Duration = Duration::from_secs(5);

const TOKENS: &str = r#"{
    "honest": {"account": "honest", "orgs": ["o"], "role": "write"},
    "hostile": {"account": "hostile", "orgs": ["o"], "role": "write"}
}"#;

/// Pulls and writes without a pause until `is_over`. Returns how long each answer took. Like a session, it
/// asks again if its connection was evicted before its request was read; that counts as waiting.
fn honest(address: SocketAddr, is_over: &AtomicBool) -> Vec<Duration> {
    let mut took = Vec::new();
    let mut seq = 0;
    while !is_over.load(Ordering::Relaxed) || took.is_empty() {
        seq += 1;
        let write = op(&format!("honest-{seq}"), seq, "doc.put", put_args("honest", &seq.to_string()));
        let subs = vec![sub(&shelf(&seq.to_string()), 0)];
        let request = SyncRequest { ops: vec![write], subs, ..SyncRequest::of("honest") };
        let bytes = encode(Format::Msgpack, &request).unwrap();
        let since = Instant::now();
        let answer = loop {
            if let Some(answer) = post(address, "honest", &bytes) {
                break answer;
            }
            assert!(since.elapsed() < ANSWER_MAX, "no answer");
        };
        took.push(since.elapsed());
        assert_eq!(answer.status, 200);
        let reply: SyncReply = decode(Format::Msgpack, &answer.body, usize::MAX).unwrap();
        assert!(reply.results[0].ok.is_some(), "{:?}", reply.results[0]);
        assert_eq!(reply.parts[0].rows.len(), 1);
    }
    took
}

fn head(token: &str, content_type: &str, length: usize) -> Vec<u8> {
    let authorization = format!("Authorization: Bearer {token}\r\n");
    format!(
        "POST /o/sync HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{authorization}Content-Type: {content_type}\r\n\
         Content-Length: {length}\r\n\r\n"
    )
    .into_bytes()
}

/// The statuses of many requests at once.
async fn flood(address: SocketAddr, requests: Vec<Vec<u8>>) -> Vec<u16> {
    let mut under_way = JoinSet::new();
    for bytes in requests {
        under_way.spawn(async move { exchange(address, &bytes).await.status });
    }
    under_way.join_all().await
}

/// Each request has this answer, if the server came to it in time: at least one has.
fn is_each(statuses: &[u16], status: u16) {
    assert!(
        statuses.contains(&status) && statuses.iter().all(|is| [status, 503].contains(is)),
        "{statuses:?}"
    );
}

fn with_body(token: &str, format: Format, body: &[u8]) -> Vec<u8> {
    [head(token, format.content_type(), body.len()), body.to_vec()].concat()
}

/// A request whose one operation has a document that grows. It has maps in a list: three bytes each, and two
/// hundred times that in memory.
fn growing(session: &str, bytes: usize) -> Vec<u8> {
    let map: Value = [("", Value::Null)].into();
    let data = with(
        put_args("grows", "one").as_map().unwrap()["data"].clone(),
        "maps",
        Value::Array(vec![map; bytes / 3]),
    );
    let ops = vec![op(session, 1, "doc.put", with(put_args("grows", "one"), "data", data))];
    encode(Format::Msgpack, &SyncRequest { ops, ..SyncRequest::of(session) }).unwrap()
}

/// More connections than there are places. They say nothing, or begin a header, or leave a socket without a
/// message.
async fn half_open(address: SocketAddr, n: usize) -> Vec<TcpStream> {
    let upgrade = "GET /o/live HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                   Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    let said = ["", "POST /o/sync HTTP/1.1\r\nHost: h\r\nX-Slow: ", upgrade];
    let mut held = Vec::new();
    for at in 0..n {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(said[at % 3].as_bytes()).await.unwrap();
        held.push(stream);
    }
    held
}

/// Sockets that send too much, too deep, too large, nothing that is a message, or that continue after they
/// were admitted.
async fn sockets(address: SocketAddr, n: usize) {
    let subscribe = r#"{"token":"hostile","session":"s","subs":["Note"]}"#;
    let deep = format!(r#"{{"session":"s","subs":{}1{}}}"#, "[".repeat(50_000), "]".repeat(50_000));
    let kinds: [(&str, usize); 5] = [
        (subscribe, 150),
        (&deep, 2),
        (&"x".repeat(2 << 20), 2),
        ("nothing", 2),
        (r#"{"token":"nobody","session":"s","subs":[]}"#, 2),
    ];
    let mut under_way = JoinSet::new();
    for at in 0..n {
        let (text, times) = kinds[at % kinds.len()];
        let text = text.to_owned();
        under_way.spawn(async move {
            let request = format!("ws://{address}/o/live").into_client_request().unwrap();
            // With all places taken, a socket may be evicted before it is open.
            let Ok((mut socket, _)) = tokio_tungstenite::connect_async(request).await else { return };
            for _ in 0..times {
                if socket.send(Message::text(text.clone())).await.is_err() {
                    break;
                }
            }
            let to_its_end = async { while let Some(Ok(_)) = socket.next().await {} };
            tokio::time::timeout(PATIENCE, to_its_end).await.expect("the server closes it");
        });
    }
    under_way.join_all().await;
}

/// Callers that ask for everything and read none of it.
async fn lazy(address: SocketAddr, n: usize) -> Vec<TcpStream> {
    let body = r#"{"p":1,"session":"lazy","subs":[["Note",0]]}"#;
    let mut held = Vec::new();
    for _ in 0..n {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&with_body("hostile", Format::Json, body.as_bytes())).await.unwrap();
        held.push(stream);
    }
    held
}

/// The number of files that this process may open.
fn files_max() -> usize {
    let text = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(1_024)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_is_bounded_and_the_honest_are_answered_whatever_comes() {
    let since = Instant::now();
    let folder = quick_folder();
    std::fs::write(folder.path().join("tokens.json"), TOKENS).unwrap();
    let server = Outside::start(folder.path(), &["--tokens", "tokens.json"]);
    let address = server.address;
    let text = Value::from(&*"x".repeat(60_000));
    for n in 1..=16 {
        let args = put_args(&n.to_string(), "one");
        let data = with(args.as_map().unwrap()["data"].clone(), "text", text.clone());
        let ops = vec![op(&n.to_string(), n, "doc.put", with(args, "data", data))];
        let request = SyncRequest { ops, ..SyncRequest::of("first") };
        assert_eq!(
            post(address, "hostile", &encode(Format::Msgpack, &request).unwrap()).unwrap().status,
            200
        );
    }
    let quiet = server.memory("VmRSS");
    let is_over = Arc::new(AtomicBool::new(false));
    let caller = std::thread::spawn({
        let is_over = Arc::clone(&is_over);
        move || honest(address, &is_over)
    });
    let mut hostile = 0;

    let n = files_max().saturating_sub(300).min(2_500);
    let held = half_open(address, n).await;
    hostile += n;

    let pull = br#"{"p":1,"session":"s","subs":[["Note@01QQ52TE3jJlM5-0Ws1GeQ",0]]}"#;
    let requests = (0..600).map(|at| with_body(["hostile", "nobody"][at % 2], Format::Json, pull)).collect();
    let statuses = flood(address, requests).await;
    assert!(statuses.iter().all(|status| [200, 401, 429, 503].contains(status)), "{statuses:?}");
    assert!(statuses.contains(&401) && statuses.contains(&200));
    hostile += statuses.len();

    let deep = [b"[".repeat(100_000), b"]".repeat(100_000)].concat();
    let deep_bytes = [vec![0x91; 1 << 20], vec![0xc0]].concat();
    let lying = [&[0x85, 0xa1, b'p'][..], &[0xdd, 0xff, 0xff, 0xff, 0xff]].concat();
    let mut requests = Vec::new();
    for _ in 0..8 {
        requests.push(with_body("hostile", Format::Json, &deep));
        requests.push(with_body("hostile", Format::Msgpack, &deep_bytes));
        requests.push(with_body("hostile", Format::Msgpack, &lying));
        requests.push(with_body("hostile", Format::Msgpack, &vec![0; (4 << 20) + 1]));
    }
    let statuses = flood(address, requests).await;
    assert!(statuses.iter().all(|status| [400, 413, 429].contains(status)), "{statuses:?}");
    hostile += statuses.len();

    // Heavy ones are admitted one after another. On a slow machine the last may wait too long: 503.
    let sizes = [1 << 20, (2 << 20) - 1_000, (1 << 20) - 1_000, (2 << 20) - 2_000];
    let requests: Vec<_> =
        sizes.iter().enumerate().map(|(at, bytes)| growing(&format!("grows-{at}"), *bytes)).collect();
    let requests = requests.iter().map(|body| with_body("hostile", Format::Msgpack, body)).collect();
    let statuses = flood(address, requests).await;
    is_each(&statuses, 200);
    let too_large = with_body("hostile", Format::Msgpack, &growing("s", 4_000_000));
    let statuses = flood(address, vec![too_large; 12]).await;
    is_each(&statuses, 413);
    hostile += 16;

    sockets(address, 100).await;
    let unread = lazy(address, 200).await;
    hostile += 300;

    is_over.store(true, Ordering::Relaxed);
    let mut took = caller.join().unwrap();
    let most = server.memory("VmHWM");
    drop((held, unread));
    took.sort_unstable();
    let (half, last) = (took[took.len() / 2], *took.last().unwrap());
    let mib = |bytes: Option<u64>| bytes.map_or("?".to_owned(), |bytes| (bytes >> 20).to_string());
    eprintln!(
        "{hostile} hostile; memory {} MiB in quiet, {} MiB at most; {} honest answers, p50 {half:.1?}, the longest {last:.1?}",
        mib(quiet),
        mib(most),
        took.len()
    );
    assert!(most.is_none_or(|most| most <= MEMORY_MAX), "{} MiB", mib(most));
    assert!(last <= ANSWER_MAX, "{last:?}");
    assert!(took.len() >= 20, "{} honest answers", took.len());
    let promise =
        "floods, slow and hostile callers: memory under 768 MiB, honest callers answered within 5 s";
    shown("server-floods", promise, hostile as u64, "hostile connections and requests", since);
}
