//! `maxLife`: documents are hidden at their minute by the server's time, and removed once a reply has passed
//! it.

use escale::codec::{Part, Row};
use escale::crypto::SeededRandom;
use escale::journal::make_id;
use escale::model::{Def, Value};
use escale::sync::{Config, Effect, Event, Mode, Write};

use crate::harness::{Harness, WALL, config, def, part, pk, reply, row, row_in, section, these, whole};

const MINUTE: u64 = 60_000;

fn until(id: &str, v: u64, minute: u64) -> Row {
    Row { max_life: Some(minute), ..row(id, v) }
}

/// `Doc` with `rows`, at the server's time WALL.
fn loaded(rows: Vec<Row>) -> Harness {
    let mut harness = Harness::new(config());
    harness.subscribe(&def("Doc"));
    let (number, _) = harness.request();
    harness.answer(number, reply(WALL, vec![part(&def("Doc"), rows)]));
    harness.take_all();
    harness
}

fn changed(harness: &mut Harness) -> bool {
    let pick = |effect: &Effect| match effect {
        Effect::Changed { defs, .. } if defs.contains(&def("Doc")) => Some(()),
        _ => None,
    };
    !harness.take(pick).is_empty()
}

#[test]
fn a_document_is_hidden_at_its_minute_and_the_application_is_told() {
    let doc = def("Doc");
    let minute = WALL / MINUTE + 2;
    let mut harness = loaded(vec![row("a", 100), until("b", 100, minute)]);
    assert_eq!(harness.shown(&doc), these(&[("a", 100), ("b", 100)]));
    let end = harness.now + minute * MINUTE - WALL;
    harness.wake(end - 1);
    assert_eq!(harness.shown(&doc).len(), 2);
    assert!(!changed(&mut harness));
    harness.wake(end);
    assert_eq!(harness.shown(&doc), these(&[("a", 100)]));
    assert!(changed(&mut harness), "the application is told");
    assert_eq!(harness.client.machine.find(doc.class(), &pk("b")), None);
    // Hidden, not removed: only a reply of the server removes it.
    let key = harness.client.machine.memory().doc_key(doc.class(), &pk("b")).expect("a class");
    assert!(harness.client.machine.memory().document(&key).is_some());
}

/// A view of one document needs no subscription while another def holds it. A write alone holds nothing.
#[test]
fn a_document_is_held_as_long_as_a_def_holds_it() {
    let minute = WALL / MINUTE + 2;
    let mut harness = loaded(vec![row("a", 100), until("b", 100, minute)]);
    let named = |id: &str| Def::document(def("Doc").class(), &pk(id));
    let held = |harness: &Harness, id: &str| harness.client.machine.list(&named(id)).map(|(ids, ..)| ids[0]);
    let find = |harness: &Harness, id: &str| harness.client.machine.find(def("Doc").class(), &pk(id));
    assert!(held(&harness, "a").is_some() && held(&harness, "a") == find(&harness, "a"));
    assert_eq!(held(&harness, "never"), None);
    harness.wake(harness.now + minute * MINUTE - WALL);
    assert_eq!(held(&harness, "b"), None, "its life is over");
    harness.feed(Event::Unsubscribe(def("Doc")));
    assert_eq!((held(&harness, "a"), harness.client.machine.list(&def("Doc"))), (None, None));
}

#[test]
fn the_machine_asks_to_be_woken_at_that_minute() {
    for minute in [WALL / MINUTE + 1, WALL / MINUTE + 2] {
        let mut harness = Harness::new(config());
        harness.subscribe(&def("Doc"));
        let (number, _) = harness.request();
        let end = harness.now + minute * MINUTE - WALL;
        harness.answer(number, reply(WALL, vec![part(&def("Doc"), vec![until("b", 100, minute)])]));
        assert_eq!(harness.wake_at(), Some(end));
    }
}

#[test]
fn a_reply_that_has_passed_the_minute_removes_and_a_later_life_brings_back() {
    let doc = def("Doc");
    let minute = WALL / MINUTE + 1;
    let mut harness = loaded(vec![until("b", 100, minute)]);
    harness.wake(harness.now + 5 * MINUTE);
    let (number, _) = harness.request();
    harness.answer(number, reply(WALL + 5 * MINUTE, vec![part(&doc, vec![])]));
    assert_eq!(harness.client.machine.memory().documents().count(), 0, "removed");
    harness.wake(harness.now + 5 * MINUTE);
    let (number, _) = harness.request();
    let again = until("b", WALL, minute + 60);
    harness.answer(number, reply(WALL + 10 * MINUTE, vec![part(&doc, vec![again])]));
    assert_eq!(harness.shown(&doc), these(&[("b", WALL)]));
}

