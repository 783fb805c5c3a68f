//! The work of one request is bounded, and not by the number of its names. The database in memory counts the rows.
//! Deadlines pass on a clock that counts how often it is asked.
#![allow(clippy::result_large_err)] // as in the engine

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use escale::Code;
use escale::codec::{Op, Part, Sub, SyncRequest};
use escale::model::schema::Schema;
use escale::model::{Def, Pk, Value};
use escale_server::clock::{Clock, ManualClock};
use escale_server::engine::{Engine, Opening, answer_while, first_site};
use escale_server::mark::Mark;
use escale_server::provider::{MemoryDatabase, MemoryProvider};
use escale_server::seal::Seal;
use escale_server::settings::Settings;
use proptest::prelude::*;

use crate::support::operating::{op, put_args, send};
use crate::support::world::*;

const TAGS: usize = 8;

fn engine_on(database: &Arc<MemoryDatabase>, settings: Settings, clock: Arc<dyn Clock>) -> Engine {
    let schema = Schema::from_json(SCHEMA).unwrap();
    let opening = Opening { schema, settings, seal: Seal::clear(), clock };
    Engine::over(Box::new(MemoryProvider::open(database)), Mark::none(), opening, 7).unwrap()
}

fn database() -> Arc<MemoryDatabase> {
    MemoryDatabase::new(first_site(1).unwrap())
}

fn rows(n: u64) -> Settings {
    Settings { request_rows: n, ..Settings::default() }
}

fn texts(items: impl IntoIterator<Item = String>) -> Value {
    Value::Array(items.into_iter().map(Value::String).collect())
}

/// A collection of each tag, and the class.
fn defs() -> Vec<Def> {
    let tag = |n: usize| format!("Note/tags@{}", escale::model::sha_s(&n.to_string()));
    (0..TAGS).map(tag).chain(["Note".to_owned()]).map(|text| def(&text)).collect()
}

/// Writes documents, each in some of the collections, and deletes some of them again.
fn fill(engine: &Engine, documents: &[(u8, bool)]) {
    for (n, (tags, is_deleted)) in documents.iter().enumerate() {
        let own = (0..TAGS).filter(|tag| tags & (1 << tag) != 0).map(|tag| tag.to_string());
        let mut map = note(&n.to_string(), "one");
        map.insert("tags".into(), texts(own));
        put(engine, map).unwrap();
        if *is_deleted {
            delete(engine, &n.to_string()).unwrap();
        }
    }
}

/// Asks until each def is whole, with a cursor where the reply had one. Returns the rows of each, and the replies that it took.
fn load(engine: &Engine, defs: &[Def], v: u64) -> (BTreeMap<Def, Vec<String>>, usize) {
    let mut due: Vec<Sub> = defs.iter().map(|def| sub(def, v)).collect();
    let (mut found, mut replies) = (BTreeMap::<Def, Vec<String>>::new(), 0);
    while !due.is_empty() {
        replies += 1;
        let parts = ask(engine, due.clone()).parts;
        assert!(!parts.is_empty(), "every reply makes progress");
        for Part { def, rows, next, .. } in parts {
            found.entry(def.clone()).or_default().extend(rows.iter().map(|row| row.pk.to_string()));
            match next {
                None => due.retain(|sub| sub.def != def),
                Some(next) => due
                    .iter_mut()
                    .filter(|sub| sub.def == def)
                    .for_each(|sub| sub.cursor = Some(next.clone())),
            }
        }
    }
    (found, replies)
}

