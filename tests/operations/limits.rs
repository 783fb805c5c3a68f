//! Sizes beyond the limits: the operation is refused by name, parked, or sent alone, and the others proceed.

use escale::codec::{Format, SyncRequest, encode};
use escale::journal::Policy;
use escale::model::Value;
use escale::sync::{Effect, Event, Mode, Refusal};
use escale::{Code, Error};

use super::driver::{Driver, id, put, server, stored};
use escale_testkit::schema::{data, key};
use escale_testkit::server::ModelServer;

/// More than half of the largest possible document.
const HALF: usize = 600 << 10;

/// Somebody else's document of that many bytes.
fn grow(server: &mut ModelServer, number: usize, bytes: usize) {
    let mut grown = data(number, None, 0, 0);
    grown.insert("big".to_owned(), Value::String("x".repeat(bytes)));
    put(server, number, grown);
}

fn refused(driver: &Driver) -> Vec<(String, String)> {
    let operations = driver.machine.operations();
    let refused = operations.iter().filter_map(|(op, _)| Some((op, op.state.refused.as_ref()?)));
    refused.map(|(op, fault)| (op.state.issued.id.clone(), fault.code.clone())).collect()
}

fn told_too_large(driver: &Driver, id: &str) -> usize {
    let is_it = |effect: &&Effect| matches!(effect, Effect::Refused { id: told, error } if told == id && error.code() == Code::TooLarge);
    driver.hooks.told.iter().filter(is_it).count()
}

/// If the document is in memory, the result of a patch is known.
#[test]
fn a_patch_that_makes_a_document_too_large_is_refused_by_name() {
    let mut server = server(1);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    driver.feed(Event::Network(false));
    driver.write("doc.patch", Driver::large(0, "a", HALF));
    let code = |driver: &Driver, name: &str, args: &Value| {
        driver.machine.check_write(name, args).expect_err("too large").code()
    };
    assert_eq!(code(&driver, "doc.patch", &Driver::large(0, "b", HALF)), Code::TooLarge);
    let patch = |property| {
        Value::from([("name", "doc.patch".into()), ("args", Driver::large(0, property, HALF / 2))])
    };
    let batch = Value::from([("ops", Value::Array(vec![patch("b"), patch("c")]))]);
    assert_eq!(code(&driver, "batch", &batch), Code::TooLarge);
    let within = Value::from([("ops", Value::Array(vec![patch("b"), patch("b")]))]);
    assert!(driver.machine.check_write("batch", &within).is_ok(), "the second takes the first one's place");
}

/// The document is not read yet when the patch is issued. Such a patch was once neither sent nor refused, and
/// blocked everything written after it until the next opening.
#[test]
fn a_patch_found_too_large_when_its_document_is_read_is_parked() {
    let mut server = server(2);
    grow(&mut server, 0, HALF);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    driver.feed(Event::Network(false));
    let mut driver = driver.reopen(Mode::Avion, Policy::Overwrite);
    // Nothing was read yet: the first patch requests it.
    let large = driver.write("doc.patch", Driver::large(0, "a", HALF));
    let behind = driver.patch(0, &[("n", 2)]);
    let other = driver.patch(1, &[("n", 3)]);
    assert_eq!(refused(&driver), [(large.clone(), "too_large".to_owned())]);
    assert_eq!(told_too_large(&driver, &large), 1);
    assert_eq!((driver.seen(0, "n"), driver.seen(1, "n")), (Some(2), Some(3)), "the others are shown");
    let saved = |effect: &Effect| matches!(effect, Effect::Saved { .. });
    assert_eq!(driver.hooks.told.iter().filter(|effect| saved(effect)).count(), 3);
    // It is stored like any other.
    let mut driver = driver.reopen(Mode::Synced, Policy::Overwrite);
    driver.settle(&mut server);
    assert_eq!(
        (stored(&server, 0, "n"), stored(&server, 1, "n")),
        (None, Some(3)),
        "what depends on it is held"
    );
    let executed: Vec<&str> = server.db.operations.executed.iter().map(|(_, id)| id.as_str()).collect();
    assert_eq!(executed, [other.as_str()]);
    // Amended, it is executed before the operations that it blocked.
    driver.feed(Event::Amend { id: large, new: "amended".into(), args: Some(Driver::large(0, "a", 10)) });
    driver.settle(&mut server);
    let executed: Vec<&str> = server.db.operations.executed.iter().map(|(_, id)| id.as_str()).collect();
    assert_eq!(executed, [other.as_str(), "amended", behind.as_str()]);
    assert!(driver.machine.operations().is_empty());
}

