//! Databases that an earlier version sealed, without the rows of documents. Only the operator may have them sealed again.

use std::sync::Arc;
use std::time::Duration;

use escale::Code;
use escale::model::schema::Schema;
use escale_server::engine::{Engine, Opening, first_site};
use escale_server::mark::Mark;
use escale_server::provider::{Maintenance, MemoryDatabase, MemoryProvider, Place, Walked};
use escale_server::seal::Seal;

use super::answers::{Answers, Filled, KEY, ask_all, fill, opening};
use crate::accounts::support::ORG;
use crate::support::world::{key, note, shelf};

const WAIT: Duration = Duration::from_secs(5);

fn seal() -> Seal {
    Seal::with_key(&KEY)
}

fn open(database: &Arc<MemoryDatabase>, opening: Opening) -> escale::Result<Engine> {
    Engine::over(Box::new(MemoryProvider::open(database)), Mark::none(), opening, 7)
}

/// A sealed database with something of each kind, and the answers of its server.
fn filled() -> (Arc<MemoryDatabase>, Filled, Answers) {
    let database = MemoryDatabase::new(first_site(1).unwrap());
    let engine = open(&database, opening(seal())).unwrap();
    let filled = fill(&engine);
    let answers = ask_all(&engine, &filled);
    (database, filled, answers)
}

fn all(tx: &mut dyn Maintenance) -> Vec<Walked> {
    let found = tx.walk(None, 1_000).unwrap();
    assert!(found.len() < 1_000);
    found
}

/// Puts the documents into the form that an earlier version gave them, and the seal check, too.
fn make_earlier(database: &Arc<MemoryDatabase>) {
    let engine = open(database, opening(seal())).unwrap();
    let mut tx = engine.provider().maintain(WAIT).unwrap();
    for mut one in all(tx.as_mut()) {
        let data = seal().open_document(one.place(), &one.document).unwrap();
        one.document.data = seal().close(one.place(), one.document.v, &data).unwrap();
        tx.put_document(one.place(), &one.document).unwrap();
    }
    let mut site = tx.snapshot().site().unwrap();
    let nowhere = Place { org: "", class: "", pk: "" };
    site.seal_check = seal().close(nowhere, 0, b"escale-server site key").unwrap();
    tx.put_site(&site).unwrap();
    tx.commit().unwrap();
}

#[test]
fn a_database_that_an_earlier_version_sealed_is_sealed_again_by_the_operator_alone() {
    let (database, filled, answers) = filled();
    make_earlier(&database);
    let refused = open(&database, opening(seal())).err().unwrap();
    assert_eq!(refused.code(), Code::BadOption);
    assert!(refused.detail().contains("--seal"), "{refused}");
    drop(open(&database, opening(seal().adopting())).unwrap());
    let engine = open(&database, opening(seal())).unwrap();
    assert_eq!(ask_all(&engine, &filled), answers);
    let mut tx = engine.provider().maintain(WAIT).unwrap();
    for one in all(tx.as_mut()) {
        seal().open_document(one.place(), &one.document).unwrap();
    }
}

/// Who kept a copy of the rows of the earlier version puts one of them back.
#[test]
fn a_document_in_the_form_of_an_earlier_version_is_not_taken_back() {
    let (database, filled, answers) = filled();
    make_earlier(&database);
    let earlier = database.copy();
    let engine = open(&database, opening(seal().adopting())).unwrap();
    let old = MemoryDatabase::restored(&earlier);
    let old = MemoryProvider::open(&old);
    let old = escale_server::provider::Provider::read(&old).unwrap();
    let mut tx = engine.provider().maintain(WAIT).unwrap();
    for one in all(tx.as_mut()) {
        tx.put_document(one.place(), &old.document(one.place()).unwrap().unwrap()).unwrap();
    }
    tx.commit().unwrap();
    let after = ask_all(&engine, &filled);
    for (question, answer) in &after {
        let text = format!("{answer:?}");
        let tells = text.contains("server_error") || text.contains("storage_failed");
        assert!(tells || answer == &answers[question], "{question}: {text}");
        assert!(!text.contains("secret"), "{question}: {text}");
    }
    // Nor is all of it taken for a database of an earlier version, without a word of the operator.
    let mut tx = engine.provider().maintain(WAIT).unwrap();
    tx.put_site(&old.site().unwrap()).unwrap();
    tx.commit().unwrap();
    assert_eq!(open(&database, opening(seal())).err().unwrap().code(), Code::BadOption);
}

