//! R12 and its foundations: the reasons that block an operation, and a session's reaction to an unexpected
//! answer.

use escale::codec::{Data, Op, OpOk, OpResult, Part, Row, ServerFrame, ServerParts, SyncReply, SyncRequest};
use escale::journal::Policy;
use escale::model::{Def, Epoch, Value};
use escale::sync::{Effect, Event, Mode, Refusal};
use escale::{Code, Error};

use super::driver::{Driver, LIVE_ACCOUNT, NOW, id, put, server, stored};
use escale_testkit::backend::Backend;
use escale_testkit::schema::{data, key, name};
use escale_testkit::server::{ModelServer, Write};

pub fn lost(driver: &mut Driver) {
    let (number, _) = driver.sent.take().expect("a request");
    let refusal = Refusal::from(Error::new(Code::Timeout, "lost"));
    driver.feed(Event::Replied { number, reply: Err(refusal) });
    driver.wait(40_000);
}

pub fn ids(request: &escale::codec::SyncRequest) -> Vec<&str> {
    request.ops.iter().map(|op: &Op| op.id.as_str()).collect()
}

/// A request can name only one operation that another depends on. If an operation depends on two unrelated
/// ones, it waits for the first one's answer.
#[test]
fn r12_an_operation_on_two_documents_waits_for_both() {
    let mut server = server(2);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    driver.feed(Event::Network(false));
    let poisoned = driver.patch(0, &[("n", 1), ("poison", 1)]);
    let fine = driver.patch(1, &[("n", 2)]);
    let patch = |number: i64| {
        let args = Value::from([
            ("class", "Doc".into()),
            ("key", Value::Array(vec![format!("id{number}").as_str().into()])),
            ("set", Value::from([("n", Value::from(7_i64))])),
        ]);
        Value::from([("name", "doc.patch".into()), ("args", args)])
    };
    let both = driver.write("batch", Value::from([("ops", Value::Array(vec![patch(0), patch(1)]))]));
    driver.feed(Event::Network(true));
    let (_, request) = driver.sent.clone().expect("a request");
    assert_eq!(ids(&request), [&poisoned, &fine], "the batch depends on both");
    driver.settle(&mut server);
    let held: Vec<_> =
        driver.machine.operations().into_iter().map(|(op, held)| (&op.state.issued.id, held)).collect();
    assert_eq!(held, [(&poisoned, false), (&both, true)], "one was refused: the batch waits behind it");
    assert_eq!((stored(&server, 0, "n"), stored(&server, 1, "n")), (None, Some(2)));
}

/// An answer was lost, and an operation before it was refused since. The session still receives its result.
#[test]
fn r11_what_was_executed_is_answered_behind_what_is_held() {
    let mut server = server(2);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    driver.feed(Event::Network(false));
    driver.patch(0, &[("n", 1), ("poison", 1)]);
    let held = driver.patch(0, &[("n", 2)]);
    driver.feed(Event::Network(true));
    driver.settle(&mut server);
    let other = driver.patch(1, &[("n", 3)]);
    let (_, request) = driver.sent.clone().expect("a request");
    assert_eq!(ids(&request), [&other]);
    driver.answer(&mut server, &request);
    lost(&mut driver);
    // The process ends and forgets which numbers were sent. The refusal is requested once more with the rest.
    let mut driver = driver.reopen(Mode::Synced, Policy::Overwrite);
    driver.settle(&mut server);
    let left: Vec<_> = driver
        .machine
        .operations()
        .into_iter()
        .map(|(op, held)| (op.state.issued.id.clone(), held))
        .collect();
    assert!(left.contains(&(held, true)) && !left.iter().any(|(id, _)| *id == other), "{left:?}");
    let accepted = |effect: &Effect| matches!(effect, Effect::Accepted { id, result: Ok(_) } if *id == other);
    assert!(driver.hooks.told.iter().any(accepted));
}

