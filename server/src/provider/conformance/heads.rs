//! The part of the suite about the heads of the orgs, and the state that all orgs share.

use std::thread;
use std::time::Duration;

use escale::Code;
use escale::model::Epoch;

use super::support::{WAIT, at, document, write, write_to};
use crate::provider::{Entry, EntryValue, Head, Place, Provider, Site};

/// Writes of each thread in the tests with several.
const WRITES: u64 = 40;

/// Runs each test on its own database.
pub(super) fn all<P: Provider>(fresh: &mut impl FnMut() -> Box<dyn Fn() -> P>) {
    a_head_is_of_one_org(&fresh());
    the_site_is_read_back_and_its_commits_are_counted(&fresh());
    maintenance_reaches_every_head_and_excludes_every_write(&fresh());
    orgs_written_at_once_have_their_own_numbers(&fresh());
    a_value_across_orgs_has_one_holder(&fresh());
}

fn head(ms: u64) -> Head {
    let epoch = Epoch::new(ms, "name").expect("an epoch");
    Head { epoch, commits: ms + 1, highest: ms + 2, promised_now: ms + 3, horizon: ms + 4, kept: ms + 5 }
}

/// The head of an org that is certain to have one.
fn head_of<P: Provider>(provider: &P, org: &str) -> Head {
    provider.read().expect("a snapshot").head(org).expect("head").expect("a head")
}

fn a_head_is_of_one_org<P: Provider>(open: &dyn Fn() -> P) {
    let (first, second) = (open(), open());
    assert_eq!(first.read().expect("a snapshot").head("o").expect("head"), None, "nothing was written");
    for (org, ms) in [("p", 20), ("o", 10), ("q", 30)] {
        write_to(&first, org, |tx| tx.put_head(&head(ms)).expect("put_head"));
    }
    write_to(&first, "o", |tx| {
        tx.put_head(&head(11)).expect("in place of the other");
        assert_eq!(tx.snapshot().head("o").expect("own write"), Some(head(11)));
        assert_eq!(tx.snapshot().head("p").expect("another's"), Some(head(20)));
    });
    let mut dropped = first.write("p", WAIT).expect("a write");
    dropped.put_head(&head(99)).expect("put_head");
    drop(dropped);
    // Documents of an org make no head, nor move another's.
    write_to(&second, "r", |tx| {
        tx.put_document(Place { org: "r", ..at("a") }, &document(5)).expect("put_document");
    });
    let snapshot = second.read().expect("a snapshot");
    let heads = [("o".to_owned(), head(11)), ("p".to_owned(), head(20)), ("q".to_owned(), head(30))];
    assert_eq!(snapshot.heads("", 9).expect("heads"), heads);
    assert_eq!(snapshot.heads("", 2).expect("heads"), heads[..2]);
    assert_eq!(snapshot.heads("o", 9).expect("heads"), heads[1..]);
    assert_eq!(snapshot.heads("q", 9).expect("heads"), []);
    assert_eq!(snapshot.head("r").expect("head"), None);
    drop(snapshot);
    drop((first, second));
    assert_eq!(head_of(&open(), "q"), head(30), "a new instance finds it");
}

fn the_site_is_read_back_and_its_commits_are_counted<P: Provider>(open: &dyn Fn() -> P) {
    let (first, second) = (open(), open());
    let site = |provider: &P| provider.read().expect("a snapshot").site().expect("site");
    let before = site(&first);
    let epoch = |ms| Epoch::new(ms, "name").expect("an epoch");
    let changed = Site {
        epoch: epoch(5),
        last_epoch: epoch(6),
        generation: 7,
        commits: 1_000,
        promised_now: 8,
        cursor_key: vec![1, 2],
        schema: "{}".into(),
        seal_check: vec![0, 255],
        server: before.server.clone(),
    };
    let mut tx = first.maintain(WAIT).expect("maintenance");
    tx.put_site(&changed).expect("put_site");
    drop(tx);
    assert_eq!(site(&second), before, "dropped");
    let mut tx = first.maintain(WAIT).expect("maintenance");
    tx.put_site(&changed).expect("put_site");
    let commits = tx.commit().expect("a commit");
    assert_eq!(commits, before.commits + 1, "the database counts by itself");
    assert_eq!(site(&second), Site { commits, ..changed.clone() });
    drop(first.write("o", WAIT).expect("a write"));
    assert_eq!(write_to(&second, "o", |_| {}), commits + 1);
    assert_eq!(write_to(&first, "p", |_| {}), commits + 2);
    assert_eq!(site(&first), Site { commits: commits + 2, ..changed });
}

