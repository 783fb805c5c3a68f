//! A session's own activities, driven by hand: its token, and the expiry of documents.

use std::collections::BTreeSet;

use escale::codec::{Fault, Part};
use escale::journal::Policy;
use escale::memory::query::{Predicate, Query};
use escale::model::{Def, Value};
use escale::sync::{Effect, Event, Mode, Phase, Refusal};
use escale::{Code, Error};

use super::driver::{Driver, NOW, TOKEN_ACCOUNT, doc_key, server, stored};
use escale_testkit::backend::Backend;
use escale_testkit::schema::{data, key, name, schema};
use escale_testkit::server::{ModelServer, Write};

/// How often the application was asked for a token since the last call: at first, and because a token was
/// refused.
fn asked(driver: &mut Driver) -> (usize, usize) {
    let told = std::mem::take(&mut driver.hooks.told);
    let of = |refused: bool| {
        told.iter()
            .filter(|effect| matches!(effect, Effect::AskToken { refused: r } if *r == refused))
            .count()
    };
    (of(false), of(true))
}

fn refuse(driver: &mut Driver) {
    let (number, _) = driver.sent.take().expect("a request");
    let refusal = Refusal::from(Error::new(Code::Unauthorized, "by the test"));
    driver.feed(Event::Replied { number, reply: Err(refusal) });
}

/// Five minutes pass, and everything is pulled; twice, because recent changes arrive only with the second
/// pull.
fn pull(driver: &mut Driver, server: &mut ModelServer) {
    for _ in 0..2 {
        driver.wait(400_000);
        driver.settle(server);
    }
}

#[test]
fn a_token_is_asked_for_before_the_first_request_and_again_when_it_is_refused() {
    let mut server = server(1);
    let mut driver = Driver::new(TOKEN_ACCOUNT, Mode::Synced, Policy::Overwrite);
    assert_eq!(asked(&mut driver), (1, 0));
    driver.add(0, 1);
    driver.wait(60_000);
    assert!(driver.sent.is_none(), "nothing goes out before there is one");
    driver.feed(Event::Token(Some("one".into())));
    assert_eq!((driver.sent.is_some(), driver.hooks.token.as_deref()), (true, Some("one")));
    refuse(&mut driver);
    assert_eq!(asked(&mut driver), (0, 1), "that one is no good");
    assert_eq!(driver.machine.status().phase, Phase::Paused);
    driver.wait(60_000);
    assert!(driver.sent.is_none(), "nothing goes out under a token that was refused");
    driver.feed(Event::Token(Some("two".into())));
    assert_eq!(driver.hooks.token.as_deref(), Some("two"), "a new one is tried at once");
    driver.settle(&mut server);
    assert_eq!((stored(&server, 0, "n"), asked(&mut driver)), (Some(1), (0, 0)));
    assert!(driver.machine.status().error.is_none());
}

#[test]
fn an_application_without_a_token_is_asked_again_when_there_is_a_reason_to_hope() {
    let mut driver = Driver::new(TOKEN_ACCOUNT, Mode::Synced, Policy::Overwrite);
    driver.feed(Event::Token(None));
    let error = driver.machine.status().error.expect("the lack of it is told");
    assert_eq!((error.code(), driver.machine.status().phase), (Code::Unauthorized, Phase::Paused));
    assert_eq!(asked(&mut driver), (1, 0));
    driver.feed(Event::Network(false));
    driver.feed(Event::Network(true));
    assert_eq!(asked(&mut driver), (0, 1), "the network is back");
}

#[test]
fn a_refusal_of_an_earlier_token_says_nothing_of_the_later_one() {
    let mut server = server(1);
    let mut driver = Driver::new(TOKEN_ACCOUNT, Mode::Synced, Policy::Overwrite);
    driver.add(0, 1);
    driver.feed(Event::Token(Some("one".into())));
    assert_eq!(driver.hooks.token.as_deref(), Some("one"));
    driver.feed(Event::Token(Some("two".into())));
    asked(&mut driver);
    refuse(&mut driver);
    assert_eq!(asked(&mut driver), (0, 0), "the later one is not known to be bad");
    driver.settle(&mut server);
    assert_eq!((driver.hooks.token.as_deref(), stored(&server, 0, "n")), (Some("two"), Some(1)));
}

