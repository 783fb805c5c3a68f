//! The machine and its device: batches that fail, data read from pages, and state that outlives the session.

use escale::codec::SyncReply;
use escale::storage::{Limits, reopen};
use escale::store::conformance::block_on;
use escale::store::{Batch, MemoryDevice};
use escale::sync::{Config, Effect, Event, StorageState, TabEvent};
use escale::{Code, Error};
use escale_testkit::client::Call;

use crate::harness::{accepted, config, def, part, patch, pk, reply, row, section, these, whole};
use crate::harness_with_device::Desk;

#[test]
fn a_batch_that_fails_is_written_later_and_the_status_says_so() {
    for (code, state) in
        [(Code::StorageFull, StorageState::Full), (Code::StorageFailed, StorageState::Memory)]
    {
        let mut desk = Desk::new();
        desk.harness.subscribe(&def("Doc"));
        let batch = |call: &Call| match call {
            Call::Commit(batch) => Some(batch.clone()),
            _ => None,
        };
        let mut delays = Vec::new();
        for _ in 0..8 {
            let batches: Vec<Batch> = desk.harness.take_calls(batch);
            assert_eq!(batches.len(), 1, "one batch at a time");
            desk.harness.feed(Event::Committed(Err(Error::new(code, "by the test"))));
            assert_eq!(desk.storage(), state);
            assert_eq!(desk.harness.error(), Some(code));
            assert_eq!(desk.harness.client.machine.is_at_rest().err().map(|e| e.code()), Some(code));
            assert!(desk.harness.take_calls(batch).is_empty(), "not tried again at once");
            // A good answer of the server does not end the device's failure.
            desk.harness.serve(5_000, |def| whole(def, vec![]));
            assert_eq!(desk.harness.error(), Some(code));
            let at = desk.harness.wake_at().expect("tried again");
            delays.push(at - desk.harness.now);
            desk.harness.wake(at);
        }
        assert!(delays[0] >= 1_000 && delays.iter().all(|ms| *ms <= 30_000), "{delays:?}");
        desk.work();
        assert_eq!(desk.storage(), StorageState::Ok);
        assert_eq!(desk.harness.error(), None);
        assert!(desk.harness.client.machine.memory().is_clean());
        assert_eq!(desk.harness.client.machine.is_at_rest().ok(), Some(true));
    }
}

/// Delays grow to half a minute. A user who returns to the page does not wait that long.
#[test]
fn a_reason_to_try_again_ends_the_delay_of_a_batch() {
    let mut desk = Desk::new();
    desk.harness.subscribe(&def("Doc"));
    let batch = |call: &Call| matches!(call, Call::Commit(_)).then_some(());
    for reason in [Event::Visible, Event::Network(true)] {
        for _ in 0..4 {
            assert_eq!(desk.harness.take_calls(batch).len(), 1);
            desk.harness.feed(Event::Committed(Err(Error::new(Code::StorageFull, "by the test"))));
            let at = desk.harness.wake_at().expect("tried again");
            desk.harness.wake(at);
        }
        assert_eq!(desk.harness.take_calls(batch).len(), 1);
        desk.harness.feed(Event::Committed(Err(Error::new(Code::StorageFull, "by the test"))));
        assert!(desk.harness.take_calls(batch).is_empty(), "not tried again at once");
        desk.harness.feed(reason);
    }
    desk.work();
    assert_eq!(desk.storage(), StorageState::Ok);
}

#[test]
fn data_rests_on_the_device_and_is_read_from_there() {
    let mut desk = Desk::new();
    desk.load((0..500).map(|n| row(&format!("d{n}"), 1_000 + n)).collect());
    let (pages, rows) = desk.harness.client.machine.layout().expect("a device").page_counts();
    assert!(pages < 20 && rows == 500, "{rows} documents in {pages} pages");
    assert_eq!(desk.read_all().len(), 500);
    assert!(desk.readings > 0, "nothing was kept in memory");
}

