//! Conflicts: each policy, and chains of offline edits.

use std::collections::BTreeSet;

use escale::Code;
use escale::journal::Policy;
use escale::model::Value;
use escale::sync::{Effect, Event, Mode};

use crate::driver::{Driver, id, put, server, stored};
use escale_testkit::schema::data;
use escale_testkit::server::ModelServer;

/// Somebody else writes `theirs` while this client, offline, writes twice to the same document.
fn conflict(policy: Policy) -> (Driver, ModelServer) {
    let mut server = server(1);
    let mut base = data(0, None, 0, 0);
    base.extend([("a".to_owned(), Value::from(1_i64)), ("b".to_owned(), Value::from(1_i64))]);
    put(&mut server, 0, base.clone());
    let mut driver = Driver::new(0, Mode::Synced, policy);
    driver.subscribe(&mut server);
    driver.feed(Event::Network(false));
    driver.patch(0, &[("a", 2)]);
    driver.patch(0, &[("b", 2)]);
    base.insert("theirs".to_owned(), Value::from(9_i64));
    base.insert("a".to_owned(), Value::from(7_i64));
    put(&mut server, 0, base);
    driver.feed(Event::Network(true));
    driver.settle(&mut server);
    (driver, server)
}

fn values(server: &ModelServer) -> [Option<i64>; 3] {
    ["a", "b", "theirs"].map(|property| stored(server, 0, property))
}

#[test]
fn without_a_policy_operations_are_applied_to_what_is_there() {
    let (driver, server) = conflict(Policy::Overwrite);
    assert_eq!(values(&server), [Some(2), Some(2), Some(9)]);
    assert!(driver.machine.operations().is_empty());
}

#[test]
fn the_server_wins() {
    let (mut driver, server) = conflict(Policy::Server);
    assert_eq!(values(&server), [Some(7), Some(1), Some(9)]);
    assert_eq!([driver.seen(0, "a"), driver.seen(0, "b")], [Some(7), Some(1)]);
    let given_up = driver.hooks.told.iter().filter(
        |effect| matches!(effect, Effect::Accepted { result: Err(error), .. } if error.code() == Code::VersionConflict),
    );
    assert_eq!(given_up.count(), 2, "what stood on what was given up is given up");
}

#[test]
fn the_client_wins() {
    let (driver, server) = conflict(Policy::Client);
    assert_eq!(values(&server), [Some(2), Some(2), None]);
    assert!(driver.hooks.told.iter().any(|effect| matches!(effect, Effect::Amended { .. })));
}

#[test]
fn properties_are_merged() {
    let (mut driver, server) = conflict(Policy::Merge);
    assert_eq!(values(&server), [Some(2), Some(2), Some(9)]);
    assert_eq!(
        [driver.seen(0, "a"), driver.seen(0, "b"), driver.seen(0, "theirs")],
        [Some(2), Some(2), Some(9)]
    );
}

#[test]
fn the_application_settles() {
    let (_, server) = conflict(Policy::Custom);
    assert_eq!(values(&server), [Some(2), Some(2), Some(9)]);
}

/// Two offline edits of one document do not conflict with each other.
#[test]
fn a_chain_does_not_conflict_with_itself() {
    for policy in [Policy::Server, Policy::Client, Policy::Merge, Policy::Custom] {
        let mut server = server(1);
        let mut driver = Driver::new(0, Mode::Synced, policy);
        driver.subscribe(&mut server);
        driver.feed(Event::Network(false));
        for n in 0..5 {
            driver.patch(0, &[("a", n), ("b", -n)]);
        }
        let mut driver = driver.reopen(Mode::Synced, policy);
        driver.settle(&mut server);
        assert_eq!((stored(&server, 0, "a"), stored(&server, 0, "b")), (Some(4), Some(-4)), "{policy:?}");
        assert!(
            !driver.hooks.told.iter().any(|e| matches!(e, Effect::Amended { .. } | Effect::Refused { .. }))
        );
    }
}

/// A batch of patches, one for each of these documents.
fn batch(driver: &mut Driver, patches: &[(usize, &str, i64)]) -> String {
    let patch = |(number, property, n): &(usize, &str, i64)| {
        let set = Value::from([(*property, Value::from(*n))]);
        let args = Value::from([("class", "Doc".into()), ("key", id(*number)), ("set", set)]);
        Value::from([("name", "doc.patch".into()), ("args", args)])
    };
    driver.write("batch", Value::from([("ops", Value::Array(patches.iter().map(patch).collect()))]))
}

