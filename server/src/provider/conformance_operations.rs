//! The part of the suite that is about sessions, operations and the journal.

use super::conformance::write;
use super::{Action, Operation, Provider, Session};

/// Each test on a database of its own.
pub(super) fn all<P: Provider>(fresh: &mut impl FnMut() -> Box<dyn Fn() -> P>) {
    operations_are_found_by_id_and_by_number(&fresh());
    an_id_and_a_number_are_used_once(&fresh());
    a_savepoint_takes_back_what_followed(&fresh());
    old_results_go_and_sessions_stay(&fresh());
    what_rests_is_rewritten_in_order(&fresh());
}

fn operation(id: &str, seq: u64) -> Operation {
    let result = Some(vec![0, 255]);
    Operation { session: "s".into(), seq, id: id.into(), name: "n".into(), v: Some(7), at: 10 + seq, result }
}

fn action(goblin: &str, state: Option<&[u8]>) -> Action {
    let timestamp = "2026-01-31T00:00:00.000Z".into();
    Action { goblin: goblin.into(), state: state.map(<[u8]>::to_vec), v: 7, commit: "1".into(), timestamp }
}

fn operations_are_found_by_id_and_by_number<P: Provider>(open: &dyn Fn() -> P) {
    let (first, second) = (open(), open());
    let alias = Operation { session: "t".into(), result: None, ..operation("a", 4) };
    write(&first, |tx| {
        tx.put_session("o", "s", &Session { account: "x".into(), seq: 1 }).expect("put_session");
        tx.put_session("o", "s", &Session { account: "x".into(), seq: 2 }).expect("in place of the other");
        tx.append_operation("o", "x", &operation("a", 2)).expect("append_operation");
        tx.append_operation("o", "x", &alias).expect("the same id, without a result");
    });
    let snapshot = second.read().expect("a snapshot");
    assert_eq!(snapshot.session("o", "s").expect("session"), Some(Session { account: "x".into(), seq: 2 }));
    assert_eq!(snapshot.session("p", "s").expect("session"), None);
    assert_eq!(snapshot.operation("o", "x", "a").expect("operation"), Some(operation("a", 2)));
    for (org, account, id) in [("p", "x", "a"), ("o", "y", "a"), ("o", "x", "b")] {
        assert_eq!(snapshot.operation(org, account, id).expect("operation"), None);
    }
    let id_at = |session, seq| snapshot.operation_at("o", session, seq).expect("operation_at");
    assert_eq!((id_at("s", 2), id_at("t", 4)), (Some("a".into()), Some("a".into())));
    assert_eq!((id_at("s", 1), id_at("u", 2)), (None, None));
}

fn an_id_and_a_number_are_used_once<P: Provider>(open: &dyn Fn() -> P) {
    write(&open(), |tx| {
        tx.append_operation("o", "x", &operation("a", 1)).expect("append_operation");
        assert!(tx.append_operation("o", "x", &operation("b", 1)).is_err(), "the number");
        assert!(tx.append_operation("o", "x", &operation("a", 2)).is_err(), "the id");
        tx.append_operation("o", "y", &Operation { session: "t".into(), ..operation("a", 1) })
            .expect("another's");
        tx.append_operation("p", "x", &operation("a", 1)).expect("another org's");
    });
}

fn a_savepoint_takes_back_what_followed<P: Provider>(open: &dyn Fn() -> P) {
    let provider = open();
    write(&provider, |tx| {
        tx.add_org("kept").expect("add_org");
        tx.savepoint().expect("savepoint");
        tx.add_org("undone").expect("add_org");
        tx.append_action(&action("o/C@a", None)).expect("append_action");
        tx.undo().expect("undo");
        tx.append_operation("o", "x", &operation("a", 1)).expect("append_operation");
    });
    let snapshot = provider.read().expect("a snapshot");
    assert!(snapshot.knows_org("kept").expect("org") && !snapshot.knows_org("undone").expect("org"));
    assert_eq!(snapshot.operation_at("o", "s", 1).expect("operation_at"), Some("a".into()));
}

fn old_results_go_and_sessions_stay<P: Provider>(open: &dyn Fn() -> P) {
    let provider = open();
    write(&provider, |tx| {
        tx.put_session("o", "s", &Session { account: "x".into(), seq: 3 }).expect("put_session");
        for seq in 1..=3 {
            tx.append_operation("o", "x", &operation(&seq.to_string(), seq)).expect("append_operation");
        }
    });
    write(&provider, |tx| {
        assert_eq!(tx.purge_operations(13, 1).expect("purge"), 1);
        assert_eq!(tx.purge_operations(13, 5).expect("purge"), 1);
        assert_eq!(tx.purge_operations(13, 5).expect("purge"), 0);
        assert_eq!(tx.operation_at("o", "s", 3).expect("operation_at"), Some("3".into()));
        assert_eq!(tx.operation("o", "x", "1").expect("operation"), None);
        assert_eq!(tx.session("o", "s").expect("session").map(|s| s.seq), Some(3));
    });
}

fn what_rests_is_rewritten_in_order<P: Provider>(open: &dyn Fn() -> P) {
    write(&open(), |tx| {
        for (goblin, state) in [("o/C@a", Some(&[1][..])), ("o/C@b", None), ("o/C@c", Some(&[2][..]))] {
            tx.append_action(&action(goblin, state)).expect("append_action");
        }
        let twice = |goblin: &str, v: u64, bytes: &[u8]| {
            assert!(v == 7 && goblin != "o/C@b", "deletions have no state");
            Ok((bytes.len() == 1).then(|| [bytes, bytes].concat()))
        };
        let first = tx.rewrite_actions((0, 1), &twice).expect("rewrite").expect("one");
        let second = tx.rewrite_actions((first, 9), &twice).expect("rewrite").expect("another");
        assert_eq!(tx.rewrite_actions((second, 9), &twice).expect("rewrite"), None);
        tx.append_operation("o", "x", &operation("a", 1)).expect("append_operation");
        let change = |org: &str, account: &str, o: &Operation| {
            Ok(Some(format!("{org}{account}{}", o.id).into_bytes()))
        };
        assert!(tx.rewrite_results((0, 9), &change).expect("rewrite").is_some());
        assert_eq!(
            tx.operation("o", "x", "a").expect("operation").and_then(|o| o.result),
            Some(b"oxa".to_vec())
        );
    });
}
