//! `--site-key`: stored data is sealed, bound to its place, and only the key opens it. Somebody with the database, and without
//! the key, may put a record in clear in the place of a sealed one. The server takes none of them, of any kind.

use std::collections::BTreeMap;
use std::path::Path;

use escale::Code;
use escale::codec::{Op, OpResult, SyncRequest};
use escale::model::Value;
use escale::model::schema::Schema;
use escale_server::accounts::{AccountTokens, invite};
use escale_server::clock::ManualClock;
use escale_server::engine::{Caller, Engine, Filing, Object, Opening, sha_of};
use escale_server::provider::Place;
use escale_server::seal::Seal;
use escale_server::settings::Settings;

use crate::accounts::support::{Desk, ORG, Secret, code};
use crate::support::operating::{code_of, op, put_args};
use crate::support::world::*;

const QUOTAS: &str = r#"{ "Note": { "key": ["id"], "quota": { "by": "shelf" } } }"#;

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

fn seal() -> Seal {
    Seal::with_key(&[1; 32])
}

/// A server with the key `seal()`, whose documents count.
fn with_quotas(folder: &Path) -> Engine {
    let schema = Schema::from_json(QUOTAS).unwrap();
    let opening =
        Opening { schema, settings: Settings::default(), seal: seal(), clock: ManualClock::at(NOON) };
    Engine::open(folder, opening).unwrap()
}

/// The sealed bytes in clear. Somebody without the key can store them who knows their content, or guesses it.
fn in_clear(at: Place, v: u64, stored: &[u8]) -> Vec<u8> {
    assert!(!Seal::is_clear(stored), "{}: it is sealed", at.class);
    Seal::clear().close(at, v, &seal().open_state(at, v, stored).unwrap()).unwrap()
}

/// Puts all records of a class in clear. Returns their number.
fn forge(folder: &Path, class: &str) -> usize {
    let raw = rusqlite::Connection::open(Engine::database_in(folder)).unwrap();
    let mut found = raw.prepare("SELECT pk, v, data FROM documents WHERE org = ?1 AND class = ?2").unwrap();
    let rows = found.query_map([ORG, class], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    let rows: Vec<(String, u64, Vec<u8>)> = rows.map(Result::unwrap).collect();
    for (pk, v, data) in &rows {
        let clear = in_clear(Place { org: ORG, class, pk }, *v, data);
        let sql = "UPDATE documents SET data = ?1 WHERE org = ?2 AND class = ?3 AND pk = ?4";
        assert_eq!(raw.execute(sql, rusqlite::params![clear, ORG, class, pk]).unwrap(), 1);
    }
    rows.len()
}

fn run(engine: &Engine, caller: &Caller, op: Op) -> OpResult {
    let session = op.id.clone();
    let request = SyncRequest { ops: vec![op], ..SyncRequest::of(session) };
    engine.sync(ORG, caller, &request).unwrap().results.remove(0)
}

fn root() -> Caller {
    Caller { account: "root".into(), may_write: true, is_admin: true, ..Caller::default() }
}

#[test]
fn an_account_in_clear_signs_nobody_in() {
    let folder = tempfile::tempdir().unwrap();
    let engine = with_quotas(folder.path());
    let desk = Desk::new(&engine);
    let one = Secret::passphrase("one");
    desk.sign_up("ada", 1, &[&one], None).unwrap();
    desk.sign_in("ada", &one, None).unwrap();
    let request =
        desk.proven("sign-in", "ada", &one, BTreeMap::from([("device".into(), Value::Map(BTreeMap::new()))]));
    assert_eq!(forge(folder.path(), "#account"), 1);
    assert_eq!(code(desk.ask(&Value::Map(request), None)), Code::StorageFailed);
    assert_eq!(code(desk.sign_up("ada", 1, &[&one], None)), Code::StorageFailed, "its owner's repeat");
}

#[test]
fn a_token_in_clear_opens_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let engine = with_quotas(folder.path());
    let desk = Desk::new(&engine);
    let one = Secret::passphrase("one");
    desk.sign_up("ada", 1, &[&one], None).unwrap();
    let (token, _) = desk.sign_in("ada", &one, None).unwrap();
    assert!(AccountTokens::default().enter(&engine, ORG, &token).unwrap().is_some());
    assert_eq!(forge(folder.path(), "#token"), 1);
    assert_eq!(code(AccountTokens::default().enter(&engine, ORG, &token)), Code::StorageFailed);
}