/// The document grows while a patch waits. No part of the patch was sent, so it can be refused here.
#[test]
fn a_patch_under_which_its_document_grows_is_parked() {
    let mut server = server(2);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    driver.feed(Event::Network(false));
    let poisoned = driver.patch(0, &[("poison", 1)]);
    driver.feed(Event::Network(true));
    driver.settle(&mut server);
    let large = driver.write("doc.patch", Driver::large(0, "a", HALF));
    driver.settle(&mut server);
    assert_eq!(refused(&driver).len(), 1, "held");
    grow(&mut server, 0, HALF);
    driver.wait(400_000);
    driver.settle(&mut server);
    assert_eq!(refused(&driver).last(), Some(&(large.clone(), "too_large".to_owned())));
    assert_eq!(told_too_large(&driver, &large), 1);
    driver.patch(1, &[("n", 7)]);
    driver.settle(&mut server);
    assert_eq!(stored(&server, 1, "n"), Some(7));
    // It shrinks again: the application may retry.
    grow(&mut server, 0, 1);
    driver.wait(400_000);
    driver.settle(&mut server);
    driver.feed(Event::Discard(poisoned));
    driver.feed(Event::Amend { id: large, new: "again".into(), args: None });
    driver.settle(&mut server);
    assert!(driver.machine.operations().is_empty());
    assert!(server.db.operations.executed.iter().any(|(_, id)| id == "again"));
}

/// An operation that may have reached the server is the server's to refuse: a new id in its place could
/// execute it twice.
#[test]
fn r11_a_patch_that_was_sent_is_not_parked_before_the_answer() {
    for is_executed in [true, false] {
        let mut server = server(2);
        let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
        driver.subscribe(&mut server);
        let large = driver.write("doc.patch", Driver::large(0, "a", HALF));
        let (number, request) = driver.sent.take().expect("a request");
        if is_executed {
            driver.answer(&mut server, &request);
        } else {
            grow(&mut server, 0, HALF);
        }
        // The answer is lost. Before the operation is sent again, a reply brings the document, which has
        // grown.
        let refusal = Refusal::from(Error::new(Code::Timeout, "lost"));
        driver.feed(Event::Replied { number, reply: Err(refusal) });
        driver.patch(1, &[("n", 4)]);
        driver.wait(40_000);
        driver.settle(&mut server);
        let parked = refused(&driver);
        assert_eq!(parked.is_empty(), is_executed, "{parked:?}");
        assert_eq!(stored(&server, 1, "n"), Some(4));
        let executed = server.db.operations.executed.iter().filter(|(_, id)| *id == large).count();
        assert_eq!(executed, usize::from(is_executed));
    }
}

/// A batch is checked as the server executes it: each operation on the result of the operations before it.
#[test]
fn a_batch_is_checked_through_its_own_changes() {
    let mut server = server(1);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    driver.feed(Event::Network(false));
    let class = ("class", Value::from("Doc"));
    let op = |name: &str, args: Value| Value::from([("name", Value::from(name)), ("args", args)]);
    let set = Value::from([("n", Value::from(5_i64))]);
    let put = op("doc.put", Value::from([class.clone(), ("data", Value::from([("id", "id0".into())]))]));
    let patch = op("doc.patch", Value::from([class.clone(), ("key", id(0)), ("set", set)]));
    let delete = op("doc.delete", Value::from([class.clone(), ("key", id(0))]));
    let batch =
        |ops: &[&Value]| Value::from([("ops", Value::Array(ops.iter().map(|op| (*op).clone()).collect()))]);
    let code = |driver: &Driver, ops: &[&Value]| {
        driver.machine.check_write("batch", &batch(ops)).err().map(|error| error.code())
    };
    assert_eq!(code(&driver, &[&delete, &patch]), Some(Code::NotFound));
    assert_eq!(code(&driver, &[&delete, &put, &patch, &delete]), None);
    driver.write("doc.delete", Value::from([class, ("key", id(0))]));
    assert_eq!(code(&driver, &[&patch]), Some(Code::NotFound));
    assert_eq!(code(&driver, &[&put, &patch]), None, "the put restores what the patch is about");
    let own = op("add", Value::from([("key", id(0)), ("property", "n".into()), ("by", 1_i64.into())]));
    assert_eq!(
        code(&driver, &[&own, &patch]),
        None,
        "what an operation of the application's own does is not known here"
    );
    driver.write("batch", batch(&[&put, &patch]));
    driver.feed(Event::Network(true));
    driver.settle(&mut server);
    assert_eq!(stored(&server, 0, "n"), Some(5));
}

