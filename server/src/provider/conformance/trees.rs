//! The part of the suite about trees: their records, and the removal of items.

use super::support::{at, changes, def, document, in_collection, link, put, write, write_to};
use crate::provider::{
    ChangeState, Edit, Entry, EntryValue, Place, Provider, Snapshot, TOMBSTONES_MAX, Tree, Trimmed,
};

pub(super) fn all<P: Provider>(fresh: &mut impl FnMut() -> Box<dyn Fn() -> P>) {
    a_tree_is_read_back_replaced_and_removed(&fresh());
    a_tree_undone_is_as_before(&fresh());
    trees_that_are_due_are_listed_in_order(&fresh());
    members_are_counted_from_a_version(&fresh());
    items_below_a_version_go_with_all_they_have(&fresh());
    the_oldest_tombstones_leave_their_collection(&fresh());
}

fn tree(n: u64) -> Tree {
    Tree { floor: n, v: n + 1, n: n + 2, horizon: n + 3, items: n + 4, tombstones: 7, due: n + 5 }
}

fn a_tree_is_read_back_replaced_and_removed<P: Provider>(open: &dyn Fn() -> P) {
    let (first, second) = (open(), open());
    let other = Place { class: "D", ..at("a") };
    write(&first, |tx| {
        assert_eq!(tx.snapshot().tree(at("a")).expect("tree"), None);
        tx.put_tree(at("a"), &tree(1)).expect("put_tree");
        tx.put_tree(at("a"), &tree(10)).expect("in place of the other");
        tx.put_tree(other, &tree(20)).expect("put_tree");
        assert_eq!(tx.snapshot().tree(at("a")).expect("its own write"), Some(tree(10)));
    });
    write_to(&first, "p", |tx| tx.put_tree(Place { org: "p", ..at("a") }, &tree(30)).expect("put_tree"));
    let before = second.read().expect("a snapshot");
    write(&first, |tx| tx.remove_tree(at("a")).expect("remove_tree"));
    let after = second.read().expect("a snapshot");
    let read = |snapshot: &dyn Snapshot, place| snapshot.tree(place).expect("tree");
    assert_eq!(read(before.as_ref(), at("a")), Some(tree(10)));
    assert_eq!(read(after.as_ref(), at("a")), None);
    assert_eq!(read(after.as_ref(), other), Some(tree(20)));
    assert_eq!(read(after.as_ref(), Place { org: "p", ..at("a") }), Some(tree(30)));
}

fn a_tree_undone_is_as_before<P: Provider>(open: &dyn Fn() -> P) {
    let provider = open();
    write(&provider, |tx| tx.put_tree(at("a"), &tree(1)).expect("put_tree"));
    write(&provider, |tx| {
        tx.savepoint().expect("savepoint");
        tx.put_tree(at("a"), &tree(2)).expect("put_tree");
        tx.put_tree(at("b"), &tree(2)).expect("put_tree");
        tx.undo().expect("undo");
        tx.release().expect("release");
    });
    let snapshot = provider.read().expect("a snapshot");
    assert_eq!(snapshot.tree(at("a")).expect("tree"), Some(tree(1)));
    assert_eq!(snapshot.tree(at("b")).expect("tree"), None);
    drop(snapshot);
    let mut tx = provider.maintain(super::support::WAIT).expect("maintenance");
    tx.put_tree(at("a"), &tree(3)).expect("put_tree");
    tx.commit().expect("a commit");
    assert_eq!(provider.read().expect("a snapshot").tree(at("a")).expect("tree"), Some(tree(3)));
}

fn trees_that_are_due_are_listed_in_order<P: Provider>(open: &dyn Fn() -> P) {
    let provider = open();
    let due = |due: u64, tombstones: u64| Tree { tombstones, due, ..Tree::default() };
    write(&provider, |tx| {
        for (class, pk, tree) in [
            ("C", "b", due(9, 0)),
            ("C", "a", due(3, TOMBSTONES_MAX)),
            ("C", "late", due(10, TOMBSTONES_MAX)),
            ("C", "never", due(0, TOMBSTONES_MAX)),
            ("B", "many", due(0, TOMBSTONES_MAX + 1)),
            ("D", "both", due(11, TOMBSTONES_MAX + 1)),
        ] {
            tx.put_tree(Place { class, ..at(pk) }, &tree).expect("put_tree");
        }
    });
    let other = Place { org: "p", ..at("other") };
    write_to(&provider, "p", |tx| tx.put_tree(other, &due(1, 0)).expect("put_tree"));
    let snapshot = provider.read().expect("a snapshot");
    let listed = |after: (&str, &str), limit: usize| -> Vec<String> {
        let found = snapshot.due_trees("o", after, 10, limit).expect("due_trees");
        for (class, pk, tree) in &found {
            let place = Place { org: "o", class, pk };
            assert_eq!(snapshot.tree(place).expect("tree").as_ref(), Some(tree));
        }
        found.into_iter().map(|(class, pk, _)| class + &pk).collect()
    };
    assert_eq!(listed(("", ""), 9), ["Bmany", "Ca", "Cb", "Dboth"]);
    assert_eq!(listed(("B", "many"), 2), ["Ca", "Cb"]);
    assert_eq!(listed(("C", "a"), 9), ["Cb", "Dboth"]);
    assert_eq!(listed(("D", "both"), 9), [""; 0]);
}

