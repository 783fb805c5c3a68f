//! Pulls: numbered, one at a time; pages and cursors; faults of a part; and effects that a reply must not
//! have.

use escale::Code;
use escale::codec::{Data, Part, Row};
use escale::limits::PULL_EVERY_MS;
use escale::model::Pk;
use escale::sync::{Event, Phase};

use crate::harness::{
    Harness, config, def, fault, gone, part, pk, refusal, reply, row, row_in, section, these,
};

fn page(rows: Vec<Row>, next: &str) -> Part {
    Part { next: Some(next.into()), total: Some(10), ..part(&def("Doc"), rows) }
}

fn loaded(rows: Vec<Row>) -> Harness {
    let mut harness = Harness::new(config());
    harness.subscribe(&def("Doc"));
    let (number, request) = harness.request();
    assert_eq!((request.p, request.session.as_str()), (1, "session"));
    assert_eq!((request.subs[0].v, &request.subs[0].cursor), (0, &None));
    harness.answer(number, reply(10_000, vec![part(&def("Doc"), rows)]));
    harness
}

/// Lets five minutes pass. Returns the number of the pull that follows.
fn pull(harness: &mut Harness) -> u64 {
    harness.wake(harness.now + PULL_EVERY_MS);
    harness.request().0
}

#[test]
fn every_def_is_pulled_every_five_minutes() {
    let mut harness = loaded(vec![]);
    harness.subscribe(&section("games"));
    harness.serve(10_000, |def| part(def, vec![]));
    let mut due = harness.wake_at().expect("to be woken");
    for _ in 0..3 {
        harness.wake(due - 1);
        assert!(harness.requests.is_empty());
        harness.wake(due);
        let (number, request) = harness.request();
        assert_eq!(request.subs.len(), 2);
        assert!(request.subs.iter().all(|sub| sub.v == 9_900), "now less DELTA");
        let parts = request.subs.iter().map(|sub| part(&sub.def, vec![])).collect();
        harness.answer(number, reply(10_000, parts));
        assert_eq!(harness.wake_at(), Some(due + PULL_EVERY_MS));
        due += PULL_EVERY_MS;
    }
}

/// A reply has room for few rows. A long load must not take it from the other defs.
#[test]
fn a_load_under_way_is_asked_for_after_all_others() {
    let (doc, note) = (def("Doc"), def("Note"));
    let mut harness = Harness::new(config());
    harness.subscribe(&doc);
    let (number, _) = harness.request();
    harness.subscribe(&note);
    harness.answer(number, reply(10_000, vec![page(vec![row("a", 1)], "next")]));
    let (_, request) = harness.request();
    let asked: Vec<_> = request.subs.iter().map(|sub| (sub.def.clone(), sub.cursor.is_some())).collect();
    assert_eq!(asked, [(note, false), (doc, true)]);
}

#[test]
fn r4_v_becomes_now_less_delta_and_never_goes_back() {
    let doc = def("Doc");
    let mut harness = loaded(vec![]);
    assert_eq!(harness.v(&doc), 9_900);
    let number = pull(&mut harness);
    harness.answer(number, reply(5_000, vec![part(&doc, vec![])]));
    assert_eq!(harness.v(&doc), 9_900, "an instance whose clock is behind");
    let number = pull(&mut harness);
    harness.answer(number, reply(50, vec![part(&doc, vec![])]));
    assert_eq!(harness.v(&doc), 9_900);
}

#[test]
fn r4_the_same_change_twice_changes_nothing() {
    let doc = def("Doc");
    let mut harness = loaded(vec![row("a", 9_950), row("b", 9_960)]);
    let left = Part { left: vec![(pk("b"), 9_970)], ..part(&doc, vec![row("a", 9_980), gone("c", 9_990)]) };
    let number = pull(&mut harness);
    harness.answer(number, reply(10_050, vec![left.clone()]));
    let ids = harness.client.machine.list(&doc);
    harness.take_all();
    let number = pull(&mut harness);
    harness.answer(number, reply(10_050, vec![left]));
    assert_eq!(harness.client.machine.list(&doc), ids, "not even another id");
    let changed =
        |effect: &escale::sync::Effect| matches!(effect, escale::sync::Effect::Changed { .. }).then_some(());
    assert!(harness.take(changed).is_empty());
}

