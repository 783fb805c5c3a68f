//! Runs the conformance suite of providers on SQLite and on the database in memory.

use escale::crypto::SeededRandom;
use escale::journal::make_id;
use escale::model::sha_s;
use escale_server::engine::first_state;
use escale_server::provider::{
    MemoryDatabase, MemoryProvider, Operation, Provider, Spent, SqliteProvider, conformance,
};

#[test]
fn sqlite_conforms() {
    let folder = tempfile::tempdir().unwrap();
    let mut n = 0;
    conformance::all(|| {
        n += 1;
        let path = folder.path().join(format!("{n}.db"));
        let first = first_state(1).unwrap();
        Box::new(move || SqliteProvider::open(&path, &first).unwrap())
    });
}

#[test]
fn memory_conforms() {
    conformance::all(|| {
        let database = MemoryDatabase::new(first_state(1).unwrap());
        Box::new(move || MemoryProvider::open(&database))
    });
}

#[test]
fn a_newer_format_is_refused_and_left_untouched() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("escale.db");
    drop(SqliteProvider::open(&path, &first_state(1).unwrap()).unwrap());
    let raw = rusqlite::Connection::open(&path).unwrap();
    raw.execute_batch("PRAGMA user_version = 4; PRAGMA wal_checkpoint(TRUNCATE);").unwrap();
    drop(raw);
    let before = std::fs::read(&path).unwrap();
    let error = SqliteProvider::open(&path, &first_state(1).unwrap()).err().unwrap();
    assert_eq!(error.code(), escale::Code::StoreTooNew);
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn the_format_before_is_brought_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("escale.db");
    drop(SqliteProvider::open(&path, &first_state(1).unwrap()).unwrap());
    let raw = rusqlite::Connection::open(&path).unwrap();
    // Operation `a` was executed, and number 1 of another session was used for it too.
    raw.execute_batch(
        "DROP TABLE spent; PRAGMA user_version = 2;
         INSERT INTO ops VALUES ('o', 'x', 's', 1, 'a', 'n', 7, 5, x'00'), ('o', 'x', 't', 1, 'a', 'n', 7, 5, NULL);",
    )
    .unwrap();
    drop(raw);
    let provider = SqliteProvider::open(&path, &first_state(1).unwrap()).unwrap();
    let mut tx = provider.write(std::time::Duration::ZERO).unwrap();
    assert_eq!(tx.operation("o", "x", "a").unwrap().unwrap().session, "s");
    assert_eq!(tx.purge_operations(6, 9).unwrap(), 1);
    assert_eq!(tx.spent("o", "x", "a").unwrap(), Some(Spent { v: Some(7) }));
}

/// The storage that an id takes, as docs/protocol.md gives it.
#[test]
#[allow(clippy::print_stdout)] // the figures are for readers of the log
fn an_id_that_is_kept_for_ever_takes_32_bytes() {
    const OPERATIONS: u64 = 20_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("escale.db");
    let provider = SqliteProvider::open(&path, &first_state(1).unwrap()).unwrap();
    let bytes = || {
        let raw = rusqlite::Connection::open(&path).unwrap();
        let pragma = |name: &str| raw.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, u64>(0));
        (pragma("page_count").unwrap() - pragma("freelist_count").unwrap()) * pragma("page_size").unwrap()
    };
    let mut random = SeededRandom::new(1);
    let (empty, wait) = (bytes(), std::time::Duration::from_secs(5));
    let mut tx = provider.write(wait).unwrap();
    for seq in 1..=OPERATIONS {
        let at = 1_700_000_000_000 + seq * 40;
        let (session, id) = (sha_s("session"), make_id(at, &mut random).unwrap());
        let name = sha_s("doc.patch");
        let operation = Operation { session, seq, id, name, v: Some(at), at, result: vec![0; 64] };
        tx.append_operation("org", "account", &operation).unwrap();
    }
    tx.commit().unwrap();
    let kept = (bytes() - empty) / OPERATIONS;
    let mut tx = provider.write(wait).unwrap();
    assert_eq!(tx.purge_operations(u64::MAX >> 1, OPERATIONS as usize).unwrap(), OPERATIONS);
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
    let error = SqliteProvider::open(&path, &first_state(1).unwrap()).err().unwrap();
    assert_eq!(error.code(), escale::Code::StorageFailed);
    std::fs::write(
        &path,
        "not a database, but long enough to be read as a header of one, 100 bytes or more. \
        And some more text, so that it is.",
    )
    .unwrap();
    assert_eq!(
        SqliteProvider::open(&path, &first_state(1).unwrap()).err().unwrap().code(),
        escale::Code::StorageFailed
    );
}