/// A blocked operation is not sent, so no reply can reveal its fate. It was not executed, and must not hold
/// back changes of its document.
#[test]
fn what_is_held_over_a_restart_does_not_keep_its_document_from_changing() {
    let mut server = server(1);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    driver.feed(Event::Network(false));
    driver.patch(0, &[("n", 1), ("poison", 1)]);
    driver.patch(0, &[("other", 2)]);
    driver.feed(Event::Network(true));
    driver.settle(&mut server);
    let mut driver = driver.reopen(Mode::Synced, Policy::Overwrite);
    let data = [("id", id(0)), ("n", Value::from(7))];
    put(&mut server, 0, data.into_iter().map(|(name, value)| (name.into(), value)).collect());
    driver.settle(&mut server);
    assert_eq!(driver.machine.operations().len(), 2);
    assert_eq!((driver.seen(0, "n"), driver.seen(0, "other")), (Some(7), Some(2)));
}

/// The next request with operations. Requests before it are answered.
pub fn sent_with_ops(driver: &mut Driver, server: &mut ModelServer) -> (u64, SyncRequest) {
    loop {
        match driver.sent.take() {
            Some((number, request)) if request.ops.is_empty() => {
                let reply = driver.answer(server, &request);
                driver.feed(Event::Replied { number, reply: Ok(reply) });
            }
            Some(sent) => break sent,
            None => driver.wait(1_000),
        }
    }
}

/// Answers the next request with operations; the one at that place meets another transaction.
pub fn answered_but(driver: &mut Driver, server: &mut ModelServer, contended: usize) -> SyncRequest {
    let (number, request) = sent_with_ops(driver, server);
    let mut place = 0;
    let mut is_contended = || {
        place += 1;
        place - 1 == contended
    };
    let (results, _) = server.operate(driver.account, &request, (0, driver.now), &mut is_contended);
    let results = server.complete(driver.account, &request.ops, &results);
    let told = server.tell_now(0, driver.now);
    let reply = server.reply(&request, results, told);
    driver.feed(Event::Replied { number, reply: Ok(reply) });
    request
}

/// A conflict is resolved, and the operations behind it are renumbered. A late copy of the first request uses
/// an operation's present number for another operation. The next push states that number, but does not
/// contain the operation's effect.
#[test]
fn r12_a_push_says_nothing_of_an_operation_whose_number_may_be_anothers() {
    let mut server = server(2);
    let mut driver = Driver::new(LIVE_ACCOUNT, Mode::Synced, Policy::Client);
    driver.subscribe(&mut server);
    let socket = driver.hooks.told.iter().find_map(|effect| match effect {
        Effect::OpenSocket(socket) => Some(*socket),
        _ => None,
    });
    let socket = socket.expect("a socket");
    let whole = Def::class_of(&name("Doc"));
    driver.feed(Event::SocketOpened { socket });
    let live = ServerFrame::confirm(vec![whole.clone()], Vec::new());
    driver.feed(Event::Frame { socket, frame: Ok(live) });
    driver.settle(&mut server);
    driver.feed(Event::Network(false));
    driver.patch(0, &[("n", 1)]);
    let behind = driver.patch(0, &[("m", 2)]);
    let other = driver.patch(1, &[("n", 3)]);
    // Somebody else changes the first document meanwhile.
    put(&mut server, 0, data(0, Some(1), 0, 0));
    driver.feed(Event::Network(true));
    let first = answered_but(&mut driver, &mut server, usize::MAX);
    assert_eq!(first.ops.iter().map(|op| op.seq).collect::<Vec<_>>(), [1, 2, 3]);
    let second = answered_but(&mut driver, &mut server, 1);
    let numbers: Vec<_> = second.ops.iter().map(|op| (op.id.as_str(), op.seq)).collect();
    assert_eq!(numbers[1..], [(behind.as_str(), 3), (other.as_str(), 4)], "numbered anew");
    // The late copy: the third number belongs to the other operation.
    server.operate(driver.account, &first, (0, driver.now), &mut || false);
    assert_eq!((stored(&server, 0, "m"), stored(&server, 1, "n")), (None, Some(3)));
    let stored = server.db.docs[&key(0)].clone();
    let row = Row {
        pk: key(0).1,
        v: stored.v,
        deleted: false,
        max_life: None,
        data: Some(Data::from_map(&stored.data).expect("data")),
    };
    let parts = vec![Part { rows: vec![row], ..Part::empty(whole) }];
    let (epoch, now) = (server.db.epoch.clone(), driver.now);
    let pushed = ServerFrame::Parts(ServerParts { epoch, now, delta: 990, seq: 3, parts });
    driver.feed(Event::Frame { socket, frame: Ok(pushed) });
    assert_eq!(driver.seen(0, "m"), Some(2), "it is still to be executed, and shown until then");
    driver.settle(&mut server);
    assert_eq!((driver.seen(0, "m"), driver.seen(0, "n"), driver.seen(1, "n")), (Some(2), Some(1), Some(3)));
}

