//! The server is killed (SIGKILL of the real binary, on SQLite and PostgreSQL) while clients write, and so is
//! the server of PostgreSQL. Every acknowledged operation is still there, and none was executed twice. `make kill-server KILLS=100` is the long form.
//!
//! A killed process leaves its writes with the system. The effects of a loss of power are not tested here.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use escale::codec::{Format, Op, SyncReply, SyncRequest, decode, encode};

use crate::support::base::Base;
use crate::support::chance::Chance;
use crate::support::client::PATIENCE;
use crate::support::operating::{key_args, list, map, op, put_args, with};
use crate::support::outside::{post, sync};
use crate::support::proof::{shown, times};
use crate::support::world::*;

const CLIENTS: u64 = 4;

/// Longer than any lock is held, and than a database takes to start.
#[cfg(feature = "postgres")]
const STUCK_AFTER: Duration = Duration::from_secs(60);

/// The state that the clients and the killer share.
#[derive(Default)]
struct Scene {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The server's address; none while no server runs.
    address: Option<SocketAddr>,
    /// The server of each second client, if there are several.
    other: Option<SocketAddr>,
    /// Requests begun, in all.
    requests: u64,
    /// Operations answered, in all.
    answers: u64,
    /// The server that each client waits for.
    asked: BTreeMap<u64, SocketAddr>,
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
            assert!(!waited.timed_out(), "nothing happens any more: {next:?}");
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
        let request = SyncRequest { ops, ..SyncRequest::of(session.clone()) };
        let body = encode(Format::Msgpack, &request).unwrap();
        let mut is_over = false;
        // The same request is sent again until it is answered: to the next server if one was killed.
        let mut tried = None;
        let reply = loop {
            let address = scene.wait(|state| {
                let other = state.other.filter(|_| client % 2 == 1);
                other.or(state.address).filter(|address| tried != Some(*address))
            });
            scene.set(|state| {
                state.requests += 1;
                state.asked.insert(client, address);
                is_over = state.is_over;
            });
            let answer = post(address, "", &body);
            scene.state.lock().unwrap().asked.remove(&client);
            match answer {
                Some(answer) if answer.status == 200 => {
                    break decode::<SyncReply>(Format::Msgpack, &answer.body, usize::MAX).unwrap();
                }
                // The database is away, and the instance says so.
                Some(answer) => assert_eq!(answer.status, 503),
                None => tried = Some(address),
            }
        };
        for (op, result) in request.ops.iter().zip(&reply.results) {
            assert_eq!(op.id, result.id);
            let Some(ok) = &result.ok else {
                let fault = result.fault.as_ref().unwrap();
                // The database is away, or another instance holds the org.
                assert!(["unavailable", "contention"].contains(&&*fault.code), "{fault:?}");
                break;
            };
            let held = *accepted.entry(op.id.clone()).or_insert(ok.v);
            assert_eq!(held, ok.v, "a result does not change");
            next = op.seq + 1;
            scene.set(|state| state.answers += 1);
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

/// Clients that write to the scene's server, each in a thread.
pub(super) struct Clients(Arc<Scene>, Vec<JoinHandle<BTreeMap<String, u64>>>);

impl Clients {
    pub fn begin(chance: &mut Chance) -> Self {
        let scene = Arc::new(Scene::default());
        let client = |client| {
            let (scene, chance) = (Arc::clone(&scene), chance.fork());
            std::thread::spawn(move || write(&scene, client, chance))
        };
        let clients = (0..CLIENTS).map(client).collect();
        Clients(scene, clients)
    }

    /// From now on half of them send to one server, and the others to another one.
    #[cfg(feature = "postgres")]
    pub fn go_to(&self, [address, other]: [SocketAddr; 2]) {
        self.0.set(|state| (state.address, state.other) = (Some(address), Some(other)));
    }

    /// Waits for some requests, then until somewhere during the work of one: small differences in scheduling
    /// decide where.
    pub fn wait_for_some(&self, chance: &mut Chance) {
        let until = self.0.state.lock().unwrap().requests + 1 + chance.below(40);
        self.0.wait(|state| (state.requests >= until).then_some(()));
        let moment = Instant::now() + Duration::from_micros(chance.below(6_000));
        while Instant::now() < moment {
            std::thread::yield_now();
        }
    }

    /// Waits until operations were answered that nobody had an answer to before. Panics if there are none for a minute.
    #[cfg(feature = "postgres")]
    pub fn wait_for_progress(&self) {
        let (since, before) = (Instant::now(), self.0.state.lock().unwrap().answers);
        self.0.wait(|state| {
            assert!(since.elapsed() < STUCK_AFTER, "requests are refused for too long");
            (state.answers >= before + 2 * CLIENTS).then_some(())
        });
    }

    /// Ends the writing, and compares the acknowledged operations with the database.
    pub fn end(self, base: &Base, address: SocketAddr) -> usize {
        let Clients(scene, clients) = self;
        scene.set(|state| {
            (state.address, state.other, state.is_over) = (Some(address), None, true);
        });
        let accepted: BTreeMap<String, u64> =
            clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        let (session, subs) = ("reader", vec![sub(&def("Note"), 0)]);
        let pulled = SyncRequest { subs, ..SyncRequest::of(session) };
        let reply = sync(address, "", &encode(Format::Msgpack, &pulled).unwrap()).unwrap();
        check(base, &accepted, &reply);
        accepted.len()
    }
}

fn kill_instances(base: &Base, id: &str, promise: &str) {
    let since = Instant::now();
    let (kills, folder, mut chance) = (times("KILLS", 5), tempfile::tempdir().unwrap(), Chance::new());
    let clients = Clients::begin(&mut chance);
    for _ in 0..kills {
        let server = base.serve(folder.path());
        clients.0.set(|state| state.address = Some(server.address));
        clients.wait_for_some(&mut chance);
        clients.0.set(|state| state.address = None);
        server.kill();
    }
    let server = base.serve(folder.path());
    let count = clients.end(base, server.address);
    server.kill();
    eprintln!("{count} operations acknowledged over {kills} kills");
    shown(id, promise, kills, "kills", since);
}

#[test]
fn a_server_killed_at_random_loses_nothing_and_does_nothing_twice() {
    let promise = "killed at random, the server loses nothing acknowledged and does nothing twice";
    kill_instances(&Base::Folder(tempfile::tempdir().unwrap()), "server-kills", promise);
}

#[cfg(feature = "postgres")]
#[test]
fn a_server_on_postgres_killed_at_random_loses_nothing_and_does_nothing_twice() {
    let base = Base::postgres(crate::support::postgres::server(), None);
    let promise =
        "killed at random, an instance on PostgreSQL loses nothing acknowledged and does nothing twice";
    kill_instances(&base, "server-kills-postgres", promise);
}

/// The instance stays, and its database is killed under it.
#[cfg(feature = "postgres")]
#[test]
fn a_database_killed_at_random_loses_nothing_and_the_server_goes_on() {
    let since = Instant::now();
    let (kills, folder, mut chance) = (times("KILLS", 5), tempfile::tempdir().unwrap(), Chance::new());
    let postgres = crate::support::postgres::Server::start(&["fsync=on"]);
    let base = Base::postgres(&postgres, None);
    let server = base.serve(folder.path());
    let clients = Clients::begin(&mut chance);
    clients.0.set(|state| state.address = Some(server.address));
    for _ in 0..kills {
        clients.wait_for_some(&mut chance);
        postgres.command("crash");
        postgres.command("go");
    }
    let base = base.again();
    let count = clients.end(&base, server.address);
    server.kill();
    eprintln!("{count} operations acknowledged over {kills} kills");
    let promise = "its PostgreSQL killed at random, the server loses nothing acknowledged and goes on";
    shown("server-kills-database", promise, kills, "kills", since);
    drop(base);
    postgres.command("stop");
}

/// Compares the acknowledged operations with the database: its operations, its journal, and the current
/// documents.
fn check(base: &Base, accepted: &BTreeMap<String, u64>, reply: &SyncReply) {
    let expected: Vec<(String, u64)> = accepted.iter().map(|(id, v)| (id.clone(), *v)).collect();
    assert_eq!(base.operations(), expected, "each once, at its version");
    let mut causes: Vec<_> = base.journal().into_iter().map(|([_, cause, ..], _, v)| (cause, v)).collect();
    causes.sort();
    assert_eq!(causes, expected, "each done once");
    base.check();
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
