//! R4, R8 and R9 on three instances over one data folder. Clocks disagree and are set back, and writes commit
//! late. Answers arrive late, twice or never, and the folder is restored from an earlier copy. Devices that
//! follow the protocol end with the server's contents. No write is lost, and no version is used twice in one
//! epoch.

use std::collections::BTreeMap;

use escale::codec::{Op, SyncReply, SyncRequest};
use escale::model::{Def, Epoch, Value};
use escale_server::clock::Clock;
use escale_server::engine::{Caller, Engine, renew_epoch_of};
use proptest::prelude::*;

use crate::support::cluster::*;
use crate::support::device::{Device, Shown};
use crate::support::world::*;

#[derive(Clone, Copy, Debug)]
enum Step {
    Put {
        at: usize,
        id: u8,
        shelf: u8,
    },
    Delete {
        at: usize,
        id: u8,
    },
    /// A write that is open while another instance answers a device, and that commits afterwards.
    Late {
        at: usize,
        id: u8,
        shelf: u8,
        device: usize,
        asks: usize,
    },
    /// A device's request, if it has one, reaches an instance.
    Ask {
        device: usize,
        at: usize,
    },
    Hear {
        device: usize,
        again: bool,
    },
    GiveUp {
        device: usize,
    },
    Hint {
        device: usize,
    },
    Pass {
        ms: u64,
    },
    /// An instance's clock is set back by that much.
    SetBack {
        at: usize,
        ms: u64,
    },
    /// The clocks are set right, within the skew.
    PutRight,
    Restart {
        at: usize,
    },
    Copy,
    Restore {
        way: Way,
    },
    Renew,
}

fn step() -> impl Strategy<Value = Step> {
    let at = || 0..3_usize;
    let device = || 0..3_usize;
    let way = prop::sample::select(vec![Way::UnderItsMark, Way::Elsewhere, Way::ByCommand]);
    prop_oneof![
        10 => (at(), 0..6_u8, 0..3_u8).prop_map(|(at, id, shelf)| Step::Put { at, id, shelf }),
        4 => (at(), 0..6_u8).prop_map(|(at, id)| Step::Delete { at, id }),
        6 => (at(), 0..6_u8, 0..3_u8, device(), at())
            .prop_map(|(at, id, shelf, device, asks)| Step::Late { at, id, shelf, device, asks }),
        16 => (device(), at()).prop_map(|(device, at)| Step::Ask { device, at }),
        14 => (device(), prop::bool::weighted(0.2)).prop_map(|(device, again)| Step::Hear { device, again }),
        2 => device().prop_map(|device| Step::GiveUp { device }),
        10 => device().prop_map(|device| Step::Hint { device }),
        6 => (0..3_000_u64).prop_map(|ms| Step::Pass { ms }),
        3 => (at(), 0..10_000_u64).prop_map(|(at, ms)| Step::SetBack { at, ms }),
        1 => Just(Step::PutRight),
        1 => at().prop_map(|at| Step::Restart { at }),
        3 => Just(Step::Copy),
        4 => way.prop_map(|way| Step::Restore { way }),
        1 => Just(Step::Renew),
    ]
}

/// The contents as a program without versions would keep them: the shelf of each id, and the number of its
/// last write.
type Model = BTreeMap<String, (u8, u64)>;

const SHELVES: [&str; 3] = ["one", "two", "three"];

/// One epoch of the database, as seen from outside.
#[derive(Default)]
struct Life {
    /// The last version of each document.
    versions: BTreeMap<String, u64>,
    /// The highest `v` that an answer let a session reach.
    reached: u64,
}

struct Story {
    cluster: Cluster,
    devices: Vec<Device>,
    model: Model,
    writes: u64,
    lives: BTreeMap<Epoch, Life>,
    /// The number of changes of the database. And the copy, with its contents and number of changes.
    changes: u64,
    copy: Option<(Copy, Model, u64)>,
}

fn defs() -> Vec<Def> {
    let mut defs: Vec<Def> = SHELVES.iter().map(|value| shelf(value)).collect();
    defs.push(def("Note"));
    defs
}

/// A document of the first shelf. Its data distinguishes one write from another.
fn numbered(id: &str, write: u64) -> BTreeMap<String, Value> {
    let mut map = note(id, SHELVES[0]);
    map.insert("size".into(), Value::from(write as i64));
    map
}

fn epoch(engine: &Engine) -> Epoch {
    ask(engine, Vec::new()).epoch
}

/// Records the promise of an answer: no later change of this epoch may be below the `v` that a session
/// reaches by it.
fn note_answer(lives: &mut BTreeMap<Epoch, Life>, reply: Option<&SyncReply>) {
    if let Some(reply) = reply {
        let life = lives.entry(reply.epoch.clone()).or_default();
        life.reached = life.reached.max(reply.now.saturating_sub(reply.delta));
    }
}

