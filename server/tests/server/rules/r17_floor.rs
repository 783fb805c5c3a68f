//! R17: below the floor of its tree no item exists, for any order of writes, replies and purges.

use std::collections::BTreeMap;
use std::sync::Arc;

use escale::model::Def;
use escale_server::clock::{Clock, ManualClock};
use escale_server::engine::{Engine, WriteTx};
use escale_server::settings::Settings;
use proptest::prelude::*;

use crate::support::items::*;
use crate::support::session::Session;
use crate::support::world::*;

#[derive(Clone, Debug)]
enum Write {
    Parent(bool),
    Put(u8, Option<u64>),
    Delete(u8),
}

#[derive(Clone, Debug)]
enum Step {
    /// A transaction on that instance.
    Writes(usize, Vec<Write>),
    /// A page for that session from that instance. Its reply may be lost.
    Page {
        session: usize,
        instance: usize,
        is_lost: bool,
    },
    Purge,
    Pass(u64),
    /// The clock of the second instance differs from the first by so much.
    Skew(u64),
}

fn a_write() -> impl Strategy<Value = Write> {
    let life = prop::option::weighted(0.15, 0..3_000_u64);
    prop_oneof![
        3 => prop::bool::weighted(0.55).prop_map(Write::Parent),
        6 => (0..5_u8, life).prop_map(|(num, life)| Write::Put(num, life)),
        2 => (0..5_u8).prop_map(Write::Delete),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..2_usize, prop::collection::vec(a_write(), 1..5)).prop_map(|(n, writes)| Step::Writes(n, writes)),
        6 => (0..4_usize, 0..2_usize, prop::bool::weighted(0.3))
            .prop_map(|(session, instance, is_lost)| Step::Page { session, instance, is_lost }),
        2 => Just(Step::Purge),
        3 => prop_oneof![0..5_000_u64, 0..2 * DAY].prop_map(Step::Pass),
        1 => (0..400_u64).prop_map(Step::Skew),
    ]
}

/// The parent and its items as they should be.
#[derive(Default)]
struct Model {
    lives: bool,
    items: BTreeMap<String, Option<u64>>,
}

impl Model {
    /// Writes to the model and to the server, which must agree.
    fn write(&mut self, w: &mut WriteTx<'_>, write: &Write, now: u64) -> escale::Result<()> {
        match write {
            Write::Parent(true) => {
                w.put("Asso", asso("p"))?;
                self.lives = true;
            }
            Write::Parent(false) => {
                assert_eq!(w.delete("Asso", &asso("p")).is_ok(), self.lives);
                self.lives = false;
                self.items.clear();
            }
            Write::Put(num, life) => {
                let end = life.map(|minutes| now / 60_000 + minutes);
                let mut map = adh("p", &num.to_string());
                map.extend(end.map(|end| ("maxLife".to_owned(), (end as i64).into())));
                assert_eq!(w.put("Adh", map).is_ok(), self.lives);
                if self.lives {
                    self.items.insert(num.to_string(), end);
                }
            }
            Write::Delete(num) => {
                let held = self.items.remove(&num.to_string());
                let deleted = w.delete("Adh", &adh("p", &num.to_string())).is_ok();
                // One whose life has ended may have been purged.
                assert!(deleted == held.is_some() || held.is_some_and(|end| end.is_some()));
            }
        }
        Ok(())
    }
}

fn run(steps: &[Step]) {
    let settings = Settings { retention_days: 2, page_bytes: 200, skew_ms: 500, ..Settings::default() };
    let folder = quick_folder();
    let clocks = [ManualClock::at(NOON), ManualClock::at(NOON)];
    let open = |clock: &Arc<ManualClock>| open_schema(folder.path(), clock, settings.clone(), ITEMS);
    let engines: [Engine; 2] = [open(&clocks[0]), open(&clocks[1])];
    let mut model = Model::default();
    let defs: Vec<Def> = vec![members("p"), members("p"), single("p", "1"), single("p", "2")];
    let mut sessions: Vec<Session> = defs.iter().map(Session::new).collect();
    for step in steps {
        match step {
            Step::Writes(instance, writes) => {
                let now = clocks[*instance].now_ms();
                let mut next = Model { lives: model.lives, items: model.items.clone() };
                let written = engines[*instance].write("o", |w| {
                    next = Model { lives: model.lives, items: model.items.clone() };
                    writes.iter().try_for_each(|write| next.write(w, write, now))
                });
                written.unwrap();
                model = next;
            }
            Step::Page { session, instance, is_lost } => {
                if *is_lost {
                    let def = sessions[*session].def.clone();
                    ask(&engines[*instance], vec![sub(&def, sessions[*session].v)]);
                } else {
                    sessions[*session].pull_page(&engines[*instance]);
                }
            }
            Step::Purge => drop(engines[0].purge().unwrap()),
            Step::Pass(ms) => {
                for clock in &clocks {
                    clock.advance(*ms);
                }
            }
            Step::Skew(ms) => clocks[1].set(clocks[0].now_ms() + ms),
        }
    }
    for session in &mut sessions {
        session.pull(&engines[0]);
    }
    for clock in &clocks {
        clock.advance(10_000);
    }
    let now = clocks[0].now_ms();
    let lives = |end: &Option<u64>| end.is_none_or(|minute| minute * 60_000 > now);
    for (place, session) in sessions.iter_mut().enumerate() {
        session.pull(&engines[place % 2]);
        let expected: Vec<&String> = model
            .items
            .iter()
            .filter(|(num, end)| lives(end) && (place < 2 || ***num == place.saturating_sub(1).to_string()))
            .map(|(num, _)| num)
            .collect();
        let held = session.held(now);
        assert_eq!(held.keys().collect::<Vec<_>>(), expected, "session {place}");
        let mut fresh = Session::new(&session.def);
        fresh.pull(&engines[0]);
        assert_eq!(fresh.held(now), held, "a session that starts now holds the same versions");
    }
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn r17_items_converge_for_any_writes_losses_and_purges(steps in prop::collection::vec(step(), 1..60)) {
        run(&steps);
    }
}

