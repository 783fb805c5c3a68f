//! The part of the suite about files: a random history of their tables equals one of plain maps.

use std::collections::{BTreeMap, BTreeSet};

use super::support::{WAIT, write_to};
use crate::provider::{File, FileEdits, FileReads, Place, Provider, Purge, Uploads};

/// Names that differ in their case alone are different objects.
const SHAS: [&str; 6] = ["a", "A", "b", "-b", "_c", "c"];
const ORGS: [&str; 2] = ["o", "O"];
const ACCOUNTS: [&str; 3] = ["", "x", "x\0"];
const DOCUMENTS: [(&str, &str); 3] = [("C", "a"), ("C", "A"), ("D", "a")];
/// The latest time of the history.
const LATEST: u64 = 9;
const MIB: u64 = 1 << 20;

pub(super) fn all<P: Provider>(
    fresh: &mut impl FnMut() -> Box<dyn Fn() -> P>,
    random: &mut dyn FnMut(u64) -> u64,
) {
    a_history_equals_maps(&fresh(), random);
    changes_are_undone_with_the_write(&fresh());
}

#[derive(Clone, Default)]
struct Expected {
    files: BTreeMap<&'static str, File>,
    references: BTreeSet<(&'static str, (&'static str, &'static str))>,
    chunks: BTreeMap<&'static str, Vec<&'static str>>,
    uploads: BTreeSet<(&'static str, &'static str)>,
    purges: BTreeMap<&'static str, Purge>,
}

fn place<'a>(org: &'a str, (class, pk): (&'a str, &'a str)) -> Place<'a> {
    Place { org, class, pk }
}

fn a_history_equals_maps<P: Provider>(open: &dyn Fn() -> P, random: &mut dyn FnMut(u64) -> u64) {
    let (first, second) = (open(), open());
    let mut expected = [Expected::default(), Expected::default()];
    for _ in 0..120 {
        let at = random(2) as usize;
        let (org, other) = (ORGS[at], ORGS[1 - at]);
        let before = second.read().expect("a snapshot");
        let was = expected[at].clone();
        write_to(&first, org, |tx| {
            for _ in 0..=random(4) {
                step(tx.edit_files(), org, &mut expected[at], random);
            }
            compare(tx.snapshot().files(), org, &expected[at]);
        });
        compare(before.files(), org, &was);
        let after = second.read().expect("a snapshot");
        compare(after.files(), org, &expected[at]);
        compare(after.files(), other, &expected[1 - at]);
        let has_files = expected.iter().any(|expected| !expected.files.is_empty());
        assert_eq!(after.files().has_files().expect("has_files"), has_files);
    }
}

/// One change of the tables, and of the maps.
fn step(tx: &mut dyn FileEdits, org: &str, expected: &mut Expected, random: &mut dyn FnMut(u64) -> u64) {
    let sha = SHAS[random(SHAS.len() as u64) as usize];
    let document = DOCUMENTS[random(DOCUMENTS.len() as u64) as usize];
    let account = ACCOUNTS[random(ACCOUNTS.len() as u64) as usize];
    let Expected { files, references, chunks, uploads, purges } = expected;
    match random(10) {
        0..3 => {
            let mut perhaps = |number: u64| (random(2) == 0).then_some(number);
            let (list, until) = (perhaps(MIB + 1), perhaps(LATEST));
            let file = File { name: format!("{sha}.{}", random(9)), size: random(MIB), list, until };
            tx.put_file(org, sha, &file).expect("put_file");
            files.insert(sha, file);
        }
        3 => {
            tx.remove_file(org, sha).expect("remove_file");
            files.remove(sha);
            chunks.remove(sha);
            uploads.retain(|(of, _)| *of != sha);
        }
        4 => {
            tx.refer(place(org, document), sha).expect("refer");
            references.insert((sha, document));
        }
        5 => {
            tx.unrefer(place(org, document), sha).expect("unrefer");
            references.remove(&(sha, document));
        }
        6 if !chunks.contains_key(sha) => {
            let own: Vec<&str> = (0..random(5)).map(|_| SHAS[random(SHAS.len() as u64) as usize]).collect();
            tx.put_chunks(org, sha, &own).expect("put_chunks");
            if !own.is_empty() {
                chunks.insert(sha, own);
            }
        }
        7 => {
            tx.put_upload(org, account, sha).expect("put_upload");
            if files.contains_key(sha) {
                uploads.insert((sha, account));
            }
        }
        8 => {
            let purge = Purge { at: random(LATEST + 1), is_claimed: random(2) == 0 };
            tx.put_purge(org, sha, &purge).expect("put_purge");
            purges.insert(sha, purge);
        }
        _ => {
            tx.remove_purge(org, sha).expect("remove_purge");
            purges.remove(sha);
        }
    }
}

