//! R92 by example: the first write of a chain meets the work of others, and so does each one after it.

use escale::journal::{Change, Policy, Settlement, State};
use escale::model::{Name, Value};
use escale::store::MemoryDevice;
use escale::sync::{Application, Event, Mode, Reader};
use escale::{Code, Error, Result};
use escale_testkit::schema::key;

use escale_testkit::server::{ModelServer, Write as ServerWrite};
use escale_testkit::world::writes::Counters;

use super::random_chains::{Calls, document};
use crate::driver::{Driver, NOW, id, put, server, stored};

/// A session that is offline, with one document: nobody has filled in its three properties.
fn offline(policy: Policy) -> (ModelServer, Driver, Calls) {
    let mut server = server(0);
    put(&mut server, 0, document(0, &[("label", 0), ("note", 0), ("result", 0)]));
    let calls = Calls::default();
    let application = Box::new(Joining { policy, calls: calls.clone() });
    let mut driver = Driver::with(0, Mode::Synced, application, MemoryDevice::new(), NOW);
    driver.subscribe(&mut server);
    driver.feed(Event::Network(false));
    (server, driver, calls)
}

/// An application whose function takes the filled properties of both sides.
struct Joining {
    policy: Policy,
    calls: Calls,
}

impl Application for Joining {
    fn optimistic(&self, name: &str, args: &Value, read: &mut Reader<'_>) -> Option<Result<Vec<Change>>> {
        Counters { policy: self.policy }.optimistic(name, args, read)
    }

    fn policy(&self, _: &Name) -> Policy {
        self.policy
    }

    fn settle(
        &self,
        _: &Name,
        base: Option<&State>,
        mine: Option<&State>,
        theirs: Option<&State>,
    ) -> Result<Settlement> {
        self.calls.borrow_mut().push((base.cloned(), mine.cloned(), theirs.cloned()));
        let (Some(mine), Some(theirs)) = (mine, theirs) else {
            return mine.map_or(Ok(Settlement::Theirs), |mine| Ok(Settlement::Put(mine.clone())));
        };
        if mine.contains_key("throws") {
            return Err(Error::new(Code::Internal, "the application throws"));
        }
        let is_filled = |value: &Value| value.as_f64() != Some(0.0);
        let mut both = theirs.clone();
        both.extend(mine.clone().into_iter().filter(|(_, value)| is_filled(value)));
        Ok(Settlement::Put(both))
    }
}

/// The form is saved: the whole document, as it is shown, with one change.
fn save(driver: &mut Driver, property: &str, n: i64) -> String {
    let mut data = driver.seen_whole(0).expect("a document");
    data.insert(property.to_owned(), Value::from(n));
    let args = Value::from([("class", Value::from("Doc")), ("data", Value::Map(data))]);
    driver.write("doc.put", args)
}

/// Somebody else fills in `note` and `result`, then the session comes back.
fn meet(driver: &mut Driver, server: &mut ModelServer) {
    put(server, 0, document(0, &[("label", 0), ("note", 7), ("result", 8)]));
    driver.feed(Event::Network(true));
    driver.settle(server);
}

fn form(server: &ModelServer) -> [Option<i64>; 3] {
    ["label", "note", "result"].map(|property| stored(server, 0, property))
}

const BOTH: [Option<i64>; 3] = [Some(2), Some(7), Some(8)];

#[test]
fn r92_a_form_that_is_saved_twice_keeps_what_others_wrote() {
    for policy in [Policy::Merge, Policy::Custom] {
        let (mut server, mut driver, _) = offline(policy);
        save(&mut driver, "label", 1);
        save(&mut driver, "label", 2);
        meet(&mut driver, &mut server);
        assert_eq!(form(&server), BOTH, "{policy:?}");
        assert!(driver.machine.operations().is_empty());
    }
}

#[test]
fn r92_a_put_after_a_patch_keeps_what_others_wrote() {
    for policy in [Policy::Merge, Policy::Custom] {
        let (mut server, mut driver, _) = offline(policy);
        driver.patch(0, &[("label", 1)]);
        save(&mut driver, "label", 2);
        meet(&mut driver, &mut server);
        assert_eq!(form(&server), BOTH, "{policy:?}");
    }
}

