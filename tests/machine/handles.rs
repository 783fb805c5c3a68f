//! A store whose handle dies under the machine: readings that wait, a store that was wiped, one that is too new.

use escale::crypto::SeededRandom;
use escale::journal::{Retention, Signal, make_id};
use escale::memory::Memory;
use escale::memory::query::Query;
use escale::model::{Name, Value};
use escale::storage::{Damage, Expected, Reopened};
use escale::store::conformance::block_on;
use escale::store::{Durability, Store, Table};
use escale::sync::{Effect, Event, Machine, StorageState, Write};
use escale::{Code, Error, Result};
use escale_testkit::client::Call;
use escale_testkit::schema::by_key;

use crate::harness::{Harness, config, def, part, pk, refusal, reply, row, schema, section, these, whole};
use crate::harness_with_device::Desk;

fn dead() -> Error {
    Error::new(Code::StorageClosed, "by the test")
}

fn reopens(desk: &mut Desk) -> Vec<Expected> {
    desk.harness.take_calls(|call| match call {
        Call::Reopen(expected) => Some(expected.clone()),
        _ => None,
    })
}

fn readings(desk: &mut Desk) -> Vec<u64> {
    desk.harness.take_calls(|call| match call {
        Call::Pages { ticket, .. } => Some(*ticket),
        _ => None,
    })
}

/// The answers to reads: how many rows, or the failure.
fn answers(desk: &mut Desk) -> Vec<std::result::Result<usize, Code>> {
    desk.harness.take(|effect| match effect {
        Effect::Answer { rows, .. } => Some(rows.as_ref().map(Vec::len).map_err(Error::code)),
        _ => None,
    })
}

fn all_ids(desk: &Desk) -> Vec<u32> {
    desk.harness.client.machine.list(&def("Doc")).expect("subscribed").0
}

/// The store as the machine knows it, or an empty one.
fn found(is_whole: bool) -> Result<Reopened> {
    Ok(Reopened { header: None, is_whole })
}

fn asked(desk: &mut Desk) -> Vec<String> {
    let subs = desk.harness.requests.pop_back().map(|(_, request, _)| request.subs).unwrap_or_default();
    let mut asked: Vec<String> = subs.iter().map(|sub| sub.def.to_string()).collect();
    asked.sort_unstable();
    asked
}

/// The store was wiped. Documents whose pages were read lately are written again, and the others are requested.
#[test]
fn r14_a_wiped_store_gets_cached_documents_back_and_the_others_are_requested() {
    for is_cached in [false, true] {
        let mut desk = Desk::new();
        desk.load(vec![row("a", 1), row("b", 2)]);
        if is_cached {
            desk.read_all();
        }
        desk.harness.feed(Event::DeviceClosed(dead()));
        assert_eq!(reopens(&mut desk).len(), 1);
        desk.harness.feed(Event::Reopened(found(false)));
        let singles: Vec<String> = ["a", "b"].map(|id| format!("Doc@{}", pk(id))).into();
        let mut wanted = if is_cached { vec![] } else { singles };
        wanted.sort_unstable();
        assert_eq!(asked(&mut desk), wanted);
        let damaged = desk.harness.client.machine.status().damaged.documents;
        assert_eq!(damaged, if is_cached { 0 } else { 2 });
        let batches = desk.write();
        assert_eq!(batches.len(), 1, "everything is written again");
    }
}

