//! The part of the suite about documents, memberships, entries and the feed.

use std::time::Duration;

use escale::{Code, Error};

use super::support::{
    HASH, WAIT, at, changes, def, document, end_of_feed, fed, in_collection, link, put, row, write, write_to,
};
use crate::provider::ChangeState::{self, Alive, Deleted, Left};
use crate::provider::{Document, Entry, EntryValue, FeedRow, Link, Place, Provider, Transaction};

/// Runs each test on its own database.
pub(super) fn all<P: Provider>(fresh: &mut impl FnMut() -> Box<dyn Fn() -> P>) {
    what_is_committed_is_read_back(&fresh());
    a_dropped_write_leaves_nothing(&fresh());
    a_snapshot_stays_as_it_was(&fresh());
    writes_come_one_after_another(&fresh());
    changes_ascend_and_go_on(&fresh());
    what_is_gone_is_told_from_where_it_is_asked(&fresh());
    orgs_and_classes_are_kept_apart(&fresh());
    a_neighbour_is_of_the_same_class(&fresh());
    entries_find_another_holder(&fresh());
    the_feed_follows_the_commits(&fresh());
    a_late_commit_is_not_missed_by_the_feed(&fresh());
    a_purge_takes_what_is_old_and_nothing_else(&fresh());
    a_walk_meets_everything_once(&fresh());
}

fn what_is_committed_is_read_back<P: Provider>(open: &dyn Fn() -> P) {
    let (first, second) = (open(), open());
    let mut tombstone = document(9);
    tombstone.deleted = true;
    tombstone.max_life = Some(3);
    tombstone.ttl = Some(4);
    tombstone.shown.entries.push(Entry { index: "i".into(), value: EntryValue::Float(1.0) });
    write(&first, |tx| {
        put(tx, "a", 8);
        tx.put_document(at("a"), &tombstone).expect("in place of the other");
        assert_eq!(tx.snapshot().document(at("a")).expect("own write").as_ref(), Some(&tombstone));
    });
    let snapshot = second.read().expect("a snapshot");
    assert_eq!(snapshot.document(at("a")).expect("document"), Some(tombstone));
    assert_eq!(snapshot.document(at("b")).expect("document"), None);
}

fn a_dropped_write_leaves_nothing<P: Provider>(open: &dyn Fn() -> P) {
    let provider = open();
    let mut tx = provider.write("o", WAIT).expect("a write");
    put(tx.as_mut(), "a", 1);
    drop(tx);
    let snapshot = provider.read().expect("a snapshot");
    assert_eq!(snapshot.document(at("a")).expect("document"), None);
    assert!(snapshot.members("o", &in_collection(), 0, 0).expect("members").found.is_empty());
}

fn a_snapshot_stays_as_it_was<P: Provider>(open: &dyn Fn() -> P) {
    let (first, second) = (open(), open());
    let before = second.read().expect("a snapshot");
    let mut tx = first.write("o", WAIT).expect("a write beside a snapshot");
    put(tx.as_mut(), "a", 1);
    let during = second.read().expect("a snapshot beside a write");
    tx.commit().expect("a commit");
    for snapshot in [&before, &during] {
        assert_eq!(snapshot.document(at("a")).expect("document"), None);
        assert_eq!(snapshot.count("o", &def("C"), 0, 0, 0).expect("count").found, 0);
    }
    assert!(second.read().expect("a snapshot").document(at("a")).expect("document").is_some());
}

fn writes_come_one_after_another<P: Provider>(open: &dyn Fn() -> P) {
    let (first, second) = (open(), open());
    let tx = first.write("o", WAIT).expect("a write");
    let refused = second.write("o", Duration::ZERO).map(|_| ()).expect_err("two writes at once");
    assert_eq!(refused.code(), Code::Contention);
    drop(tx);
    assert!(second.write("o", Duration::ZERO).is_ok(), "the turn is given back");
}