#[test]
fn r5_a_reply_of_another_number_is_dropped() {
    let doc = def("Doc");
    let mut harness = loaded(vec![]);
    let number = pull(&mut harness);
    for other in [number - 1, number + 1, 0, u64::MAX] {
        harness.answer(other, reply(20_000, vec![part(&doc, vec![row("z", 1)])]));
    }
    assert!(harness.shown(&doc).is_empty());
    harness.answer(number, reply(20_000, vec![part(&doc, vec![row("a", 1)])]));
    harness.answer(number, reply(30_000, vec![part(&doc, vec![row("z", 1)])]));
    assert_eq!(harness.shown(&doc), these(&[("a", 1)]));
    assert_eq!(harness.v(&doc), 19_900);
}

#[test]
fn r5_a_reply_asked_before_an_unsubscription_is_dropped() {
    let doc = def("Doc");
    let mut harness = loaded(vec![row("a", 1)]);
    let number = pull(&mut harness);
    harness.feed(Event::Unsubscribe(doc.clone()));
    assert_eq!(harness.client.machine.memory().documents().count(), 0, "R2");
    harness.subscribe(&doc);
    // Changes since 9,900: not everything that the new subscription needs.
    harness.answer(number, reply(20_000, vec![part(&doc, vec![])]));
    assert!(!harness.is_ready(&doc));
    assert_eq!(harness.v(&doc), 0);
    let (number, request) = harness.request();
    assert_eq!(request.subs[0].v, 0);
    harness.answer(number, reply(20_000, vec![part(&doc, vec![row("a", 1)])]));
    assert_eq!(harness.shown(&doc), these(&[("a", 1)]));
}

#[test]
fn a_def_that_nobody_asked_for_is_ignored() {
    let mut harness = loaded(vec![]);
    let number = pull(&mut harness);
    let parts = vec![part(&section("games"), vec![row("a", 1)]), part(&def("Doc"), vec![])];
    harness.answer(number, reply(20_000, parts));
    assert_eq!(harness.client.machine.memory().documents().count(), 0);
    assert_eq!(harness.v(&def("Doc")), 19_900);
}

#[test]
fn a_load_in_pages_goes_on_and_reaches_the_first_pages_v() {
    let doc = def("Doc");
    let mut harness = Harness::new(config());
    harness.subscribe(&doc);
    let (number, _) = harness.request();
    harness.answer(number, reply(10_000, vec![page(vec![row("a", 1)], "c1")]));
    assert_eq!(harness.v(&doc), 0);
    assert_eq!(harness.phase(), Phase::Loading);
    assert_eq!(harness.shown(&doc), these(&[("a", 1)]), "shown as it comes");
    let progress = harness.client.machine.status().progress.expect("a load");
    assert_eq!((progress.received, progress.total), (1, Some(10)));
    let (number, request) = harness.request();
    assert_eq!((request.subs[0].v, request.subs[0].cursor.as_deref()), (0, Some("c1")));
    harness.answer(number, reply(20_000, vec![page(vec![row("b", 2)], "c2")]));
    let (number, request) = harness.request();
    assert_eq!(request.subs[0].cursor.as_deref(), Some("c2"));
    assert!(!harness.is_ready(&doc));
    harness.answer(number, reply(30_000, vec![part(&doc, vec![row("c", 3)])]));
    assert!(harness.is_ready(&doc));
    assert_eq!(harness.v(&doc), 9_900, "the first page's now less DELTA");
    assert_eq!(harness.client.machine.status().progress, None);
}