#[test]
fn readings_wait_for_the_next_handle_once() {
    let mut desk = Desk::new();
    desk.load(vec![row("a", 1), row("b", 2)]);
    let ids = all_ids(&desk);
    let read = |desk: &mut Desk, ticket| desk.harness.feed(Event::Read { ticket, ids: ids.clone() });
    read(&mut desk, 2);
    let ticket = readings(&mut desk)[0];
    desk.harness.feed(Event::PagesRead { ticket, pages: Err(dead()) });
    assert_eq!((reopens(&mut desk).len(), answers(&mut desk).len()), (1, 0), "it waits");
    // Another reading is requested in the meantime.
    read(&mut desk, 4);
    assert!(readings(&mut desk).is_empty(), "there is no handle");
    desk.harness.feed(Event::Reopened(Err(Error::new(Code::StorageFailed, "by the test"))));
    let failed = Err(Code::StorageFailed);
    assert_eq!(answers(&mut desk), [failed, failed], "nothing waits for ever");
    assert_eq!(desk.storage(), StorageState::Memory);
    let at = desk.harness.wake_at().expect("it is tried again");
    assert_eq!(at, desk.harness.now + 1_000);
    desk.harness.wake(at);
    assert_eq!(reopens(&mut desk).len(), 1);
    read(&mut desk, 6);
    let header = block_on(desk.store().header()).expect("a header");
    desk.harness.feed(Event::Reopened(Ok(Reopened { header, is_whole: true })));
    assert_eq!(desk.storage(), StorageState::Ok);
    let waited = readings(&mut desk);
    assert_eq!(waited.len(), 1, "the reading that waited");
    // The handle dies again, and has carried out nothing: the reading fails, and the next attempt waits longer.
    desk.harness.feed(Event::PagesRead { ticket: waited[0], pages: Err(dead()) });
    assert_eq!(answers(&mut desk), [Err(Code::StorageClosed)]);
    assert_eq!(desk.harness.wake_at(), Some(desk.harness.now + 2_000));
    desk.harness.wake(desk.harness.now + 2_000);
    assert_eq!(reopens(&mut desk).len(), 1);
    let header = block_on(desk.store().header()).expect("a header");
    desk.harness.feed(Event::Reopened(Ok(Reopened { header, is_whole: true })));
    // A reading that succeeds shows that the handle is good: the next failure is met at once again.
    assert_eq!(desk.read_all().len(), 2);
    desk.harness.feed(Event::DeviceClosed(dead()));
    assert_eq!(reopens(&mut desk).len(), 1);
}

/// A write that is carried out shows that the handle is good: the delays of later failures begin again.
#[test]
fn a_write_ends_the_delays_of_a_dead_handle() {
    let mut desk = Desk::new();
    desk.load(vec![row("a", 1)]);
    let failed = || Event::Reopened(Err(Error::new(Code::StorageFailed, "by the test")));
    for def in [def("Note"), section("games")] {
        desk.harness.feed(Event::DeviceClosed(dead()));
        assert_eq!(reopens(&mut desk).len(), 1, "at once");
        desk.harness.feed(failed());
        assert_eq!(desk.harness.wake_at(), Some(desk.harness.now + 1_000), "the first delay");
        desk.harness.wake(desk.harness.now + 1_000);
        assert_eq!(reopens(&mut desk).len(), 1);
        let header = block_on(desk.store().header()).expect("a header");
        desk.harness.feed(Event::Reopened(Ok(Reopened { header, is_whole: true })));
        desk.harness.subscribe(&def);
        desk.work();
        assert_eq!(desk.storage(), StorageState::Ok);
    }
}

/// A newer version of the code owns the store from now on: this session leaves it alone.
#[test]
fn a_store_that_is_too_new_is_not_opened_again() {
    let mut desk = Desk::new();
    desk.load(vec![row("a", 1)]);
    desk.harness.feed(Event::DeviceClosed(dead()));
    assert_eq!(reopens(&mut desk).len(), 1);
    desk.harness.feed(Event::Reopened(Err(Error::new(Code::StoreTooNew, "by the test"))));
    assert_eq!(desk.storage(), StorageState::Memory);
    for _ in 0..50 {
        let due = desk.harness.wake_at().unwrap_or(desk.harness.now + 60_000);
        desk.harness.wake(due);
        desk.harness.serve(20_000, |def| part(def, vec![]));
        assert!(reopens(&mut desk).is_empty());
    }
}

