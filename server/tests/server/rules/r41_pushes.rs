//! R41: pushes bring every change of a def, and a session that misses some of them loses nothing.

use escale::codec::ServerParts;
use escale::model::{Def, Value};
use escale_server::engine::{Engine, Follower, Pushed};
use escale_server::settings::Settings;
use proptest::prelude::*;

use crate::support::device::{Device, Shown};
use crate::support::items::{asso, items, members, tree_defs, write};
use crate::support::world::*;

#[derive(Clone, Debug)]
enum Step {
    Put { id: u8, shelf: bool },
    Delete { id: u8 },
    Push { is_lost: bool, is_doubled: bool },
    Pass { ms: u64 },
    Purge,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..6_u8, any::<bool>()).prop_map(|(id, shelf)| Step::Put { id, shelf }),
        2 => (0..6_u8).prop_map(|id| Step::Delete { id }),
        4 => (prop::bool::weighted(0.2), any::<bool>())
            .prop_map(|(is_lost, is_doubled)| Step::Push { is_lost, is_doubled }),
        3 => (0..5_000_u64).prop_map(|ms| Step::Pass { ms }),
        1 => Just(Step::Purge),
    ]
}

fn frame(pushed: Pushed) -> ServerParts {
    let Pushed { epoch, now, delta, part, seqs } = pushed;
    ServerParts { epoch, now, delta, seq: seqs[0], parts: vec![part] }
}

/// The contents of a def by a pull from 0.
fn contents(engine: &Engine, def: &Def) -> Shown {
    let part = pull(engine, def, 0);
    let row = |row: &escale::codec::Row| {
        let map = row.data.as_ref().expect("a living document").to_map().unwrap();
        (map["id"].as_str().unwrap().to_owned(), (row.v, map["size"].as_u64().unwrap()))
    };
    part.rows.iter().filter(|row| !row.deleted).map(row).collect()
}

fn run(steps: &[Step], defs: &[Def]) {
    let world = world_with(Settings { retention_days: 1, ..Settings::default() });
    let number = std::cell::Cell::new(0_i64);
    let numbered = |id: &str, shelf: &str| {
        number.set(number.get() + 1);
        let mut map = note(id, shelf);
        map.insert("size".into(), Value::from(number.get()));
        map
    };
    put(&world.engine, numbered("first", "one")).unwrap();
    let mut device = Device::new(defs);
    device.catch_up(&world.engine);
    let followers = [Follower { session: "s".into(), account: String::new() }];
    // The first change that was not pushed.
    let (mut from, mut is_behind): (Option<u64>, bool) = (None, false);
    for step in steps {
        match *step {
            Step::Put { id, shelf } => {
                let map = numbered(&id.to_string(), if shelf { "one" } else { "two" });
                let v = put(&world.engine, map).unwrap();
                from = from.or(v);
            }
            Step::Delete { id } => {
                let v = delete(&world.engine, &id.to_string()).unwrap_or(None);
                from = from.or(v);
            }
            Step::Pass { ms } => {
                world.clock.advance(ms);
                device.pass(ms);
            }
            Step::Purge => drop(world.engine.purge().unwrap()),
            Step::Push { is_lost, is_doubled } => {
                let Some(v) = from.take() else { continue };
                is_behind |= is_lost;
                for def in defs {
                    for _ in 0..=u8::from(is_doubled) {
                        let pushed = world.engine.push("o", def, v, &followers).unwrap();
                        if let Some(pushed) = pushed.filter(|_| !is_lost) {
                            device.take_push(frame(pushed));
                        }
                    }
                    if !is_behind {
                        assert_eq!(device.shown(def), contents(&world.engine, def), "{def}: pushed all");
                    }
                }
            }
        }
    }
    device.catch_up(&world.engine);
    for def in defs {
        assert_eq!(device.shown(def), contents(&world.engine, def), "{def}: in the end");
    }
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn r41_pushes_bring_each_change_and_a_lost_one_is_no_loss(
        steps in prop::collection::vec(step(), 1..40),
        which in 0..3_usize,
    ) {
        let defs = [vec![def("Note")], vec![shelf("one")], vec![def("Note"), shelf("one"), shelf("two")]];
        run(&steps, &defs[which]);
    }
}

#[test]
fn r41_each_follower_has_its_own_seq_and_none_of_another_account() {
    let world = world();
    put(&world.engine, note("a", "one")).unwrap();
    let ops = (1..=3).map(|seq| {
        let args = crate::support::operating::put_args(&format!("n{seq}"), "one");
        crate::support::operating::op(&format!("op-{seq}"), seq, "doc.put", args)
    });
    let reply = crate::support::operating::send_as(&world.engine, "ada", "writer", ops.collect());
    let v = reply.results[0].ok.as_ref().unwrap().v;
    let of = |session: &str, account: &str| Follower { session: session.into(), account: account.into() };
    let followers = [of("reader", "ada"), of("writer", "ada"), of("writer", "eve")];
    let pushed = world.engine.push("o", &shelf("one"), v, &followers).unwrap().expect("a push");
    assert_eq!(pushed.seqs, [0, 3, 0]);
    assert_eq!(ids(&pushed.part), ["n1", "n2", "n3"]);
    assert_eq!((pushed.part.total, &pushed.epoch), (None, &reply.epoch));
}

/// Too much for a push, nothing at all, changes that were forgotten, and trees.
#[test]
fn r41_what_is_no_plain_change_is_only_hinted() {
    let world = world_with(Settings { retention_days: 1, ..Settings::default() });
    let v = put(&world.engine, note("a", "one")).unwrap().unwrap();
    let push = |def: &Def, v: u64| world.engine.push("o", def, v, &[]).unwrap();
    assert!(push(&shelf("one"), v).is_some());
    assert!(push(&shelf("two"), v).is_none(), "no change");
    assert!(push(&shelf("one"), v + 1).is_none(), "no change since");
    let mut large = note("b", "one");
    large.insert("text".into(), "x".repeat(65 << 10).as_str().into());
    put(&world.engine, large).unwrap();
    assert!(push(&shelf("one"), v).is_none(), "more than 64 KiB");
    delete(&world.engine, "b").unwrap();
    assert!(push(&shelf("one"), v).is_some());
    world.clock.advance(3 * DAY);
    world.engine.purge().unwrap();
    assert!(push(&shelf("one"), v).is_none(), "deletions since then are forgotten");

    let world = items();
    let v = write(&world.engine, |w| w.put("Asso", asso("a")).map(drop));
    for def in tree_defs("a").into_iter().chain([members("a")]) {
        assert!(world.engine.push("o", &def, v, &[]).unwrap().is_none(), "{def}");
    }
}
