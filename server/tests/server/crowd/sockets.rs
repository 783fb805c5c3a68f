//! Sockets of many sessions at one instance: they open together, hear of writes, and come back after the instance was
//! killed. Nobody misses a write. With `SOCKETS`, as `make crowd` has it, the figures are measured and held to the
//! bounds; a short run in a busy machine only prints them.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use escale::codec::SyncRequest;
use escale::model::{Def, Pk};
use tokio::runtime::Builder;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

use super::figures::Times;
use super::follower::{By, Event, Noted, Plan, ask, follow};
use crate::support::operating::{op, put_args, with};
use crate::support::outside::Outside;
use crate::support::proof::{shown, times};
use crate::support::world::*;

/// Sessions that follow one shelf.
const GROUP: usize = 20;

/// Defs of each session: the shelf that all follow, that of its group, a document, and shelves of its own.
const OWN_SHELVES: usize = 5;
const ALL: usize = 0;
const OF_GROUP: usize = 1;

/// Writes of a second, each of which twenty sessions follow, and for how long.
const WRITES_A_SECOND: u64 = 15;
const STEADY: Duration = Duration::from_secs(15);

/// A wait in vain.
const LONGEST: Duration = Duration::from_secs(180);

struct Crowd {
    server: Option<Outside>,
    folder: tempfile::TempDir,
    address: SocketAddr,
    sessions: usize,
    events: UnboundedReceiver<Noted>,
    sender: UnboundedSender<Noted>,
    tasks: JoinSet<()>,
    /// Operations of the writer so far.
    last: u64,
    refused: HashMap<u16, usize>,
}

/// A write: its version, and the times at which it was sent and answered.
#[derive(Clone, Copy)]
struct Written {
    v: u64,
    sent: Instant,
}

fn plan(number: usize, address: SocketAddr) -> Plan {
    let own = (0..OWN_SHELVES).map(|n| shelf(&format!("own-{number}-{n}")));
    let document: Def =
        format!("Note@{}", Pk::from_key(&[&format!("note-{number}")]).unwrap()).parse().unwrap();
    let subs = [shelf("all"), shelf(&format!("group-{}", number / GROUP)), document];
    Plan { number, address, token: format!("token-{number}"), subs: subs.into_iter().chain(own).collect() }
}

