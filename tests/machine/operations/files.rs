//! R24: an operation waits for the files that it references, and the others pass.

use std::collections::BTreeSet;

use crate::harness::{Harness, accepted, config, def, epoch, reply, section, whole};
use escale::codec::{Fault, Op, OpResult, SyncReply, SyncRequest};
use escale::crypto::{Random, SeededRandom};
use escale::journal::make_id;
use escale::model::{Value, sha32};
use escale::sync::{Config, Effect, Event, FileWord, Write};
use escale::{Code, Kind};
use escale_testkit::seeds;

fn harness() -> Harness {
    Harness::new(Config { has_files: true, ..config() })
}

fn sha(text: &str) -> String {
    sha32(text)
}

/// Puts a document that references these files. Returns the operation's id.
fn put(harness: &mut Harness, n: u64, id: &str, files: &[&str]) -> String {
    let file =
        |text: &&str| Value::from([("sha", Value::from(sha(text).as_str())), ("size", Value::from(9_i64))]);
    let scans = Value::Array(files.iter().map(file).collect());
    let data = Value::from([("id", id.into()), ("scans", scans)]);
    let args = Value::from([("class", "Note".into()), ("data", data)]);
    let op = make_id(1_700_000_000_000 + n, &mut SeededRandom::new(n)).expect("an id");
    harness.feed(Event::Write(Write {
        id: op.clone(),
        name: "doc.put".into(),
        args,
        touches: vec![],
        after: vec![],
    }));
    op
}

/// The last list of objects that the session asked for.
fn needed(harness: &mut Harness) -> Option<Vec<String>> {
    let asked = harness.take(|effect| match effect {
        Effect::Files { needed } => Some(needed.clone()),
        _ => None,
    });
    asked.into_iter().next_back()
}

fn settle(harness: &mut Harness, files: &[&str], word: FileWord) {
    let shas = files.iter().map(|text| sha(text)).collect();
    harness.feed(Event::FilesSettled { shas, word });
}

/// A harness that knows the epoch, and has nothing to do.
fn live() -> Harness {
    let mut harness = harness();
    harness.subscribe(&def("Note"));
    harness.serve(1_000, |def| whole(def, vec![]));
    harness
}

/// Answers the request that is open, and returns the ids of the documents that its operations put.
fn sent(harness: &mut Harness) -> Vec<String> {
    let (number, request) = harness.request();
    let results = request.ops.iter().map(|op| accepted(op, 2_000)).collect();
    let parts = request.subs.iter().map(|sub| whole(&sub.def, vec![])).collect();
    let seq = request.ops.last().map_or(0, |op| op.seq);
    harness.answer(number, SyncReply { results, seq, ..reply(3_000, parts) });
    request.ops.iter().map(document).collect()
}

/// The server was restored before that request arrived: it answers in a later epoch, without results.
fn answer_in_later_epoch(harness: &mut Harness, now: u64, (number, request): (u64, &SyncRequest)) {
    let parts = request.subs.iter().map(|sub| whole(&sub.def, vec![])).collect();
    harness.answer(number, SyncReply { epoch: epoch(2), ..reply(now, parts) });
}

/// The operations can go now: lets the next request come, if none is there.
fn let_go(harness: &mut Harness) {
    if harness.requests.is_empty() {
        let at = harness.wake_at().expect("the operation waits");
        harness.wake(at);
    }
}

fn document(op: &Op) -> String {
    let data = op.args.as_map().and_then(|args| args.get("data")).and_then(Value::as_map).expect("data");
    data["id"].as_str().expect("an id").to_owned()
}

#[test]
fn an_operation_waits_for_its_files_with_its_dependents_and_the_others_pass() {
    let mut harness = live();
    put(&mut harness, 1, "a", &["film"]);
    put(&mut harness, 2, "b", &[]);
    put(&mut harness, 3, "a", &[]);
    assert_eq!(needed(&mut harness), Some(vec![sha("film")]));
    assert_eq!(sent(&mut harness), ["b"], "one film stops no other document");
    assert!(harness.requests.is_empty());
    let states: Vec<(bool, bool)> = harness
        .client
        .machine
        .operations()
        .iter()
        .map(|(op, held)| (harness.client.machine.is_uploading(op), *held))
        .collect();
    assert_eq!(states[..2], [(true, true), (false, true)], "it uploads, and the other depends on it");
    settle(&mut harness, &["film"], FileWord::There(epoch(1)));
    assert_eq!(sent(&mut harness), ["a", "a"]);
    assert_eq!(needed(&mut harness), Some(vec![]));
}