#[test]
fn an_invitation_in_clear_lets_nobody_in() {
    let folder = tempfile::tempdir().unwrap();
    let engine = with_quotas(folder.path());
    let invitation = invite(&engine, ORG, "admin").unwrap();
    assert_eq!(forge(folder.path(), "#invitation"), 1);
    let desk = Desk::new(&engine);
    assert_eq!(
        code(desk.sign_up("ada", 1, &[&Secret::passphrase("one")], Some(&invitation))),
        Code::StorageFailed
    );
}

#[test]
fn counters_and_schedules_in_clear_count_and_restrict_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let engine = with_quotas(folder.path());
    let schedule = Value::from([(
        "schedule",
        Value::Array(vec![Value::Array(vec![Value::from((NOON * 2) as i64), Value::from(1)])]),
    )]);
    assert_eq!(code_of(&run(&engine, &root(), op("set", 1, "org.set", schedule.clone()))), "ok");
    assert_eq!(code_of(&run(&engine, &root(), op("put", 1, "doc.put", put_args("a", "one")))), "ok");
    assert_eq!(forge(folder.path(), "#counter"), 2);
    assert_eq!(
        code_of(&run(&engine, &root(), op("get", 1, "quota.get", Value::Map([].into())))),
        "server_error"
    );
    assert_eq!(
        code_of(&run(&engine, &root(), op("more", 1, "doc.put", put_args("b", "one")))),
        "server_error"
    );
    assert_eq!(forge(folder.path(), "#org"), 1);
    assert_eq!(code_of(&run(&engine, &root(), op("again", 1, "org.set", schedule))), "server_error");
}

#[test]
fn a_result_in_clear_is_not_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let engine = with_quotas(folder.path());
    let put = op("put", 1, "doc.put", put_args("a", "one"));
    let gone = op(
        "gone",
        1,
        "doc.delete",
        Value::from([("class", Value::from("Note")), ("key", Value::Array(vec!["b".into()]))]),
    );
    assert_eq!(code_of(&run(&engine, &root(), put.clone())), "ok");
    assert_eq!(code_of(&run(&engine, &root(), gone.clone())), "not_found");
    let raw = rusqlite::Connection::open(Engine::database_in(folder.path())).unwrap();
    for id in ["put", "gone"] {
        let found = raw.query_row("SELECT seq, result FROM ops WHERE id = ?1", [id], |row| {
            Ok((row.get(0)?, row.get(1)?))
        });
        let (seq, stored): (u64, Vec<u8>) = found.unwrap();
        let clear = in_clear(Place { org: ORG, class: "", pk: &format!("root/{id}") }, seq, &stored);
        assert_eq!(
            raw.execute("UPDATE ops SET result = ?1 WHERE id = ?2", rusqlite::params![clear, id]).unwrap(),
            1
        );
    }
    // That they were executed is known all the same.
    assert_eq!(code_of(&run(&engine, &root(), put)), "forgotten");
    assert_eq!(code_of(&run(&engine, &root(), gone)), "internal");
}

/// The server never reads the states in its journal. Who reads them for an operator opens them by the same seal.
#[test]
fn a_state_of_the_journal_in_clear_does_not_open() {
    let folder = tempfile::tempdir().unwrap();
    let engine = with_quotas(folder.path());
    assert_eq!(code_of(&run(&engine, &root(), op("put", 1, "doc.put", put_args("a", "one")))), "ok");
    let raw = rusqlite::Connection::open(Engine::database_in(folder.path())).unwrap();
    let found = raw.query_row("SELECT goblin, version, action FROM actions", [], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?))
    });
    let (actor, v, stored): (String, u64, Vec<u8>) = found.unwrap();
    let at = Place::of_actor(&actor).unwrap();
    let clear = in_clear(at, v, &stored);
    assert_eq!(code(seal().open_state(at, v, &clear)), Code::StorageFailed);
}

#[test]
fn an_object_in_clear_is_not_served() {
    let folder = tempfile::tempdir().unwrap();
    let engine = with_quotas(folder.path());
    let bytes = b"a file of somebody".to_vec();
    let object = Object::new(&sha_of(&bytes), None, bytes.clone(), 1 << 20).unwrap();
    Filing::of(&engine).put_object(ORG, &root(), &object).unwrap();
    assert_eq!(Filing::of(&engine).object(ORG, &root(), object.sha()).unwrap(), bytes);
    let mut forged = 0;
    let mut folders = vec![folder.path().join("files")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if std::fs::metadata(&path).unwrap().len() > bytes.len() as u64 {
                std::fs::write(path, [&[0], bytes.as_slice()].concat()).unwrap();
                forged += 1;
            }
        }
    }
    assert_eq!(forged, 1);
    assert_eq!(code(Filing::of(&engine).object(ORG, &root(), object.sha())), Code::StorageFailed);
}
