//! R99 and R100 by example: the ends of lives, and documents that are not there.

use escale::codec::{Fault, SyncRequest};
use escale::model::Value;
use escale_server::engine::Engine;

use super::support::*;
use crate::support::world::*;

const MINUTE: u64 = NOON / 60_000;

/// A note of lea in the group `g`, where bob writes and may not delete.
fn note() -> Map {
    doc(&[("group", "g"), ("id", "1"), ("owner", "lea")])
}

fn ending(map: Map, minute: u64) -> Map {
    with_end(map, Value::from(minute as i64))
}

fn with_end(mut map: Map, end: Value) -> Map {
    map.insert("maxLife".into(), end);
    map
}

fn store(engine: &Engine, class: &str, map: Map) {
    engine.write("o", |w| w.put(class, map.clone()).map(drop)).unwrap();
}

fn end_of(engine: &Engine) -> Option<u64> {
    let (_, note) = engine.write("o", |w| w.get("Note", &pk(&["g", "1"]))).unwrap().value.unwrap();
    note.get("maxLife").and_then(Value::as_u64)
}

#[test]
fn r99_an_earlier_end_of_a_life_takes_the_right_to_delete() {
    let (engine, clock) = engine_of(RIGHTS);
    members(&engine, "o");
    store(&engine, "Note", note());
    let (mut bob, mut lea) = (Client::new(&engine, "o", "bob"), Client::new(&engine, "o", "lea"));
    // A minute from now is as good as now, for one who must not delete.
    for minute in [0, 1, MINUTE, MINUTE + 1, MINUTE + 1_000_000] {
        assert_eq!(bob.patch("Note", &["g", "1"], ending(Map::new(), minute)), "forbidden", "{minute}");
        assert_eq!(bob.put("Note", ending(note(), minute)), "forbidden", "{minute}");
        let args = Value::from([("class", "Note".into()), ("data", Value::Map(ending(note(), minute)))]);
        let ops = Value::Array(vec![Value::from([("name", "doc.put".into()), ("args", args)])]);
        assert_eq!(bob.code("batch", Value::from([("ops", ops)])), "forbidden", "{minute}");
    }
    assert_eq!(end_of(&engine), None);
    // A later end, or none, is an update like any other.
    assert_eq!(lea.patch("Note", &["g", "1"], ending(Map::new(), MINUTE + 10)), "ok");
    assert_eq!(bob.patch("Note", &["g", "1"], ending(Map::new(), MINUTE + 9)), "forbidden");
    assert_eq!(bob.patch("Note", &["g", "1"], doc(&[("text", "mine")])), "ok");
    assert_eq!(bob.patch("Note", &["g", "1"], ending(Map::new(), MINUTE + 11)), "ok");
    assert_eq!(bob.patch("Note", &["g", "1"], with_end(Map::new(), Value::Null)), "ok");
    assert_eq!(end_of(&engine), None);
    // One who may delete may end it at once.
    assert_eq!(lea.patch("Note", &["g", "1"], ending(Map::new(), 1)), "ok");
    clock.advance(1);
    assert_eq!(lea.rows(&collection("Note", "group", &["g"])), Ok(Vec::new()));
}

#[test]
fn r99_a_document_past_its_life_comes_back_by_the_right_to_create() {
    let (engine, clock) = engine_of(RIGHTS);
    members(&engine, "o");
    store(&engine, "Note", ending(note(), MINUTE + 1));
    clock.advance(60_000);
    let (mut bob, mut lea) = (Client::new(&engine, "o", "bob"), Client::new(&engine, "o", "lea"));
    for end in [Value::Null, Value::from((MINUTE + 5) as i64)] {
        assert_eq!(bob.patch("Note", &["g", "1"], with_end(Map::new(), end.clone())), "forbidden");
        assert_eq!(bob.put("Note", with_end(note(), end)), "forbidden");
    }
    // It stays as it is under any other change.
    assert_eq!(bob.patch("Note", &["g", "1"], doc(&[("text", "late")])), "ok");
    assert_eq!(lea.patch("Note", &["g", "1"], ending(Map::new(), MINUTE + 5)), "ok");
    // On a tombstone, too.
    assert_eq!(lea.delete("Note", &["g", "1"]), "ok");
    assert_eq!((bob.put("Note", note()), lea.put("Note", note())), ("forbidden".into(), "ok".into()));
}

/// Nobody learns by a refusal whether there is a document: its words are the same, and so are those of a conflict.
#[test]
fn r100_a_refusal_tells_not_whether_there_is_a_document() {
    let (engine, _) = engine_of(RIGHTS);
    members(&engine, "o");
    let diary = |id: &str| doc(&[("owner", "bob"), ("id", id)]);
    store(&engine, "Diary", diary("there"));
    store(&engine, "Diary", diary("gone"));
    engine.write("o", |w| w.delete("Diary", &diary("gone"))).unwrap();
    let mut out = Client::new(&engine, "o", "out");
    let mut answers = |id: &str| {
        let key = ("key", texts(&["bob", id]));
        let class = ("class", Value::from("Diary"));
        let set = ("set", Value::Map(Map::new()));
        let data = ("data", Value::Map(diary(id)));
        let version = ("ifVersion", Value::from(7));
        let faults: Vec<Option<Fault>> = [
            ("doc.put", Value::from([class.clone(), data.clone()])),
            ("doc.put", Value::from([class.clone(), data, version.clone()])),
            ("doc.patch", Value::from([class.clone(), key.clone(), set.clone()])),
            ("doc.patch", Value::from([class.clone(), key.clone(), set, version.clone()])),
            ("doc.delete", Value::from([class.clone(), key.clone()])),
            ("doc.delete", Value::from([class, key, version])),
        ]
        .map(|(name, args)| out.fault(name, args))
        .into();
        let parts = [0, 1].map(|v| {
            let subs = vec![sub(&def(&single("Diary", &["bob", id])), v)];
            let mut reply = out.sync(&SyncRequest { subs, ..SyncRequest::of("r") }).unwrap();
            let part = reply.parts.remove(0);
            (part.fault, part.total, part.present, part.rows.len())
        });
        (faults, parts)
    };
    let [there, gone, never] = ["there", "gone", "never"].map(&mut answers);
    assert!(there.0.iter().all(|fault| fault.as_ref().is_some_and(|fault| fault.code == "forbidden")));
    assert_eq!((&there, &there), (&gone, &never));
}