fn changes_ascend_and_go_on<P: Provider>(open: &dyn Fn() -> P) {
    let provider = open();
    write(&provider, |tx| {
        for (pk, v) in [("c", 5), ("a", 7), ("b", 5), ("d", 3)] {
            put(tx, pk, v);
        }
    });
    let snapshot = provider.read().expect("a snapshot");
    let all = [("d", 3), ("b", 5), ("c", 5), ("a", 7)].map(|(pk, v)| (pk.to_owned(), v, ChangeState::Alive));
    for def in [def("C"), in_collection()] {
        for n in 0..all.len() {
            let (pk, v, _) = &all[n];
            let rest = changes(snapshot.as_ref(), &def, (*v, pk), 0);
            assert_eq!(rest, all[n + 1..], "{def} after {pk}");
        }
        assert_eq!(changes(snapshot.as_ref(), &def, (5, ""), 0), all[1..], "{def} from 5");
        assert_eq!(snapshot.count("o", &def, 5, 0, 0).expect("count").found, 3);
        let mut visited = 0;
        let mut visit = |_| {
            visited += 1;
            Ok(visited < 2)
        };
        snapshot.changes("o", &def, (0, ""), 0, &mut visit).expect("changes");
        assert_eq!(visited, 2, "it stops where it is told to");
        let mut members = snapshot.members("o", &def, 0, 0).expect("members").found;
        members.sort();
        assert_eq!(members, ["a", "b", "c", "d"]);
    }
    assert_eq!(changes(snapshot.as_ref(), &def("C@a"), (0, ""), 0), all[3..]);
    assert_eq!(changes(snapshot.as_ref(), &def("C@a"), (8, ""), 0), []);
    assert_eq!(snapshot.members("o", &def("C@zz"), 0, 0).expect("members").found, [""; 0]);
}

fn what_is_gone_is_told_from_where_it_is_asked<P: Provider>(open: &dyn Fn() -> P) {
    let provider = open();
    write(&provider, |tx| {
        put(tx, "a", 1);
        let mut dead = document(5);
        dead.deleted = true;
        tx.put_document(at("b"), &dead).expect("put_document");
        tx.put_link(at("b"), &link(5, ChangeState::Deleted)).expect("put_link");
        tx.put_document(at("c"), &document(9)).expect("put_document");
        tx.put_link(at("c"), &link(6, ChangeState::Left)).expect("put_link");
        let mut mortal = document(7);
        mortal.max_life = Some(10);
        tx.put_document(at("d"), &mortal).expect("put_document");
        tx.put_link(at("d"), &Link { max_life: Some(10), ..link(7, ChangeState::Alive) }).expect("put_link");
    });
    let snapshot = provider.read().expect("a snapshot");
    let states = |gone_from| -> Vec<_> {
        changes(snapshot.as_ref(), &in_collection(), (0, ""), gone_from)
            .into_iter()
            .map(|c| (c.0, c.2))
            .collect()
    };
    let own =
        |list: &[(&str, ChangeState)]| list.iter().map(|(pk, s)| ((*pk).to_owned(), *s)).collect::<Vec<_>>();
    assert_eq!(states(0), own(&[("a", Alive), ("b", Deleted), ("c", Left), ("d", Alive)]));
    assert_eq!(states(6), own(&[("a", Alive), ("c", Left), ("d", Alive)]));
    assert_eq!(states(8), own(&[("a", Alive), ("d", Alive)]));
    let count =
        |gone_from, minute| snapshot.count("o", &in_collection(), 0, gone_from, minute).expect("count").found;
    assert_eq!((count(0, 9), count(6, 9), count(8, 9), count(8, 10)), (3, 2, 2, 1));
    for (minute, expected) in [(9, vec!["a", "d"]), (10, vec!["a"])] {
        let mut members = snapshot.members("o", &in_collection(), 0, minute).expect("members").found;
        members.sort();
        assert_eq!(members, expected, "at minute {minute}");
    }
    // Rows that are left out are looked at all the same.
    let all = in_collection();
    let looked = snapshot.changes("o", &all, (0, ""), 8, &mut |_| Ok(true)).expect("changes");
    let counted = snapshot.count("o", &all, 0, 8, 10).expect("count").rows;
    let listed = snapshot.members("o", &all, 0, 10).expect("members").rows;
    assert_eq!((looked, counted, listed), (4, 4, 4));
    drop(snapshot);
    write(&provider, |tx| {
        tx.remove_link(at("c"), "c", HASH).expect("remove_link");
        tx.remove_document(at("a")).expect("remove_document");
    });
    let snapshot = provider.read().expect("a snapshot");
    assert_eq!(snapshot.document(at("a")).expect("document"), None);
    assert_eq!(changes(snapshot.as_ref(), &def("C"), (8, ""), 0), [("c".to_owned(), 9, Alive)]);
}

