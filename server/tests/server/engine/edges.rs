//! Exact bounds of the engine, schemas that change, and classes that no session sees.
#![allow(clippy::result_large_err)] // as in the engine

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use escale::Code;
use escale::codec::{Fault, Op, SyncRequest};
use escale::limits::{DOCUMENT_BYTES_MAX, OPS_MAX, TEXT_CHARS_MAX, VERSION_MAX};
use escale::model::schema::Schema;
use escale::model::{Def, Name, Pk, Value};
use escale_server::clock::ManualClock;
use escale_server::engine::{Engine, Opening, OperationTx, Ran, first_site, renew_epoch};
use escale_server::mark::{Mark, MemoryMark};
use escale_server::provider::{Document, MemoryDatabase, MemoryProvider, Place};
use escale_server::seal::Seal;
use escale_server::settings::{Settings, WRITE_MS_MAX};

use crate::support::operating::*;
use crate::support::world::*;

/// An engine over a database in memory, on which thousands of commits take no time.
fn in_memory(
    database: &Arc<MemoryDatabase>,
    clock: &Arc<ManualClock>,
    settings: Settings,
) -> escale::Result<Engine> {
    let opening = Opening { schema: schema(), settings, seal: Seal::clear(), clock: clock.clone() };
    let mark = Mark::in_memory(&Arc::new(MemoryMark::default()));
    Engine::over(Box::new(MemoryProvider::open(database)), mark, opening, 7)
}

fn fresh(clock: &Arc<ManualClock>) -> Engine {
    let database = MemoryDatabase::new(first_site(1).unwrap());
    in_memory(&database, clock, Settings::default()).unwrap()
}

fn stored(engine: &Engine, class: &str, id: &str) -> Option<Document> {
    let pk = Pk::from_key(&[id]).unwrap();
    let at = Place { org: "o", class, pk: pk.as_str() };
    engine.provider().read().unwrap().document(at).unwrap()
}

fn ids_of(engine: &Engine, org: &str, def: &Def) -> Vec<String> {
    let request = SyncRequest { subs: vec![sub(def, 0)], ..SyncRequest::of("s") };
    let part = engine.sync(org, &caller(), &request).unwrap().parts.remove(0);
    assert_eq!(part.fault, None);
    let mut ids = ids(&part);
    ids.sort();
    ids
}

#[test]
fn settings_that_violate_r4_open_no_engine() {
    let settings = Settings { delta_ms: WRITE_MS_MAX - 1, ..Settings::default() };
    let folder = tempfile::tempdir().unwrap();
    let opened = open(folder.path(), &ManualClock::at(NOON), settings.clone());
    assert_eq!(opened.err().unwrap().code(), Code::BadOption);
    let database = MemoryDatabase::new(first_site(1).unwrap());
    let opened = in_memory(&database, &ManualClock::at(NOON), settings);
    assert_eq!(opened.err().unwrap().code(), Code::BadOption);
}

#[test]
fn a_new_database_has_nothing_but_random_names() {
    let (one, other) = (first_site(NOON).unwrap(), first_site(NOON).unwrap());
    assert_eq!((one.commits, one.promised_now, one.generation), (0, 0, 0));
    assert_eq!((one.cursor_key.len(), one.epoch.ms()), (32, NOON));
    assert!(one.cursor_key != other.cursor_key && one.epoch != other.epoch);
}

#[test]
fn a_batch_has_at_most_500_operations() {
    let engine = fresh(&ManualClock::at(NOON));
    let batch = |count: usize| -> Value {
        let put = |n: usize| -> Value {
            [("name", Value::from("doc.put")), ("args", put_args(&n.to_string(), "one"))].into()
        };
        [("ops", Value::Array((0..count).map(put).collect()))].into()
    };
    assert_eq!(one(&engine, "batch", batch(OPS_MAX + 1)).0, "too_large");
    assert_eq!(one(&engine, "batch", batch(OPS_MAX)).0, "ok");
}

