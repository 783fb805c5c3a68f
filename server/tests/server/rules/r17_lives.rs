//! R16 and R17, against another way to bring a cache up to date (seed 004, cases 1 and 2). There a document knows when its
//! present life began (`ctime`), and since when it remembers its deleted items (`dtime`). A cache compares both. Sessions
//! must hold the same after each pull, whichever deletions the server and the reference have forgotten.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use escale::model::Value;
use escale_server::clock::ManualClock;
use escale_server::engine::{Engine, WriteTx};
use escale_server::settings::Settings;
use proptest::prelude::*;

use super::r20_numbers::stored;
use crate::support::items::*;
use crate::support::session::Session;
use crate::support::world::*;

#[derive(Clone, Debug)]
enum Write {
    Parent(bool),
    Put(u8),
    Delete(u8),
}

#[derive(Clone, Debug)]
enum Step {
    /// One transaction.
    Writes(Vec<Write>),
    /// A session reads a page, and may stop there.
    Page(usize),
    /// A session pulls, and its cache is brought up to date.
    Sync(usize),
    Purge,
    Pass(u64),
    /// The reference forgets deletions up to this share of its versions.
    Forget(u8),
}

fn a_write() -> impl Strategy<Value = Write> {
    prop_oneof![
        2 => prop::bool::weighted(0.6).prop_map(Write::Parent),
        6 => (0..6_u8).prop_map(Write::Put),
        4 => (0..6_u8).prop_map(Write::Delete),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => prop::collection::vec(a_write(), 1..5).prop_map(Step::Writes),
        2 => (0..3_usize).prop_map(Step::Page),
        4 => (0..3_usize).prop_map(Step::Sync),
        2 => Just(Step::Purge),
        2 => prop_oneof![0..5_000_u64, 0..2 * DAY].prop_map(Step::Pass),
        2 => any::<u8>().prop_map(Step::Forget),
    ]
}

/// The version of an item, and whether it lives: a deleted one has no content.
type Item = (u64, bool);

/// A document with its items: the reference, or a cache of it.
#[derive(Clone, Default, Debug)]
struct Copy {
    lives: bool,
    v: u64,
    ctime: u64,
    dtime: u64,
    items: BTreeMap<String, Item>,
}

impl Copy {
    /// Writes to the server and to this copy. Both must agree whether the write is possible.
    fn write(&mut self, w: &mut WriteTx<'_>, write: &Write, edition: i64) -> escale::Result<()> {
        let with = |map: BTreeMap<String, Value>| {
            map.into_iter().chain([("edition".to_owned(), edition.into())]).collect::<BTreeMap<_, _>>()
        };
        match write {
            Write::Parent(true) => {
                w.put("Asso", with(asso("p")))?;
                if !self.lives {
                    *self = Copy { lives: true, ctime: NEW, dtime: NEW, v: NEW, ..Copy::default() };
                }
                self.v = NEW;
            }
            Write::Parent(false) => {
                assert_eq!(w.delete("Asso", &asso("p")).is_ok(), self.lives);
                if self.lives {
                    *self = Copy { v: NEW, ..Copy::default() };
                }
            }
            Write::Put(num) => {
                assert_eq!(w.put("Adh", with(adh("p", &num.to_string()))).is_ok(), self.lives);
                if self.lives {
                    (self.v, _) = (NEW, self.items.insert(num.to_string(), (NEW, true)));
                }
            }
            Write::Delete(num) => {
                let held = self.items.get_mut(&num.to_string()).filter(|item| item.1);
                assert_eq!(w.delete("Adh", &adh("p", &num.to_string())).is_ok(), held.is_some());
                if let Some(item) = held {
                    (self.v, *item) = (NEW, (NEW, false));
                }
            }
        }
        Ok(())
    }

