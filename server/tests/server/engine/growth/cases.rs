//! One case of each kind of growth.

use std::collections::BTreeMap;

use escale::Code;
use escale::codec::{Data, Format, Op, OpResult, SyncRequest, encode};
use escale::model::{Def, Name, Value};
use escale_server::engine::{Caller, Filing, Object, sha_of, whole_row};
use escale_server::seal::Seal;
use escale_server::settings::Settings;

use super::stored::*;
use crate::support::operating::{key_args, list, op, put_args, told, with};
use crate::support::world::DAY;

#[test]
fn a_patch_of_a_large_document_adds_its_own_bytes_and_not_those_of_the_document() {
    let world = stored(Settings::default(), Seal::clear());
    world.one("ann", "s", "doc.put", large("a", 1_000_000));
    let before = world.bytes();
    let ops = (2..62).map(|seq| op(&format!("p{seq}"), seq, "doc.patch", patch_args("a", "n", word(seq))));
    let (reply, sent) = world.ask("ann", "s", ops.collect());
    assert_eq!(told(&reply).iter().filter(|(_, code)| *code == "ok").count(), 60);
    let added = world.bytes() - before;
    assert!(added <= 10 * sent, "{sent} bytes added {added}");
}

#[test]
fn a_conflict_keeps_no_document_and_shows_the_row_to_those_who_may_read_it_now() {
    let world = stored(Settings::default(), Seal::clear());
    let secret = |owner: &str, bytes| {
        let data = Value::from([("id", "a".into()), ("owner", Value::from(owner)), ("text", text(bytes))]);
        Value::from([("class", Value::from("Secret")), ("data", data)])
    };
    world.one("ann", "s", "doc.put", secret("ann", 1_000_000));
    let before = world.bytes();
    let conflicting = |seq| op(&format!("c{seq}"), seq, "doc.put", with(secret("ann", 5), "ifVersion", 1));
    let ops: Vec<Op> = (2..27).map(conflicting).collect();
    let mut sent = 0;
    for op in &ops {
        let (reply, bytes) = world.ask("ann", "s", vec![op.clone()]);
        let doc = reply.results[0].fault.as_ref().unwrap().doc.as_ref().unwrap();
        assert!(doc.data.as_ref().unwrap().as_bytes().len() > 1_000_000);
        sent += bytes;
    }
    let added = world.bytes() - before;
    assert!(added <= 10 * sent, "{sent} bytes added {added}");
    // In a batch, and in a completed reply, the row comes again as well.
    let batch = Value::from([(
        "ops",
        Value::Array(vec![
            [("name", Value::from("doc.put")), ("args", with(secret("ann", 5), "ifVersion", 1))].into(),
        ]),
    )]);
    let batch = op("b", 27, "batch", batch);
    world.ask("ann", "s", vec![batch.clone()]);
    let v = world.one("ann", "t", "doc.put", secret("ann", 7)).ok.unwrap().v;
    let gap = op("g", 99, "doc.put", secret("ann", 5));
    for again in [vec![ops[0].clone()], vec![batch.clone()], vec![gap.clone(), ops[0].clone()]] {
        let (reply, _) = world.ask("ann", "s", again);
        let fault = reply.results.last().unwrap().fault.as_ref().unwrap();
        assert_eq!(fault.code, Code::VersionConflict.as_str());
        assert_eq!(
            fault.doc.as_ref().map(|doc| (doc.v, doc.deleted)),
            Some((v, false)),
            "the row as it is now"
        );
    }
    // The document is another's now: the rest of the answer is the same.
    world.one("ann", "u", "doc.put", secret("lea", 7));
    let (reply, _) = world.ask("ann", "s", vec![ops[0].clone()]);
    let fault = reply.results[0].fault.as_ref().unwrap();
    assert_eq!((fault.code.as_str(), fault.doc.as_ref()), (Code::VersionConflict.as_str(), None));
}