/// One more than a transaction removes, and as many results of operations.
#[test]
fn r6_a_purge_goes_on_until_nothing_is_left_to_remove() {
    for count in [500, 501] {
        let clock = ManualClock::at(NOON);
        let engine = fresh(&clock);
        let ids: Vec<String> = (0..count).map(|n| n.to_string()).collect();
        let ops = |name: &'static str| {
            ids.iter().zip(1..).map(move |(id, seq)| {
                let args = if name == "doc.put" { put_args(id, "one") } else { key_args(id) };
                op(&format!("{name} {id}"), seq, name, args)
            })
        };
        for (session, name) in [("puts", "doc.put"), ("deletes", "doc.delete")] {
            for some in ops(name).collect::<Vec<Op>>().chunks(OPS_MAX) {
                assert_eq!(send_as(&engine, "", session, some.to_vec()).results.len(), some.len());
            }
        }
        clock.advance(400 * DAY);
        // Each tombstone, and its departure from nothing else.
        assert_eq!(engine.purge().unwrap(), count, "{count} tombstones");
        assert_eq!(engine.purge().unwrap(), 0);
        let snapshot = engine.provider().read().unwrap();
        for id in &ids {
            for name in ["doc.put", "doc.delete"] {
                let id = format!("{name} {id}");
                assert!(snapshot.operation("o", "", &id).unwrap().is_none(), "{id}: its result is gone");
                assert!(snapshot.spent("o", "", &id).unwrap().is_some(), "{id}: it is known");
            }
        }
    }
}

/// Nothing is removed yet, so the horizon stays.
#[test]
fn r6_a_purge_of_nothing_writes_nothing() {
    let clock = ManualClock::at(NOON);
    let engine = fresh(&clock);
    put(&engine, note("a", "one")).unwrap();
    clock.advance(400 * DAY);
    let state = || {
        let snapshot = engine.provider().read().unwrap();
        (snapshot.site().unwrap(), snapshot.heads("", 9).unwrap())
    };
    let before = state();
    assert_eq!(engine.purge().unwrap(), 0);
    assert_eq!(state(), before);
}

#[test]
fn a_document_may_be_of_the_first_version_of_all() {
    let clock = ManualClock::at(1);
    let engine = fresh(&clock);
    let ok = |id: &str, seq, name, args| {
        let reply = send(&engine, vec![op(id, seq, name, args)]);
        assert_eq!(told(&reply), [(id, "ok")]);
        reply.results[0].ok.as_ref().unwrap().v
    };
    assert_eq!(ok("a", 1, "doc.put", put_args("a", "one")), 1);
    assert_eq!(ok("b", 2, "doc.put", put_args("b", "one")), 2);
    // Nobody has written to it since the second operation.
    let args = with(put_args("a", "two"), "ifVersion", [("op", Value::from("b"))]);
    assert_eq!(ok("c", 3, "doc.put", args), 3);
}

#[test]
fn r4_a_clock_may_show_the_greatest_version_and_no_more() {
    let clock = ManualClock::at(VERSION_MAX);
    let engine = fresh(&clock);
    assert_eq!(ask(&engine, Vec::new()).now, VERSION_MAX);
    assert_eq!(put(&engine, note("a", "one")).unwrap(), Some(VERSION_MAX));
    clock.set(VERSION_MAX + 1);
    assert_eq!(put(&engine, note("b", "one")).unwrap_err().code(), Code::ServerError);
}

#[test]
fn r8_a_new_epoch_is_one_millisecond_later_if_the_clock_is_behind() {
    let database = MemoryDatabase::new(first_site(NOON).unwrap());
    let mark = Mark::in_memory(&Arc::new(MemoryMark::default()));
    for (now, then) in [(5, NOON + 1), (NOON, NOON + 2), (NOON + 2, NOON + 3), (NOON + 9, NOON + 9)] {
        let epoch = renew_epoch(&MemoryProvider::open(&database), &mark, None, (now, 3)).unwrap();
        assert_eq!(epoch.ms(), then);
    }
}