/// A version expected of an accepted operation becomes a number. A restored server, which does not know the
/// operation, would otherwise block its dependents for ever.
#[test]
fn r8_what_expects_a_lost_operation_is_a_conflict() {
    let mut server = server(1);
    put(&mut server, 0, data(0, None, 0, 0));
    server.back_up();
    let mut driver = Driver::new(0, Mode::Synced, Policy::Client);
    driver.subscribe(&mut server);
    driver.feed(Event::Network(false));
    driver.patch(0, &[("a", 1)]);
    driver.patch(0, &[("a", 2)]);
    driver.feed(Event::Network(true));
    let (number, mut request) = driver.sent.take().expect("a request");
    request.ops.truncate(1);
    driver.now += 5;
    let reply = driver.answer(&mut server, &request);
    driver.feed(Event::Replied { number, reply: Ok(reply) });
    server.restore(driver.now);
    driver.settle(&mut server);
    assert_eq!(stored(&server, 0, "a"), Some(2), "the class's policy has settled it");
    assert!(driver.machine.operations().is_empty());
}

/// The application expects a version that an earlier operation gave. A restored server has neither the version
/// nor that operation, and the document is at a lower version there. Within one epoch this would mean that
/// nobody has written since. Here it does not.
#[test]
fn r8_a_version_given_in_an_earlier_epoch_is_a_conflict() {
    let mut server = server(1);
    server.back_up();
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    driver.feed(Event::Network(false));
    let first = driver.patch(0, &[("a", 1)]);
    let set = Value::from([("a", Value::from(2_i64))]);
    let expected = Value::from([("op", Value::from(first.as_str()))]);
    let args = [("key", id(0)), ("set", set), ("ifVersion", expected), ("class", "Doc".into())];
    let second = driver.write("doc.patch", Value::from(args));
    driver.feed(Event::Network(true));
    let (number, mut request) = driver.sent.take().expect("a request");
    request.ops.truncate(1);
    driver.now += 5;
    let reply = driver.answer(&mut server, &request);
    driver.feed(Event::Replied { number, reply: Ok(reply) });
    server.restore(driver.now);
    driver.settle(&mut server);
    assert_eq!(driver.first_refused(), Some(second));
    assert_eq!(stored(&server, 0, "a"), None);
}

/// Effects that a restored server has lost are reported in later openings too, whether the operation had
/// finished or not, and once.
#[test]
fn r8_what_the_server_has_lost_is_remembered() {
    let mut server = server(2);
    server.back_up();
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    let over = driver.add(0, 1);
    driver.settle(&mut server);
    // Accepted, and its effect not received yet.
    let accepted = driver.add(1, 1);
    let (number, mut request) = driver.sent.take().expect("a request");
    request.subs.clear();
    driver.now += 5;
    let reply = driver.answer(&mut server, &request);
    driver.feed(Event::Replied { number, reply: Ok(reply) });
    server.restore(driver.now);
    for round in 0..3 {
        driver.settle(&mut server);
        driver.wait(400_000);
        driver.settle(&mut server);
        let mut lost = driver.machine.lost_by_server().to_vec();
        lost.sort_unstable();
        assert_eq!(lost, [over.clone(), accepted.clone()], "round {round}");
        if round == 1 {
            driver.sweep(escale::journal::Retention::Count(1), true).expect("a rule");
        }
        driver = driver.reopen(Mode::Synced, Policy::Overwrite);
        assert_eq!(driver.machine.lost_by_server().len(), 2, "round {round}");
    }
    let before = server.db.operations.executed.len();
    let later = driver.add(0, 1);
    driver.settle(&mut server);
    assert_eq!(server.db.operations.executed.len(), before + 1, "nothing of it is sent again");
    // Lost once more by an earlier copy: the operations lost before are not lost twice.
    driver = driver.reopen(Mode::Synced, Policy::Overwrite);
    driver.settle(&mut server);
    assert!(server.restore(driver.now));
    driver.wait(400_000);
    driver.settle(&mut server);
    let mut lost = driver.machine.lost_by_server().to_vec();
    lost.sort_unstable();
    let mut wanted = vec![over, accepted, later];
    wanted.sort_unstable();
    assert_eq!(lost, wanted);
}