/// The document that a caller would put says nothing of one that was there.
#[test]
fn r100_a_conflict_shows_a_deletion_only_to_those_who_may_know_of_it() {
    let (engine, _) = engine_of(RIGHTS);
    let letter = |to: &str| {
        let mut map = doc(&[("id", "1")]);
        map.insert("to".into(), texts(&[to]));
        map
    };
    store(&engine, "Letter", letter("ada"));
    engine.write("o", |w| w.delete("Letter", &letter("ada"))).unwrap();
    let shown = |who: &str| {
        let data = Value::Map(letter(who));
        let args = Value::from([("class", "Letter".into()), ("data", data), ("ifVersion", Value::from(7))]);
        let fault = Client::new(&engine, "o", who).fault("doc.put", args).unwrap();
        assert_eq!(fault.code, "version_conflict");
        fault.doc.is_some()
    };
    assert_eq!(["ada", "bob", "root"].map(shown), [true, false, false]);
}

#[test]
fn r100_the_end_of_a_document_is_told_to_those_who_could_follow_it() {
    let (engine, _) = engine_of(RIGHTS);
    members(&engine, "o");
    let mut letter = doc(&[("id", "1")]);
    letter.insert("to".into(), texts(&["ada", "bob"]));
    let member = doc(&[("group", "g"), ("account", "ada")]);
    store(&engine, "Note", note());
    store(&engine, "Letter", letter.clone());
    store(&engine, "Yard", doc(&[("group", "g"), ("id", "1")]));
    store(&engine, "Bed", doc(&[("group", "g"), ("yard", "1"), ("id", "1")]));
    let defs = [
        single("Note", &["g", "1"]),
        single("Letter", &["1"]),
        single("Bed", &["g", "1", "1"]),
        single("Yard", &["g", "1"]),
        collection("Bed", "in", &["g", "1"]),
    ];
    let told = |who: &str, is_gone: bool| {
        let client = Client::new(&engine, "o", who);
        let is_told = |text: &String| {
            let subs = vec![sub(&def(text), 1)];
            let part = client.sync(&SyncRequest { subs, ..SyncRequest::of("r") }).unwrap().parts.remove(0);
            assert!(part.fault.is_some() || part.rows.iter().all(|row| row.deleted == is_gone));
            part.fault.is_none()
        };
        defs.clone().map(|text| is_told(&text))
    };
    let expected = [
        ("ada", [true, true, true, true, true]),
        ("bob", [true, true, true, true, true]),
        ("lea", [true, false, true, true, true]),
        ("out", [false; 5]),
        ("root", [false; 5]),
    ];
    for (who, expected) in expected {
        assert_eq!(told(who, false), expected, "{who}");
    }
    engine
        .write("o", |w| {
            w.delete("Note", &note())?;
            w.delete("Letter", &letter)?;
            w.delete("Yard", &doc(&[("group", "g"), ("id", "1")]))
        })
        .unwrap();
    for (who, expected) in expected {
        assert_eq!(told(who, true), expected, "{who}");
    }
    // The right of a group ends with the membership. That of the letter was ada's own.
    engine.write("o", |w| w.delete("Member", &member)).unwrap();
    assert_eq!(told("ada", true), [false, true, false, false, false]);
}

/// The clock was ahead for a while: `now` stays there, and a membership holds until its end by the clock.
#[test]
fn r99_a_membership_holds_until_its_end_by_the_clock_for_what_is_gone_as_well() {
    let schema = r#"{
        "Member": { "key": ["group", "account"], "collections": { "account": { "key": ["account"] } },
            "rights": { "create": "admin", "update": "admin", "delete": "admin" } },
        "Post": { "key": ["id"], "collections": { "group": { "key": ["group"] } },
            "rights": { "read": { "in": "Member", "by": "group" }, "delete": { "in": "Member", "by": "group" } } }
    }"#;
    let (engine, clock) = engine_of(schema);
    let member = doc(&[("group", "g"), ("account", "bob")]);
    store(&engine, "Member", ending(member, MINUTE + 3));
    for id in ["there", "gone"] {
        store(&engine, "Post", doc(&[("id", id), ("group", "g")]));
    }
    engine.write("o", |w| w.delete("Post", &doc(&[("id", "gone")]))).unwrap();
    clock.set(NOON + 5 * 60_000);
    store(&engine, "Post", doc(&[("id", "ahead"), ("group", "h")]));
    clock.set(NOON);
    let mut bob = Client::new(&engine, "o", "bob");
    assert_eq!(
        (bob.delete("Post", &["there"]), bob.delete("Post", &["gone"])),
        ("ok".into(), "not_found".into())
    );
    clock.set(NOON + 3 * 60_000);
    assert_eq!(bob.delete("Post", &["gone"]), "forbidden");
}