proptest! {
    #![proptest_config(cases(24))]

    /// A reply looks at its budget, and at the rows of one def. Nobody misses anything by it.
    #[test]
    fn a_reply_looks_at_a_bounded_number_of_rows_whatever_it_names(
        documents in prop::collection::vec((any::<u8>(), prop::bool::weighted(0.7)), 1..120),
        named in prop::collection::vec(0..=TAGS, 1..40),
        v in prop_oneof![Just(0), Just(NOON + 40)],
        budget in 1..2_000_u64,
    ) {
        let database = database();
        let clock = ManualClock::at(NOON);
        fill(&engine_on(&database, Settings::default(), clock.clone()), &documents);
        let engine = engine_on(&database, rows(budget), clock.clone());
        let all = defs();
        let asked = || named.iter().map(|n| all[*n].clone());
        database.take_most_looked_at();
        ask(&engine, asked().map(|def| sub(&def, v)).collect());
        let (looked, _) = database.take_most_looked_at();
        // The rows of a def are counted, read and listed.
        prop_assert!(looked <= budget + 3 * documents.len() as u64, "{looked} rows of {budget}");

        let mut distinct: Vec<Def> = asked().collect();
        distinct.sort();
        distinct.dedup();
        let (found, replies) = load(&engine, &distinct, v);
        let (expected, _) = load(&engine_on(&database, Settings::default(), clock), &distinct, v);
        prop_assert_eq!(found, expected);
        prop_assert!(replies <= distinct.len());
    }
}

/// Each naming of one def took three looks at all its tombstones.
#[test]
fn a_def_that_is_named_a_thousand_times_is_looked_at_once() {
    let database = database();
    let engine = engine_on(&database, Settings::default(), ManualClock::at(NOON));
    fill(&engine, &[(1, true); 300]);
    engine.purge().unwrap();
    database.take_most_looked_at();
    ask(&engine, vec![sub(&def("Note"), 0); 1_000]);
    let (looked, _) = database.take_most_looked_at();
    assert!(looked <= 3 * 300 + 100, "{looked} rows");
}

#[test]
fn no_group_of_operations_and_no_part_begins_for_a_caller_who_has_gone() {
    static HAS_GONE: AtomicBool = AtomicBool::new(false);
    let engine = engine_on(&database(), Settings::default(), ManualClock::at(NOON))
        .operation("leave", |_, _| {
            HAS_GONE.store(true, Ordering::Relaxed);
            Ok(None)
        })
        .unwrap();
    let put = |seq: u64| op(&format!("op{seq}"), seq, "doc.put", put_args(&seq.to_string(), "one"));
    let mut ops: Vec<Op> = (1..=40).map(put).collect();
    ops[3] = op("op4", 4, "leave", Value::Null);
    let request = SyncRequest { ops: ops.clone(), subs: vec![sub(&def("Note"), 0)], ..SyncRequest::of("s") };
    let answer = || answer_while(&engine, ("o", &caller()), &request, &HAS_GONE);
    assert_eq!(answer().unwrap_err().code(), Code::Unavailable);
    let held = pull(&engine, &def("Note"), 0);
    assert_eq!(held.rows.len(), 31, "the first group alone, without the one that left");
    HAS_GONE.store(false, Ordering::Relaxed);
    let reply = send(&engine, ops);
    assert_eq!((reply.results.len(), reply.seq), (40, 40), "the session sends them again");
}

/// A clock that goes on by a millisecond whenever somebody measures a duration.
struct Asked(AtomicU64);

impl Clock for Asked {
    fn now_ms(&self) -> u64 {
        NOON
    }

    fn elapsed_ms(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }

    fn pass(&self, _: u64) -> bool {
        false
    }
}

fn args_of(data: BTreeMap<String, Value>) -> Value {
    Value::from([("class", Value::from("Note")), ("data", Value::Map(data))])
}

fn with_tags(n: usize) -> Value {
    let mut data = note("long", "one");
    // Long names: short ones would be refused for the bytes that they add.
    data.insert("tags".into(), texts((0..n).map(|n| format!("a tag of this name {n}"))));
    args_of(data)
}

/// The code of the end of an operation.
fn end_of(engine: &Engine, name: &str, args: Value) -> String {
    let reply = send(engine, vec![op("op1", 1, name, args)]);
    reply.results[0].fault.as_ref().map_or("ok".into(), |fault| fault.code.clone())
}

