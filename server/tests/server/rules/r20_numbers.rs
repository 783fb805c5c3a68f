//! R20: on the clock `sequence`, the versions of a tree are its own numbers.

use std::collections::BTreeMap;
use std::sync::Arc;

use escale::model::schema::Schema;
use escale::model::{Def, DefKind, Pk, Value};
use escale_server::clock::{Clock, ManualClock};
use escale_server::engine::{Engine, Opening, WriteTx};
use escale_server::provider::{Place, TOMBSTONES_MAX, Tree};
use escale_server::seal::Seal;
use escale_server::settings::Settings;
use proptest::prelude::*;

use crate::support::base::Base;
use crate::support::items::*;
use crate::support::session::Session;
use crate::support::world::*;

#[derive(Clone, Debug)]
enum Write {
    /// Puts the parent with that text, or deletes it.
    Parent(Option<u8>),
    Put(u8, u8, Option<u64>),
    Delete(u8),
    /// A document of the clock `time` in the same transaction.
    Note(u8),
}

#[derive(Clone, Debug)]
enum Step {
    /// A transaction on that instance: each write in one of two trees.
    Writes(usize, Vec<(bool, Write)>),
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
        3 => prop::option::weighted(0.6, 0..2_u8).prop_map(Write::Parent),
        6 => (0..5_u8, 0..2_u8, life).prop_map(|(num, text, life)| Write::Put(num, text, life)),
        2 => (0..5_u8).prop_map(Write::Delete),
        1 => (0..3_u8).prop_map(Write::Note),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let writes = prop::collection::vec((any::<bool>(), a_write()), 1..5);
    prop_oneof![
        6 => (0..2_usize, writes).prop_map(|(n, writes)| Step::Writes(n, writes)),
        6 => (0..4_usize, 0..2_usize, prop::bool::weighted(0.3))
            .prop_map(|(session, instance, is_lost)| Step::Page { session, instance, is_lost }),
        2 => Just(Step::Purge),
        3 => prop_oneof![0..5_000_u64, 0..2 * DAY].prop_map(Step::Pass),
        1 => (0..400_u64).prop_map(Step::Skew),
    ]
}

/// A document as it should be: its properties, its version, the end of its life.
type Doc = (BTreeMap<String, Value>, u64, Option<u64>);

/// A tree as it should be.
#[derive(Clone, Default)]
struct Model {
    n: u64,
    parent: Option<Doc>,
    items: BTreeMap<String, Doc>,
    /// Whether the present transaction has taken a number.
    is_written: bool,
}

impl Model {
    fn number(&mut self) -> u64 {
        self.n += u64::from(!std::mem::replace(&mut self.is_written, true));
        self.n
    }

    /// Writes to the model and to the server, which must agree.
    fn write(&mut self, w: &mut WriteTx<'_>, id: &str, write: &Write, now: u64) -> escale::Result<()> {
        let text = |map: BTreeMap<String, Value>, text: u8| {
            map.into_iter()
                .chain([("text".to_owned(), Value::from(i64::from(text)))])
                .collect::<BTreeMap<_, _>>()
        };
        match write {
            Write::Parent(Some(n)) => {
                let map = text(asso(id), *n);
                w.put("Asso", map.clone())?;
                if self.parent.as_ref().is_none_or(|(held, ..)| *held != map) {
                    self.parent = Some((map, self.number(), None));
                }
            }
            Write::Parent(None) => {
                assert_eq!(w.delete("Asso", &asso(id)).is_ok(), self.parent.is_some());
                if self.parent.take().is_some() {
                    self.number();
                    self.items.clear();
                }
            }
            Write::Put(num, n, life) => {
                let end = life.map(|minutes| now / 60_000 + minutes);
                let mut map = text(adh(id, &num.to_string()), *n);
                map.extend(end.map(|end| ("maxLife".to_owned(), (end as i64).into())));
                assert_eq!(w.put("Adh", map.clone()).is_ok(), self.parent.is_some());
                if self.parent.is_some() && self.items.get(&num.to_string()).is_none_or(|doc| doc.0 != map) {
                    let doc = (map, self.number(), end);
                    self.items.insert(num.to_string(), doc);
                }
            }
            Write::Delete(num) => {
                let held = self.items.remove(&num.to_string());
                let deleted = w.delete("Adh", &adh(id, &num.to_string())).is_ok();
                // One whose life has ended may have been purged.
                assert!(deleted == held.is_some() || held.is_some_and(|doc| doc.2.is_some()));
                if deleted {
                    self.number();
                }
            }
            Write::Note(n) => drop(w.put("Note", note(&format!("{id}{n}"), id))?),
        }
        Ok(())
    }

