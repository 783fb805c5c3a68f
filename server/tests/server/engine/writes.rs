//! The only way to write: its refusals and its effects.

use escale::Code;
use escale::model::schema::Schema;
use escale::model::{Def, Pk, Value};
use escale_server::engine::{Engine, Opening, Outcome};
use escale_server::seal::Seal;
use escale_server::settings::Settings;

use crate::support::world::*;

fn code<T: std::fmt::Debug>(result: escale::Result<T>) -> Code {
    result.unwrap_err().code()
}

fn with(id: &str, name: &str, value: impl Into<Value>) -> std::collections::BTreeMap<String, Value> {
    let mut map = key(id);
    map.insert(name.into(), value.into());
    map
}

fn author(value: &str) -> Def {
    Def::collection(&"Note".parse().unwrap(), &"author".parse().unwrap(), &[value]).unwrap()
}

#[test]
fn a_key_that_cannot_change_does_not() {
    let world = world();
    put(&world.engine, with("a", "author", "Zola")).unwrap();
    assert_eq!(code(put(&world.engine, with("a", "author", "Hugo"))), Code::ImmutableKey);
    assert_eq!(code(put(&world.engine, key("a"))), Code::ImmutableKey);
    let mut more = with("a", "author", "Zola");
    more.insert("size".into(), Value::from(1));
    assert!(put(&world.engine, more).is_ok());
    // Deleted and created again, it is another document: the collection that held it is informed.
    delete(&world.engine, "a").unwrap();
    put(&world.engine, with("a", "author", "Hugo")).unwrap();
    assert_eq!(ids(&pull(&world.engine, &author("Hugo"), 1)), ["a"]);
    assert_eq!(pull(&world.engine, &author("Zola"), 1).left.len(), 1);
}

#[test]
fn a_unique_value_has_one_holder() {
    let world = world();
    let other_org = |map: std::collections::BTreeMap<String, Value>| {
        world.engine.write("p", |w| w.put("Note", map.clone()))
    };
    put(&world.engine, with("a", "mail", "m")).unwrap();
    assert_eq!(code(put(&world.engine, with("b", "mail", "m"))), Code::NotUnique);
    assert!(other_org(with("b", "mail", "m")).is_ok(), "unique within the org");
    put(&world.engine, with("c", "isbn", "1")).unwrap();
    assert_eq!(code(other_org(with("c", "isbn", "1"))), Code::NotUnique, "unique across orgs");
    // Once its holder has another value or is deleted, the value is free.
    put(&world.engine, with("a", "mail", "n")).unwrap();
    put(&world.engine, with("b", "mail", "m")).unwrap();
    delete(&world.engine, "b").unwrap();
    put(&world.engine, with("d", "mail", "m")).unwrap();
    let both = world.engine.write("o", |w| {
        w.put("Note", with("x", "mail", "z"))?;
        w.put("Note", with("y", "mail", "z"))
    });
    assert_eq!(code(both), Code::NotUnique);
    assert_eq!(pull(&world.engine, &def(&format!("Note@{}", Pk::from_key(&["x"]).unwrap())), 0).rows, []);
}

#[test]
fn a_write_is_whole_or_not_at_all() {
    let world = world();
    put(&world.engine, note("a", "one")).unwrap();
    let before = pull(&world.engine, &def("Note"), 0);
    let result = world.engine.write("o", |w| {
        w.put("Note", note("a", "two"))?;
        w.put("Note", note("b", "two"))?;
        w.delete("Note", &key("nobody"))
    });
    assert_eq!(code(result), Code::NotFound);
    assert_eq!(pull(&world.engine, &def("Note"), 0), before);
    assert_eq!(pull(&world.engine, &shelf("two"), 0).rows, []);
    let read = world.engine.write("o", |w| {
        w.put("Note", note("a", "two"))?;
        w.get("Note", Pk::from_key(&["a"])?.as_str())
    });
    let (v, map) = read.unwrap().value.unwrap();
    assert_eq!((v > NOON, map["shelf"].as_str()), (true, Some("two")), "it reads what it wrote");
    assert_eq!(
        world.engine.write("o", |w| w.put("Note", note("a", "two"))).unwrap().value,
        Outcome::Unchanged
    );
}

