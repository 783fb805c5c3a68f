//! Drills: a site loses its database and goes on from a copy, in each way that docs/server.md describes. Meanwhile
//! devices have operations on their way. `make drills` plays more rounds.
#![allow(clippy::result_large_err)] // as in the engine

use std::collections::BTreeSet;
use std::time::Instant;

use escale::Code;
use escale::codec::Fault;
use escale::crypto::SeededRandom;
use escale::journal::{OpId, make_id};
use escale::model::schema::Schema;
use escale::model::{Def, Value};
use escale_server::backup::{back_up, restore};
use escale_server::clock::SystemClock;
use escale_server::engine::{Engine, Opening, OperationTx, Ran, first_site, fresh_name};
use escale_server::mark::Mark;
use escale_server::provider::{Address, PostgresProvider};
use escale_server::seal::Seal;
use escale_server::settings::Settings;

use crate::support::chance::Chance;
use crate::support::device::{Device, Shown};
use crate::support::operating::{put_args, with};
use crate::support::postgres::{Raw, Server};
use crate::support::proof::{shown, times};
use crate::support::world::*;

/// The instances of a site.
const INSTANCES: usize = 2;
const DEVICES: usize = 3;
/// Notes that count the operations that changed them.
const COUNTERS: [&str; 2] = ["counter-1", "counter-2"];
/// The database's name in PostgreSQL.
const NAME: &str = "site";

/// Adds one to a note. Executed twice, or not at all, the operation shows in the sum.
fn add(tx: &mut OperationTx<'_>, args: &Value) -> Ran {
    let id = args.as_str().ok_or_else(|| Fault::new(Code::BadValue, "an id"))?;
    let mut map = tx.get("Note", &[id])?.unwrap_or_else(|| note(id, "one"));
    let size = map.get("size").and_then(Value::as_u64).unwrap_or(0) as i64;
    map.insert("size".into(), Value::from(size + 1));
    tx.put("Note", map)?;
    Ok(None)
}

fn opening() -> Opening {
    let schema = Schema::from_json(SCHEMA).unwrap();
    Opening { schema, settings: Settings::default(), seal: Seal::clear(), clock: SystemClock::shared() }
}

fn now_ms() -> u64 {
    SystemClock::shared().now_ms()
}

fn on_postgres(server: &Server) -> Vec<Engine> {
    let address = Address::parse(&format!("{}/{NAME}", server.base), |_| None).unwrap();
    let engine = || {
        let provider = PostgresProvider::open(&address, &first_site(now_ms()).unwrap()).unwrap();
        Engine::over(Box::new(provider), Mark::none(), opening(), fresh_name().unwrap()).unwrap()
    };
    (0..INSTANCES).map(|_| engine().operation("note.add", add).unwrap()).collect()
}

fn new_server() -> Server {
    // The archive is on in each drill: it is a setting of a real site.
    let server = Server::start(&["archive_mode=on"]);
    Raw::of(&format!("{}/postgres", server.base)).batch(&format!("CREATE DATABASE {NAME}"));
    server
}

/// A way to lose the database of a site, and to go on from a moment before.
trait Drill {
    /// The instances of a new site.
    fn begin(&mut self) -> Vec<Engine>;

    /// Keeps this moment. Commits after it will be lost.
    fn keep(&mut self);

    /// The database is gone; the instances are those on the copy.
    fn go_on(&mut self) -> Vec<Engine>;
}

/// A base backup, and the archived log up to a moment.
#[derive(Default)]
struct PointInTime {
    server: Option<Server>,
    base_backup: Option<Server>,
    moment: String,
}

impl Drill for PointInTime {
    fn begin(&mut self) -> Vec<Engine> {
        let server = self.server.insert(new_server());
        let engines = on_postgres(server);
        self.base_backup = Some(server.copy());
        engines
    }

    fn keep(&mut self) {
        let raw = Raw::of(&format!("{}/{NAME}", self.server.as_ref().unwrap().base));
        self.moment = raw.rows("SELECT clock_timestamp()::text")[0].get(0);
    }