    /// The ids that a def shows at that time, with their versions.
    fn shown(&self, def: &Def, id: &str, now: u64) -> BTreeMap<String, u64> {
        let lives = |doc: &&Doc| doc.2.is_none_or(|minute| minute * 60_000 > now);
        if let DefKind::Document(_) = def.kind() {
            return self.parent.iter().map(|doc| (id.to_owned(), doc.1)).collect();
        }
        self.items.iter().filter(|(_, doc)| lives(doc)).map(|(num, doc)| (num.clone(), doc.1)).collect()
    }
}

const IDS: [&str; 2] = ["p", "q"];

pub fn stored(engine: &Engine, id: &str) -> Tree {
    tree(engine, id).unwrap_or_default()
}

fn run(base: &Base, steps: &[Step]) {
    let settings = Settings { retention_days: 2, page_bytes: 200, skew_ms: 500, ..Settings::default() };
    let clocks = [ManualClock::at(NOON), ManualClock::at(NOON)];
    let open = |clock: &Arc<ManualClock>| {
        let schema = Schema::from_json(NUMBERED).unwrap();
        base.open(Opening { schema, settings: settings.clone(), seal: Seal::clear(), clock: clock.clone() })
            .unwrap()
    };
    let engines: [Engine; 2] = [open(&clocks[0]), open(&clocks[1])];
    let mut models = [Model::default(), Model::default()];
    let of = |session: usize| IDS[session % 2];
    let def = |session: usize| tree_defs(of(session))[usize::from(session < 2)].clone();
    let mut sessions: Vec<Session> = (0..4).map(|session| Session::new(&def(session))).collect();
    for step in steps {
        match step {
            Step::Writes(instance, writes) => {
                let now = clocks[*instance].now_ms();
                let mut next = models.clone();
                let written = engines[*instance].write("o", |w| {
                    next = models.clone().map(|model| Model { is_written: false, ..model });
                    writes.iter().try_for_each(|(second, write)| {
                        next[usize::from(*second)].write(w, IDS[usize::from(*second)], write, now)
                    })
                });
                written.unwrap();
                models = next;
                for (model, id) in models.iter().zip(IDS) {
                    assert_eq!(stored(&engines[0], id).n, model.n, "the numbers of {id}");
                }
            }
            Step::Page { session, instance, is_lost } => {
                let (engine, session) = (&engines[*instance], &mut sessions[*session]);
                if *is_lost {
                    ask(engine, vec![sub(&session.def, session.v)]);
                } else {
                    session.pull_page(engine);
                }
            }
            Step::Purge => drop(engines[0].purge().unwrap()),
            Step::Pass(ms) => {
                for clock in &clocks {
                    clock.advance(*ms);
                }
                base.set_clock(clocks[0].now_ms());
            }
            Step::Skew(ms) => clocks[1].set(clocks[0].now_ms() + ms),
        }
    }
    let now = clocks[0].now_ms();
    for (place, session) in sessions.iter_mut().enumerate() {
        // The first pull may end a load that began before.
        session.pull(&engines[place % 2]);
        session.pull(&engines[place % 2]);
        let model = &models[place % 2];
        assert_eq!(session.held(now), model.shown(&session.def, of(place), now), "session {place}");
        assert_eq!(session.v, model.n, "session {place}");
        let again = pull(&engines[0], &session.def, session.v);
        assert_eq!((again.rows.len(), again.n), (0, Some(model.n)), "nothing comes twice");
    }
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn r20_numbers_have_no_gap_and_sessions_are_exact(steps in prop::collection::vec(step(), 1..60)) {
        run(&Base::folder(), &steps);
    }
}

#[cfg(feature = "postgres")]
proptest! {
    #![proptest_config(cases(12))]

    #[test]
    fn r20_numbers_have_no_gap_on_postgres(steps in prop::collection::vec(step(), 1..40)) {
        run(&Base::postgres(crate::support::postgres::server(), Some(NOON)), &steps);
    }
}

