//! R29: documents of local classes. One machine whose requests the test sees.

use std::sync::atomic::{AtomicU64, Ordering};

use escale::Code;
use escale::codec::{OpResult, Part, ServerFrame, ServerParts, SyncReply};
use escale::crypto::SeededRandom;
use escale::journal::{Change, ChangeKind, Policy, make_id};
use escale::limits::{LOCAL_BYTES_MAX, LOCAL_DOCUMENTS_MAX};
use escale::model::schema::Schema;
use escale::model::{Def, Name, Value, sha32};
use escale::store::MemoryDevice;
use escale::sync::{Application, Config, Effect, Event, Mode, Phase, Reader, Updates, Write};
use escale_testkit::client::Opening;

use crate::harness::{Harness, accepted, config, def, epoch, pk, reply, whole};
use crate::harness_with_device::Desk;

const SCHEMA: &str = r#"{
    "Note": { "key": ["id"] },
    "Draft": {
        "key": ["id"], "local": true,
        "collections": { "box": { "key": ["box"], "mutable": true } },
        "indexes": { "n": "integer" },
        "properties": { "photo": "file" }
    }
}"#;

fn opening(config: Config) -> Opening<'static> {
    Opening { x: [3; 32], config, ..Opening::of("o", "a", Schema::from_json(SCHEMA).expect("a schema")) }
}

fn bench_with(config: Config) -> Harness {
    Harness::of(opening(config).incognito("session"))
}

fn harness() -> Harness {
    bench_with(config())
}

/// No two openings issue one id.
static ISSUED: AtomicU64 = AtomicU64::new(0);

