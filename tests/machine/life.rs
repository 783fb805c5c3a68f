//! `maxLife`: documents are hidden at their minute by the server's time, and removed once a reply has passed
//! it.

use escale::codec::{Part, Row};
use escale::crypto::SeededRandom;
use escale::journal::make_id;
use escale::model::Value;
use escale::sync::{Config, Effect, Event, Mode, Write};

use crate::harness::{Bench, WALL, config, def, part, pk, reply, row, row_in, section, these, whole};

const MINUTE: u64 = 60_000;

fn until(id: &str, v: u64, minute: u64) -> Row {
    Row { max_life: Some(minute), ..row(id, v) }
}

/// `Doc` with `rows`, at the server's time WALL.
fn loaded(rows: Vec<Row>) -> Bench {
    let mut bench = Bench::new(config());
    bench.subscribe(&def("Doc"));
    let (number, _) = bench.request();
    bench.answer(number, reply(WALL, vec![part(&def("Doc"), rows)]));
    bench.take_all();
    bench
}

fn changed(bench: &mut Bench) -> bool {
    let pick = |effect: &Effect| match effect {
        Effect::Changed { defs, .. } if defs.contains(&def("Doc")) => Some(()),
        _ => None,
    };
    !bench.take(pick).is_empty()
}

#[test]
fn a_document_is_hidden_at_its_minute_and_the_application_is_told() {
    let doc = def("Doc");
    let minute = WALL / MINUTE + 2;
    let mut bench = loaded(vec![row("a", 100), until("b", 100, minute)]);
    assert_eq!(bench.shown(&doc), these(&[("a", 100), ("b", 100)]));
    let end = bench.now + minute * MINUTE - WALL;
    bench.wake(end - 1);
    assert_eq!(bench.shown(&doc).len(), 2);
    assert!(!changed(&mut bench));
    bench.wake(end);
    assert_eq!(bench.shown(&doc), these(&[("a", 100)]));
    assert!(changed(&mut bench), "the application is told");
    assert_eq!(bench.client.machine.find(doc.class(), &pk("b")), None);
    // Hidden, not removed: only a reply of the server removes it.
    let key = bench.client.machine.memory().doc_key(doc.class(), &pk("b")).expect("a class");
    assert!(bench.client.machine.memory().document(&key).is_some());
}

#[test]
fn the_machine_asks_to_be_woken_at_that_minute() {
    for minute in [WALL / MINUTE + 1, WALL / MINUTE + 2] {
        let mut bench = Bench::new(config());
        bench.subscribe(&def("Doc"));
        let (number, _) = bench.request();
        let end = bench.now + minute * MINUTE - WALL;
        bench.answer(number, reply(WALL, vec![part(&def("Doc"), vec![until("b", 100, minute)])]));
        assert_eq!(bench.wake_at(), Some(end));
    }
}

#[test]
fn a_reply_that_has_passed_the_minute_removes_and_a_later_life_brings_back() {
    let doc = def("Doc");
    let minute = WALL / MINUTE + 1;
    let mut bench = loaded(vec![until("b", 100, minute)]);
    bench.wake(bench.now + 5 * MINUTE);
    let (number, _) = bench.request();
    bench.answer(number, reply(WALL + 5 * MINUTE, vec![part(&doc, vec![])]));
    assert_eq!(bench.client.machine.memory().documents().count(), 0, "removed");
    bench.wake(bench.now + 5 * MINUTE);
    let (number, _) = bench.request();
    let again = until("b", WALL, minute + 60);
    bench.answer(number, reply(WALL + 10 * MINUTE, vec![part(&doc, vec![again])]));
    assert_eq!(bench.shown(&doc), these(&[("b", WALL)]));
}

#[test]
fn a_longer_life_keeps_it_visible() {
    let doc = def("Doc");
    let minute = WALL / MINUTE + 6;
    let mut bench = loaded(vec![until("b", 100, minute)]);
    bench.wake(bench.now + 5 * MINUTE);
    let (number, _) = bench.request();
    let longer = Part { rows: vec![until("b", 200, minute + 60)], ..Part::empty(doc.clone()) };
    bench.answer(number, reply(WALL + 5 * MINUTE, vec![longer]));
    bench.wake(bench.now + 2 * MINUTE);
    assert_eq!(bench.shown(&doc), these(&[("b", 200)]));
}