pub fn numbered_with(settings: Settings) -> World {
    world_of(settings, NUMBERED)
}

pub fn numbered() -> World {
    numbered_with(Settings::default())
}

fn version(world: &World, class: &str, key: &[&str]) -> u64 {
    let pk = Pk::from_key(key).unwrap();
    let snapshot = world.engine.provider().read().unwrap();
    snapshot.document(Place { org: "o", class, pk: pk.as_str() }).unwrap().unwrap().v
}

#[test]
fn r20_parent_items_and_tombstones_of_a_transaction_have_one_number() {
    let world = numbered();
    let v = write(&world.engine, |w| {
        w.put("Asso", asso("p"))?;
        w.put("Adh", adh("p", "1"))?;
        w.put("Sta", sta("p"))?;
        w.put("Asso", asso("q")).map(drop)
    });
    assert!(v >= NOON, "the write itself has a time");
    let all = [("Asso", vec!["p"]), ("Adh", vec!["p", "1"]), ("Sta", vec!["p"]), ("Asso", vec!["q"])];
    assert_eq!(all.map(|(class, key)| version(&world, class, &key)), [1, 1, 1, 1]);
    // The same again changes nothing, and takes no number.
    world.engine.write("o", |w| w.put("Adh", adh("p", "1"))).unwrap();
    assert_eq!(stored(&world.engine, "p").n, 1);
    write(&world.engine, |w| w.delete("Adh", &adh("p", "1")));
    write(&world.engine, |w| w.delete("Asso", &asso("p")));
    write(&world.engine, |w| {
        w.put("Asso", asso("p"))?;
        w.put("Adh", adh("p", "1")).map(drop)
    });
    assert_eq!((version(&world, "Asso", &["p"]), version(&world, "Adh", &["p", "1"])), (4, 4));
    let part = pull(&world.engine, &members("p"), 2);
    assert_eq!(
        (part.floor, part.n, ids(&part), part.present),
        (Some(4), Some(4), vec!["1".to_owned()], None)
    );
}

#[test]
fn r20_numbers_go_on_after_all_of_a_tree_was_purged() {
    let world = numbered_with(Settings { retention_days: 2, ..Settings::default() });
    write(&world.engine, |w| {
        w.put("Asso", asso("p"))?;
        (0..700).try_for_each(|num| w.put("Adh", adh("p", &num.to_string())).map(drop))
    });
    write(&world.engine, |w| w.delete("Asso", &asso("p")));
    // The items need not wait: sessions learn of their end by the floor.
    assert_eq!(world.engine.purge().unwrap(), 700);
    assert_eq!(pull(&world.engine, &members("p"), 1).floor, Some(2));
    world.clock.advance(2 * DAY + 1);
    assert_eq!(world.engine.purge().unwrap(), 1, "the tombstone of the parent");
    assert_eq!(world.engine.purge().unwrap(), 0);
    let held = stored(&world.engine, "p");
    assert_eq!((held.n, held.horizon, held.due), (2, 3, 0));
    let [parent, ..] = tree_defs("p");
    assert_eq!(pull(&world.engine, &parent, 1).present, Some(vec![]), "a session that slept");
    assert_eq!(pull(&world.engine, &parent, 2).present, None, "one that knew its end");
    write(&world.engine, |w| w.put("Asso", asso("p")).map(drop));
    assert_eq!(version(&world, "Asso", &["p"]), 3);
}

/// The horizon of an org is a time. Nothing in a tree of numbers is compared with it, and it does not move for one.
#[test]
fn r20_the_horizons_of_times_and_of_numbers_are_apart() {
    let world = numbered_with(Settings { retention_days: 2, ..Settings::default() });
    write(&world.engine, |w| {
        w.put("Asso", asso("p"))?;
        w.put("Adh", adh("p", "1"))?;
        w.put("Note", note("a", "s")).map(drop)
    });
    let settled = NOON + 1;
    write(&world.engine, |w| w.delete("Adh", &adh("p", "1")));
    world.clock.advance(2 * DAY + 10);
    assert_eq!(world.engine.purge().unwrap(), 1);
    assert_eq!(pull(&world.engine, &def("Note"), settled).present, None, "no document of a time has gone");
    assert_eq!(pull(&world.engine, &members("p"), 1).present, Some(vec![]));
    assert_eq!(pull(&world.engine, &members("p"), 2).present, None);
    write(&world.engine, |w| w.delete("Note", &key("a")));
    world.clock.advance(2 * DAY + 10);
    assert_eq!(world.engine.purge().unwrap(), 1);
    assert_eq!(pull(&world.engine, &def("Note"), settled).present, Some(vec![]));
    assert_eq!(pull(&world.engine, &members("p"), 2).present, None);
}

