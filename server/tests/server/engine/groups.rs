//! Operations of a request share transactions, in groups: each with its own savepoint and version, and all of
//! a group or none.
#![allow(clippy::result_large_err)] // as in the engine

use std::sync::Arc;

use escale::Kind;
use escale::codec::{Op, SyncReply};
use escale::model::Value;
use escale_server::engine::Engine;
use escale_server::provider::Head;
use escale_server::seal::Seal;
use escale_server::settings::Settings;
use proptest::prelude::*;

use crate::support::operating::*;
use crate::support::world::*;

/// Operations in one group.
const GROUP: usize = 32;

fn head(engine: &Engine) -> Option<Head> {
    engine.provider().read().unwrap().head("o").unwrap()
}

fn commits(engine: &Engine) -> u64 {
    engine.provider().read().unwrap().site().unwrap().commits
}

/// Operation `seq`, which puts a note of that id.
fn put_op(seq: u64) -> Op {
    op(&format!("op{seq}"), seq, "doc.put", put_args(&seq.to_string(), "one"))
}

fn versions(reply: &SyncReply) -> Vec<u64> {
    reply.results.iter().map(|result| result.ok.as_ref().unwrap().v).collect()
}

#[test]
fn a_group_has_32_operations_and_each_its_own_version() {
    for (count, groups) in [(1, 1), (GROUP, 1), (GROUP + 1, 2), (3 * GROUP, 3), (500, 16)] {
        let folder = quick_folder();
        let clock = escale_server::clock::ManualClock::at(NOON);
        let engine = open_with(folder.path(), &clock, Settings::default(), Seal::clear());
        let before = commits(&engine);
        let reply = send(&engine, (1..=count as u64).map(put_op).collect());
        assert_eq!(versions(&reply), (NOON..NOON + count as u64).collect::<Vec<_>>());
        // All of them, and no other: `now` is no further than the versions.
        let head = head(&engine).unwrap();
        assert_eq!((commits(&engine) - before, head.commits), (groups, groups), "{count}");
        assert_eq!(head.highest, NOON + count as u64 - 1);
    }
}

#[test]
fn a_group_takes_no_further_operation_after_200_ms() {
    for (ms, groups) in [(0, 1), (22, 1), (23, 2), (67, 4), (199, 5), (200, 10), (999, 10)] {
        let World { folder, clock, engine } = operating();
        drop(engine);
        let passing = clock.clone();
        let engine = open_with(folder.path(), &clock, Settings::default(), Seal::clear())
            .operation("pass", move |tx, _| {
                passing.advance(ms);
                tx.put("Note", note(&tx.now().to_string(), "one"))?;
                Ok(None)
            })
            .unwrap();
        let before = commits(&engine);
        let ops = (1..=10).map(|seq| op(&seq.to_string(), seq, "pass", Value::Null)).collect();
        let reply = send(&engine, ops);
        assert_eq!(versions(&reply).len(), 10);
        // The reply stores its `now`, if that is far above the versions.
        let told = u64::from(reply.now > versions(&reply)[9] + 500);
        assert_eq!(commits(&engine) - before - told, groups, "{ms} ms each");
    }
}

#[test]
fn an_operation_refused_in_the_middle_of_a_group_is_undone_alone() {
    let world = operating();
    let before = commits(&world.engine);
    let refused = op("no", 2, "fault", "not_found");
    let panics = op("panic", 4, "panic", Value::Null);
    let ops = vec![put_op(1), refused, put_op(3), panics, put_op(5)];
    let reply = send(&world.engine, ops.clone());
    let expected = [("op1", "ok"), ("no", "not_found"), ("op3", "ok"), ("panic", "internal"), ("op5", "ok")];
    assert_eq!((told(&reply), reply.seq), (expected.to_vec(), 5));
    assert_eq!(commits(&world.engine) - before, 1);
    assert_eq!(ids(&pull(&world.engine, &def("Note"), 0)), ["1", "3", "5"]);
    assert_eq!(send(&world.engine, ops).results, reply.results, "each result is stored");
    assert_eq!(commits(&world.engine) - before, 1, "known operations write nothing");
}