#[test]
fn r6_present_ends_a_pull_from_before_the_horizon() {
    let doc = def("Doc");
    let mut harness = loaded(vec![row("a", 1), row("b", 2), row("c", 29_950), row("d", 3)]);
    let number = pull(&mut harness);
    let present = Some(vec![pk("a"), pk("d")]);
    let whole = Part { present, ..part(&doc, vec![row("d", 20_000)]) };
    harness.answer(number, reply(30_000, vec![whole]));
    // c is linked at or above now - DELTA: the link may be newer than the list.
    assert_eq!(harness.shown(&doc), these(&[("a", 1), ("c", 29_950), ("d", 20_000)]));
}

#[test]
fn r6_a_pull_from_zero_is_whole() {
    let doc = def("Doc");
    let mut harness = loaded(vec![row("a", 1), row("b", 2)]);
    // The cursor is refused: the load starts from scratch, and the old documents stay visible until it ends.
    let number = pull(&mut harness);
    harness.answer(number, reply(20_000, vec![page(vec![], "c1")]));
    let (number, _) = harness.request();
    harness.answer(number, reply(20_000, vec![fault(&doc, Code::BadCursor)]));
    assert_eq!(harness.shown(&doc).len(), 2);
    let (number, request) = harness.request();
    assert_eq!(
        (request.subs[0].v, &request.subs[0].cursor),
        (0, &None),
        "a refused cursor restarts the load"
    );
    harness.answer(number, reply(30_000, vec![part(&doc, vec![row("b", 2)])]));
    assert_eq!(harness.shown(&doc), these(&[("b", 2)]), "what the whole does not hold has left");
    assert_eq!(harness.v(&doc), 29_900);
}

#[test]
fn a_fault_of_a_part_leaves_the_rest_served() {
    let (doc, games) = (def("Doc"), section("games"));
    let mut harness = loaded(vec![]);
    harness.subscribe(&games);
    let (number, _) = harness.request();
    harness.answer(number, reply(20_000, vec![fault(&games, Code::Forbidden)]));
    assert_eq!(harness.client.machine.status().faults[&games].code(), Code::Forbidden);
    assert_eq!(harness.phase(), Phase::Live, "a refused def loads nothing");
    assert!(harness.requests.is_empty(), "not asked again at once");
    let number = pull(&mut harness);
    harness
        .answer(number, reply(30_000, vec![part(&doc, vec![row("a", 1)]), fault(&games, Code::Forbidden)]));
    assert_eq!(harness.shown(&doc), these(&[("a", 1)]));
    // The permission was granted meanwhile.
    let number = pull(&mut harness);
    harness.answer(number, reply(40_000, vec![part(&doc, vec![]), part(&games, vec![])]));
    assert!(harness.client.machine.status().faults.is_empty());
    assert!(harness.is_ready(&games));
}

#[test]
fn a_passing_fault_of_a_part_is_tried_again_from_where_it_stopped() {
    let doc = def("Doc");
    let mut harness = Harness::new(config());
    harness.subscribe(&doc);
    let (number, _) = harness.request();
    harness.answer(number, reply(10_000, vec![page(vec![row("a", 1)], "c1")]));
    let (number, _) = harness.request();
    harness.answer(number, reply(10_000, vec![fault(&doc, Code::Contention)]));
    if harness.requests.is_empty() {
        let at = harness.wake_at().expect("tried again");
        harness.wake(at);
    }
    let (number, request) = harness.request();
    assert_eq!(request.subs[0].cursor.as_deref(), Some("c1"), "nothing was wrong with the cursor");
    harness.answer(number, reply(10_000, vec![part(&doc, vec![row("b", 2)])]));
    assert_eq!(harness.shown(&doc).len(), 2);
}

