//! Operations that change nothing: the document keeps its version, and operations based on them lose nothing.

use escale::codec::{Op, OpResult};
use escale::journal::Policy;
use escale::model::Value;
use escale::sync::{Effect, Event, Mode};

use super::driver::{Driver, NOW, id, put, server, stored};
use escale_testkit::schema::{data, key};
use escale_testkit::server::ModelServer;

fn patch(number: usize, by: i64) -> Value {
    let set = Value::from([("size", Value::from(by))]);
    Value::from([("class", "Doc".into()), ("key", id(number)), ("set", set)])
}

fn expecting(args: Value, of: &str) -> Value {
    let mut args = args;
    let of = Value::from([("op", Value::from(of))]);
    args.as_map_mut().expect("arguments").insert("ifVersion".into(), of);
    args
}

fn both(first: Value, second: Value) -> Value {
    let part = |args: Value| Value::from([("name", Value::from("doc.patch")), ("args", args)]);
    Value::from([("ops", Value::Array(vec![part(first), part(second)]))])
}

fn execute(server: &mut ModelServer, id: &str, name: &str, args: Value) -> OpResult {
    let seq = server.seq("s") + 1;
    let op = Op { id: id.into(), seq, name: name.into(), args, at: 0, after: None };
    server.execute(0, "s", &[op], (0, NOW), &mut || false).0.remove(0)
}

fn given(result: OpResult) -> u64 {
    result.ok.expect("accepted").v
}

#[test]
fn the_model_gives_the_highest_version_of_what_an_operation_asked_to_write() {
    let mut server = server(2);
    let version = |server: &ModelServer, number| server.db.docs[&key(number)].v;
    let held = [version(&server, 0), version(&server, 1)];
    assert_eq!(given(execute(&mut server, "same", "doc.patch", patch(0, 0))), held[0]);
    let v = given(execute(&mut server, "both", "batch", both(patch(0, 5), patch(1, 0))));
    assert_eq!((version(&server, 0), version(&server, 1)), (v, held[1]), "only one of them changed");
    for (number, id) in [(0, "a"), (1, "b")] {
        given(execute(&mut server, id, "doc.patch", expecting(patch(number, 7), "both")));
    }
    put(&mut server, 1, data(1, None, 0, 0));
    let late = execute(&mut server, "late", "doc.patch", expecting(patch(1, 8), "both"));
    assert_eq!(late.fault.expect("somebody wrote since").code, "version_conflict");
}

/// A write was once dropped although nobody else wrote.
#[test]
fn r12_an_edit_upon_one_that_changed_nothing_is_no_conflict() {
    for policy in [Policy::Server, Policy::Client, Policy::Merge] {
        let mut server = server(1);
        let mut driver = Driver::new(0, Mode::Synced, policy);
        driver.subscribe(&mut server);
        driver.feed(Event::Network(false));
        driver.patch(0, &[("size", 0)]);
        driver.patch(0, &[("size", 5)]);
        driver.feed(Event::Network(true));
        driver.settle(&mut server);
        assert_eq!(stored(&server, 0, "size"), Some(5), "{policy:?}");
        let is_conflict = |effect: &Effect| {
            matches!(effect, Effect::Accepted { result: Err(_), .. } | Effect::Amended { .. })
        };
        assert!(!driver.hooks.told.iter().any(is_conflict), "{policy:?}: {:?}", driver.hooks.told);
    }
}

/// The version of a batch is that of the documents that it changed: an unchanged document is older.
#[test]
fn r12_a_batch_that_changed_one_document_may_be_built_on_with_the_other() {
    for policy in [Policy::Server, Policy::Client, Policy::Merge] {
        let mut server = server(2);
        let mut driver = Driver::new(0, Mode::Synced, policy);
        driver.subscribe(&mut server);
        driver.write("batch", both(patch(0, 5), patch(1, 0)));
        let (number, request) = driver.sent.take().expect("sent");
        // While the batch is in progress.
        driver.patch(1, &[("size", 7)]);
        let reply = driver.answer(&mut server, &request);
        driver.feed(Event::Replied { number, reply: Ok(reply) });
        driver.settle(&mut server);
        assert_eq!(stored(&server, 1, "size"), Some(7), "{policy:?}: {:?}", driver.hooks.told);
    }
}