#[test]
fn an_account_that_may_not_write_leaves_nothing_and_hears_the_same_again() {
    let world = stored(Settings::default(), Seal::clear());
    world.one("ann", "s", "doc.put", large("a", 10));
    let sent_by = |session: &str| {
        let ops = (1..=50).map(|seq| op(&format!("{session}-{seq}"), seq, "doc.put", large("b", 10)));
        let quota = op(&format!("{session}-51"), 51, "quota.get", Value::Map(BTreeMap::new()));
        world.ask("reader", session, ops.chain([quota]).collect()).0
    };
    // A few sessions have a number, so that a late copy is known as one once the account may write.
    let first = sent_by("first");
    assert_eq!(first.seq, 51);
    assert!(first.results[..50].iter().all(|result| result.fault.as_ref().unwrap().code == "forbidden"));
    assert!(first.results[50].ok.as_ref().unwrap().value.is_some());
    (1..16).for_each(|n| drop(sent_by(&format!("another {n}"))));
    let before = world.bytes();
    assert_eq!(sent_by("first"), first, "the same answer, of which nothing was kept");
    for n in 16..40 {
        assert_eq!(told(&sent_by(&format!("further {n}"))).len(), 51);
    }
    assert_eq!(world.bytes(), before);
    // Now the account may write. The numbers of the refused ones are used.
    let late =
        SyncRequest { ops: vec![op("first-7", 7, "doc.put", large("b", 10))], ..SyncRequest::of("first") };
    let promoted = Caller { may_write: true, ..caller("reader") };
    assert_eq!(told(&world.engine.sync("o", &promoted, &late).unwrap()), [("first-7", "session_reused")]);
}

#[test]
fn what_replaces_a_large_document_is_recorded_whole_or_as_its_change() {
    let seal = || Seal::with_key(&[7; 32]);
    let world = stored(Settings::default(), seal());
    let mut expected: Vec<Option<BTreeMap<String, Value>>> = Vec::new();
    let data = |args: &Value| args.as_map().unwrap()["data"].as_map().unwrap().clone();
    let mut now = data(&large("a", 5_000));
    now.insert("release".into(), Value::from(1));
    world.one("ann", "0", "doc.put", large("a", 5_000));
    expected.push(Some(now.clone()));
    for (n, (name, value)) in
        [("n", "1".into()), ("text", text(4_000)), ("m", text(900))].into_iter().enumerate()
    {
        world.one("ann", &format!("p{n}"), "doc.patch", patch_args("a", name, value.clone()));
        now.insert(name.into(), value);
        expected.push(Some(now.clone()));
    }
    world.one("ann", "unset", "doc.patch", with(patch_args("a", "n", "2".into()), "unset", list(&["m"])));
    now.remove("m");
    now.insert("n".into(), "2".into());
    expected.push(Some(now));
    world.one("ann", "d", "doc.delete", key_args("a"));
    expected.push(None);
    let states = world.states(&seal());
    assert_eq!(states[&format!("o/Note@{}", escale::model::sha_s("a"))], expected);
    let kinds = "SELECT group_concat(type) FROM (SELECT type FROM actions ORDER BY rowid)";
    let kinds: String = world.raw.query_row(kinds, [], |row| row.get(0)).unwrap();
    assert_eq!(kinds, "persist,update,persist,update,update,persist");
}

