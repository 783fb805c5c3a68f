//! The server is killed (SIGKILL of the real binary, on SQLite) while clients write. Every acknowledged
//! operation is still there, and none was executed twice. `make kill-server KILLS=100` is the long form.
//!
//! A killed process leaves its writes with the system. The effects of a loss of power are not tested here.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use escale::codec::{Format, Op, SyncReply, SyncRequest, encode};
use escale_server::engine::Engine;
use rusqlite::Connection;

use crate::support::chance::Chance;
use crate::support::client::PATIENCE;
use crate::support::operating::{key_args, list, map, op, put_args, with};
use crate::support::outside::{Outside, sync};
use crate::support::proof::{shown, times};
use crate::support::world::*;

const CLIENTS: u64 = 4;

/// The state that the clients and the killer share.
#[derive(Default)]
struct Scene {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The server's address; none while no server runs.
    address: Option<SocketAddr>,
    /// Requests begun, in all.
    requests: u64,
    /// Once it is set, clients begin no further operation after the current one is answered.
    is_over: bool,
}

impl Scene {
    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap());
        self.changed.notify_all();
    }

    fn wait<T>(&self, mut ready: impl FnMut(&mut State) -> Option<T>) -> T {
        let mut state = self.state.lock().unwrap();
        loop {
            if let Some(found) = ready(&mut state) {
                return found;
            }
            let (next, waited) = self.changed.wait_timeout(state, PATIENCE).unwrap();
            assert!(!waited.timed_out(), "nothing happens any more");
            state = next;
        }
    }
}

/// Writes until the scene is over. Each document is first created (it must not exist), then edited on the
/// version that its creation gave. Returns the version of each operation, by its id.
fn write(scene: &Scene, client: u64, mut chance: Chance) -> BTreeMap<String, u64> {
    let session = format!("session-{client}");
    let mut accepted = BTreeMap::new();
    let mut next = 1;
    loop {
        let n = 1 + chance.below(8);
        let ops: Vec<Op> = (next..next + n).map(|seq| operation(client, seq)).collect();
        let request = SyncRequest { p: 1, session: session.clone(), epoch: None, ops, subs: Vec::new() };
        let body = encode(Format::Msgpack, &request).unwrap();
        let mut is_over = false;
        // The same request is sent again until it is answered: to the next server if one was killed.
        let mut tried = None;
        let reply = loop {
            let address = scene.wait(|state| state.address.filter(|address| tried != Some(*address)));
            scene.set(|state| {
                state.requests += 1;
                is_over = state.is_over;
            });
            if let Some(reply) = sync(address, "", &body) {
                break reply;
            }
            tried = Some(address);
        };
        for (op, result) in request.ops.iter().zip(&reply.results) {
            assert_eq!(op.id, result.id);
            let ok = result.ok.as_ref().unwrap_or_else(|| panic!("{result:?}"));
            let held = *accepted.entry(op.id.clone()).or_insert(ok.v);
            assert_eq!(held, ok.v, "a result does not change");
            next = op.seq + 1;
        }
        if is_over {
            return accepted;
        }
    }
}

/// Odd numbers create a document, even ones edit it. Executed twice, either would be a conflict.
fn operation(client: u64, seq: u64) -> Op {
    let id = |seq: u64| format!("op-{client}-{seq}");
    let document = format!("{client}-{}", seq.div_ceil(2));
    if seq % 2 == 1 {
        return op(&id(seq), seq, "doc.put", with(put_args(&document, "one"), "ifVersion", 0));
    }
    let set = with(
        with(key_args(&document), "key", list(&[&*document])),
        "set",
        map([("size".to_owned(), (seq as i64).into())].into()),
    );
    let made: escale::model::Value = [("op", escale::model::Value::from(&*id(seq - 1)))].into();
    op(&id(seq), seq, "doc.patch", with(set, "ifVersion", made))
}

#[test]
fn a_server_killed_at_random_loses_nothing_and_does_nothing_twice() {
    let since = Instant::now();
    let kills = times("KILLS", 5);
    let folder = tempfile::tempdir().unwrap();
    let mut chance = Chance::new();
    let scene = Arc::new(Scene::default());
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (scene, chance) = (Arc::clone(&scene), chance.fork());
            std::thread::spawn(move || write(&scene, client, chance))
        })
        .collect();
    for _ in 0..kills {
        let server = Outside::start(folder.path(), &[]);
        let until = scene.state.lock().unwrap().requests + 1 + chance.below(40);
        scene.set(|state| state.address = Some(server.address));
        scene.wait(|state| (state.requests >= until).then_some(()));
        // Somewhere during the work of that request: small differences in scheduling decide where.
        let moment = Instant::now() + Duration::from_micros(chance.below(6_000));
        while Instant::now() < moment {
            std::thread::yield_now();
        }
        scene.set(|state| state.address = None);
        server.kill();
    }
    let server = Outside::start(folder.path(), &[]);
    let address = server.address;
    scene.set(|state| (state.address, state.is_over) = (Some(address), true));
    let accepted: BTreeMap<String, u64> =
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
    let pulled = SyncRequest {
        p: 1,
        session: "reader".into(),
        epoch: None,
        ops: Vec::new(),
        subs: vec![sub(&def("Note"), 0)],
    };
    let reply = sync(address, "", &encode(Format::Msgpack, &pulled).unwrap()).unwrap();
    server.kill();
    check(folder.path(), &accepted, &reply);
    eprintln!("{} operations acknowledged over {kills} kills", accepted.len());
    let promise = "killed at random, the server loses nothing acknowledged and does nothing twice";
    shown("server-kills", promise, kills, "kills", since);
}

/// Compares the acknowledged operations with the database: its operations, its journal, and the current
/// documents.
fn check(folder: &Path, accepted: &BTreeMap<String, u64>, reply: &SyncReply) {
    let connection = Connection::open(Engine::database_in(&folder.join("data"))).unwrap();
    let query = |sql: &str| -> Vec<(String, u64)> {
        let mut statement = connection.prepare(sql).unwrap();
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect()
    };
    let expected: Vec<(String, u64)> = accepted.iter().map(|(id, v)| (id.clone(), *v)).collect();
    assert_eq!(query("SELECT id, v FROM ops ORDER BY id"), expected, "each once, at its version");
    assert_eq!(query("SELECT commitId, version FROM actions ORDER BY commitId"), expected, "each done once");
    let sound: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
    // The version of a document is that of the last operation on it.
    let mut documents: BTreeMap<String, u64> = BTreeMap::new();
    for (id, v) in accepted {
        let (client, seq) = id.strip_prefix("op-").unwrap().split_once('-').unwrap();
        let document = format!("{client}-{}", seq.parse::<u64>().unwrap().div_ceil(2));
        let last = documents.entry(document).or_default();
        *last = v.max(last).to_owned();
    }
    let part = &reply.parts[0];
    let held: BTreeMap<String, u64> = ids(part).into_iter().zip(part.rows.iter().map(|row| row.v)).collect();
    let is_whole = part.next.is_none();
    assert_eq!(held.len(), part.rows.len());
    assert!(held.iter().all(|(id, v)| documents.get(id) == Some(v)));
    assert_eq!(held.len() == documents.len(), is_whole, "all of them, or the first page");
    assert_eq!(part.total, Some(documents.len() as u64));
}
