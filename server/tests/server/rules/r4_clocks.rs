//! R4: a session that pulls misses nothing, even if the instances' clocks are wrong and writes commit late.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use escale::Code;
use escale::model::schema::Schema;
use escale_server::clock::{Clock, ManualClock};
use escale_server::engine::{Engine, Opening};
use escale_server::provider::{Document, Place};
use escale_server::seal::Seal;
use escale_server::settings::Settings;
use proptest::prelude::*;

use crate::support::cluster::{SKEW, cluster};
use crate::support::operating::{op, put_args, send};
use crate::support::session::Session;
use crate::support::world::*;

#[derive(Clone, Debug)]
enum Step {
    Put {
        at: usize,
        id: u8,
        shelf: bool,
    },
    Delete {
        at: usize,
        id: u8,
    },
    /// A write that is open while the session pulls elsewhere, and that commits afterwards.
    Late {
        at: usize,
        id: u8,
        shelf: bool,
        pull: usize,
    },
    /// One page.
    Pull {
        at: usize,
    },
    Pass {
        ms: u64,
    },
    SetClock {
        at: usize,
        back: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let at = 0..3_usize;
    prop_oneof![
        4 => (at.clone(), 0..6_u8, any::<bool>()).prop_map(|(at, id, shelf)| Step::Put { at, id, shelf }),
        2 => (at.clone(), 0..6_u8).prop_map(|(at, id)| Step::Delete { at, id }),
        3 => (at.clone(), 0..6_u8, any::<bool>(), 0..3_usize)
            .prop_map(|(at, id, shelf, pull)| Step::Late { at, id, shelf, pull }),
        5 => at.clone().prop_map(|at| Step::Pull { at }),
        3 => (0..3_000_u64).prop_map(|ms| Step::Pass { ms }),
        1 => (at, 0..10_000_u64).prop_map(|(at, back)| Step::SetClock { at, back }),
    ]
}

fn shelf_of(first: bool) -> &'static str {
    if first { "one" } else { "two" }
}

fn run(steps: &[Step]) {
    let cluster = cluster();
    put(&cluster.engines[0], note("first", "one")).unwrap();
    let mut model = BTreeMap::from([("first".to_owned(), true)]);
    let mut session = Session::new(&shelf("one"));
    for step in steps {
        match *step {
            Step::Put { at, id, shelf } => {
                put(&cluster.engines[at], note(&id.to_string(), shelf_of(shelf))).unwrap();
                model.insert(id.to_string(), shelf);
            }
            Step::Delete { at, id } => {
                let deleted = delete(&cluster.engines[at], &id.to_string());
                assert_eq!(deleted.is_ok(), model.remove(&id.to_string()).is_some());
            }
            Step::Late { at, id, shelf, pull } => {
                let mut pulled = false;
                let result = cluster.engines[at].write("o", |w| {
                    let outcome = w.put("Note", note(&id.to_string(), shelf_of(shelf)))?;
                    if !pulled {
                        pulled = true;
                        // On a separate instance: SQLite lets it read during the write.
                        session.pull_page(&cluster.engines[pull]);
                        cluster.pass(400);
                    }
                    Ok(outcome)
                });
                result.unwrap();
                model.insert(id.to_string(), shelf);
            }
            Step::Pull { at } => {
                session.pull_page(&cluster.engines[at]);
            }
            Step::Pass { ms } => cluster.pass(ms),
            Step::SetClock { at, back } => {
                use escale_server::clock::Clock;
                let clock = &cluster.clocks[at];
                clock.set(clock.now_ms() - back);
            }
        }
    }
    // A load in progress began before the last write. Its changes may be behind the cursor, and arrive with
    // the next pull.
    session.pull(&cluster.engines[0]);
    let expected: Vec<&String> = model.iter().filter(|(_, shelf)| **shelf).map(|(id, _)| id).collect();
    for engine in &cluster.engines {
        session.pull(engine);
        let held = session.held(NOON);
        assert_eq!(held.keys().collect::<Vec<_>>(), expected);
        // Not only the members: each must have the version that a new session gets.
        let mut fresh = Session::new(&shelf("one"));
        fresh.pull(engine);
        assert_eq!(held, fresh.held(NOON));
    }
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn r4_no_change_is_missed_whatever_the_clocks_say(steps in prop::collection::vec(step(), 1..40)) {
        run(&steps);
    }
}