#[test]
fn a_server_sweeps_its_journal_and_every_state_that_stays_is_whole() {
    let settings = Settings { journal_max: 3, ..Settings::default() };
    let world = stored(settings, Seal::clear());
    world.one("ann", "s", "doc.put", large("a", 2_000));
    let actor = format!("o/Note@{}", escale::model::sha_s("a"));
    let mut longest = 0;
    for round in 0..40 {
        for n in 0..8 {
            let id = format!("{round}-{n}");
            assert!(world.one("ann", &id, "doc.patch", patch_args("a", "n", text(100 + n))).ok.is_some());
        }
        world.engine.purge().unwrap();
        let states = &world.states(&Seal::clear())[&actor];
        assert_eq!(states.last().unwrap().as_ref().unwrap()["n"], text(107));
        longest = longest.max(states.len());
        let (head, rows) = world.kept();
        assert_eq!(head, rows);
    }
    // A state comes at the sweep after ten changes, that is after 16. The newest three stay until the sweep after the next.
    assert!((20..70).contains(&longest), "{longest}");
    let gone = world.raw.query_row("SELECT count(*) FROM actions", [], |row| row.get::<_, usize>(0)).unwrap();
    assert!(gone < 70, "{gone}");
    // Small documents are recorded whole: the newest states stay.
    for n in 0..9 {
        world.one("ann", &format!("small-{n}"), "doc.put", large("b", n));
    }
    world.engine.purge().unwrap();
    assert_eq!(world.states(&Seal::clear())[&format!("o/Note@{}", escale::model::sha_s("b"))].len(), 3);
}

#[test]
fn r88_files_results_and_the_journal_count_in_quotas() {
    let world = stored(Settings::default(), Seal::clear());
    let next = std::cell::Cell::new(0);
    let run = |account: &str, name: &str, args: Value| {
        next.set(next.get() + 1);
        world.one(account, &format!("q{}", next.get()), name, args)
    };
    let code = |result: &OpResult| result.fault.as_ref().map_or("ok".to_owned(), |fault| fault.code.clone());
    let bytes = |of: &[(&str, Value)]| {
        let args = Value::Map(of.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect());
        let map = run("root", "quota.get", args).ok.unwrap().value.unwrap();
        let names: Vec<&str> = map.as_map().unwrap().keys().map(String::as_str).collect();
        assert!(["bytes", "documents"].iter().all(|name| names.contains(name)) && !names.contains(&"files"));
        map.as_map().unwrap()["bytes"].as_u64().unwrap()
    };
    let object = Object::new(&sha_of(&vec![7; 90_000]), None, vec![7; 90_000], 1 << 31).unwrap();
    Filing::of(&world.engine).put_object("o", &caller("ann"), &object).unwrap();
    let file = Value::from([("sha", Value::from(object.sha())), ("size", Value::from(90_000))]);
    let with_file = |id: &str| {
        let mut args = large(id, 10);
        let data = args.as_map_mut().unwrap().get_mut("data").unwrap();
        data.as_map_mut().unwrap().insert("file".into(), file.clone());
        args
    };
    assert_eq!(code(&run("root", "quota.set", [("bytes", Value::from(100_000))].into())), "ok");
    assert_eq!(code(&run("ann", "doc.put", with_file("a"))), "ok");
    let (of_ann, of_org) = (bytes(&[("of", "ann".into())]), bytes(&[]));
    assert!((90_050..90_300).contains(&of_ann) && of_org > of_ann + 300, "{of_ann}, {of_org}");
    assert_eq!(code(&run("ann", "doc.put", with_file("b"))), "quota_exceeded", "each reference counts");
    assert!(bytes(&[]) > of_org, "the result of the refusal");
    // Changes of the same size fill the journal, until it is full. Deletions are always possible.
    let mut changes = 0;
    while code(&run("ann", "doc.patch", patch_args("a", "shelf", text(changes % 2 + 1)))) == "ok" {
        changes += 1;
    }
    assert!((10..60).contains(&changes), "{changes}");
    assert_eq!(code(&run("ann", "doc.delete", key_args("a"))), "ok");
    assert_eq!(bytes(&[("of", "ann".into())]), 0);
    let full = bytes(&[]);
    world.clock.advance(91 * DAY);
    world.engine.purge().unwrap();
    assert!(bytes(&[]) < full / 2, "{full} bytes, and {} after results and journal were swept", bytes(&[]));
}

