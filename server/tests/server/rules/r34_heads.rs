//! R34 to R38: each org has its own lock, time and epoch. Three instances write three orgs, on SQLite and in
//! memory; their clocks disagree and are set back. Epochs are renewed for one org or for all. A write of an
//! org moves no other org's head.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use escale::codec::{SyncReply, SyncRequest};
use escale::model::Epoch;
use escale::model::schema::Schema;
use escale::{Code, Kind};
use escale_server::clock::{Clock, ManualClock};
use escale_server::engine::{Engine, Opening, TRIES_MAX, renew_epoch};
use escale_server::mark::{Mark, MemoryMark};
use escale_server::provider::{Head, MemoryDatabase, MemoryProvider};
use escale_server::seal::Seal;
use escale_server::settings::Settings;
use proptest::prelude::*;

use crate::support::cluster::{SKEW, settings};
use crate::support::operating::{op, put_args, send_to, told, with};
use crate::support::world::*;

const ORGS: [&str; 3] = ["o", "p", "q"];

#[derive(Clone, Copy, Debug)]
enum Step {
    Put {
        at: usize,
        org: usize,
        id: u8,
    },
    Delete {
        at: usize,
        org: usize,
        id: u8,
    },
    /// Three operations, the second of which is refused.
    Operate {
        at: usize,
        org: usize,
        id: u8,
    },
    /// A write of an org during which another instance answers for an org, and writes it if the database
    /// allows that.
    During {
        at: usize,
        org: usize,
        id: u8,
        other: usize,
    },
    Ask {
        at: usize,
        org: usize,
    },
    Pass {
        ms: u64,
    },
    SetBack {
        at: usize,
        ms: u64,
    },
    Restart {
        at: usize,
    },
    Renew {
        org: Option<usize>,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let at = || 0..3_usize;
    prop_oneof![
        8 => (at(), at(), 0..4_u8).prop_map(|(at, org, id)| Step::Put { at, org, id }),
        2 => (at(), at(), 0..4_u8).prop_map(|(at, org, id)| Step::Delete { at, org, id }),
        4 => (at(), at(), 0..4_u8).prop_map(|(at, org, id)| Step::Operate { at, org, id }),
        5 => (at(), at(), 0..4_u8, at())
            .prop_map(|(at, org, id, other)| Step::During { at, org, id, other }),
        8 => (at(), at()).prop_map(|(at, org)| Step::Ask { at, org }),
        5 => (0..3_000_u64).prop_map(|ms| Step::Pass { ms }),
        3 => (at(), 0..10_000_u64).prop_map(|(at, ms)| Step::SetBack { at, ms }),
        1 => at().prop_map(|at| Step::Restart { at }),
        2 => prop::option::of(at()).prop_map(|org| Step::Renew { org }),
    ]
}

/// A database with three instances.
struct Site {
    clocks: Vec<Arc<ManualClock>>,
    engines: Vec<Engine>,
    folder: tempfile::TempDir,
    memory: Option<(Arc<MemoryDatabase>, Arc<MemoryMark>)>,
}

impl Site {
    fn new(in_memory: bool) -> Self {
        let clocks: Vec<_> = [0, SKEW / 2, SKEW].map(|ahead| ManualClock::at(NOON + ahead)).into();
        let first = escale_server::engine::first_site(NOON).unwrap();
        let memory = in_memory.then(|| (MemoryDatabase::new(first), Arc::default()));
        let mut site = Site { clocks, engines: Vec::new(), folder: quick_folder(), memory };
        site.engines = (0..3).map(|at| site.open(at)).collect();
        site
    }

    fn open(&self, at: usize) -> Engine {
        let settings = Settings { write_wait: Duration::ZERO, ..settings() };
        let schema = Schema::from_json(SCHEMA).unwrap();
        let opening = Opening { schema, settings, seal: Seal::clear(), clock: self.clocks[at].clone() };
        match &self.memory {
            None => Engine::open(self.folder.path(), opening).unwrap(),
            Some((database, mark)) => {
                let provider = Box::new(MemoryProvider::open(database));
                Engine::over(provider, Mark::in_memory(mark), opening, 7).unwrap()
            }
        }
    }

