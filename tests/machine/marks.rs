//! The high-water mark in the backup database: written with each batch that holds data only this device
//! knows, and at most a second after other batches.

use escale::codec::{ServerFrame, ServerParts};
use escale::storage::Limits;
use escale::store::conformance::block_on;
use escale::store::{MemoryDevice, Store, Table};
use escale::sync::{Config, Event, StorageState};
use escale::{Code, Error};
use escale_testkit::client::Call;

use crate::harness::{config, def, epoch, part, reply, row, section};
use crate::harness_with_device::Desk;

/// Makes a session pull a document at that time.
fn pull(desk: &mut Desk, n: u64) {
    desk.harness.wake(desk.harness.now + 5 * 60_000);
    desk.work();
    let (number, _) = desk.harness.request();
    desk.harness
        .answer(number, reply(20_000 + n, vec![part(&def("Doc"), vec![row(&format!("d{n}"), 20_000 + n)])]));
}

/// A session whose high-water mark is behind, and its device.
fn behind() -> (MemoryDevice, Desk) {
    let device = MemoryDevice::new();
    let (mut desk, _) = Desk::open(&device, config(), Limits::default());
    desk.load(vec![row("a", 1)]);
    pull(&mut desk, 1);
    desk.write();
    (device, desk)
}

#[test]
fn what_the_server_can_tell_again_is_marked_within_a_second() {
    let mut desk = Desk::new();
    desk.load(vec![row("a", 1)]);
    pull(&mut desk, 1);
    let [batch] = &desk.write()[..] else { panic!("one batch") };
    assert!(batch.mark.is_none() && !batch.puts.is_empty(), "rows alone");
    assert_eq!(desk.harness.client.machine.is_at_rest().ok(), Some(true), "the data is");
    let at = desk.harness.wake_at().expect("the mark is due");
    assert!(at <= desk.harness.now + 1_000, "within a second");
    desk.harness.wake(at);
    let [batch] = &desk.write()[..] else { panic!("one batch") };
    assert!(batch.mark.is_some() && batch.is_empty(), "the mark alone");
    assert!(desk.harness.client.machine.last_mark().expect("sealed").is_none(), "and no more");
}

#[test]
fn a_mark_that_fails_is_tried_again() {
    let (_, mut desk) = behind();
    let commits = |call: &Call| matches!(call, Call::Commit(_)).then_some(());
    for _ in 0..3 {
        let at = desk.harness.wake_at().expect("the mark is due");
        desk.harness.wake(at);
        assert_eq!(desk.harness.take_calls(commits).len(), 1, "the mark");
        desk.harness.feed(Event::Committed(Err(Error::new(Code::StorageFull, "by the test"))));
        assert_eq!(desk.storage(), StorageState::Full);
        let next = desk.harness.wake_at().expect("tried again");
        assert!(next <= desk.harness.now + 30_000, "soon");
    }
    let at = desk.harness.wake_at().expect("tried again");
    desk.harness.wake(at);
    assert_eq!(desk.write().len(), 1);
    assert_eq!(desk.storage(), StorageState::Ok);
}

#[test]
fn a_stream_of_rows_is_marked_each_second() {
    let mut desk =
        Desk::open(&MemoryDevice::new(), Config { has_live: true, ..config() }, Limits::default()).0;
    desk.load(vec![row("a", 1)]);
    let socket = desk.harness.opened_socket().expect("a socket");
    desk.harness.feed(Event::SocketOpened { socket });
    let live = ServerFrame::confirm(vec![def("Doc")], Vec::new());
    desk.harness.frame(socket, live);
    desk.work();
    // Everything before this is covered by the mark.
    desk.harness.wake(desk.harness.now + 2_000);
    desk.work();
    let (mut late_since, mut latest) = (None, 0);
    for n in 0..50 {
        desk.harness.now += 100;
        let parts = vec![part(&def("Doc"), vec![row(&format!("e{n}"), 30_000 + n)])];
        let parts = ServerParts { epoch: epoch(1), now: 99_000, delta: 100, seq: 0, parts };
        desk.harness.frame(socket, ServerFrame::Parts(parts));
        for batch in desk.write() {
            let since = late_since.get_or_insert(desk.harness.now);
            latest = latest.max(desk.harness.now - *since);
            if batch.mark.is_some() {
                late_since = None;
            }
        }
    }
    assert!((900..1_200).contains(&latest), "{latest} ms late at most");
}

/// Only this device knows which defs are subscribed to.
#[test]
fn a_subscription_takes_the_mark_along() {
    let device = MemoryDevice::new();
    let (mut desk, _) = Desk::open(&device, config(), Limits::default());
    desk.load(vec![row("a", 1)]);
    for subscribes in [true, false] {
        if !subscribes {
            desk.harness.subscribe(&section("s1"));
            desk.work();
        }
        let before = device.snapshot();
        if subscribes {
            desk.harness.subscribe(&section("s1"));
        } else {
            desk.harness.feed(Event::Unsubscribe(section("s1")));
        }
        assert!(desk.write().iter().any(|batch| batch.mark.is_some()));
        block_on(desk.store().close());
        device.put_back(&Desk::name(), &before);
        let damage;
        (desk, damage) = Desk::open(&device, config(), Limits::default());
        assert!(damage.rolled_back.is_some(), "the loss is told");
        desk.work();
    }
}

/// A store whose records were damaged continues at far higher numbers. A mark with those numbers must not be
/// written before the store has them.
#[test]
fn no_mark_is_written_ahead_of_a_batch_that_is_due() {
    let (device, desk) = behind();
    block_on(desk.store().close());
    drop(desk);
    device.tamper(&Desk::name(), |records| {
        let last = *records.keys().rfind(|(table, _)| *table == Table::State).expect("a record");
        records.get_mut(&last).expect("found")[30] ^= 1;
    });
    let (mut desk, damage) = Desk::open(&device, config(), Limits::default());
    assert!(damage.any());
    assert!(desk.harness.client.machine.last_mark().expect("sealed").is_none(), "the store is not there yet");
}

/// If the batch under way fails, the store stays behind such a mark. The next opening then reports a loss.
#[test]
fn no_mark_is_written_beside_a_batch_that_is_under_way() {
    let (_, mut desk) = behind();
    let at = desk.harness.wake_at().expect("the mark is due");
    desk.harness.wake(at);
    let commits = |call: &Call| matches!(call, Call::Commit(_)).then_some(());
    assert_eq!(desk.harness.take_calls(commits).len(), 1, "the mark itself");
    assert!(desk.harness.client.machine.last_mark().expect("sealed").is_none(), "it is under way");
}

#[test]
fn a_session_that_ends_leaves_its_mark() {
    let (device, mut desk) = behind();
    let batch = desk.harness.client.machine.last_mark().expect("sealed").expect("it is behind");
    block_on(desk.store().commit(batch)).expect("written");
    block_on(desk.store().close());
    drop(desk);
    // The loss of a record since then is reported: the mark has higher numbers.
    device.tamper(&Desk::name(), |records| {
        let last = *records.keys().rfind(|(table, _)| *table == Table::State).expect("a record");
        records.remove(&last);
    });
    let (_, damage) = Desk::open(&device, config(), Limits::default());
    assert!(damage.rolled_back.is_some(), "only the mark can tell");
}
