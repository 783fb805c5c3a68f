//! A new collection of a loaded class takes its members from the documents of the class.

use escale::codec::Part;
use escale::limits::PULL_EVERY_MS;
use escale::sync::{Event, Mode};

use crate::harness::{Harness, config, def, epoch, gone, part, reply, row, row_in, section, these, whole};

/// A session with the whole class: two games and a tool.
fn with_class() -> Harness {
    let mut harness = Harness::new(config());
    harness.subscribe(&def("Doc"));
    let (number, _) = harness.request();
    let rows = vec![row("a", 1), row("b", 2), row_in("t", 3, "tools")];
    harness.answer(number, reply(10_000, vec![whole(&def("Doc"), rows)]));
    harness
}

#[test]
fn its_members_are_there_at_once_and_only_later_changes_are_asked_for() {
    let games = section("games");
    let mut harness = with_class();
    harness.subscribe(&games);
    assert!(harness.is_ready(&games));
    assert_eq!(harness.shown(&games), these(&[("a", 1), ("b", 2)]));
    let (number, request) = harness.request();
    let asked: Vec<_> = request.subs.iter().map(|sub| (&sub.def, sub.v, sub.cursor.is_some())).collect();
    assert_eq!(asked, [(&games, 9_900, false)], "from where the class is");
    // In the meantime one left, one changed, one ended.
    let rows = vec![row("b", 9_950), gone("x", 9_960)];
    let changes = Part { left: vec![(crate::harness::pk("a"), 9_970)], ..part(&games, rows) };
    harness.answer(number, reply(11_000, vec![changes]));
    assert_eq!((harness.shown(&games), harness.v(&games)), (these(&[("b", 9_950)]), 10_900));
}

#[test]
fn it_is_ready_in_avion() {
    let mut avion = config();
    avion.mode = Mode::Avion;
    let tools = section("tools");
    // Not loaded: nothing is known.
    let mut harness = Harness::new(avion);
    harness.subscribe(&def("Doc"));
    harness.subscribe(&tools);
    assert!(!harness.is_ready(&tools));
    let mut harness = with_class();
    harness.feed(Event::Network(false));
    harness.subscribe(&tools);
    assert!(harness.is_ready(&tools) && harness.requests.is_empty());
    assert_eq!(harness.shown(&tools), these(&[("t", 3)]));
}

#[test]
fn a_class_that_is_not_loaded_in_this_epoch_gives_none() {
    let games = section("games");
    let mut harness = Harness::new(config());
    harness.subscribe(&def("Doc"));
    let (number, _) = harness.request();
    harness.subscribe(&games);
    assert!(!harness.is_ready(&games), "the class is being loaded");
    harness.answer(number, reply(10_000, vec![whole(&def("Doc"), vec![row("a", 1)])]));
    assert_eq!(harness.request().1.subs[0].v, 0);

    let mut harness = with_class();
    harness.wake(harness.now + PULL_EVERY_MS);
    let (number, _) = harness.request();
    let mut later = reply(20_000, vec![]);
    later.epoch = epoch(2);
    harness.answer(number, later);
    harness.requests.clear();
    harness.subscribe(&games);
    assert!(!harness.is_ready(&games) && harness.shown(&games).is_empty());
    assert_eq!(harness.v(&games), 0);
}

#[test]
fn documents_that_the_class_does_not_hold_are_no_members() {
    let (games, single) = (section("games"), def("Doc@c_80_OGda4BO_1o_V0etpA"));
    let mut harness = with_class();
    harness.subscribe(&single);
    let (number, _) = harness.request();
    // It came into being after the class was pulled.
    let row = escale::codec::Row {
        pk: escale::model::Pk::parse("c_80_OGda4BO_1o_V0etpA").expect("a pk"),
        ..row("z", 5)
    };
    harness.answer(number, reply(10_000, vec![whole(&single, vec![row])]));
    harness.subscribe(&games);
    assert_eq!(harness.shown(&games), these(&[("a", 1), ("b", 2)]));
}
