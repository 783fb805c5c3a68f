//! Pulls: numbered, one at a time; pages and cursors; faults of a part; and effects that a reply must not
//! have.

use escale::Code;
use escale::codec::{Data, Part, Row};
use escale::limits::PULL_EVERY_MS;
use escale::model::Pk;
use escale::sync::{Event, Phase};

use crate::harness::{
    Bench, config, def, fault, gone, part, pk, refusal, reply, row, row_in, section, these,
};

fn page(rows: Vec<Row>, next: &str) -> Part {
    Part { next: Some(next.into()), total: Some(10), ..part(&def("Doc"), rows) }
}

fn loaded(rows: Vec<Row>) -> Bench {
    let mut bench = Bench::new(config());
    bench.subscribe(&def("Doc"));
    let (number, request) = bench.request();
    assert_eq!((request.p, request.session.as_str()), (1, "session"));
    assert_eq!((request.subs[0].v, &request.subs[0].cursor), (0, &None));
    bench.answer(number, reply(10_000, vec![part(&def("Doc"), rows)]));
    bench
}

/// Lets five minutes pass. Returns the number of the pull that follows.
fn pull(bench: &mut Bench) -> u64 {
    bench.wake(bench.now + PULL_EVERY_MS);
    bench.request().0
}

#[test]
fn every_def_is_pulled_every_five_minutes() {
    let mut bench = loaded(vec![]);
    bench.subscribe(&section("games"));
    bench.serve(10_000, |def| part(def, vec![]));
    let mut due = bench.wake_at().expect("to be woken");
    for _ in 0..3 {
        bench.wake(due - 1);
        assert!(bench.requests.is_empty());
        bench.wake(due);
        let (number, request) = bench.request();
        assert_eq!(request.subs.len(), 2);
        assert!(request.subs.iter().all(|sub| sub.v == 9_900), "now less DELTA");
        let parts = request.subs.iter().map(|sub| part(&sub.def, vec![])).collect();
        bench.answer(number, reply(10_000, parts));
        assert_eq!(bench.wake_at(), Some(due + PULL_EVERY_MS));
        due += PULL_EVERY_MS;
    }
}

/// A reply has room for few rows. A long load must not take it from the other defs.
#[test]
fn a_load_under_way_is_asked_for_after_all_others() {
    let (doc, note) = (def("Doc"), def("Note"));
    let mut bench = Bench::new(config());
    bench.subscribe(&doc);
    let (number, _) = bench.request();
    bench.subscribe(&note);
    bench.answer(number, reply(10_000, vec![page(vec![row("a", 1)], "next")]));
    let (_, request) = bench.request();
    let asked: Vec<_> = request.subs.iter().map(|sub| (sub.def.clone(), sub.cursor.is_some())).collect();
    assert_eq!(asked, [(note, false), (doc, true)]);
}

#[test]
fn r4_v_becomes_now_less_delta_and_never_goes_back() {
    let doc = def("Doc");
    let mut bench = loaded(vec![]);
    assert_eq!(bench.v(&doc), 9_900);
    let number = pull(&mut bench);
    bench.answer(number, reply(5_000, vec![part(&doc, vec![])]));
    assert_eq!(bench.v(&doc), 9_900, "an instance whose clock is behind");
    let number = pull(&mut bench);
    bench.answer(number, reply(50, vec![part(&doc, vec![])]));
    assert_eq!(bench.v(&doc), 9_900);
}

#[test]
fn r4_the_same_change_twice_changes_nothing() {
    let doc = def("Doc");
    let mut bench = loaded(vec![row("a", 9_950), row("b", 9_960)]);
    let left = Part { left: vec![(pk("b"), 9_970)], ..part(&doc, vec![row("a", 9_980), gone("c", 9_990)]) };
    let number = pull(&mut bench);
    bench.answer(number, reply(10_050, vec![left.clone()]));
    let ids = bench.client.machine.list(&doc);
    bench.take_all();
    let number = pull(&mut bench);
    bench.answer(number, reply(10_050, vec![left]));
    assert_eq!(bench.client.machine.list(&doc), ids, "not even another id");
    let changed =
        |effect: &escale::sync::Effect| matches!(effect, escale::sync::Effect::Changed { .. }).then_some(());
    assert!(bench.take(changed).is_empty());
}

