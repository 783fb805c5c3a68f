//! The policy `ask`: the application is asked about each conflict, and nothing is written over unseen work of others.

use std::collections::BTreeMap;

use escale::crypto::SeededRandom;
use escale::journal::Policy;
use escale::model::Value;
use escale::store::MemoryDevice;
use escale::sync::{Effect, Event, Mode};
use escale_testkit::schema::{Map, key};
use escale_testkit::server::{ModelServer, Write as ServerWrite};
use escale_testkit::{seeds, world::writes::Counters};

use super::random_chains::document;
use crate::driver::{Driver, NOW, put, server, stored};

/// A session that is offline, with one document. Somebody else writes `note`, then the session comes back.
fn asked(write: impl FnOnce(&mut Driver)) -> (ModelServer, Driver) {
    let mut server = server(0);
    put(&mut server, 0, document(0, &[("label", 0), ("note", 0)]));
    let application = Box::new(Counters { policy: Policy::Ask });
    let mut driver = Driver::with(0, Mode::Synced, application, MemoryDevice::new(), NOW);
    driver.subscribe(&mut server);
    driver.feed(Event::Network(false));
    write(&mut driver);
    put(&mut server, 0, document(0, &[("label", 0), ("note", 7)]));
    driver.feed(Event::Network(true));
    driver.settle(&mut server);
    (server, driver)
}

fn values(server: &ModelServer) -> [Option<i64>; 2] {
    ["label", "note"].map(|property| stored(server, 0, property))
}

/// The application decides about the first refused operation: none discards it.
fn decide(driver: &mut Driver, server: &mut ModelServer, with: Option<Option<Value>>) {
    let refused = driver.first_refused().expect("a refused operation");
    let new = format!("{refused}-again");
    driver.feed(match with {
        None => Event::Discard(refused),
        Some(args) => Event::Amend { id: refused, new, args },
    });
    driver.settle(server);
}

/// The whole document, as a form saves it.
fn form(state: Map) -> Value {
    Value::from([("class", Value::from("Doc")), ("data", Value::Map(state))])
}

fn note_of(state: &Map) -> i64 {
    state["note"].as_f64().expect("a count") as i64
}

fn save(driver: &mut Driver, label: i64) -> String {
    let mut state = driver.seen_whole(0).expect("a document");
    state.insert("label".to_owned(), Value::from(label));
    driver.write("doc.put", form(state))
}

#[test]
fn a_write_on_work_of_others_is_refused_with_base_mine_and_theirs() {
    let (server, driver) = asked(|driver| {
        driver.patch(0, &[("label", 1)]);
    });
    assert_eq!(values(&server), [Some(0), Some(7)]);
    let refused = driver.first_refused().expect("a refused operation");
    let op = driver.machine.refused_op(&refused).expect("it is there");
    let row = op.state.refused.as_ref().and_then(|fault| fault.doc.as_ref()).expect("theirs");
    let theirs = row.data.as_ref().map(|data| data.to_map().expect("a map"));
    assert_eq!(theirs, Some(document(0, &[("label", 0), ("note", 7)])));
    let (class, pk) = key(0);
    let base = op.base_of(&class, &pk).map(|data| data.to_map().expect("a map"));
    assert_eq!(base, Some(document(0, &[("label", 0), ("note", 0)])));
    let mine = op.result_on(op.expected_at(&pk).expect("it expects a version"), base);
    assert_eq!(mine, Some(document(0, &[("label", 1), ("note", 0)])));
}

#[test]
fn a_retry_is_written_over_the_document_that_was_shown() {
    let (mut server, mut driver) = asked(|driver| {
        save(driver, 1);
    });
    decide(&mut driver, &mut server, Some(None));
    assert_eq!(values(&server), [Some(1), Some(0)]);
    assert!(driver.machine.operations().is_empty());
}

#[test]
fn a_retry_does_not_overwrite_what_was_not_shown() {
    let (mut server, mut driver) = asked(|driver| {
        save(driver, 1);
    });
    put(&mut server, 0, document(0, &[("label", 0), ("note", 8)]));
    decide(&mut driver, &mut server, Some(None));
    assert_eq!(values(&server), [Some(0), Some(8)], "somebody wrote again, and it is asked again");
    decide(&mut driver, &mut server, Some(None));
    assert_eq!(values(&server), [Some(1), Some(0)]);
}

#[test]
fn an_amendment_expects_the_document_that_was_shown() {
    for with_other in [false, true] {
        let (mut server, mut driver) = asked(|driver| {
            save(driver, 1);
        });
        if with_other {
            put(&mut server, 0, document(0, &[("label", 0), ("note", 8)]));
        }
        decide(&mut driver, &mut server, Some(Some(form(document(0, &[("label", 1), ("note", 7)])))));
        assert_eq!(values(&server), if with_other { [Some(0), Some(8)] } else { [Some(1), Some(7)] });
        assert_eq!(driver.first_refused().is_some(), with_other);
    }
}