#[test]
fn r88_counters_of_an_earlier_program_are_counted_again_with_their_files() {
    let world = stored(Settings::default(), Seal::clear());
    let object = Object::new(&sha_of(&vec![7; 90_000]), None, vec![7; 90_000], 1 << 31).unwrap();
    Filing::of(&world.engine).put_object("o", &caller("ann"), &object).unwrap();
    let file = Value::from([("sha", Value::from(object.sha())), ("size", Value::from(90_000))]);
    world.one("ann", "1", "doc.put", large("a", 10));
    world.one("ann", "2", "doc.patch", patch_args("a", "file", file));
    let told = |world: &Stored, id: &str| {
        world.one("root", id, "quota.get", [("of", Value::from("ann"))].into()).ok.unwrap().value
    };
    let expected = told(&world, "3");
    let old = BTreeMap::from([("of".to_owned(), Value::from("")), ("documents".to_owned(), Value::from(1))]);
    let bytes = [&[0], Data::from_map(&old).unwrap().as_bytes()].concat();
    world
        .raw
        .execute("UPDATE documents SET data = ?1 WHERE class = '#counter' AND pk = 'org'", [bytes])
        .unwrap();
    let world = world.reopened();
    assert_eq!(told(&world, "4"), expected);
}

#[test]
fn a_result_that_an_earlier_program_stored_is_given_as_it_is() {
    let world = stored(Settings::default(), Seal::clear());
    world.one("ann", "1", "doc.put", large("a", 10));
    let conflict = world.one("ann", "2", "doc.put", with(large("a", 11), "ifVersion", 1));
    assert!(conflict.fault.as_ref().unwrap().doc.is_some());
    let bytes = [&[0], encode(Format::Msgpack, &conflict).unwrap().as_slice()].concat();
    assert_eq!(world.raw.execute("UPDATE ops SET result = ?1 WHERE id = '2'", [bytes]).unwrap(), 1);
    world.one("ann", "3", "doc.put", large("a", 12));
    assert_eq!(world.one("ann", "2", "doc.put", with(large("a", 11), "ifVersion", 1)), conflict);
}

#[test]
fn a_journal_of_which_all_is_kept_is_not_swept() {
    let world = stored(Settings { journal_max: 0, ..Settings::default() }, Seal::clear());
    for n in 0..30 {
        world.one("ann", &format!("{n}"), "doc.put", large("a", n));
    }
    world.engine.purge().unwrap();
    assert_eq!(world.states(&Seal::clear()).values().map(Vec::len).sum::<usize>(), 30);
}

#[test]
fn a_value_for_which_there_is_no_room_is_given_once_and_then_forgotten() {
    let world = stored(Settings::default(), Seal::clear());
    let before = world.bytes();
    for (bytes, again) in [(60_000, "ok"), (500_000, "forgotten")] {
        let ops = || vec![op(&format!("s{bytes}"), 1, "say", Value::from(bytes))];
        let session = format!("of {bytes}");
        let (reply, _) = world.ask("ann", &session, ops());
        assert_eq!(
            reply.results[0].ok.as_ref().unwrap().value.as_ref().unwrap().as_str().unwrap().len(),
            bytes as usize
        );
        assert_eq!(told(&world.ask("ann", &session, ops()).0)[0].1, again);
    }
    assert!(world.bytes() - before < 70_000);
}

#[test]
fn what_a_function_of_the_application_writes_has_no_bound() {
    let world = stored(Settings::default(), Seal::clear());
    assert!(world.one("ann", "s", "make", Value::from(400)).ok.is_some());
    assert!(world.one("ann", "t", "doc.put", large("a", 9)).ok.is_some());
}

