//! Under fire: requests of a few bytes that would fill the disk. The server is the real binary, and the file is measured
//! after it was killed.

use std::net::SocketAddr;

use escale::codec::{Format, Op, SyncRequest, encode};
use escale::model::Value;
use escale_server::engine::Engine;

use crate::support::operating::{key_args, op, put_args, with};
use crate::support::outside::{Outside, sync};
use crate::support::world::note;

const TOKENS: &str = r#"{
    "writer": {"account": "writer", "orgs": ["o"], "role": "write"},
    "reader": {"account": "reader", "orgs": ["o"], "role": "read"}
}"#;

/// An attacker, and the bytes that it has sent so far.
struct Attacker {
    address: SocketAddr,
    token: &'static str,
    sent: u64,
    requests: u64,
}

impl Attacker {
    fn send(&mut self, session: &str, ops: Vec<Op>) {
        let bytes = encode(Format::Msgpack, &SyncRequest { ops, ..SyncRequest::of(session) }).unwrap();
        let reply = sync(self.address, self.token, &bytes).expect("an answer");
        assert!(!reply.results.is_empty());
        (self.sent, self.requests) = (self.sent + bytes.len() as u64, self.requests + 1);
    }
}

/// The bytes of the pages in use after the server's end: a large row that is replaced leaves free ones, once.
fn size_of(folder: &std::path::Path) -> u64 {
    let raw = rusqlite::Connection::open(Engine::database_in(&folder.join("data"))).unwrap();
    raw.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    let number = |pragma: &str| raw.query_row(pragma, [], |row| row.get::<_, u64>(0)).unwrap();
    (number("PRAGMA page_count") - number("PRAGMA freelist_count")) * number("PRAGMA page_size")
}

/// Runs an attack on a database with one large document. Returns the bytes by which it grew, those that were sent, and the
/// number of requests.
fn attacked(token: &'static str, attack: impl FnOnce(&mut Attacker)) -> (u64, u64, u64) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("tokens.json"), TOKENS).unwrap();
    let start = || Outside::start(folder.path(), &["--tokens", "tokens.json"]);
    let server = start();
    let mut data = note("large", "one");
    data.insert("text".into(), Value::from(&*"x".repeat(900_000)));
    let large = with(put_args("large", "one"), "data", Value::Map(data));
    Attacker { address: server.address, token: "writer", sent: 0, requests: 0 }
        .send("first", vec![op("first", 1, "doc.put", large)]);
    server.kill();
    let before = size_of(folder.path());
    let server = start();
    let mut attacker = Attacker { address: server.address, token, sent: 0, requests: 0 };
    attack(&mut attacker);
    server.kill();
    (size_of(folder.path()) - before, attacker.sent, attacker.requests)
}

fn check(what: &str, (added, sent, requests): (u64, u64, u64)) {
    let allowed = 10 * sent + requests * (64 << 10);
    eprintln!("{what}: {added} bytes after {sent} in {requests} requests");
    assert!(added <= allowed, "{what}: {sent} bytes in {requests} requests added {added}");
}

#[test]
fn patches_of_a_large_document_fill_no_disk() {
    let patch = |n: u64| with(key_args("large"), "set", Value::from([("n", Value::from(n as i64))]));
    let grown = attacked("writer", |attacker| {
        for request in 0..4 {
            let ops =
                (1..=60).map(|n| op(&format!("{request}-{n}"), request * 60 + n, "doc.patch", patch(n)));
            attacker.send("s", ops.collect());
        }
    });
    check("patches", grown);
    assert!(grown.0 <= 10 * grown.1, "not even the bytes that any request may add");
}

#[test]
fn conflicts_of_a_large_document_fill_no_disk() {
    let conflicting = || with(put_args("large", "two"), "ifVersion", Value::from(1));
    check(
        "conflicts",
        attacked("writer", |attacker| {
            for n in 1..=40 {
                let batch = [("name", Value::from("doc.put")), ("args", conflicting())];
                let (name, args) = match n % 2 {
                    0 => ("doc.put", conflicting()),
                    _ => ("batch", [("ops", Value::Array(vec![batch.into()]))].into()),
                };
                attacker.send("s", vec![op(&n.to_string(), n, name, args)]);
            }
        }),
    );
}

#[test]
fn a_reader_fills_no_disk_however_much_it_sends() {
    let (added, sent, _) = attacked("reader", |attacker| {
        for request in 0..40 {
            let ops = (1..=250).map(|n| op(&format!("{request}-{n}"), n, "doc.put", put_args("x", "one")));
            attacker.send(&format!("{request}{}", "s".repeat(900)), ops.collect());
        }
    });
    assert!(sent > 500_000 && added <= 100_000, "{sent} bytes added {added}");
}

#[test]
fn short_values_of_lists_and_long_names_fill_no_disk() {
    check(
        "lists and names",
        attacked("writer", |attacker| {
            let id = "i".repeat(1_000);
            for request in 0..6 {
                let tags = (0..2_000).map(|n| Value::from(&*format!("{}", n + request))).collect();
                let data = Value::from([("id", Value::from("a")), ("tags", Value::Array(tags))]);
                let args = with(put_args("a", "one"), "data", data);
                attacker.send("s", vec![op(&format!("{request}"), request as u64 * 2 + 1, "doc.put", args)]);
                let put = |n: usize| {
                    let args = put_args(&format!("{request}-{n}"), "");
                    Value::from([("name", Value::from("doc.put")), ("args", args)])
                };
                let batch = [("ops", Value::Array((0..500).map(put).collect()))];
                attacker
                    .send("s", vec![op(&format!("{request}{id}"), request as u64 * 2 + 2, "batch", batch)]);
            }
        }),
    );
}
