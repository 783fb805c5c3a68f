//! How operations end: with a later epoch, after a deletion, in the place of another one, and after a restart.

use std::collections::BTreeMap;

use escale::codec::{Data, Part, Row, ServerFrame, ServerParts};
use escale::journal::{Policy, Retention, make_id};
use escale::model::{Def, Value};
use escale::storage::Reopened;
use escale::store::Table;
use escale::sync::{Effect, Event, Mode, Write};
use escale::{Code, Error};

use super::driver::{Driver, LIVE_ACCOUNT, id, put, server, stored};
use escale_testkit::backend::Backend;
use escale_testkit::schema::{data, key, name};
use escale_testkit::server::{ModelServer, Write as ServerWrite};

/// Answers the request without any part: its operations are accepted, and nothing shows their effects.
fn accepted_unseen(driver: &mut Driver, server: &mut ModelServer) {
    let (number, request) = driver.sent.take().expect("a request");
    assert!(!request.ops.is_empty());
    driver.now += 5;
    let mut reply = driver.answer(server, &request);
    reply.parts.clear();
    driver.feed(Event::Replied { number, reply: Ok(reply) });
}

/// The socket that the machine wants is open.
fn open_socket(driver: &mut Driver) -> u64 {
    let socket = driver.hooks.told.iter().find_map(|effect| match effect {
        Effect::OpenSocket(socket) => Some(*socket),
        _ => None,
    });
    let socket = socket.expect("a socket");
    driver.feed(Event::SocketOpened { socket });
    socket
}

/// The server pushes the first document, and says that it has executed the session's operations up to `seq`.
fn push(driver: &mut Driver, server: &ModelServer, socket: u64, seq: u64) {
    let held = &server.db.docs[&key(0)];
    let data = Some(Data::from_map(&held.data).expect("data"));
    let row = Row { pk: key(0).1, v: held.v, deleted: false, max_life: None, data };
    let parts = vec![Part { rows: vec![row], ..Part::empty(Def::class_of(&name("Doc"))) }];
    let (epoch, now) = (server.db.epoch.clone(), driver.now);
    let pushed = ServerFrame::Parts(ServerParts { epoch, now, delta: 990, seq, parts });
    driver.feed(Event::Frame { socket, frame: Ok(pushed) });
}

/// Both sides have deleted the document: there is nothing to resolve.
#[test]
fn a_deletion_of_a_deleted_document_is_over() {
    let mut server = server(1);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Client);
    driver.subscribe(&mut server);
    driver.feed(Event::Network(false));
    let args = Value::from([("class", Value::from("Doc")), ("key", id(0))]);
    let deletion = driver.write("doc.delete", args);
    let v = server.db.highest + 1;
    server.db.write(v, &[ServerWrite::Delete(key(0))]);
    driver.feed(Event::Network(true));
    driver.settle(&mut server);
    let ended = |effect: &Effect| match effect {
        Effect::Accepted { id, result } => Some((id.clone(), result.as_ref().ok().map(|(v, _)| *v))),
        _ => None,
    };
    assert_eq!(driver.hooks.told.iter().find_map(ended), Some((deletion, Some(v))));
    assert!(driver.machine.operations().is_empty());
    let driver = driver.reopen(Mode::Synced, Policy::Client);
    assert!(driver.machine.operations().is_empty(), "after a restart as well");
}

/// The server lost an accepted operation before any reply showed its effect: a restart does not bring it back.
#[test]
fn r8_a_lost_operation_that_no_def_showed_does_not_come_back() {
    let mut server = server(1);
    server.back_up();
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    let lost = driver.add(0, 1);
    accepted_unseen(&mut driver, &mut server);
    assert_eq!(driver.machine.operations().len(), 1);
    assert!(server.restore(driver.now));
    let (number, request) = driver.sent.take().expect("the def is requested again");
    driver.now += 5;
    let reply = driver.answer(&mut server, &request);
    driver.feed(Event::Replied { number, reply: Ok(reply) });
    assert!(driver.machine.operations().is_empty());
    let mut driver = driver.reopen(Mode::Synced, Policy::Overwrite);
    assert!(driver.machine.operations().is_empty());
    assert_eq!(driver.machine.lost_by_server(), std::slice::from_ref(&lost));
    assert_eq!(driver.history(0).len(), 2, "its actions stay in the history");
}