impl Story {
    fn new() -> Self {
        let cluster = cluster();
        let all = defs();
        // One device subscribes to everything, one to a shelf only, one to the class only.
        let devices = vec![Device::new(&all), Device::new(&all[..1]), Device::new(&all[3..])];
        let (model, lives) = (Model::new(), BTreeMap::new());
        let mut story = Story { cluster, devices, model, writes: 0, lives, changes: 0, copy: None };
        story.put(0, "first", 0, None);
        story
    }

    /// A write, and the answer that a device gets while the write is open.
    fn put(&mut self, at: usize, id: &str, shelf: u8, meanwhile: Option<(usize, usize)>) {
        self.writes += 1;
        let mut map = numbered(id, self.writes);
        map.insert("shelf".into(), SHELVES[usize::from(shelf)].into());
        let Story { cluster, devices, lives, .. } = self;
        let mut meanwhile = meanwhile;
        let written = cluster.engines[at].write("o", |w| {
            let outcome = w.put("Note", map.clone())?;
            // Not repeated if the write restarts.
            if let Some((device, asks)) = meanwhile.take() {
                note_answer(lives, devices[device].ask(&cluster.engines[asks]).as_ref());
                cluster.pass(400);
            }
            Ok(outcome)
        });
        self.check_version(id, written.unwrap().v.unwrap());
        self.model.insert(id.to_owned(), (shelf, self.writes));
    }

    fn delete(&mut self, at: usize, id: &str) {
        let deleted = delete(&self.cluster.engines[at], id);
        assert_eq!(deleted.is_ok(), self.model.remove(id).is_some(), "{id} is where it was put");
        if let Ok(v) = deleted {
            self.check_version(id, v.unwrap());
        }
    }

    /// Checks R4 at each commit, from outside.
    fn check_version(&mut self, id: &str, v: u64) {
        self.changes += 1;
        let epoch = epoch(&self.cluster.engines[0]);
        let life = self.lives.entry(epoch).or_default();
        let before = life.versions.insert(id.to_owned(), v);
        assert!(before.is_none_or(|before| before < v), "{id}: {v} after {before:?} in one epoch");
        assert!(v >= life.reached, "{id}: {v} commits below {}, which a session has reached", life.reached);
    }

    fn restore(&mut self, way: Way) {
        let Some((copy, model, changes)) = self.copy.clone() else { return };
        let before = epoch(&self.cluster.engines[0]);
        let is_behind = changes != self.changes;
        self.cluster.restore(&copy, way);
        self.model = model;
        let after = epoch(&self.cluster.engines[0]);
        // Restored under its watermark before anything else was written, the database may have lost nothing.
        let may_go_on = matches!(way, Way::UnderItsMark) && !is_behind;
        assert!(after > before || may_go_on && after == before, "{way:?}: {after:?} after {before:?}");
        for engine in &self.cluster.engines {
            assert_eq!(epoch(engine), after, "every instance lives in one epoch");
        }
    }

    fn play(&mut self, step: Step) {
        match step {
            Step::Put { at, id, shelf } => self.put(at, &id.to_string(), shelf, None),
            Step::Late { at, id, shelf, device, asks } => {
                self.put(at, &id.to_string(), shelf, Some((device, asks)));
            }
            Step::Delete { at, id } => self.delete(at, &id.to_string()),
            Step::Ask { device, at } => {
                let reply = self.devices[device].ask(&self.cluster.engines[at]);
                note_answer(&mut self.lives, reply.as_ref());
            }
            Step::Hear { device, again } => self.devices[device].hear(again),
            Step::GiveUp { device } => self.devices[device].give_up(),
            Step::Hint { device } => self.devices[device].hint(),
            Step::Pass { ms } => {
                self.cluster.pass(ms);
                self.devices.iter_mut().for_each(|device| device.pass(ms));
            }
            Step::SetBack { at, ms } => {
                let clock = &self.cluster.clocks[at];
                clock.set(clock.now_ms() - ms);
            }
            Step::PutRight => self.cluster.put_right(),
            Step::Restart { at } => self.cluster.restart(at),
            Step::Copy => self.copy = Some((self.cluster.copy(), self.model.clone(), self.changes)),
            Step::Restore { way } => self.restore(way),
            Step::Renew => {
                self.cluster.renew();
                self.changes += 1;
            }
        }
    }

    /// R9: writing has stopped, and every answer arrives.
    fn check_end(&mut self) {
        for at in 0..3 {
            let engine = &self.cluster.engines[at];
            let mut fresh = Device::new(&defs());
            fresh.catch_up(engine);
            for def in defs() {
                assert_eq!(numbers(&fresh.shown(&def)), wanted(&self.model, &def), "no write is lost: {def}");
            }
            for (number, device) in self.devices.iter_mut().enumerate() {
                device.catch_up(engine);
                assert_eq!(device.epoch(), fresh.epoch());
                for def in device.defs() {
                    assert!(device.is_ready(&def));
                    // Versions and data, not only the members.
                    assert_eq!(device.shown(&def), fresh.shown(&def), "R9: device {number}, {def}");
                }
            }
        }
    }
}