/// Neither without the heads of its orgs, which tell whether it is a new one.
#[test]
fn a_database_whose_heads_are_gone_is_no_new_one() {
    let (database, ..) = filled();
    let engine = open(&database, opening(seal())).unwrap();
    let documents = all(engine.provider().maintain(WAIT).unwrap().as_mut());
    let elsewhere = MemoryDatabase::new(first_site(1).unwrap());
    let other = MemoryProvider::open(&elsewhere);
    let mut tx = escale_server::provider::Provider::maintain(&other, WAIT).unwrap();
    for one in &documents {
        let data = Seal::clear().close(one.place(), one.document.v, b"made up").unwrap();
        let document = escale_server::provider::Document { data, ..one.document.clone() };
        tx.put_document(one.place(), &document).unwrap();
    }
    tx.commit().unwrap();
    assert_eq!(open(&elsewhere, opening(seal())).err().unwrap().code(), Code::BadOption);
}

/// A database that an earlier version sealed has nothing in clear: somebody else has put it there.
#[test]
fn a_document_in_clear_is_not_sealed_with_those_of_an_earlier_version() {
    let (database, ..) = filled();
    make_earlier(&database);
    let provider = MemoryProvider::open(&database);
    let mut tx = escale_server::provider::Provider::maintain(&provider, WAIT).unwrap();
    let mut one = all(tx.as_mut()).remove(0);
    one.document.data = Seal::clear().close(one.place(), one.document.v, b"made up").unwrap();
    tx.put_document(one.place(), &one.document).unwrap();
    tx.commit().unwrap();
    assert_eq!(open(&database, opening(seal().adopting())).err().unwrap().code(), Code::StorageFailed);
}

/// An instance that runs meanwhile would store documents as before.
#[test]
fn an_instance_writes_no_more_once_another_has_sealed_the_database_again() {
    let (database, ..) = filled();
    let engine = open(&database, opening(seal())).unwrap();
    make_earlier(&database);
    drop(open(&database, opening(seal().adopting())).unwrap());
    let refused = engine.write(ORG, |w| w.put("Sheet", key("z")));
    assert_eq!(refused.err().map(|error| error.code()), Some(Code::Unavailable));
}

/// A newer schema gives documents other memberships and values of indexes: they are sealed with those.
#[test]
fn documents_of_a_newer_schema_are_sealed_with_their_new_rows() {
    let database = MemoryDatabase::new(first_site(1).unwrap());
    let of = |schema: &str| Opening { schema: Schema::from_json(schema).unwrap(), ..opening(seal()) };
    let engine = open(&database, of(r#"{ "Note": { "key": ["id"] } }"#)).unwrap();
    engine.write("o", |w| w.put("Note", note("a", "one")).map(drop)).unwrap();
    engine.write("o", |w| w.put("Note", note("b", "one")).map(drop)).unwrap();
    engine.write("o", |w| w.delete("Note", &key("b"))).unwrap();
    drop(engine);
    let newer = r#"{ "Note": { "key": ["id"], "collections": { "shelf": { "key": ["shelf"] } },
        "indexes": { "shelf": "string" } } }"#;
    let engine = open(&database, of(newer)).unwrap();
    let part = crate::support::world::pull(&engine, &shelf("one"), 0);
    assert_eq!(crate::support::world::ids(&part), ["a"]);
    engine.write("o", |w| w.delete("Note", &key("a"))).unwrap();
    let mut tx = engine.provider().maintain(WAIT).unwrap();
    for one in all(tx.as_mut()) {
        seal().open_document(one.place(), &one.document).unwrap();
    }
}
