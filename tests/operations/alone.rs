//! One writer meets no conflict: nobody else writes, so no version that a server gives may stand between two of its writes.

use escale::codec::{Data, Fault, OpOk, OpResult, Row, SyncReply};
use escale::journal::Policy;
use escale::model::Value;
use escale::sync::{Effect, Event, Mode};
use escale::{Code, Error};

use super::driver::{Driver, id, server, stored};
use crate::support::schema::key;
use crate::support::server::ModelServer;

/// The server's answer to two writes of document 0, of which the first changed nothing and was given version `v`: by the
/// letter, the document is not of the version that the second one expects.
fn conflict_with_itself(driver: &Driver, server: &mut ModelServer, v: u64) -> SyncReply {
    let (_, request) = driver.sent.as_ref().expect("a request");
    let [idle, second] = &request.ops[..] else { panic!("two operations: {:?}", request.ops) };
    let mut reply = driver.answer(server, &escale::codec::SyncRequest { ops: Vec::new(), ..request.clone() });
    let document = &server.db.docs[&key(0)];
    let mut fault = Fault::new(Code::VersionConflict, "by the letter");
    let data = Some(Data::from_map(&document.data).expect("data"));
    fault.doc = Some(Row { pk: key(0).1, v: document.v, deleted: false, max_life: None, data });
    reply.results = vec![
        OpResult { id: idle.id.clone(), ok: Some(OpOk { v, value: None }), fault: None },
        OpResult { id: second.id.clone(), ok: None, fault: Some(fault) },
    ];
    reply.seq = second.seq;
    server.db.operations.sessions.entry(request.session.clone()).or_default().last = second.seq;
    reply
}

/// Offline, a patch that changes nothing, then `second`; the server gives the first one version `v`.
fn after_a_patch_of_nothing(
    policy: Policy,
    v: u64,
    second: impl Fn(&mut Driver, &str),
) -> (Driver, ModelServer) {
    let mut server = server(1);
    let mut driver = Driver::new(0, Mode::Synced, policy);
    driver.subscribe(&mut server);
    driver.patch(0, &[("a", 1)]);
    driver.settle(&mut server);
    driver.feed(Event::Network(false));
    let idle = driver.patch(0, &[("a", 1)]);
    second(&mut driver, &idle);
    driver.feed(Event::Network(true));
    let reply = conflict_with_itself(&driver, &mut server, v);
    let (number, _) = driver.sent.take().expect("a request");
    driver.feed(Event::Replied { number, reply: Ok(reply) });
    driver.settle(&mut server);
    (driver, server)
}

fn assert_no_conflict(driver: &Driver) {
    let is_lost = |effect: &&Effect| {
        matches!(effect, Effect::Refused { .. } | Effect::Accepted { result: Err(Error { .. }), .. })
    };
    assert_eq!(driver.told.iter().find(is_lost).map(|effect| format!("{effect:?}")), None);
    assert_eq!(driver.machine.status().pending, 0);
}

#[test]
fn a_write_after_one_that_changed_nothing_is_not_lost_whatever_version_that_one_has() {
    for policy in [Policy::Server, Policy::Client, Policy::Merge, Policy::Custom] {
        for v in [0, 9_000_000_000_000] {
            let (driver, server) = after_a_patch_of_nothing(policy, v, |driver, _| {
                driver.patch(0, &[("b", 2)]);
            });
            assert_no_conflict(&driver);
            assert_eq!(stored(&server, 0, "b"), Some(2), "{policy:?} {v}");
            assert_eq!(stored(&server, 0, "a"), Some(1), "patched, not put: {policy:?} {v}");
        }
    }
}

#[test]
fn a_write_that_names_one_that_changed_nothing_is_not_refused() {
    for policy in [Policy::Ask, Policy::Merge] {
        let (driver, server) = after_a_patch_of_nothing(policy, 0, |driver, idle| {
            let set = Value::from([("b", Value::from(3_i64))]);
            let expected = Value::from([("op", Value::from(idle))]);
            let class = ("class", Value::from("Doc"));
            let mut args = Value::from([class, ("key", id(0)), ("set", set)]);
            args.as_map_mut().expect("a map").insert("ifVersion".to_owned(), expected);
            driver.write("doc.patch", args);
        });
        assert_no_conflict(&driver);
        assert_eq!(stored(&server, 0, "b"), Some(3), "{policy:?}");
    }
}

/// A server that contradicts itself does not make the session send the same write for ever.
#[test]
fn a_conflict_with_the_very_version_that_was_expected_is_the_applications_to_settle() {
    for policy in [Policy::Ask, Policy::Client, Policy::Merge] {
        let mut server = server(1);
        let mut driver = Driver::new(0, Mode::Synced, policy);
        driver.subscribe(&mut server);
        let v = server.db.docs[&key(0)].v;
        let set = Value::from([("b", Value::from(3_i64))]);
        let class = ("class", Value::from("Doc"));
        let mut args = Value::from([class, ("key", id(0)), ("set", set)]);
        args.as_map_mut().expect("a map").insert("ifVersion".to_owned(), Value::from(v as i64));
        driver.write("doc.patch", args);
        let (number, request) = driver.sent.take().expect("a request");
        let mut reply =
            driver.answer(&mut server, &escale::codec::SyncRequest { ops: Vec::new(), ..request.clone() });
        let mut fault = Fault::new(Code::VersionConflict, "by mistake");
        let data = Some(Data::from_map(&server.db.docs[&key(0)].data).expect("data"));
        fault.doc = Some(Row { pk: key(0).1, v, deleted: false, max_life: None, data });
        reply.results = vec![OpResult { id: request.ops[0].id.clone(), ok: None, fault: Some(fault) }];
        reply.seq = 1;
        driver.feed(Event::Replied { number, reply: Ok(reply) });
        assert!(driver.first_refused().is_some(), "{policy:?}");
    }
}
