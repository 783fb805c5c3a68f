//! A new collection of a loaded class takes its members from the documents of the class.

use escale::codec::Part;
use escale::limits::PULL_EVERY_MS;
use escale::sync::{Event, Mode};

use crate::harness::{Bench, config, def, epoch, gone, part, reply, row, row_in, section, these, whole};

/// A session with the whole class: two games and a tool.
fn with_class() -> Bench {
    let mut bench = Bench::new(config());
    bench.subscribe(&def("Doc"));
    let (number, _) = bench.request();
    let rows = vec![row("a", 1), row("b", 2), row_in("t", 3, "tools")];
    bench.answer(number, reply(10_000, vec![whole(&def("Doc"), rows)]));
    bench
}

#[test]
fn its_members_are_there_at_once_and_only_later_changes_are_asked_for() {
    let games = section("games");
    let mut bench = with_class();
    bench.subscribe(&games);
    assert!(bench.is_ready(&games));
    assert_eq!(bench.shown(&games), these(&[("a", 1), ("b", 2)]));
    let (number, request) = bench.request();
    let asked: Vec<_> = request.subs.iter().map(|sub| (&sub.def, sub.v, sub.cursor.is_some())).collect();
    assert_eq!(asked, [(&games, 9_900, false)], "from where the class is");
    // In the meantime one left, one changed, one ended.
    let rows = vec![row("b", 9_950), gone("x", 9_960)];
    let changes = Part { left: vec![(crate::harness::pk("a"), 9_970)], ..part(&games, rows) };
    bench.answer(number, reply(11_000, vec![changes]));
    assert_eq!((bench.shown(&games), bench.v(&games)), (these(&[("b", 9_950)]), 10_900));
}

#[test]
fn it_is_ready_in_avion() {
    let mut avion = config();
    avion.mode = Mode::Avion;
    let tools = section("tools");
    // Not loaded: nothing is known.
    let mut bench = Bench::new(avion);
    bench.subscribe(&def("Doc"));
    bench.subscribe(&tools);
    assert!(!bench.is_ready(&tools));
    let mut bench = with_class();
    bench.feed(Event::Network(false));
    bench.subscribe(&tools);
    assert!(bench.is_ready(&tools) && bench.requests.is_empty());
    assert_eq!(bench.shown(&tools), these(&[("t", 3)]));
}

#[test]
fn a_class_that_is_not_loaded_in_this_epoch_gives_none() {
    let games = section("games");
    let mut bench = Bench::new(config());
    bench.subscribe(&def("Doc"));
    let (number, _) = bench.request();
    bench.subscribe(&games);
    assert!(!bench.is_ready(&games), "the class is being loaded");
    bench.answer(number, reply(10_000, vec![whole(&def("Doc"), vec![row("a", 1)])]));
    assert_eq!(bench.request().1.subs[0].v, 0);

    let mut bench = with_class();
    bench.wake(bench.now + PULL_EVERY_MS);
    let (number, _) = bench.request();
    let mut later = reply(20_000, vec![]);
    later.epoch = epoch(2);
    bench.answer(number, later);
    bench.requests.clear();
    bench.subscribe(&games);
    assert!(!bench.is_ready(&games) && bench.shown(&games).is_empty());
    assert_eq!(bench.v(&games), 0);
}

#[test]
fn documents_that_the_class_does_not_hold_are_no_members() {
    let (games, single) = (section("games"), def("Doc@c_80_OGda4BO_1o_V0etpA"));
    let mut bench = with_class();
    bench.subscribe(&single);
    let (number, _) = bench.request();
    // It came into being after the class was pulled.
    let row = escale::codec::Row {
        pk: escale::model::Pk::parse("c_80_OGda4BO_1o_V0etpA").expect("a pk"),
        ..row("z", 5)
    };
    bench.answer(number, reply(10_000, vec![whole(&single, vec![row])]));
    bench.subscribe(&games);
    assert_eq!(bench.shown(&games), these(&[("a", 1), ("b", 2)]));
}