/// Each operation takes a second. The last one to begin does so after 20 seconds.
#[test]
fn no_operation_of_a_request_begins_after_twenty_seconds() {
    let clock = ManualClock::at(NOON);
    let waits = |ms: u64| {
        let clock = clock.clone();
        move |tx: &mut OperationTx<'_>, _: &Value| -> Ran {
            tx.put("Note", note(&tx.now().to_string(), "one"))?;
            clock.advance(ms);
            Ok(Some(Value::from(tx.now() as i64)))
        }
    };
    let engine = fresh(&clock).operation("second", waits(WRITE_MS_MAX)).unwrap();
    let engine = engine.operation("more", waits(WRITE_MS_MAX + 1)).unwrap();
    let ops = (1..30).map(|seq| op(&seq.to_string(), seq, "second", Value::Null)).collect();
    let reply = send(&engine, ops);
    assert_eq!(reply.results.len(), 21);
    for result in &reply.results {
        let ok = result.ok.as_ref().unwrap();
        assert_eq!(ok.value, Some(Value::from(ok.v as i64)), "an operation knows its version");
    }
    assert_eq!(one(&engine, "more", Value::Null).0, "contention");
    let written = engine.write("o", |w| {
        w.put("Note", note("late", "one"))?;
        clock.advance(WRITE_MS_MAX + 1);
        Ok(())
    });
    assert_eq!(written.unwrap_err().code(), Code::Contention);
    assert_eq!(stored(&engine, "Note", "late"), None);
}

/// It blocks all other writes, so it must not run to its end.
#[test]
fn a_write_that_outlasts_its_time_can_change_nothing_more() {
    let clock = ManualClock::at(NOON);
    let engine = fresh(&clock);
    put(&engine, note("a", "one")).unwrap();
    let mut late = Vec::new();
    let written = engine.write("o", |w| {
        clock.advance(WRITE_MS_MAX);
        w.put("Note", note("b", "one"))?;
        clock.advance(1);
        let put = w.put("Note", note("a", "one")).map(|_| ());
        late.extend([put, w.delete("Note", &key("a"))].map(|result| result.unwrap_err().code()));
        Ok(())
    });
    assert_eq!(late, [Code::Contention; 2]);
    assert_eq!(written.unwrap_err().code(), Code::Contention);
}

#[test]
fn numbers_and_names_of_operations_have_their_bounds() {
    let engine = fresh(&ManualClock::at(NOON));
    let asked = |seq: u64, after: Option<String>| {
        let ops = vec![Op { after, ..op("a", seq, "doc.put", put_args("a", "one")) }];
        let request = SyncRequest { ops, ..SyncRequest::of("s") };
        let reply = engine.sync("o", &caller(), &request).map_err(|error| error.code());
        reply.map(|reply| code_of(&reply.results[0]).to_owned())
    };
    let text = |bytes: usize| Some("x".repeat(bytes));
    assert_eq!(asked(0, None), Err(Code::Malformed));
    assert_eq!(asked(VERSION_MAX, None), Ok("order_gap".to_owned()));
    assert_eq!(asked(VERSION_MAX + 1, None), Err(Code::Malformed));
    assert_eq!(asked(1, text(0)), Err(Code::Malformed));
    assert_eq!(asked(1, text(TEXT_CHARS_MAX)), Ok("order_held".to_owned()));
    assert_eq!(asked(1, text(TEXT_CHARS_MAX + 1)), Err(Code::Malformed));
    assert_eq!(asked(1, None), Ok("ok".to_owned()));

    let named = |name: &str| fresh(&ManualClock::at(NOON)).operation(name, |_, _| Ok(None)).err();
    for (name, is_fine) in [
        ("", false),
        ("a", true),
        (&*"x".repeat(TEXT_CHARS_MAX), true),
        (&*"x".repeat(TEXT_CHARS_MAX + 1), false),
        ("doc.put", false),
        ("batch", false),
    ] {
        assert_eq!(named(name).map(|error| error.code()), (!is_fine).then_some(Code::BadOption), "{name}");
    }
}

