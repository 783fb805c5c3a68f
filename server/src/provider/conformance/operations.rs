//! The part of the suite about sessions, operations and the journal.

use super::support::{WAIT, at, document, end_of_feed, fed, row, write, write_to};
use crate::provider::{
    Action, Entry, EntryValue, Operation, Provider, Removed, Session, Snapshot, Spent, Transaction,
};
use escale::journal::ActionType;

/// Runs each test on its own database.
pub(super) fn all<P: Provider>(fresh: &mut impl FnMut() -> Box<dyn Fn() -> P>) {
    operations_are_found_by_id(&fresh());
    an_id_and_a_number_are_used_once(&fresh());
    a_savepoint_takes_back_what_followed(&fresh());
    old_results_go_and_ids_and_sessions_stay(&fresh());
    what_rests_is_rewritten_in_order(&fresh());
    the_journal_of_an_actor_is_listed_and_removed_from_its_end(&fresh());
}

fn operation(id: &str, seq: u64) -> Operation {
    let (session, name, v) = ("s".into(), "n".into(), Some(7));
    Operation { session, seq, id: id.into(), name, v, at: 10 + seq, result: vec![0, 255] }
}

fn action(actor: &str, state: Option<&[u8]>) -> Action {
    let timestamp = "2026-01-31T00:00:00.000Z".into();
    let (kind, state) = (ActionType::Persist, state.map(<[u8]>::to_vec));
    Action { actor: actor.into(), kind, state, v: 7, commit: "1".into(), timestamp }
}