/// A parent with so many members.
fn with_members(world: &World, count: usize) {
    write(&world.engine, |w| {
        w.put("Asso", asso("p"))?;
        (0..count).try_for_each(|num| w.put("Adh", adh("p", &num.to_string())).map(drop))
    });
}

#[test]
fn r17_a_reply_carries_the_floor_until_it_was_asked_above_it() {
    let world = items();
    with_members(&world, 3);
    world.clock.advance(10);
    let floor = write(&world.engine, |w| w.delete("Asso", &asso("p")));
    for asked in [1, floor - 1, floor] {
        let part = pull(&world.engine, &members("p"), asked);
        assert_eq!((part.floor, part.rows.len(), part.total), (Some(floor), 0, Some(0)), "asked {asked}");
    }
    assert_eq!(pull(&world.engine, &members("p"), floor + 1).floor, None);
    let first = pull(&world.engine, &members("p"), 0);
    assert_eq!((first.floor, first.present, first.total), (Some(floor), Some(vec![]), Some(0)));
    // A reply that is lost, and the same request again.
    let reply = pull(&world.engine, &members("p"), 1);
    assert_eq!(pull(&world.engine, &members("p"), 1), reply);
    let [parent, ..] = tree_defs("p");
    assert_eq!(pull(&world.engine, &parent, 1).floor, None, "it is of items alone");
}

#[test]
fn r17_every_page_carries_the_floor_and_a_deletion_between_pages_ends_the_rest() {
    let world = items_with(Settings { page_bytes: 300, ..Settings::default() });
    with_members(&world, 9);
    let part = pull(&world.engine, &members("p"), 1);
    let next = part.next.clone().expect("more pages");
    assert_eq!(part.floor, tree(&world.engine, "p").map(|tree| tree.floor), "the creation is one");
    world.clock.advance(10);
    write(&world.engine, |w| w.delete("Asso", &asso("p")));
    let floor = write(&world.engine, |w| {
        w.put("Asso", asso("p"))?;
        (20..29).try_for_each(|num| w.put("Adh", adh("p", &num.to_string())).map(drop))
    });
    let more = |cursor: &str| escale::codec::Sub { cursor: Some(cursor.to_owned()), ..sub(&members("p"), 1) };
    let part = ask(&world.engine, vec![more(&next)]).parts.remove(0);
    let page = |part: &escale::codec::Part| (part.floor, part.rows.iter().all(|row| row.v == floor));
    assert_eq!(page(&part), (Some(floor), true));
    let part = ask(&world.engine, vec![more(&part.next.expect("more pages"))]).parts.remove(0);
    assert_eq!(page(&part), (Some(floor), true));
}

#[test]
fn r17_the_items_of_the_same_write_get_tombstones() {
    let world = items();
    with_members(&world, 2);
    let v = write(&world.engine, |w| {
        w.put("Adh", adh("p", "7"))?;
        w.delete("Asso", &asso("p"))?;
        w.put("Asso", asso("p"))?;
        w.put("Adh", adh("p", "8")).map(drop)
    });
    let part = pull(&world.engine, &members("p"), 1);
    let mut rows: Vec<_> = part.rows.iter().map(|row| (row.v, row.deleted)).collect();
    rows.sort_unstable();
    assert_eq!((part.floor, rows, part.total), (Some(v), vec![(v, false), (v, true)], Some(2)));
    assert!(pull(&world.engine, &single("p", "7"), 1).rows[0].deleted);
    assert_eq!(ids(&pull(&world.engine, &single("p", "8"), 1)), ["8"]);
    let held = tree(&world.engine, "p").unwrap();
    assert_eq!((held.floor, held.v, held.items, held.tombstones), (v, v, 1, 1));
}

