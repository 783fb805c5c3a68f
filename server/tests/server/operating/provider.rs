//! Runs the conformance suite of providers on SQLite and on the database in memory.

use std::path::Path;

use escale::crypto::SeededRandom;
use escale::journal::{ActionType, make_id};
use escale::model::{Epoch, sha_s};
use escale_server::engine::first_site;
use escale_server::provider::{
    Action, Head, MemoryDatabase, MemoryProvider, Operation, Place, Provider, Spent, SqliteProvider, Tree,
    conformance, inspect,
};

use crate::support::chance::Chance;

#[test]
fn sqlite_conforms() {
    let folder = tempfile::tempdir().unwrap();
    let (mut n, mut chance) = (0, Chance::new());
    let fresh = || -> Box<dyn Fn() -> SqliteProvider> {
        n += 1;
        let path = folder.path().join(format!("{n}.db"));
        let first = first_site(1).unwrap();
        Box::new(move || SqliteProvider::open(&path, &first).unwrap())
    };
    conformance::all(fresh, &mut |below| chance.below(below));
}

#[test]
fn memory_conforms() {
    let mut chance = Chance::new();
    let fresh = || -> Box<dyn Fn() -> MemoryProvider> {
        let database = MemoryDatabase::new(first_site(1).unwrap());
        Box::new(move || MemoryProvider::open(&database))
    };
    conformance::all(fresh, &mut |below| chance.below(below));
}

#[test]
fn a_newer_format_is_refused_and_left_untouched() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("escale.db");
    drop(SqliteProvider::open(&path, &first_site(1).unwrap()).unwrap());
    let raw = rusqlite::Connection::open(&path).unwrap();
    raw.execute_batch("PRAGMA user_version = 9; PRAGMA wal_checkpoint(TRUNCATE);").unwrap();
    drop(raw);
    let before = std::fs::read(&path).unwrap();
    let error = SqliteProvider::open(&path, &first_site(1).unwrap()).err().unwrap();
    assert_eq!(error.code(), escale::Code::StoreTooNew);
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

const FORMATS: [&str; 7] = [
    include_str!("../../../src/provider/sqlite/sql/tables.sql"),
    include_str!("../../../src/provider/sqlite/sql/operations.sql"),
    include_str!("../../../src/provider/sqlite/sql/spent.sql"),
    include_str!("../../../src/provider/sqlite/sql/heads.sql"),
    include_str!("../../../src/provider/sqlite/sql/trees.sql"),
    include_str!("../../../src/provider/sqlite/sql/files.sql"),
    include_str!("../../../src/provider/sqlite/sql/kept.sql"),
];

/// A file of an older format, in which two orgs were written to.
fn older(path: &Path, format: usize) {
    let raw = rusqlite::Connection::open(path).unwrap();
    FORMATS[..format].iter().for_each(|tables| raw.execute_batch(tables).unwrap());
    // Operation `a` was executed, and number 1 of another session was used for it too.
    let used = if format == 2 { "('o', 'x', 't', 1, 'a', 'n', 7, 5, NULL)," } else { "" };
    raw.execute_batch(&format!(
        "INSERT INTO ops VALUES {used} ('o', 'x', 's', 1, 'a', 'n', 7, 5, x'00');
         INSERT INTO actions VALUES (1, 'o/C@p', CAST('state' AS BLOB), 7, 'persist', '\u{e9}', '');
         INSERT INTO orgs VALUES ('o'), ('p');
         INSERT INTO meta VALUES ('epoch', CAST('[5,\"e\"]' AS BLOB)), ('highest', CAST('70' AS BLOB)),
           ('told', CAST('8' AS BLOB)), ('horizon', CAST('3' AS BLOB)), ('schema', x''),
           ('cursor_key', x'07'), ('seal_check', x'');
         PRAGMA application_id = 0x4573636c; PRAGMA user_version = {format};"
    ))
    .unwrap();
    if format > 2 {
        raw.execute_batch("INSERT INTO meta VALUES ('commits', CAST('12' AS BLOB))").unwrap();
    }
}