#[test]
fn a_returned_value_is_at_most_as_large_as_a_document() {
    let sized = |_: &mut OperationTx<'_>, args: &Value| -> Ran {
        let bytes = args.as_u64().ok_or_else(|| Fault::new(Code::BadValue, "no number"))?;
        // A text of this length takes five bytes more.
        Ok(Some(Value::String("x".repeat(bytes as usize - 5))))
    };
    let engine = fresh(&ManualClock::at(NOON)).operation("sized", sized).unwrap();
    assert_eq!(one(&engine, "sized", Value::from(DOCUMENT_BYTES_MAX as i64 + 1)).0, "too_large");
    assert_eq!(one(&engine, "sized", Value::from(DOCUMENT_BYTES_MAX as i64)).0, "ok");
}

#[test]
fn what_is_over_is_kept_for_the_retention_time() {
    let clock = ManualClock::at(NOON);
    let engine = fresh(&clock);
    let kept = Settings::default().retention_ms();
    let minute = NOON / 60_000;
    for (end, ttl) in [(minute + 90, (minute + 90) * 60_000 + kept), (minute - 90, NOON + kept)] {
        let mut map = note(&end.to_string(), "one");
        map.insert("maxLife".into(), Value::from(end as i64));
        clock.set(NOON);
        let v = put(&engine, map).unwrap().unwrap();
        let document = stored(&engine, "Note", &end.to_string()).unwrap();
        // Each write has its own version.
        assert_eq!((document.max_life, document.ttl), (Some(end), Some(ttl.max(v + kept))));
    }
    let v = put(&engine, note("a", "one")).unwrap();
    assert_eq!(stored(&engine, "Note", "a").unwrap().ttl, None);
    let gone = delete(&engine, "a").unwrap().unwrap();
    let tombstone = stored(&engine, "Note", "a").unwrap();
    assert!(Some(gone) > v && tombstone.deleted);
    assert_eq!(tombstone.ttl, Some(gone + kept));
}

/// A purged document has no links and no values of indexes, be they of its org or of all.
#[test]
fn r6_a_purged_document_leaves_nothing_but_its_journal() {
    let world = world();
    let mut map = note("a", "one");
    map.extend([("mail", "m"), ("isbn", "i")].map(|(name, value)| (name.to_owned(), Value::from(value))));
    let mut other = map.clone();
    other.insert("id".into(), "b".into());
    map.insert("maxLife".into(), Value::from((NOON / 60_000 + 1) as i64));
    put(&world.engine, map).unwrap();
    assert_eq!(put(&world.engine, other.clone()).unwrap_err().code(), Code::NotUnique);
    world.clock.advance(400 * DAY);
    assert_eq!((world.engine.purge().unwrap(), stored(&world.engine, "Note", "a")), (1, None));
    assert!(pull(&world.engine, &shelf("one"), 1).rows.is_empty());
    assert!(put(&world.engine, other).unwrap().is_some());
}

#[test]
fn the_end_of_a_life_is_sent_from_its_minute_on() {
    let minute = NOON / 60_000;
    for (end, now, since, sent) in [
        (minute + 10, (minute + 10) * 60_000 - 1, 1, Some(false)),
        (minute + 10, (minute + 10) * 60_000, 1, Some(true)),
        // A pull of everything need not say it of documents that no page of it has held.
        (minute, NOON + 2_000, 0, Some(true)),
        (minute, NOON + 2_001, 0, None),
    ] {
        let world = world();
        let mut map = note("a", "one");
        map.insert("maxLife".into(), Value::from(end as i64));
        assert_eq!(put(&world.engine, map).unwrap(), Some(NOON));
        world.clock.set(now);
        let rows = pull(&world.engine, &shelf("one"), since).rows;
        assert_eq!(rows.first().map(|row| row.deleted), sent, "{end} {now} {since}");
    }
}