#[test]
fn a_tombstone_is_put_on_again_but_not_deleted_again() {
    let world = world();
    assert_eq!(code(delete(&world.engine, "a")), Code::NotFound);
    put(&world.engine, note("a", "one")).unwrap();
    let v = delete(&world.engine, "a").unwrap().unwrap();
    assert_eq!(code(delete(&world.engine, "a")), Code::NotFound);
    let again = put(&world.engine, note("a", "one")).unwrap().unwrap();
    assert!(again > v);
    assert_eq!(ids(&pull(&world.engine, &shelf("one"), 1)), ["a"]);
}

#[test]
fn a_class_without_sync_is_deleted_for_good() {
    let world = world();
    world.engine.write("o", |w| w.put("Log", note("a", "one"))).unwrap();
    world.engine.write("o", |w| w.delete("Log", &key("a"))).unwrap();
    let raw = rusqlite::Connection::open(Engine::database_in(world.folder.path())).unwrap();
    for table in ["documents", "memberships", "entries", "feed"] {
        let n: u64 = raw.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap();
        assert_eq!(n, 0, "{table}");
    }
}

#[test]
fn what_a_document_cannot_be_is_refused_by_name() {
    let world = world();
    let put = |map| put(&world.engine, map);
    assert_eq!(
        code(put(note("a", "one").into_iter().filter(|(name, _)| name != "id").collect())),
        Code::BadKey
    );
    assert_eq!(code(put(with("a", "_secret", 1))), Code::BadValue);
    assert_eq!(code(put(with("a", "size", "x"))), Code::BadValue);
    assert_eq!(code(put(with("a", "release", 2))), Code::BadValue);
    assert_eq!(code(world.engine.write("o", |w| w.put("Nope", key("a")))), Code::UnknownClass);
    put(key("a")).unwrap();
    let row = pull(&world.engine, &def("Note"), 0).rows.remove(0);
    assert_eq!(row.data.unwrap().to_map().unwrap()["release"], Value::from(1));
}

fn with_schema(folder: &std::path::Path, text: &str) -> escale::Result<Engine> {
    let schema = Schema::from_json(text).unwrap();
    let clock = escale_server::clock::ManualClock::at(NOON);
    Engine::open(folder, Opening { schema, settings: Settings::default(), seal: Seal::clear(), clock })
}

#[test]
fn a_collection_that_the_schema_gains_holds_what_was_written_before() {
    let folder = tempfile::tempdir().unwrap();
    let before = with_schema(folder.path(), r#"{"Note":{"key":["id"]}}"#).unwrap();
    let v = put(&before, note("a", "one")).unwrap().unwrap();
    put(&before, note("b", "two")).unwrap();
    delete(&before, "b").unwrap();
    assert_eq!(pull(&before, &shelf("one"), 0).fault.unwrap().code, "unknown_def");
    drop(before);
    let gained = r#"{"Note":{"key":["id"],"collections":{"shelf":{"key":["shelf"],"mutable":true}},
        "indexes":{"name":{"type":"string","property":"id","unique":true}}}}"#;
    let after = with_schema(folder.path(), gained).unwrap();
    let part = pull(&after, &shelf("one"), 0);
    assert_eq!((ids(&part), part.rows[0].v), (vec!["a".into()], v), "at its version");
    assert_eq!(pull(&after, &shelf("two"), 0).rows, []);
    assert!(pull(&after, &shelf("one"), v).present.is_some(), "departures before it were never noted");
    put(&after, note("a", "two")).unwrap();
    assert_eq!(pull(&after, &shelf("one"), 1).left.len(), 1);
    drop(after);
    let other_key = r#"{"Note":{"key":["shelf"]}}"#;
    assert_eq!(with_schema(folder.path(), other_key).err().unwrap().code(), Code::SchemaMismatch);
}

#[test]
fn a_unique_value_that_a_newer_schema_takes_from_elsewhere_is_free() {
    for scope in ["", r#","global":true"#] {
        let by = |name: &str| {
            format!(
                r#"{{"Note":{{"key":["id"],"indexes":{{"mail":{{"type":"string","property":"{name}","unique":true{scope}}}}}}}}}"#
            )
        };
        let folder = tempfile::tempdir().unwrap();
        let before = with_schema(folder.path(), &by("home")).unwrap();
        let mut both = with("a", "home", "m");
        both.insert("work".into(), "n".into());
        put(&before, both).unwrap();
        assert_eq!(code(put(&before, with("b", "home", "m"))), Code::NotUnique);
        drop(before);
        let after = with_schema(folder.path(), &by("work")).unwrap();
        assert_eq!(code(put(&after, with("b", "work", "n"))), Code::NotUnique, "{scope}");
        assert!(put(&after, with("b", "work", "m")).is_ok(), "{scope}");
    }
}