    fn mark(&self) -> Mark {
        match &self.memory {
            None => Mark::next_to(&Engine::database_in(self.folder.path())),
            Some((_, mark)) => Mark::in_memory(mark),
        }
    }

    fn heads(&self) -> BTreeMap<String, Head> {
        self.engines[0].provider().read().unwrap().heads("", 9).unwrap().into_iter().collect()
    }
}

fn ask_for(engine: &Engine, org: &str) -> SyncReply {
    let subs = vec![sub(&def("Note"), 0)];
    let request = SyncRequest { subs, ..SyncRequest::of("s") };
    engine.sync(org, &caller(), &request).unwrap()
}

/// One org, as seen from outside.
#[derive(Default)]
struct Seen {
    /// The number of the last write of each document.
    documents: BTreeMap<String, u64>,
    last: u64,
    /// The highest `v` that an answer let a session reach.
    reached: u64,
    epoch: Option<Epoch>,
    operations: u64,
}

struct Story {
    site: Site,
    seen: [Seen; 3],
    writes: u64,
}

impl Story {
    fn committed(&mut self, org: usize, id: &str, write: Option<u64>, v: u64) {
        let seen = &mut self.seen[org];
        assert!(v > seen.last, "R35: {v} after {} in {}", seen.last, ORGS[org]);
        assert!(v >= seen.reached, "R4: {v} commits below {} in {}", seen.reached, ORGS[org]);
        seen.last = v;
        match write {
            Some(write) => seen.documents.insert(id.to_owned(), write),
            None => seen.documents.remove(id),
        };
    }

    fn hear(&mut self, org: usize, reply: &SyncReply) {
        let seen = &mut self.seen[org];
        seen.reached = seen.reached.max(reply.now.saturating_sub(reply.delta));
        let held = seen.epoch.get_or_insert_with(|| reply.epoch.clone());
        assert_eq!(*held, reply.epoch, "R37: only a renewal ends the epoch of {}", ORGS[org]);
    }

    fn document(&mut self, id: &str) -> BTreeMap<String, escale::model::Value> {
        self.writes += 1;
        let mut map = note(id, "one");
        map.insert("size".into(), escale::model::Value::from(self.writes as i64));
        map
    }

    fn put(&mut self, at: usize, org: usize, id: u8, during: Option<usize>) {
        let id = id.to_string();
        let (map, write) = (self.document(&id), self.writes);
        let other = during.map(|other| (other, self.document("other"), self.writes));
        let Story { site, .. } = self;
        let mut met = None;
        let written = site.engines[at].write(ORGS[org], |w| {
            let outcome = w.put("Note", map.clone())?;
            if let Some((other, map, _)) = &other {
                let engine = &site.engines[(at + 1) % 3];
                let reply = ask_for(engine, ORGS[*other]);
                let wrote = engine.write(ORGS[*other], |w| w.put("Note", map.clone()));
                let is_free = site.memory.is_some() && *other != org;
                match &wrote {
                    Ok(_) => assert!(is_free),
                    Err(error) => assert!(!is_free && error.code() == Code::Contention, "R34: {error}"),
                }
                met = Some((reply, wrote.ok().and_then(|written| written.v)));
                site.clocks.iter().for_each(|clock| clock.advance(400));
            }
            Ok(outcome)
        });
        let v = written.unwrap().v.unwrap();
        if let (Some((reply, v)), Some((other, _, write))) = (met, other) {
            self.hear(other, &reply);
            if let Some(v) = v {
                self.committed(other, "other", Some(write), v);
            }
        }
        self.committed(org, &id, Some(write), v);
    }