#[test]
fn r5_a_reply_of_another_number_is_dropped() {
    let doc = def("Doc");
    let mut bench = loaded(vec![]);
    let number = pull(&mut bench);
    for other in [number - 1, number + 1, 0, u64::MAX] {
        bench.answer(other, reply(20_000, vec![part(&doc, vec![row("z", 1)])]));
    }
    assert!(bench.shown(&doc).is_empty());
    bench.answer(number, reply(20_000, vec![part(&doc, vec![row("a", 1)])]));
    bench.answer(number, reply(30_000, vec![part(&doc, vec![row("z", 1)])]));
    assert_eq!(bench.shown(&doc), these(&[("a", 1)]));
    assert_eq!(bench.v(&doc), 19_900);
}

#[test]
fn r5_a_reply_asked_before_an_unsubscription_is_dropped() {
    let doc = def("Doc");
    let mut bench = loaded(vec![row("a", 1)]);
    let number = pull(&mut bench);
    bench.feed(Event::Unsubscribe(doc.clone()));
    assert_eq!(bench.client.machine.memory().documents().count(), 0, "R2");
    bench.subscribe(&doc);
    // Changes since 9,900: not everything that the new subscription needs.
    bench.answer(number, reply(20_000, vec![part(&doc, vec![])]));
    assert!(!bench.is_ready(&doc));
    assert_eq!(bench.v(&doc), 0);
    let (number, request) = bench.request();
    assert_eq!(request.subs[0].v, 0);
    bench.answer(number, reply(20_000, vec![part(&doc, vec![row("a", 1)])]));
    assert_eq!(bench.shown(&doc), these(&[("a", 1)]));
}

#[test]
fn a_def_that_nobody_asked_for_is_ignored() {
    let mut bench = loaded(vec![]);
    let number = pull(&mut bench);
    let parts = vec![part(&section("games"), vec![row("a", 1)]), part(&def("Doc"), vec![])];
    bench.answer(number, reply(20_000, parts));
    assert_eq!(bench.client.machine.memory().documents().count(), 0);
    assert_eq!(bench.v(&def("Doc")), 19_900);
}

#[test]
fn a_load_in_pages_goes_on_and_reaches_the_first_pages_v() {
    let doc = def("Doc");
    let mut bench = Bench::new(config());
    bench.subscribe(&doc);
    let (number, _) = bench.request();
    bench.answer(number, reply(10_000, vec![page(vec![row("a", 1)], "c1")]));
    assert_eq!(bench.v(&doc), 0);
    assert_eq!(bench.phase(), Phase::Loading);
    assert_eq!(bench.shown(&doc), these(&[("a", 1)]), "shown as it comes");
    let progress = bench.client.machine.status().progress.expect("a load");
    assert_eq!((progress.received, progress.total), (1, Some(10)));
    let (number, request) = bench.request();
    assert_eq!((request.subs[0].v, request.subs[0].cursor.as_deref()), (0, Some("c1")));
    bench.answer(number, reply(20_000, vec![page(vec![row("b", 2)], "c2")]));
    let (number, request) = bench.request();
    assert_eq!(request.subs[0].cursor.as_deref(), Some("c2"));
    assert!(!bench.is_ready(&doc));
    bench.answer(number, reply(30_000, vec![part(&doc, vec![row("c", 3)])]));
    assert!(bench.is_ready(&doc));
    assert_eq!(bench.v(&doc), 9_900, "the first page's now less DELTA");
    assert_eq!(bench.client.machine.status().progress, None);
}