/// The second patch sets a property to the value that it has on this device: it changes nothing there.
#[test]
fn r92_a_patch_after_a_put_keeps_what_others_wrote() {
    for policy in [Policy::Merge, Policy::Custom] {
        let (mut server, mut driver, _) = offline(policy);
        save(&mut driver, "label", 1);
        driver.patch(0, &[("label", 2), ("note", 0)]);
        meet(&mut driver, &mut server);
        assert_eq!(form(&server), BOTH, "{policy:?}");
    }
}

/// The user deletes the document, and takes that back.
#[test]
fn r92_a_put_that_takes_a_deletion_back_keeps_what_others_wrote() {
    let (mut server, mut driver, _) = offline(Policy::Merge);
    let mut data = driver.seen_whole(0).expect("a document");
    driver.write("doc.delete", Value::from([("class", Value::from("Doc")), ("key", id(0))]));
    data.insert("label".to_owned(), Value::from(2_i64));
    driver.write("doc.put", Value::from([("class", Value::from("Doc")), ("data", Value::Map(data))]));
    meet(&mut driver, &mut server);
    assert_eq!(form(&server), BOTH);
}

#[test]
fn r92_a_function_is_called_once_for_each_write_in_order() {
    let (mut server, mut driver, calls) = offline(Policy::Custom);
    let states = |label| document(0, &[("label", label), ("note", 0), ("result", 0)]);
    save(&mut driver, "label", 1);
    driver.patch(0, &[("label", 3)]);
    save(&mut driver, "label", 2);
    meet(&mut driver, &mut server);
    assert_eq!(form(&server), BOTH);
    let theirs = |label| Some(document(0, &[("label", label), ("note", 7), ("result", 8)]));
    let expected = [(0, 1, 0), (1, 3, 1), (3, 2, 3)];
    let expected = expected.map(|(base, mine, on)| (Some(states(base)), Some(states(mine)), theirs(on)));
    assert_eq!(*calls.borrow(), expected);
}

/// The server refuses the first write, and does not execute the second one, which names it.
#[test]
fn r92_the_write_that_is_held_behind_a_conflict_is_not_sent_as_it_was() {
    let (mut server, mut driver, _) = offline(Policy::Merge);
    save(&mut driver, "label", 1);
    save(&mut driver, "label", 2);
    put(&mut server, 0, document(0, &[("label", 0), ("note", 7), ("result", 8)]));
    driver.feed(Event::Network(true));
    let (number, request) = driver.sent.take().expect("a request");
    let reply = driver.answer(&mut server, &request);
    let codes = reply.results.iter().map(|result| result.fault.as_ref().expect("a fault").code.clone());
    assert_eq!(codes.collect::<Vec<_>>(), ["version_conflict", "order_held"]);
    driver.feed(Event::Replied { number, reply: Ok(reply) });
    // The process ends with the amended writes at rest.
    let mut driver = driver.reopen(Mode::Synced, Policy::Merge);
    driver.settle(&mut server);
    assert_eq!(form(&server), BOTH);
}

/// Somebody deletes the document, and makes it again before the write that brings it back arrives. Seed 62546 of the simulator
/// found it, with a server that was restored.
#[test]
fn r92_a_write_that_brings_a_document_back_changes_no_more_of_it() {
    for writes in 1..3 {
        let (mut server, mut driver, _) = offline(Policy::Merge);
        for label in 1..=writes {
            driver.patch(0, &[("label", if label == writes { 2 } else { 1 })]);
        }
        let v = server.db.highest + 1;
        server.db.write(v, &[ServerWrite::Delete(key(0))]);
        driver.feed(Event::Network(true));
        let (number, request) = driver.sent.take().expect("a request");
        let reply = driver.answer(&mut server, &request);
        driver.feed(Event::Replied { number, reply: Ok(reply) });
        put(&mut server, 0, document(0, &[("label", 0), ("note", 7), ("result", 8)]));
        driver.settle(&mut server);
        assert_eq!(form(&server), BOTH, "{writes} writes");
        assert!(driver.machine.operations().is_empty());
    }
}

/// The first write was executed and its answer lost: the second one begins the chain.
#[test]
fn r92_a_chain_goes_on_from_the_part_that_was_executed() {
    let (mut server, mut driver, _) = offline(Policy::Merge);
    save(&mut driver, "label", 1);
    driver.feed(Event::Network(true));
    let (_, request) = driver.sent.take().expect("a request");
    driver.answer(&mut server, &request);
    driver.feed(Event::Network(false));
    save(&mut driver, "label", 3);
    save(&mut driver, "label", 2);
    put(&mut server, 0, document(0, &[("label", 1), ("note", 7), ("result", 8)]));
    let mut driver = driver.reopen(Mode::Synced, Policy::Merge);
    driver.settle(&mut server);
    assert_eq!(form(&server), BOTH);
}