/// Somebody else writes to some documents of a batch made offline, between two edits of one of them.
fn conflict_of_a_batch(policy: Policy, theirs: &[usize]) -> (Driver, ModelServer) {
    let mut server = server(3);
    let mut driver = Driver::new(0, Mode::Synced, policy);
    driver.subscribe(&mut server);
    driver.feed(Event::Network(false));
    driver.patch(0, &[("before", 1)]);
    batch(&mut driver, &[(0, "a", 2), (1, "a", 2), (0, "c", 3)]);
    driver.patch(1, &[("b", 4)]);
    driver.patch(2, &[("b", 5)]);
    for number in theirs {
        let mut written = data(*number, None, 0, 0);
        written.insert("theirs".to_owned(), Value::from(9_i64));
        put(&mut server, *number, written);
    }
    // The dependencies on versions are stored.
    let mut driver = driver.reopen(Mode::Synced, policy);
    driver.settle(&mut server);
    assert!(driver.machine.operations().is_empty(), "{policy:?}");
    assert_eq!(stored(&server, 2, "b"), Some(5), "what stands on nothing of it goes on");
    for number in 0..3 {
        for property in ["before", "a", "b", "c", "theirs"] {
            let (seen, stored) = (driver.seen(number, property), stored(&server, number, property));
            assert_eq!(seen, stored, "{policy:?}: {property} of {number}");
        }
    }
    (driver, server)
}

/// Each document of a batch is resolved by its class's policy, whichever of them conflict. The batch stays
/// one batch.
#[test]
fn conflicts_of_a_batch_are_settled() {
    for theirs in [&[0][..], &[1], &[0, 1]] {
        for policy in [Policy::Client, Policy::Merge, Policy::Custom] {
            let (driver, server) = conflict_of_a_batch(policy, theirs);
            let of = |property| [stored(&server, 0, property), stored(&server, 1, property)];
            assert_eq!(of("before"), [Some(1), None], "{policy:?}");
            assert_eq!(of("a"), [Some(2), Some(2)], "{policy:?}");
            assert_eq!([of("c")[0], of("b")[1]], [Some(3), Some(4)], "{policy:?}");
            let kept = |number| (policy != Policy::Client && theirs.contains(&number)).then_some(9);
            assert_eq!(of("theirs"), [kept(0), kept(1)], "{policy:?}");
            assert!(driver.hooks.told.iter().any(|effect| matches!(effect, Effect::Amended { .. })));
        }
    }
}

/// The answer to a batch has one conflict. The batch that takes its place meets the other one, and keeps the state
/// that it was made on.
#[test]
fn a_batch_that_conflicts_with_two_documents_is_settled_on_both() {
    for policy in [Policy::Client, Policy::Merge, Policy::Custom] {
        let mut server = server(2);
        let mut driver = Driver::new(0, Mode::Synced, policy);
        driver.subscribe(&mut server);
        driver.feed(Event::Network(false));
        batch(&mut driver, &[(0, "a", 2), (1, "a", 2)]);
        for number in 0..2 {
            let mut theirs = data(number, None, 0, 0);
            theirs.insert("theirs".to_owned(), Value::from(9_i64));
            put(&mut server, number, theirs);
        }
        driver.feed(Event::Network(true));
        driver.settle(&mut server);
        assert!(driver.machine.operations().is_empty(), "{policy:?}");
        let amended = driver.hooks.told.iter().filter(|effect| matches!(effect, Effect::Amended { .. }));
        assert_eq!(amended.count(), 2, "{policy:?}");
        let kept = (policy != Policy::Client).then_some(9);
        for number in 0..2 {
            let of = ["a", "theirs"].map(|property| stored(&server, number, property));
            assert_eq!(of, [Some(2), kept], "{policy:?}: {number}");
        }
    }
}

/// A batch is all or nothing: if the server's document stays, the whole batch is dropped, with the operations
/// that depend on it.
#[test]
fn a_batch_is_given_up_whole() {
    let (driver, server) = conflict_of_a_batch(Policy::Server, &[1]);
    let of = |property| [stored(&server, 0, property), stored(&server, 1, property)];
    assert_eq!([of("before"), of("a")], [[Some(1), None], [None, None]]);
    assert_eq!((of("b")[1], of("c")[0], of("theirs")[1]), (None, None, Some(9)));
    let given_up = |effect: &&Effect| matches!(effect, Effect::Accepted { result: Err(error), .. } if error.code() == Code::VersionConflict);
    assert_eq!(driver.hooks.told.iter().filter(given_up).count(), 2);
}