fn members_are_counted_from_a_version<P: Provider>(open: &dyn Fn() -> P) {
    let provider = open();
    write(&provider, |tx| {
        for (pk, v) in [("a", 3), ("b", 4), ("c", 5)] {
            put(tx, pk, v);
        }
    });
    let snapshot = provider.read().expect("a snapshot");
    for (text, from, expected) in
        [("C", 4, vec!["b", "c"]), ("C", 6, vec![]), ("C@b", 4, vec!["b"]), ("C@b", 5, vec![])]
    {
        let mut members = snapshot.members("o", &def(text), from, 0).expect("members").found;
        members.sort();
        assert_eq!(members, expected, "{text} from {from}");
    }
    let mut members = snapshot.members("o", &in_collection(), 4, 0).expect("members").found;
    members.sort();
    assert_eq!(members, ["b", "c"]);
}

fn items_below_a_version_go_with_all_they_have<P: Provider>(open: &dyn Fn() -> P) {
    let provider = open();
    let entry = Entry { index: "i".into(), value: EntryValue::Int(1) };
    write(&provider, |tx| {
        for (pk, v) in [("a", 3), ("b", 4), ("c", 4), ("d", 5)] {
            let mut indexed = document(v);
            indexed.shown.entries.push(entry.clone());
            tx.put_document(at(pk), &indexed).expect("put_document");
            tx.put_link(at(pk), &link(v, ChangeState::Alive)).expect("put_link");
        }
        tx.put_entry(at("a"), "o", &entry).expect("put_entry");
        // Not in the collection.
        tx.put_document(at("outside"), &document(1)).expect("put_document");
    });
    write_to(&provider, "p", |tx| {
        assert_eq!(tx.purge_items(&in_collection(), 9, 9).expect("purge_items"), [""; 0], "another org's");
    });
    write(&provider, |tx| {
        assert_eq!(tx.purge_items(&in_collection(), 5, 2).expect("purge_items"), ["a", "b"]);
        assert!(!tx.snapshot().is_held(at("z"), "o", &entry).expect("is_held"), "its index goes with it");
        assert_eq!(tx.purge_items(&in_collection(), 5, 2).expect("purge_items"), ["c"]);
        assert_eq!(tx.purge_items(&in_collection(), 5, 2).expect("purge_items"), [""; 0]);
    });
    let snapshot = provider.read().expect("a snapshot");
    let rest = |text: &str| changes(snapshot.as_ref(), &def(text), (0, ""), 0).into_iter().map(|c| c.0);
    assert_eq!(rest("C").collect::<Vec<_>>(), ["outside", "d"]);
    assert_eq!(rest(&in_collection().to_string()).collect::<Vec<_>>(), ["d"]);
}

fn the_oldest_tombstones_leave_their_collection<P: Provider>(open: &dyn Fn() -> P) {
    let provider = open();
    let bury = |tx: &mut dyn Edit, pk: &str, v: u64| {
        let mut dead = document(v);
        dead.deleted = true;
        tx.put_document(at(pk), &dead).expect("put_document");
        tx.put_link(at(pk), &link(v, ChangeState::Deleted)).expect("put_link");
    };
    write(&provider, |tx| {
        put(tx, "alive", 1);
        for (pk, v) in [("e", 6), ("a", 2), ("b", 3), ("c", 3), ("d", 5)] {
            bury(tx, pk, v);
        }
        let mut trim =
            |keep, below, limit| tx.trim_items(&in_collection(), keep, below, limit).expect("trim");
        assert_eq!(trim(5, 9, 9), Trimmed { removed: 0, horizon: 0, left: 5 });
        assert_eq!(trim(2, 9, 1), Trimmed { removed: 1, horizon: 3, left: 4 });
        assert_eq!(trim(3, 9, 9), Trimmed { removed: 1, horizon: 4, left: 3 }, "the first by pk");
        assert_eq!(trim(0, 5, 9), Trimmed { removed: 1, horizon: 4, left: 2 }, "those below alone");
    });
    let snapshot = provider.read().expect("a snapshot");
    let left: Vec<String> =
        changes(snapshot.as_ref(), &in_collection(), (0, ""), 0).into_iter().map(|c| c.0).collect();
    assert_eq!(left, ["alive", "d", "e"]);
    assert!(snapshot.document(at("a")).expect("document").is_some_and(|d| d.deleted), "the tombstone stays");
}