/// Somebody deletes the document that was changed here: it is restored whole.
#[test]
fn r92_a_chain_on_a_deleted_document_restores_it_whole() {
    let (mut server, mut driver, _) = offline(Policy::Merge);
    driver.patch(0, &[("note", 5)]);
    driver.patch(0, &[("label", 2)]);
    let v = server.db.highest + 1;
    server.db.write(v, &[escale_testkit::server::Write::Delete(key(0))]);
    driver.feed(Event::Network(true));
    driver.settle(&mut server);
    assert_eq!(form(&server), [Some(2), Some(5), Some(0)]);
}

/// The application made the second write depend on the first one. The policy changes the result of the first one, which
/// the application has not seen: it decides.
#[test]
fn r92_a_write_that_names_a_merged_one_is_refused() {
    for is_mixed in [false, true] {
        let (mut server, mut driver, _) = offline(Policy::Merge);
        let first = save(&mut driver, "label", 1);
        let mut data = driver.seen_whole(0).expect("a document");
        data.insert("label".to_owned(), Value::from(2_i64));
        let named = Value::from([("op", Value::from(first.as_str()))]);
        let args = [("class", "Doc".into()), ("data", Value::Map(data)), ("ifVersion", named)];
        let part = |name: &str, args| Value::from([("name", Value::from(name)), ("args", args)]);
        let other = [("class", "Doc".into()), ("key", id(1)), ("property", "n".into()), ("by", 1_i64.into())];
        put(&mut server, 1, document(1, &[]));
        let ops =
            Value::Array(vec![part("doc.put", Value::from(args.clone())), part("blind", Value::from(other))]);
        let second = if is_mixed {
            driver.write("batch", Value::from([("ops", ops)]))
        } else {
            driver.write("doc.put", Value::from(args))
        };
        meet(&mut driver, &mut server);
        assert_eq!(form(&server), [Some(1), Some(7), Some(8)]);
        let fault = driver.machine.refused_op(&second).expect("refused").state.refused.clone().expect("why");
        assert_eq!(fault.code, Code::VersionConflict.as_str());
        assert!(fault.doc.is_some(), "with the document of the server");
    }
}

/// An operation of the application is executed on any document: the write after it has not seen that one.
#[test]
fn r92_a_put_after_an_operation_of_the_application_keeps_what_others_wrote() {
    let (mut server, mut driver, _) = offline(Policy::Merge);
    driver.add(0, 5);
    save(&mut driver, "label", 2);
    meet(&mut driver, &mut server);
    assert_eq!((form(&server), stored(&server, 0, "n")), (BOTH, Some(5)));
    // Nobody else writes: there is no conflict.
    driver.feed(Event::Network(false));
    driver.add(0, 5);
    save(&mut driver, "label", 4);
    driver.feed(Event::Network(true));
    driver.settle(&mut server);
    assert_eq!((stored(&server, 0, "label"), stored(&server, 0, "n")), (Some(4), Some(10)));
}

/// The application resolves a conflict itself. The next write has not seen the document that it then expects.
#[test]
fn r92_a_put_after_an_amended_write_keeps_what_others_wrote() {
    for expects in [false, true] {
        let (mut server, mut driver, _) = offline(Policy::Custom);
        let first = save(&mut driver, "throws", 1);
        save(&mut driver, "label", 2);
        meet(&mut driver, &mut server);
        let fault = driver.machine.refused_op(&first).expect("the function throws").state.refused.clone();
        let theirs = fault.expect("why").doc.expect("the document");
        let data = theirs.data.expect("data").to_map().expect("a map");
        let mut args = Value::from([("class", Value::from("Doc")), ("data", Value::Map(data))]);
        if expects {
            let v = Value::from(theirs.v as i64);
            args.as_map_mut().expect("a map").insert("ifVersion".to_owned(), v);
        }
        driver.feed(Event::Amend { id: first, new: "amended".into(), args: Some(args) });
        driver.settle(&mut server);
        // The function throws for the second one, too.
        assert_eq!(form(&server), [Some(0), Some(7), Some(8)]);
        let second = driver.first_refused().expect("the application decides");
        let fault = driver.machine.refused_op(&second).expect("refused").state.refused.clone().expect("why");
        assert!(fault.doc.is_some(), "with the document of the server");
    }
}