#[test]
fn r6_present_ends_a_pull_from_before_the_horizon() {
    let doc = def("Doc");
    let mut bench = loaded(vec![row("a", 1), row("b", 2), row("c", 29_950), row("d", 3)]);
    let number = pull(&mut bench);
    let present = Some(vec![pk("a"), pk("d")]);
    let whole = Part { present, ..part(&doc, vec![row("d", 20_000)]) };
    bench.answer(number, reply(30_000, vec![whole]));
    // c is linked at or above now - DELTA: the link may be newer than the list.
    assert_eq!(bench.shown(&doc), these(&[("a", 1), ("c", 29_950), ("d", 20_000)]));
}

#[test]
fn r6_a_pull_from_zero_is_whole() {
    let doc = def("Doc");
    let mut bench = loaded(vec![row("a", 1), row("b", 2)]);
    // The cursor is refused: the load starts from scratch, and the old documents stay visible until it ends.
    let number = pull(&mut bench);
    bench.answer(number, reply(20_000, vec![page(vec![], "c1")]));
    let (number, _) = bench.request();
    bench.answer(number, reply(20_000, vec![fault(&doc, Code::BadCursor)]));
    assert_eq!(bench.shown(&doc).len(), 2);
    let (number, request) = bench.request();
    assert_eq!(
        (request.subs[0].v, &request.subs[0].cursor),
        (0, &None),
        "a refused cursor restarts the load"
    );
    bench.answer(number, reply(30_000, vec![part(&doc, vec![row("b", 2)])]));
    assert_eq!(bench.shown(&doc), these(&[("b", 2)]), "what the whole does not hold has left");
    assert_eq!(bench.v(&doc), 29_900);
}

#[test]
fn a_fault_of_a_part_leaves_the_rest_served() {
    let (doc, games) = (def("Doc"), section("games"));
    let mut bench = loaded(vec![]);
    bench.subscribe(&games);
    let (number, _) = bench.request();
    bench.answer(number, reply(20_000, vec![fault(&games, Code::Forbidden)]));
    assert_eq!(bench.client.machine.status().faults[&games].code(), Code::Forbidden);
    assert_eq!(bench.phase(), Phase::Live, "a refused def loads nothing");
    assert!(bench.requests.is_empty(), "not asked again at once");
    let number = pull(&mut bench);
    bench.answer(number, reply(30_000, vec![part(&doc, vec![row("a", 1)]), fault(&games, Code::Forbidden)]));
    assert_eq!(bench.shown(&doc), these(&[("a", 1)]));
    // The permission was granted meanwhile.
    let number = pull(&mut bench);
    bench.answer(number, reply(40_000, vec![part(&doc, vec![]), part(&games, vec![])]));
    assert!(bench.client.machine.status().faults.is_empty());
    assert!(bench.is_ready(&games));
}

#[test]
fn a_passing_fault_of_a_part_is_tried_again_from_where_it_stopped() {
    let doc = def("Doc");
    let mut bench = Bench::new(config());
    bench.subscribe(&doc);
    let (number, _) = bench.request();
    bench.answer(number, reply(10_000, vec![page(vec![row("a", 1)], "c1")]));
    let (number, _) = bench.request();
    bench.answer(number, reply(10_000, vec![fault(&doc, Code::Contention)]));
    if bench.requests.is_empty() {
        let at = bench.wake_at().expect("tried again");
        bench.wake(at);
    }
    let (number, request) = bench.request();
    assert_eq!(request.subs[0].cursor.as_deref(), Some("c1"), "nothing was wrong with the cursor");
    bench.answer(number, reply(10_000, vec![part(&doc, vec![row("b", 2)])]));
    assert_eq!(bench.shown(&doc).len(), 2);
}

#[test]
fn parts_that_a_full_reply_left_out_are_asked_for_again() {
    let mut bench = loaded(vec![]);
    for text in ["games", "admin", "x11"] {
        bench.subscribe(&section(text));
    }
    let mut told = 0;
    while let Some((number, request, _)) = bench.requests.pop_front() {
        told += 1;
        assert!(told < 10, "asked for ever");
        bench.answer(number, reply(20_000, vec![part(&request.subs[0].def, vec![])]));
    }
    assert!(bench.client.machine.memory().collections().all(|(_, collection)| collection.ready));
}