type Pairs<'a> = &'a [(&'a str, Value)];

fn map(pairs: Pairs<'_>) -> Value {
    Value::Map(pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
}

fn put(class: &str, id: &str, more: Pairs<'_>) -> (String, Value) {
    let data = [&[("id", Value::from(id))], more].concat();
    ("doc.put".into(), map(&[("class", class.into()), ("data", map(&data))]))
}

fn key(id: &str) -> Value {
    Value::Array(vec![id.into()])
}

fn patch(class: &str, id: &str, set: Pairs<'_>) -> (String, Value) {
    ("doc.patch".into(), map(&[("class", class.into()), ("key", key(id)), ("set", map(set))]))
}

fn delete(class: &str, id: &str) -> (String, Value) {
    ("doc.delete".into(), map(&[("class", class.into()), ("key", key(id))]))
}

fn batch(parts: &[(String, Value)]) -> (String, Value) {
    let op = |(name, args): &(String, Value)| map(&[("name", name.as_str().into()), ("args", args.clone())]);
    ("batch".into(), map(&[("ops", Value::Array(parts.iter().map(op).collect()))]))
}

/// Issues an operation as the package does. Returns its id.
fn write(harness: &mut Harness, (name, args): (String, Value)) -> escale::Result<String> {
    harness.client.machine.check_write(&name, &args)?;
    harness.now += 1;
    let n = ISSUED.fetch_add(1, Ordering::Relaxed);
    let id = make_id(1_700_000_000_000 + n, &mut SeededRandom::new(n)).expect("an id");
    harness.feed(Event::Write(Write { id: id.clone(), name, args, touches: vec![], after: vec![] }));
    Ok(id)
}

/// The reports on operations since the last call: `saved`, `accepted 0`, `amended`.
fn told(harness: &mut Harness) -> Vec<(String, String)> {
    harness.take(|effect| match effect {
        Effect::Saved { id } => Some((id.clone(), "saved".to_owned())),
        Effect::Accepted { id, result: Ok((v, _)) } => Some((id.clone(), format!("accepted {v}"))),
        Effect::Accepted { id, result: Err(error) } => Some((id.clone(), error.code().as_str().to_owned())),
        Effect::Refused { id, error } => Some((id.clone(), format!("refused {}", error.code().as_str()))),
        Effect::Amended { id, by } => Some((id.clone(), format!("amended by {by}"))),
        _ => None,
    })
}

fn done(id: &str) -> [(String, String); 2] {
    [(id.to_owned(), "saved".to_owned()), (id.to_owned(), "accepted 0".to_owned())]
}

/// The data of the documents that a def shows, with their values of `n`.
fn shown(harness: &Harness, text: &str) -> Vec<(String, Option<u64>)> {
    let machine = &harness.client.machine;
    let (ids, ..) = machine.list(&def(text)).expect("a subscription");
    let data = |id: &u32| {
        let (_, shown) = machine.memory().shown_by_id(*id).expect("an overlay");
        let data = shown.data.as_ref().expect("data").to_map().expect("a map");
        (data["id"].as_str().expect("text").to_owned(), data.get("n").and_then(Value::as_u64))
    };
    let mut rows: Vec<_> = ids.iter().map(data).collect();
    rows.sort();
    rows
}

/// The def of one draft.
fn one() -> Def {
    Def::document(&Name::new("Draft").expect("a name"), &pk("b"))
}

fn rows(pairs: &[(&str, Option<u64>)]) -> Vec<(String, Option<u64>)> {
    pairs.iter().map(|(id, n)| ((*id).to_owned(), *n)).collect()
}

#[test]
fn a_local_class_needs_no_server() {
    for mode in [Mode::Synced, Mode::Avion] {
        let mut harness = bench_with(Config { mode, has_live: true, ..config() });
        let of_box =
            Schema::from_json(SCHEMA).unwrap().def_of("Draft", &map(&[("box", "in".into())])).unwrap();
        for def in [def("Draft"), of_box.clone(), one()] {
            harness.subscribe(&def);
            assert!(harness.is_ready(&def), "at once, with no request");
            assert_eq!(harness.v(&def), 0);
            assert!(escale::memory::tree::is_whole(harness.client.machine.memory(), &def));
        }
        let a = write(&mut harness, put("Draft", "a", &[("box", "in".into()), ("n", 1.into())])).unwrap();
        assert_eq!(told(&mut harness), done(&a));
        write(&mut harness, put("Draft", "b", &[("box", "out".into())])).unwrap();
        assert_eq!(shown(&harness, "Draft"), rows(&[("a", Some(1)), ("b", None)]));
        assert_eq!(shown(&harness, &of_box.to_string()), rows(&[("a", Some(1))]));
        assert_eq!(shown(&harness, &one().to_string()), rows(&[("b", None)]));
        harness.wake(harness.now + 600_000);
        assert!(harness.requests.is_empty() && harness.opened_socket().is_none(), "nothing asks a server");
        let status = harness.client.machine.status();
        let phase = if mode == Mode::Avion { Phase::Avion } else { Phase::Live };
        assert_eq!((status.phase, status.pending, status.progress.is_some()), (phase, 0, false));
        assert!(harness.client.machine.operations().is_empty());
    }
}

#[test]
fn a_socket_registers_and_counts_no_local_def() {
    let mut harness = bench_with(Config { has_live: true, ..config() });
    harness.subscribe(&def("Draft"));
    harness.subscribe(&def("Note"));
    harness.serve(1_000, |def| whole(def, vec![]));
    let socket = harness.opened_socket().expect("a socket");
    harness.feed(Event::SocketOpened { socket });
    assert_eq!(harness.said()[0].subs, [def("Note")]);
    harness.frame(
        socket,
        ServerFrame::Live { live: vec![def("Note"), def("Draft")], refused: vec![], head: None, spread: 0 },
    );
    assert_eq!(harness.client.machine.status().updates, Some(Updates::Pushed));
    // A server that speaks of the class all the same.
    harness.frame(socket, ServerFrame::Hints(vec![(def("Draft"), 5)]));
    let row = |id: &str| crate::harness::row(id, 9);
    let parts = vec![Part { rows: vec![row("x")], ..Part::empty(def("Draft")) }];
    harness.frame(
        socket,
        ServerFrame::Parts(ServerParts { epoch: epoch(1), now: 2_000, delta: 100, seq: 0, parts }),
    );
    while let Some((_, request, _)) = harness.requests.pop_front() {
        assert!(request.subs.iter().all(|sub| sub.def != def("Draft")), "{request:?}");
    }
    assert_eq!(shown(&harness, "Draft"), []);
    assert!(harness.is_ready(&def("Draft")));
}

#[test]
fn an_epoch_touches_nothing_local() {
    let mut harness = harness();
    harness.subscribe(&def("Draft"));
    harness.subscribe(&def("Note"));
    harness.serve(1_000, |def| whole(def, vec![]));
    write(&mut harness, put("Draft", "a", &[])).unwrap();
    harness.take_all();
    harness.subscribe(&def("Note@z"));
    let (number, _) = harness.request();
    harness
        .answer(number, SyncReply { epoch: epoch(2), ..reply(3_000, vec![whole(&def("Note@z"), vec![])]) });
    let changed = harness.take(|effect| match effect {
        Effect::Changed { defs, .. } => Some(defs.clone()),
        _ => None,
    });
    assert!(!changed.concat().contains(&def("Draft")), "{changed:?}");
    assert!(harness.is_ready(&def("Draft")));
    assert_eq!(shown(&harness, "Draft"), rows(&[("a", None)]));
    assert!(harness.client.machine.lost_by_server().is_empty());
}

#[test]
fn a_patch_and_a_deletion_need_a_document() {
    let mut harness = harness();
    harness.subscribe(&def("Draft"));
    for op in [patch("Draft", "a", &[("n", 1.into())]), delete("Draft", "a")] {
        assert_eq!(write(&mut harness, op).unwrap_err().code(), Code::NotFound);
    }
    write(&mut harness, put("Draft", "a", &[("box", "in".into())])).unwrap();
    write(&mut harness, patch("Draft", "a", &[("n", 7.into())])).unwrap();
    assert_eq!(shown(&harness, "Draft"), rows(&[("a", Some(7))]));
    let end = write(&mut harness, delete("Draft", "a")).unwrap();
    assert_eq!(told(&mut harness)[4..], done(&end));
    assert_eq!(shown(&harness, "Draft"), []);
    assert_eq!(write(&mut harness, delete("Draft", "a")).unwrap_err().code(), Code::NotFound);
    // Within one batch as well.
    let all = [
        put("Draft", "b", &[]),
        patch("Draft", "b", &[("n", 2.into())]),
        put("Draft", "c", &[]),
        delete("Draft", "c"),
    ];
    let id = write(&mut harness, batch(&all)).unwrap();
    assert_eq!(shown(&harness, "Draft"), rows(&[("b", Some(2))]));
    assert_eq!(told(&mut harness).iter().filter(|(of, _)| *of == id).count(), 2, "once");
}

#[test]
fn a_local_document_has_no_version_and_no_policy() {
    struct Merging;
    impl Application for Merging {
        fn optimistic(&self, _: &str, _: &Value, _: &mut Reader<'_>) -> Option<escale::Result<Vec<Change>>> {
            None
        }
        fn policy(&self, _: &Name) -> Policy {
            Policy::Merge
        }
    }
    let mut harness =
        Harness::of(Opening { application: Box::new(Merging), ..opening(config()) }.incognito("session"));
    for version in [Value::from(0), map(&[("op", "0190b3c4-0000-7000-8000-0000000000f0".into())])] {
        let (name, mut args) = put("Draft", "a", &[]);
        args.as_map_mut().unwrap().insert("ifVersion".into(), version);
        assert_eq!(write(&mut harness, (name, args)).unwrap_err().code(), Code::BadOption);
    }
    harness.subscribe(&def("Draft"));
    write(&mut harness, put("Draft", "a", &[])).unwrap();
    write(&mut harness, patch("Draft", "a", &[("n", 1.into())])).unwrap();
    assert_eq!(shown(&harness, "Draft"), rows(&[("a", Some(1))]));
}

#[test]
fn an_operation_of_the_application_changes_no_local_document() {
    struct Publishes;
    impl Application for Publishes {
        fn optimistic(&self, _: &str, _: &Value, _: &mut Reader<'_>) -> Option<escale::Result<Vec<Change>>> {
            let key = (0, pk("a"));
            Some(Ok(vec![Change { key, kind: ChangeKind::Delete, if_version: None, tree: None }]))
        }
    }
    let mut harness =
        Harness::of(Opening { application: Box::new(Publishes), ..opening(config()) }.incognito("session"));
    harness.subscribe(&def("Draft"));
    write(&mut harness, put("Draft", "a", &[])).unwrap();
    write(&mut harness, ("publish".into(), map(&[]))).unwrap();
    assert_eq!(harness.error(), Some(Code::BadValue));
    assert_eq!(shown(&harness, "Draft"), rows(&[("a", None)]));
    // With the put or the deletion in a batch, it can.
    write(&mut harness, batch(&[("other".into(), map(&[])), delete("Draft", "a")])).unwrap();
    assert_eq!(shown(&harness, "Draft"), []);
    let sent: Vec<String> = harness
        .client
        .machine
        .operations()
        .iter()
        .map(|(op, _)| format!("{:?}", op.state.issued.args))
        .collect();
    assert!(sent.len() == 2 && !sent[1].contains("Draft"), "{sent:?}");
}

#[test]
fn a_draft_becomes_a_document_whatever_the_server_says() {
    for is_taken in [true, false] {
        let mut harness = harness();
        harness.subscribe(&def("Note"));
        harness.subscribe(&def("Draft"));
        harness.serve(1_000, |def| whole(def, vec![]));
        write(&mut harness, put("Draft", "a", &[])).unwrap();
        told(&mut harness);
        let parts = [delete("Draft", "a"), put("Note", "a", &[]), put("Draft", "b", &[("n", 4.into())])];
        let id = write(&mut harness, batch(&parts)).unwrap();
        assert_eq!(shown(&harness, "Draft"), rows(&[("b", Some(4))]), "before any answer");
        assert!(told(&mut harness).contains(&(id.clone(), "saved".into())));
        let (number, request) = harness.request();
        let [op] = &request.ops[..] else { panic!("{request:?}") };
        assert_eq!((op.id.clone(), op.args.clone()), (id.clone(), batch(&[put("Note", "a", &[])]).1));
        let fault = escale::codec::Fault::new(Code::Forbidden, "by the test");
        let result = if is_taken {
            accepted(op, 2_000)
        } else {
            OpResult { id: id.clone(), ok: None, fault: Some(fault) }
        };
        harness.answer(number, SyncReply { results: vec![result], seq: op.seq, ..reply(3_000, vec![]) });
        let end = if is_taken { "accepted 2000" } else { "refused forbidden" };
        assert_eq!(told(&mut harness), [(id.clone(), end.to_owned())]);
        assert_eq!(shown(&harness, "Draft"), rows(&[("b", Some(4))]));
        if !is_taken {
            // Only the server has a say on the operation in its place.
            let (_, args) = batch(&[put("Draft", "c", &[])]);
            let amended = harness.client.machine.check_amendment(&id, Some(&args));
            assert_eq!(amended.unwrap_err().code(), Code::BadValue);
            harness.feed(Event::Discard(id));
            assert_eq!(shown(&harness, "Draft"), rows(&[("a", None)]), "its local part is undone");
        }
    }
}

/// A later write of a draft stays as it is.
#[test]
fn a_discarded_batch_undoes_nothing_that_came_later() {
    let mut harness = harness();
    harness.subscribe(&def("Note"));
    harness.subscribe(&def("Draft"));
    harness.serve(1_000, |def| whole(def, vec![]));
    write(&mut harness, put("Draft", "a", &[])).unwrap();
    write(&mut harness, put("Draft", "b", &[("n", 1.into())])).unwrap();
    let parts = [delete("Draft", "a"), delete("Draft", "b"), put("Note", "a", &[])];
    let id = write(&mut harness, batch(&parts)).unwrap();
    let (number, request) = harness.request();
    let fault = escale::codec::Fault::new(Code::Forbidden, "by the test");
    let results = vec![OpResult { id: id.clone(), ok: None, fault: Some(fault) }];
    harness.answer(number, SyncReply { results, seq: request.ops[0].seq, ..reply(3_000, vec![]) });
    assert_eq!(shown(&harness, "Draft"), [], "its local part holds until somebody decides");
    write(&mut harness, put("Draft", "b", &[("n", 2.into())])).unwrap();
    harness.feed(Event::Discard(id));
    assert_eq!(shown(&harness, "Draft"), rows(&[("a", None), ("b", Some(2))]));
}

#[test]
fn a_device_has_room_for_so_many_local_documents() {
    let mut harness = harness();
    for n in 0..LOCAL_DOCUMENTS_MAX {
        write(&mut harness, put("Draft", &format!("d{n}"), &[])).unwrap();
    }
    let full =
        |harness: &mut Harness| write(harness, put("Draft", "more", &[])).map_err(|error| error.code());
    assert_eq!(full(&mut harness), Err(Code::TooLarge));
    write(&mut harness, put("Draft", "d0", &[("n", 1.into())])).unwrap();
    write(&mut harness, put("Note", "more", &[])).unwrap();
    let swap = [delete("Draft", "d0"), put("Draft", "more", &[])];
    write(&mut harness, batch(&swap)).unwrap();
    write(&mut harness, delete("Draft", "d1")).unwrap();
    assert!(full(&mut harness).is_ok());

    let mut harness = self::harness();
    let text = "x".repeat(1_000_000);
    let one = |n: usize| put("Draft", &format!("d{n}"), &[("text", text.as_str().into())]);
    let fit = LOCAL_BYTES_MAX / 1_000_100;
    for n in 0..fit {
        write(&mut harness, one(n)).unwrap();
    }
    assert_eq!(write(&mut harness, one(fit)).unwrap_err().code(), Code::TooLarge);
    write(&mut harness, one(0)).unwrap();
    write(&mut harness, put("Draft", "d0", &[])).unwrap();
    write(&mut harness, one(fit)).unwrap();
}

#[test]
fn files_of_local_documents_are_listed_and_wait_for_nothing() {
    let mut harness = bench_with(Config { has_files: true, ..config() });
    let sha = sha32("film");
    let photo = map(&[("sha", sha.as_str().into()), ("size", 9.into())]);
    let id = write(&mut harness, put("Draft", "a", &[("photo", photo)])).unwrap();
    assert_eq!(told(&mut harness), done(&id));
    for files in [harness.client.machine.files(false), harness.client.machine.files(true)] {
        assert_eq!(files, [sha.as_str()]);
    }
    assert!(
        harness.take(|effect| matches!(effect, Effect::Files { .. }).then_some(())).is_empty(),
        "no upload"
    );
    write(&mut harness, patch("Draft", "a", &[("photo", Value::Null)])).unwrap();
    assert_eq!(harness.client.machine.files(false), [] as [String; 0]);
}

fn reopened(device: &MemoryDevice) -> Desk {
    Desk::open_as(device, opening(config())).0
}

#[test]
fn a_draft_survives_openings_and_has_one_record() {
    let device = MemoryDevice::shared();
    let mut desk = reopened(&device);
    desk.harness.subscribe(&def("Draft"));
    for n in 0..40 {
        write(&mut desk.harness, put("Draft", "a", &[("n", n.into())])).unwrap();
        desk.work();
    }
    let mut desk = reopened(&device);
    assert!(desk.harness.is_ready(&def("Draft")), "a session that was opened again");
    assert_eq!(shown(&desk.harness, "Draft"), rows(&[("a", Some(39))]));
    assert_eq!(desk.harness.client.machine.layout().unwrap().journal_summary().records, 1);
    // Issued before the first was written: the last one takes their place.
    let ids: Vec<String> =
        (0..3).map(|n| write(&mut desk.harness, patch("Draft", "a", &[("n", n.into())])).unwrap()).collect();
    assert_eq!(told(&mut desk.harness), [], "nothing is saved yet");
    desk.work();
    assert_eq!(
        told(&mut desk.harness),
        ids.iter().flat_map(|id| done(id)).collect::<Vec<_>>(),
        "with the last one"
    );
    let mut desk = reopened(&device);
    assert_eq!(shown(&desk.harness, "Draft"), rows(&[("a", Some(2))]));
    write(&mut desk.harness, delete("Draft", "a")).unwrap();
    desk.work();
    assert_eq!(shown(&reopened(&device).harness, "Draft"), []);
}

/// An application that was rolled back to a release without the class must not lose the drafts.
#[test]
fn a_class_that_is_gone_for_a_while_keeps_its_documents() {
    let device = MemoryDevice::shared();
    let mut desk = reopened(&device);
    write(&mut desk.harness, put("Draft", "a", &[("n", 1.into())])).unwrap();
    desk.work();
    let older = Schema::from_json(r#"{"Note":{"key":["id"]}}"#).unwrap();
    let (mut desk, _) = Desk::open_as(&device, Opening { schema: older, ..opening(config()) });
    desk.harness.subscribe(&def("Note"));
    desk.work();
    desk.harness.serve(1_000, |def| whole(def, vec![]));
    desk.work();
    let mut desk = reopened(&device);
    desk.harness.subscribe(&def("Draft"));
    assert_eq!(shown(&desk.harness, "Draft"), rows(&[("a", Some(1))]));
}

/// The draft is deleted only in the batch that holds the note, even if the note's earlier state must be read first.
#[test]
fn the_parts_of_a_batch_are_written_together() {
    let device = MemoryDevice::shared();
    let mut desk = reopened(&device);
    desk.harness.subscribe(&def("Note"));
    desk.harness.serve(1_000, |def| {
        let data = escale::codec::Data::from_map(&[("id".to_owned(), Value::from("a"))].into()).unwrap();
        let row = escale::codec::Row { pk: pk("a"), v: 5, deleted: false, max_life: None, data: Some(data) };
        whole(def, vec![row])
    });
    desk.work();
    write(&mut desk.harness, put("Draft", "a", &[])).unwrap();
    desk.work();
    let mut desk = reopened(&device);
    desk.harness.subscribe(&def("Draft"));
    desk.work();
    let id = write(&mut desk.harness, batch(&[delete("Draft", "a"), patch("Note", "a", &[("n", 1.into())])]))
        .unwrap();
    desk.write();
    assert!(
        !told(&mut desk.harness).contains(&(id.clone(), "saved".into())),
        "the note's page is not read yet"
    );
    let mut other = reopened(&device);
    other.harness.subscribe(&def("Draft"));
    assert_eq!(shown(&other.harness, "Draft"), rows(&[("a", None)]), "a crash now loses neither");
    desk.work();
    assert!(told(&mut desk.harness).contains(&(id, "saved".into())));
    let mut other = reopened(&device);
    other.harness.subscribe(&def("Draft"));
    assert_eq!(shown(&other.harness, "Draft"), []);
    assert_eq!(other.harness.client.machine.operations().len(), 1);
}
