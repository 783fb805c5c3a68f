//! A store that fails under an open session. It is reopened once immediately, then at growing delays, visibly
//! to the user; and everything that was kept back is written.

use escale::model::Value;
use escale::store::MemoryDevice;
use escale::sync::{Event, StorageState};

use crate::client::Client;
use crate::device::{Fault, Plan};
use crate::scenarios::{Scenario, Step, whole};
use escale_testkit::backend::Backend;

fn loaded() -> Client {
    let scenario = Scenario { beginning: 1, deed: 0 };
    let mut client = scenario.client(Plan::NONE);
    for step in scenario.steps() {
        client.take(step);
    }
    client.states.clear();
    client
}

#[test]
fn a_dead_handle_is_opened_anew_once_and_the_batch_is_written() {
    let mut client = loaded();
    client.device.fail_next(Fault::Closed);
    client.take(Step::Offline(true));
    client.take(Step::Add(1));
    assert_eq!(client.reopenings, 1);
    assert!(client.issued.values().all(|saved| *saved), "saved without waiting for anything");
    assert_eq!(client.machine().status().storage, StorageState::Ok);
}

/// The batch itself met the dead handle: the delay after a batch that failed is not for one that has a new handle.
#[test]
fn a_batch_that_met_a_dead_handle_is_written_on_the_new_one_at_once() {
    let mut client = loaded();
    client.take(Step::Offline(true));
    client.settle();
    client.device.fail_next(Fault::Closed);
    client.take(Step::Unsubscribe(0));
    assert_eq!(client.reopenings, 1);
    assert!(client.machine().memory().is_clean() && !client.machine().is_committing(), "written");
    assert_eq!(client.machine().status().storage, StorageState::Ok);
}

#[test]
fn a_reading_waits_for_the_new_handle() {
    let mut client = loaded();
    client.close();
    client.open();
    client.settle();
    client.device.fail_next(Fault::Closed);
    client.read(&whole());
    assert_eq!(client.reopenings, 1);
    assert_eq!(client.answers.pop().expect("an answer").expect("rows"), 6);
    assert_eq!(client.machine().status().storage, StorageState::Ok);
}

#[test]
fn a_device_that_stays_away_is_tried_at_growing_delays_and_seen() {
    let mut client = loaded();
    client.take(Step::Offline(true));
    client.take(Step::Settle);
    client.device.stays_away(true);
    client.device.fail_next(Fault::Closed);
    client.take(Step::Add(1));
    assert_eq!(client.machine().status().storage, StorageState::Memory);
    let mut delays = Vec::new();
    for _ in 0..8 {
        let before = client.reopenings;
        let mut waited = 0;
        while client.reopenings == before {
            let ms = client.wish_in().expect("it is tried again").max(1);
            waited += ms;
            client.wait(ms);
        }
        assert_eq!(client.reopenings, before + 1, "one attempt at a time");
        delays.push(waited);
    }
    assert!(delays.windows(2).all(|pair| pair[0] <= pair[1]), "{delays:?}");
    assert!(delays[0] >= 1_000 && delays[7] <= 31_000, "{delays:?}");
    assert!(client.issued.values().all(|saved| !saved), "nothing is told to be saved");
    // Shown again, the page tries at once; shown a hundred times within a second, once.
    let before = client.reopenings;
    client.wait(1_001);
    for _ in 0..100 {
        client.feed(Event::Visible);
    }
    assert_eq!(client.reopenings, before + 1);
    client.device.stays_away(false);
    client.now += 1_001;
    client.feed(Event::Visible);
    assert_eq!(client.machine().status().storage, StorageState::Ok);
    assert!(client.issued.values().all(|saved| *saved), "what was held back is written");
}

/// Nothing was to be written when the device went: that it is back is known by the opening alone.
#[test]
fn a_device_that_is_back_is_seen_as_good_with_nothing_to_write() {
    let mut client = loaded();
    client.close();
    client.open();
    client.settle();
    client.take(Step::Offline(true));
    client.wait(5_000);
    client.device.stays_away(true);
    client.device.fail_next(Fault::Closed);
    client.read(&whole());
    let status = client.machine().status();
    assert_eq!(status.storage, StorageState::Memory);
    assert_eq!(status.error.expect("told").code(), escale::Code::StorageClosed);
    client.device.stays_away(false);
    client.wait(client.wish_in().expect("it is tried again"));
    let status = client.machine().status();
    assert_eq!((status.storage, status.error), (StorageState::Ok, None));
}