/// At its minute a document is hidden. It leaves the memory with the first reply after that.
#[test]
fn a_document_whose_life_has_ended_leaves_with_the_next_reply() {
    let mut server = server(2);
    let end = NOW / 60_000 + 3;
    let v = server.db.highest + 1;
    server.db.write(v, &[Write::Put { key: key(0), data: data(0, None, 0, 0), max_life: Some(end) }]);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    assert!(driver.machine.find(&key(0).0, &key(0).1).is_some());
    driver.wait(end * 60_000 - driver.now - 1);
    assert!(driver.machine.find(&key(0).0, &key(0).1).is_some(), "a moment before");
    driver.wait(1);
    assert_eq!(driver.machine.find(&key(0).0, &key(0).1), None);
    assert!(driver.machine.memory().document(&doc_key(0)).is_some(), "hidden, and not forgotten yet");
    driver.wait(400_000);
    let (number, request) = driver.sent.take().expect("a request");
    let mut reply = driver.answer(&mut server, &request);
    // A server that has purged it has nothing to report of it any more.
    reply.parts.iter_mut().for_each(|part| part.rows.clear());
    driver.feed(Event::Replied { number, reply: Ok(reply) });
    assert!(driver.machine.memory().document(&doc_key(0)).is_none());
    assert!(driver.machine.memory().document(&doc_key(1)).is_some());
}

/// A patch of a document that the server reported as deleted is refused at the call, until the server reports
/// the document again.
#[test]
fn a_document_that_came_back_can_be_patched() {
    let mut server = server(1);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    let patch = Driver::large(0, "n", 1);
    let may = |driver: &Driver| driver.machine.check_write("doc.patch", &patch).map_err(|error| error.code());
    assert_eq!(may(&driver), Ok(()));
    for _ in 0..2 {
        server.db.write(driver.now, &[Write::Delete(key(0))]);
        pull(&mut driver, &mut server);
        assert_eq!(may(&driver), Err(Code::NotFound));
        let put = Write::Put { key: key(0), data: data(0, None, 0, 0), max_life: None };
        server.db.write(driver.now, &[put]);
        pull(&mut driver, &mut server);
        assert_eq!(may(&driver), Ok(()));
        driver.feed(Event::Unsubscribe(Def::class_of(&key(0).0)));
        assert_eq!(may(&driver), Ok(()), "nobody knows better while it is not held");
        driver.subscribe(&mut server);
    }
}

/// A later epoch of the server's database may have a document that an earlier epoch had deleted.
#[test]
fn r8_what_an_earlier_epoch_deleted_may_be_patched_again() {
    let mut server = server(1);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    server.db.write(driver.now, &[Write::Delete(key(0))]);
    pull(&mut driver, &mut server);
    let patch = Driver::large(0, "n", 1);
    let may = |driver: &Driver| driver.machine.check_write("doc.patch", &patch).map_err(|error| error.code());
    assert_eq!(may(&driver), Err(Code::NotFound));
    driver.feed(Event::Unsubscribe(Def::class_of(&key(0).0)));
    driver.feed(Event::Subscribe(Def::class_of(&name("Note"))));
    driver.settle(&mut server);
    assert_eq!(may(&driver), Err(Code::NotFound), "still known");
    server.renew(driver.now);
    pull(&mut driver, &mut server);
    assert_eq!(may(&driver), Ok(()), "nobody knows any more");
}

