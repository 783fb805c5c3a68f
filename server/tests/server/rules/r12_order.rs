//! R12: operations of one session execute in its order. A refused one blocks the operations that depend on
//! it, and no others.

use escale::codec::{Op, SyncRequest};
use escale::model::Value;
use escale::{Code, Kind};

use crate::support::operating::*;
use crate::support::world::*;

fn append(n: u64) -> Op {
    op(&format!("op-{n}"), n, "list.append", n as i64)
}

fn appended(engine: &escale_server::engine::Engine) -> Vec<u64> {
    let map = document(engine, "Counter", "list").unwrap_or_default();
    let items = map.get("items").and_then(Value::as_array).unwrap_or_default().to_vec();
    items.iter().map(|item| item.as_u64().unwrap()).collect()
}

#[test]
fn r12_the_order_is_kept_over_parallel_requests() {
    let world = operating();
    let (engine, threads, each) = (&world.engine, 6, 10);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                // Later operations are retried until the earlier ones have arrived in another request.
                let ops: Vec<Op> = (1..=each).map(|n| append(thread * each + n)).collect();
                while send(engine, ops.clone()).results.iter().filter(|r| r.ok.is_some()).count() < ops.len()
                {
                    std::thread::yield_now();
                }
            });
        }
    });
    assert_eq!(appended(engine), (1..=threads * each).collect::<Vec<u64>>());
}

#[test]
fn r12_a_poisoned_operation_stops_nothing_else() {
    let world = operating();
    for (n, (name, args, code, kind)) in [
        ("nonsense", Value::Null, "unknown_operation", Kind::A),
        ("panic", Value::Null, "internal", Kind::B),
        ("large", Value::Null, "too_large", Kind::A),
        ("fault", Value::from("not_unique"), "not_unique", Kind::A),
        ("fault", Value::from("forbidden"), "forbidden", Kind::S),
        ("fault", Value::from("session_reused"), "internal", Kind::B),
        ("doc.put", Value::Null, "bad_value", Kind::A),
    ]
    .into_iter()
    .enumerate()
    {
        let seq = 2 * n as u64 + 1;
        let poisoned = op(&format!("poison-{n}"), seq, name, args);
        let reply = send(&world.engine, vec![poisoned.clone(), append(seq + 1)]);
        let codes: Vec<&str> = reply.results.iter().map(code_of).collect();
        assert_eq!((codes, reply.seq), (vec![code, "ok"], seq + 1), "{name}");
        assert_eq!(reply.results[0].fault.as_ref().unwrap().kind, kind);
        assert_eq!(send(&world.engine, vec![poisoned]).results[0], reply.results[0]);
        assert!(document(&world.engine, "Note", "half").is_none(), "what it had written is taken back");
    }
}

#[test]
fn r12_what_may_succeed_later_ends_the_results_and_leaves_nothing() {
    let world = operating();
    for code in ["contention", "unavailable", "server_error"] {
        let again = op("again", 1, "fault", code);
        let reply = send(&world.engine, vec![again, append(2)]);
        assert_eq!((told(&reply), reply.seq), (vec![("again", code)], 0));
    }
    assert!(document(&world.engine, "Note", "half").is_none());
    assert_eq!(told(&send(&world.engine, vec![append(1)])), [("op-1", "ok")]);
}

#[test]
fn r12_what_depends_on_a_refused_operation_is_held() {
    let world = operating();
    let refused = op("refused", 1, "doc.delete", key_args("nobody"));
    let after = |id: &str, n| Op { after: Some(id.into()), ..append(n) };
    let reply = send(&world.engine, vec![refused, append(2), after("refused", 3), append(4)]);
    assert_eq!(told(&reply), [("refused", "not_found"), ("op-2", "ok"), ("op-3", "order_held")]);
    assert_eq!(reply.seq, 2, "its number is not used");
    let fault = reply.results[2].fault.as_ref().unwrap();
    assert_eq!((fault.kind, fault.phase), (Kind::C, 0));
    assert_eq!(told(&send(&world.engine, vec![after("unknown", 3)])), [("op-3", "order_held")]);
    // Another operation has its number. Then it is executed, after the replacement of the refused one.
    let amended = op("amended", 3, "doc.put", put_args("nobody", "one"));
    let reply = send(&world.engine, vec![amended, Op { seq: 4, ..after("amended", 3) }]);
    assert_eq!(told(&reply), [("amended", "ok"), ("op-3", "ok")]);
    assert_eq!(appended(&world.engine), [2, 3]);
    // Sent again, an executed operation gets its result, even if the operation that it follows was refused.
    assert_eq!(told(&send(&world.engine, vec![Op { seq: 4, ..after("refused", 3) }])), [("op-3", "ok")]);
}