#[test]
fn parts_that_a_full_reply_left_out_are_asked_for_again() {
    let mut harness = loaded(vec![]);
    for text in ["games", "admin", "x11"] {
        harness.subscribe(&section(text));
    }
    let mut told = 0;
    while let Some((number, request, _)) = harness.requests.pop_front() {
        told += 1;
        assert!(told < 10, "asked for ever");
        harness.answer(number, reply(20_000, vec![part(&request.subs[0].def, vec![])]));
    }
    assert!(harness.client.machine.memory().collections().all(|(_, collection)| collection.ready));
}

/// A server that answers without any part would otherwise be asked again at once, for ever.
#[test]
fn a_reply_that_tells_nothing_of_what_was_asked_waits() {
    let mut harness = loaded(vec![]);
    let number = pull(&mut harness);
    harness.answer(number, reply(20_000, vec![]));
    let mut times = 0;
    while let Some((number, _, _)) = harness.requests.pop_front() {
        times += 1;
        assert!(times < 8, "asked again at once, each time");
        harness.answer(number, reply(20_000, vec![]));
    }
    assert_eq!(harness.error(), Some(Code::BadReply));
    assert!(harness.wake_at().is_some(), "and asks again later");
}

/// The reply had room for one def, whose subscription has ended meanwhile: that is no error.
#[test]
fn a_full_reply_about_an_ended_subscription_is_no_error() {
    let mut harness = loaded(vec![]);
    for text in ["games", "admin"] {
        harness.subscribe(&section(text));
    }
    harness.serve(10_000, |def| part(def, vec![]));
    harness.wake(harness.now + PULL_EVERY_MS);
    let (number, request) = harness.request();
    assert_eq!(request.subs.len(), 3);
    let first = request.subs[0].def.clone();
    harness.feed(Event::Unsubscribe(first.clone()));
    harness.answer(number, reply(20_000, vec![part(&first, vec![])]));
    assert_eq!((harness.error(), harness.phase()), (None, Phase::Live));
    assert_eq!(harness.request().1.subs.len(), 2, "the others are asked for at once");
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
        let mut harness = loaded(vec![row("old", 5)]);
        let number = pull(&mut harness);
        let wanted = if reply.p == 1 { Code::Malformed } else { Code::WrongProtocol };
        harness.answer(number, reply);
        assert_eq!(harness.shown(&doc), these(&[("old", 5)]));
        assert_eq!(harness.v(&doc), 9_900);
        assert_eq!(harness.error(), Some(wanted));
        assert_eq!(harness.phase(), Phase::Offline);
        harness.wake(harness.now + 60_000);
        harness.request();
    }
}

/// One document that cannot be read must not keep every other def from its changes.
#[test]
fn a_document_that_cannot_be_read_is_a_fault_of_its_def() {
    let (doc, note) = (def("Doc"), def("Note"));
    let mut harness = loaded(vec![row("old", 5)]);
    harness.subscribe(&note);
    harness.serve(10_000, |def| part(def, vec![]));
    let number = pull(&mut harness);
    let data = Data::from_bytes(&[0xc1, 0xff]).expect("bytes");
    let bad = Row { data: Some(data), ..row("bad", 15_000) };
    let parts = vec![part(&doc, vec![row("a", 14_000), bad]), part(&note, vec![row_in("n", 1, "x")])];
    harness.answer(number, reply(20_000, parts));
    assert_eq!(harness.shown(&note), these(&[("n", 1)]));
    assert_eq!(harness.v(&note), 19_900);
    assert_eq!(harness.shown(&doc), these(&[("old", 5)]), "nothing half applied");
    assert_eq!(harness.v(&doc), 9_900);
    assert_eq!(harness.client.machine.status().faults[&doc].code(), Code::BadValue);
    assert!(harness.requests.is_empty(), "not asked again at once");
    let number = pull(&mut harness);
    harness.answer(number, reply(30_000, vec![part(&doc, vec![row("bad", 15_000)]), part(&note, vec![])]));
    assert_eq!(harness.shown(&doc), these(&[("bad", 15_000), ("old", 5)]));
}