#[test]
fn a_file_that_the_device_does_not_hold_is_for_the_server_to_decide() {
    let mut harness = live();
    let op = put(&mut harness, 1, "a", &["elsewhere"]);
    settle(&mut harness, &["elsewhere"], FileWord::Absent);
    let (number, request) = harness.request();
    let fault = Fault { files: vec![sha("elsewhere")], ..Fault::new(Code::FileMissing, "by the test") };
    let results = vec![OpResult { id: op.clone(), ok: None, fault: Some(fault) }];
    harness.answer(number, SyncReply { results, seq: request.ops[0].seq, ..reply(3_000, vec![]) });
    let refused = harness.take(|effect| match effect {
        Effect::Refused { id, error } => Some((id.clone(), error.code())),
        _ => None,
    });
    assert_eq!(refused, [(op, Code::FileMissing)]);
}

#[test]
fn without_a_module_for_files_no_operation_waits() {
    let mut harness = Harness::new(config());
    harness.subscribe(&def("Note"));
    harness.serve(1_000, |def| whole(def, vec![]));
    put(&mut harness, 1, "a", &["film"]);
    assert_eq!(sent(&mut harness), ["a"]);
    assert_eq!(needed(&mut harness), None);
}

#[test]
fn an_operation_whose_file_is_lost_is_parked_for_that_reason() {
    let mut harness = live();
    let op = put(&mut harness, 1, "a", &["film"]);
    put(&mut harness, 2, "b", &["photo"]);
    settle(&mut harness, &["film"], FileWord::Failed(Code::LocalDataLost));
    let parked = harness.client.machine.refused_op(&op).expect("it is parked").state.refused.clone();
    assert_eq!(parked.map(|fault| (fault.code, fault.kind)), Some(("local_data_lost".into(), Kind::X)));
    assert_eq!(needed(&mut harness), Some(vec![sha("photo")]));
    assert_eq!(harness.client.machine.files(false), {
        let mut both = vec![sha("film"), sha("photo")];
        both.sort();
        both
    });
    assert_eq!(harness.client.machine.files(true), [] as [String; 0]);
    // Tried again by the application, it asks again.
    let new = make_id(1, &mut SeededRandom::new(9)).expect("an id");
    harness.feed(Event::Amend { id: op, new, args: None });
    settle(&mut harness, &["film", "photo"], FileWord::There(epoch(1)));
    assert_eq!(sent(&mut harness), ["a", "b"]);
}

#[test]
fn in_a_later_epoch_nothing_is_sent_before_its_files_are_confirmed_again() {
    let mut harness = live();
    put(&mut harness, 1, "a", &["film"]);
    settle(&mut harness, &["film"], FileWord::There(epoch(1)));
    let (number, request) = harness.request();
    assert_eq!(request.ops.len(), 1);
    needed(&mut harness);
    // The database was restored from a copy before that request arrived: the reply has no result.
    answer_in_later_epoch(&mut harness, 3_000, (number, &request));
    assert_eq!(needed(&mut harness), Some(vec![sha("film")]));
    // A late confirmation of the earlier epoch says nothing.
    settle(&mut harness, &["film"], FileWord::There(epoch(1)));
    while let Some((number, request, _)) = harness.requests.pop_front() {
        assert!(request.ops.is_empty(), "a file of an earlier epoch");
        answer_in_later_epoch(&mut harness, 4_000, (number, &request));
    }
    settle(&mut harness, &["film"], FileWord::There(epoch(2)));
    let_go(&mut harness);
    let (_, request) = harness.request();
    assert_eq!(request.ops.iter().map(document).collect::<Vec<_>>(), ["a"]);
}

/// It was on its way while the epoch changed. Nothing else had been confirmed before.
#[test]
fn a_confirmation_of_an_earlier_epoch_is_asked_for_again() {
    let mut harness = live();
    put(&mut harness, 1, "a", &["film"]);
    assert_eq!(needed(&mut harness), Some(vec![sha("film")]));
    harness.subscribe(&section("s"));
    let (number, request) = harness.request();
    answer_in_later_epoch(&mut harness, 3_000, (number, &request));
    assert_eq!(needed(&mut harness), None, "it waits already");
    settle(&mut harness, &["film"], FileWord::There(epoch(1)));
    assert_eq!(needed(&mut harness), Some(vec![sha("film")]));
}

