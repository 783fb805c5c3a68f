//! The version that an operation gives, and who may refer to it: `ifVersion: {op}` holds as long as nobody
//! has written since.
#![allow(clippy::result_large_err)] // as in the engine

use escale::codec::Op;
use escale::model::Value;

use crate::support::operating::*;
use crate::support::world::*;

fn of(id: &str) -> Value {
    [("op", Value::from(id))].into()
}

fn sized(id: &str, size: i64) -> Value {
    with(key_args(id), "set", map([("size".to_owned(), Value::from(size))].into()))
}

fn batch(items: &[(&str, Value)]) -> Value {
    let item = |(name, args): &(&str, Value)| -> Value {
        [("name", Value::from(*name)), ("args", args.clone())].into()
    };
    [("ops", Value::Array(items.iter().map(item).collect()))].into()
}

/// The version that an operation gives. The operation is the session's next.
fn given(world: &World, id: &str, name: &str, args: Value) -> u64 {
    let seq = send(&world.engine, Vec::new()).seq + 1;
    let reply = send(&world.engine, vec![op(id, seq, name, args)]);
    assert_eq!(told(&reply), [(id, "ok")]);
    reply.results[0].ok.as_ref().unwrap().v
}

fn version(world: &World, id: &str) -> u64 {
    let pk = escale::model::Pk::from_key(&[id]).unwrap();
    pull(&world.engine, &def(&format!("Note@{pk}")), 0).rows[0].v
}

fn refused(world: &World, id: &str, name: &str, args: Value) -> String {
    let seq = send(&world.engine, Vec::new()).seq + 1;
    told(&send(&world.engine, vec![op(id, seq, name, args)]))[0].1.to_owned()
}

#[test]
fn an_operation_that_changes_nothing_leaves_the_document_and_gives_its_version() {
    let world = operating();
    let v = given(&world, "put", "doc.put", put_args("a", "one"));
    let revision = world.engine.provider().read().unwrap().head("o").unwrap().unwrap().highest;
    assert_eq!(given(&world, "same", "doc.put", put_args("a", "one")), v);
    let nothing = || map([("shelf".to_owned(), Value::from("one"))].into());
    assert_eq!(given(&world, "patch", "doc.patch", with(key_args("a"), "set", nothing())), v);
    assert_eq!(version(&world, "a"), v);
    assert_eq!(world.engine.provider().read().unwrap().head("o").unwrap().unwrap().highest, revision);
}

#[test]
fn a_write_may_name_an_operation_that_changed_nothing() {
    let world = operating();
    given(&world, "put", "doc.put", put_args("a", "one"));
    given(&world, "same", "doc.put", put_args("a", "one"));
    let v = given(&world, "real", "doc.patch", with(sized("a", 1), "ifVersion", of("same")));
    assert_eq!(version(&world, "a"), v);
}

#[test]
fn each_document_of_a_batch_may_be_written_by_whoever_names_it() {
    let world = operating();
    let held = given(&world, "held", "doc.put", put_args("b", "one"));
    let v = given(
        &world,
        "both",
        "batch",
        batch(&[("doc.put", put_args("a", "one")), ("doc.put", put_args("b", "one"))]),
    );
    assert!(v > held);
    assert_eq!((version(&world, "a"), version(&world, "b")), (v, held), "only one of them changed");
    for id in ["a", "b"] {
        given(&world, id, "doc.patch", with(sized(id, 1), "ifVersion", of("both")));
    }
    assert_eq!(
        refused(&world, "late", "doc.delete", with(key_args("b"), "ifVersion", of("both"))),
        "version_conflict"
    );
}

#[test]
fn whoever_names_an_operation_hears_that_somebody_wrote_since() {
    let world = operating();
    given(&world, "held", "doc.put", put_args("b", "one"));
    given(
        &world,
        "both",
        "batch",
        batch(&[("doc.put", put_args("a", "one")), ("doc.put", put_args("b", "one"))]),
    );
    put(&world.engine, note("b", "two")).unwrap();
    let late = || with(sized("b", 1), "ifVersion", of("both"));
    assert_eq!(refused(&world, "late", "doc.patch", late()), "version_conflict");
    delete(&world.engine, "b").unwrap();
    assert_eq!(
        refused(&world, "later", "doc.patch", late()),
        "version_conflict",
        "a tombstone was written too"
    );
}