#[test]
fn a_full_device_is_seen_as_full_and_written_once_there_is_room() {
    let mut client = loaded();
    client.take(Step::Offline(true));
    client.device.fail_next(Fault::Quota);
    client.take(Step::Add(1));
    assert_eq!(client.machine().status().storage, StorageState::Full);
    assert_eq!(client.reopenings, 0, "the handle is good");
    client.settle();
    assert_eq!(client.machine().status().storage, StorageState::Ok);
    assert!(client.issued.values().all(|saved| *saved));
}

#[test]
fn a_wiped_store_gets_back_what_the_session_holds() {
    let mut client = loaded();
    for step in [Step::Offline(true), Step::Add(1), Step::Patch(2), Step::Settle] {
        client.take(step);
    }
    client.device.fail_next(Fault::Wiped);
    client.take(Step::Add(3));
    assert_eq!(client.reopenings, 1);
    // Nobody closes in order: only the present contents of the device remain.
    client.die();
    client.open();
    assert_eq!(client.machine().status().pending, 3, "every operation is there");
    assert_eq!(client.damage.rolled_back, None);
    client.take(Step::Offline(false));
    client.settle();
    assert_eq!(client.machine().list(&whole()).expect("subscribed").0.len(), 6);
    assert_eq!(client.machine().status().storage, StorageState::Ok);
}

#[test]
fn another_store_in_its_place_is_not_written_to() {
    let mut client = loaded();
    // Another opening draws another store id.
    let mut stranger = Scenario { beginning: 0, deed: 0 }.client(Plan::NONE);
    stranger.openings = 100;
    stranger.take(Step::Open);
    stranger.die();
    let other: MemoryDevice = stranger.device.inner;
    client.device.inner.put_back(&Client::store_name(), &other);
    let mut before = 0;
    client.device.inner.tamper(&Client::store_name(), |records| before = records.len());
    client.device.fail_next(Fault::Closed);
    client.take(Step::Offline(true));
    client.take(Step::Add(1));
    let status = client.machine().status();
    assert_eq!(status.storage, StorageState::Memory);
    assert_eq!(status.error.expect("told").code(), escale::Code::StoreInUse);
    client.wait(60_000);
    let mut after = 0;
    client.device.inner.tamper(&Client::store_name(), |records| after = records.len());
    assert_eq!(before, after, "left alone");
}

/// The store goes with the very batch that was to tell of operations that are over: their history and the losses of a
/// restored server are still in memory, and are written, each once.
#[test]
fn a_wiped_store_gets_back_what_was_over_and_not_written() {
    let mut client = loaded();
    client.server.back_up();
    let lost = client.write("doc.patch", patch_of(1)).expect("an operation");
    client.settle();
    client.server.restore(client.now);
    client.now += 1_000;
    let over = client.write("doc.patch", patch_of(2)).expect("an operation");
    client.device.fail_next(Fault::Wiped);
    client.settle();
    assert_eq!((client.reopenings, client.accepted.contains(&over)), (1, true));
    for _ in 0..2 {
        assert_eq!(client.machine().lost_by_server(), std::slice::from_ref(&lost), "told once");
        client.history(2);
        assert_eq!(client.answers.pop().expect("an answer").expect("read"), 2, "the change and the state");
        client.die();
        client.open();
    }
}

fn patch_of(number: usize) -> Value {
    let id = Value::Array(vec![Value::String(format!("id{number}"))]);
    let set = Value::from([("a", Value::from(5_i64))]);
    Value::from([("class", "Doc".into()), ("key", id), ("set", set)])
}

/// A batch that failed is tried again after a second, then at growing delays. Once one is written, the next failure begins
/// with a second again.
#[test]
fn the_delays_after_a_failed_batch_begin_anew_once_one_is_written() {
    let mut client = loaded();
    client.take(Step::Offline(true));
    client.settle();
    client.wait(5_000);
    for step in [Step::Unsubscribe(0), Step::Subscribe(0), Step::Unsubscribe(0)] {
        client.device.fail_next(Fault::Error);
        client.take(step);
        for delay in [1_000, 2_000, 4_000] {
            assert_eq!(client.machine().status().storage, StorageState::Memory);
            assert!(client.wish_in().is_some_and(|ms| ms <= delay));
            client.wait(delay - 1);
            assert!(!client.machine().memory().is_clean(), "not before");
            if delay < 4_000 {
                client.device.fail_next(Fault::Error);
            }
            client.wait(1);
        }
        assert!(client.machine().memory().is_clean());
        assert_eq!(client.machine().status().storage, StorageState::Ok);
        client.wait(5_000);
    }
}