#[test]
fn r12_two_edits_of_one_document_do_not_conflict_with_each_other() {
    let world = operating();
    let v0 = put(&world.engine, note("a", "one")).unwrap().unwrap();
    let of = |id: &str| -> Value { [("op", Value::from(id))].into() };
    let patch = |id: &str, seq, if_version: Value| {
        let set = map([("size".to_owned(), Value::from(seq as i64))].into());
        op(id, seq, "doc.patch", with(with(key_args("a"), "set", set), "ifVersion", if_version))
    };
    let ops = vec![
        patch("p1", 1, Value::from(v0 as i64)),
        patch("p2", 2, of("p1")),
        // The document is equal already: this operation gives the version that the document has.
        op(
            "p3",
            3,
            "doc.patch",
            with(
                with(key_args("a"), "set", map([("size".to_owned(), Value::from(2))].into())),
                "ifVersion",
                of("p2"),
            ),
        ),
        patch("p4", 4, of("p3")),
    ];
    let reply = send(&world.engine, ops);
    assert!(told(&reply).iter().all(|(_, code)| *code == "ok"), "{:?}", told(&reply));
    // Another account writes: the next patch conflicts, and the patch that depends on it is held.
    put(&world.engine, note("a", "two")).unwrap();
    let reply = send(&world.engine, vec![patch("p5", 5, of("p4")), patch("p6", 6, of("p5")), append(7)]);
    assert_eq!(told(&reply), [("p5", "version_conflict"), ("p6", "order_held")]);
    let row = reply.results[0].fault.as_ref().unwrap().doc.as_ref().unwrap();
    assert_eq!(row.data.as_ref().unwrap().to_map().unwrap()["shelf"].as_str(), Some("two"));
    assert_eq!(told(&send(&world.engine, vec![patch("p7", 6, of("nobody"))])), [("p7", "order_held")]);
    let reply = send(&world.engine, vec![patch("p8", 6, Value::from(row.v as i64))]);
    assert_eq!(told(&reply), [("p8", "ok")]);
}

#[test]
fn r12_the_parts_hold_what_the_reply_s_seq_says() {
    let world = operating();
    put(&world.engine, note("a", "one")).unwrap();
    let ops = vec![op("1", 1, "doc.put", put_args("b", "one")), op("2", 2, "doc.delete", key_args("a"))];
    let request = SyncRequest { ops, subs: vec![sub(&shelf("one"), 1)], ..SyncRequest::of("s") };
    let reply = world.engine.sync("o", &caller(), &request).unwrap();
    let v = |at: usize| reply.results[at].ok.as_ref().unwrap().v;
    let rows: Vec<(u64, bool)> = reply.parts[0].rows.iter().map(|row| (row.v, row.deleted)).collect();
    assert_eq!((reply.seq, rows), (2, vec![(v(0), false), (v(1), true)]));
    assert!(v(0) < v(1) && reply.now >= v(1));
}

#[test]
fn r12_numbers_that_are_none_are_refused_whole() {
    let world = operating();
    for bad in [append(0), append(1 << 53), Op { after: Some(String::new()), ..append(1) }] {
        let request = SyncRequest { ops: vec![bad], ..SyncRequest::of("s") };
        assert_eq!(world.engine.sync("o", &caller(), &request).unwrap_err().code(), Code::Malformed);
    }
    assert_eq!(send(&world.engine, Vec::new()).seq, 0);
}