#[test]
fn an_operation_not_executed_ends_its_group_and_leaves_nothing() {
    for code in ["contention", "server_error", "unavailable"] {
        let world = operating();
        let before = commits(&world.engine);
        let ops = vec![put_op(1), put_op(2), op("later", 3, "fault", code), put_op(4)];
        let reply = send(&world.engine, ops);
        assert_eq!(told(&reply), [("op1", "ok"), ("op2", "ok"), ("later", code)]);
        assert_eq!((reply.seq, commits(&world.engine) - before), (2, 1));
        assert_eq!(ids(&pull(&world.engine, &def("Note"), 0)), ["1", "2"]);
        // The session sends it again, as another operation here, and the rest.
        let again = vec![put_op(2), op("later", 3, "doc.put", put_args("3", "one")), put_op(4)];
        assert_eq!(told(&send(&world.engine, again)), [("op2", "ok"), ("later", "ok"), ("op4", "ok")]);
    }
}

/// A result is given after the commit, so nobody sees part of a group.
#[test]
fn a_group_becomes_visible_all_at_once() {
    let World { folder, clock, engine } = operating();
    drop(engine);
    let settings = || Settings { write_wait: std::time::Duration::ZERO, ..Settings::default() };
    let other = Arc::new(open_with(folder.path(), &clock, settings(), Seal::clear()));
    let looking = other.clone();
    let engine = open_with(folder.path(), &clock, settings(), Seal::clear())
        .operation("look", move |tx, _| {
            assert!(tx.get("Note", &["1"])?.is_some(), "within the group");
            let seen = ids(&pull(&looking, &def("Note"), 0)).len() as i64;
            // A copy of the request, at another instance.
            let copied = told(&send(&looking, vec![put_op(1)]))[0].1 == "contention";
            Ok(Some(Value::Array(vec![Value::from(seen), Value::from(copied)])))
        })
        .unwrap();
    let reply = send(&engine, vec![put_op(1), op("look", 2, "look", Value::Null), put_op(3)]);
    let seen = reply.results[1].ok.as_ref().unwrap().value.clone();
    assert_eq!(seen, Some(Value::Array(vec![Value::from(0), Value::from(true)])));
    assert_eq!(ids(&pull(&other, &def("Note"), 0)), ["1", "3"]);
}

fn with_trigger(world: &World, sql: &str) -> rusqlite::Connection {
    let raw = rusqlite::Connection::open(Engine::database_in(world.folder.path())).unwrap();
    raw.execute_batch(sql).unwrap();
    raw
}

#[test]
fn r11_a_group_whose_commit_fails_leaves_nothing_and_gives_no_result() {
    let world = operating();
    send(&world.engine, vec![put_op(1)]);
    let raw = with_trigger(
        &world,
        "CREATE TRIGGER t BEFORE UPDATE ON heads BEGIN SELECT RAISE(ABORT, 'as asked'); END",
    );
    let ops = || vec![put_op(1), put_op(2), op("no", 3, "fault", "not_found"), put_op(4)];
    let reply = send(&world.engine, ops());
    // The first one is known from before.
    assert_eq!((told(&reply), reply.seq), (vec![("op1", "ok"), ("op2", "server_error")], 1));
    let fault = reply.results[1].fault.as_ref().unwrap();
    assert_eq!((fault.kind, fault.phase), (Kind::X, 2));
    assert_eq!(ids(&pull(&world.engine, &def("Note"), 0)), ["1"]);
    raw.execute_batch("DROP TRIGGER t").unwrap();
    let expected = [("op1", "ok"), ("op2", "ok"), ("no", "not_found"), ("op4", "ok")];
    assert_eq!(told(&send(&world.engine, ops())), expected);
}

