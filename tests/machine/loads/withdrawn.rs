//! R22: the account's right to a def ends.

use escale::Code;
use escale::codec::{Fault, ServerFrame};
use escale::sync::{Config, Event, Phase};

use crate::harness::{
    Harness, config, def, fault, patch, pk, refusal, reply, row, row_in, section, these, whole,
};

/// A session that is subscribed to the class and to the section "games". The document a is in both, b in the class alone.
fn session() -> Harness {
    let mut harness = Harness::new(config());
    harness.subscribe(&def("Doc"));
    harness.subscribe(&section("games"));
    let doc = |of: &escale::model::Def| {
        let rows = vec![row("a", 100), row_in("b", 200, "news")];
        whole(of, if *of == def("Doc") { rows } else { rows[..1].to_vec() })
    };
    harness.serve(50_000, doc);
    assert_eq!(harness.shown(&def("Doc")), these(&[("a", 100), ("b", 200)]));
    harness
}

/// Wakes the session for its next pull of everything.
fn wake(harness: &mut Harness) {
    let at = harness.wake_at().expect("a time for the next pull");
    harness.wake(at);
}

/// Pulls everything; the class is answered with that fault.
fn pull_refused(harness: &mut Harness, code: Code) {
    wake(harness);
    let games = section("games");
    harness.serve(110_000, |of| {
        if *of == games { escale::codec::Part::empty(games.clone()) } else { fault(of, code) }
    });
}

#[test]
fn r22_a_def_that_is_withdrawn_leaves_with_its_subscription() {
    let mut harness = session();
    pull_refused(&mut harness, Code::Withdrawn);
    assert!(harness.client.machine.list(&def("Doc")).is_none(), "the subscription has ended");
    assert_eq!(harness.shown(&section("games")), these(&[("a", 100)]), "another def holds it");
    assert_eq!(harness.client.machine.memory().documents().count(), 1, "nothing else is kept");
    assert_eq!(harness.client.machine.status().faults[&def("Doc")].code(), Code::Withdrawn);
    assert_eq!(harness.phase(), Phase::Live);
    wake(&mut harness);
    let (_, request) = harness.request();
    assert_eq!(request.subs.iter().map(|sub| sub.def.clone()).collect::<Vec<_>>(), [section("games")]);
}

#[test]
fn r22_no_other_fault_removes_anything() {
    for code in Code::ALL.iter().filter(|code| **code != Code::Withdrawn) {
        let mut harness = session();
        pull_refused(&mut harness, *code);
        assert_eq!(harness.shown(&def("Doc")), these(&[("a", 100), ("b", 200)]), "{code:?} of a part");
        let mut harness = session();
        wake(&mut harness);
        let (number, _) = harness.request();
        harness.refuse(number, refusal(*code));
        assert_eq!(harness.shown(&def("Doc")), these(&[("a", 100), ("b", 200)]), "{code:?} of a request");
    }
    let mut harness = session();
    wake(&mut harness);
    let (number, _) = harness.request();
    harness.refuse(number, refusal(Code::Withdrawn));
    assert_eq!(harness.shown(&def("Doc")), these(&[("a", 100), ("b", 200)]), "withdrawn, of a whole request");
}

#[test]
fn r22_a_document_with_a_pending_operation_stays_until_that_is_over() {
    let mut harness = session();
    patch(&mut harness, ("b", 3), 1);
    let (number, request) = harness.request();
    let id = request.ops[0].id.clone();
    // The answer does not have the operation's result: it is refused for a while.
    let parts = request.subs.iter().map(|sub| fault(&sub.def, Code::Withdrawn)).collect();
    harness.answer(number, reply(110_000, parts));
    assert!(harness.client.machine.list(&def("Doc")).is_none(), "the subscription has ended");
    assert!(
        harness.client.machine.find(def("Doc").class(), &pk("b")).is_some(),
        "the operation keeps its document"
    );
    harness.feed(Event::Woke);
    assert_eq!(harness.client.machine.operations().len(), 1);
    assert_eq!(harness.client.machine.operations()[0].0.state.issued.id, id);
}

#[test]
fn r22_a_right_that_is_back_brings_the_documents_back() {
    let mut harness = session();
    pull_refused(&mut harness, Code::Withdrawn);
    harness.subscribe(&def("Doc"));
    assert!(harness.client.machine.status().faults.is_empty(), "nobody has refused it this time");
    harness.serve(120_000, |of| whole(of, vec![row("a", 100), row_in("b", 200, "news")]));
    assert_eq!(harness.shown(&def("Doc")), these(&[("a", 100), ("b", 200)]));
    assert_eq!(harness.phase(), Phase::Live);
}

#[test]
fn r22_a_registration_that_is_refused_as_withdrawn_is_pulled() {
    let mut harness = Harness::new(Config { has_live: true, ..config() });
    harness.subscribe(&def("Doc"));
    let socket = harness.opened_socket().expect("a socket");
    harness.feed(Event::SocketOpened { socket });
    harness.serve(50_000, |of| whole(of, vec![row("a", 100)]));
    let refused = vec![(def("Doc"), Fault::new(Code::Withdrawn, "no"))];
    harness.frame(socket, ServerFrame::confirm(vec![], refused));
    assert_eq!(harness.shown(&def("Doc")), these(&[("a", 100)]), "a pull decides");
    harness.serve(51_000, |of| fault(of, Code::Withdrawn));
    assert!(harness.client.machine.list(&def("Doc")).is_none());
    assert_eq!(harness.client.machine.memory().documents().count(), 0);
}