#[test]
fn r17_a_single_item_is_deleted_at_the_floor() {
    let world = items();
    with_members(&world, 1);
    world.clock.advance(5_000);
    let floor = write(&world.engine, |w| w.delete("Asso", &asso("p")));
    let told = |asked| {
        let part = pull(&world.engine, &single("p", "0"), asked);
        (part.rows.iter().map(|row| (row.v, row.deleted)).collect::<Vec<_>>(), part.total)
    };
    let deleted = (vec![(floor, true)], Some(1));
    assert_eq!([told(0), told(1), told(floor)], [deleted.clone(), deleted.clone(), deleted]);
    assert_eq!(told(floor + 1), (vec![], Some(0)));
    world.clock.advance(10_000);
    assert_eq!(told(0), (vec![], Some(0)), "long settled");
    assert_eq!(pull(&world.engine, &single("p", "0"), 0).present, Some(vec![]));
}

#[test]
fn r17_what_ended_is_purged_after_the_retention_in_batches() {
    let world = items_with(Settings { retention_days: 2, ..Settings::default() });
    with_members(&world, 1_201);
    let count = || {
        let raw = rusqlite::Connection::open(Engine::database_in(world.folder.path())).unwrap();
        let one = |sql: &str| raw.query_row(sql, [], |row| row.get::<_, u64>(0)).unwrap();
        (
            one("SELECT count(*) FROM documents"),
            one("SELECT count(*) FROM memberships"),
            one("SELECT count(*) FROM trees"),
        )
    };
    world.clock.advance(1_000);
    let floor = write(&world.engine, |w| w.delete("Asso", &asso("p")));
    world.clock.set(floor + 2 * DAY);
    assert_eq!((world.engine.purge().unwrap(), count()), (0, (1_202, 1_201, 1)));
    world.clock.advance(1);
    assert_eq!((world.engine.purge().unwrap(), count()), (1_202, (0, 0, 0)));
    assert_eq!(world.engine.purge().unwrap(), 0);
    // A session from before learns it by the list.
    for def in [members("p"), single("p", "0")] {
        assert_eq!(pull(&world.engine, &def, floor).present, Some(vec![]));
    }
}

#[test]
fn r17_a_parent_created_again_and_again_keeps_the_items_of_its_last_lives_alone() {
    let world = items_with(Settings { retention_days: 2, ..Settings::default() });
    for day in 0..8 {
        write(&world.engine, |w| {
            let _ = w.delete("Asso", &asso("p"));
            w.put("Asso", asso("p"))?;
            w.put("Adh", adh("p", &day.to_string())).map(drop)
        });
        world.clock.advance(DAY);
        world.engine.purge().unwrap();
        let raw = rusqlite::Connection::open(Engine::database_in(world.folder.path())).unwrap();
        let sql = "SELECT count(*) FROM documents WHERE class = 'Adh'";
        let kept: u64 = raw.query_row(sql, [], |row| row.get(0)).unwrap();
        assert!(kept <= 6, "{kept} items after day {day}");
    }
    assert_eq!(ids(&pull(&world.engine, &members("p"), 0)), ["7"]);
}

#[test]
fn r17_of_many_tombstones_the_newest_are_told_and_the_horizon_rises() {
    let world = items();
    with_members(&world, 1_100);
    for from in [0, 500] {
        world.clock.advance(10);
        write(&world.engine, |w| {
            (from..from + 600).try_for_each(|num| {
                let _ = w.delete("Adh", &adh("p", &num.to_string()));
                Ok(())
            })
        });
    }
    let before = tree(&world.engine, "p").unwrap();
    assert_eq!((before.tombstones, before.items, before.horizon), (1_100, 0, 0));
    assert_eq!(world.engine.purge().unwrap(), 0, "a session may hold a link that is as new");
    world.clock.advance(600_000);
    assert_eq!(world.engine.purge().unwrap(), 100);
    let after = tree(&world.engine, "p").unwrap();
    assert_eq!((after.tombstones, after.horizon > before.floor), (1_000, true));
    let part = pull(&world.engine, &members("p"), after.horizon - 1);
    assert_eq!((part.rows.len() >= 1_000, part.present), (true, Some(vec![])));
    assert_eq!(pull(&world.engine, &members("p"), after.horizon).present, None);
    // Single items are answered as before, because their tombstones stay.
    assert!((0..1_100).all(|num| pull(&world.engine, &single("p", &num.to_string()), 1).rows[0].deleted));
    assert_eq!(world.engine.purge().unwrap(), 0);
}

/// A database restored on a machine with a clock that is behind, for example.
#[test]
fn r17_a_write_is_above_everything_in_its_tree() {
    let world = items();
    with_members(&world, 1);
    let ahead = NOON + 50_000;
    let pk = escale::model::Pk::from_key(&["p"]).unwrap();
    let at = escale_server::provider::Place { org: "o", class: "Asso", pk: pk.as_str() };
    let mut tx = world.engine.provider().write("o", std::time::Duration::ZERO).unwrap();
    let held = tx.snapshot().tree(at).unwrap().unwrap();
    tx.put_tree(at, &escale_server::provider::Tree { v: ahead, ..held }).unwrap();
    tx.commit().unwrap();
    let v = write(&world.engine, |w| w.put("Adh", adh("p", "5")).map(drop));
    assert_eq!(v, ahead + 1);
}