/// A statement fails while an operation's result is stored.
#[test]
fn r11_a_group_keeps_what_was_done_before_a_failure_unless_the_database_gave_up_all() {
    for (way, before) in [("ABORT", 1), ("ROLLBACK", 0)] {
        let world = operating();
        let raw = with_trigger(
            &world,
            &format!(
                "CREATE TRIGGER t BEFORE INSERT ON ops WHEN NEW.id = 'op2'
                 BEGIN SELECT RAISE({way}, 'as asked'); END"
            ),
        );
        let ops = || vec![put_op(1), put_op(2), put_op(3)];
        let reply = send(&world.engine, ops());
        let expected = [("op1", "ok"), ("op2", "server_error")];
        let given_up = [("op1", "server_error")];
        assert_eq!(told(&reply), if before == 1 { &expected[..] } else { &given_up[..] });
        assert_eq!((reply.seq, ids(&pull(&world.engine, &def("Note"), 0)).len()), (before, before as usize));
        raw.execute_batch("DROP TRIGGER t").unwrap();
        assert_eq!(told(&send(&world.engine, ops())), [("op1", "ok"), ("op2", "ok"), ("op3", "ok")]);
    }
}

/// An operation of a random request: refused, not executed, sent again, or a write.
fn any_op() -> impl Strategy<Value = (u8, u8)> {
    (0..12_u8, 0..4_u8)
}

fn ops_of(kinds: &[(u8, u8)]) -> Vec<Op> {
    let of = |((kind, id), seq): (&(u8, u8), u64)| {
        let name = format!("op{seq}");
        match kind {
            0 => op(&name, seq, "fault", "not_found"),
            1 => op(&name, seq, "panic", Value::Null),
            2 => op(&name, seq, "take", id.to_string().as_str()),
            3 => {
                let earlier: Value = [("op", Value::from(&*format!("op{}", seq.saturating_sub(1))))].into();
                op(&name, seq, "doc.put", with(put_args(&id.to_string(), "two"), "ifVersion", earlier))
            }
            4 => Op {
                after: Some(format!("op{}", seq / 2)),
                ..op(&name, seq, "counter.add", add_args(&id.to_string(), 1))
            },
            _ => op(&name, seq, "counter.add", add_args(&id.to_string(), 1)),
        }
    };
    kinds.iter().zip(1..).map(of).collect()
}

/// The reply's results without versions, which depend on nothing but the order.
fn bare(reply: &SyncReply) -> Vec<(String, String, Option<Value>)> {
    let value = |at: usize| reply.results[at].ok.as_ref().and_then(|ok| ok.value.clone());
    let told = told(reply).into_iter().enumerate();
    told.map(|(at, (id, code))| (id.to_owned(), code.to_owned(), value(at))).collect()
}

proptest! {
    #![proptest_config(cases(40))]

    /// Sent together, operations have the same effect as one by one, up to the first that is not executed.
    #[test]
    fn r11_a_group_does_what_its_operations_do_one_by_one(
        kinds in prop::collection::vec(any_op(), 1..90)
    ) {
        let (together, apart) = (operating(), operating());
        let ops = ops_of(&kinds);
        let reply = send(&together.engine, ops.clone());
        let mut one_by_one = Vec::new();
        for op in ops {
            let reply = send(&apart.engine, vec![op]);
            one_by_one.extend(bare(&reply));
            if reply.results[0].fault.as_ref().is_some_and(|fault| fault.kind.is_retryable()) {
                break;
            }
        }
        prop_assert_eq!(bare(&reply), one_by_one);
        let documents = |world: &World, name: &str| {
            let part = pull(&world.engine, &def(name), 0);
            part.rows.iter().map(|row| (row.pk.clone(), row.v, row.data.clone())).collect::<Vec<_>>()
        };
        for class in ["Note", "Counter"] {
            prop_assert_eq!(documents(&together, class), documents(&apart, class));
        }
        let (one, other) = (head(&together.engine), head(&apart.engine));
        prop_assert_eq!(one.as_ref().map(|head| head.highest), other.map(|head| head.highest));
        let is_executed = |result: &&escale::codec::OpResult| {
            result.fault.as_ref().is_none_or(|fault| !fault.kind.is_retryable())
        };
        let groups = reply.results.iter().filter(is_executed).count().div_ceil(GROUP);
        // A reply stores its `now` if the operations have not.
        let commits = one.map_or(0, |head| head.commits as usize - usize::from(head.promised_now > 0));
        prop_assert_eq!(commits, groups);
    }
}
