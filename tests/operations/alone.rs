//! A single writer meets no conflict. Nobody else writes, so no version that a server gives may come between
//! two of its writes.

use std::collections::BTreeMap;

use escale::codec::{Data, Fault, OpOk, OpResult, Row, SyncReply};
use escale::crypto::{Random, SeededRandom};
use escale::journal::Policy;
use escale::model::Value;
use escale::sync::{Effect, Event, Mode};
use escale::{Code, Error};

use super::driver::{Driver, id, server, stored};
use escale_testkit::schema::{Map, data, key};
use escale_testkit::server::{Idle, ModelServer};

/// The server's answer to two writes of document 0. The first write changed nothing and was given version
/// `v`. Taken literally, the document does not have the version that the second one expects.
fn conflict_with_itself(driver: &Driver, server: &mut ModelServer, v: u64) -> SyncReply {
    let (_, request) = driver.sent.as_ref().expect("a request");
    let [idle, second] = &request.ops[..] else { panic!("two operations: {:?}", request.ops) };
    let mut reply = driver.answer(server, &escale::codec::SyncRequest { ops: Vec::new(), ..request.clone() });
    let document = &server.db.docs[&key(0)];
    let mut fault = Fault::new(Code::VersionConflict, "by the letter");
    let data = Some(Data::from_map(&document.data).expect("data"));
    fault.doc = Some(Row { pk: key(0).1, v: document.v, deleted: false, max_life: None, data });
    reply.results = vec![
        OpResult { id: idle.id.clone(), ok: Some(OpOk { v, value: None, trees: Vec::new() }), fault: None },
        OpResult { id: second.id.clone(), ok: None, fault: Some(fault) },
    ];
    reply.seq = second.seq;
    server.db.operations.sessions.entry(request.session.clone()).or_default().last = second.seq;
    reply
}

/// Offline, a patch that changes nothing, then `second`. The server gives the first one version `v`.
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
    assert_eq!(driver.hooks.told.iter().find(is_lost).map(|effect| format!("{effect:?}")), None);
    assert_eq!(driver.machine.status().pending, 0);
}