#[test]
fn a_failed_pull_of_nothing_that_is_wanted_says_nothing() {
    let mut harness = loaded(vec![]);
    let number = pull(&mut harness);
    harness.feed(Event::Unsubscribe(def("Doc")));
    harness.refuse(number, refusal(Code::Offline));
    assert_eq!(harness.phase(), Phase::Live);
}

#[test]
fn what_cannot_be_subscribed_is_reported_and_changes_nothing() {
    let mut harness = loaded(vec![]);
    for text in ["Nobody", "Doc/nothing@BTziUq_SSySPM1Z0dmeokg"] {
        harness.subscribe(&def(text));
        let code = harness.error().expect("an error");
        assert_eq!(code, Code::UnknownDef, "{text}");
        assert!(harness.client.machine.list(&def(text)).is_none());
    }
    assert!(harness.requests.is_empty());
}

#[test]
fn r3_newly_applied_data_links_and_unlinks_other_collections() {
    let (doc, games, admin) = (def("Doc"), section("games"), section("admin"));
    let mut harness = loaded(vec![row("a", 9_950)]);
    harness.subscribe(&games);
    harness.subscribe(&admin);
    harness.serve(10_000, |def| {
        let rows = if *def == section("games") { vec![row("a", 9_950)] } else { vec![] };
        part(def, rows)
    });
    let number = pull(&mut harness);
    harness.answer(number, reply(10_050, vec![part(&doc, vec![row_in("a", 10_000, "admin")])]));
    assert!(harness.shown(&games).is_empty(), "unlinked at once");
    assert_eq!(harness.shown(&admin), these(&[("a", 10_000)]), "linked at once");
    // The older part of games' own def arrives late: below the removal tombstone.
    let (number, _) = harness.request();
    let parts = vec![part(&games, vec![row("a", 9_950)]), part(&admin, vec![])];
    harness.answer(number, reply(10_060, parts));
    assert!(harness.shown(&games).is_empty(), "R5: no resurrection");
    assert_eq!(harness.shown(&admin), these(&[("a", 10_000)]));
}

/// A pull up to `v` leaves out the changes at `v` itself. So only a document below it is known not to belong.
#[test]
fn r3_a_document_at_the_very_version_of_a_collection_is_linked() {
    let (doc, games) = (def("Doc"), section("games"));
    for (v, is_linked) in [(9_900, true), (9_899, false)] {
        let mut harness = loaded(vec![]);
        harness.subscribe(&games);
        harness.serve(10_000, |def| part(def, vec![]));
        assert_eq!(harness.v(&games), 9_900);
        let number = pull(&mut harness);
        harness.answer(number, reply(10_050, vec![part(&doc, vec![row("a", v)])]));
        assert_eq!(harness.shown(&games).len(), usize::from(is_linked));
    }
}

#[test]
fn r3_the_servers_word_decides_for_its_own_def() {
    let games = section("games");
    let mut harness = Harness::new(config());
    harness.subscribe(&games);
    let (number, _) = harness.request();
    // The data says admin; the server says that games holds it.
    harness.answer(number, reply(10_000, vec![part(&games, vec![row_in("a", 1, "admin")])]));
    assert_eq!(harness.shown(&games), these(&[("a", 1)]));
    // And the server says that admin does not hold it: a departure as new as the link ends the link.
    let admin = section("admin");
    harness.subscribe(&admin);
    harness.serve(10_000, |def| part(def, vec![]));
    let number = pull(&mut harness);
    let parts = vec![part(&games, vec![row_in("a", 11_000, "admin")])];
    harness.answer(number, reply(11_050, parts));
    assert_eq!(harness.shown(&admin), these(&[("a", 11_000)]), "by its data");
    let (number, _) = harness.request();
    let left = Part { left: vec![(pk("a"), 11_000)], ..Part::empty(admin.clone()) };
    harness.answer(number, reply(11_060, vec![left]));
    assert!(harness.shown(&admin).is_empty(), "by the server's word");
}