fn maintenance_reaches_every_head_and_excludes_every_write<P: Provider>(open: &dyn Fn() -> P) {
    let (first, second) = (open(), open());
    write(&first, |tx| tx.put_head(&head(1)).expect("put_head"));
    let writing = first.write("o", WAIT).expect("a write");
    let refused = second.maintain(Duration::ZERO).map(|_| ()).expect_err("maintenance during a write");
    assert_eq!(refused.code(), Code::Contention);
    drop(writing);
    let mut tx = second.maintain(WAIT).expect("maintenance");
    for org in ["o", "p"] {
        let refused = first.write(org, Duration::ZERO).map(|_| ()).expect_err("a write during maintenance");
        assert_eq!(refused.code(), Code::Contention);
        tx.put_head(org, &head(50)).expect("put_head");
    }
    let place = Place { org: "p", ..at("a") };
    tx.put_document(place, &document(5)).expect("put_document");
    assert_eq!(tx.snapshot().heads("", 9).expect("heads").len(), 2);
    tx.commit().expect("a commit");
    assert_eq!((head_of(&first, "o"), head_of(&first, "p")), (head(50), head(50)));
    let snapshot = first.read().expect("a snapshot");
    assert_eq!(snapshot.document(place).expect("document"), Some(document(5)));
    assert!(first.write("o", Duration::ZERO).is_ok(), "the turn is given back");
}

/// Two threads for each of two orgs add 1 to the org's numbers, each through its own instance.
fn orgs_written_at_once_have_their_own_numbers<P: Provider>(open: &dyn Fn() -> P) {
    let watching = open();
    for (org, ms) in [("o", 0), ("p", 1_000)] {
        write_to(&watching, org, |tx| tx.put_head(&head(ms)).expect("put_head"));
    }
    let before = watching.read().expect("a snapshot").site().expect("site").commits;
    let instances: Vec<P> = (0..4).map(|_| open()).collect();
    thread::scope(|scope| {
        for (number, instance) in instances.iter().enumerate() {
            let org = ["o", "p"][number % 2];
            scope.spawn(move || {
                for n in 0..WRITES {
                    write_to(instance, org, |tx| {
                        let Head { commits, highest, .. } =
                            tx.snapshot().head(org).expect("head").expect("a head");
                        let (commits, highest) = (commits + 1, highest + 1);
                        let own = tx.snapshot().head(org).expect("head").expect("a head");
                        tx.put_head(&Head { commits, highest, ..own }).expect("put_head");
                        let pk = format!("{number}-{n}");
                        let place = Place { org, class: "C", pk: &pk };
                        tx.put_document(place, &document(highest)).expect("put_document");
                    });
                }
            });
        }
    });
    let snapshot = watching.read().expect("a snapshot");
    for (org, ms) in [("o", 0), ("p", 1_000)] {
        let expected = Head { commits: ms + 1 + 2 * WRITES, highest: ms + 2 + 2 * WRITES, ..head(ms) };
        assert_eq!(snapshot.head(org).expect("head"), Some(expected));
        // Each write has its own version, and nothing of it was lost to the other org's commits.
        let (mut seen, class) = (Vec::new(), "C".parse().expect("a def"));
        let mut visit = |change: crate::provider::Change| {
            seen.push(change.v);
            Ok(true)
        };
        snapshot.changes(org, &class, (0, ""), 0, &mut visit).expect("changes");
        assert_eq!(seen, (ms + 3..ms + 3 + 2 * WRITES).collect::<Vec<_>>());
    }
    assert_eq!(snapshot.site().expect("site").commits, before + 4 * WRITES);
}

/// A value that is unique across orgs, wanted by two orgs at once, again and again.
fn a_value_across_orgs_has_one_holder<P: Provider>(open: &dyn Fn() -> P) {
    let entry = |n: u64| Entry { index: "i".into(), value: EntryValue::Int(n as i64) };
    // Whether the org has the value now. A database may refuse: its locks wait for each other.
    let take = |provider: &P, org: &str, n: u64| {
        let mut tx = provider.write(org, WAIT).expect("a write");
        let place = Place { org, ..at("a") };
        let taken = tx.snapshot().is_held(place, "", &entry(n)).and_then(|is_held| {
            if !is_held {
                tx.put_entry(place, "", &entry(n))?;
            }
            Ok(!is_held)
        });
        match taken {
            Ok(true) => tx.commit().is_ok(),
            Ok(false) => false,
            Err(error) => {
                assert!([Code::Contention, Code::NotUnique].contains(&error.code()), "{error}");
                false
            }
        }
    };
    let (first, second) = (open(), open());
    for n in 0..WRITES {
        let (a, b) = thread::scope(|scope| {
            let a = scope.spawn(|| take(&first, "o", n));
            let b = scope.spawn(|| take(&second, "p", n));
            (a.join().expect("a thread"), b.join().expect("a thread"))
        });
        assert!(a != b, "one of them has value {n}: {a} {b}");
    }
    write(&first, |tx| tx.remove_entry(at("a"), "", &entry(0)).expect("remove_entry"));
    write_to(&first, "p", |tx| {
        tx.remove_entry(Place { org: "p", ..at("a") }, "", &entry(0)).expect("remove_entry");
    });
    assert!(take(&second, "q", 0) && !take(&first, "o", 0), "a value that was given back");
}