#[test]
fn each_format_before_is_brought_up() {
    for format in 2..=7 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("escale.db");
        older(&path, format.min(3));
        for later in 4..=format {
            let raw = rusqlite::Connection::open(&path).unwrap();
            raw.execute_batch(FORMATS[later - 1]).unwrap();
            raw.execute_batch(&format!("PRAGMA user_version = {later}")).unwrap();
        }
        let error = inspect(&path, "o").unwrap_err();
        assert_eq!(error.code(), escale::Code::StorageFailed);
        assert!(error.detail().contains(&format!("format {format}")), "{}", error.detail());
        let provider = SqliteProvider::open(&path, &first_site(1).unwrap()).unwrap();
        let (site, _) = inspect(&path, "o").unwrap();
        let epoch = Epoch::new(5, "e").unwrap();
        let commits = if format == 2 { 0 } else { 12 };
        assert_eq!((&site.epoch, &site.last_epoch, site.generation), (&epoch, &epoch, 1));
        assert_eq!((site.commits, &*site.cursor_key), (commits, &[7][..]));
        assert_eq!(site.promised_now, 70, "an org without a head was told up to the highest version of all");
        let head = Head { epoch, commits, highest: 70, promised_now: 8, horizon: 3, kept: 0 };
        let heads = provider.read().unwrap().heads("", 9).unwrap();
        let operation = provider.read().unwrap().operation("o", "x", "a").unwrap().unwrap();
        let state = Some(b"state".to_vec());
        let (actor, commit, timestamp) = ("o/C@p".into(), "\u{e9}".into(), String::new());
        let action = Action { actor, kind: ActionType::Persist, state, v: 7, commit, timestamp };
        let kept = operation.bytes() + action.bytes();
        assert_eq!(heads, [("o".to_owned(), Head { kept, ..head.clone() }), ("p".to_owned(), head)]);
        let mut tx = provider.write("o", std::time::Duration::ZERO).unwrap();
        let place = Place { org: "o", class: "C", pk: "p" };
        assert_eq!(tx.snapshot().tree(place).unwrap(), None);
        tx.put_tree(place, &Tree { floor: 7, ..Tree::default() }).unwrap();
        assert!(!tx.snapshot().files().has_files().unwrap());
        tx.edit_files().refer(place, "sha").unwrap();
        assert_eq!(tx.snapshot().operation("o", "x", "a").unwrap().unwrap().session, "s");
        assert_eq!(tx.purge_operations(6, 9).unwrap().rows, 1);
        assert_eq!(tx.snapshot().spent("o", "x", "a").unwrap(), Some(Spent { v: Some(7) }));
        assert_eq!(tx.commit().unwrap(), commits + 1);
    }
}

/// The storage that an id takes, as docs/protocol.md gives it.
#[test]
#[allow(clippy::print_stdout)] // the figures are for readers of the log
fn an_id_that_is_kept_for_ever_takes_32_bytes() {
    const OPERATIONS: u64 = 20_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("escale.db");
    let provider = SqliteProvider::open(&path, &first_site(1).unwrap()).unwrap();
    let bytes = || {
        let raw = rusqlite::Connection::open(&path).unwrap();
        let pragma = |name: &str| raw.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, u64>(0));
        (pragma("page_count").unwrap() - pragma("freelist_count").unwrap()) * pragma("page_size").unwrap()
    };
    let mut random = SeededRandom::new(1);
    let (empty, wait) = (bytes(), std::time::Duration::from_secs(5));
    let mut tx = provider.write("org", wait).unwrap();
    for seq in 1..=OPERATIONS {
        let at = 1_700_000_000_000 + seq * 40;
        let (session, id) = (sha_s("session"), make_id(at, &mut random).unwrap());
        let name = sha_s("doc.patch");
        let operation = Operation { session, seq, id, name, v: Some(at), at, result: vec![0; 64] };
        tx.append_operation("account", &operation).unwrap();
    }
    tx.commit().unwrap();
    let kept = (bytes() - empty) / OPERATIONS;
    let mut tx = provider.write("org", wait).unwrap();
    assert_eq!(tx.purge_operations(u64::MAX >> 1, OPERATIONS as usize).unwrap().rows, OPERATIONS);
    tx.commit().unwrap();
    let spent = (bytes() - empty) / OPERATIONS;
    println!("{OPERATIONS} operations: {kept} bytes each with a result of 64, {spent} each without");
    assert!(spent <= 32, "{spent} bytes");
}

#[test]
fn another_program_s_database_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("escale.db");
    rusqlite::Connection::open(&path).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
    let error = SqliteProvider::open(&path, &first_site(1).unwrap()).err().unwrap();
    assert_eq!(error.code(), escale::Code::StorageFailed);
    std::fs::write(
        &path,
        "not a database, but long enough to be read as a header of one, 100 bytes or more. \
        And some more text, so that it is.",
    )
    .unwrap();
    assert_eq!(
        SqliteProvider::open(&path, &first_site(1).unwrap()).err().unwrap().code(),
        escale::Code::StorageFailed
    );
}