/// A patch of a document that is not held implies nothing for the next patch. It was once taken for a
/// deletion.
#[test]
fn two_patches_of_what_is_not_held_can_be_issued() {
    let mut server = server(1);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.patch(0, &[("a", 2)]);
    driver.patch(0, &[("b", 3)]);
    driver.settle(&mut server);
    assert_eq!((stored(&server, 0, "a"), stored(&server, 0, "b")), (Some(2), Some(3)));
}

/// A refused write is amended in its own position, regardless of later writes.
#[test]
fn an_amendment_is_checked_in_its_own_place() {
    let mut server = server(2);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    driver.feed(Event::Network(false));
    let poisoned = driver.patch(0, &[("a", 1), ("poison", 1)]);
    let grown = driver.patch(1, &[("a", 1), ("poison", 1)]);
    driver.write("doc.delete", Value::from([("class", "Doc".into()), ("key", id(0))]));
    driver.write("doc.patch", Driver::large(1, "b", 700_000));
    driver.feed(Event::Network(true));
    driver.settle(&mut server);
    let args = driver.without_poison(&poisoned);
    assert!(driver.machine.check_amendment(&poisoned, Some(&args)).is_ok(), "the deletion stands behind it");
    let large = Driver::large(1, "a", 700_000);
    assert!(driver.machine.check_amendment(&grown, Some(&large)).is_ok(), "the other text stands behind it");
    let large = Driver::large(0, "a", 2 << 20);
    let error = driver.machine.check_amendment(&poisoned, Some(&large)).expect_err("too large");
    assert_eq!(error.code(), Code::TooLarge);
    assert_eq!(driver.machine.check_amendment("unknown", None).expect_err("unknown").code(), Code::NotFound);
}

/// Arguments that a server's decoder would refuse are refused at the call: a request with them would never
/// arrive.
#[test]
fn arguments_nested_too_deep_are_refused_by_name() {
    let driver = Driver::new(0, Mode::Avion, Policy::Overwrite);
    let mut nested = Value::from(1_i64);
    for _ in 0..31 {
        nested = Value::Array(vec![nested]);
    }
    let args = Value::from([("class", "Doc".into()), ("key", id(0)), ("set", Value::from([("n", nested)]))]);
    assert_eq!(driver.machine.check_write("doc.patch", &args).expect_err("too deep").code(), Code::TooDeep);
}

/// Answers each request, or refuses it as a whole as a proxy does that only knows the body's size, until none
/// is left.
fn settle_within(driver: &mut Driver, server: &mut ModelServer, bytes_max: usize) -> (usize, usize) {
    let (mut passed, mut refused) = (0, 0);
    while passed + refused < 2_000 {
        let Some((number, request)) = driver.sent.take() else {
            let is_over = driver.machine.operations().iter().all(|(op, held)| *held || !op.is_waiting());
            if is_over {
                return (passed, refused);
            }
            driver.wait(40_000);
            continue;
        };
        driver.now += 5;
        let bytes = encode(Format::Msgpack, &request).expect("a request").len();
        let reply = if bytes <= bytes_max {
            passed += 1;
            Ok(driver.answer(server, &request))
        } else {
            refused += 1;
            Err(Refusal::from(Error::new(Code::TooLarge, "413")))
        };
        driver.feed(Event::Replied { number, reply });
    }
    panic!("never over: {passed} requests passed, {refused} were refused");
}