/// A document that both sides deleted leaves the batch; the rest of the batch is executed.
#[test]
fn a_batch_goes_on_without_what_both_sides_deleted() {
    let mut server = server(2);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Merge);
    driver.subscribe(&mut server);
    driver.feed(Event::Network(false));
    let delete = |number| {
        let args = Value::from([("class", "Doc".into()), ("key", id(number))]);
        Value::from([("name", "doc.delete".into()), ("args", args)])
    };
    driver.write("batch", Value::from([("ops", Value::Array(vec![delete(0), delete(1)]))]));
    let v = server.db.highest + 1;
    server.db.write(v, &[escale_testkit::server::Write::Delete(escale_testkit::schema::key(0))]);
    driver.feed(Event::Network(true));
    driver.settle(&mut server);
    assert!(driver.machine.operations().is_empty());
    assert!(server.db.docs.values().all(|stored| stored.deleted));
}

/// A long chain of edits of one document is dropped in one step. Earlier it took one round trip for each
/// edit.
#[test]
fn a_long_chain_is_given_up_at_once() {
    const EDITS: usize = 1_000;
    let mut server = server(2);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Server);
    driver.subscribe(&mut server);
    driver.feed(Event::Network(false));
    let chain: BTreeSet<String> = (0..EDITS).map(|n| driver.patch(0, &[("a", n as i64)])).collect();
    driver.patch(1, &[("a", 1)]);
    let mut theirs = data(0, None, 0, 0);
    theirs.insert("theirs".to_owned(), Value::from(9_i64));
    put(&mut server, 0, theirs);
    let before = driver.hooks.requests;
    driver.feed(Event::Network(true));
    driver.settle(&mut server);
    let trips = driver.hooks.requests - before;
    println!("{EDITS} edits of one document, one conflict, policy server: {trips} round trips");
    assert!(driver.machine.operations().is_empty());
    assert_eq!((stored(&server, 0, "a"), stored(&server, 1, "a")), (None, Some(1)));
    let told = driver.hooks.told.iter().filter_map(|effect| match effect {
        Effect::Accepted { id, result: Err(error) } if error.code() == Code::VersionConflict => {
            Some(id.clone())
        }
        _ => None,
    });
    assert_eq!(told.collect::<BTreeSet<_>>(), chain, "each is told");
    assert!(trips <= 3, "{trips} round trips");
    // None of it comes back.
    let driver = driver.reopen(Mode::Avion, Policy::Server);
    assert!(driver.machine.operations().is_empty());
}

/// An amended operation conflicts: the operations that depended on the refused one depend on it, once each.
#[test]
fn what_stands_on_an_amended_operation_is_given_up_with_it() {
    let mut server = server(1);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Server);
    driver.subscribe(&mut server);
    driver.feed(Event::Network(false));
    let poisoned = driver.patch(0, &[("a", 1), ("poison", 1)]);
    driver.patch(0, &[("a", 2)]);
    driver.patch(0, &[("a", 3)]);
    driver.feed(Event::Network(true));
    driver.settle(&mut server);
    let args = driver.without_poison(&poisoned);
    let mut theirs = data(0, None, 0, 0);
    theirs.insert("theirs".to_owned(), Value::from(9_i64));
    put(&mut server, 0, theirs);
    driver.feed(Event::Amend { id: poisoned, new: "amended".into(), args: Some(args) });
    driver.settle(&mut server);
    assert!(driver.machine.operations().is_empty());
    assert_eq!(values(&server), [None, None, Some(9)]);
    let given_up =
        driver.hooks.told.iter().filter(|effect| matches!(effect, Effect::Accepted { result: Err(_), .. }));
    assert_eq!(given_up.count(), 3, "each is told once");
}

/// An operation that expects no version of its document is not part of a dropped chain.
#[test]
fn what_expects_no_version_outlives_the_chain_before_it() {
    let mut server = server(1);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Server);
    driver.subscribe(&mut server);
    driver.feed(Event::Network(false));
    driver.patch(0, &[("a", 1)]);
    driver.patch(0, &[("a", 2)]);
    let added = driver.add(0, 5);
    let on_it = driver.patch(0, &[("b", 3)]);
    let mut theirs = data(0, None, 0, 0);
    theirs.insert("theirs".to_owned(), Value::from(9_i64));
    put(&mut server, 0, theirs);
    driver.feed(Event::Network(true));
    driver.settle(&mut server);
    let executed: Vec<&str> = server.db.operations.executed.iter().map(|(_, id)| id.as_str()).collect();
    assert_eq!(executed, [added.as_str(), on_it.as_str()]);
    assert_eq!(values(&server), [None, Some(3), Some(9)]);
    assert!(driver.machine.operations().is_empty());
}