    fn operate(&mut self, at: usize, org: usize, id: u8) {
        let id = id.to_string();
        let first = self.seen[org].operations + 1;
        let mut ops = Vec::new();
        let mut writes = Vec::new();
        for n in 0..3 {
            let mut args = put_args(&id, "one");
            if let Some(map) = args.as_map() {
                let data = self.document(&id);
                let mut map = map.clone();
                map.insert("data".into(), escale::model::Value::Map(data));
                args = escale::model::Value::Map(map);
            }
            writes.push(self.writes);
            let args = if n == 1 { with(args, "ifVersion", 1) } else { args };
            ops.push(op(&format!("{org}-{}", first + n), first + n, "doc.put", args));
        }
        let before = self.site.heads().get(ORGS[org]).map_or(0, |head| head.commits);
        let reply = send_to(&self.site.engines[at], ORGS[org], "s", ops);
        let codes: Vec<&str> = told(&reply).into_iter().map(|(_, code)| code).collect();
        assert_eq!(codes, ["ok", "version_conflict", "ok"]);
        self.seen[org].operations += 3;
        for n in [0, 2] {
            let v = reply.results[n].ok.as_ref().unwrap().v;
            self.committed(org, &id, Some(writes[n]), v);
        }
        assert!(self.site.heads()[ORGS[org]].commits > before);
        self.hear(org, &reply);
    }

    fn renew(&mut self, org: Option<usize>) {
        let name = org.map(|org| ORGS[org]);
        let heads = self.site.heads();
        let time = self.site.clocks[0].now_ms();
        let provider = self.site.engines[0].provider();
        let renewed = renew_epoch(provider, &self.site.mark(), name, (time, 9));
        if let Some(name) = name.filter(|name| !heads.contains_key(*name)) {
            assert_eq!(renewed.unwrap_err().code(), Code::BadOption, "nothing was written in {name}");
            return;
        }
        let renewed = renewed.unwrap();
        for (at, seen) in self.seen.iter_mut().enumerate() {
            if org.is_none_or(|org| org == at) {
                assert!(seen.epoch.as_ref().is_none_or(|epoch| *epoch < renewed), "R8: it is later");
                seen.epoch = Some(renewed.clone());
            }
        }
    }

    fn play(&mut self, step: Step) {
        let before = self.site.heads();
        let mut touched: Vec<usize> = Vec::new();
        match step {
            Step::Put { at, org, id } => {
                self.put(at, org, id, None);
                touched.push(org);
            }
            Step::During { at, org, id, other } => {
                self.put(at, org, id, Some(other));
                touched.extend([org, other]);
            }
            Step::Delete { at, org, id } => {
                let id = id.to_string();
                let deleted = self.site.engines[at].write(ORGS[org], |w| w.delete("Note", &key(&id)));
                assert_eq!(deleted.is_ok(), self.seen[org].documents.contains_key(&id));
                if let Ok(written) = deleted {
                    self.committed(org, &id, None, written.v.unwrap());
                }
                touched.push(org);
            }
            Step::Operate { at, org, id } => {
                self.operate(at, org, id);
                touched.push(org);
            }
            Step::Ask { at, org } => {
                let reply = ask_for(&self.site.engines[at], ORGS[org]);
                self.hear(org, &reply);
                touched.push(org);
            }
            Step::Pass { ms } => self.site.clocks.iter().for_each(|clock| clock.advance(ms)),
            Step::SetBack { at, ms } => {
                let clock = &self.site.clocks[at];
                clock.set(clock.now_ms() - ms);
            }
            Step::Restart { at } => self.site.engines[at] = self.site.open(at),
            Step::Renew { org } => {
                self.renew(org);
                touched.extend(org.map_or_else(|| vec![0, 1, 2], |org| vec![org]));
            }
        }
        let after = self.site.heads();
        for (org, name) in ORGS.iter().enumerate().filter(|(org, _)| !touched.contains(org)) {
            assert_eq!(before.get(*name), after.get(*name), "R34: {step:?} moved the head of org {org}");
        }
    }