/// A batch met a dead handle. While the store is being opened again for the first time, that is no failure yet.
#[test]
fn a_closing_session_waits_for_the_first_new_handle() {
    let mut desk = Desk::new();
    desk.load(vec![row("a", 1)]);
    desk.harness.feed(Event::Unsubscribe(def("Doc")));
    let is_batch = |call: &Call| matches!(call, Call::Commit(_)).then_some(());
    assert_eq!(desk.harness.take_calls(is_batch).len(), 1);
    assert_eq!(desk.harness.client.machine.is_at_rest().ok(), Some(false));
    desk.harness.feed(Event::Committed(Err(dead())));
    assert_eq!(reopens(&mut desk).len(), 1);
    let next_poll = desk.harness.now + config().poll_every_ms;
    assert_eq!(desk.harness.wake_at(), Some(next_poll), "no batch is due without a handle");
    assert_eq!(desk.harness.client.machine.is_at_rest().ok(), Some(false), "a new handle may come");
    desk.harness.feed(Event::Reopened(Err(Error::new(Code::StorageFailed, "by the test"))));
    let failure = desk.harness.client.machine.is_at_rest().expect_err("it failed");
    assert_eq!(failure.code(), Code::StorageFailed);
}

/// A change made while the store is opened again is in no batch yet. A closing session waits for it, and the status
/// tells of the failure until it is written.
#[test]
fn a_change_made_without_a_handle_is_at_rest_once_it_is_written() {
    let mut desk = Desk::new();
    desk.load(vec![row("a", 1)]);
    let is_at_rest = |desk: &Desk| desk.harness.client.machine.is_at_rest().map_err(|error| error.code());
    desk.harness.feed(Event::DeviceClosed(dead()));
    assert_eq!((reopens(&mut desk).len(), is_at_rest(&desk)), (1, Ok(true)));
    desk.harness.subscribe(&section("games"));
    assert_eq!(is_at_rest(&desk), Ok(false), "the subscription is in memory alone");
    desk.harness.feed(Event::Reopened(Err(Error::new(Code::StorageFailed, "by the test"))));
    assert_eq!((desk.storage(), is_at_rest(&desk)), (StorageState::Memory, Err(Code::StorageFailed)));
    desk.harness.wake(desk.harness.now + 1_000);
    assert_eq!(reopens(&mut desk).len(), 1);
    let header = block_on(desk.store().header()).expect("a header");
    desk.harness.feed(Event::Reopened(Ok(Reopened { header, is_whole: true })));
    assert_eq!(desk.storage(), StorageState::Memory, "the handle works, and nothing is written yet");
    assert_eq!(desk.write().len(), 1);
    assert_eq!((desk.storage(), is_at_rest(&desk)), (StorageState::Ok, Ok(true)));
}

/// A request with repairs failed: they are requested again.
#[test]
fn r14_repairs_of_a_failed_request_are_requested_again() {
    let mut desk = Desk::new();
    desk.load(vec![row("a", 1)]);
    desk.damage_pages();
    assert!(desk.read_all().is_empty());
    let (number, request) = desk.harness.request();
    desk.harness.refuse(number, refusal(Code::Offline));
    let at = desk.harness.wake_at().expect("tried again");
    desk.harness.wake(at);
    let (number, again) = desk.harness.request();
    assert_eq!(again.subs, request.subs);
    desk.harness.answer(number, reply(20_000, vec![part(&again.subs[0].def, vec![row("a", 1)])]));
    desk.work();
    assert_eq!(desk.read_all(), these(&[("a", 1)]));
}

/// A page that was read stays in memory for a while: reading its documents again asks the device for nothing.
#[test]
fn pages_that_were_read_are_cached() {
    let mut desk = Desk::new();
    desk.load((0..50).map(|n| row(&format!("d{n}"), 1_000 + n)).collect());
    desk.read_all();
    let before = desk.readings;
    assert!(before > 0);
    assert_eq!(desk.read_all().len(), 50);
    assert_eq!(desk.readings, before);
}