#[test]
fn a_device_that_cannot_be_read_is_an_error_of_the_read_and_no_damage() {
    let mut desk = Desk::new();
    desk.load(vec![row("a", 1)]);
    let (ids, _, _) = desk.harness.client.machine.list(&def("Doc")).expect("subscribed");
    desk.harness.feed(Event::Read { ticket: 2, ids });
    let read = |call: &Call| match call {
        Call::Pages { ticket, .. } => Some(*ticket),
        _ => None,
    };
    let ticket = desk.harness.take_calls(read)[0];
    let pages = Err(Error::new(Code::StorageFailed, "by the test"));
    desk.harness.feed(Event::PagesRead { ticket, pages });
    let answer = |effect: &Effect| match effect {
        Effect::Answer { rows, .. } => Some(rows.as_ref().map(Vec::len).map_err(Error::code)),
        _ => None,
    };
    assert_eq!(desk.harness.take(answer), [Err(Code::StorageFailed)]);
    assert_eq!(desk.storage(), StorageState::Ok);
    assert_eq!(desk.read_all(), these(&[("a", 1)]));
}

#[test]
fn a_first_load_cut_in_the_middle_goes_on_from_its_cursor() {
    let device = MemoryDevice::new();
    let doc = def("Doc");
    let (mut desk, _) = Desk::open(&device, config(), Limits::default());
    desk.harness.subscribe(&doc);
    desk.work();
    let (number, _) = desk.harness.request();
    let first = escale::codec::Part { next: Some("c1".into()), ..part(&doc, vec![row("a", 1)]) };
    desk.harness.answer(number, reply(10_000, vec![first]));
    desk.work();
    drop(desk);
    let (mut desk, damage) = Desk::open(&device, config(), Limits::default());
    assert!(!damage.any());
    assert_eq!(desk.harness.shown(&doc), these(&[("a", 1)]), "R7: the page and its cursor");
    let (number, request) = desk.harness.request();
    assert_eq!((request.subs[0].v, request.subs[0].cursor.as_deref()), (0, Some("c1")));
    desk.harness.answer(number, reply(99_000, vec![part(&doc, vec![row("b", 2)])]));
    assert_eq!(desk.harness.v(&doc), 9_900);
    assert_eq!(desk.harness.shown(&doc), these(&[("a", 1), ("b", 2)]));
}

#[test]
fn a_subscription_and_its_end_outlive_the_session() {
    let device = MemoryDevice::new();
    let (mut desk, _) = Desk::open(&device, config(), Limits::default());
    desk.load(vec![row("a", 1)]);
    desk.harness.subscribe(&section("games"));
    desk.work();
    desk.harness.feed(Event::Unsubscribe(def("Doc")));
    desk.work();
    drop(desk);
    let (mut desk, _) = Desk::open(&device, config(), Limits::default());
    let defs: Vec<_> =
        desk.harness.client.machine.memory().collections().map(|(def, _)| def.clone()).collect();
    assert_eq!(defs, [section("games")]);
    let (_, request) = desk.harness.request();
    assert_eq!(request.subs[0].def, section("games"));
}

/// While the handle is dead, readings wait. The next handle answers them, or its failure does.
#[test]
fn readings_wait_for_the_next_handle_and_are_answered_if_there_is_none() {
    for opens in [true, false] {
        let mut desk = Desk::new();
        desk.load(vec![row("a", 1)]);
        let (ids, _, _) = desk.harness.client.machine.list(&def("Doc")).expect("subscribed");
        desk.harness.feed(Event::DeviceClosed(Error::new(Code::StorageClosed, "by the test")));
        let expected = desk.harness.take_calls(|call| match call {
            Call::Reopen(expected) => Some(expected.clone()),
            _ => None,
        });
        assert_eq!(expected.len(), 1, "at once");
        desk.harness.feed(Event::Read { ticket: 2, ids });
        let read = |call: &Call| matches!(call, Call::Pages { .. }).then_some(());
        assert_eq!(desk.harness.take_calls(read).len(), 0, "nothing is read with a dead handle");
        let result = if opens {
            block_on(reopen(desk.store(), &expected[0]))
        } else {
            Err(Error::new(Code::StorageClosed, "by the test"))
        };
        desk.harness.feed(Event::Reopened(result));
        if opens {
            assert_eq!(desk.work(), [these(&[("a", 1)])]);
        } else {
            let answer = |effect: &Effect| match effect {
                Effect::Answer { rows, .. } => Some(rows.as_ref().map(Vec::len).map_err(Error::code)),
                _ => None,
            };
            assert_eq!(desk.harness.take(answer), [Err(Code::StorageClosed)]);
        }
    }
}