#[test]
fn the_devices_clock_counts_in_avion_only() {
    let doc = def("Doc");
    let minute = WALL / MINUTE + 60;
    let mut bench = loaded(vec![until("b", 100, minute)]);
    bench.wall = WALL + 100 * 60 * MINUTE;
    bench.feed(Event::Woke);
    assert_eq!(bench.shown(&doc).len(), 1, "a wrong clock hides nothing");
    bench.feed(Event::SetMode(Mode::Avion));
    assert_eq!(bench.shown(&doc).len(), 0);
    assert!(changed(&mut bench));
}

/// Opened with a clock far ahead. The documents that it hid come back with the server's first reply, and the
/// application is informed.
#[test]
fn what_a_wrong_clock_hid_is_shown_again() {
    let doc = def("Doc");
    let minute = WALL / MINUTE + 60;
    let mut bench = loaded(vec![until("b", 100, minute)]);
    bench.wall = WALL + 100 * 60 * MINUTE;
    bench.feed(Event::SetMode(Mode::Avion));
    assert_eq!(bench.shown(&doc).len(), 0);
    bench.take_all();
    bench.feed(Event::SetMode(Mode::Synced));
    bench.serve(WALL + MINUTE, |def| part(def, vec![]));
    assert_eq!(bench.shown(&doc), these(&[("b", 100)]));
    assert!(changed(&mut bench), "the application is told");
}

#[test]
fn incognito_counts_by_the_servers_time_too() {
    let doc = def("Doc");
    let mut bench = Bench::new(Config { mode: Mode::Incognito, ..config() });
    bench.wall = WALL + 365 * 24 * 60 * MINUTE;
    bench.subscribe(&doc);
    let (number, _) = bench.request();
    let row = until("b", 100, WALL / MINUTE + 60);
    bench.answer(number, reply(WALL, vec![part(&doc, vec![row])]));
    assert_eq!(bench.shown(&doc).len(), 1);
}

/// Writes a document of the section "games" that lives until that minute.
fn write(bench: &mut Bench, id: &str, minute: u64) {
    let parts = [("id", id.into()), ("section", "games".into()), ("maxLife", Value::from(minute as i64))];
    let args = Value::from([("class", "Doc".into()), ("data", Value::from(parts))]);
    let id = make_id(WALL, &mut SeededRandom::new(minute)).expect("an id");
    bench.feed(Event::Write(Write { id, name: "doc.put".into(), args, touches: vec![], after: vec![] }));
}

#[test]
fn a_document_that_is_only_written_here_is_hidden_at_its_minute_too() {
    let minute = WALL / MINUTE + 2;
    let mut bench = loaded(vec![]);
    write(&mut bench, "a", minute);
    assert_eq!(bench.client.machine.list(&def("Doc")).expect("subscribed").0.len(), 1);
    bench.take_all();
    let end = bench.now + minute * MINUTE - WALL;
    bench.wake(end);
    assert!(changed(&mut bench), "the application is told");
    assert!(bench.client.machine.list(&def("Doc")).expect("subscribed").0.is_empty());
}

#[test]
fn a_def_that_only_a_pending_write_puts_a_document_into_hears_of_its_end() {
    let minute = WALL / MINUTE + 2;
    let (doc, games) = (def("Doc"), section("games"));
    let mut bench = loaded(vec![Row { max_life: Some(minute), ..row_in("a", 100, "admin") }]);
    bench.subscribe(&games);
    bench.serve(WALL, |def| whole(def, vec![]));
    write(&mut bench, "a", minute);
    assert_eq!(bench.client.machine.list(&games).expect("subscribed").0.len(), 1);
    bench.take_all();
    let end = bench.now + minute * MINUTE - WALL;
    bench.wake(end);
    let told = bench.take(|effect| match effect {
        Effect::Changed { defs, .. } => Some(defs.clone()),
        _ => None,
    });
    let told = told.concat();
    assert!(told.contains(&doc) && told.contains(&games), "{told:?}");
}