impl Crowd {
    fn new(sessions: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let token = |name: String, account: String| {
            format!(r#""{name}": {{"account": "{account}", "orgs": ["o"], "role": "write"}}"#)
        };
        // The newcomers have numbers of their own.
        let tokens = (0..sessions + 1_000).map(|n| token(format!("token-{n}"), format!("account-{n}")));
        let all: Vec<String> = tokens.chain([token("writer".into(), "writer".into())]).collect();
        std::fs::write(folder.path().join("tokens.json"), format!("{{{}}}", all.join(","))).unwrap();
        let server = Self::start(&folder, "127.0.0.1:0");
        let (sender, events) = unbounded_channel();
        Crowd {
            address: server.address,
            server: Some(server),
            folder,
            sessions,
            events,
            sender,
            tasks: JoinSet::new(),
            last: 0,
            refused: HashMap::new(),
        }
    }

    /// Starts the server of `CROWD_SERVER`, or that of the tests.
    fn start(folder: &tempfile::TempDir, listen: &str) -> Outside {
        Outside::start_at(folder.path(), "data", listen, &["--tokens", "tokens.json"])
    }

    fn server(&self) -> &Outside {
        self.server.as_ref().unwrap()
    }

    fn join(&mut self, number: usize) {
        self.tasks.spawn(follow(plan(number, self.address), self.sender.clone()));
    }

    async fn next(&mut self) -> Noted {
        let noted = tokio::time::timeout(LONGEST, self.events.recv()).await.expect("an event").unwrap();
        if let Event::Refused(code) = noted.1 {
            *self.refused.entry(code).or_default() += 1;
        }
        noted
    }

    /// Waits until all of these sessions have the event. Returns when the last one had it.
    async fn all(&mut self, sessions: std::ops::Range<usize>, is: impl Fn(&Event) -> bool) -> Instant {
        let mut missing: HashSet<usize> = sessions.collect();
        let mut last = Instant::now();
        while !missing.is_empty() {
            let (number, event, at) = self.next().await;
            if is(&event) && missing.remove(&number) {
                last = at;
            }
        }
        last
    }

    /// Writes a document of that shelf.
    async fn write(&mut self, name: &str) -> Written {
        let sent = Instant::now();
        self.last += 1;
        let (seq, id) = (self.last, format!("write-{}", self.last));
        let args = put_args(name, name);
        let data = with(args.as_map().unwrap()["data"].clone(), "text", &*id);
        let ops = vec![op(&id, seq, "doc.put", with(args, "data", data))];
        let reply =
            ask(self.address, "writer", &SyncRequest { ops, ..SyncRequest::of("writer") }).await.unwrap();
        Written { v: reply.results[0].ok.as_ref().unwrap().v, sent }
    }

    /// Waits until each of these sessions knows the write. Adds how long it took, by the way in which it came.
    async fn reaches(&mut self, written: &[(Written, std::ops::Range<usize>, usize)]) -> HashMap<By, Times> {
        let mut times: HashMap<By, Times> = HashMap::new();
        let mut missing: HashMap<(usize, usize), Vec<Written>> = HashMap::new();
        for (written, sessions, def) in written {
            for number in sessions.clone() {
                missing.entry((number, *def)).or_default().push(*written);
            }
        }
        let mut pulled = missing.clone();
        while !missing.is_empty() || !pulled.is_empty() {
            let (number, event, at) = self.next().await;
            let Event::Heard { def, v, by } = event else { continue };
            // A push brings the row, so nothing is left to pull.
            let waiting = match by {
                By::Hint => vec![&mut missing],
                By::Push => vec![&mut missing, &mut pulled],
                By::Pull => vec![&mut pulled],
            };
            let mut is_first = true;
            for waiting in waiting {
                let Some(of_session) = waiting.get_mut(&(number, def)) else { continue };
                of_session.retain(|written| {
                    let is_known = written.v <= v;
                    if is_known && is_first {
                        times.entry(by).or_default().add(at.saturating_duration_since(written.sent));
                    }
                    !is_known
                });
                is_first = false;
                if of_session.is_empty() {
                    waiting.remove(&(number, def));
                }
            }
        }
        times
    }

    fn group(&self, group: usize) -> std::ops::Range<usize> {
        group * GROUP..((group + 1) * GROUP).min(self.sessions)
    }
}

fn say(line: &str) {
    eprintln!("crowd: {line}");
}

fn seconds(since: Instant, at: Instant) -> f64 {
    at.saturating_duration_since(since).as_secs_f64()
}

fn say_times(name: &str, times: &HashMap<By, Times>) {
    for by in [By::Hint, By::Push, By::Pull] {
        if let Some(times) = times.get(&by) {
            say(&format!("{name}: {} times by {by:?}, {times}", times.len()));
        }
    }
}

#[test]
fn a_crowd_of_sockets_misses_nothing_and_comes_back_after_a_kill() {
    let since = Instant::now();
    let is_long = std::env::var("SOCKETS").is_ok_and(|text| !text.is_empty());
    let sessions = times("SOCKETS", 300) as usize;
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(play(sessions, is_long));
    let promise = "sockets of a crowd hear of every write, and come back after a kill";
    shown("crowd", promise, sessions as u64, "sockets", since);
}

async fn play(sessions: usize, is_long: bool) {
    let mut crowd = Crowd::new(sessions);
    crowd.write("all").await;
    let empty = crowd.server().memory("VmRSS");

    let began = Instant::now();
    (0..sessions).for_each(|number| crowd.join(number));
    let live = crowd.all(0..sessions, |event| matches!(event, Event::Live)).await;
    let connected = seconds(began, live);
    say(&format!("{sessions} sockets open and confirmed after {connected:.1} s"));

    // A write to a small shelf, over and over; then one that all follow. Everybody has pulled its defs by then.
    let groups = sessions.div_ceil(GROUP);
    let mut written = Vec::new();
    let writes = if is_long { STEADY.as_secs() * WRITES_A_SECOND } else { 20 };
    let mut idle = None;
    if is_long {
        // First the pulls of the beginning end.
        crowd.quiet().await;
        let (before, worked) = (Instant::now(), crowd.server().worked());
        crowd.quiet().await;
        idle = worked
            .zip(crowd.server().worked())
            .map(|(a, b)| b.saturating_sub(a).as_secs_f64() / before.elapsed().as_secs_f64());
    }
    let full = crowd.server().memory("VmRSS");
    let each = empty.zip(full).map_or(0, |(a, b)| b.saturating_sub(a) / sessions as u64);
    say(&format!(
        "memory: {} KiB for each socket; idle {:.1} % of a core",
        each >> 10,
        idle.unwrap_or(0.0) * 100.0
    ));
    let mut ticks = tokio::time::interval(Duration::from_millis(1_000 / WRITES_A_SECOND));
    for n in 0..writes as usize {
        ticks.tick().await;
        let group = n * 7 % groups;
        let one = crowd.write(&format!("group-{group}")).await;
        written.push((one, crowd.group(group), OF_GROUP));
    }
    let steady = crowd.reaches(&written).await;
    say_times("written to twenty", &steady);
    let one = crowd.write("all").await;
    let all = crowd.reaches(&[(one, 0..sessions, ALL)]).await;
    say_times("written to all", &all);

    // Killed, and started again at the same address. Newcomers open while all others come back.
    let listen = crowd.address.to_string();
    crowd.server.take().unwrap().kill();
    let while_away = Instant::now();
    let server = Crowd::start(&crowd.folder, &listen);
    crowd.server = Some(server);
    let newcomers = newcomers(crowd.address, sessions, if is_long { 10 } else { 2 });
    let (back, newcomers) =
        tokio::join!(crowd.all(0..sessions, |event| matches!(event, Event::Live)), newcomers);
    let back = seconds(while_away, back);
    say(&format!(
        "killed: all {sessions} are back after {back:.1} s; newcomers had their data after {newcomers}"
    ));
    let one = crowd.write("all").await;
    let after = crowd.reaches(&[(one, 0..sessions, ALL)]).await;
    say_times("written to all after the kill", &after);
    let peak = crowd.server().memory("VmHWM").unwrap_or(0);
    say(&format!("memory: {} MiB at most after the kill; refused {:?}", peak >> 20, crowd.refused));

    if is_long {
        assert!(connected <= 60.0 && back <= 60.0, "{connected} s, {back} s");
        assert!(each <= 60 << 10, "{each} bytes for each socket");
        assert!(idle.is_none_or(|idle| idle <= 0.2), "{idle:?} of a core");
        assert!(newcomers.within(1_000) <= Duration::from_secs(1), "{newcomers}");
    }
}

impl Crowd {
    /// Waits until nothing has happened for ten seconds: more than a sign of life takes.
    async fn quiet(&mut self) {
        while let Ok(noted) = tokio::time::timeout(Duration::from_secs(10), self.events.recv()).await {
            if let Event::Refused(code) = noted.unwrap().1 {
                *self.refused.entry(code).or_default() += 1;
            }
        }
    }
}

/// Sessions that open for the first time, one a second. A session loads its defs without waiting for its socket.
async fn newcomers(address: SocketAddr, sessions: usize, count: usize) -> Times {
    let mut times = Times::default();
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    for n in 0..count {
        ticks.tick().await;
        let Plan { token, subs, .. } = plan(sessions + n, address);
        let subs = subs.iter().map(|def| sub(def, 0)).collect();
        let request = SyncRequest { subs, ..SyncRequest::of(format!("newcomer-{n}")) };
        let since = Instant::now();
        // The instance may not listen yet, or have too much to do: a session asks again.
        while ask(address, &token, &request).await.is_err() {
            tokio::task::yield_now().await;
        }
        times.add(since.elapsed());
    }
    times
}