/// A load goes page by page from the lowest version to the highest. Another instance's clock stamps an
/// operation below the load's position. The last page says that the operation was executed, but does not
/// bring its effect. The session once removed the effect there, and showed it again with the next pull.
#[test]
fn r12_the_last_page_of_a_load_tells_of_no_operation_stamped_before_it() {
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    let whole = Def::class_of(&name("Doc"));
    driver.feed(Event::Subscribe(whole.clone()));
    let row = |number: usize, v: u64, n: i64| {
        let mut data = data(number, None, 0, 0);
        data.insert("n".into(), Value::from(n));
        let data = Some(Data::from_map(&data).expect("data"));
        Row { pk: key(number).1, v: NOW + v, deleted: false, max_life: None, data }
    };
    let answer = |driver: &mut Driver, row: Option<Row>, next: Option<&str>, done: Option<(&str, u64)>| {
        let (number, _) = driver.sent.take().expect("a request");
        let (rows, next) = (row.into_iter().collect(), next.map(str::to_owned));
        let part = Part { rows, next, ..Part::empty(whole.clone()) };
        let ok = |(id, v): (&str, u64)| {
            let ok = Some(OpOk { v: NOW + v, value: None, trees: Vec::new() });
            OpResult { id: id.to_owned(), ok, fault: None }
        };
        let epoch = Epoch::new(NOW, "first").expect("an epoch");
        let results: Vec<OpResult> = done.map(ok).into_iter().collect();
        let seq = u64::from(driver.hooks.requests > 2);
        let reply = SyncReply { seq, results, ..SyncReply::of(epoch, NOW + 1_000, 990, vec![part]) };
        driver.feed(Event::Replied { number, reply: Ok(reply) });
    };
    answer(&mut driver, Some(row(0, 20, 5)), Some("first"), None);
    let id = driver.add(0, 1);
    answer(&mut driver, Some(row(1, 100, 0)), Some("second"), None);
    assert_eq!(ids(&driver.sent.as_ref().expect("a request").1), [&id]);
    answer(&mut driver, None, None, Some((&id, 50)));
    assert_eq!(driver.seen(0, "n"), Some(6), "accepted, and still shown");
    answer(&mut driver, Some(row(0, 50, 6)), None, None);
    assert_eq!(driver.seen(0, "n"), Some(6));
    assert!(driver.machine.operations().is_empty());
}

/// A lost request arrives after the server was restored from an earlier state. Its operation was refused
/// meanwhile, and discarded by its user.
#[test]
fn r11_a_late_copy_of_another_epoch_executes_nothing() {
    let mut server = server(2);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    server.back_up();
    let v = server.db.highest + 1;
    server.db.write(v, &[Write::Delete(key(0))]);
    let id = driver.patch(0, &[("n", 7)]);
    let (_, late) = driver.sent.clone().expect("a request");
    assert_eq!((ids(&late), late.epoch.as_ref()), (vec![id.as_str()], Some(&server.db.epoch)));
    driver.settle(&mut server);
    assert_eq!(driver.first_refused().as_ref(), Some(&id), "the document is gone");
    driver.feed(Event::Discard(id));
    assert!(server.restore(driver.now));
    driver.answer(&mut server, &late);
    assert_eq!(stored(&server, 0, "n"), None, "it was discarded");
    // The next write finds the server of the later epoch.
    driver.patch(1, &[("n", 8)]);
    driver.settle(&mut server);
    assert_eq!((stored(&server, 0, "n"), stored(&server, 1, "n")), (None, Some(8)));
}