#[test]
fn a_request_that_may_add_no_more_ends_early_and_goes_on_by_the_next() {
    let world = stored(Settings::default(), Seal::clear());
    let tags = |id: &str, n: u64| {
        let tags = (0..400).map(|t| word(t + n));
        let data = Value::from([("id", Value::from(id)), ("tags", Value::Array(tags.collect()))]);
        Value::from([("class", Value::from("Note")), ("data", data)])
    };
    let ops: Vec<Op> =
        (1..=9).map(|seq| op(&format!("o{seq}"), seq, "doc.put", tags(&seq.to_string(), seq))).collect();
    let (mut rest, mut requests) = (ops.as_slice(), 0);
    while !rest.is_empty() {
        let before = world.bytes();
        let (reply, sent) = world.ask("ann", "s", rest.to_vec());
        assert!(world.bytes() - before <= allowed(sent));
        assert!(!reply.results.is_empty() && reply.results.iter().all(|result| result.ok.is_some()));
        assert_eq!(reply.seq, 9 - rest.len() as u64 + reply.results.len() as u64);
        rest = &rest[reply.results.len()..];
        requests += 1;
    }
    assert!(requests > 1);
    // An operation that is alone above the bound is refused for good, and leaves its number.
    let many = (0..3_000).map(word).collect();
    let data = Value::from([("id", Value::from("z")), ("tags", Value::Array(many))]);
    let args = Value::from([("class", Value::from("Note")), ("data", data)]);
    let (reply, sent) = world.ask("ann", "s", vec![op("many", 10, "doc.put", args)]);
    assert_eq!((told(&reply), reply.seq), (vec![("many", "too_large")], 10), "{sent}");
}

#[test]
fn a_patch_of_a_document_in_many_defs_is_hinted_to_all_of_them_and_adds_little() {
    let world = stored(Settings::default(), Seal::clear());
    let long = |n: usize| word(format!("a tag with a longer name {n}"));
    let data = Value::from([("id", Value::from("a")), ("tags", Value::Array((0..500).map(long).collect()))]);
    let args = Value::from([("class", Value::from("Note")), ("data", data)]);
    assert!(world.one("ann", "s", "doc.put", args).ok.is_some());
    let provider = world.engine.provider();
    let seen = provider.changed(None, &mut |_| Ok(())).unwrap().seen;
    let before = world.bytes();
    for n in 0..20 {
        assert!(world.one("ann", &format!("p{n}"), "doc.patch", patch_args("a", "n", word(n))).ok.is_some());
    }
    assert!(world.bytes() - before < 20_000, "{}", world.bytes() - before);
    // One leaves: its row names that def, although the document is in it no more.
    let left = Value::Array((1..500).map(long).collect());
    assert!(world.one("ann", "q", "doc.patch", patch_args("a", "tags", left)).ok.is_some());
    let mut rows = Vec::new();
    let mut visit = |row| {
        rows.push(whole_row(&world.engine, row)?);
        Ok(())
    };
    provider.changed(Some(&seen), &mut visit).unwrap();
    let hash = |n: usize| {
        let (class, tags) = (Name::new("Note").unwrap(), Name::new("tags").unwrap());
        let def = Def::collection(&class, &tags, &[long(n).as_str().unwrap()]).unwrap();
        def.to_string().rsplit('@').next().unwrap().to_owned()
    };
    assert_eq!(rows.len(), 21);
    for row in &rows {
        let tags = &row.links["tags"];
        assert!(row.links.len() == 1 && (1..500).all(|n| tags.iter().any(|own| *own == hash(n))));
    }
    assert!(rows[20].links["tags"].iter().any(|own| *own == hash(0)));
}

#[test]
fn a_long_id_is_named_once_and_not_for_each_document_of_its_batch() {
    let world = stored(Settings::default(), Seal::clear());
    let id = "i".repeat(1_000);
    let before = world.bytes();
    let ops: Vec<Value> = (0..400)
        .map(|n| [("name", Value::from("doc.put")), ("args", put_args(&n.to_string(), "one"))].into())
        .collect();
    let (reply, sent) = world.ask("ann", "s", vec![op(&id, 1, "batch", [("ops", Value::Array(ops))])]);
    assert!(reply.results[0].ok.is_some(), "{:?}", reply.results[0].fault);
    assert!(world.bytes() - before <= allowed(sent));
    let causes = "SELECT count(DISTINCT commitId) || max(length(commitId)) FROM actions";
    assert_eq!(world.raw.query_row(causes, [], |row| row.get::<_, String>(0)).unwrap(), "122");
}