    fn check_end(&self) {
        for engine in &self.site.engines {
            for (seen, org) in self.seen.iter().zip(ORGS) {
                let mut found = BTreeMap::new();
                let mut subs = vec![sub(&def("Note"), 0)];
                while let Some(next) = subs.pop() {
                    let request = SyncRequest { subs: vec![next.clone()], ..SyncRequest::of("s") };
                    let part = engine.sync(org, &caller(), &request).unwrap().parts.remove(0);
                    for row in part.rows.iter().filter_map(|row| row.data.as_ref()) {
                        let map = row.to_map().unwrap();
                        let id = map["id"].as_str().unwrap().to_owned();
                        found.insert(id, map["size"].as_u64().unwrap());
                    }
                    subs.extend(part.next.map(|cursor| escale::codec::Sub { cursor: Some(cursor), ..next }));
                }
                assert_eq!(found, seen.documents, "the documents of {org}");
            }
        }
    }
}

fn run(in_memory: bool, steps: &[Step]) {
    let mut story = Story { site: Site::new(in_memory), seen: Default::default(), writes: 0 };
    for step in steps {
        story.play(*step);
    }
    story.check_end();
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn r34_orgs_keep_their_own_time_and_epoch_whatever_happens_in_others(
        in_memory in any::<bool>(), steps in prop::collection::vec(step(), 1..80)
    ) {
        run(in_memory, &steps);
    }
}

/// A clock that another instance overtakes: when it is read, that instance makes the org's first write, and
/// then time passes.
struct Overtaken {
    clock: Arc<ManualClock>,
    other: Engine,
    is_due: AtomicBool,
}

impl Clock for Overtaken {
    fn now_ms(&self) -> u64 {
        if self.is_due.swap(false, Ordering::SeqCst) {
            self.other.write("fresh", |w| w.put("Note", note("first", "one"))).unwrap();
            self.clock.advance(20_000);
        }
        self.clock.now_ms()
    }

    fn elapsed_ms(&self) -> u64 {
        self.clock.elapsed_ms()
    }