/// Nothing is sent that a later epoch could execute. A new session asks for the epoch first, without
/// subscriptions: parts could show an operation's effect before its result is known.
#[test]
fn r11_a_session_asks_for_the_epoch_before_it_sends() {
    let mut server = server(1);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.feed(Event::Network(false));
    let id = driver.add(0, 3);
    driver.feed(Event::Subscribe(Def::class_of(&name("Doc"))));
    driver.feed(Event::Network(true));
    let (number, request) = driver.sent.take().expect("a request");
    assert_eq!((request.epoch.as_ref(), request.ops.len(), request.subs.len()), (None, 0, 0));
    let reply = driver.answer(&mut server, &request);
    driver.feed(Event::Replied { number, reply: Ok(reply) });
    let (_, request) = driver.sent.clone().expect("a request");
    assert_eq!((ids(&request), request.epoch.as_ref()), (vec![id.as_str()], Some(&server.db.epoch)));
    driver.settle(&mut server);
    assert_eq!(stored(&server, 0, "n"), Some(3));
}

/// A reply of a later epoch says which operations were executed before it, and that the others were not. So
/// none is shown twice, or not at all, until the next reply.
#[test]
fn r8_a_later_epoch_tells_what_had_been_executed() {
    let mut server = server(1);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    driver.add(0, 3);
    let (_, request) = driver.sent.clone().expect("a request");
    driver.answer(&mut server, &request);
    driver.add(0, 4);
    lost(&mut driver);
    server.renew(driver.now);
    let (number, request) = driver.sent.take().expect("a request");
    let reply = driver.answer(&mut server, &request);
    assert_eq!((request.ops.len(), reply.results.len()), (2, 2));
    driver.feed(Event::Replied { number, reply: Ok(reply) });
    assert_eq!((driver.seen(0, "n"), stored(&server, 0, "n")), (Some(7), Some(3)));
    let status = driver.machine.status();
    assert_eq!((status.pending, status.error.is_none()), (1, true));
    assert!(driver.sent.is_some(), "it is sent anew at once");
    driver.settle(&mut server);
    assert_eq!((driver.seen(0, "n"), stored(&server, 0, "n")), (Some(7), Some(7)));
}

/// A server whose epoch differs in each answer executes nothing, and is asked less and less often.
#[test]
fn r8_epochs_that_never_end_are_not_asked_for_at_the_pace_of_the_network() {
    let mut server = server(1);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.add(0, 3);
    let (before, began) = (driver.hooks.requests, driver.now);
    while driver.now < began + 60_000 {
        if let Some((number, request)) = driver.sent.take() {
            server.renew(driver.now);
            let reply = driver.answer(&mut server, &request);
            driver.feed(Event::Replied { number, reply: Ok(reply) });
        }
        driver.wait(10);
    }
    assert!(driver.hooks.requests - before < 100, "{} requests in a minute", driver.hooks.requests - before);
    driver.settle(&mut server);
    assert_eq!(stored(&server, 0, "n"), Some(3));
}

/// An operation depends on a discarded one. It no longer waits for that one, but still for the others that it names.
#[test]
fn r12_what_comes_after_a_discarded_operation_goes_on() {
    let mut server = server(4);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    driver.feed(Event::Network(false));
    let refused = driver.patch(0, &[("n", 1), ("poison", 1)]);
    let other = driver.patch(1, &[("n", 2), ("poison", 1)]);
    for (of, after) in [(2, vec![refused.clone()]), (3, vec![refused.clone(), other.clone()])] {
        let (id, name, args) =
            (format!("op{of}"), "add".to_owned(), [("key", id(of)), ("property", "n".into())]);
        let mut args = Value::from(args);
        let map = args.as_map_mut().expect("a map");
        map.insert("class".to_owned(), "Doc".into());
        map.insert("by".to_owned(), Value::from(5_i64));
        driver.feed(Event::Write(escale::sync::Write { id, name, args, touches: Vec::new(), after }));
    }
    driver.feed(Event::Network(true));
    driver.settle(&mut server);
    assert_eq!((stored(&server, 2, "n"), stored(&server, 3, "n")), (None, None), "both are held");
    driver.feed(Event::Discard(refused));
    driver.settle(&mut server);
    assert_eq!(
        (stored(&server, 2, "n"), stored(&server, 3, "n")),
        (Some(5), None),
        "one is held by the other"
    );
    driver.feed(Event::Discard(other));
    driver.settle(&mut server);
    assert_eq!((stored(&server, 2, "n"), stored(&server, 3, "n")), (Some(5), Some(5)));
    assert!(driver.machine.operations().is_empty());
}
