//! Under fire: all attacks at once, by strangers and by accounts, and one honest account that writes. The server is the real
//! binary, measured from outside. `ATTACK_SECONDS` is how long they last (`make attack`); without it they last for a number of
//! honest writes, and no time is judged.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use escale::codec::{Format, SyncReply, decode};
use escale_server::engine::Engine;

use super::attackers::*;
use crate::support::operating::op;
use crate::support::outside::{Outside, post};
use crate::support::proof::{shown, times};
use crate::support::world::quick_folder;

/// The promises.
const MEMORY_MAX: u64 = 768 << 20;
const WRITE_MAX: Duration = Duration::from_secs(1);
const GROWTH_FACTOR: u64 = 10;

/// Honest writes of the short form.
const WRITES: usize = 25;

/// The honest account's writes: how long each took until it was accepted, and how often the server was busy for it.
#[derive(Default)]
struct Honest {
    took: Vec<Duration>,
    busy: u64,
    other: u64,
    sent: u64,
}

/// Writes a document at a time, until `is_over` says so.
fn honest(address: SocketAddr, is_over: impl Fn(usize) -> bool) -> Honest {
    let mut honest = Honest::default();
    let mut seq = 0;
    while !is_over(honest.took.len()) {
        seq += 1;
        let bytes = body(
            "honest",
            vec![op(&format!("honest {seq}"), seq, "doc.put", put("Note", &format!("honest {}", seq % 50)))],
        );
        let since = Instant::now();
        loop {
            honest.sent += bytes.len() as u64 + 200;
            let answer = post(address, "honest", &bytes);
            match answer.as_ref().map(|answer| answer.status) {
                Some(200) => {
                    let reply: SyncReply =
                        decode(Format::Msgpack, &answer.unwrap().body, usize::MAX).unwrap();
                    if reply.results.first().is_some_and(|result| result.ok.is_some()) {
                        break;
                    }
                    honest.other += 1;
                }
                Some(503) => honest.busy += 1,
                // Its connection was evicted before its request was read.
                _ => honest.other += 1,
            }
            assert!(since.elapsed() < Duration::from_secs(30), "an honest write finds no end");
        }
        honest.took.push(since.elapsed());
    }
    honest
}

/// The bytes of the pages in use, and of the objects.
fn size_of(folder: &std::path::Path) -> u64 {
    let raw = rusqlite::Connection::open(Engine::database_in(&folder.join("data"))).unwrap();
    raw.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    let number = |pragma: &str| raw.query_row(pragma, [], |row| row.get::<_, u64>(0)).unwrap();
    let pages = (number("PRAGMA page_count") - number("PRAGMA freelist_count")) * number("PRAGMA page_size");
    pages + bytes_in(&folder.join("data").join("files"))
}

fn bytes_in(folder: &std::path::Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let of = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.unwrap().path();
        if path.is_dir() { bytes_in(&path) } else { std::fs::metadata(&path).unwrap().len() }
    };
    entries.map(of).sum()
}

fn start(folder: &std::path::Path) -> Outside {
    let args = ["--tokens", "tokens.json", "--sign-up", "open", "--trusted-proxy", "127.0.0.0/8"];
    Outside::with_schema(folder, SCHEMA, &args)
}