    fn go_on(&mut self) -> Vec<Engine> {
        let (lost, copy) = (self.server.as_ref().unwrap(), self.base_backup.as_ref().unwrap());
        // A server that stops archives the rest of its log.
        lost.command("halt");
        copy.command_with("recover", &[lost.folder(), &self.moment]);
        on_postgres(copy)
    }
}

/// A dump, loaded into another server.
struct Dump {
    server: Option<Server>,
    folder: tempfile::TempDir,
}

impl Dump {
    fn file(&self) -> String {
        self.folder.path().join("dump").to_str().unwrap().to_owned()
    }
}

impl Drill for Dump {
    fn begin(&mut self) -> Vec<Engine> {
        on_postgres(self.server.insert(new_server()))
    }

    fn keep(&mut self) {
        self.server.as_ref().unwrap().command_with("dump", &[NAME, &self.file()]);
    }

    fn go_on(&mut self) -> Vec<Engine> {
        self.server.as_ref().unwrap().command("stop");
        let other = Server::start(&[]);
        other.command_with("load", &[NAME, &self.file()]);
        on_postgres(self.server.insert(other))
    }
}

/// A standby that has not received the last commits takes over.
#[derive(Default)]
struct Promotion {
    server: Option<Server>,
    standby: Option<Server>,
}

impl Drill for Promotion {
    fn begin(&mut self) -> Vec<Engine> {
        let server = self.server.insert(new_server());
        let engines = on_postgres(server);
        self.standby.insert(server.copy()).command("standby");
        engines
    }

    fn keep(&mut self) {
        let at = |server: &Option<Server>| Raw::of(&format!("{}/{NAME}", server.as_ref().unwrap().base));
        let end: String = at(&self.server).rows("SELECT pg_current_wal_flush_lsn()::text")[0].get(0);
        let standby = at(&self.standby);
        let behind = format!("SELECT pg_last_wal_replay_lsn() < '{end}'::pg_lsn");
        while standby.rows(&behind)[0].get(0) {
            std::thread::yield_now();
        }
        drop(standby);
        self.standby.as_ref().unwrap().command("halt");
    }

    fn go_on(&mut self) -> Vec<Engine> {
        self.server.as_ref().unwrap().command("crash");
        let standby = self.standby.as_ref().unwrap();
        standby.command("go");
        standby.command("promote");
        on_postgres(standby)
    }
}

/// A copy of a SQLite database, put back.
struct Copy {
    folder: tempfile::TempDir,
}

impl Copy {
    fn open(&self) -> Vec<Engine> {
        let engine = || Engine::open(&self.folder.path().join("data"), opening()).unwrap();
        (0..INSTANCES).map(|_| engine().operation("note.add", add).unwrap()).collect()
    }
}

impl Drill for Copy {
    fn begin(&mut self) -> Vec<Engine> {
        self.open()
    }

    fn keep(&mut self) {
        back_up(&self.folder.path().join("data"), &self.folder.path().join("copy.db")).unwrap();
    }

    fn go_on(&mut self) -> Vec<Engine> {
        let (data, copy) = (self.folder.path().join("data"), self.folder.path().join("copy.db"));
        restore(&data, &copy, now_ms()).unwrap();
        self.open()
    }
}

/// The devices, and their operations.
struct Play<'a> {
    devices: Vec<Device>,
    /// Each device's operations.
    written: Vec<BTreeSet<OpId>>,
    random: SeededRandom,
    chance: &'a mut Chance,
}

impl<'a> Play<'a> {
    fn begin(chance: &'a mut Chance) -> Self {
        let names = ["s1", "s2", "s3"];
        let devices = names.map(|name| Device::of(name, now_ms(), chance.next(), &defs()));
        let random = SeededRandom::new(chance.next());
        Play { devices: devices.into(), written: vec![BTreeSet::new(); DEVICES], random, chance }
    }

    fn write(&mut self, at: usize) {
        let id = make_id(now_ms(), &mut self.random).unwrap();
        if self.chance.is(50) {
            let args = Value::from(self.chance.pick(&COUNTERS));
            self.devices[at].write(id.clone(), "note.add", args);
        } else {
            let mut args = put_args(&id, "one");
            let data = args.as_map_mut().unwrap().remove("data").unwrap();
            args = with(args, "data", with(data, "size", 1));
            self.devices[at].write(id.clone(), "doc.put", args);
        }
        self.written[at].insert(id);
    }