/// An operation is over once each def has shown it. Until then a sweep leaves its actions alone, although the server
/// has accepted it.
#[test]
fn a_sweep_spares_the_actions_of_operations_that_are_not_over() {
    let mut server = server(1);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    driver.add(0, 1);
    accepted_unseen(&mut driver, &mut server);
    assert_eq!(driver.machine.operations().len(), 1);
    assert_eq!(driver.sweep(Retention::Count(1), true).expect("a rule"), Vec::<i64>::new());
    driver.settle(&mut server);
    driver.wait(400_000);
    while let Some((number, request)) = driver.sent.take() {
        let reply = driver.answer(&mut server, &request);
        driver.feed(Event::Replied { number, reply: Ok(reply) });
    }
    assert!(driver.machine.operations().is_empty());
    assert_eq!(driver.sweep(Retention::Count(1), true).expect("a rule").len(), 1);
}

/// One def has shown the effect, the other has not. After a restart the effect is still laid over nothing twice.
#[test]
fn r12_an_effect_that_one_def_has_shown_is_not_shown_twice_after_a_restart() {
    let mut server = server(1);
    put(&mut server, 0, data(0, Some(1), 0, 0));
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    let section = data(0, Some(1), 0, 0)["section"].as_str().expect("a section").to_owned();
    let games = Def::collection(&name("Doc"), &name("section"), &[&section]).expect("a def");
    driver.feed(Event::Subscribe(games.clone()));
    driver.settle(&mut server);
    let before = driver.seen(0, "n").unwrap_or(0);
    driver.add(0, 5);
    let (number, request) = driver.sent.take().expect("a request");
    assert_eq!(request.subs.len(), 2);
    driver.now += 5;
    let mut reply = driver.answer(&mut server, &request);
    reply.parts.retain(|part| part.def != games);
    driver.feed(Event::Replied { number, reply: Ok(reply) });
    assert_eq!(driver.machine.operations().len(), 1, "the other def has not shown it");
    assert_eq!(driver.seen(0, "n"), Some(before + 5));
    let mut driver = driver.reopen(Mode::Avion, Policy::Overwrite);
    assert_eq!(driver.seen(0, "n"), Some(before + 5));
}

