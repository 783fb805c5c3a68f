//! Random requests: the bytes that each of them adds, and the history in the journal afterwards.

use std::collections::BTreeMap;
use std::time::Duration;

use escale::codec::Data;
use escale::model::Value;
use escale_server::engine::{Filing, Object, sha_of};
use escale_server::seal::Seal;
use escale_server::settings::Settings;

use super::stored::*;
use crate::support::chance::Chance;
use crate::support::operating::{key_args, op, put_args, told, with};
use crate::support::proof::times;

/// A random operation, and an object that it may reference.
fn act(chance: &mut Chance, objects: &[Object], depth: u32) -> (&'static str, Value) {
    let id = chance.below(6).to_string();
    let class = chance.pick(&["Note", "Note", "Note", "Book", "Closed", "Log"]);
    let of_class = |args: Value| with(args, "class", Value::from(class));
    let if_version = |chance: &mut Chance, args: Value| {
        if chance.is(40) { with(args, "ifVersion", Value::from(chance.below(2) as i64)) } else { args }
    };
    match chance.below(if depth == 0 { 12 } else { 10 }) {
        0 | 1 => {
            let bytes = chance.pick(&[0, 10, 300, 20_000, 300_000]);
            ("doc.put", if_version(chance, of_class(large(&id, bytes))))
        }
        2..5 => {
            let name = chance.pick(&["n", "m", "owner"]);
            let value = text(chance.pick(&[0, 1, 3, 200]));
            ("doc.patch", if_version(chance, of_class(patch_args(&id, name, value))))
        }
        5 => {
            let count = chance.pick(&[0, 3, 100, 400, 2_000]);
            let name = chance.pick(&["tags", "words"]);
            let from = chance.below(3) * 1_000;
            let items = (from..from + count).map(word).collect();
            ("doc.patch", of_class(patch_args(&id, name, Value::Array(items))))
        }
        6 => ("doc.delete", if_version(chance, of_class(key_args(&id)))),
        7 => {
            let object = chance.pick(objects);
            let size = Value::from(object.bytes().len() as i64);
            let file = Value::from([("sha", Value::from(object.sha())), ("size", size)]);
            ("doc.patch", with(patch_args(&id, "file", file), "class", "Note"))
        }
        8 => {
            let data = Value::from([("book", Value::from(&*id)), ("number", word(chance.below(50)))]);
            ("doc.put", Value::from([("class", Value::from("Page")), ("data", data)]))
        }
        9 => (chance.pick(&["nothing", "quota.get", "quota.set"]), Value::Map(BTreeMap::new())),
        _ => {
            let count = chance.pick(&[1, 5, 60]);
            let member = |chance: &mut Chance| {
                let (name, args) = act(chance, objects, 1);
                Value::from([("name", Value::from(name)), ("args", args)])
            };
            let small = |n: u64| {
                Value::from([("name", Value::from("doc.put")), ("args", put_args(&format!("small {n}"), ""))])
            };
            let ops = if chance.is(50) {
                (0..count).map(|_| member(chance)).collect()
            } else {
                (0..count * 8).map(small).collect()
            };
            ("batch", [("ops", Value::Array(ops))].into())
        }
    }
}