/// A query about stored documents reads their pages.
#[test]
fn a_query_finds_what_rests_and_what_was_written_since() {
    let mut server = server(5);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    driver.patch(1, &[("size", 70)]);
    driver.patch(2, &[("size", 80)]);
    driver.settle(&mut server);
    let mut driver = driver.reopen(Mode::Avion, Policy::Overwrite);
    driver.patch(3, &[("size", 90)]);
    let schema = schema();
    let class = schema.class("Doc").expect("a class");
    let predicate = Predicate::new(class, "size", ">=", &Value::from(75_i64)).expect("a query");
    driver.feed(Event::Query {
        ticket: 8,
        class: class.name().clone(),
        query: Query { predicates: vec![predicate], ..Query::default() },
    });
    let Some(Effect::Matched { ids, .. }) = driver.hooks.told.pop() else { panic!("no answer") };
    let ids: BTreeSet<u32> = ids.expect("a device that reads").into_iter().collect();
    let named = [2, 3].map(|number| driver.machine.find(&key(number).0, &key(number).1).expect("there"));
    assert_eq!(ids, BTreeSet::from(named));
}

/// `flush` waits for this: no batch is in progress, and no operations or documents wait to be written.
#[test]
fn a_session_is_at_rest_once_all_that_it_holds_is_written() {
    let mut server = server(2);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    let rests = |driver: &Driver| driver.machine.is_at_rest().expect("a device that writes");
    assert!(rests(&driver));
    driver.hooks.holds_commits_back = true;
    driver.feed(Event::Network(false));
    driver.patch(0, &[("n", 1)]);
    assert!(!rests(&driver), "its batch is on its way");
    driver.patch(1, &[("n", 1)]);
    driver.make_held();
    assert!(!rests(&driver), "the second one's is on its way now");
    driver.hooks.holds_commits_back = false;
    driver.make_held();
    assert!(rests(&driver));
}

/// Nothing is left to ask for: no request will reveal that the server is back.
#[test]
fn a_failure_is_forgotten_with_the_last_subscription() {
    let mut server = server(1);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    driver.wait(400_000);
    let (number, _) = driver.sent.take().expect("a request");
    let lost = Refusal::from(Error::new(Code::Timeout, "lost"));
    driver.feed(Event::Replied { number, reply: Err(lost) });
    assert_eq!(driver.machine.status().error.map(|error| error.code()), Some(Code::Timeout));
    assert_eq!(driver.machine.status().phase, Phase::Offline);
    driver.feed(Event::Unsubscribe(Def::class_of(&key(0).0)));
    assert!(driver.machine.status().error.is_none());
    assert_eq!(driver.machine.status().phase, Phase::Live);
}

/// With nothing to send yet: who waits for a token until there is something waits twice.
#[test]
fn a_token_is_asked_for_as_soon_as_avion_ends() {
    let mut driver = Driver::new(TOKEN_ACCOUNT, Mode::Avion, Policy::Overwrite);
    assert_eq!(asked(&mut driver), (0, 0), "nobody is contacted");
    driver.feed(Event::SetMode(Mode::Synced));
    assert_eq!(asked(&mut driver), (1, 0));
}

/// The refusal was in the memory of the session only. After a restart the list was ready until the server answered.
#[test]
fn r94_a_list_that_the_server_refused_is_not_ready_after_a_restart() {
    let mut server = server(2);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    let class = Def::class_of(&name("Doc"));
    let is_ready = |driver: &Driver| driver.machine.list(&class).expect("subscribed").1;
    assert!(is_ready(&driver));
    driver.feed(Event::SetMode(Mode::Avion));
    driver.feed(Event::SetMode(Mode::Synced));
    let (number, request) = driver.sent.take().expect("a pull");
    let mut reply = driver.answer(&mut server, &request);
    let fault = Fault::from(&Error::new(Code::Forbidden, "no right"));
    reply.parts = vec![Part { fault: Some(fault), ..Part::empty(class.clone()) }];
    driver.feed(Event::Replied { number, reply: Ok(reply) });
    assert!(!is_ready(&driver));
    let mut driver = driver.reopen(Mode::Synced, Policy::Overwrite);
    assert!(!is_ready(&driver));
    driver.settle(&mut server);
    assert!(is_ready(&driver), "the server gives it again");
}