#[test]
fn a_write_after_one_that_changed_nothing_is_not_lost_whatever_version_that_one_has() {
    for policy in [Policy::Ask, Policy::Server, Policy::Client, Policy::Merge, Policy::Custom] {
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
    for policy in [Policy::Overwrite, Policy::Ask, Policy::Merge] {
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
    for policy in [Policy::Overwrite, Policy::Ask, Policy::Client, Policy::Merge] {
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

/// A batch deletes one document and leaves another at a later version, which is the batch's own version. A
/// write that names the batch expects no more than "nobody has written since".
#[test]
fn a_write_that_names_a_batch_finds_a_document_that_the_batch_left_at_an_earlier_version() {
    for policy in
        [Policy::Overwrite, Policy::Ask, Policy::Server, Policy::Client, Policy::Merge, Policy::Custom]
    {
        for is_reopened in [false, true] {
            let mut server = server(2);
            let mut driver = Driver::new(0, Mode::Synced, policy);
            driver.subscribe(&mut server);
            let class = ("class", Value::from("Doc"));
            let delete = Value::from([class.clone(), ("key", id(0))]);
            driver.write("doc.delete", delete.clone());
            driver.settle(&mut server);
            driver.patch(1, &[("a", 1)]);
            driver.settle(&mut server);

            // The batch changes nothing: its version is that of document 1.
            driver.feed(Event::Network(false));
            let set = Value::from([("a", Value::from(1_i64))]);
            let put = Value::from([class.clone(), ("data", Value::Map(data(0, None, 0, 0)))]);
            let parts = [
                ("doc.put", put.clone()),
                ("doc.delete", delete),
                ("doc.patch", Value::from([class.clone(), ("key", id(1)), ("set", set)])),
            ];
            let part = |(name, args)| Value::from([("name", Value::from(name)), ("args", args)]);
            let ops = Value::Array(parts.map(part).to_vec());
            let batch = driver.write("batch", Value::from([("ops", ops)]));
            let mut put = put;
            let expected = Value::from([("op", Value::from(batch.as_str()))]);
            put.as_map_mut().expect("a map").insert("ifVersion".to_owned(), expected);
            driver.write("doc.put", put);

            driver.feed(Event::Network(true));
            // The request arrives with the batch alone: the put is sent later, with a number.
            let (number, mut request) = driver.sent.take().expect("a request");
            request.ops.truncate(1);
            let reply = driver.answer(&mut server, &request);
            driver.feed(Event::Replied { number, reply: Ok(reply) });
            if is_reopened {
                driver.now += 1;
                let told = std::mem::take(&mut driver.hooks.told);
                driver = driver.reopen(Mode::Synced, policy);
                driver.hooks.told = told;
            }
            driver.settle(&mut server);
            assert_no_conflict(&driver);
            assert_eq!(stored(&server, 0, "size"), Some(0), "{policy:?}");
        }
    }
}

/// The arguments of a write, which may expect the version of an earlier operation. A document that is not
/// there is put.
fn change(
    random: &mut SeededRandom,
    number: usize,
    before: Option<&String>,
    is_there: bool,
) -> (&'static str, Value) {
    let mut below = |n| random.below(n).expect("a number");
    let (is_put, n, names, is_deleted) = (below(3) == 0, below(2) as i64, below(3) == 0, below(5) == 0);
    let is_put = is_put || !is_there;
    let mut map = if is_put { data(number, None, 0, 0) } else { Map::new() };
    map.insert("a".to_owned(), Value::from(n));
    let class = ("class", Value::from("Doc"));
    let (name, mut args) = if is_there && is_deleted {
        ("doc.delete", Value::from([class, ("key", id(number))]))
    } else if is_put {
        ("doc.put", Value::from([class, ("data", Value::Map(map))]))
    } else {
        ("doc.patch", Value::from([class, ("key", id(number)), ("set", Value::Map(map))]))
    };
    if let Some(before) = before.filter(|_| names) {
        let expected = Value::from([("op", Value::from(before.as_str()))]);
        args.as_map_mut().expect("a map").insert("ifVersion".to_owned(), expected);
    }
    (name, args)
}

/// Writes at random: one document, or several in a batch. Half of the writes change nothing.
fn write_something(driver: &mut Driver, random: &mut SeededRandom, last: &mut BTreeMap<usize, String>) {
    // As the application's handle of a write does.
    for effect in &driver.hooks.told {
        if let Effect::Amended { id, by } = effect {
            last.values_mut().filter(|last| *last == id).for_each(|last| last.clone_from(by));
        }
    }
    let count = 1 + random.below(3).expect("a number") as usize;
    let first = random.below(3).expect("a number") as usize;
    let numbers: Vec<usize> = (0..count).map(|n| (first + n) % 3).collect();
    let of = |number: &usize| {
        let is_there = driver.seen(*number, "size").is_some();
        change(random, *number, last.get(number), is_there)
    };
    let mut changes: Vec<(&str, Value)> = numbers.iter().map(of).collect();
    let id = if changes.len() == 1 {
        let (name, args) = changes.remove(0);
        driver.write(name, args)
    } else {
        let part = |(name, args): (&str, Value)| Value::from([("name", Value::from(name)), ("args", args)]);
        let parts: Vec<Value> = changes.into_iter().map(part).collect();
        driver.write("batch", Value::from([("ops", Value::Array(parts))]))
    };
    last.extend(numbers.into_iter().map(|number| (number, id.clone())));
}

/// A single writer: its device may be closed and opened in between, online or not, and it writes in batches
/// or not. Under any policy, and any server that keeps the documents, no write is refused, dropped or lost.
#[test]
fn one_writer_meets_no_conflict_whatever_the_history() {
    for seed in escale_testkit::seeds::each(600) {
        let mut random = SeededRandom::new(seed);
        let policies =
            [Policy::Overwrite, Policy::Ask, Policy::Server, Policy::Client, Policy::Merge, Policy::Custom];
        let idles = [Idle::Kept, Idle::Zero, Idle::Stamped, Idle::Written];
        let policy = policies[seed as usize % 6];
        let mut server = server(3);
        server.habits.idle = idles[seed as usize / 6 % 4];
        let mut driver = Driver::new(0, Mode::Synced, policy);
        driver.subscribe(&mut server);
        let mut last = BTreeMap::new();
        for _ in 0..30 {
            match random.below(8).expect("a number") {
                0 => driver.feed(Event::Network(false)),
                1 => driver.feed(Event::Network(true)),
                2 => {
                    driver.feed(Event::Network(true));
                    driver.settle(&mut server);
                }
                3 => {
                    assert_no_loss(&driver, seed);
                    driver.feed(Event::Network(false));
                    // Ids contain the time.
                    driver.now += 1;
                    let told = std::mem::take(&mut driver.hooks.told);
                    driver = driver.reopen(Mode::Synced, policy);
                    driver.hooks.told = told;
                    // After that, the name of a finished operation has no meaning.
                    forget_finished(&driver, &mut last);
                }
                _ => {
                    // The session no longer knows the version of a finished operation. It cannot make up for a
                    // server that expects exactly that one, unlike the protocol.
                    if matches!(server.habits.idle, Idle::Stamped | Idle::Zero) {
                        forget_finished(&driver, &mut last);
                    }
                    write_something(&mut driver, &mut random, &mut last);
                }
            }
        }
        driver.feed(Event::Network(true));
        let shown: Vec<Option<i64>> = (0..3).map(|number| driver.seen(number, "a")).collect();
        driver.settle(&mut server);
        assert_no_loss(&driver, seed);
        assert_eq!(driver.machine.status().pending, 0, "seed {seed}");
        let kept: Vec<Option<i64>> = (0..3).map(|number| stored(&server, number, "a")).collect();
        assert_eq!(shown, kept, "seed {seed}: what was written is there");
    }
}

fn forget_finished(driver: &Driver, last: &mut BTreeMap<usize, String>) {
    let is_there = |id: &String| driver.machine.operations().iter().any(|(op, _)| op.state.issued.id == *id);
    last.retain(|_, id| is_there(id));
}

fn assert_no_loss(driver: &Driver, seed: u64) {
    let is_lost =
        |effect: &&Effect| matches!(effect, Effect::Refused { .. } | Effect::Accepted { result: Err(_), .. });
    assert_eq!(
        driver.hooks.told.iter().find(is_lost).map(|effect| format!("{effect:?}")),
        None,
        "seed {seed}"
    );
}