/// A handle that has worked since is replaced at once when it dies. One that has not waits.
#[test]
fn a_handle_that_has_answered_is_replaced_at_once() {
    for has_answered in [true, false] {
        let mut desk = Desk::new();
        desk.load(vec![row("a", 1)]);
        let expected = |desk: &mut Desk| {
            desk.harness.feed(Event::DeviceClosed(Error::new(Code::StorageClosed, "by the test")));
            desk.harness.take_calls(|call| match call {
                Call::Reopen(expected) => Some(expected.clone()),
                _ => None,
            })
        };
        let first = expected(&mut desk);
        let result = block_on(reopen(desk.store(), &first[0]));
        desk.harness.feed(Event::Reopened(result));
        if has_answered {
            assert_eq!(desk.read_all(), these(&[("a", 1)]));
        }
        assert_eq!(expected(&mut desk).len(), usize::from(has_answered));
    }
}

/// A follower contacts no server: its socket closes with its leadership.
#[test]
fn a_deposed_session_closes_its_socket() {
    let live = Config { has_live: true, ..config() };
    let (mut desk, _) = Desk::open(&MemoryDevice::new(), live, Limits::default());
    desk.load(vec![row("a", 1)]);
    let socket = desk.harness.opened_socket().expect("a socket");
    desk.harness.feed(Event::SocketOpened { socket });
    desk.harness.feed(Event::Tab(TabEvent::Depose));
    let closed = |effect: &Effect| match effect {
        Effect::CloseSocket(socket) => Some(*socket),
        _ => None,
    };
    assert_eq!(desk.harness.take(closed), [socket]);
    assert!(desk.harness.client.machine.is_following());
    desk.harness.wake(desk.harness.now + 120_000);
    assert_eq!((desk.harness.opened_socket(), desk.harness.requests.len()), (None, 0));
}

/// The reading follows the batch on the device, and its answer comes before the end of the batch: the record has another
/// number then.
#[test]
fn a_history_read_while_its_record_is_written_again_reports_no_loss() {
    let mut desk = Desk::new();
    desk.load(vec![row("a", 1)]);
    patch(&mut desk.harness, ("a", 1), 1);
    desk.work();
    let (number, request) = desk.harness.request();
    let results = vec![accepted(&request.ops[0], 10_500)];
    let parts = vec![part(&def("Doc"), vec![row("a", 10_500)])];
    desk.harness.answer(number, SyncReply { results, seq: 1, ..reply(11_000, parts) });
    desk.harness.feed(Event::History { ticket: 4, key: (0, pk("a")) });
    let mut calls = std::mem::take(&mut desk.harness.client.held);
    assert!(matches!(calls.make_contiguous(), [Call::Commit(_), Call::Journal { .. }]));
    // The device takes them in this order.
    let mut done: Vec<Event> = calls.into_iter().map(|call| desk.harness.client.make(call)).collect();
    done.reverse();
    for event in done {
        desk.harness.feed(event);
    }
    let told = desk.harness.take(|effect| match effect {
        Effect::Past { actions, .. } => Some(actions.as_ref().expect("an answer").len()),
        _ => None,
    });
    assert_eq!((told, desk.harness.error()), (vec![2], None), "its change and its state");
}