/// The attacks, each by as many callers as it needs. `ATTACKS` names those that are to run, as a look into one of them does.
fn begin(attack: &Attack) {
    let only = std::env::var("ATTACKS").unwrap_or_default();
    let is_on = |name: &str| only.is_empty() || only.split(',').any(|one| one == name);
    let run = |name: &str, count: usize, spawn: &dyn Fn(Attack, usize)| {
        (0..if is_on(name) { count } else { 0 }).for_each(|n| spawn(attack.clone(), n));
    };
    let Size { sockets, silent, slow, .. } = attack.size;
    run("names", 2, &|attack, n| drop(tokio::spawn(attack.names_of_others(n))));
    run("account", 1, &|attack, _| drop(tokio::spawn(attack.empty_attempts())));
    run("made-up", 1, &|attack, _| drop(tokio::spawn(attack.made_up_tokens())));
    run("patches", 1, &|attack, _| drop(tokio::spawn(attack.patches_and_conflicts())));
    run("right", 1, &|attack, _| drop(tokio::spawn(attack.without_right())));
    run("many", 2, &|attack, n| {
        let (org, token) = [("o", "a28"), ("p", "a29")][n];
        drop(tokio::spawn(attack.many_operations(org, token)));
    });
    run("bombs", 1, &|attack, _| drop(tokio::spawn(attack.bombs())));
    run("defs", 8, &|attack, n| drop(tokio::spawn(attack.repeated_defs(n))));
    run("unread", 8, &|attack, n| drop(tokio::spawn(attack.unread(n))));
    run("slow", slow, &|attack, n| drop(tokio::spawn(attack.slow_body(n))));
    run("silent", silent, &|attack, n| drop(tokio::spawn(attack.silent(n))));
    run("doubts", 1 + sockets, &|attack, n| drop(tokio::spawn(attack.doubts(n))));
    run("sockets", sockets, &|attack, n| drop(tokio::spawn(attack.socket(n))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_honest_account_writes_whatever_all_attackers_do_together() {
    let since = Instant::now();
    let seconds = times("ATTACK_SECONDS", 0);
    let is_long = seconds > 0;
    let size = if is_long {
        Size { objects: 300, papers: 100, gone: 10_000, sockets: 100, silent: 600, slow: 192 }
    } else {
        Size { objects: 30, papers: 10, gone: 1_000, sockets: 16, silent: 60, slow: 48 }
    };
    let folder = if is_long { tempfile::tempdir().unwrap() } else { quick_folder() };
    std::fs::write(folder.path().join("tokens.json"), tokens()).unwrap();
    let server = start(folder.path());
    let is_over = Arc::new(AtomicBool::new(false));
    let mut attack = Attack {
        address: server.address,
        size,
        is_over: Arc::clone(&is_over),
        sent: Arc::default(),
        unpaid: Arc::default(),
        statuses: Arc::default(),
    };
    attack.prepare().await;
    server.kill();
    let before = size_of(folder.path());
    let server = start(folder.path());
    attack.address = server.address;
    let (address, quiet) = (server.address, server.memory("VmRSS"));
    let began = Instant::now();
    begin(&attack);
    let writes = tokio::task::spawn_blocking(move || {
        honest(
            address,
            |writes| if is_long { began.elapsed().as_secs() >= seconds } else { writes >= WRITES },
        )
    });
    let mut honest = writes.await.unwrap();
    is_over.store(true, Ordering::Relaxed);
    let (lasted, most, worked) =
        (began.elapsed(), server.memory("VmHWM"), server.worked().unwrap_or_default());
    server.kill();
    let sent = attack.sent.load(Ordering::Relaxed) + honest.sent;
    let grown = size_of(folder.path()).saturating_sub(before);
    let statuses = attack.statuses.lock().unwrap().clone();
    let requests: u64 = statuses.values().sum();

    honest.took.sort_unstable();
    let at = |share: usize| honest.took[(honest.took.len() * share / 100).min(honest.took.len() - 1)];
    let mib = |bytes: Option<u64>| bytes.map_or("?".to_owned(), |bytes| (bytes >> 20).to_string());
    eprintln!("{statuses:?}");
    eprintln!(
        "{lasted:.1?}, of which the server worked {worked:.1?}: {requests} hostile requests of {sent} bytes, and {} bytes that are no \
         whole request; grown by {grown} bytes ({:.2} times); memory {} MiB in quiet, {} at most; {} honest writes, p50 {:.0?}, p99 {:.0?}, the longest {:.0?}, {} busy, {} sent again",
        attack.unpaid.load(Ordering::Relaxed),
        grown as f64 / sent as f64,
        mib(quiet),
        mib(most),
        honest.took.len(),
        at(50),
        at(99),
        at(100),
        honest.busy,
        honest.other
    );
    assert!(most.is_none_or(|most| most <= MEMORY_MAX), "{} MiB", mib(most));
    assert!(grown <= GROWTH_FACTOR * sent, "{sent} bytes added {grown}");
    assert_eq!(honest.busy, 0, "the server was busy for the honest account");
    // Each attack was under way.
    let kinds = [
        "list",
        "references",
        "account",
        "made up",
        "patches",
        "no right",
        "many",
        "bombs",
        "defs",
        "doubts",
    ];
    let missing: Vec<_> =
        kinds.iter().filter(|kind| !statuses.keys().any(|(of, status)| of == *kind && *status > 0)).collect();
    assert!(!is_long || missing.is_empty(), "{missing:?}");
    if is_long {
        assert!(at(99) <= WRITE_MAX, "{:?}", at(99));
        let promise = "all attacks together: honest writes p99 within 1 s and never busy, memory under 768 MiB, growth under 10 times";
        shown("server-attacks", promise, requests, "hostile requests", since);
    }
}
