//! The numbers under which a session's operations are executed, and the names that it numbers them under (R11).

use escale::Code;
use escale::codec::{Fault, OpResult, SyncRequest};
use escale::journal::Policy;
use escale::sync::{Event, Mode};

use super::driver::{Driver, server, stored};
use super::order::{answered_but, ids, lost, sent_with_ops};
use escale_testkit::server::ModelServer;

/// The next request with operations. Requests before it are lost.
fn next_with_ops(driver: &mut Driver) -> (u64, SyncRequest) {
    loop {
        match driver.sent.take_if(|(_, request)| !request.ops.is_empty()) {
            Some(sent) => break sent,
            None if driver.sent.is_some() => lost(driver),
            None => driver.wait(1_000),
        }
    }
}

/// The server knows other numbers of this session, so the session takes another name. Operations executed before, or in
/// that very reply, have their numbers under the old name. Any later pull shows them, at any number of the new name.
#[test]
fn r11_an_operation_executed_under_a_left_name_is_shown_by_the_next_pull() {
    let mut server = server(3);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    driver.feed(Event::Network(false));
    let issued = [driver.add(0, 1), driver.add(1, 2), driver.add(2, 3)];
    let [reused, ..] = &issued;
    driver.feed(Event::Network(true));
    for executed in [2, 1] {
        let (number, mut request) = next_with_ops(&mut driver);
        assert_eq!(ids(&request), issued[..=executed].iter().collect::<Vec<_>>());
        // No part shows the executed operations yet.
        request.subs.clear();
        request.ops.drain(..executed);
        request.ops[0].seq = 3 - executed as u64;
        let mut reply = driver.answer(&mut server, &request);
        let fault = Some(Fault::new(Code::SessionReused, "by the test"));
        reply.results.insert(0, OpResult { id: reused.clone(), ok: None, fault });
        driver.feed(Event::Replied { number, reply: Ok(reply) });
    }
    assert_eq!((stored(&server, 1, "n"), stored(&server, 2, "n")), (Some(2), Some(3)));
    assert_eq!(driver.machine.operations().len(), 3, "nothing was shown so far");
    // Nothing is executed under the new name yet: the number is still 0.
    let request = answered_but(&mut driver, &mut server, 0);
    assert_eq!(ids(&request), [reused]);
    while let Some((number, request)) = driver.sent.take_if(|(_, request)| request.ops.is_empty()) {
        let reply = driver.answer(&mut server, &request);
        driver.feed(Event::Replied { number, reply: Ok(reply) });
    }
    let left: Vec<String> =
        driver.machine.operations().into_iter().map(|(op, _)| op.state.issued.id.clone()).collect();
    assert_eq!(left, std::slice::from_ref(reused));
    driver.settle(&mut server);
    for (number, n) in [(0, 1), (1, 2), (2, 3)] {
        assert_eq!((stored(&server, number, "n"), driver.seen(number, "n")), (Some(n), Some(n)));
    }
}

/// The server knows other numbers of this session. The name that the session takes instead is on the device before the
/// next request: under the old one, an operation could meet another one's result.
#[test]
fn r11_the_name_that_a_session_takes_instead_outlives_the_process() {
    let mut server = server(1);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    let id = driver.add(0, 1);
    let mut names = Vec::new();
    for _ in 0..2 {
        let (number, mut request) = next_with_ops(&mut driver);
        names.push(request.session.clone());
        (request.ops, request.subs) = (Vec::new(), Vec::new());
        let mut reply = driver.answer(&mut server, &request);
        let fault = Some(Fault::new(Code::SessionReused, "by the test"));
        reply.results.push(OpResult { id: id.clone(), ok: None, fault });
        driver.feed(Event::Replied { number, reply: Ok(reply) });
    }
    assert_eq!(names[0], names[1], "at first it numbers its operations again");
    let taken = driver.machine.layout().expect("a device").session().to_owned();
    assert_ne!(taken, names[0]);
    let mut driver = driver.reopen(Mode::Synced, Policy::Overwrite);
    assert_eq!(driver.machine.layout().expect("a device").session(), taken);
    driver.settle(&mut server);
    assert_eq!(stored(&server, 0, "n"), Some(1));
}

/// The server executed the second of two operations long ago, under a number that this session forgot. Its effect is
/// shown up to that number, and it is over before the first is executed.
#[test]
fn r11_an_operation_counts_under_the_number_that_the_server_gave_it() {
    let mut server = server(2);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    driver.feed(Event::Network(false));
    let [first, second] = [driver.add(0, 1), driver.add(1, 2)];
    driver.feed(Event::Network(true));
    let (number, mut request) = sent_with_ops(&mut driver, &mut server);
    assert_eq!(ids(&request), [&first, &second]);
    request.ops.remove(0);
    request.ops[0].seq = 1;
    let reply = driver.answer(&mut server, &request);
    assert_eq!((reply.seq, reply.results.len()), (1, 1));
    driver.feed(Event::Replied { number, reply: Ok(reply) });
    pull_only(&mut driver, &mut server);
    let left: Vec<String> =
        driver.machine.operations().into_iter().map(|(op, _)| op.state.issued.id.clone()).collect();
    assert_eq!(left, [first]);
}

/// Five minutes pass, and the server answers all but the operations.
fn pull_only(driver: &mut Driver, server: &mut ModelServer) {
    for _ in 0..2 {
        if driver.sent.is_none() {
            driver.wait(400_000);
        }
        let Some((number, mut request)) = driver.sent.take() else { continue };
        request.ops.clear();
        let reply = driver.answer(server, &request);
        driver.feed(Event::Replied { number, reply: Ok(reply) });
    }
}