fn orgs_and_classes_are_kept_apart<P: Provider>(open: &dyn Fn() -> P) {
    let provider = open();
    let put = |tx: &mut dyn Transaction, place: Place| {
        tx.put_document(place, &document(3)).expect("put_document");
        tx.put_link(place, &link(3, ChangeState::Alive)).expect("put_link");
    };
    write(&provider, |tx| {
        put(tx, at("a"));
        put(tx, Place { class: "D", ..at("a") });
    });
    write_to(&provider, "p", |tx| {
        let place = Place { org: "p", ..at("a") };
        put(tx, place);
        assert!(tx.snapshot().document(at("a")).expect("document").is_some(), "another org may be read");
        tx.remove_document(place).expect("remove_document");
    });
    let snapshot = provider.read().expect("a snapshot");
    assert!(snapshot.document(at("a")).expect("document").is_some());
    assert_eq!(snapshot.members("o", &def("C"), 0, 0).expect("members").found, ["a"]);
    assert_eq!(snapshot.members("o", &def("D"), 0, 0).expect("members").found, ["a"]);
    assert!(snapshot.members("p", &def("C"), 0, 0).expect("members").found.is_empty());
    assert!(snapshot.members("o", &def("E"), 0, 0).expect("members").found.is_empty());
}

fn a_neighbour_is_of_the_same_class<P: Provider>(open: &dyn Fn() -> P) {
    let provider = open();
    for (org, class, pk) in
        [("o", "C", "b"), ("o", "C", "D"), ("o", "B", "z"), ("o", "D", "a"), ("p", "C", "c")]
    {
        write_to(&provider, org, |tx| {
            tx.put_document(Place { org, class, pk }, &document(1)).expect("a document");
        });
    }
    let snapshot = provider.read().expect("a snapshot");
    let neighbour = |org, class, pk| snapshot.neighbour(Place { org, class, pk }).expect("a look");
    // In the order of bytes: capitals come first.
    for (pk, expected) in [("", "D"), ("D", "D"), ("E", "b"), ("a", "b"), ("b", "b"), ("c", "D")] {
        assert_eq!(neighbour("o", "C", pk).as_deref(), Some(expected), "from {pk:?} on");
    }
    assert_eq!(neighbour("o", "E", ""), None);
    assert_eq!(neighbour("q", "C", ""), None);
}

fn entries_find_another_holder<P: Provider>(open: &dyn Fn() -> P) {
    let provider = open();
    let values = [
        EntryValue::Int(-3),
        EntryValue::Float(0.5),
        EntryValue::Text("t".into()),
        EntryValue::Text("1".into()),
    ];
    write(&provider, |tx| {
        for value in values.clone() {
            let entry = Entry { index: "i".into(), value };
            tx.put_entry(at("a"), "o", &entry).expect("put_entry");
            assert!(
                !tx.snapshot().is_held(at("a"), "o", &entry).expect("is_held"),
                "the holder itself does not count"
            );
            assert!(tx.snapshot().is_held(at("b"), "o", &entry).expect("is_held"));
            assert!(tx.snapshot().is_held(Place { org: "p", ..at("a") }, "o", &entry).expect("is_held"));
            assert!(!tx.snapshot().is_held(at("b"), "", &entry).expect("is_held"), "another scope");
            assert!(!tx.snapshot().is_held(Place { class: "D", ..at("b") }, "o", &entry).expect("is_held"));
            tx.remove_entry(at("a"), "o", &entry).expect("remove_entry");
            assert!(!tx.snapshot().is_held(at("b"), "o", &entry).expect("is_held"));
        }
    });
}

fn the_feed_follows_the_commits<P: Provider>(open: &dyn Fn() -> P) {
    let (first, second) = (open(), open());
    let start = end_of_feed(&first);
    assert_eq!(fed(&first, &start).0, [""; 0], "nothing was written");
    write(&first, |tx| {
        tx.append_feed(&row("a", 5)).expect("append_feed");
        tx.append_feed(&row("b", 5)).expect("append_feed");
    });
    let (rows, middle) = fed(&first, &start);
    assert_eq!(rows, ["a", "b"]);
    // A lower version that commits later comes later in the feed.
    write(&second, |tx| tx.append_feed(&row("c", 4)).expect("append_feed"));
    let mut dropped = second.write("o", WAIT).expect("a write");
    dropped.append_feed(&row("dropped", 6)).expect("append_feed");
    drop(dropped);
    assert_eq!(fed(&first, &start).0, ["a", "b", "c"]);
    let (rows, end) = fed(&first, &middle);
    assert_eq!(rows, ["c"], "another instance's commit");
    assert_eq!(fed(&first, &end).0, [""; 0]);
    write(&first, |tx| put(tx, "silent", 7));
    assert_eq!(fed(&first, &end).0, [""; 0], "a commit without rows");
    let mut visited = Vec::new();
    let mut visit = |row: FeedRow| {
        visited.push(row);
        Ok(())
    };
    first.changed(Some(&middle), &mut visit).expect("changed");
    assert_eq!(visited, [row("c", 4)]);
    let mut fails = |_| Err(Error::new(Code::Internal, "by the test"));
    let error = first.changed(Some(&middle), &mut fails).expect_err("the visitor's error");
    assert_eq!(error.detail(), "by the test");
    assert_eq!(fed(&first, &middle).0, ["c"], "a look that failed changed nothing");
}

