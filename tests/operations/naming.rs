//! Versions that operations name by the operations that give them (`ifVersion: {op}`), on other documents and
//! in batches with application-defined operations. What happens if those operations are refused, amended or
//! discarded?

use escale::Code;
use escale::crypto::SeededRandom;
use escale::journal::Policy;
use escale::model::Value;
use escale::sync::{Event, Mode, Write};

use super::driver::{Driver, doc_key, id, put, server, stored};
use escale_testkit::schema::data;
use escale_testkit::seeds;
use escale_testkit::server::ModelServer;

const DOCUMENTS: usize = 4;

/// An operation within a batch.
fn part(name: &str, args: Value) -> Value {
    Value::from([("name", Value::from(name)), ("args", args)])
}

fn batch(parts: Vec<Value>) -> Value {
    Value::from([("ops", Value::Array(parts))])
}

fn counting(number: usize) -> Value {
    Value::from([
        ("class", "Doc".into()),
        ("key", id(number)),
        ("property", "n".into()),
        ("by", Value::from(1_i64)),
    ])
}

/// A patch that expects the version given by an operation, if one is named.
fn patch(number: usize, property: &str, expected: Option<&str>) -> Value {
    let set = Value::from([(property, Value::from(5_i64))]);
    let mut args = vec![("class", "Doc".into()), ("key", id(number)), ("set", set)];
    args.extend(expected.map(|of| ("ifVersion", Value::from([("op", Value::from(of))]))));
    Value::Map(args.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// A session that is offline, with that many documents.
fn offline(policy: Policy) -> (ModelServer, Driver) {
    let mut server = server(DOCUMENTS);
    let mut driver = Driver::new(0, Mode::Synced, policy);
    driver.subscribe(&mut server);
    driver.feed(Event::Network(false));
    (server, driver)
}

fn online(driver: &mut Driver, server: &mut ModelServer) {
    driver.feed(Event::Network(true));
    driver.settle(server);
}

/// A batch with an application-defined operation once waited for ever for a version that no operation gives.
/// It stopped the session: operations issued after it were never sent.
#[test]
fn r12_a_version_that_nothing_gives_ends_as_a_refusal() {
    let (mut server, mut driver) = offline(Policy::Overwrite);
    let parts = vec![part("doc.patch", patch(0, "a", Some("nobody"))), part("add", counting(1))];
    let stuck = driver.write("batch", batch(parts));
    driver.patch(2, &[("n", 7)]);
    online(&mut driver, &mut server);
    assert_eq!(stored(&server, 2, "n"), Some(7), "what does not depend on it goes on");
    assert_eq!(driver.first_refused(), Some(stuck));
}

/// The same if it names itself, or an operation issued after it: neither can come first.
#[test]
fn r12_a_version_that_only_comes_later_ends_as_a_refusal() {
    for named in ["itself", "later"] {
        let (mut server, mut driver) = offline(Policy::Overwrite);
        for (id, number, of) in [("itself", 0, Some(named)), ("later", 1, None)] {
            let (name, args) = ("doc.patch".to_owned(), patch(number, "a", of));
            let write = Write { id: id.into(), name, args, touches: Vec::new(), after: Vec::new() };
            driver.feed(Event::Write(write));
        }
        driver.patch(2, &[("n", 7)]);
        online(&mut driver, &mut server);
        assert_eq!(driver.first_refused().as_deref(), Some("itself"), "it names {named}");
        assert_eq!(
            (stored(&server, 1, "a"), stored(&server, 2, "n")),
            (Some(5), Some(7)),
            "the others go on"
        );
    }
}

/// The same if the named operation is amended: the batch then names the replacement.
#[test]
fn r12_a_batch_names_what_takes_the_place_of_an_amended_operation() {
    let (mut server, mut driver) = offline(Policy::Overwrite);
    let first = driver.patch(0, &[("n", 1), ("poison", 1)]);
    let parts = vec![part("doc.patch", patch(0, "a", Some(&first))), part("add", counting(1))];
    driver.write("batch", batch(parts));
    online(&mut driver, &mut server);
    let args = driver.without_poison(&first);
    driver.feed(Event::Amend { id: first, new: "amended".into(), args: Some(args) });
    driver.settle(&mut server);
    assert!(driver.machine.operations().is_empty());
    assert_eq!((stored(&server, 0, "a"), stored(&server, 1, "n")), (Some(5), Some(1)));
}

/// An operation names another one on another document, which is refused, or blocked by a refused one. It
/// waits with it, and all operations that name neither proceed. It was once sent again and again, before
/// everything else.
#[test]
fn r12_what_names_a_refused_operation_waits_and_the_rest_goes_on() {
    for is_held in [false, true] {
        let (mut server, mut driver) = offline(Policy::Overwrite);
        let named = if is_held {
            driver.patch(0, &[("n", 1), ("poison", 1)]);
            driver.patch(0, &[("a", 2)])
        } else {
            driver.write("blind", counting(99))
        };
        driver.write("doc.patch", patch(1, "a", Some(&named)));
        driver.patch(2, &[("n", 7)]);
        online(&mut driver, &mut server);
        assert_eq!(stored(&server, 2, "n"), Some(7), "what does not depend on it goes on");
        assert_eq!(stored(&server, 1, "a"), None, "what does waits");
    }
}

/// Discarding an operation once removed the conditions of operations that the application had made depend on
/// its version.
#[test]
fn r12_a_discarded_operation_leaves_the_conditions_that_name_it() {
    for is_mixed in [false, true] {
        let (mut server, mut driver) = offline(Policy::Overwrite);
        let first = driver.patch(0, &[("n", 1), ("poison", 1)]);
        let second = if is_mixed {
            let parts = vec![part("doc.patch", patch(0, "a", Some(&first))), part("add", counting(1))];
            driver.write("batch", batch(parts))
        } else {
            driver.write("doc.patch", patch(0, "a", Some(&first)))
        };
        let mut theirs = data(0, None, 0, 0);
        theirs.insert("theirs".to_owned(), Value::from(9_i64));
        put(&mut server, 0, theirs);
        online(&mut driver, &mut server);
        driver.feed(Event::Discard(first));
        driver.settle(&mut server);
        let code = driver.machine.refused_op(&second).expect("refused").state.refused.as_ref().expect("why");
        assert_eq!(code.code, Code::VersionConflict.as_str());
        assert_eq!(stored(&server, 0, "a"), None, "somebody wrote in between");
    }
}

/// An edit after a batch that has an operation without an optimistic part, on a document that it `touches`.
/// Nobody else wrote. It was once a conflict, unlike an edit after such an operation alone.
#[test]
fn r12_an_edit_after_a_blind_operation_is_no_conflict() {
    for is_batch in [false, true] {
        let (mut server, mut driver) = offline(Policy::Server);
        if is_batch {
            let parts = vec![part("blind", counting(0)), part("add", counting(1))];
            driver.write_touching("batch", batch(parts), vec![doc_key(0)]);
        } else {
            driver.write_touching("blind", counting(0), vec![doc_key(0)]);
        }
        driver.patch(0, &[("a", 5)]);
        online(&mut driver, &mut server);
        assert_eq!((stored(&server, 0, "n"), stored(&server, 0, "a")), (Some(1), Some(5)), "{is_batch}");
    }
}

/// One step of a random session: `ids` are those issued so far.
fn step(driver: &mut Driver, server: &mut ModelServer, random: &mut SeededRandom, ids: &mut Vec<String>) {
    let mut draw = |below: usize| random.next_u64() as usize % below;
    let (one, other) = (draw(DOCUMENTS), draw(DOCUMENTS));
    let named = match draw(3) {
        0 if !ids.is_empty() => Some(ids[draw(ids.len())].clone()),
        1 if draw(8) == 0 => Some("nobody".to_owned()),
        _ => None,
    };
    let property = if draw(5) == 0 { "poison" } else { "a" };
    let own = patch(one, property, named.as_deref());
    let id = match draw(12) {
        0..=3 => driver.write("doc.patch", own),
        4 | 5 => driver.write("batch", batch(vec![part("doc.patch", own), part("add", counting(other))])),
        6 => driver
            .write("batch", batch(vec![part("doc.patch", own), part("doc.patch", patch(other, "b", None))])),
        7 => driver.write("add", counting(one)),
        8 => driver.write_touching("blind", counting(one), vec![doc_key(one)]),
        9 => return online(driver, server),
        10 => return driver.feed(Event::Network(false)),
        _ => {
            let Some(first) = driver.first_refused() else { return };
            let is_patch =
                driver.machine.refused_op(&first).expect("refused").state.issued.name == "doc.patch";
            if is_patch && draw(2) == 0 {
                let (args, new) = (driver.without_poison(&first), format!("amended{}", ids.len()));
                ids.push(new.clone());
                return driver.feed(Event::Amend { id: first, new, args: Some(args) });
            }
            return driver.feed(Event::Discard(first));
        }
    };
    ids.push(id);
}

/// Any versions may be named. Operations wait only if a refused one blocks them (`settle` fails otherwise).
/// Once the application has decided about that one, none is left.
#[test]
fn r12_a_session_goes_on_whatever_versions_are_named() {
    for seed in seeds::each(400) {
        println!("ESCALE_SEED={seed}");
        let mut random = SeededRandom::new(seed);
        let policies = [Policy::Overwrite, Policy::Server, Policy::Client, Policy::Merge, Policy::Custom];
        let (mut server, mut driver) = offline(policies[seed as usize % policies.len()]);
        let mut ids = Vec::new();
        for _ in 0..40 {
            driver.now += 1 + random.next_u64() % 1_000;
            step(&mut driver, &mut server, &mut random, &mut ids);
            if random.next_u64().is_multiple_of(9) {
                put(&mut server, random.next_u64() as usize % DOCUMENTS, data(0, None, 0, 0));
            }
        }
        for _ in 0..=ids.len() {
            online(&mut driver, &mut server);
            match driver.first_refused() {
                Some(first) => driver.feed(Event::Discard(first)),
                None => break,
            }
        }
        assert!(driver.machine.operations().is_empty(), "something is left");
    }
}