/// A server that answers without any part would otherwise be asked again at once, for ever.
#[test]
fn a_reply_that_tells_nothing_of_what_was_asked_waits() {
    let mut bench = loaded(vec![]);
    let number = pull(&mut bench);
    bench.answer(number, reply(20_000, vec![]));
    let mut times = 0;
    while let Some((number, _, _)) = bench.requests.pop_front() {
        times += 1;
        assert!(times < 8, "asked again at once, each time");
        bench.answer(number, reply(20_000, vec![]));
    }
    assert_eq!(bench.error(), Some(Code::BadReply));
    assert!(bench.wake_at().is_some(), "and asks again later");
}

/// The reply had room for one def, whose subscription has ended meanwhile: that is no error.
#[test]
fn a_full_reply_about_an_ended_subscription_is_no_error() {
    let mut bench = loaded(vec![]);
    for text in ["games", "admin"] {
        bench.subscribe(&section(text));
    }
    bench.serve(10_000, |def| part(def, vec![]));
    bench.wake(bench.now + PULL_EVERY_MS);
    let (number, request) = bench.request();
    assert_eq!(request.subs.len(), 3);
    let first = request.subs[0].def.clone();
    bench.feed(Event::Unsubscribe(first.clone()));
    bench.answer(number, reply(20_000, vec![part(&first, vec![])]));
    assert_eq!((bench.error(), bench.phase()), (None, Phase::Live));
    assert_eq!(bench.request().1.subs.len(), 2, "the others are asked for at once");
}

#[test]
fn a_reply_is_applied_whole_or_not_at_all() {
    let doc = def("Doc");
    let bad = [
        reply(20_000, vec![part(&doc, vec![row("a", 1), Row { data: None, ..row("b", 2) }])]),
        reply(20_000, vec![part(&doc, vec![row("a", 1), row("b", 1 << 53)])]),
        reply(1 << 53, vec![part(&doc, vec![row("a", 1)])]),
        reply(20_000, vec![Part { left: vec![(pk("x"), 1 << 53)], ..part(&doc, vec![row("a", 1)]) }]),
        reply(
            20_000,
            vec![Part { next: Some("n".into()), present: Some(vec![]), ..part(&doc, vec![row("a", 1)]) }],
        ),
        reply(20_000, vec![Part { next: Some(String::new()), ..part(&doc, vec![row("a", 1)]) }]),
        escale::codec::SyncReply { p: 2, ..reply(20_000, vec![part(&doc, vec![row("a", 1)])]) },
    ];
    for reply in bad {
        let mut bench = loaded(vec![row("old", 5)]);
        let number = pull(&mut bench);
        let wanted = if reply.p == 1 { Code::Malformed } else { Code::WrongProtocol };
        bench.answer(number, reply);
        assert_eq!(bench.shown(&doc), these(&[("old", 5)]));
        assert_eq!(bench.v(&doc), 9_900);
        assert_eq!(bench.error(), Some(wanted));
        assert_eq!(bench.phase(), Phase::Offline);
        bench.wake(bench.now + 60_000);
        bench.request();
    }
}

/// One document that cannot be read must not keep every other def from its changes.
#[test]
fn a_document_that_cannot_be_read_is_a_fault_of_its_def() {
    let (doc, note) = (def("Doc"), def("Note"));
    let mut bench = loaded(vec![row("old", 5)]);
    bench.subscribe(&note);
    bench.serve(10_000, |def| part(def, vec![]));
    let number = pull(&mut bench);
    let data = Data::from_bytes(&[0xc1, 0xff]).expect("bytes");
    let bad = Row { data: Some(data), ..row("bad", 15_000) };
    let parts = vec![part(&doc, vec![row("a", 14_000), bad]), part(&note, vec![row_in("n", 1, "x")])];
    bench.answer(number, reply(20_000, parts));
    assert_eq!(bench.shown(&note), these(&[("n", 1)]));
    assert_eq!(bench.v(&note), 19_900);
    assert_eq!(bench.shown(&doc), these(&[("old", 5)]), "nothing half applied");
    assert_eq!(bench.v(&doc), 9_900);
    assert_eq!(bench.client.machine.status().faults[&doc].code(), Code::BadValue);
    assert!(bench.requests.is_empty(), "not asked again at once");
    let number = pull(&mut bench);
    bench.answer(number, reply(30_000, vec![part(&doc, vec![row("bad", 15_000)]), part(&note, vec![])]));
    assert_eq!(bench.shown(&doc), these(&[("bad", 15_000), ("old", 5)]));
}

