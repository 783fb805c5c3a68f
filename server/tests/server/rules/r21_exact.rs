//! R21: replies on the clock `sequence` are exact, and results tell the numbers that operations took.

use std::collections::BTreeMap;

use escale::codec::{Op, OpResult};
use escale::model::{Pk, Value};
use escale_server::settings::Settings;

use super::r20_numbers::{numbered, numbered_with, stored};
use crate::support::items::*;
use crate::support::operating::{list, map, op, send, told, with};
use crate::support::session::Session;
use crate::support::world::*;

#[test]
fn r21_a_page_between_deletions_ends_with_the_members_of_its_own_number() {
    let world = numbered_with(Settings { page_bytes: 300, ..Settings::default() });
    write(&world.engine, |w| {
        w.put("Asso", asso("p"))?;
        (0..9).try_for_each(|num| w.put("Adh", adh("p", &num.to_string())).map(drop))
    });
    let mut session = Session::new(&members("p"));
    assert!(!session.pull_page(&world.engine));
    let sent = session.held(NOON).keys().next().unwrap().clone();
    write(&world.engine, |w| w.delete("Adh", &adh("p", &sent)));
    session.pull(&world.engine);
    assert_eq!((session.v, session.held(NOON).len(), session.held(NOON).get(&sent)), (1, 8, None));
    session.pull(&world.engine);
    assert_eq!((session.v, session.held(NOON).len()), (2, 8));
}

fn put_args(class: &str, data: BTreeMap<String, Value>) -> Value {
    [("class", class.into()), ("data", map(data))].into()
}

fn text(data: BTreeMap<String, Value>, text: &str) -> BTreeMap<String, Value> {
    data.into_iter().chain([("text".to_owned(), text.into())]).collect()
}

fn put_op(id: &str, seq: u64, class: &str, data: BTreeMap<String, Value>) -> Op {
    op(id, seq, "doc.put", put_args(class, data))
}

fn of(op: Op, id: &str) -> Op {
    Op { args: with(op.args, "ifVersion", [("op", Value::from(id))]), ..op }
}

fn trees(result: &OpResult) -> Vec<(String, u64)> {
    let ok = result.ok.as_ref().unwrap();
    ok.trees.iter().map(|(class, pk, n)| (format!("{class}@{pk}"), *n)).collect()
}

#[test]
fn r21_a_result_tells_the_numbers_that_the_operation_took_and_keeps_them() {
    let world = numbered();
    let pk = |id: &str| format!("Asso@{}", Pk::from_key(&[id]).unwrap());
    let batch = |puts: Vec<(&str, BTreeMap<String, Value>)>| -> Value {
        let one =
            |(class, data)| -> Value { [("name", "doc.put".into()), ("args", put_args(class, data))].into() };
        [("ops", Value::Array(puts.into_iter().map(one).collect()))].into()
    };
    let both =
        vec![("Asso", asso("p")), ("Asso", asso("q")), ("Adh", adh("p", "1")), ("Note", note("a", "s"))];
    let ops = vec![
        op("a", 1, "batch", batch(both)),
        put_op("b", 2, "Adh", adh("p", "2")),
        put_op("c", 3, "Adh", adh("p", "1")),
        put_op("d", 4, "Note", note("b", "s")),
    ];
    let reply = send(&world.engine, ops.clone());
    let told: Vec<_> = reply.results.iter().map(trees).collect();
    let first = vec![(pk("p"), 1), (pk("q"), 1)];
    assert_eq!(
        told,
        [first, vec![(pk("p"), 2)], vec![(pk("p"), 1)], vec![]],
        "an equal document keeps its version"
    );
    let v = |at: usize| reply.results[at].ok.as_ref().unwrap().v;
    assert!(v(0) >= NOON && v(1) > v(0) && v(2) == 0 && v(3) > v(1), "other versions are times");
    assert_eq!(send(&world.engine, ops).results, reply.results);
    // A refused operation takes none.
    send(
        &world.engine,
        vec![op("e", 5, "doc.delete", [("class", "Adh".into()), ("key", list(&["p", "9"]))])],
    );
    assert_eq!(
        trees(&send(&world.engine, vec![put_op("f", 6, "Adh", adh("q", "1"))]).results[0]),
        [(pk("q"), 2)]
    );
    assert_eq!(stored(&world.engine, "p").n, 2);
}

#[test]
fn r21_a_precondition_on_an_operation_compares_numbers_of_its_tree() {
    let world = numbered_with(Settings { results_days: 1, ..Settings::default() });
    let engine = &world.engine;
    send(engine, vec![put_op("a", 1, "Asso", asso("p")), put_op("b", 2, "Adh", adh("p", "1"))]);
    send(engine, vec![put_op("other", 3, "Asso", asso("q"))]);
    // Nobody has written it since, though the tree has gone on.
    send(engine, vec![put_op("c", 4, "Adh", adh("p", "2"))]);
    let next = of(put_op("d", 5, "Adh", text(adh("p", "1"), "x")), "b");
    assert_eq!(told(&send(engine, vec![next])), [("d", "ok")]);
    let late = of(put_op("e", 6, "Adh", text(adh("p", "1"), "y")), "b");
    assert_eq!(told(&send(engine, vec![late])), [("e", "version_conflict")]);
    // The named operation wrote nothing in this tree: nothing shows whether somebody wrote the document since.
    let reply = send(engine, vec![of(put_op("f", 7, "Adh", text(adh("p", "2"), "x")), "other")]);
    let doc = reply.results[0].fault.as_ref().unwrap().doc.clone().unwrap();
    assert_eq!((told(&reply), doc.v), (vec![("f", "version_conflict")], 3));
    // A plain number, too.
    let at = |v: i64| {
        let Op { args, .. } = put_op("", 0, "Adh", text(adh("p", "2"), "x"));
        with(args, "ifVersion", v)
    };
    let ops = vec![op("g", 8, "doc.put", at(2)), op("h", 9, "doc.put", at(3))];
    assert_eq!(told(&send(engine, ops)), [("g", "version_conflict"), ("h", "ok")]);
    // The result of `h` is purged, and its numbers with it.
    world.clock.advance(2 * DAY);
    engine.purge().unwrap();
    let gone = of(put_op("i", 10, "Adh", text(adh("p", "2"), "z")), "h");
    assert_eq!(told(&send(engine, vec![gone])), [("i", "order_held")]);
}