#[test]
fn a_longer_life_keeps_it_visible() {
    let doc = def("Doc");
    let minute = WALL / MINUTE + 6;
    let mut harness = loaded(vec![until("b", 100, minute)]);
    harness.wake(harness.now + 5 * MINUTE);
    let (number, _) = harness.request();
    let longer = Part { rows: vec![until("b", 200, minute + 60)], ..Part::empty(doc.clone()) };
    harness.answer(number, reply(WALL + 5 * MINUTE, vec![longer]));
    harness.wake(harness.now + 2 * MINUTE);
    assert_eq!(harness.shown(&doc), these(&[("b", 200)]));
}

#[test]
fn the_devices_clock_counts_in_avion_only() {
    let doc = def("Doc");
    let minute = WALL / MINUTE + 60;
    let mut harness = loaded(vec![until("b", 100, minute)]);
    harness.wall = WALL + 100 * 60 * MINUTE;
    harness.feed(Event::Woke);
    assert_eq!(harness.shown(&doc).len(), 1, "a wrong clock hides nothing");
    harness.feed(Event::SetMode(Mode::Avion));
    assert_eq!(harness.shown(&doc).len(), 0);
    assert!(changed(&mut harness));
}

/// Opened with a clock far ahead. The documents that it hid come back with the server's first reply, and the
/// application is informed.
#[test]
fn what_a_wrong_clock_hid_is_shown_again() {
    let doc = def("Doc");
    let minute = WALL / MINUTE + 60;
    let mut harness = loaded(vec![until("b", 100, minute)]);
    harness.wall = WALL + 100 * 60 * MINUTE;
    harness.feed(Event::SetMode(Mode::Avion));
    assert_eq!(harness.shown(&doc).len(), 0);
    harness.take_all();
    harness.feed(Event::SetMode(Mode::Synced));
    harness.serve(WALL + MINUTE, |def| part(def, vec![]));
    assert_eq!(harness.shown(&doc), these(&[("b", 100)]));
    assert!(changed(&mut harness), "the application is told");
}

#[test]
fn incognito_counts_by_the_servers_time_too() {
    let doc = def("Doc");
    let mut harness = Harness::new(Config { mode: Mode::Incognito, ..config() });
    harness.wall = WALL + 365 * 24 * 60 * MINUTE;
    harness.subscribe(&doc);
    let (number, _) = harness.request();
    let row = until("b", 100, WALL / MINUTE + 60);
    harness.answer(number, reply(WALL, vec![part(&doc, vec![row])]));
    assert_eq!(harness.shown(&doc).len(), 1);
}

/// Writes a document of the section "games" that lives until that minute.
fn write(harness: &mut Harness, id: &str, minute: u64) {
    let parts = [("id", id.into()), ("section", "games".into()), ("maxLife", Value::from(minute as i64))];
    let args = Value::from([("class", "Doc".into()), ("data", Value::from(parts))]);
    let id = make_id(WALL, &mut SeededRandom::new(minute)).expect("an id");
    harness.feed(Event::Write(Write { id, name: "doc.put".into(), args, touches: vec![], after: vec![] }));
}

#[test]
fn a_document_that_is_only_written_here_is_hidden_at_its_minute_too() {
    let minute = WALL / MINUTE + 2;
    let mut harness = loaded(vec![]);
    write(&mut harness, "a", minute);
    assert_eq!(harness.client.machine.list(&def("Doc")).expect("subscribed").0.len(), 1);
    harness.take_all();
    let end = harness.now + minute * MINUTE - WALL;
    harness.wake(end);
    assert!(changed(&mut harness), "the application is told");
    assert!(harness.client.machine.list(&def("Doc")).expect("subscribed").0.is_empty());
}

#[test]
fn a_def_that_only_a_pending_write_puts_a_document_into_hears_of_its_end() {
    let minute = WALL / MINUTE + 2;
    let (doc, games) = (def("Doc"), section("games"));
    let mut harness = loaded(vec![Row { max_life: Some(minute), ..row_in("a", 100, "admin") }]);
    harness.subscribe(&games);
    harness.serve(WALL, |def| whole(def, vec![]));
    write(&mut harness, "a", minute);
    assert_eq!(harness.client.machine.list(&games).expect("subscribed").0.len(), 1);
    harness.take_all();
    let end = harness.now + minute * MINUTE - WALL;
    harness.wake(end);
    let told = harness.take(|effect| match effect {
        Effect::Changed { defs, .. } => Some(defs.clone()),
        _ => None,
    });
    let told = told.concat();
    assert!(told.contains(&doc) && told.contains(&games), "{told:?}");
}