#[test]
fn a_failed_pull_of_nothing_that_is_wanted_says_nothing() {
    let mut bench = loaded(vec![]);
    let number = pull(&mut bench);
    bench.feed(Event::Unsubscribe(def("Doc")));
    bench.refuse(number, refusal(Code::Offline));
    assert_eq!(bench.phase(), Phase::Live);
}

#[test]
fn what_cannot_be_subscribed_is_reported_and_changes_nothing() {
    let mut bench = loaded(vec![]);
    for text in ["Nobody", "Doc/nothing@BTziUq_SSySPM1Z0dmeokg"] {
        bench.subscribe(&def(text));
        let code = bench.error().expect("an error");
        assert_eq!(code, Code::UnknownDef, "{text}");
        assert!(bench.client.machine.list(&def(text)).is_none());
    }
    assert!(bench.requests.is_empty());
}

#[test]
fn r3_newly_applied_data_links_and_unlinks_other_collections() {
    let (doc, games, admin) = (def("Doc"), section("games"), section("admin"));
    let mut bench = loaded(vec![row("a", 9_950)]);
    bench.subscribe(&games);
    bench.subscribe(&admin);
    bench.serve(10_000, |def| {
        let rows = if *def == section("games") { vec![row("a", 9_950)] } else { vec![] };
        part(def, rows)
    });
    let number = pull(&mut bench);
    bench.answer(number, reply(10_050, vec![part(&doc, vec![row_in("a", 10_000, "admin")])]));
    assert!(bench.shown(&games).is_empty(), "unlinked at once");
    assert_eq!(bench.shown(&admin), these(&[("a", 10_000)]), "linked at once");
    // The older part of games' own def arrives late: below the removal tombstone.
    let (number, _) = bench.request();
    let parts = vec![part(&games, vec![row("a", 9_950)]), part(&admin, vec![])];
    bench.answer(number, reply(10_060, parts));
    assert!(bench.shown(&games).is_empty(), "R5: no resurrection");
    assert_eq!(bench.shown(&admin), these(&[("a", 10_000)]));
}

/// A pull up to `v` leaves out the changes at `v` itself. So only a document below it is known not to belong.
#[test]
fn r3_a_document_at_the_very_version_of_a_collection_is_linked() {
    let (doc, games) = (def("Doc"), section("games"));
    for (v, is_linked) in [(9_900, true), (9_899, false)] {
        let mut bench = loaded(vec![]);
        bench.subscribe(&games);
        bench.serve(10_000, |def| part(def, vec![]));
        assert_eq!(bench.v(&games), 9_900);
        let number = pull(&mut bench);
        bench.answer(number, reply(10_050, vec![part(&doc, vec![row("a", v)])]));
        assert_eq!(bench.shown(&games).len(), usize::from(is_linked));
    }
}

#[test]
fn r3_the_servers_word_decides_for_its_own_def() {
    let games = section("games");
    let mut bench = Bench::new(config());
    bench.subscribe(&games);
    let (number, _) = bench.request();
    // The data says admin; the server says that games holds it.
    bench.answer(number, reply(10_000, vec![part(&games, vec![row_in("a", 1, "admin")])]));
    assert_eq!(bench.shown(&games), these(&[("a", 1)]));
    // And the server says that admin does not hold it: a departure as new as the link ends the link.
    let admin = section("admin");
    bench.subscribe(&admin);
    bench.serve(10_000, |def| part(def, vec![]));
    let number = pull(&mut bench);
    let parts = vec![part(&games, vec![row_in("a", 11_000, "admin")])];
    bench.answer(number, reply(11_050, parts));
    assert_eq!(bench.shown(&admin), these(&[("a", 11_000)]), "by its data");
    let (number, _) = bench.request();
    let left = Part { left: vec![(pk("a"), 11_000)], ..Part::empty(admin.clone()) };
    bench.answer(number, reply(11_060, vec![left]));
    assert!(bench.shown(&admin).is_empty(), "by the server's word");
}