/// A proxy accepts smaller bodies than the server, so the operations are sent in smaller requests. They once
/// were never sent.
#[test]
fn a_request_too_large_for_its_operations_is_halved() {
    let mut server = server(4);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    driver.feed(Event::Network(false));
    for n in 0..800 {
        driver.patch(n % 4, &[("n", n as i64)]);
    }
    driver.feed(Event::Network(true));
    let (passed, refused) = settle_within(&mut driver, &mut server, 20_000);
    assert!(driver.machine.operations().is_empty());
    assert_eq!(stored(&server, 3, "n"), Some(799));
    assert!(refused < 12 && passed < 40, "{passed} requests passed, {refused} were refused");
}

/// A single operation is too large for the proxy: it is parked, and the others are sent together again.
#[test]
fn an_operation_too_large_for_the_way_is_parked() {
    for mode in [Mode::Synced, Mode::Incognito] {
        let mut server = server(4);
        let mut driver = Driver::new(0, mode, Policy::Overwrite);
        driver.subscribe(&mut server);
        driver.feed(Event::Network(false));
        for n in 0..400 {
            driver.patch(n % 3, &[("n", n as i64)]);
        }
        let large = driver.write("doc.patch", Driver::large(3, "a", 30_000));
        let behind = driver.patch(3, &[("n", 1)]);
        for n in 400..1_200 {
            driver.patch(n % 3, &[("n", n as i64)]);
        }
        driver.feed(Event::Network(true));
        let (passed, refused_whole) = settle_within(&mut driver, &mut server, 25_000);
        assert_eq!(refused(&driver), [(large.clone(), "too_large".to_owned())]);
        assert_eq!(told_too_large(&driver, &large), 1);
        let held: Vec<String> = driver
            .machine
            .operations()
            .iter()
            .filter(|(_, held)| *held)
            .map(|(op, _)| op.state.issued.id.clone())
            .collect();
        assert_eq!(held, [behind]);
        assert_eq!(stored(&server, 2, "n"), Some(1_199));
        assert!(refused_whole < 24 && passed < 60, "{passed} requests passed, {refused_whole} were refused");
        driver.feed(Event::Amend { id: large, new: "amended".into(), args: Some(Driver::large(3, "a", 10)) });
        driver.settle(&mut server);
        assert!(driver.machine.operations().is_empty());
        assert_eq!(stored(&server, 3, "n"), Some(1));
    }
}

/// One operation of a request is too large: the others go together, before it.
#[test]
fn operations_beside_one_that_is_too_large_are_sent_together() {
    let mut server = server(4);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    driver.feed(Event::Network(false));
    driver.write("doc.patch", Driver::large(3, "a", 30_000));
    for n in 0..20 {
        driver.patch(n % 3, &[("n", n as i64)]);
    }
    driver.feed(Event::Network(true));
    let mut counts = Vec::new();
    while counts.last() != Some(&20) {
        let Some((number, request)) = driver.sent.take() else {
            driver.wait(40_000);
            continue;
        };
        counts.push(request.ops.len());
        assert!(counts.len() < 12, "{counts:?}");
        driver.feed(Event::Replied { number, reply: Err(Error::new(Code::TooLarge, "413").into()) });
    }
    assert_eq!(counts, [21, 20]);
}

/// Subscriptions may fill a request as well: an operation is sent alone before it is given up.
#[test]
fn an_operation_is_tried_by_itself_before_it_is_parked() {
    let mut server = server(1);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    for n in 0..100 {
        driver.feed(Event::Subscribe(format!("Doc@{n:0>22}").parse().expect("a def")));
    }
    driver.settle(&mut server);
    driver.feed(Event::Network(false));
    driver.patch(0, &[("n", 5)]);
    driver.wait(400_000);
    driver.feed(Event::Network(true));
    let (_, request) = driver.sent.clone().expect("a request");
    assert_eq!((request.ops.len(), request.subs.len()), (1, 101));
    let bytes = encode(Format::Msgpack, &request).expect("a request").len();
    let (_, refused) = settle_within(&mut driver, &mut server, bytes - 50);
    assert_eq!((stored(&server, 0, "n"), refused), (Some(5), 1));
    while let Some((number, request)) = driver.sent.take() {
        driver.now += 5;
        let reply = driver.answer(&mut server, &request);
        driver.feed(Event::Replied { number, reply: Ok(reply) });
    }
    assert!(driver.machine.operations().is_empty());
    assert_eq!(driver.seen(0, "n"), Some(5));
}