#[test]
fn r20_of_many_tombstones_the_oldest_go_at_once_because_numbers_are_exact() {
    let world = numbered();
    let count = TOMBSTONES_MAX + 3;
    write(&world.engine, |w| {
        w.put("Asso", asso("p"))?;
        (0..count).try_for_each(|num| w.put("Adh", adh("p", &num.to_string())).map(drop))
    });
    for num in 0..count {
        write(&world.engine, |w| w.delete("Adh", &adh("p", &num.to_string())));
    }
    assert_eq!(world.engine.purge().unwrap(), 3);
    let held = stored(&world.engine, "p");
    assert_eq!((held.n, held.horizon, held.tombstones), (count + 1, 5, TOMBSTONES_MAX));
    let part = pull(&world.engine, &members("p"), 3);
    assert_eq!((part.rows.len() as u64, part.present), (TOMBSTONES_MAX, Some(vec![])));
    assert_eq!(pull(&world.engine, &members("p"), 4).present, None);
}

#[test]
fn r20_a_class_of_numbers_is_subscribed_to_by_document() {
    let world = numbered();
    for text in ["Asso", "Adh", &single("p", "1").to_string()] {
        let part = pull(&world.engine, &def(text), 0);
        assert_eq!(part.fault.map(|fault| fault.code).as_deref(), Some("unknown_def"), "{text}");
    }
    let [parent, members, _] = tree_defs("new");
    for def in [parent, members] {
        let part = pull(&world.engine, &def, 0);
        assert_eq!((part.n, part.present), (Some(0), Some(vec![])), "nothing was ever written there");
    }
}

#[test]
fn r20_the_feed_and_the_journal_tell_the_number() {
    let world = numbered();
    let provider = world.engine.provider();
    let seen = provider.changed(None, &mut |_| Ok(())).unwrap().seen;
    write(&world.engine, |w| {
        w.put("Asso", asso("p"))?;
        w.put("Adh", adh("p", "1")).map(drop)
    });
    write(&world.engine, |w| w.delete("Asso", &asso("p")));
    let mut fed = Vec::new();
    let mut visit = |row: escale_server::provider::FeedRow| {
        fed.push((row.class, row.v));
        Ok(())
    };
    provider.changed(Some(&seen), &mut visit).unwrap();
    let told = [("Asso", 1), ("Adh", 1), ("Asso", 2), ("Adh", 2), ("Sta", 2)];
    assert_eq!(fed, told.map(|(class, v)| (class.to_owned(), v)));
}

/// A class that was in no schema for a while may lack tombstones that were purged meanwhile.
#[test]
fn r20_a_class_that_comes_back_is_listed_whole_once() {
    let world = numbered();
    write(&world.engine, |w| {
        w.put("Asso", asso("p"))?;
        w.put("Adh", adh("p", "1")).map(drop)
    });
    let World { folder, clock, engine } = world;
    drop(engine);
    let without = r#"{ "Asso": { "key": ["id"], "clock": "sequence" } }"#;
    drop(open_schema(folder.path(), &clock, Settings::default(), without));
    let engine = open_schema(folder.path(), &clock, Settings::default(), NUMBERED);
    let part = pull(&engine, &members("p"), 1);
    assert_eq!(part.present.map(|pks| pks.len()), Some(1));
    write(&engine, |w| w.put("Adh", adh("p", "2")).map(drop));
    assert_eq!(pull(&engine, &members("p"), 2).present, None);
}

#[test]
fn r20_the_clock_of_a_class_stays() {
    let world = numbered();
    let World { folder, clock, engine } = world;
    drop(engine);
    let other = NUMBERED.replace(r#", "clock": "sequence""#, "");
    let opening = Opening {
        schema: Schema::from_json(&other).unwrap(),
        settings: Settings::default(),
        seal: Seal::clear(),
        clock,
    };
    let error = Engine::open(folder.path(), opening).err().unwrap();
    assert_eq!(error.code(), escale::Code::SchemaMismatch);
}