/// Every read of an org, with and without a limit.
fn compare(found: &dyn FileReads, org: &str, expected: &Expected) {
    let Expected { files, references, chunks, uploads, purges } = expected;
    for sha in SHAS {
        assert_eq!(found.file(org, sha).expect("file").as_ref(), files.get(sha));
        let later =
            files.iter().filter(|(of, _)| **of > sha).map(|(of, file)| ((*of).to_owned(), file.clone()));
        assert_eq!(found.files_after(org, sha, 2).expect("files_after"), later.take(2).collect::<Vec<_>>());
        let of = references.iter().filter(|(of, _)| *of == sha);
        let of: Vec<_> = of.map(|(_, (class, pk))| ((*class).to_owned(), (*pk).to_owned())).collect();
        assert_eq!(found.referring(org, sha, 9).expect("referring"), of);
        assert_eq!(found.referring(org, sha, 1).expect("referring"), of[..of.len().min(1)]);
        let lists = chunks.iter().filter(|(_, own)| own.contains(&sha)).map(|(list, _)| *list);
        assert_eq!(found.lists_of(org, sha, 9).expect("lists_of"), lists.collect::<Vec<_>>());
        let own = chunks.get(sha).cloned().unwrap_or_default();
        assert_eq!(found.chunks(org, sha).expect("chunks"), own);
        assert_eq!(found.purge(org, sha).expect("purge").as_ref(), purges.get(sha));
        for account in ACCOUNTS {
            let has = uploads.contains(&(sha, account));
            assert_eq!(found.has_uploaded(org, account, sha).expect("has_uploaded"), has);
        }
    }
    let those = found.those(org, &SHAS).expect("those");
    assert_eq!(those.len(), files.len());
    assert!(those.iter().all(|(sha, file)| files.get(sha.as_str()) == Some(file)));
    for document in DOCUMENTS {
        let own = references.iter().filter(|(_, of)| *of == document).map(|(sha, _)| *sha);
        let found = found.references(place(org, document)).expect("references");
        assert_eq!(found, own.collect::<Vec<_>>());
    }
    for account in ACCOUNTS {
        let mut open = Uploads::default();
        for (sha, _) in uploads.iter().filter(|(_, of)| *of == account) {
            let file = &files[sha];
            if file.until.is_some() {
                let list = file.list.unwrap_or(0);
                open = Uploads {
                    objects: open.objects + 1 + list.div_ceil(MIB),
                    bytes: open.bytes + file.size + list,
                };
            }
        }
        assert_eq!(found.open_uploads(org, account).expect("open_uploads"), open);
    }
    for now in [0, LATEST / 2, LATEST] {
        let due = files.iter().filter(|(_, file)| file.until.is_some_and(|until| until <= now));
        let due: Vec<&str> = due.map(|(sha, _)| *sha).collect();
        assert_eq!(sorted(found.due_files(org, now, 99).expect("due_files")), due);
        assert_eq!(found.due_files(org, now, 1).expect("due_files").len(), due.len().min(1));
        let due = purges.iter().filter(|(_, purge)| purge.at <= now).map(|(name, _)| *name);
        assert_eq!(sorted(found.due_purges(org, now, 99).expect("due_purges")), due.collect::<Vec<_>>());
    }
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}

fn changes_are_undone_with_the_write<P: Provider>(open: &dyn Fn() -> P) {
    let provider = open();
    let file = File { name: "n".into(), size: 1, list: None, until: Some(1) };
    let purge = Purge { at: 1, is_claimed: false };
    let mut tx = provider.write("o", WAIT).expect("a write");
    tx.savepoint().expect("savepoint");
    tx.edit_files().put_file("o", "a", &file).expect("put_file");
    tx.edit_files().put_purge("o", "a", &purge).expect("put_purge");
    tx.undo().expect("undo");
    tx.edit_files().put_file("o", "b", &file).expect("put_file");
    tx.release().expect("release");
    tx.commit().expect("a commit");
    let mut tx = provider.write("o", WAIT).expect("a write");
    tx.edit_files().remove_file("o", "b").expect("remove_file");
    drop(tx);
    let snapshot = provider.read().expect("a snapshot");
    assert_eq!(snapshot.files().files_after("o", "", 9).expect("files_after"), [("b".to_owned(), file)]);
    assert_eq!(snapshot.files().purge("o", "a").expect("purge"), None);
}