/// Found at random: the late write's departure has a position that the load's cursor has passed.
#[test]
fn r4_what_commits_behind_a_cursor_comes_with_the_next_pull() {
    let put = |at, id, shelf| Step::Put { at, id, shelf };
    let late = |shelf| Step::Late { at: 0, id: 0, shelf, pull: 0 };
    run(&[
        put(0, 4, true),
        put(0, 0, false),
        put(0, 1, true),
        put(2, 2, true),
        Step::Pull { at: 0 },
        late(true),
        Step::Delete { at: 0, id: 4 },
        late(false),
    ]);
}

#[test]
fn r4_a_clock_set_back_before_a_write_hides_nothing() {
    let cluster = cluster();
    put(&cluster.engines[0], note("first", "one")).unwrap();
    let mut session = Session::new(&shelf("one"));
    session.pull(&cluster.engines[0]);
    // Nothing is written for a day, and the session pulls. Then one instance's clock loses an hour, and it
    // writes.
    cluster.clocks.iter().for_each(|clock| clock.advance(DAY));
    session.pull(&cluster.engines[0]);
    assert!(session.v > NOON + DAY - 10_000, "time goes on without writes");
    cluster.clocks[1].set(NOON + DAY - 3_600_000);
    put(&cluster.engines[1], note("second", "one")).unwrap();
    session.pull(&cluster.engines[2]);
    assert_eq!(session.held(NOON).len(), 2);
}

/// A clock that others overtake. Whenever it is read, another instance writes, and then twenty seconds pass.
struct Overtaken {
    clock: Arc<ManualClock>,
    other: Engine,
    written: AtomicU64,
}

impl Clock for Overtaken {
    fn now_ms(&self) -> u64 {
        let n = self.written.fetch_add(1, Ordering::SeqCst);
        put(&self.other, note(&format!("late{n}"), "one")).unwrap();
        self.clock.advance(20_000);
        self.clock.now_ms()
    }

    fn elapsed_ms(&self) -> u64 {
        self.clock.elapsed_ms()
    }

    fn pass(&self, ms: u64) -> bool {
        self.clock.pass(ms)
    }
}

/// `now` is read before the snapshot opens. A commit in between is in the reply, or above the version that
/// the reply reaches.
#[test]
fn r4_what_is_committed_between_now_and_the_snapshot_is_told() {
    let world = world();
    put(&world.engine, note("first", "one")).unwrap();
    let other = open(world.folder.path(), &world.clock, Settings::default()).unwrap();
    let clock = Arc::new(Overtaken { clock: world.clock.clone(), other, written: AtomicU64::new(0) });
    let schema = Schema::from_json(SCHEMA).unwrap();
    let opening =
        Opening { schema, settings: Settings::default(), seal: Seal::clear(), clock: clock.clone() };
    let engine = Engine::open(world.folder.path(), opening).unwrap();
    let (mut v, mut told) = (0, BTreeSet::new());
    for _ in 0..5 {
        let reply = ask(&engine, vec![sub(&shelf("one"), v)]);
        told.extend(ids(&reply.parts[0]));
        v = reply.now - reply.delta;
    }
    // The last writes may be above the version that was reached.
    world.clock.advance(20_000);
    told.extend(ids(&pull(&world.engine, &shelf("one"), v)));
    let written = clock.written.load(Ordering::SeqCst);
    assert!(written >= 5, "the clock was read");
    let missed: Vec<u64> = (0..written).filter(|n| !told.contains(&format!("late{n}"))).collect();
    assert!(missed.is_empty(), "never told: {missed:?} of {written}");
}

#[test]
fn r4_versions_never_go_back_with_a_restart_and_a_clock_set_back() {
    let world = world();
    let before = put(&world.engine, note("a", "one")).unwrap().unwrap();
    world.clock.advance(DAY);
    let told = ask(&world.engine, Vec::new()).now;
    assert!(told > NOON + DAY - 2_000);
    let World { folder, engine, .. } = world;
    drop(engine);
    let engine = open(folder.path(), &ManualClock::at(NOON - DAY), Settings::default()).unwrap();
    let after = put(&engine, note("a", "two")).unwrap().unwrap();
    assert!(after > before && after >= told - 1_000, "{after} after {told}");
    assert!(ask(&engine, Vec::new()).now >= told);
}

#[test]
fn r4_each_write_of_one_instance_has_a_version_of_its_own() {
    let world = world();
    let versions: Vec<u64> =
        (0..5).map(|n| put(&world.engine, note("a", &n.to_string())).unwrap().unwrap()).collect();
    assert!(versions.windows(2).all(|pair| pair[0] < pair[1]), "{versions:?}");
}

#[test]
fn r4_a_write_that_outlasts_a_second_is_given_up() {
    let world = world();
    let result = world.engine.write("o", |w| {
        w.put("Note", note("a", "one"))?;
        world.clock.advance(1_001);
        Ok(())
    });
    assert_eq!(result.unwrap_err().code(), Code::Contention);
    put(&world.engine, note("b", "one")).unwrap();
    assert_eq!(ids(&pull(&world.engine, &def("Note"), 0)), ["b"]);
}

