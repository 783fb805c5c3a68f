//! One org is flooded with writes, on PostgreSQL, and another org goes on: its writes wait for nobody else's, and
//! none is refused. The times are printed. They also show the load of the machine, which all of this shares.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use escale::codec::SyncRequest;
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use super::figures::Times;
use super::follower::ask_in;
use crate::support::base::Base;
use crate::support::operating::{op, put_args};
use crate::support::outside::Outside;
use crate::support::postgres::Server;

/// Sessions that write to one org without a pause: as many as may wait for it.
const WRITERS: usize = 64;

/// Writes one document. Returns whether it was executed; if not, other writes held the org.
async fn write(address: SocketAddr, org: &str, session: &str, seq: u64) -> bool {
    let args = put_args(session, &seq.to_string());
    let ops = vec![op(&format!("{session}-{seq}"), seq, "doc.put", args)];
    let reply = ask_in(org, address, session, &SyncRequest { ops, ..SyncRequest::of(session) }).await;
    reply.is_ok_and(|reply| reply.results[0].ok.is_some())
}

/// The times of some writes of the calm org, one after another.
async fn calm(address: SocketAddr, seqs: std::ops::Range<u64>) -> Times {
    let mut times = Times::default();
    for seq in seqs {
        let since = Instant::now();
        assert!(write(address, "calm", "calm", seq).await, "a write of the calm org is never refused");
        times.add(since.elapsed());
    }
    times
}

#[test]
fn a_flood_of_writes_in_one_org_leaves_another_org_its_turn() {
    let is_long = std::env::var("SOCKETS").is_ok_and(|text| !text.is_empty());
    let count = if is_long { 1_000 } else { 50 };
    let postgres = Server::start(&["fsync=on"]);
    let base = Base::postgres(&postgres, None);
    let folder = tempfile::tempdir().unwrap();
    let names = (0..WRITERS).map(|n| format!("flood-{n}")).chain(["calm".to_owned()]);
    let token = |name: String| {
        format!(r#""{name}": {{"account": "{name}", "orgs": ["calm", "flooded"], "role": "write"}}"#)
    };
    let tokens: Vec<String> = names.map(token).collect();
    std::fs::write(folder.path().join("tokens.json"), format!("{{{}}}", tokens.join(","))).unwrap();
    let server = base.serve_with(folder.path(), &["--tokens", "tokens.json"]);
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(play(server.address, count));
    Outside::kill(server);
    drop(base);
    postgres.command("stop");
}

async fn play(address: SocketAddr, count: u64) {
    calm(address, 1..20).await;
    let alone = calm(address, 20..20 + count).await;
    let (is_over, flooded) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut writers = JoinSet::new();
    for n in 0..WRITERS {
        let (is_over, flooded) = (Arc::clone(&is_over), Arc::clone(&flooded));
        writers.spawn(async move {
            let session = format!("flood-{n}");
            let mut seq = 1;
            while !is_over.load(Ordering::Relaxed) {
                if write(address, "flooded", &session, seq).await {
                    seq += 1;
                    flooded.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
    }
    while flooded.load(Ordering::Relaxed) < WRITERS as u64 {
        tokio::task::yield_now().await;
    }
    let (since, before) = (Instant::now(), flooded.load(Ordering::Relaxed));
    let with_flood = calm(address, 20 + count..20 + 2 * count).await;
    let rate = (flooded.load(Ordering::Relaxed) - before) as f64 / since.elapsed().as_secs_f64();
    is_over.store(true, Ordering::Relaxed);
    while writers.join_next().await.is_some() {}
    eprintln!("crowd: a write alone: {alone}; with {rate:.0} writes a second in another org: {with_flood}");
}
