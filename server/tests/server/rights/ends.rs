//! R99 by example: the ends of lives.

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