/// The server may have executed it and dropped the files since: it decides.
#[test]
fn r11_an_operation_that_was_sent_is_not_refused_for_its_files() {
    let mut harness = live();
    let op = put(&mut harness, 1, "a", &["film"]);
    settle(&mut harness, &["film"], FileWord::There(epoch(1)));
    let (number, request) = harness.request();
    answer_in_later_epoch(&mut harness, 3_000, (number, &request));
    let unsent = put(&mut harness, 2, "b", &["film"]);
    settle(&mut harness, &["film"], FileWord::Failed(Code::LocalDataLost));
    assert!(harness.client.machine.refused_op(&op).is_err(), "nobody knows whether it was executed");
    assert!(harness.client.machine.refused_op(&unsent).is_ok());
    let_go(&mut harness);
    while harness.requests.front().is_some_and(|(_, request, _)| request.ops.is_empty()) {
        let (number, request) = harness.request();
        answer_in_later_epoch(&mut harness, 4_000, (number, &request));
    }
    let (_, request) = harness.request();
    assert_eq!(request.ops.iter().map(document).collect::<Vec<_>>(), ["a"]);
}

#[test]
fn an_operation_whose_files_the_server_lost_goes_again_three_times() {
    let mut harness = live();
    let first = put(&mut harness, 1, "a", &["film"]);
    let mut ids = vec![first];
    for round in 0..4 {
        assert_eq!(needed(&mut harness), Some(vec![sha("film")]), "round {round}");
        settle(&mut harness, &["film"], FileWord::There(epoch(1)));
        let_go(&mut harness);
        let (number, request) = harness.request();
        assert_eq!(request.ops[0].id, *ids.last().expect("one"), "its id is new");
        let fault = Fault { files: vec![sha("film")], ..Fault::new(Code::FileMissing, "by the test") };
        let results = vec![OpResult { id: request.ops[0].id.clone(), ok: None, fault: Some(fault) }];
        let seq = request.ops[0].seq;
        let parts = request.subs.iter().map(|sub| whole(&sub.def, vec![])).collect();
        harness.answer(number, SyncReply { results, seq, ..reply(3_000 + round, parts) });
        ids.extend(harness.take(|effect| match effect {
            Effect::Amended { by, .. } => Some(by.clone()),
            _ => None,
        }));
    }
    assert_eq!(ids.len(), 4, "three more");
    let parked = harness.client.machine.refused_op(&ids[3]).expect("then it is parked");
    assert_eq!(parked.state.replaces.len(), 3);
}

/// Plays writes, answers about files, and changes of the epoch. A request references a file only if the server confirmed
/// it in the session's epoch, or if the device does not hold it. At the end every operation has been sent.
#[test]
fn r24_no_request_references_a_file_that_was_not_confirmed() {
    for seed in seeds::each(300) {
        let mut random = SeededRandom::new(seed);
        let mut below = |n: u64| random.below(n).expect("a number");
        let mut harness = live();
        let (mut now, mut at, mut confirmed) = (3_000, 1, BTreeSet::new());
        let mut accepted_ids = BTreeSet::new();
        let mut written = BTreeSet::new();
        let mut asked: BTreeSet<String> = BTreeSet::new();
        for step in 0..60 {
            let is_end = step >= 40;
            match if is_end { 9 } else { below(10) } {
                0..=3 => {
                    let files = ["x", "y", "z"];
                    let some = &files[..below(3) as usize];
                    let document = ["a", "b", "c"][below(3) as usize];
                    written.insert(put(&mut harness, seed * 1_000 + step, document, some));
                }
                4 => {
                    // The server is restored. The session learns of it by a reply.
                    at += 1;
                    confirmed.clear();
                }
                _ => {
                    asked = needed(&mut harness).map_or(asked, BTreeSet::from_iter);
                    let pick: Vec<String> =
                        asked.iter().filter(|_| is_end || below(2) == 0).cloned().collect();
                    confirmed.extend(pick.iter().cloned());
                    harness.feed(Event::FilesSettled { shas: pick, word: FileWord::There(epoch(at)) });
                }
            }
            harness.now += 40_000;
            if harness.requests.is_empty() {
                let later = harness.now;
                harness.wake(later);
            }
            while let Some((number, request, _)) = harness.requests.pop_front() {
                now += 1_000;
                let is_current = request.epoch == Some(epoch(at));
                let mut results = Vec::new();
                for op in request.ops.iter().filter(|_| is_current) {
                    for file in escale::journal::files_of(&op.args) {
                        assert!(
                            confirmed.contains(&file),
                            "seed {seed}, step {step}: {file} was not confirmed"
                        );
                    }
                    accepted_ids.insert(op.id.clone());
                    results.push(accepted(op, now));
                }
                let parts = request.subs.iter().map(|sub| whole(&sub.def, vec![])).collect();
                let seq = if is_current { request.ops.last().map_or(0, |op| op.seq) } else { 0 };
                harness.answer(number, SyncReply { epoch: epoch(at), results, seq, ..reply(now, parts) });
            }
        }
        assert_eq!(harness.client.machine.status().pending, 0, "seed {seed}: nothing waits for ever");
        assert!(written.is_subset(&accepted_ids), "seed {seed}: each was executed");
    }
}