/// Random requests by accounts that may and may not write, with uploads and purges in between.
#[test]
fn a_request_adds_ten_times_its_bytes_and_64_kib_at_most() {
    let mut chance = Chance::new();
    let rounds = times("ESCALE_GROWTH", 6) as usize;
    let (mut accepted, mut refused, mut ended_early, mut without_right) = (0, 0, 0, 0);
    for round in 0..rounds {
        let seal = || if round % 2 == 0 { Seal::clear() } else { Seal::with_key(&[7; 32]) };
        let world = stored(Settings { journal_max: 2, ..Settings::default() }, seal());
        let objects: Vec<Object> = [10, 1_000, 90_000]
            .into_iter()
            .map(|bytes| {
                let bytes = vec![chance.below(256) as u8; bytes];
                Object::new(&sha_of(&bytes), None, bytes, 1 << 31).unwrap()
            })
            .collect();
        let sessions = ["s".to_owned(), "t".repeat(1_000)];
        let mut numbers: BTreeMap<(String, String), u64> = BTreeMap::new();
        let mut last_id = 0;
        let limit = Value::from([("of", Value::from("ann")), ("documents", Value::from(4))]);
        assert!(world.one("root", "limit", "quota.set", limit).ok.is_some());
        for _ in 0..40 {
            let account = chance.pick(&["ann", "ann", "bob", "reader", "blocked"]);
            let before = world.bytes();
            if chance.is(15) {
                let object = chance.pick(&objects);
                let put = Filing::of(&world.engine).put_object("o", &caller(account), &object);
                assert_eq!(put.is_ok(), !["reader", "blocked"].contains(&account));
                assert!(world.bytes().saturating_sub(before) <= allowed(object.bytes().len() as u64));
                continue;
            }
            let session = format!("{} of {account}", chance.pick(&sessions));
            let seq = numbers.entry((account.to_owned(), session.clone())).or_default();
            let count = chance.pick(&[1, 1, 2, 10, 40]);
            let mut ops = Vec::new();
            for n in 0..count {
                last_id += 1;
                let id =
                    if chance.is(10) { format!("{last_id}{}", "i".repeat(900)) } else { last_id.to_string() };
                let (name, args) = act(&mut chance, &objects, 0);
                ops.push(op(&id, *seq + 1 + n, name, args));
            }
            let (reply, sent) = world.ask(account, &session, ops.clone());
            let added = world.bytes().saturating_sub(before);
            assert!(
                added <= allowed(sent),
                "{account} sent {sent} bytes, which added {added}: {:?}",
                told(&reply)
            );
            let by_right = |code: &str| ["forbidden", "blocked", "quota_exceeded"].contains(&code);
            let may_write = !["reader", "blocked"].contains(&account);
            if !may_write || told(&reply).iter().all(|(_, code)| by_right(code)) {
                // The session's number, and the account's number of sessions.
                let most = if *seq == 0 { session.len() as u64 + 300 } else { 1 };
                assert!(added <= most, "{account} may not, and added {added}: {:?}", told(&reply));
                without_right += reply.results.len();
            }
            *seq = reply.seq;
            accepted += reply.results.iter().filter(|result| result.ok.is_some()).count();
            refused += reply.results.iter().filter(|result| result.fault.is_some()).count();
            ended_early += usize::from(reply.results.len() < ops.len() && may_write);
            let (head, rows) = world.kept();
            assert_eq!(head, rows, "the bytes of results and journal");
            // The same once more adds no more than a number.
            let before = world.bytes();
            let (again, _) = world.ask(account, &session, ops[..reply.results.len()].to_vec());
            // The documents of conflicts may have become larger meanwhile, so that fewer results have room. A refusal
            // by rights is judged again: there may be room in a quota now, and then it is not executed.
            let first: BTreeMap<_, _> = told(&reply).into_iter().collect();
            for (id, code) in told(&again) {
                let is_judged = code == "session_reused" && by_right(first[id]);
                assert!(first[id] == code || is_judged, "{code} after {}", first[id]);
            }
            assert_eq!(again.results.is_empty(), reply.results.is_empty());
            assert!(world.bytes() <= before + 1, "the number of commits has another digit");
            world.clock.advance(chance.pick(&[0, 1, 1_000]));
            if chance.is(10) {
                world.engine.purge().unwrap();
            }
        }
        let (states, mut after) = (world.states(&seal()), None);
        let mut walk = world.engine.provider().maintain(Duration::from_secs(5)).unwrap();
        loop {
            let found = walk.walk(after, 100).unwrap();
            let Some(last) = found.last() else { break };
            after = Some((last.org.clone(), last.class.clone(), last.pk.clone()));
            for one in found.iter().filter(|one| !one.document.deleted && !one.class.starts_with('#')) {
                let at = one.place();
                let data = Data::from_bytes(&seal().open_document(at, &one.document).unwrap()).unwrap();
                assert_eq!(states[&at.actor()].last().unwrap().as_ref(), Some(&data.to_map().unwrap()));
            }
        }
    }
    eprintln!(
        "{accepted} accepted, {refused} refused, {without_right} of them by right, {ended_early} requests ended early"
    );
    assert!(accepted > 20 * rounds && without_right > 20 * rounds, "{accepted}, {refused}, {without_right}");
    assert!(refused > without_right);
}
