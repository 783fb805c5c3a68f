//! R6: a session that returns after the server has forgotten deletions still ends with the server's contents.

use std::collections::BTreeMap;

use escale::model::{Pk, Value};
use escale_server::settings::Settings;
use proptest::prelude::*;

use crate::support::session::Session;
use crate::support::world::*;

fn settings() -> Settings {
    Settings { retention_days: 2, page_bytes: 300, ..Settings::default() }
}

#[derive(Clone, Debug)]
enum Step {
    Put { id: u8, shelf: bool, life_minutes: Option<u64> },
    Delete { id: u8 },
    Page,
    Pull,
    Purge,
    Pass { ms: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let life = prop::option::weighted(0.3, 0..3_000_u64);
    prop_oneof![
        5 => (0..6_u8, any::<bool>(), life)
            .prop_map(|(id, shelf, life_minutes)| Step::Put { id, shelf, life_minutes }),
        2 => (0..6_u8).prop_map(|id| Step::Delete { id }),
        2 => Just(Step::Page),
        1 => Just(Step::Pull),
        2 => Just(Step::Purge),
        3 => prop_oneof![0..5_000_u64, 0..2 * DAY].prop_map(|ms| Step::Pass { ms }),
    ]
}

fn run(steps: &[Step], def: &escale::model::Def, whole_class: bool) {
    use escale_server::clock::Clock;
    let world = world_with(settings());
    put(&world.engine, note("first", "one")).unwrap();
    let mut model: BTreeMap<String, (bool, Option<u64>)> = BTreeMap::from([("first".into(), (true, None))]);
    let mut session = Session::new(def);
    let mut version = 0_i64;
    for step in steps {
        match *step {
            Step::Put { id, shelf, life_minutes } => {
                let mut map = note(&id.to_string(), if shelf { "one" } else { "two" });
                let end = life_minutes.map(|minutes| world.clock.now_ms() / 60_000 + minutes);
                if let Some(end) = end {
                    map.insert("maxLife".into(), Value::from(end as i64));
                }
                version += 1;
                map.insert("size".into(), Value::from(version));
                put(&world.engine, map).unwrap();
                model.insert(id.to_string(), (shelf, end));
            }
            Step::Delete { id } => {
                // A document whose life has ended may still exist, or may be purged.
                let _ = delete(&world.engine, &id.to_string());
                model.remove(&id.to_string());
            }
            Step::Page => {
                session.pull_page(&world.engine);
            }
            Step::Pull => session.pull(&world.engine),
            Step::Purge => {
                world.engine.purge().unwrap();
            }
            Step::Pass { ms } => world.clock.advance(ms),
        }
    }
    // Twice: changes in the last DELTA are certain only after DELTA has passed.
    session.pull(&world.engine);
    world.clock.advance(10_000);
    session.pull(&world.engine);
    let now = world.clock.now_ms();
    let expected: Vec<&String> = model
        .iter()
        .filter(|(_, (shelf, end))| (whole_class || *shelf) && end.is_none_or(|minute| minute * 60_000 > now))
        .map(|(id, _)| id)
        .collect();
    let held = session.held(now);
    assert_eq!(held.keys().collect::<Vec<_>>(), expected);
    let mut fresh = Session::new(def);
    fresh.pull(&world.engine);
    assert_eq!(fresh.held(now), held, "who starts anew holds the same versions");
}

proptest! {
    #![proptest_config(cases(40))]

    #[test]
    fn r6_a_collection_converges_whatever_was_purged(steps in prop::collection::vec(step(), 1..50)) {
        run(&steps, &shelf("one"), false);
    }

    #[test]
    fn r6_a_class_converges_whatever_was_purged(steps in prop::collection::vec(step(), 1..50)) {
        run(&steps, &def("Note"), true);
    }
}

fn pk(id: &str) -> Pk {
    Pk::from_key(&[id]).unwrap()
}

/// The horizon is the first version from which everything is known. A pull from the horizon needs no list. A
/// pull from the version before it does, because departures at that version are forgotten.
#[test]
fn r6_present_comes_up_to_the_moment_before_the_horizon() {
    let world = world_with(Settings { retention_days: 2, ..Settings::default() });
    for id in ["a", "b", "stays"] {
        put(&world.engine, note(id, "one")).unwrap();
    }
    world.clock.advance(10_000);
    let before = put(&world.engine, note("a", "two")).unwrap().unwrap();
    world.clock.advance(1);
    let at = put(&world.engine, note("b", "two")).unwrap().unwrap();
    assert_eq!(at, before + 1);
    world.clock.set(at + 2 * DAY);
    assert_eq!(world.engine.purge().unwrap(), 1, "the departure before the horizon, and not the one at it");
    let asked = |v: u64| {
        let part = pull(&world.engine, &shelf("one"), v);
        (part.present, part.left.iter().map(|(pk, _)| pk.clone()).collect::<Vec<_>>())
    };
    let (present, _) = asked(before);
    assert_eq!(present, Some(vec![pk("stays")]), "one before the horizon: only the list tells of the first");
    assert_eq!(asked(at), (None, vec![pk("b")]), "at the horizon: all that left since is told");
}

#[test]
fn r6_present_comes_with_the_last_page_and_only_before_the_horizon() {
    let world = world_with(Settings { retention_days: 2, ..Settings::default() });
    for id in ["a", "b", "c"] {
        put(&world.engine, note(id, "one")).unwrap();
    }
    let asked = NOON - 1;
    assert_eq!(pull(&world.engine, &shelf("one"), 0).present.map(|p| p.len()), Some(3));
    assert_eq!(pull(&world.engine, &shelf("one"), asked).present, None);
    delete(&world.engine, "a").unwrap();
    put(&world.engine, note("b", "two")).unwrap();
    world.clock.advance(2 * DAY);
    assert_eq!(world.engine.purge().unwrap(), 0, "not a moment before the retention has gone by");
    assert_eq!(pull(&world.engine, &shelf("one"), asked).present, None);
    world.clock.advance(60_000);
    assert_eq!(world.engine.purge().unwrap(), 2, "a tombstone and a departure");
    assert_eq!(world.engine.purge().unwrap(), 0);
    let part = pull(&world.engine, &shelf("one"), asked);
    assert_eq!((ids(&part), part.left.len()), (vec!["c".into()], 0));
    assert_eq!(part.present, Some(vec![pk("c")]));
    let after = ask(&world.engine, Vec::new()).now - 2_000;
    assert_eq!(pull(&world.engine, &shelf("one"), after).present, None);
    assert_eq!(pull(&world.engine, &def(&format!("Note@{}", pk("a"))), asked).present, Some(vec![]));
}

#[test]
fn r6_departures_and_tombstones_are_told_until_then() {
    let world = world();
    put(&world.engine, note("a", "one")).unwrap();
    put(&world.engine, note("b", "one")).unwrap();
    let deleted = delete(&world.engine, "a").unwrap().unwrap();
    let moved = put(&world.engine, note("b", "two")).unwrap().unwrap();
    let part = pull(&world.engine, &shelf("one"), 1);
    assert_eq!(
        part.rows.iter().map(|r| (&r.pk, r.v, r.deleted)).collect::<Vec<_>>(),
        [(&pk("a"), deleted, true)]
    );
    assert_eq!(part.left, [(pk("b"), moved)]);
    assert_eq!(part.total, Some(1));
    let class = pull(&world.engine, &def("Note"), 1);
    assert_eq!((class.rows.len(), class.left.len()), (2, 0), "nothing leaves a class");
    // Back again: a member, and no departure any more.
    put(&world.engine, note("b", "one")).unwrap();
    let part = pull(&world.engine, &shelf("one"), 1);
    assert_eq!((part.rows.len(), part.left.len()), (2, 0));
    assert_eq!(pull(&world.engine, &shelf("two"), 1).left.len(), 1);
}

#[test]
fn r6_past_its_life_a_document_is_neither_sent_nor_present() {
    let world = world();
    let mut mortal = note("a", "one");
    let v = put(&world.engine, mortal.clone()).unwrap().unwrap();
    mortal.insert("maxLife".into(), Value::from((NOON / 60_000 + 1) as i64));
    let told = put(&world.engine, mortal.clone()).unwrap().unwrap();
    let part = pull(&world.engine, &shelf("one"), 0);
    assert_eq!((ids(&part), part.rows[0].max_life), (vec!["a".into()], Some(NOON / 60_000 + 1)));
    world.clock.advance(60_000);
    let part = pull(&world.engine, &shelf("one"), 0);
    assert_eq!((part.rows.len(), part.present, part.total), (0, Some(vec![]), Some(0)));
    // A session that holds the version without an end is sent a deletion.
    let part = pull(&world.engine, &shelf("one"), v);
    assert_eq!(
        part.rows.iter().map(|r| (r.v, r.deleted, r.data.is_some())).collect::<Vec<_>>(),
        [(told, true, false)]
    );
    // A later end brings it back.
    mortal.insert("maxLife".into(), Value::from((NOON / 60_000 + 10) as i64));
    put(&world.engine, mortal).unwrap();
    assert_eq!(ids(&pull(&world.engine, &shelf("one"), v)), ["a"]);
}