/// A row takes 48 bytes and its data, a pk of `present` takes 25.
#[test]
fn a_reply_is_full_at_its_bound() {
    let world = world();
    for id in ["a", "b", "c"] {
        put(&world.engine, note(id, "one")).unwrap();
    }
    // The first byte that is stored names its form.
    let row = 48 + stored(&world.engine, "Note", "a").unwrap().data.len() - 1;
    let World { folder, clock, engine } = world;
    drop(engine);
    for (page_bytes, rows, parts) in [
        (1, 1, 1),
        (2 * row - 1, 1, 1),
        (2 * row, 2, 1),
        (3 * row - 1, 2, 1),
        (3 * row, 3, 1),
        (3 * row + 75, 3, 1),
        (3 * row + 76, 3, 2),
    ] {
        let engine = open(folder.path(), &clock, Settings { page_bytes, ..Settings::default() }).unwrap();
        let reply = ask(&engine, vec![sub(&shelf("one"), 0), sub(&shelf("none"), 0)]);
        assert_eq!((reply.parts[0].rows.len(), reply.parts.len()), (rows, parts), "{page_bytes} bytes");
        assert_eq!(reply.parts[0].next.is_some(), rows < 3);
    }
}

fn open_as(folder: &Path, clock: &Arc<ManualClock>, schema: &str, seal: Seal) -> Engine {
    let schema = Schema::from_json(schema).unwrap();
    Engine::open(folder, Opening { schema, settings: Settings::default(), seal, clock: clock.clone() })
        .unwrap()
}

fn item(id: &str, kind: &str, code: &str) -> std::collections::BTreeMap<String, Value> {
    let words = list(&[code, "all", code]);
    [("id", id.into()), ("kind", kind.into()), ("code", code.into()), ("words", words)]
        .map(|(name, value): (&str, Value)| (name.to_owned(), value))
        .into()
}

fn kind(value: &str) -> Def {
    Def::collection(&Name::new("Item").unwrap(), &Name::new("kind").unwrap(), &[value]).unwrap()
}

/// The schema of items: whether sessions see them, and the parts that change.
fn items(is_sync: bool, more: &str) -> String {
    format!(
        r#"{{"Item":{{"key":["id"],"sync":{is_sync}{more},"indexes":{{"code":{{"type":"string","unique":true}},"words":"string[]"}}}}}}"#
    )
}

const KIND: &str = r#","collections":{"kind":{"key":["kind"],"mutable":true}}"#;

/// A class without `sync` keeps no departures and no tombstones. When sessions may see it, they find its documents as
/// they are.
#[test]
fn r6_a_class_that_is_synchronised_later_shows_what_there_is() {
    let (folder, clock) = (quick_folder(), ManualClock::at(NOON));
    let engine = open_as(folder.path(), &clock, &items(false, KIND), Seal::clear());
    let write = |engine: &Engine, id: &str, kind: &str, code: &str| {
        engine
            .write("o", |w| w.put("Item", item(id, kind, code)))
            .map(|written| written.v)
            .map_err(|e| e.code())
    };
    for (id, code) in [("a", "1"), ("b", "2"), ("c", "3")] {
        write(&engine, id, "old", code).unwrap();
    }
    write(&engine, "a", "new", "1").unwrap();
    assert_eq!(write(&engine, "d", "old", "2"), Err(Code::NotUnique));
    engine.write("o", |w| w.delete("Item", &key("b"))).unwrap();
    assert_eq!(stored(&engine, "Item", "b"), None, "no tombstone");
    write(&engine, "d", "old", "2").unwrap();
    let state = |engine: &Engine| engine.provider().read().unwrap().head("o").unwrap().unwrap();
    let before = state(&engine);
    drop(engine);
    let released = items(false, &format!(",\"release\":2{KIND}"));
    let engine = open_as(folder.path(), &clock, &released, Seal::clear());
    assert_eq!(state(&engine).horizon, before.horizon, "no membership differs");
    drop(engine);
    let seen = items(true, &format!(",\"release\":2{KIND}"));
    let engine = open_as(folder.path(), &clock, &seen, Seal::clear());
    assert_eq!(state(&engine).horizon, before.highest + 1);
    assert_eq!(ids_of(&engine, "o", &kind("old")), ["c", "d"]);
    assert_eq!(ids_of(&engine, "o", &kind("new")), ["a"]);
}