    fn pass(&self, ms: u64) -> bool {
        self.clock.pass(ms)
    }
}

fn open_by(folder: &Path, clock: Arc<dyn Clock>) -> Engine {
    let (schema, settings) = (Schema::from_json(SCHEMA).unwrap(), Settings::default());
    Engine::open(folder, Opening { schema, settings, seal: Seal::clear(), clock }).unwrap()
}

/// The org has no head when `now` is made, and has one in the snapshot.
#[test]
fn r36_a_first_write_between_now_and_the_snapshot_does_not_lower_later_ones() {
    let (folder, real) = (quick_folder(), ManualClock::at(NOON));
    let other = open_by(folder.path(), real.clone());
    let clock = Arc::new(Overtaken { clock: real.clone(), other, is_due: AtomicBool::new(false) });
    let engine = open_by(folder.path(), clock.clone());
    clock.is_due.store(true, Ordering::SeqCst);
    let reply = ask_for(&engine, "fresh");
    assert_eq!(
        (reply.parts[0].rows.len(), reply.now),
        (1, NOON + 20_000),
        "the snapshot has the first write"
    );
    // The clock loses all of it.
    real.set(NOON);
    let v = clock.other.write("fresh", |w| w.put("Note", note("second", "one"))).unwrap().v.unwrap();
    assert!(v >= reply.now - reply.delta, "{v} commits below {}", reply.now);
}

/// Where nothing was written, a reply's `now` binds the first write too.
#[test]
fn r36_a_now_told_in_an_org_without_a_head_is_a_promise_for_its_first_write() {
    let world = world();
    world.clock.advance(DAY);
    let reply = ask_for(&world.engine, "fresh");
    assert_eq!(reply.now, NOON + DAY);
    world.clock.set(NOON);
    assert_eq!(ask_for(&world.engine, "other").now, NOON + DAY, "one number for all of them");
    let v = world.engine.write("fresh", |w| w.put("Note", note("a", "one"))).unwrap().v.unwrap();
    assert_eq!(v, NOON + DAY);
    // It is stored: another instance knows it.
    let other = open(world.folder.path(), &world.clock, Settings::default()).unwrap();
    assert_eq!(other.write("late", |w| w.put("Note", note("a", "one"))).unwrap().v, Some(NOON + DAY));
}

/// Its documents would lack the memberships of the other schema.
#[test]
fn r38_an_instance_of_another_schema_writes_no_more() {
    let world = crate::support::operating::operating();
    put(&world.engine, note("a", "one")).unwrap();
    let schema =
        SCHEMA.replacen("\"author\"", r#""kind": { "key": ["kind"], "mutable": true }, "author""#, 1);
    let schema = Schema::from_json(&schema.replacen('{', r#"{ "Counter": { "key": ["id"] },"#, 1)).unwrap();
    let newer = || {
        let (schema, settings) = (schema.clone(), Settings::default());
        let opening = Opening { schema, settings, seal: Seal::clear(), clock: world.clock.clone() };
        Engine::open(world.folder.path(), opening).unwrap()
    };
    let adopted = newer();
    assert_eq!(put(&world.engine, note("b", "one")).unwrap_err().code(), Code::Unavailable);
    for _ in 0..2 * TRIES_MAX {
        let reply = send_to(&world.engine, "o", "s", vec![op("1", 1, "doc.put", put_args("b", "one"))]);
        assert_eq!(told(&reply), [("1", "unavailable")]);
        let fault = reply.results[0].fault.as_ref().unwrap();
        assert_eq!((fault.kind, fault.phase), (Kind::O, 0), "the session waits, and it is no try");
    }
    assert_eq!(ids(&pull(&world.engine, &def("Note"), 0)), ["a"], "it still reads");
    assert!(put(&adopted, note("b", "one")).is_ok());
    // The same schema again begins no generation.
    put(&newer(), note("c", "one")).unwrap();
    put(&adopted, note("d", "one")).unwrap();
}

fn in_memory(database: &Arc<MemoryDatabase>) -> Engine {
    let settings = Settings { write_wait: Duration::ZERO, ..Settings::default() };
    let schema = Schema::from_json(SCHEMA).unwrap();
    let opening = Opening { schema, settings, seal: Seal::clear(), clock: ManualClock::at(NOON) };
    let mark = Mark::in_memory(&Arc::new(MemoryMark::default()));
    Engine::over(Box::new(MemoryProvider::open(database)), mark, opening, 7).unwrap()
}

/// A value that is unique across orgs is a lock between them. Waiting for it is no failed attempt.
#[test]
fn r34_a_value_across_orgs_is_waited_for() {
    let database = MemoryDatabase::new(escale_server::engine::first_site(NOON).unwrap());
    let (one, other) = (in_memory(&database), in_memory(&database));
    let book = |id: &str| {
        let mut map = note(id, "one");
        map.insert("isbn".into(), "1".into());
        map
    };
    let args: escale::model::Value =
        [("class", "Note".into()), ("data", escale::model::Value::Map(book("b")))].into();
    let send = || send_to(&other, "p", "s", vec![op("1", 1, "doc.put", args.clone())]);
    one.write("o", |w| {
        w.put("Note", book("a"))?;
        let refused = other.write("p", |w| w.put("Note", book("b"))).unwrap_err();
        assert_eq!(refused.code(), Code::Contention);
        for _ in 0..2 * TRIES_MAX {
            assert_eq!(told(&send()), [("1", "contention")]);
        }
        // Other values are free.
        other.write("q", |w| w.put("Note", note("c", "one"))).unwrap();
        Ok(())
    })
    .unwrap();
    assert_eq!(told(&send()), [("1", "not_unique")]);
    one.write("o", |w| w.delete("Note", &key("a"))).unwrap();
    let again = vec![op("2", 2, "doc.put", args.clone())];
    assert_eq!(told(&send_to(&other, "p", "s", again)), [("2", "ok")]);
}
