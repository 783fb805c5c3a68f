//! SQLite, and the database in memory, against the suite of every provider.

use escale_server::engine::first_state;
use escale_server::provider::{MemoryDatabase, MemoryProvider, SqliteProvider, conformance};

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
    raw.execute_batch("PRAGMA user_version = 3; PRAGMA wal_checkpoint(TRUNCATE);").unwrap();
    drop(raw);
    let before = std::fs::read(&path).unwrap();
    let error = SqliteProvider::open(&path, &first_state(1).unwrap()).err().unwrap();
    assert_eq!(error.code(), escale::Code::StoreTooNew);
    assert_eq!(std::fs::read(&path).unwrap(), before);
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