    /// Writes, requests, answers that come, come twice, or never come.
    fn work(&mut self, engines: &[Engine], steps: u64) {
        for _ in 0..steps {
            let (at, engine) =
                (self.chance.below(DEVICES as u64) as usize, self.chance.below(INSTANCES as u64));
            match self.chance.below(10) {
                0..=4 => self.write(at),
                5..=7 => drop(self.devices[at].ask(&engines[engine as usize])),
                8 => self.devices[at].give_up(),
                _ => {
                    let again = self.chance.is(20);
                    self.devices[at].hear(again);
                }
            }
        }
    }

    fn catch_up(&mut self, engines: &[Engine]) {
        for device in &mut self.devices {
            // A wait after a failure must be over.
            device.pass(3_600_000);
            device.catch_up(&engines[self.chance.below(INSTANCES as u64) as usize]);
        }
    }
}

fn defs() -> Vec<Def> {
    vec![def("Note")]
}

/// The notes that a new device shows.
fn shown_by(engine: &Engine) -> Shown {
    let mut device = Device::of("reader", now_ms(), 1, &defs());
    device.catch_up(engine);
    device.shown(&def("Note"))
}

/// How many operations the notes show.
fn executed(shown: &Shown) -> u64 {
    shown.values().map(|(_, size)| size).sum()
}

/// Loses the database of a site once. Returns how many accepted operations were lost.
fn play(mut drill: impl Drill, chance: &mut Chance) -> usize {
    let before = drill.begin();
    let mut play = Play::begin(chance);
    play.work(&before, 60);
    drill.keep();
    play.work(&before, 60);
    // Some device has seen commits that will be lost.
    let at = play.chance.below(DEVICES as u64) as usize;
    play.write(at);
    play.devices[at].pass(3_600_000);
    play.devices[at].catch_up(&before[0]);
    let epoch = before.iter().map(|engine| ask(engine, Vec::new()).epoch).max().unwrap();
    drop(before);
    // Operations wait while there is no server.
    (0..DEVICES).for_each(|at| play.write(at));

    let after = drill.go_on();
    for engine in &after {
        assert!(ask(engine, Vec::new()).epoch > epoch, "the epoch is later");
    }
    play.work(&after, 60);
    play.catch_up(&after);
    // The first devices have not seen the last ones' operations.
    play.catch_up(&after);
    let expected = shown_by(&after[0]);
    let mut lost = 0;
    let mut written = 0;
    for (device, ids) in play.devices.iter().zip(&play.written) {
        assert_eq!(device.pending(), 0, "every operation has its answer");
        assert_eq!(device.shown(&def("Note")), expected, "a device differs from the server");
        let reported = device.lost_by_server();
        assert!(reported.is_subset(ids), "each device reports its own operations");
        for id in ids.iter().filter(|id| expected.contains_key(*id)) {
            assert!(!reported.contains(id), "{id} is there, and is reported as lost");
        }
        lost += reported.len();
        written += ids.len();
    }
    // Each operation is executed once, or is reported as lost.
    assert_eq!(executed(&expected), (written - lost) as u64);
    assert!(lost > 0, "the last commits were not lost");
    lost
}

#[test]
fn a_site_goes_on_after_each_way_to_lose_its_database() {
    let (since, rounds, mut chance) = (Instant::now(), times("DRILLS", 1), Chance::new());
    let folder = || tempfile::tempdir().unwrap();
    for round in 0..rounds {
        let chance = &mut chance;
        let point_in_time = play(PointInTime::default(), chance);
        let dump = play(Dump { server: None, folder: folder() }, chance);
        let promotion = play(Promotion::default(), chance);
        let copy = play(Copy { folder: folder() }, chance);
        eprintln!(
            "round {round}: operations lost by the site, and reported: {point_in_time} after a restore to a point in \
             time, {dump} after a dump, {promotion} after a promotion, {copy} after a copy of SQLite"
        );
    }
    let promise =
        "after a restore, a dump, a promotion and a copy, sessions equal the server and report each loss";
    shown("drills", promise, 4 * rounds, "losses", since);
}