fn numbers(shown: &Shown) -> BTreeMap<String, u64> {
    shown.iter().map(|(id, (_, number))| (id.clone(), *number)).collect()
}

fn wanted(model: &Model, of: &Def) -> BTreeMap<String, u64> {
    let is_in = |held: u8| *of == def("Note") || *of == shelf(SHELVES[usize::from(held)]);
    let members = model.iter().filter(|(_, (held, _))| is_in(*held));
    members.map(|(id, (_, number))| (id.clone(), *number)).collect()
}

fn run(steps: &[Step]) {
    let mut story = Story::new();
    for step in steps {
        story.play(*step);
    }
    story.check_end();
}

proptest! {
    #![proptest_config(cases(40))]

    #[test]
    fn r8_three_instances_end_with_one_state_whatever_was_put_back(
        steps in prop::collection::vec(step(), 1..80)
    ) {
        run(&steps);
    }
}

#[test]
fn r8_a_write_of_the_slowest_clock_is_missed_too() {
    let mut cluster = cluster();
    // The third clock is ahead by the whole skew.
    let highest = put(&cluster.engines[2], note("a", "one")).unwrap().unwrap();
    let copy = cluster.copy();
    let before = epoch(&cluster.engines[0]);
    assert!(put(&cluster.engines[0], note("b", "one")).unwrap().unwrap() > highest);
    cluster.restore(&copy, Way::UnderItsMark);
    assert!(epoch(&cluster.engines[0]) > before);
}

#[test]
fn r8_an_operation_at_the_slowest_clock_is_missed_too() {
    let operate = |engine: &Engine, seq: u64, name: &str, args: Value| {
        let (id, name) = (seq.to_string(), name.to_owned());
        let op = Op { id, seq, name, args, at: NOON, after: None };
        let request = SyncRequest { ops: vec![op], ..SyncRequest::of("s") };
        let caller = Caller { account: "x".into(), may_write: true, is_admin: false, ..Caller::default() };
        engine.sync("o", &caller, &request).unwrap().results[0].clone()
    };
    let put = |id: &str| Value::from([("class", "Note".into()), ("data", Value::Map(note(id, "one")))]);
    let mut cluster = cluster();
    let highest = operate(&cluster.engines[2], 1, "doc.put", put("a")).ok.unwrap().v;
    let copy = cluster.copy();
    let before = epoch(&cluster.engines[0]);
    assert!(operate(&cluster.engines[0], 2, "doc.put", put("b")).ok.unwrap().v > highest);
    cluster.restore(&copy, Way::UnderItsMark);
    let after = epoch(&cluster.engines[0]);
    assert!(after > before);
    // A refused operation leaves only its number and its result.
    let copy = cluster.copy();
    let args = Value::from([("class", "Note".into()), ("key", Value::Array(vec!["none".into()]))]);
    assert!(operate(&cluster.engines[0], 2, "doc.delete", args).fault.is_some());
    cluster.restore(&copy, Way::UnderItsMark);
    assert!(epoch(&cluster.engines[0]) > after);
}

#[test]
fn r8_a_now_told_since_the_copy_is_missed_too() {
    let mut cluster = cluster();
    put(&cluster.engines[0], numbered("a", 1)).unwrap();
    let copy = cluster.copy();
    cluster.pass(DAY);
    let mut device = Device::new(&defs());
    device.catch_up(&cluster.engines[0]);
    // Nothing was written. The clocks lose that day, and the database has no record of it any more.
    cluster.clocks.iter().for_each(|clock| clock.set(NOON));
    cluster.restore(&copy, Way::UnderItsMark);
    for id in ["a", "b"] {
        put(&cluster.engines[1], numbered(id, 2)).unwrap();
    }
    device.catch_up(&cluster.engines[2]);
    assert_eq!(device.shown(&def("Note")).len(), 2);
}

#[test]
fn r8_the_new_life_is_later_than_the_one_lost() {
    let mut cluster = cluster();
    put(&cluster.engines[0], note("a", "one")).unwrap();
    let copy = cluster.copy();
    cluster.pass(DAY);
    cluster.renew();
    let lost = epoch(&cluster.engines[0]);
    // Two restores after which only the watermark knows the lost epoch, with clocks that are behind it.
    cluster.clocks.iter().for_each(|clock| clock.set(NOON));
    cluster.restore(&copy, Way::UnderItsMark);
    assert!(epoch(&cluster.engines[0]) > lost);
    let lost = epoch(&cluster.engines[0]);
    cluster.restore(&copy, Way::UnderItsMark);
    let renewed = renew_epoch_of(&Engine::database_in(cluster.folder()), None, NOON).unwrap();
    assert!(renewed > lost);
}
