//! `--site-key`: stored data is sealed, bound to its place, and only the key opens it.

use std::path::Path;

use escale::Code;
use escale::model::Value;
use escale::model::schema::Schema;
use escale_server::clock::ManualClock;
use escale_server::engine::{Engine, Filing, Object, Opening, sha_of};
use escale_server::seal::Seal;
use escale_server::settings::Settings;

use crate::support::world::*;

const SECRET: &str = "a sentence that nobody else would write";

fn open_with(folder: &Path, seal: Seal) -> escale::Result<Engine> {
    let schema = Schema::from_json(SCHEMA).unwrap();
    Engine::open(
        folder,
        Opening { schema, settings: Settings::default(), seal, clock: ManualClock::at(NOON) },
    )
}

fn secret(id: &str) -> std::collections::BTreeMap<String, Value> {
    let mut map = note(id, "one");
    map.insert("text".into(), Value::from(SECRET));
    map
}

/// Whether any file of the folder contains the secret.
fn shows(folder: &Path) -> bool {
    super::journal::holds(folder, SECRET)
}

#[test]
fn data_is_sealed_and_opens_with_its_key_only() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open_with(folder.path(), Seal::with_key(&[1; 32])).unwrap();
    put(&engine, secret("a")).unwrap();
    assert!(!shows(folder.path()));
    drop(engine);
    assert!(!shows(folder.path()));
    assert_eq!(open_with(folder.path(), Seal::clear()).err().unwrap().code(), Code::BadOption);
    assert_eq!(open_with(folder.path(), Seal::with_key(&[2; 32])).err().unwrap().code(), Code::BadOption);
    let engine = open_with(folder.path(), Seal::with_key(&[1; 32])).unwrap();
    assert_eq!(put(&engine, secret("a")).unwrap(), None, "read back, it is unchanged");
    assert_eq!(ids(&pull(&engine, &def("Note"), 0)), ["a"]);
}

#[test]
fn what_was_in_clear_is_sealed_when_a_key_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open_with(folder.path(), Seal::clear()).unwrap();
    let v = put(&engine, secret("a")).unwrap().unwrap();
    for n in 0..50 {
        put(&engine, secret(&n.to_string())).unwrap();
        delete(&engine, &n.to_string()).unwrap();
    }
    let object = Object::new(&sha_of(SECRET.as_bytes()), None, SECRET.into(), 1 << 20).unwrap();
    Filing::of(&engine).put_object("o", &caller(), &object).unwrap();
    assert!(shows(folder.path()), "this search can find it");
    drop(engine);
    // Not by the key alone: a thief could have taken the seal off a sealed database.
    assert_eq!(open_with(folder.path(), Seal::with_key(&[1; 32])).err().unwrap().code(), Code::BadOption);
    let engine = open_with(folder.path(), Seal::with_key(&[1; 32]).adopting()).unwrap();
    assert!(!shows(folder.path()), "not even in pages that were freed");
    let part = pull(&engine, &def("Note"), 0);
    assert_eq!(part.rows.iter().find(|row| !row.deleted).map(|row| row.v), Some(v));
}

#[test]
fn data_moved_to_another_row_is_a_fault_of_the_defs_that_hold_it() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open_with(folder.path(), Seal::with_key(&[1; 32])).unwrap();
    put(&engine, secret("a")).unwrap();
    put(&engine, secret("b")).unwrap();
    put(&engine, note("c", "two")).unwrap();
    let raw = rusqlite::Connection::open(Engine::database_in(folder.path())).unwrap();
    let pk = escale::model::sha_s("a");
    let other = escale::model::sha_s("b");
    raw.execute(
        "UPDATE documents SET data = (SELECT data FROM documents WHERE pk = ?1) WHERE pk = ?2",
        [&pk, &other],
    )
    .unwrap();
    let parts = ask(&engine, vec![sub(&shelf("one"), 0), sub(&shelf("two"), 0)]).parts;
    assert_eq!(parts[0].fault.as_ref().map(|fault| fault.code.as_str()), Some("server_error"));
    assert!(parts[0].rows.is_empty());
    assert_eq!(ids(&parts[1]), ["c"]);
}

/// Somebody with the database, and without the key, replaces a document by one in clear. It is not served, and no write takes
/// it for the document before. The server opens all its records in the same way.
#[test]
fn records_put_back_in_clear_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open_with(folder.path(), Seal::with_key(&[1; 32])).unwrap();
    put(&engine, secret("a")).unwrap();
    put(&engine, note("c", "two")).unwrap();
    let raw = rusqlite::Connection::open(Engine::database_in(folder.path())).unwrap();
    let forged = {
        let elsewhere = tempfile::tempdir().unwrap();
        let clear = open_with(elsewhere.path(), Seal::clear()).unwrap();
        put(&clear, note("a", "one")).unwrap();
        let other = rusqlite::Connection::open(Engine::database_in(elsewhere.path())).unwrap();
        other.query_row("SELECT data FROM documents", [], |row| row.get::<_, Vec<u8>>(0)).unwrap()
    };
    raw.execute(
        "UPDATE documents SET data = ?1 WHERE pk = ?2",
        rusqlite::params![forged, escale::model::sha_s("a")],
    )
    .unwrap();
    let parts = ask(&engine, vec![sub(&shelf("one"), 0), sub(&shelf("two"), 0)]).parts;
    assert_eq!(parts[0].fault.as_ref().map(|fault| fault.code.as_str()), Some("server_error"));
    assert!(parts[0].rows.is_empty());
    assert_eq!(ids(&parts[1]), ["c"]);
    assert!(put(&engine, secret("a")).is_err(), "it is not taken for the document before, either");
}

#[test]
fn a_database_whose_seal_was_taken_off_does_not_open_by_the_key_alone() {
    let folder = tempfile::tempdir().unwrap();
    drop(open_with(folder.path(), Seal::with_key(&[1; 32])).unwrap());
    let empty = open_with(folder.path(), Seal::with_key(&[1; 32])).unwrap();
    put(&empty, secret("a")).unwrap();
    drop(empty);
    let raw = rusqlite::Connection::open(Engine::database_in(folder.path())).unwrap();
    raw.execute("UPDATE meta SET value = x'' WHERE name = 'seal_check'", []).unwrap();
    drop(raw);
    let error = open_with(folder.path(), Seal::with_key(&[1; 32])).err().unwrap();
    assert_eq!(error.code(), Code::BadOption);
    assert!(error.detail().contains("restore a backup"), "{error}");
}
