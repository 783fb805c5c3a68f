//! The mark beside the store: with each batch that holds what only this device knows, and at most a second after the others.

use escale::rest::Limits;
use escale::store::conformance::block_on;
use escale::store::{Batch, MemoryDevice, Store, Table};
use escale::sync::{Effect, Event, StorageState};
use escale::{Code, Error};

use crate::bench::{config, def, part, reply, row, section};
use crate::desk::Desk;

/// The batches that are due, each written.
fn written(desk: &mut Desk) -> Vec<Batch> {
    let commit = |effect: &Effect| match effect {
        Effect::Commit(batch) => Some(batch.clone()),
        _ => None,
    };
    let batches: Vec<Batch> = desk.bench.take(commit);
    for batch in &batches {
        let result = block_on(desk.store.commit(batch.clone()));
        desk.bench.feed(Event::Committed(result));
    }
    batches
}

/// A session that pulls a document at that time.
fn pull(desk: &mut Desk, n: u64) {
    desk.bench.wake(desk.bench.now + 5 * 60_000);
    desk.work();
    let (number, _) = desk.bench.request();
    desk.bench
        .answer(number, reply(20_000 + n, vec![part(&def("Doc"), vec![row(&format!("d{n}"), 20_000 + n)])]));
}

#[test]
fn what_the_server_can_tell_again_is_marked_within_a_second() {
    let mut desk = Desk::new();
    desk.load(vec![row("a", 1)]);
    pull(&mut desk, 1);
    let [batch] = &written(&mut desk)[..] else { panic!("one batch") };
    assert!(batch.mark.is_none() && !batch.puts.is_empty(), "rows alone");
    assert_eq!(desk.bench.machine.is_at_rest().ok(), Some(true), "the data is");
    let at = desk.bench.wake_at().expect("the mark is due");
    assert!(at <= desk.bench.now + 1_000, "within a second");
    desk.bench.wake(at);
    let [batch] = &written(&mut desk)[..] else { panic!("one batch") };
    assert!(batch.mark.is_some() && batch.is_empty(), "the mark alone");
    assert!(desk.bench.machine.last_mark().expect("sealed").is_none(), "and no more");
}

#[test]
fn a_mark_that_fails_is_tried_again() {
    let mut desk = Desk::new();
    desk.load(vec![row("a", 1)]);
    pull(&mut desk, 1);
    written(&mut desk);
    let commits = |effect: &Effect| matches!(effect, Effect::Commit(_)).then_some(());
    for _ in 0..3 {
        let at = desk.bench.wake_at().expect("the mark is due");
        desk.bench.wake(at);
        assert_eq!(desk.bench.take(commits).len(), 1, "the mark");
        desk.bench.feed(Event::Committed(Err(Error::new(Code::StorageFull, "by the test"))));
        assert_eq!(desk.storage(), StorageState::Full);
        let next = desk.bench.wake_at().expect("tried again");
        assert!(next <= desk.bench.now + 30_000, "soon");
    }
    let at = desk.bench.wake_at().expect("tried again");
    desk.bench.wake(at);
    assert_eq!(written(&mut desk).len(), 1);
    assert_eq!(desk.storage(), StorageState::Ok);
}

#[test]
fn a_stream_of_batches_is_marked_each_second() {
    let mut desk = Desk::new();
    desk.load(vec![row("a", 1)]);
    pull(&mut desk, 0);
    written(&mut desk);
    let due = desk.bench.wake_at().expect("the mark is due");
    let mut marked = None;
    for n in 1..20 {
        // Something to write each 100 ms.
        desk.bench.now += 100;
        desk.bench.subscribe(&section(&format!("s{n}")));
        for batch in written(&mut desk) {
            marked = marked.or(batch.mark.map(|_| desk.bench.now));
        }
    }
    let marked = marked.expect("a mark");
    assert!((due..due + 200).contains(&marked), "{marked}, due at {due}");
}

#[test]
fn a_session_that_ends_leaves_its_mark() {
    let device = MemoryDevice::new();
    let (mut desk, _) = Desk::open(&device, config(), Limits::default());
    desk.load(vec![row("a", 1)]);
    pull(&mut desk, 1);
    written(&mut desk);
    let batch = desk.bench.machine.last_mark().expect("sealed").expect("it is behind");
    block_on(desk.store.commit(batch)).expect("written");
    block_on(desk.store.close());
    drop(desk);
    // What the store lost since is told: the mark knows better.
    device.tamper(&Desk::name(), |records| {
        let last = *records.keys().rfind(|(table, _)| *table == Table::State).expect("a record");
        records.remove(&last);
    });
    let (_, damage) = Desk::open(&device, config(), Limits::default());
    assert!(damage.rolled_back.is_some(), "only the mark can tell");
}