/// The second form was filled in on top of the first one: it has not seen the work of others, either.
#[test]
fn each_write_of_a_chain_is_asked_about() {
    for decision in [None, Some(None), Some(Some(form(document(0, &[("label", 1), ("note", 7)]))))] {
        let (mut server, mut driver) = asked(|driver| {
            save(driver, 1);
            save(driver, 2);
        });
        let first = driver.first_refused().expect("a refused operation");
        assert_eq!(driver.machine.operations().len(), 2, "the second one waits");
        decide(&mut driver, &mut server, decision.clone());
        if decision == Some(None) {
            // The second one was made on the document that is there now: nobody else's work is in it.
            assert_eq!(driver.first_refused(), None);
        } else {
            let second = driver.first_refused().expect("it is asked about as well");
            assert_ne!(first, second);
            assert_eq!(values(&server)[1], Some(7), "{decision:?}");
            decide(&mut driver, &mut server, Some(None));
        }
        assert_eq!(values(&server), [Some(2), Some(0)]);
        assert!(driver.machine.operations().is_empty());
    }
}

#[test]
fn a_document_that_both_sides_create_is_asked_about() {
    let mut server = server(0);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Ask);
    driver.subscribe(&mut server);
    driver.feed(Event::Network(false));
    driver.write("doc.put", form(document(0, &[("label", 1)])));
    put(&mut server, 0, document(0, &[("label", 2)]));
    driver.feed(Event::Network(true));
    driver.settle(&mut server);
    assert_eq!(stored(&server, 0, "label"), Some(2));
    decide(&mut driver, &mut server, None);
    assert_eq!(driver.seen(0, "label"), Some(2));
    assert!(driver.machine.operations().is_empty());
}

fn batch(labels: &[(usize, i64, i64)]) -> Value {
    let part = |(doc, label, note): &(usize, i64, i64)| {
        let args = form(document(*doc, &[("label", *label), ("note", *note)]));
        Value::from([("name", Value::from("doc.put")), ("args", args)])
    };
    Value::from([("ops", Value::Array(labels.iter().map(part).collect()))])
}

/// The server shows one document of a batch at a time.
#[test]
fn an_amended_batch_overwrites_no_document_that_was_not_shown() {
    for args in [None, Some(batch(&[(0, 1, 7), (1, 1, 0)]))] {
        let (mut server, mut driver) = asked(|driver| {
            driver.write("batch", batch(&[(0, 1, 0), (1, 1, 0)]));
        });
        put(&mut server, 1, document(1, &[("label", 0), ("note", 8)]));
        decide(&mut driver, &mut server, Some(args.clone()));
        assert_eq!(stored(&server, 1, "note"), Some(8), "{args:?}");
        assert!(driver.first_refused().is_some(), "it asks about the other one");
        decide(&mut driver, &mut server, Some(None));
        assert_eq!([0, 1].map(|doc| stored(&server, doc, "label")), [Some(1), Some(1)]);
    }
}

/// It was refused for its value, and somebody writes before it is corrected.
#[test]
fn a_corrected_write_overwrites_no_document_that_was_not_shown() {
    let mut server = server(0);
    put(&mut server, 0, document(0, &[("label", 0), ("note", 0)]));
    let mut driver = Driver::new(0, Mode::Synced, Policy::Ask);
    driver.subscribe(&mut server);
    driver.write("doc.put", form(document(0, &[("label", 1), ("note", 0), ("poison", 1)])));
    driver.settle(&mut server);
    put(&mut server, 0, document(0, &[("label", 0), ("note", 7)]));
    driver.wait(60_000);
    decide(&mut driver, &mut server, Some(Some(form(document(0, &[("label", 1), ("note", 0)])))));
    assert_eq!(values(&server), [Some(0), Some(7)]);
    assert!(driver.first_refused().is_some(), "it asks");
}

#[test]
fn an_amendment_for_another_document_stands_on_that_one() {
    let mut server = server(0);
    for doc in 0..2 {
        put(&mut server, doc, document(doc, &[("label", 0), ("note", 0)]));
    }
    let mut driver = Driver::new(0, Mode::Synced, Policy::Ask);
    driver.subscribe(&mut server);
    driver.feed(Event::Network(false));
    save(&mut driver, 1);
    put(&mut server, 0, document(0, &[("label", 0), ("note", 7)]));
    driver.feed(Event::Network(true));
    driver.settle(&mut server);
    decide(&mut driver, &mut server, Some(Some(form(document(1, &[("label", 1), ("note", 0)])))));
    assert_eq!(values(&server), [Some(0), Some(7)]);
    assert_eq!(stored(&server, 1, "label"), Some(1));
    assert!(driver.machine.operations().is_empty());
}