    /// Gives the version of the transaction to all that it wrote.
    fn stamp(&mut self, v: u64) {
        let times = [&mut self.v, &mut self.ctime, &mut self.dtime];
        let versions = self.items.values_mut().map(|item| &mut item.0);
        times.into_iter().chain(versions).filter(|time| **time == NEW).for_each(|time| *time = v);
    }

    /// Forgets the deletions up to a version.
    fn forget(&mut self, dtime: u64) {
        self.dtime = self.dtime.max(dtime.min(self.v));
        self.items.retain(|_, item| item.1 || item.0 > self.dtime);
    }

    /// Brings this cache up to date from a reference.
    fn catch_up(&mut self, reference: &Copy) {
        if !reference.lives || !self.lives || self.ctime < reference.ctime {
            *self = reference.clone();
            return;
        }
        let since = self.v;
        let changed = reference.items.iter().filter(|(_, item)| item.0 > since);
        self.items.extend(changed.map(|(key, item)| (key.clone(), *item)));
        if since < reference.dtime {
            // Case 2: the reference has forgotten some deletions, and tells which items exist.
            let existing: BTreeSet<&String> = reference.items.keys().collect();
            self.items.retain(|key, _| existing.contains(key));
            self.dtime = reference.dtime;
        }
        // Case 1: it remembers every deletion since.
        (self.v, self.dtime) = (reference.v, self.dtime.max(reference.dtime));
        self.forget(self.dtime);
    }

    fn living(&self) -> BTreeMap<String, u64> {
        self.items.iter().filter(|(_, item)| item.1).map(|(key, item)| (key.clone(), item.0)).collect()
    }
}

/// The version of a transaction that has none yet.
const NEW: u64 = u64::MAX;

fn run(steps: &[Step], schema: &str) {
    let settings = Settings { retention_days: 2, page_bytes: 200, ..Settings::default() };
    let folder = quick_folder();
    let clock: Arc<ManualClock> = ManualClock::at(NOON);
    let engine: Engine = open_schema(folder.path(), &clock, settings, schema);
    let mut reference = Copy::default();
    let mut sessions: [Session; 3] = std::array::from_fn(|_| Session::new(&members("p")));
    let mut caches: [Copy; 3] = Default::default();
    for (edition, step) in steps.iter().enumerate() {
        match step {
            Step::Writes(writes) => {
                let mut next = reference.clone();
                let before = stored(&engine, "p").n;
                let written = engine.write("o", |w| {
                    next = reference.clone();
                    writes.iter().try_for_each(|write| next.write(w, write, edition as i64))
                });
                let n = stored(&engine, "p").n;
                if let Some(v) = written.unwrap().v {
                    next.stamp(if n > before { n } else { v });
                }
                reference = next;
            }
            Step::Page(place) => drop(sessions[*place].pull_page(&engine)),
            Step::Sync(place) => compare(&engine, &mut sessions[*place], &mut caches[*place], &reference),
            Step::Purge => drop(engine.purge().unwrap()),
            Step::Pass(ms) => clock.advance(*ms),
            Step::Forget(share) => {
                let span = reference.v - reference.dtime;
                reference.forget(reference.dtime + span / 255 * u64::from(*share) + span % 255);
            }
        }
    }
    for (session, cache) in sessions.iter_mut().zip(&mut caches) {
        compare(&engine, session, cache, &reference);
    }
}

fn compare(engine: &Engine, session: &mut Session, cache: &mut Copy, reference: &Copy) {
    // The first pull may end a load that began before.
    session.pull(engine);
    session.pull(engine);
    cache.catch_up(reference);
    assert_eq!(cache.living(), reference.living(), "the cache has what the reference has");
    assert_eq!(session.held(NOON), cache.living(), "the session holds what the cache holds");
}

proptest! {
    #![proptest_config(cases(120))]

    #[test]
    fn r17_sessions_equal_caches_that_compare_ctime_and_dtime(
        steps in prop::collection::vec(step(), 1..60), numbered: bool,
    ) {
        run(&steps, if numbered { NUMBERED } else { ITEMS });
    }
}
