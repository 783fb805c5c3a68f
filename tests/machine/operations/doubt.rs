//! Operations whose numbers an earlier opening may have used, and operations that wait for the pull that shows them.

use escale::codec::{Fault, OpResult, SyncReply, SyncRequest};
use escale::crypto::SeededRandom;
use escale::journal::make_id;
use escale::model::{Def, Name, Value};
use escale::storage::Limits;
use escale::store::MemoryDevice;
use escale::sync::{Effect, Event, Write};
use escale::{Code, Kind};
use escale_testkit::schema::by_key;

use crate::harness::{
    Harness, accepted, config, def, fault, gone, part, patch, pk, reply, row, section, whole,
};
use crate::harness_with_device::Desk;

/// Two large operations wait, one to a request. The first is refused, so the second one takes its number. An earlier
/// opening may have sent the second one under the next number, which a later operation takes.
#[test]
fn a_number_that_an_earlier_opening_may_have_used_is_in_doubt() {
    let device = MemoryDevice::new();
    let (mut desk, _) = Desk::open(&device, config(), Limits::default());
    desk.load(vec![row("a", 1), row("b", 2), row("c", 3)]);
    patch(&mut desk.harness, ("a", 700_000), 1);
    patch(&mut desk.harness, ("b", 700_000), 2);
    desk.work();
    drop(desk);
    let (mut desk, _) = Desk::open(&device, config(), Limits::default());
    desk.work();
    let (number, request) = desk.harness.request();
    assert_eq!(request.ops.iter().map(|op| op.seq).collect::<Vec<_>>(), [1]);
    let refused = Fault { kind: Kind::A, ..Fault::new(Code::ServerRefused, "by the test") };
    let results = vec![OpResult { id: request.ops[0].id.clone(), ok: None, fault: Some(refused) }];
    desk.harness.answer(number, SyncReply { results, ..reply(20_000, vec![part(&def("Doc"), vec![])]) });
    desk.work();
    let (number, request) = desk.harness.request();
    assert_eq!(request.ops.iter().map(|op| op.seq).collect::<Vec<_>>(), [1]);
    let results = vec![accepted(&request.ops[0], 20_500)];
    let parts = vec![part(&def("Doc"), vec![row("b", 20_500)])];
    desk.harness.answer(number, SyncReply { results, seq: 1, ..reply(21_000, parts) });
    desk.work();
    patch(&mut desk.harness, ("c", 1), 3);
    desk.work();
    let (number, request) = desk.harness.request();
    assert_eq!(request.ops.iter().map(|op| op.seq).collect::<Vec<_>>(), [2]);
    let results = vec![accepted(&request.ops[0], 21_500)];
    let parts = vec![part(&def("Doc"), vec![row("c", 21_500)])];
    desk.harness.answer(number, SyncReply { results, seq: 1, ..reply(22_000, parts) });
    assert_eq!(desk.harness.error(), None, "it may have been executed under another number");
}

#[test]
fn an_accepted_operation_is_over_once_no_subscription_will_show_it() {
    let mut harness = Harness::new(config());
    for text in ["Doc", "Note"] {
        harness.subscribe(&def(text));
        harness.serve(5_000, |def| {
            whole(def, if *def == self::def("Doc") { vec![row("a", 1)] } else { vec![] })
        });
    }
    patch(&mut harness, ("a", 1), 1);
    let (number, request) = harness.request();
    let results = vec![accepted(&request.ops[0], 5_500)];
    let parts = vec![fault(&def("Doc"), Code::Contention)];
    harness.answer(number, SyncReply { results, seq: 1, ..reply(6_000, parts) });
    assert_eq!(harness.client.machine.operations().len(), 1, "no pull has shown it");
    harness.feed(Event::Unsubscribe(def("Note")));
    assert_eq!(harness.client.machine.operations().len(), 1, "another def does not matter");
    harness.feed(Event::Unsubscribe(def("Doc")));
    assert!(harness.client.machine.operations().is_empty(), "no pull will");
}

fn numbers(request: &SyncRequest) -> Vec<u64> {
    request.ops.iter().map(|op| op.seq).collect()
}