/// An operation needs the data of its document, and the device fails to read it. It is asked again after a second.
#[test]
fn the_base_of_an_operation_is_read_again_after_a_second() {
    let mut desk = Desk::new();
    desk.load(vec![row("a", 1)]);
    desk.harness.serve(20_000, |def| whole(def, vec![row("a", 1)]));
    desk.work();
    let set = Value::from([("size", Value::from(5_i64))]);
    let key = Value::Array(vec!["a".into()]);
    let args = Value::from([("class", "Doc".into()), ("key", key), ("set", set)]);
    let id = make_id(1_700_000_000_000, &mut SeededRandom::new(1)).expect("an id");
    desk.harness.feed(Event::Write(Write {
        id,
        name: "doc.patch".into(),
        args,
        touches: vec![],
        after: vec![],
    }));
    for _ in 0..3 {
        let tickets = readings(&mut desk);
        assert_eq!(tickets.len(), 1);
        let pages = Err(Error::new(Code::StorageFailed, "by the test"));
        desk.harness.feed(Event::PagesRead { ticket: tickets[0], pages });
        assert_eq!(desk.harness.error(), Some(Code::StorageFailed));
        while !desk.write().is_empty() {}
        assert!(readings(&mut desk).is_empty() && desk.harness.requests.is_empty());
        assert_eq!(desk.harness.wake_at(), Some(desk.harness.now + 1_000));
        desk.harness.wake(desk.harness.now + 1_000);
    }
    desk.work();
    assert_eq!(desk.harness.request().1.ops.len(), 1, "it is sent once its document is known");
    // Nothing waits for a reading any more.
    assert!(desk.harness.wake_at().is_none_or(|at| at > desk.harness.now + 1_000));
}

#[test]
fn a_query_that_cannot_be_read_fails() {
    let mut desk = Desk::new();
    desk.load(vec![row("a", 1)]);
    let class = Name::new("Doc").expect("a name");
    desk.harness.feed(Event::Query { ticket: 2, class, query: by_key() });
    let ticket = readings(&mut desk)[0];
    let pages = Err(Error::new(Code::StorageFailed, "by the test"));
    desk.harness.feed(Event::PagesRead { ticket, pages });
    let told = desk.harness.take(|effect| match effect {
        Effect::Matched { ids, .. } => Some(ids.as_ref().map(Vec::len).map_err(Error::code)),
        _ => None,
    });
    assert_eq!((told, desk.storage()), (vec![Err(Code::StorageFailed)], StorageState::Ok));
}

#[test]
fn a_query_of_an_unknown_class_is_refused_by_name() {
    let mut harness = Harness::new(config());
    let class = Name::new("Nobody").expect("a name");
    harness.feed(Event::Query { ticket: 2, class, query: Query::default() });
    let told = harness.take(|effect| match effect {
        Effect::Matched { ticket, ids } => Some((*ticket, ids.as_ref().map_err(Error::code).cloned())),
        _ => None,
    });
    assert_eq!(told, [(2, Err(Code::UnknownClass))]);
}

/// Signals are no data of the application: no batch waits for the disk on their behalf.
#[test]
fn a_signal_is_written_without_haste_and_read_by_all() {
    let mut desk = Desk::new();
    let keys = desk.harness.client.machine.signal_keys().expect("a device");
    for signal in [Signal::Lock, Signal::Wipe, Signal::Synced, Signal::Avion, Signal::Beat] {
        let batch = desk.harness.client.machine.signal(signal).expect("a batch");
        assert_eq!(batch.durability, Durability::Relaxed);
        let (_, key, sealed) = &batch.puts[0];
        let (is_beat, key) = (signal == Signal::Beat, *key);
        assert_eq!(key, keys[usize::from(!is_beat)]);
        assert_eq!(desk.harness.client.machine.open_signal(key, sealed), Some(signal));
        let phase = desk.harness.client.machine.status().phase;
        assert_eq!(desk.harness.client.machine.open_beat(key, sealed), is_beat.then_some(phase));
    }
    let mut alone = Harness::new(config());
    assert!(alone.client.machine.signal(Signal::Lock).is_err());
    assert!(alone.client.machine.signal_keys().is_none());
}

#[test]
fn a_machine_leads_in_the_generation_that_its_state_was_read_in() {
    let machine = || {
        let random = Box::new(SeededRandom::new(7));
        Machine::new(config(), Memory::new(schema()), None, Damage::default(), "session".into(), random)
    };
    let following = machine().following();
    assert!(following.is_following() && !following.is_about_to_lead());
    assert!(!machine().is_following());
    let Desk { harness, .. } = Desk::new();
    let machine = harness.client.machine.leading(5);
    assert_eq!((machine.generation(), machine.is_about_to_lead()), (Some(5), false));
}