#[test]
fn a_tombstone_may_be_named_by_the_operation_that_left_it() {
    let world = operating();
    given(&world, "put", "doc.put", put_args("a", "one"));
    given(&world, "gone", "doc.delete", key_args("a"));
    given(&world, "other", "doc.put", put_args("b", "one"));
    let patch = with(sized("a", 1), "ifVersion", of("gone"));
    assert_eq!(
        refused(&world, "patch", "doc.patch", patch),
        "not_found",
        "the version is right, and nothing lives"
    );
    given(&world, "again", "doc.put", with(put_args("a", "two"), "ifVersion", of("gone")));
}

/// In a class without tombstones, nothing shows whether somebody deleted the document since.
#[test]
fn a_document_that_left_nothing_has_no_version_that_an_operation_gave() {
    let world = operating();
    let log = || with(put_args("a", "one"), "class", "Log");
    given(&world, "put", "doc.put", log());
    world.engine.write("o", |w| w.delete("Log", &key("a"))).unwrap();
    assert_eq!(refused(&world, "late", "doc.put", with(log(), "ifVersion", of("put"))), "version_conflict");
}

#[test]
fn an_operation_that_named_no_document_gives_0_and_whoever_names_it_expects_none() {
    let world = operating();
    assert_eq!(given(&world, "none", "batch", batch(&[])), 0);
    assert_eq!(given(&world, "who", "who", Value::Null), 0);
    given(&world, "put", "doc.put", with(put_args("a", "one"), "ifVersion", of("none")));
    assert_eq!(
        refused(&world, "late", "doc.put", with(put_args("a", "two"), "ifVersion", of("none"))),
        "version_conflict"
    );
}

#[test]
fn an_operation_of_the_application_gives_the_version_of_what_it_put_or_deleted() {
    let world = operating();
    let first = given(&world, "add", "counter.add", add_args("c", 1));
    let v = given(&world, "nothing", "counter.add", add_args("c", 0));
    assert_eq!(v, first, "it put what was there already");
    put(&world.engine, note("a", "one")).unwrap();
    let v = given(&world, "take", "take", Value::from("a"));
    assert_eq!(version(&world, "a"), v);
}

/// If a batch writes a document twice, the second write meets the result of the first one.
#[test]
fn a_batch_may_write_one_document_twice_and_only_the_first_can_expect_a_version() {
    let world = operating();
    let first = given(&world, "put", "doc.put", put_args("a", "one"));
    let expecting = |v| with(sized("a", 2), "ifVersion", v);
    let both = |second: Value| batch(&[("doc.patch", sized("a", 1)), ("doc.patch", second)]);
    for second in [expecting(Value::from(first as i64)), expecting(of("put"))] {
        assert_eq!(refused(&world, &format!("{second:?}"), "batch", both(second)), "version_conflict");
    }
    let v = given(&world, "both", "batch", both(sized("a", 2)));
    assert_eq!(version(&world, "a"), v);
    let again =
        batch(&[("doc.delete", key_args("a")), ("doc.put", with(put_args("a", "two"), "ifVersion", 0))]);
    given(&world, "again", "batch", again);
}

/// Edits made offline, each on top of the other, of which one changes nothing. Nobody else wrote, so nothing
/// is lost.
#[test]
fn a_chain_of_edits_holds_whatever_each_of_them_changes() {
    let world = operating();
    put(&world.engine, note("a", "one")).unwrap();
    let edit = |id: &str, seq, size, before: &str| -> Op {
        op(id, seq, "doc.patch", with(sized("a", size), "ifVersion", of(before)))
    };
    let first = op("e1", 1, "doc.patch", sized("a", 1));
    let ops = vec![
        first,
        edit("e2", 2, 1, "e1"),
        edit("e3", 3, 2, "e2"),
        edit("e4", 4, 2, "e3"),
        edit("e5", 5, 3, "e4"),
    ];
    let reply = send(&world.engine, ops);
    assert!(told(&reply).iter().all(|(_, code)| *code == "ok"), "{:?}", told(&reply));
}