#[test]
fn r1_an_older_row_never_replaces_and_yet_links() {
    let (doc, games) = (def("Doc"), section("games"));
    let mut bench = loaded(vec![row_in("a", 500, "admin")]);
    bench.subscribe(&games);
    let (number, _) = bench.request();
    bench.answer(number, reply(10_000, vec![part(&games, vec![row("a", 400)])]));
    assert_eq!(bench.shown(&doc), these(&[("a", 500)]), "R1");
    assert_eq!(bench.shown(&games), these(&[("a", 500)]), "R3: linked at its own version");
    let number = pull(&mut bench);
    let left = Part { left: vec![(pk("a"), 450)], ..Part::empty(games.clone()) };
    bench.answer(number, reply(10_100, vec![left]));
    assert!(bench.shown(&games).is_empty(), "R3: left at or above the link's version");
    assert_eq!(bench.shown(&doc).len(), 1);
}

/// A document can leave and come again in one version: the row says how it ended.
#[test]
fn r5_a_row_of_the_version_at_which_its_document_left_links_it_again() {
    let games = section("games");
    let mut bench = loaded(vec![row("a", 500)]);
    bench.subscribe(&games);
    bench.serve(10_000, |def| part(def, vec![row("a", 500)]));
    let number = pull(&mut bench);
    let left = Part { left: vec![(pk("a"), 9_950)], ..Part::empty(games.clone()) };
    bench.answer(number, reply(10_000, vec![left]));
    assert!(bench.shown(&games).is_empty());
    let number = pull(&mut bench);
    bench.answer(number, reply(10_000, vec![part(&games, vec![row("a", 9_949)])]));
    assert!(bench.shown(&games).is_empty(), "from before it left");
    let number = pull(&mut bench);
    bench.answer(number, reply(10_000, vec![part(&games, vec![row("a", 9_950)])]));
    assert_eq!(bench.shown(&games), these(&[("a", 9_950)]));
}

#[test]
fn an_unknown_pk_in_left_or_present_does_no_harm() {
    let doc = def("Doc");
    let mut bench = loaded(vec![row("a", 1)]);
    let number = pull(&mut bench);
    let strange = Pk::parse("never-seen").expect("a pk");
    let odd = Part {
        left: vec![(strange.clone(), 9_999)],
        present: Some(vec![strange, pk("a")]),
        ..Part::empty(doc.clone())
    };
    bench.answer(number, reply(20_000, vec![odd]));
    assert_eq!(bench.shown(&doc), these(&[("a", 1)]));
}

/// Data that lacks a collection's property says nothing of that collection: its members stay until the server says so.
#[test]
fn r3_data_that_says_nothing_of_a_collection_unlinks_nothing() {
    let (doc, games) = (def("Doc"), section("games"));
    let mut bench = Bench::new(config());
    bench.subscribe(&doc);
    bench.subscribe(&games);
    bench.serve(10_000, |def| part(def, vec![row("a", 9_901)]));
    let map = [("id".to_owned(), escale::model::Value::from("a"))];
    let data = Some(Data::from_map(&map.into()).expect("data"));
    let number = pull(&mut bench);
    let bare = Row { data, ..row("a", 10_500) };
    bench.answer(number, reply(11_000, vec![part(&doc, vec![bare]), part(&games, vec![])]));
    assert_eq!(bench.shown(&games), these(&[("a", 10_500)]));
    let number = pull(&mut bench);
    bench.answer(
        number,
        reply(12_000, vec![part(&doc, vec![row_in("a", 11_500, "admin")]), part(&games, vec![])]),
    );
    assert_eq!(bench.shown(&games), these(&[]), "of another section");
}