#[test]
fn r1_an_older_row_never_replaces_and_yet_links() {
    let (doc, games) = (def("Doc"), section("games"));
    let mut harness = loaded(vec![row_in("a", 500, "admin")]);
    harness.subscribe(&games);
    let (number, _) = harness.request();
    harness.answer(number, reply(10_000, vec![part(&games, vec![row("a", 400)])]));
    assert_eq!(harness.shown(&doc), these(&[("a", 500)]), "R1");
    assert_eq!(harness.shown(&games), these(&[("a", 500)]), "R3: linked at its own version");
    let number = pull(&mut harness);
    let left = Part { left: vec![(pk("a"), 450)], ..Part::empty(games.clone()) };
    harness.answer(number, reply(10_100, vec![left]));
    assert!(harness.shown(&games).is_empty(), "R3: left at or above the link's version");
    assert_eq!(harness.shown(&doc).len(), 1);
}

/// A document can leave and come again in one version: the row says how it ended.
#[test]
fn r5_a_row_of_the_version_at_which_its_document_left_links_it_again() {
    let games = section("games");
    let mut harness = loaded(vec![row("a", 500)]);
    harness.subscribe(&games);
    harness.serve(10_000, |def| part(def, vec![row("a", 500)]));
    let number = pull(&mut harness);
    let left = Part { left: vec![(pk("a"), 9_950)], ..Part::empty(games.clone()) };
    harness.answer(number, reply(10_000, vec![left]));
    assert!(harness.shown(&games).is_empty());
    let number = pull(&mut harness);
    harness.answer(number, reply(10_000, vec![part(&games, vec![row("a", 9_949)])]));
    assert!(harness.shown(&games).is_empty(), "from before it left");
    let number = pull(&mut harness);
    harness.answer(number, reply(10_000, vec![part(&games, vec![row("a", 9_950)])]));
    assert_eq!(harness.shown(&games), these(&[("a", 9_950)]));
}

#[test]
fn an_unknown_pk_in_left_or_present_does_no_harm() {
    let doc = def("Doc");
    let mut harness = loaded(vec![row("a", 1)]);
    let number = pull(&mut harness);
    let strange = Pk::parse("never-seen").expect("a pk");
    let odd = Part {
        left: vec![(strange.clone(), 9_999)],
        present: Some(vec![strange, pk("a")]),
        ..Part::empty(doc.clone())
    };
    harness.answer(number, reply(20_000, vec![odd]));
    assert_eq!(harness.shown(&doc), these(&[("a", 1)]));
}

/// Data that lacks a collection's property says nothing of that collection: its members stay until the server says so.
#[test]
fn r3_data_that_says_nothing_of_a_collection_unlinks_nothing() {
    let (doc, games) = (def("Doc"), section("games"));
    let mut harness = Harness::new(config());
    harness.subscribe(&doc);
    harness.subscribe(&games);
    harness.serve(10_000, |def| part(def, vec![row("a", 9_901)]));
    let map = [("id".to_owned(), escale::model::Value::from("a"))];
    let data = Some(Data::from_map(&map.into()).expect("data"));
    let number = pull(&mut harness);
    let bare = Row { data, ..row("a", 10_500) };
    harness.answer(number, reply(11_000, vec![part(&doc, vec![bare]), part(&games, vec![])]));
    assert_eq!(harness.shown(&games), these(&[("a", 10_500)]));
    let number = pull(&mut harness);
    harness.answer(
        number,
        reply(12_000, vec![part(&doc, vec![row_in("a", 11_500, "admin")]), part(&games, vec![])]),
    );
    assert_eq!(harness.shown(&games), these(&[]), "of another section");
}