/// A push shows the effect before the reply says that the operation was executed. The session ends in between.
#[test]
fn r12_an_effect_that_was_pushed_is_not_shown_twice_after_a_restart() {
    let mut server = server(1);
    let mut driver = Driver::new(LIVE_ACCOUNT, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    let socket = open_socket(&mut driver);
    let before = driver.seen(0, "n").unwrap_or(0);
    driver.add(0, 5);
    let (_, request) = driver.sent.clone().expect("a request");
    assert_eq!(request.ops.len(), 1);
    server.operate(driver.account, &request, (0, driver.now), &mut || false);
    push(&mut driver, &server, socket, 1);
    assert_eq!(driver.seen(0, "n"), Some(before + 5));
    let mut driver = driver.reopen(Mode::Avion, Policy::Overwrite);
    assert_eq!((driver.machine.status().pending, driver.seen(0, "n")), (1, Some(before + 5)));
}

/// An earlier opening may have sent an operation under another number, so no push is applied to its document. A pull
/// shows the other client's write instead.
#[test]
fn r12_a_document_that_no_push_may_change_is_pulled() {
    let mut server = server(1);
    let mut driver = Driver::new(LIVE_ACCOUNT, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    driver.patch(0, &[("poison", 1)]);
    driver.settle(&mut server);
    let behind = driver.patch(0, &[("m", 2)]);
    let mut driver = driver.reopen(Mode::Synced, Policy::Overwrite);
    let socket = open_socket(&mut driver);
    let live = ServerFrame::confirm(vec![Def::class_of(&name("Doc"))], Vec::new());
    driver.feed(Event::Frame { socket, frame: Ok(live) });
    driver.settle(&mut server);
    assert!(driver.machine.operations().iter().any(|(op, is_held)| op.state.issued.id == behind && *is_held));
    let mut theirs = data(0, None, 0, 0);
    theirs.insert("theirs".to_owned(), Value::from(9_i64));
    put(&mut server, 0, theirs);
    push(&mut driver, &server, socket, 1);
    assert_eq!(driver.seen(0, "theirs"), None);
    driver.settle(&mut server);
    assert_eq!((driver.seen(0, "theirs"), driver.seen(0, "m")), (Some(9), Some(2)));
}

/// An operation waits for another one by the application's word alone. It then waits for the one that takes its place.
#[test]
fn r12_an_operation_waits_for_the_one_in_the_place_of_the_refused_one() {
    let mut server = server(3);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    driver.feed(Event::Network(false));
    let other = driver.patch(2, &[("n", 1)]);
    let poisoned = driver.patch(0, &[("poison", 1), ("n", 1)]);
    let waits = make_id(driver.now, &mut driver.random).expect("an id");
    let set = Value::from([("n", Value::from(2_i64))]);
    let args = Value::from([("class", "Doc".into()), ("key", id(1)), ("set", set)]);
    let after = vec![other, poisoned.clone()];
    let (id, name) = (waits.clone(), "doc.patch".to_owned());
    driver.feed(Event::Write(Write { id, name, args, touches: Vec::new(), after }));
    driver.feed(Event::Network(true));
    driver.settle(&mut server);
    assert_eq!((driver.first_refused(), stored(&server, 1, "n")), (Some(poisoned.clone()), None));
    let args = Some(driver.without_poison(&poisoned));
    driver.feed(Event::Network(false));
    driver.feed(Event::Amend { id: poisoned.clone(), new: "amended".into(), args });
    let operations = driver.machine.operations();
    let (op, _) = operations.iter().find(|(op, _)| op.state.issued.id == waits).expect("it waits");
    assert_eq!(op.state.issued.after.last().map(String::as_str), Some("amended"));
    assert!(!op.state.issued.after.contains(&poisoned));
    let mut driver = driver.reopen(Mode::Synced, Policy::Overwrite);
    driver.settle(&mut server);
    let executed = server.db.operations.executed.iter().map(|(_, id)| id.as_str());
    assert_eq!(executed.collect::<Vec<_>>()[1..], ["amended", waits.as_str()]);
}

/// A record is damaged while the session is open: its history says so, and has the others.
#[test]
fn the_history_reports_a_damaged_record() {
    for is_gone in [false, true] {
        let mut server = server(1);
        let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
        driver.subscribe(&mut server);
        for n in 1..3 {
            driver.patch(0, &[("n", n)]);
            driver.settle(&mut server);
        }
        let name = driver.store_name();
        driver.device.tamper(&name, |records| {
            let victim = *records.keys().find(|(table, _)| *table == Table::Journal).expect("a record");
            if is_gone {
                records.remove(&victim);
            } else {
                records.get_mut(&victim).expect("a record")[40] ^= 1;
            }
        });
        driver.device.tamper_copies(&name, BTreeMap::clear);
        assert_eq!(driver.history(0).len(), 2);
        let error = driver.machine.status().error.map(|error| error.code());
        assert_eq!(error, Some(Code::LocalDataLost));
    }
}

/// A batch names a document twice, out of order.
#[test]
fn a_batch_touches_each_document_once() {
    let mut server = server(2);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    driver.feed(Event::Network(false));
    let patch = |number: usize, n: i64| {
        let set = Value::from([("n", Value::from(n))]);
        let args = Value::from([("class", "Doc".into()), ("key", id(number)), ("set", set)]);
        Value::from([("name", "doc.patch".into()), ("args", args)])
    };
    let ops = Value::Array(vec![patch(0, 1), patch(1, 2), patch(0, 3), patch(1, 4)]);
    driver.write("batch", Value::from([("ops", ops)]));
    let operations = driver.machine.operations();
    assert_eq!((operations[0].0.keys.len(), operations[0].0.actions.len()), (2, 4));
    drop(operations);
    assert_eq!((driver.seen(0, "n"), driver.seen(1, "n")), (Some(3), Some(4)));
}

/// A discarded operation holds the operations behind it until its record is deleted. A device that was wiped has no
/// record to delete.
#[test]
fn r12_a_discarded_operation_holds_nothing_once_its_record_is_wiped() {
    let mut server = server(1);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    driver.feed(Event::Network(false));
    let refused = driver.patch(0, &[("n", 1), ("poison", 1)]);
    driver.patch(0, &[("n", 2)]);
    driver.feed(Event::Network(true));
    driver.settle(&mut server);
    assert_eq!(stored(&server, 0, "n"), None, "it is held");
    driver.feed(Event::DeviceClosed(Error::new(Code::StorageClosed, "by the test")));
    driver.feed(Event::Discard(refused));
    driver.feed(Event::Reopened(Ok(Reopened { header: None, is_whole: false })));
    driver.settle(&mut server);
    assert_eq!(stored(&server, 0, "n"), Some(2));
    assert!(driver.machine.operations().is_empty());
}