/// The function throws. The application decides by the document that it is shown, and the function has no say in that.
#[test]
fn r92_a_retry_after_a_function_that_failed_replaces_what_was_shown() {
    let (mut server, mut driver, calls) = offline(Policy::Custom);
    let first = save(&mut driver, "throws", 1);
    meet(&mut driver, &mut server);
    assert_eq!(calls.borrow().len(), 1);
    // Somebody writes once more before the application decides, and nobody has seen that.
    put(&mut server, 0, document(0, &[("label", 0), ("note", 7), ("result", 9)]));
    driver.feed(Event::Amend { id: first, new: "again".into(), args: None });
    driver.settle(&mut server);
    assert_eq!((form(&server), calls.borrow().len()), ([Some(0), Some(7), Some(9)], 2));
    let again = driver.first_refused().expect("the application decides once more");
    driver.feed(Event::Amend { id: again, new: "last".into(), args: None });
    driver.settle(&mut server);
    assert_eq!((stored(&server, 0, "throws"), calls.borrow().len()), (Some(1), 2));
    assert!(driver.first_refused().is_none());
}

/// The function throws for the second write alone: it is parked, and not executed as it was.
#[test]
fn r92_a_write_that_cannot_be_rebased_is_left_to_the_application() {
    let (mut server, mut driver, _) = offline(Policy::Custom);
    save(&mut driver, "label", 2);
    let second = save(&mut driver, "throws", 1);
    save(&mut driver, "note", 9);
    meet(&mut driver, &mut server);
    assert_eq!(form(&server), BOTH);
    assert!(
        driver
            .machine
            .refused_op(&second)
            .expect("parked")
            .state
            .refused
            .as_ref()
            .expect("why")
            .doc
            .is_some()
    );
}

/// An application whose function leaves its first write, and joins all others with the documents of others.
struct Leaving;

impl Application for Leaving {
    fn optimistic(&self, _: &str, _: &Value, _: &mut Reader<'_>) -> Option<Result<Vec<Change>>> {
        None
    }

    fn policy(&self, _: &Name) -> Policy {
        Policy::Custom
    }

    fn settle(
        &self,
        _: &Name,
        _: Option<&State>,
        mine: Option<&State>,
        theirs: Option<&State>,
    ) -> Result<Settlement> {
        Ok(match mine {
            None => Settlement::Delete,
            Some(mine) if mine.contains_key("first") => Settlement::Theirs,
            Some(mine) => {
                Settlement::Put(theirs.cloned().into_iter().flatten().chain(mine.clone()).collect())
            }
        })
    }
}

/// A batch deleted two documents that nobody has any more, so nothing of it was left. The write on top of it lost the
/// version that it expected: it was executed on any document, and erased the work of others.
#[test]
fn r92_a_write_after_a_batch_of_which_nothing_is_left_keeps_what_others_wrote() {
    let mut server = server(1);
    let mut driver = Driver::with(0, Mode::Synced, Box::new(Leaving), MemoryDevice::new(), NOW);
    driver.subscribe(&mut server);
    driver.feed(Event::Network(false));
    let part = |name: &str, args: Value| Value::from([("name", Value::from(name)), ("args", args)]);
    let save = |doc: usize, property: &str| {
        let data = document(doc, &[(property, 1)]);
        Value::from([("class", Value::from("Doc")), ("data", Value::Map(data))])
    };
    let delete = |doc: usize| Value::from([("class", Value::from("Doc")), ("key", id(doc))]);
    let first = vec![part("doc.put", save(0, "first")), part("doc.put", save(1, "first"))];
    driver.write("batch", Value::from([("ops", Value::Array(first))]));
    let both = vec![part("doc.delete", delete(0)), part("doc.delete", delete(1))];
    driver.write("batch", Value::from([("ops", Value::Array(both))]));
    driver.write("doc.put", save(1, "mine"));
    let v = server.db.highest + 1;
    server.db.write(v, &[escale_testkit::server::Write::Delete(key(0))]);
    put(&mut server, 1, document(1, &[("theirs", 1)]));
    driver.feed(Event::Network(true));
    driver.settle(&mut server);
    assert_eq!(["mine", "theirs"].map(|property| stored(&server, 1, property)), [Some(1), Some(1)]);
}