fn operations_are_found_by_id<P: Provider>(open: &dyn Fn() -> P) {
    let (first, second) = (open(), open());
    write(&first, |tx| {
        tx.put_session("s", &Session { account: "x".into(), seq: 1 }).expect("put_session");
        tx.put_session("s", &Session { account: "x".into(), seq: 2 }).expect("in place of the other");
        tx.append_operation("x", &operation("a", 2)).expect("append_operation");
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
    let provider = open();
    write(&provider, |tx| {
        tx.append_operation("x", &operation("a", 1)).expect("append_operation");
        assert!(tx.append_operation("x", &operation("b", 1)).is_err(), "the number");
        assert!(tx.append_operation("x", &operation("a", 2)).is_err(), "the id");
        tx.append_operation("y", &Operation { session: "t".into(), ..operation("a", 1) }).expect("another's");
    });
    write_to(&provider, "p", |tx| {
        tx.append_operation("x", &operation("a", 1)).expect("another org's");
    });
}

/// Three operations of a group: the second one is taken back, and refused; the last one leaves nothing.
fn a_savepoint_takes_back_what_followed<P: Provider>(open: &dyn Fn() -> P) {
    let provider = open();
    let start = end_of_feed(&provider);
    let put = |tx: &mut dyn Transaction, pk: &str, seq| {
        tx.put_document(at(pk), &document(seq)).expect("put_document");
        tx.append_feed(&row(pk, seq)).expect("append_feed");
        let entry = Entry { index: "i".into(), value: EntryValue::Text(pk.into()) };
        tx.put_entry(at(pk), "", &entry).expect("put_entry");
        tx.append_action(&action(&format!("o/C@{pk}"), None)).expect("append_action");
        entry
    };
    write(&provider, |tx| {
        tx.savepoint().expect("savepoint");
        put(tx, "a", 1);
        tx.append_operation("x", &operation("a", 1)).expect("append_operation");
        tx.release().expect("release");
        tx.savepoint().expect("savepoint");
        let entry = put(tx, "b", 2);
        tx.undo().expect("undo");
        assert_eq!(tx.snapshot().document(at("b")).expect("document"), None);
        assert!(!tx.snapshot().is_held(at("c"), "", &entry).expect("is_held"));
        tx.append_operation("x", &Operation { v: None, ..operation("b", 2) }).expect("append_operation");
        tx.release().expect("release");
        tx.savepoint().expect("savepoint");
        put(tx, "c", 3);
        tx.undo().expect("undo");
        tx.release().expect("release");
        assert!(tx.undo().is_err(), "there is no savepoint any more");
    });
    let snapshot = provider.read().expect("a snapshot");
    let is_there = |pk| snapshot.document(at(pk)).expect("document").is_some();
    assert_eq!(["a", "b", "c"].map(is_there), [true, false, false]);
    assert_eq!(fed(&provider, &start).0, ["a"]);
    let is_known = |id| snapshot.operation("o", "x", id).expect("operation").map(|o| o.v);
    assert_eq!(["a", "b", "c"].map(is_known), [Some(Some(7)), Some(None), None]);
}

fn old_results_go_and_ids_and_sessions_stay<P: Provider>(open: &dyn Fn() -> P) {
    let provider = open();
    write(&provider, |tx| {
        tx.put_session("s", &Session { account: "x".into(), seq: 3 }).expect("put_session");
        for seq in 1..=3 {
            let v = (seq != 2).then_some(7);
            tx.append_operation("x", &Operation { v, ..operation(&seq.to_string(), seq) })
                .expect("append_operation");
        }
    });
    let gone = |seqs: &[u64]| {
        let bytes = seqs.iter().map(|seq| operation(&seq.to_string(), *seq).bytes()).sum();
        Removed { rows: seqs.len() as u64, bytes }
    };
    write_to(&provider, "p", |tx| {
        assert_eq!(tx.purge_operations(13, 9).expect("purge"), gone(&[]), "another org's");
    });
    write(&provider, |tx| {
        assert_eq!(tx.purge_operations(13, 1).expect("purge"), gone(&[1]));
        assert_eq!(tx.purge_operations(13, 5).expect("purge"), gone(&[2]));
        assert_eq!(tx.purge_operations(13, 5).expect("purge"), gone(&[]));
        let is_kept = |id| tx.snapshot().operation("o", "x", id).expect("operation").is_some();
        assert_eq!(["1", "2", "3"].map(is_kept), [false, false, true]);
        let spent = |id| tx.snapshot().spent("o", "x", id).expect("spent");
        assert_eq!(["1", "2", "3"].map(spent), [Some(Spent { v: Some(7) }), Some(Spent { v: None }), None]);
        assert_eq!(tx.snapshot().spent("p", "x", "1").expect("another org's"), None);
        assert_eq!(tx.snapshot().spent("o", "y", "1").expect("another account's"), None);
        assert_eq!(tx.snapshot().session("o", "s").expect("session").map(|s| s.seq), Some(3));
        let found = tx.snapshot().sessions("o", &["t", "s"]).expect("sessions");
        assert_eq!(found.into_iter().map(|(name, s)| (name, s.seq)).collect::<Vec<_>>(), [("s".into(), 3)]);
        assert!(tx.snapshot().sessions("p", &["s"]).expect("another org's").is_empty());
    });
}

fn the_journal_of_an_actor_is_listed_and_removed_from_its_end<P: Provider>(open: &dyn Fn() -> P) {
    let provider = open();
    let written = |actor: &str, n: usize| {
        let kind = if n.is_multiple_of(2) { ActionType::Persist } else { ActionType::Update };
        Action { kind, commit: "\u{e9}".into(), ..action(actor, (n != 3).then_some(&[7; 9][..n])) }
    };
    write(&provider, |tx| {
        for n in 0..5 {
            tx.append_action(&written("o/C@a", n)).expect("append_action");
            tx.append_action(&written("o/C@b", n)).expect("append_action");
        }
        tx.append_action(&written("o/C@c", 0)).expect("append_action");
    });
    write_to(&provider, "o-p", |tx| {
        (0..5).for_each(|n| tx.append_action(&written("o-p/C@a", n)).expect("another org's"));
    });
    let snapshot = provider.read().expect("a snapshot");
    let actors = |after, more, limit| snapshot.actors("o", after, more, limit).expect("actors");
    assert_eq!(actors("", 4, 9), ["o/C@a", "o/C@b"]);
    assert_eq!(actors("", 0, 2), ["o/C@a", "o/C@b"]);
    assert_eq!(actors("o/C@a", 0, 9), ["o/C@b", "o/C@c"]);
    assert_eq!(actors("", 5, 9), Vec::<String>::new());
    let entries = |tx: &dyn Snapshot, below, limit| tx.actions_of("o/C@a", below, limit).expect("actions_of");
    let all = entries(snapshot.as_ref(), i64::MAX, 9);
    let sizes: Vec<_> = all.iter().map(|entry| (entry.is_whole, entry.bytes)).collect();
    let expected = (0..5).rev().map(|n| (n % 2 == 0, written("o/C@a", n).bytes()));
    assert_eq!(sizes, expected.collect::<Vec<_>>());
    assert!(all.windows(2).all(|pair| pair[0].number > pair[1].number));
    assert_eq!(entries(snapshot.as_ref(), all[1].number, 2), all[2..4]);
    write(&provider, |tx| {
        let removed = tx.remove_actions("o/C@a", all[1].number, 3).expect("remove_actions");
        assert_eq!(removed, Removed { rows: 3, bytes: all[2..].iter().map(|entry| entry.bytes).sum() });
    });
    write(&provider, |tx| {
        let removed = tx.remove_actions("o/C@a", all[1].number, 3).expect("remove_actions");
        assert_eq!(removed, Removed { rows: 1, bytes: all[1].bytes });
        tx.append_action(&written("o/C@a", 6)).expect("append_action");
    });
    let snapshot = provider.read().expect("a snapshot");
    let left = entries(snapshot.as_ref(), i64::MAX, 9);
    assert!(left.len() == 2 && left[1] == all[0] && left[0].number > all[0].number);
    assert_eq!(snapshot.actions_of("o/C@b", i64::MAX, 9).expect("another's").len(), 5);
}

fn what_rests_is_rewritten_in_order<P: Provider>(open: &dyn Fn() -> P) {
    let provider = open();
    write(&provider, |tx| {
        for (actor, state) in [("o/C@a", Some(&[1][..])), ("o/C@b", None), ("o/C@c", Some(&[2][..]))] {
            tx.append_action(&action(actor, state)).expect("append_action");
        }
        tx.append_operation("x", &operation("a", 1)).expect("append_operation");
    });
    write_to(&provider, "p", |tx| tx.append_operation("x", &operation("a", 1)).expect("append_operation"));
    let mut tx = provider.maintain(WAIT).expect("maintenance");
    let twice = |actor: &str, v: u64, bytes: &[u8]| {
        assert!(v == 7 && actor != "o/C@b", "deletions have no state");
        Ok((bytes.len() == 1).then(|| [bytes, bytes].concat()))
    };
    let first = tx.rewrite_actions((0, 1), &twice).expect("rewrite").expect("one");
    let second = tx.rewrite_actions((first, 9), &twice).expect("rewrite").expect("another");
    assert_eq!(tx.rewrite_actions((second, 9), &twice).expect("rewrite"), None);
    let change =
        |org: &str, account: &str, o: &Operation| Ok(Some(format!("{org}{account}{}", o.id).into_bytes()));
    let first = tx.rewrite_results((0, 1), &change).expect("rewrite").expect("one");
    let result = |tx: &dyn Snapshot, org| tx.operation(org, "x", "a").expect("operation").map(|o| o.result);
    assert_eq!(result(tx.snapshot(), "o"), Some(b"oxa".to_vec()));
    assert_ne!(result(tx.snapshot(), "p"), Some(b"pxa".to_vec()), "one at a time");
    let second = tx.rewrite_results((first, 9), &change).expect("rewrite").expect("another");
    assert_eq!(tx.rewrite_results((second, 9), &change).expect("rewrite"), None);
    tx.commit().expect("a commit");
    let snapshot = provider.read().expect("a snapshot");
    for (org, expected) in [("o", b"oxa"), ("p", b"pxa")] {
        assert_eq!(result(snapshot.as_ref(), org), Some(expected.to_vec()));
    }
}