/// A collection that is declared again holds the documents of today.
#[test]
fn a_collection_that_was_gone_for_a_while_holds_no_documents_of_old() {
    let (folder, clock) = (quick_folder(), ManualClock::at(NOON));
    for (schema, kind_of_a) in [(items(true, KIND), "old"), (items(true, ""), "new")] {
        let engine = open_as(folder.path(), &clock, &schema, Seal::clear());
        for (id, kind) in [("a", kind_of_a), ("b", "old")] {
            engine.write("o", |w| w.put("Item", item(id, kind, id))).unwrap();
        }
    }
    let engine = open_as(folder.path(), &clock, &items(true, KIND), Seal::clear());
    assert_eq!(ids_of(&engine, "o", &kind("old")), ["b"]);
    assert_eq!(ids_of(&engine, "o", &kind("new")), ["a"]);
}

#[test]
fn the_singleton_hdr_belongs_to_the_org_root() {
    let (folder, clock) = (quick_folder(), ManualClock::at(NOON));
    let schema = r#"{"Hdr":{"key":["id"]},"Note":{"key":["id"]}}"#;
    let engine = open_as(folder.path(), &clock, schema, Seal::clear());
    let write = |org: &str, class: &str| {
        engine.write(org, |w| w.put(class, key("1"))).map(|written| written.v.is_some()).map_err(|e| e.code())
    };
    assert_eq!((write("o", "Note"), write("ROOT", "Note")), (Ok(true), Ok(true)));
    assert_eq!((write("o", "Hdr"), write("ROOT", "Hdr")), (Err(Code::BadKey), Ok(true)));
}

/// All headers have one pk, so only their data tells two keys apart.
#[test]
fn a_put_of_another_key_does_not_replace_the_singleton_hdr() {
    let (folder, clock) = (quick_folder(), ManualClock::at(NOON));
    let engine = open_as(folder.path(), &clock, r#"{"Hdr":{"key":["id"]}}"#, Seal::clear());
    let put = |id: &str, size: i64| {
        let mut header = key(id);
        header.insert("size".into(), Value::from(size));
        let written = engine.write("ROOT", |w| w.put("Hdr", header.clone()));
        written.map(|written| written.v.is_some()).map_err(|error| error.code())
    };
    assert_eq!(put("one", 1), Ok(true));
    assert_eq!(put("two", 1), Err(Code::KeyMismatch));
    assert_eq!(put("one", 2), Ok(true), "the same key");
    engine.write("ROOT", |w| w.delete("Hdr", &key("one"))).unwrap();
    assert_eq!(put("two", 1), Ok(true), "over a tombstone, it creates the document");
}

/// The first site key seals each state of the journal and each result, however few there are.
#[test]
fn the_first_site_key_seals_the_journal_and_all_results() {
    let (folder, clock) = (quick_folder(), ManualClock::at(NOON));
    let engine = open_as(folder.path(), &clock, SCHEMA, Seal::clear());
    let ids = ["a", "b", "c"];
    let ops = ids.iter().zip(1..).map(|(id, seq)| op(id, seq, "doc.put", put_args(id, "one"))).collect();
    assert_eq!(send(&engine, ops).results.len(), 3);
    drop(engine);
    let engine = open_as(folder.path(), &clock, SCHEMA, Seal::with_key(&[3; 32]).adopting());
    for id in ids {
        let operation = engine.provider().read().unwrap().operation("o", "", id).unwrap().unwrap();
        assert!(!Seal::is_clear(&operation.result), "the result of {id}");
        assert!(!Seal::is_clear(&stored(&engine, "Note", id).unwrap().data), "{id}");
    }
    let states = std::cell::RefCell::new(Vec::new());
    let mut tx = engine.provider().maintain(Duration::ZERO).unwrap();
    let mut last = 0;
    while let Some(number) = tx
        .rewrite_actions((last, 9), &|_, _, bytes| {
            states.borrow_mut().push(Seal::is_clear(bytes));
            Ok(None)
        })
        .unwrap()
    {
        last = number;
    }
    assert_eq!(states.into_inner(), [false; 3]);
}