/// Somebody deletes the document. A patch of no document would be refused for good.
#[test]
fn a_retry_brings_back_a_document_that_is_gone() {
    let mut server = server(0);
    put(&mut server, 0, document(0, &[("label", 0), ("note", 4)]));
    let mut driver = Driver::new(0, Mode::Synced, Policy::Ask);
    driver.subscribe(&mut server);
    driver.feed(Event::Network(false));
    driver.patch(0, &[("label", 1)]);
    let v = server.db.highest + 1;
    server.db.write(v, &[ServerWrite::Delete(key(0))]);
    driver.feed(Event::Network(true));
    driver.settle(&mut server);
    decide(&mut driver, &mut server, Some(None));
    assert_eq!(values(&server), [Some(1), Some(4)]);
    assert!(driver.machine.operations().is_empty());
}

/// Others only count `note` up. This device writes, decides and restarts at random. It replaces a document only if its
/// user had seen that one, when he wrote or when he was asked.
#[test]
fn nothing_that_was_not_seen_is_written_over() {
    for seed in seeds::each(600) {
        println!("ESCALE_SEED={seed}");
        let mut random = SeededRandom::new(seed);
        let mut draw = move |below: u64| random.next_u64() % below;
        let mut server = server(0);
        let mut count = 0;
        put(&mut server, 0, document(0, &[("label", 0), ("note", 0)]));
        let mut driver = Driver::new(0, Mode::Synced, Policy::Ask);
        driver.subscribe(&mut server);
        // The latest count that the user has seen, and by operation the one that he had seen and the one that it writes.
        let (mut known, mut of): (i64, BTreeMap<String, (i64, Option<i64>)>) = Default::default();
        let mut stored_count = 0;
        let mut executed = 0;
        let mut decisions = 0;
        for step in 0..40 {
            // Ids contain the time.
            driver.now += 1;
            match draw(8) {
                0 => driver.feed(Event::Network(false)),
                1 => {
                    count += 1;
                    stored_count = count;
                    put(&mut server, 0, document(0, &[("label", 0), ("note", count)]));
                }
                2 | 3 => {
                    let Some(state) = driver.seen_whole(0) else { continue };
                    known = known.max(note_of(&state));
                    if draw(2) == 0 {
                        of.insert(driver.patch(0, &[("label", step)]), (known, None));
                    } else {
                        of.insert(save(&mut driver, step), (known, Some(note_of(&state))));
                    }
                }
                4 => driver = driver.reopen(Mode::Synced, Policy::Ask),
                5 => {
                    let Some(refused) = driver.first_refused() else { continue };
                    let op = driver.machine.refused_op(&refused).expect("it is there");
                    let row = op.state.refused.as_ref().and_then(|fault| fault.doc.as_ref()).expect("theirs");
                    let theirs = row.data.as_ref().expect("nobody deletes it").to_map().expect("a map");
                    known = known.max(note_of(&theirs));
                    let (shown, written) = of[&refused];
                    let shown = shown.max(note_of(&theirs));
                    decisions += 1;
                    let new = format!("decision{decisions}");
                    let (args, written) = match draw(3) {
                        0 => {
                            driver.feed(Event::Discard(refused));
                            continue;
                        }
                        1 if written.is_some() => (Some(form(theirs.clone())), Some(note_of(&theirs))),
                        _ => (None, written),
                    };
                    driver.feed(Event::Amend { id: refused, new: new.clone(), args });
                    of.insert(new, (shown, written));
                }
                _ => {
                    driver.feed(Event::Network(true));
                    driver.settle(&mut server);
                }
            }
            for effect in std::mem::take(&mut driver.hooks.told) {
                if let Effect::Amended { id, by } = effect {
                    of.insert(by, of[&id]);
                }
            }
            for (_, id) in &server.db.operations.executed[executed..] {
                let (seen, written) = of[id];
                assert!(seen >= stored_count, "step {step}: {id} saw {seen}, and met {stored_count}");
                stored_count = written.unwrap_or(stored_count);
            }
            executed = server.db.operations.executed.len();
        }
        for _ in 0..50 {
            driver.feed(Event::Network(true));
            driver.settle(&mut server);
            if driver.first_refused().is_none() {
                break;
            }
            decide(&mut driver, &mut server, None);
        }
        assert!(driver.machine.operations().is_empty(), "each operation ends");
    }
}
