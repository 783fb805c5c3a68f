//! The part of the suite about sessions, operations and the journal.

use super::conformance::write;
use super::{Action, Operation, Provider, Session, Spent};

/// Runs each test on its own database.
pub(super) fn all<P: Provider>(fresh: &mut impl FnMut() -> Box<dyn Fn() -> P>) {
    operations_are_found_by_id(&fresh());
    an_id_and_a_number_are_used_once(&fresh());
    a_savepoint_takes_back_what_followed(&fresh());
    old_results_go_and_ids_and_sessions_stay(&fresh());
    what_rests_is_rewritten_in_order(&fresh());
}

fn operation(id: &str, seq: u64) -> Operation {
    let (session, name, v) = ("s".into(), "n".into(), Some(7));
    Operation { session, seq, id: id.into(), name, v, at: 10 + seq, result: vec![0, 255] }
}

fn action(goblin: &str, state: Option<&[u8]>) -> Action {
    let timestamp = "2026-01-31T00:00:00.000Z".into();
    Action { goblin: goblin.into(), state: state.map(<[u8]>::to_vec), v: 7, commit: "1".into(), timestamp }
}

fn operations_are_found_by_id<P: Provider>(open: &dyn Fn() -> P) {
    let (first, second) = (open(), open());
    write(&first, |tx| {
        tx.put_session("o", "s", &Session { account: "x".into(), seq: 1 }).expect("put_session");
        tx.put_session("o", "s", &Session { account: "x".into(), seq: 2 }).expect("in place of the other");
        tx.append_operation("o", "x", &operation("a", 2)).expect("append_operation");
    });
    let snapshot = second.read().expect("a snapshot");
    assert_eq!(snapshot.session("o", "s").expect("session"), Some(Session { account: "x".into(), seq: 2 }));
    assert_eq!(snapshot.session("p", "s").expect("session"), None);
    assert_eq!(snapshot.operation("o", "x", "a").expect("operation"), Some(operation("a", 2)));
    for (org, account, id) in [("p", "x", "a"), ("o", "y", "a"), ("o", "x", "b")] {
        assert_eq!(snapshot.operation(org, account, id).expect("operation"), None);
    }
    assert_eq!(snapshot.spent("o", "x", "a").expect("spent"), None, "its result is there");
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
    assert_eq!(snapshot.operation("o", "x", "a").expect("operation"), Some(operation("a", 1)));
}

fn old_results_go_and_ids_and_sessions_stay<P: Provider>(open: &dyn Fn() -> P) {
    let provider = open();
    write(&provider, |tx| {
        tx.put_session("o", "s", &Session { account: "x".into(), seq: 3 }).expect("put_session");
        for seq in 1..=3 {
            let v = (seq != 2).then_some(7);
            tx.append_operation("o", "x", &Operation { v, ..operation(&seq.to_string(), seq) })
                .expect("append_operation");
        }
    });
    write(&provider, |tx| {
        assert_eq!(tx.purge_operations(13, 1).expect("purge"), 1);
        assert_eq!(tx.purge_operations(13, 5).expect("purge"), 1);
        assert_eq!(tx.purge_operations(13, 5).expect("purge"), 0);
        let is_kept = |id| tx.operation("o", "x", id).expect("operation").is_some();
        assert_eq!(["1", "2", "3"].map(is_kept), [false, false, true]);
        let spent = |id| tx.spent("o", "x", id).expect("spent");
        assert_eq!(["1", "2", "3"].map(spent), [Some(Spent { v: Some(7) }), Some(Spent { v: None }), None]);
        assert_eq!(tx.spent("p", "x", "1").expect("another org's"), None);
        assert_eq!(tx.spent("o", "y", "1").expect("another account's"), None);
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
        assert_eq!(tx.operation("o", "x", "a").expect("operation").map(|o| o.result), Some(b"oxa".to_vec()));
    });
}
