//! R12: a permanent cause does not block a session for ever, and a passing one does not get an operation
//! refused.

use std::time::Duration;

use escale::Kind;
use escale::codec::Op;
use escale::model::Value;
use escale_server::engine::{Engine, TRIES_MAX};
use escale_server::seal::Seal;
use escale_server::settings::Settings;
use rusqlite::Connection;

use crate::support::operating::*;
use crate::support::world::*;

fn add(id: &str, seq: u64) -> Op {
    op(id, seq, "counter.add", add_args("c", 1))
}

fn database(world: &World) -> Connection {
    Connection::open(Engine::database_in(world.folder.path())).unwrap()
}

/// Sends the operation and one behind it until it is refused for good. Every attempt before the last ends the
/// results.
fn exhaust(world: &World, lasting: &Op, code: &str, kind: Kind) {
    let behind = add(&format!("behind-{}", lasting.id), lasting.seq + 1);
    for _ in 1..TRIES_MAX {
        let reply = send(&world.engine, vec![lasting.clone(), behind.clone()]);
        assert_eq!((told(&reply), reply.seq), (vec![(&*lasting.id, code)], lasting.seq - 1));
        let fault = reply.results[0].fault.as_ref().unwrap();
        assert_eq!((fault.kind, fault.phase), (kind, 1));
    }
    let reply = send(&world.engine, vec![lasting.clone(), behind]);
    let ids: Vec<&str> = told(&reply).iter().map(|(_, code)| *code).collect();
    assert_eq!((ids, reply.seq), (vec!["internal", "ok"], lasting.seq + 1));
    let fault = reply.results[0].fault.as_ref().unwrap();
    assert_eq!((fault.kind, fault.phase), (Kind::B, 1));
    assert!(fault.message.contains(code), "{}", fault.message);
    assert_eq!(send(&world.engine, vec![lasting.clone()]).results[0], reply.results[0], "it is the result");
}

#[test]
fn r12_an_operation_that_never_ends_in_time_is_refused_in_the_end() {
    let world = operating();
    exhaust(&world, &op("slow", 1, "slow", Value::Null), "contention", Kind::C);
    assert!(document(&world.engine, "Note", "slow").is_none(), "what it had written is taken back");
    let world = reopened(world);
    assert_eq!(told(&send(&world.engine, vec![op("slow", 1, "slow", Value::Null)])), [("slow", "internal")]);
}

#[test]
fn r12_an_operation_on_a_damaged_document_is_refused_in_the_end() {
    let world = operating();
    for (n, bytes) in ["x'05'", "x''", "x'00c1c1'"].into_iter().enumerate() {
        put(&world.engine, note("a", &n.to_string())).unwrap();
        let sql = format!("UPDATE documents SET data = {bytes} WHERE class = 'Note'");
        database(&world).execute(&sql, []).unwrap();
        let set = map([("size".to_owned(), Value::from(1))].into());
        let patch = op(&format!("patch-{n}"), 2 * n as u64 + 1, "doc.patch", with(key_args("a"), "set", set));
        exhaust(&world, &patch, "server_error", Kind::X);
        database(&world).execute("DELETE FROM documents WHERE class = 'Note'", []).unwrap();
    }
}

#[test]
fn r12_an_operation_that_always_asks_to_come_again_is_refused_in_the_end() {
    let world = operating();
    exhaust(&world, &op("c", 1, "fault", "contention"), "contention", Kind::C);
    exhaust(&world, &op("x", 3, "fault", "server_error"), "server_error", Kind::X);
    // Closed for a while is no reason to refuse, however long it takes.
    for _ in 0..3 * TRIES_MAX {
        let reply = send(&world.engine, vec![op("o", 5, "fault", "unavailable"), add("6", 6)]);
        assert_eq!((told(&reply), reply.seq), (vec![("o", "unavailable")], 4));
    }
}