/// The document grows while a patch is on its way, and shrinks before the answer. The server may have executed
/// the patch, so only the server can refuse it.
#[test]
fn a_patch_that_may_have_been_sent_is_not_parked_when_its_document_grows() {
    let mut server = server(2);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    driver.feed(Event::Network(false));
    let large = driver.write("doc.patch", Driver::large(0, "a", HALF));
    grow(&mut server, 0, HALF);
    driver.wait(400_000);
    driver.feed(Event::Network(true));
    let mut has_grown = false;
    while !has_grown {
        let (number, request) = driver.sent.take().expect("a request");
        assert_eq!(request.subs.len(), 1);
        // The reply has no room for the result of the patch. Its page may end before the document.
        let reply = driver.answer(&mut server, &SyncRequest { ops: Vec::new(), ..request });
        has_grown = reply.parts.iter().flat_map(|part| &part.rows).any(|row| row.pk == key(0).1);
        driver.feed(Event::Replied { number, reply: Ok(reply) });
        driver.wait(2_000);
        assert_eq!((refused(&driver), told_too_large(&driver, &large)), (Vec::new(), 0));
    }
    grow(&mut server, 0, 1);
    driver.settle(&mut server);
    assert_eq!(refused(&driver), []);
    assert_eq!(server.db.operations.executed.len(), 1);
    assert!(driver.machine.operations().is_empty());
}

/// A request was refused for its size, but a copy of it has passed all the same, or arrives late. Executed
/// operations are reported as accepted. Operations reported as refused are never executed.
#[test]
fn r11_an_operation_too_large_for_the_way_is_executed_or_parked() {
    let own = [("class", "Doc".into()), ("key", id(0)), ("property", "n".into()), ("by", 3_i64.into())];
    let patch = Value::from([
        ("class", "Doc".into()),
        ("key", id(0)),
        ("set", Value::from([("n", Value::from(3_i64))])),
    ]);
    for (name, args) in [("doc.patch", patch), ("add", Value::from(own))] {
        for passes in [None, Some(0), Some(1), Some(2), Some(3)] {
            let mut server = server(1);
            let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
            driver.subscribe(&mut server);
            let issued = driver.write(name, args.clone());
            let (mut refusals, mut copies) = (0, Vec::new());
            while driver.machine.status().pending > 0 {
                let Some((number, request)) = driver.sent.take() else {
                    driver.wait(40_000);
                    continue;
                };
                let is_whole = request.ops.iter().any(|op| op.args == args);
                if passes == Some(refusals) {
                    // Over another connection, before this request is answered.
                    copies.drain(..).for_each(|request| drop(driver.answer(&mut server, &request)));
                }
                if is_whole {
                    copies.push(request);
                    refusals += 1;
                    let refusal = Refusal::from(Error::new(Code::TooLarge, "413"));
                    driver.feed(Event::Replied { number, reply: Err(refusal) });
                } else {
                    refusals += usize::from(!request.ops.is_empty());
                    let reply = driver.answer(&mut server, &request);
                    driver.feed(Event::Replied { number, reply: Ok(reply) });
                }
            }
            copies.drain(..).for_each(|request| drop(driver.answer(&mut server, &request)));
            let is_parked = refused(&driver) == [(issued.clone(), "too_large".to_owned())];
            assert_eq!(stored(&server, 0, "n"), (!is_parked).then_some(3), "{name}, {passes:?}");
            let accepted =
                |effect: &Effect| matches!(effect, Effect::Accepted { id, result: Ok(_) } if *id == issued);
            assert_eq!(driver.hooks.told.iter().any(accepted), !is_parked, "{name}, {passes:?}");
            assert_eq!(is_parked, !matches!(passes, Some(1 | 2)), "{name}, {passes:?}");
        }
    }
}