/// A session takes another name and numbers its operations from 1. No later operation was sent under a number of the
/// old name. If the server then counts one wrongly, the application learns of it.
#[test]
fn numbers_of_a_left_name_put_no_later_operation_in_doubt() {
    let mut harness = Harness::new(config());
    harness.subscribe(&def("Doc"));
    let rows = || ["a", "b", "c"].map(|id| row(id, 1)).to_vec();
    harness.serve(5_000, |def| whole(def, rows()));
    // Executed under the old name.
    patch(&mut harness, ("a", 1), 1);
    let (number, request) = harness.request();
    assert_eq!(numbers(&request), [1]);
    let accept =
        |harness: &mut Harness, number: u64, request: &SyncRequest, (id, v, seq): (&str, u64, u64)| {
            let results = vec![accepted(&request.ops[0], v)];
            let parts = vec![part(&def("Doc"), vec![row(id, v)])];
            harness.answer(number, SyncReply { results, seq, ..reply(v + 500, parts) });
        };
    accept(&mut harness, number, &request, ("a", 5_500, 1));
    // The server refuses the next number twice: the session numbers again, and then takes another name.
    patch(&mut harness, ("b", 1), 2);
    let mut names = Vec::new();
    for _ in 0..2 {
        let (number, request) = harness.request();
        assert_eq!(numbers(&request), [2]);
        names.push(request.session);
        let reused = Some(Fault::new(Code::SessionReused, "by the test"));
        let results = vec![OpResult { id: request.ops[0].id.clone(), ok: None, fault: reused }];
        let parts = vec![part(&def("Doc"), vec![])];
        harness.answer(number, SyncReply { results, seq: 1, ..reply(6_500, parts) });
        harness.wake(harness.wake_at().expect("sent again"));
    }
    let (number, request) = harness.request();
    assert_eq!((numbers(&request), names.contains(&request.session)), (vec![1], false));
    accept(&mut harness, number, &request, ("b", 7_000, 1));
    patch(&mut harness, ("c", 1), 3);
    let (number, request) = harness.request();
    assert_eq!((numbers(&request), harness.error()), (vec![2], None));
    accept(&mut harness, number, &request, ("c", 8_000, 1));
    assert_eq!(harness.error(), Some(Code::BadReply), "it was sent under this number alone");
}

/// One def has shown the deletion, and another one is still to be asked. The operation keeps the document in memory until
/// then, out of sight.
#[test]
fn a_deleted_document_stays_out_of_sight_while_its_operation_waits_for_another_def() {
    let mut harness = Harness::new(config());
    let (games, alone) = (section("games"), Def::document(&name("Doc"), &pk("a")));
    for def in [&games, &alone] {
        harness.subscribe(def);
        harness.serve(5_000, |def| whole(def, vec![row("a", 1)]));
    }
    let args = Value::from([("class", "Doc".into()), ("key", Value::Array(vec!["a".into()]))]);
    let id = make_id(1_700_000_000_000, &mut SeededRandom::new(1)).expect("an id");
    harness.feed(Event::Write(Write { id, name: "doc.delete".into(), args, touches: vec![], after: vec![] }));
    assert_eq!(in_sight(&mut harness), 0, "it is deleted here");
    let (number, request) = harness.request();
    let results = vec![accepted(&request.ops[0], 5_500)];
    let parts = vec![part(&games, vec![gone("a", 5_500)])];
    harness.answer(number, SyncReply { results, seq: 1, ..reply(6_000, parts) });
    assert_eq!(
        (harness.client.machine.operations().len(), in_sight(&mut harness)),
        (1, 0),
        "it waits for the other def"
    );
    let (number, _) = harness.request();
    harness.answer(number, SyncReply { seq: 1, ..reply(6_000, vec![part(&alone, vec![gone("a", 5_500)])]) });
    assert_eq!((harness.client.machine.operations().len(), in_sight(&mut harness)), (0, 0));
}

/// The number of documents that a query lists. They are those that `find` finds.
fn in_sight(harness: &mut Harness) -> usize {
    harness.feed(Event::Query { ticket: 9, class: name("Doc"), query: by_key() });
    let listed = harness.take(|effect| match effect {
        Effect::Matched { ids, .. } => Some(ids.as_ref().expect("an answer").len()),
        _ => None,
    });
    let found = harness.client.machine.find(&name("Doc"), &pk("a"));
    assert_eq!(listed, [usize::from(found.is_some())]);
    listed[0]
}

fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}