#[test]
fn r12_what_passes_in_time_is_executed_once() {
    let world = operating();
    let slow = |id: &str| op(id, 1, "slow", Value::Null);
    for round in 0..3 {
        for _ in 1..TRIES_MAX {
            assert_eq!(
                code_of(&send(&world.engine, vec![slow(&round.to_string())]).results[0]),
                "contention"
            );
        }
        // Another operation in its position has its own attempts, and so has the operation after the next
        // success.
        assert_eq!(code_of(&send(&world.engine, vec![slow("other")]).results[0]), "contention");
    }
    assert_eq!(told(&send(&world.engine, vec![add("last", 1)])), [("last", "ok")]);
    for _ in 1..TRIES_MAX {
        assert_eq!(told(&send(&world.engine, vec![op("s", 2, "slow", 0)])), [("s", "contention")]);
    }
    assert_eq!(counted(&world.engine, "c"), 1);
}

#[test]
fn r12_waiting_for_others_is_no_try() {
    let folder = tempfile::tempdir().unwrap();
    let clock = escale_server::clock::ManualClock::at(NOON);
    let settings = Settings { write_wait: Duration::from_millis(1), ..Settings::default() };
    let engine = open_with(folder.path(), &clock, settings, Seal::clear());
    let another = engine.provider().write("o", Duration::ZERO).unwrap();
    for _ in 0..3 * TRIES_MAX {
        let reply = send(&engine, vec![add("a", 1)]);
        assert_eq!(told(&reply), [("a", "contention")]);
        let fault = reply.results[0].fault.as_ref().unwrap();
        assert_eq!((fault.kind, fault.phase), (Kind::C, 0), "it did not start");
    }
    drop(another);
    let held = |seq| Op { after: Some("nobody".into()), ..add("held", seq) };
    for _ in 0..3 * TRIES_MAX {
        assert_eq!(told(&send(&engine, vec![add("b", 2)])), [("b", "order_gap")]);
        assert_eq!(told(&send(&engine, vec![held(1)])), [("held", "order_held")]);
    }
    assert_eq!(told(&send(&engine, vec![add("a", 1), add("b", 2)])), [("a", "ok"), ("b", "ok")]);
}

/// The number of `lost` was used by `beside`, which its session has forgotten. The operation that met the
/// fault is known. Without a fault for `lost`, the session would take it as executed, because the reply's
/// `seq` covers it.
#[test]
fn r12_a_fault_stands_at_the_first_that_is_not_known() {
    let folder = tempfile::tempdir().unwrap();
    let clock = escale_server::clock::ManualClock::at(NOON);
    let settings = Settings { write_wait: Duration::from_millis(1), ..Settings::default() };
    let engine = open_with(folder.path(), &clock, settings, Seal::clear());
    send(&engine, vec![add("first", 1), add("beside", 2)]);
    let another = engine.provider().write("o", Duration::ZERO).unwrap();
    let reply = send(&engine, vec![add("first", 1), add("lost", 2), add("beside", 3)]);
    assert_eq!(
        (told(&reply), reply.seq),
        (vec![("first", "ok"), ("lost", "contention"), ("beside", "ok")], 2)
    );
    drop(another);
}

#[test]
fn r12_a_stored_result_that_cannot_be_read_ends_nothing() {
    let refused = op("refused", 2, "doc.delete", key_args("nobody"));
    for bytes in ["x''", "x'05'", "x'00c1'", "x'0001'"] {
        let world = operating();
        send(&world.engine, vec![add("1", 1), refused.clone(), add("3", 3)]);
        let sql = format!("UPDATE ops SET result = {bytes} WHERE seq < 3");
        database(&world).execute(&sql, []).unwrap();
        let first = vec![("1", "forgotten"), ("refused", "internal"), ("3", "ok")];
        let again = send(&world.engine, vec![add("1", 1), refused.clone(), add("3", 3)]);
        assert_eq!((told(&again), again.seq), (first.clone(), 3));
        // The same behind an operation that is not executed.
        let behind = send(&world.engine, vec![add("9", 9), add("1", 1), Op { seq: 2, ..refused.clone() }]);
        assert_eq!(told(&behind), [("9", "order_gap"), ("1", "forgotten"), ("refused", "internal")]);
        // A session with a new name uses its numbers for them, and continues.
        let ops = vec![add("1", 1), refused.clone(), add("3", 3), add("4", 4)];
        let renamed = send_as(&world.engine, "", "renamed", ops);
        assert_eq!((told(&renamed)[..3].to_vec(), renamed.seq), (first, 4));
        assert_eq!(counted(&world.engine, "c"), 3, "each was executed once");
    }
}