/// No sweep could follow such a rule. It is refused at the call, even if the device fails.
#[test]
fn a_sweep_by_an_invalid_rule_is_refused_at_the_call() {
    for is_dead in [false, true] {
        let mut desk = Desk::new();
        if is_dead {
            desk.harness.feed(Event::DeviceClosed(dead()));
        }
        desk.harness.feed(Event::Sweep { ticket: 4, retention: Retention::Count(0), apply: true });
        let told = desk.harness.take(|effect| match effect {
            Effect::Swept { ticket: 4, swept } => Some(swept.as_ref().map(|_| ()).map_err(Error::code)),
            _ => None,
        });
        assert_eq!(told, [Err(Code::BadOption)], "dead: {is_dead}");
    }
}

/// A query that was answered from its index reads no page again. Five minutes later the index is gone, unless a live
/// query is open.
#[test]
fn r30_an_index_is_dropped_once_nobody_uses_it() {
    let mut desk = Desk::new();
    desk.load(vec![row("a", 1), row("b", 2)]);
    let class = Name::new("Doc").expect("a name");
    let query = |desk: &mut Desk| {
        desk.harness.feed(Event::Query { ticket: 2, class: class.clone(), query: by_key() });
        let keys = |call: &Call| match call {
            Call::Pages { ticket, keys } => Some((*ticket, keys.clone())),
            _ => None,
        };
        let calls = desk.harness.take_calls(keys);
        let read = calls.len();
        for (ticket, keys) in calls {
            let pages = block_on(desk.store().get(Table::Pages, &keys));
            desk.harness.feed(Event::PagesRead { ticket, pages });
        }
        let told = desk.harness.take(|effect| match effect {
            Effect::Matched { ids, .. } => Some(ids.as_ref().expect("an answer").len()),
            _ => None,
        });
        assert_eq!(told, [2]);
        read
    };
    let wait = |desk: &mut Desk, ms: u64| {
        desk.harness.now += ms;
        desk.harness.feed(Event::Woke);
        desk.work();
    };
    assert_eq!([query(&mut desk), query(&mut desk)], [1, 0]);
    wait(&mut desk, 299_000);
    assert_eq!(query(&mut desk), 0, "still there");
    wait(&mut desk, 300_000);
    assert_eq!(query(&mut desk), 1, "made again");
    desk.harness.feed(Event::Watch { class: class.clone(), begins: true });
    wait(&mut desk, 900_000);
    assert_eq!(query(&mut desk), 0, "a live query keeps it");
    desk.harness.feed(Event::Watch { class: class.clone(), begins: false });
    wait(&mut desk, 300_000);
    assert_eq!(query(&mut desk), 1);
}

/// A new collection makes an index, and a query waits for it. If that takes longer than the index is kept, it goes with
/// the query's answer.
#[test]
fn r30_an_index_that_is_made_slowly_is_dropped_with_the_answer() {
    let mut desk = Desk::new();
    desk.load(vec![row("a", 1), row("b", 2)]);
    desk.harness.feed(Event::Network(false));
    desk.harness.subscribe(&section("games"));
    desk.harness.now += 300_000;
    let schema = schema();
    let class = schema.class("Doc").expect("a class");
    let query = Query::from_json(class, r#"[[],null,["size",false],null,null]"#).expect("a query");
    desk.harness.feed(Event::Query { ticket: 2, class: class.name().clone(), query });
    loop {
        let calls = desk.harness.take_calls(|call| match call {
            Call::Pages { ticket, keys } => Some((*ticket, keys.clone())),
            _ => None,
        });
        let Some((ticket, keys)) = calls.into_iter().next() else { break };
        let pages = block_on(desk.store().get(Table::Pages, &keys));
        desk.harness.feed(Event::PagesRead { ticket, pages });
    }
    let is_answer = |effect: &Effect| matches!(effect, Effect::Matched { .. }).then_some(());
    assert_eq!(desk.harness.take(is_answer).len(), 1);
    // Nothing is due, and nothing is done.
    let soon = desk.harness.now + 10;
    desk.harness.wake(soon);
}