#[test]
fn r4_each_loop_of_a_write_whose_length_a_caller_chooses_has_a_deadline() {
    let part = |name: &str, args: Value| Value::from([("name", Value::from(name)), ("args", args)]);
    let quotas = (0..500).map(|_| part("quota.get", Value::Map(BTreeMap::new())));
    let quotas = Value::from([("ops", Value::Array(quotas.collect()))]);
    for (what, name, args, is_late) in [
        ("few memberships", "doc.put", with_tags(500), false),
        ("many memberships", "doc.put", with_tags(5_000), true),
        ("a batch that writes nothing", "batch", quotas, false),
    ] {
        let clock = Arc::new(Asked(AtomicU64::new(0)));
        let engine = engine_on(&database(), Settings::default(), clock.clone());
        let end = end_of(&engine, name, args);
        assert_eq!(end, if is_late { "contention" } else { "ok" }, "{what}");
        let asked = clock.0.load(Ordering::SeqCst);
        assert!(asked <= 1_100, "{what}: it went on to {asked}");
        assert!(asked >= 500 || is_late, "{what}: {asked}");
    }
}

/// As long as each of its names was compared with each property, this took minutes.
#[test]
fn long_lists_in_a_write_are_not_compared_one_by_one() {
    let engine = engine_on(&database(), Settings::default(), ManualClock::at(NOON));
    let mut data = note("wide", "one");
    data.extend((0..40_000).map(|n| (format!("p{n}"), Value::from(1_i64))));
    let unset = texts((0..80_000).map(|n| format!("p{}", n + 20_000)));
    let key = texts(["wide".to_owned()]);
    let set = Value::Map(BTreeMap::new());
    let patch = [("class", Value::from("Note")), ("key", key), ("set", set), ("unset", unset)];
    let tags = |from: usize| {
        let mut data = note("long", "one");
        data.insert("tags".into(), texts((from..from + 20_000).map(|n| n.to_string())));
        args_of(data)
    };
    let ops = vec![
        op("op1", 1, "doc.put", args_of(data)),
        op("op2", 2, "doc.patch", Value::from(patch)),
        op("op3", 3, "doc.put", tags(0)),
        op("op4", 4, "doc.put", tags(10_000)),
    ];
    let reply = send(&engine, ops);
    assert!(reply.results.iter().all(|result| result.fault.is_none()), "{:?}", reply.results[0].fault);
    let pk = Pk::from_key(&["wide"]).unwrap();
    let wide = engine.write("o", |w| Ok(w.get("Note", pk.as_str())?.unwrap().1.len())).unwrap();
    assert_eq!(wide.value, 20_000 + 3, "with its key, its shelf and its release");
}

/// R4: operations alone do not carry an org's time away.
#[test]
fn r4_operations_push_the_versions_a_second_ahead_of_the_clock_at_most() {
    let clock = ManualClock::at(NOON);
    let engine = engine_on(&database(), Settings::default(), clock.clone());
    let highest = || engine.provider().read().unwrap().head("o").unwrap().unwrap().highest;
    let mut seq = 0;
    let mut send_all = |n: u64| {
        while seq < n {
            let to = (seq + 500).min(n);
            let put = |seq: u64| {
                op(&format!("op{seq}"), seq, "doc.put", put_args(&(seq % 50).to_string(), &seq.to_string()))
            };
            let reply = send(&engine, (seq + 1..=to).map(put).collect());
            assert!(reply.results.iter().all(|result| result.ok.is_some()));
            seq += reply.results.len() as u64;
        }
    };
    send_all(3_000);
    let ahead = highest() - clock.now_ms();
    assert!((900..=1_000).contains(&ahead), "{ahead} ms");
    assert!(clock.now_ms() - NOON <= 2_100, "and the versions go on with the clock");
    // A clock that is set back holds nobody up for longer than that.
    let (before, elapsed) = (highest(), clock.elapsed_ms());
    clock.set(NOON - 3_600_000);
    send_all(4_000);
    assert_eq!(highest(), before + 1_000);
    assert!(clock.elapsed_ms() - elapsed <= 1_001);
}