/// A write that begins first and commits last: the looks in between do not pass it over.
fn a_late_commit_is_not_missed_by_the_feed<P: Provider>(open: &dyn Fn() -> P) {
    let (first, second) = (open(), open());
    let start = end_of_feed(&second);
    let mut late = first.write("o", WAIT).expect("a write");
    late.append_feed(&row("late", 5)).expect("append_feed");
    // A database may have one lock for all orgs: then no other write commits in between.
    if let Ok(mut tx) = second.write("p", Duration::ZERO) {
        tx.append_feed(&FeedRow { org: "p".into(), ..row("early", 9) }).expect("append_feed");
        tx.commit().expect("a commit");
        let (rows, middle) = fed(&second, &start);
        assert_eq!(rows, ["early"]);
        late.commit().expect("a commit");
        assert_eq!(fed(&second, &middle).0, ["late"]);
    } else {
        assert_eq!(fed(&second, &start), (Vec::new(), start.clone()));
        late.commit().expect("a commit");
    }
    assert!(fed(&second, &start).0.contains(&"late".to_owned()));
}

fn a_purge_takes_what_is_old_and_nothing_else<P: Provider>(open: &dyn Fn() -> P) {
    let provider = open();
    let entry = Entry { index: "i".into(), value: EntryValue::Int(1) };
    write(&provider, |tx| {
        for (pk, v, ttl) in [("due", 10, Some(100)), ("young", 50, Some(100)), ("later", 10, Some(101))] {
            let mut dead = document(v);
            dead.deleted = true;
            dead.ttl = ttl;
            dead.shown.entries.push(entry.clone());
            tx.put_document(at(pk), &dead).expect("put_document");
            tx.put_link(at(pk), &link(v, ChangeState::Deleted)).expect("put_link");
        }
        tx.put_entry(at("due"), "o", &entry).expect("put_entry");
        put(tx, "alive", 10);
        for (pk, v) in [("left", 49), ("leftlate", 50)] {
            tx.put_link(at(pk), &link(v, ChangeState::Left)).expect("put_link");
        }
    });
    write_to(&provider, "p", |tx| {
        assert_eq!(tx.purge(100, 50, 10).expect("purge").count(), 0, "another org's");
    });
    write(&provider, |tx| {
        let purged = tx.purge(100, 50, 10).expect("purge");
        let of = |(class, pk, document): &(String, String, Document)| (class.clone(), pk.clone(), document.v);
        let documents: Vec<_> = purged.documents.iter().map(of).collect();
        assert_eq!((documents, purged.departures), (vec![("C".into(), "due".into(), 10)], 1));
    });
    let snapshot = provider.read().expect("a snapshot");
    let mut left: Vec<String> =
        changes(snapshot.as_ref(), &in_collection(), (0, ""), 0).into_iter().map(|c| c.0).collect();
    left.sort();
    assert_eq!(left, ["alive", "later", "leftlate", "young"]);
    assert_eq!(snapshot.document(at("due")).expect("document"), None);
    assert!(snapshot.document(at("alive")).expect("document").is_some());
    assert!(!snapshot.is_held(at("alive"), "o", &entry).expect("is_held"), "its index goes with it");
    drop(snapshot);
    write(&provider, |tx| {
        assert_eq!(tx.purge(1_000, 1_000, 1).expect("purge").count(), 2, "one of each at a time");
    });
    write(&provider, |tx| assert_eq!(tx.purge(1_000, 1_000, 9).expect("purge").count(), 1));
}

fn a_walk_meets_everything_once<P: Provider>(open: &dyn Fn() -> P) {
    let provider = open();
    for (org, class, pk) in [("o", "C", "b"), ("o", "C", "a"), ("p", "C", "a"), ("o", "D", "a")] {
        let place = Place { org, class, pk };
        write_to(&provider, org, |tx| tx.put_document(place, &document(1)).expect("put_document"));
    }
    let mut tx = provider.maintain(WAIT).expect("maintenance");
    let (mut met, mut after) = (Vec::new(), None);
    loop {
        let found = tx.walk(after, 3).expect("walk");
        let Some(last) = found.last() else { break };
        after = Some((last.org.clone(), last.class.clone(), last.pk.clone()));
        met.extend(found.iter().map(|w| format!("{}{}{}", w.org, w.class, w.pk)));
    }
    assert_eq!(met, ["oCa", "oCb", "oDa", "pCa"]);
}