/// R12: operations that depend on a refused one wait for it, and others proceed. The amended operation is
/// executed before those that waited.
#[test]
fn r12_a_refused_operation_holds_what_depends_on_it_only() {
    let mut server = server(3);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    driver.feed(Event::Network(false));
    let poisoned = driver.patch(0, &[("n", 1), ("poison", 1)]);
    let behind = driver.patch(0, &[("n", 2)]);
    let other = driver.patch(1, &[("n", 3)]);
    driver.feed(Event::Network(true));
    driver.settle(&mut server);
    let ids = |driver: &Driver| -> Vec<(String, bool)> {
        driver.machine.operations().into_iter().map(|(op, held)| (op.state.issued.id.clone(), held)).collect()
    };
    assert_eq!(ids(&driver), [(poisoned.clone(), false), (behind.clone(), true)]);
    assert_eq!((stored(&server, 0, "n"), stored(&server, 1, "n")), (None, Some(3)));
    // None of that is lost with the process.
    let mut driver = driver.reopen(Mode::Synced, Policy::Overwrite);
    driver.settle(&mut server);
    assert_eq!(ids(&driver), [(poisoned.clone(), false), (behind.clone(), true)]);
    let args = driver.without_poison(&poisoned);
    driver.feed(Event::Amend { id: poisoned, new: "amended".into(), args: Some(args) });
    driver.settle(&mut server);
    assert!(ids(&driver).is_empty());
    assert_eq!(stored(&server, 0, "n"), Some(2));
    let executed: Vec<&str> = server.db.operations.executed.iter().map(|(_, id)| id.as_str()).collect();
    assert_eq!(executed, [other.as_str(), "amended", behind.as_str()]);
}

/// Invalid arguments leave the refused operation unchanged.
#[test]
fn an_amendment_that_cannot_be_changes_nothing() {
    let mut server = server(1);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    let id = driver.patch(0, &[("poison", 1)]);
    driver.settle(&mut server);
    driver.feed(Event::Amend { id: id.clone(), new: "new".into(), args: Some(escale::model::Value::Null) });
    assert!(driver.machine.refused_op(&id).is_ok());
    driver.feed(Event::Discard(id));
    assert!(driver.machine.operations().is_empty());
}

/// The intended result of a patch is unknown if this client does not hold the document. Such a document was
/// once deleted, under the policies `client` and `merge`.
#[test]
fn a_patch_of_what_is_not_held_deletes_nothing() {
    for policy in [Policy::Server, Policy::Client, Policy::Merge, Policy::Custom] {
        let mut server = server(1);
        let n = stored(&server, 0, "n");
        let mut driver = Driver::new(0, Mode::Synced, policy);
        driver.patch(0, &[("a", 2)]);
        driver.settle(&mut server);
        assert!(server.db.docs.values().all(|stored| !stored.deleted), "{policy:?}");
        assert_eq!((stored(&server, 0, "n"), stored(&server, 0, "a")), (n, None), "{policy:?}");
        let refused = driver.machine.operations().iter().filter(|(op, _)| op.state.refused.is_some()).count();
        assert_eq!(refused, usize::from(policy != Policy::Server), "{policy:?}");
    }
}

/// A resolved document that no server would accept is left to the application. Nothing is lost, and openings
/// do not fail.
#[test]
fn a_settlement_that_cannot_be_issued_is_left_to_the_application() {
    let mut server = server(1);
    let mut base = data(0, None, 0, 0);
    base.insert("not_a_name".to_owned(), Value::from(1_i64));
    put(&mut server, 0, base.clone());
    let mut driver = Driver::new(0, Mode::Synced, Policy::Merge);
    driver.subscribe(&mut server);
    driver.feed(Event::Network(false));
    let id = driver.patch(0, &[("a", 2)]);
    base.insert("theirs".to_owned(), Value::from(9_i64));
    put(&mut server, 0, base);
    driver.feed(Event::Network(true));
    driver.settle(&mut server);
    assert!(driver.machine.refused_op(&id).is_ok(), "parked");
    let mut driver = driver.reopen(Mode::Synced, Policy::Merge);
    driver.settle(&mut server);
    assert!(driver.machine.refused_op(&id).is_ok());
}

/// A saved operation stays stored until its replacement is stored.
#[test]
fn r10_what_takes_a_refused_operations_place_leaves_no_moment_without_a_record() {
    let mut server = server(1);
    put(&mut server, 0, data(0, None, 0, 0));
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    let id = driver.patch(0, &[("poison", 1)]);
    driver.settle(&mut server);
    // The documents that it is based on are stored, and reading them takes time.
    let mut driver = driver.reopen(Mode::Synced, Policy::Overwrite);
    driver.settle(&mut server);
    driver.hooks.holds_pages_back = true;
    let args = driver.without_poison(&id);
    driver.feed(Event::Amend { id, new: "amended".into(), args: Some(args) });
    let driver = driver.reopen(Mode::Synced, Policy::Overwrite);
    assert_eq!(driver.machine.operations().len(), 1, "one of them is at rest, whenever the process ends");
}