/// The third clock is ahead by the whole skew.
#[test]
fn r35_versions_of_an_org_rise_whichever_instance_gives_them() {
    let cluster = cluster();
    let mut versions = vec![put(&cluster.engines[2], note("a", "one")).unwrap().unwrap()];
    for at in [0, 1, 0, 2] {
        versions.push(put(&cluster.engines[at], note("b", &versions.len().to_string())).unwrap().unwrap());
    }
    assert!(versions.windows(2).all(|pair| pair[0] < pair[1]), "{versions:?}");
}

#[test]
fn r35_orgs_have_their_own_time() {
    let cluster = cluster();
    let count = std::cell::Cell::new(0);
    let put = |at: usize, org: &str| {
        let engine = &cluster.engines[at];
        count.set(count.get() + 1);
        let shelf = count.get().to_string();
        engine.write(org, |w| w.put("Note", note("a", &shelf))).unwrap().v.unwrap()
    };
    let ahead = put(2, "o");
    assert_eq!((put(0, "p"), ahead), (NOON, NOON + SKEW), "the version of `o` moved nothing in `p`");
    assert_eq!(put(0, "o"), ahead + 1);
    cluster.pass(DAY);
    ask(&cluster.engines[2], Vec::new());
    cluster.clocks.iter().for_each(|clock| clock.set(NOON + 5));
    assert_eq!(put(0, "p"), NOON + 5, "a `now` told in `o` is no promise in `p`");
    assert_eq!(put(0, "o"), NOON + DAY + SKEW);
}

/// As if another program had written it.
#[test]
fn r4_a_document_that_is_not_older_starts_the_write_again() {
    let world = world();
    put(&world.engine, note("a", "one")).unwrap();
    let pk = escale::model::Pk::from_key(&["a"]).unwrap();
    let at = Place { org: "o", class: "Note", pk: pk.as_str() };
    let mut tx = world.engine.provider().write("o", Duration::ZERO).unwrap();
    let document = tx.snapshot().document(at).unwrap().unwrap();
    tx.put_document(at, &Document { v: NOON + 90, ..document }).unwrap();
    tx.commit().unwrap();
    let mut runs = 0;
    let written = world.engine.write("o", |w| {
        runs += 1;
        w.put("Note", note("a", "two"))
    });
    assert_eq!((written.unwrap().v, runs), (Some(NOON + 91), 2));
    let mut tx = world.engine.provider().write("o", Duration::ZERO).unwrap();
    let document = tx.snapshot().document(at).unwrap().unwrap();
    tx.put_document(at, &Document { v: NOON + 190, ..document }).unwrap();
    tx.commit().unwrap();
    // The same for an operation, behind another one of its group.
    let ops = vec![
        op("1", 1, "doc.put", put_args("b", "one")),
        op("2", 2, "doc.put", put_args("a", "three")),
        op("3", 3, "doc.put", put_args("c", "one")),
    ];
    let reply = send(&world.engine, ops);
    let versions: Vec<u64> = reply.results.iter().map(|result| result.ok.as_ref().unwrap().v).collect();
    assert_eq!(versions, [NOON + 92, NOON + 191, NOON + 192]);
}

#[test]
fn r4_now_is_bounded_by_what_is_written_down() {
    let world = world();
    let v = put(&world.engine, note("a", "one")).unwrap().unwrap();
    let settings = Settings { tell_wait: Duration::ZERO, ..Settings::default() };
    let other = open(world.folder.path(), &world.clock, settings).unwrap();
    world.clock.advance(DAY);
    // A write holds the database: `now` cannot be stored, so the reply has an earlier one.
    let told = world.engine.write("o", |w| {
        w.put("Note", note("b", "one"))?;
        Ok(ask(&other, Vec::new()).now)
    });
    assert_eq!(told.unwrap().value, v + 1_000);
    assert_eq!(ask(&other, Vec::new()).now, NOON + DAY);
}

#[test]
fn r4_a_delta_below_skew_and_longest_write_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (delta_ms, skew_ms, is_ok) in
        [(999, 0, false), (1_000, 0, true), (2_000, 1_001, false), (2_001, 1_001, true)]
    {
        let settings = Settings { delta_ms, skew_ms, ..Settings::default() };
        let result = open(folder.path(), &ManualClock::at(NOON), settings);
        assert_eq!(result.as_ref().err().map(escale::Error::code), (!is_ok).then_some(Code::BadOption));
    }
}
