//! R22: the account's right to a def ends.

use escale::Code;
use escale::codec::{Fault, ServerFrame};
use escale::sync::{Config, Event, Phase};

use crate::harness::{
    Bench, config, def, fault, patch, pk, refusal, reply, row, row_in, section, these, whole,
};

/// A session that is subscribed to the class and to the section "games". The document a is in both, b in the class alone.
fn session() -> Bench {
    let mut bench = Bench::new(config());
    bench.subscribe(&def("Doc"));
    bench.subscribe(&section("games"));
    let doc = |of: &escale::model::Def| {
        let rows = vec![row("a", 100), row_in("b", 200, "news")];
        whole(of, if *of == def("Doc") { rows } else { rows[..1].to_vec() })
    };
    bench.serve(50_000, doc);
    assert_eq!(bench.shown(&def("Doc")), these(&[("a", 100), ("b", 200)]));
    bench
}

/// Wakes the session for its next pull of everything.
fn wake(bench: &mut Bench) {
    let at = bench.wake_at().expect("a time for the next pull");
    bench.wake(at);
}

/// Pulls everything; the class is answered with that fault.
fn pull_refused(bench: &mut Bench, code: Code) {
    wake(bench);
    let games = section("games");
    bench.serve(110_000, |of| {
        if *of == games { escale::codec::Part::empty(games.clone()) } else { fault(of, code) }
    });
}

#[test]
fn r22_a_def_that_is_withdrawn_leaves_with_its_subscription() {
    let mut bench = session();
    pull_refused(&mut bench, Code::Withdrawn);
    assert!(bench.client.machine.list(&def("Doc")).is_none(), "the subscription has ended");
    assert_eq!(bench.shown(&section("games")), these(&[("a", 100)]), "another def holds it");
    assert_eq!(bench.client.machine.memory().documents().count(), 1, "nothing else is kept");
    assert_eq!(bench.client.machine.status().faults[&def("Doc")].code(), Code::Withdrawn);
    assert_eq!(bench.phase(), Phase::Live);
    wake(&mut bench);
    let (_, request) = bench.request();
    assert_eq!(request.subs.iter().map(|sub| sub.def.clone()).collect::<Vec<_>>(), [section("games")]);
}

#[test]
fn r22_no_other_fault_removes_anything() {
    for code in Code::ALL.iter().filter(|code| **code != Code::Withdrawn) {
        let mut bench = session();
        pull_refused(&mut bench, *code);
        assert_eq!(bench.shown(&def("Doc")), these(&[("a", 100), ("b", 200)]), "{code:?} of a part");
        let mut bench = session();
        wake(&mut bench);
        let (number, _) = bench.request();
        bench.refuse(number, refusal(*code));
        assert_eq!(bench.shown(&def("Doc")), these(&[("a", 100), ("b", 200)]), "{code:?} of a request");
    }
    let mut bench = session();
    wake(&mut bench);
    let (number, _) = bench.request();
    bench.refuse(number, refusal(Code::Withdrawn));
    assert_eq!(bench.shown(&def("Doc")), these(&[("a", 100), ("b", 200)]), "withdrawn, of a whole request");
}

#[test]
fn r22_a_document_with_a_pending_operation_stays_until_that_is_over() {
    let mut bench = session();
    patch(&mut bench, ("b", 3), 1);
    let (number, request) = bench.request();
    let id = request.ops[0].id.clone();
    // The answer does not have the operation's result: it is refused for a while.
    let parts = request.subs.iter().map(|sub| fault(&sub.def, Code::Withdrawn)).collect();
    bench.answer(number, reply(110_000, parts));
    assert!(bench.client.machine.list(&def("Doc")).is_none(), "the subscription has ended");
    assert!(
        bench.client.machine.find(def("Doc").class(), &pk("b")).is_some(),
        "the operation keeps its document"
    );
    bench.feed(Event::Woke);
    assert_eq!(bench.client.machine.operations().len(), 1);
    assert_eq!(bench.client.machine.operations()[0].0.state.id, id);
}

#[test]
fn r22_a_right_that_is_back_brings_the_documents_back() {
    let mut bench = session();
    pull_refused(&mut bench, Code::Withdrawn);
    bench.subscribe(&def("Doc"));
    assert!(bench.client.machine.status().faults.is_empty(), "nobody has refused it this time");
    bench.serve(120_000, |of| whole(of, vec![row("a", 100), row_in("b", 200, "news")]));
    assert_eq!(bench.shown(&def("Doc")), these(&[("a", 100), ("b", 200)]));
    assert_eq!(bench.phase(), Phase::Live);
}

#[test]
fn r22_a_registration_that_is_refused_as_withdrawn_is_pulled() {
    let mut bench = Bench::new(Config { has_live: true, ..config() });
    bench.subscribe(&def("Doc"));
    let socket = bench.opened_socket().expect("a socket");
    bench.feed(Event::SocketOpened { socket });
    bench.serve(50_000, |of| whole(of, vec![row("a", 100)]));
    let refused = vec![(def("Doc"), Fault::new(Code::Withdrawn, "no"))];
    bench.frame(socket, ServerFrame::confirm(vec![], refused));
    assert_eq!(bench.shown(&def("Doc")), these(&[("a", 100)]), "a pull decides");
    bench.serve(51_000, |of| fault(of, Code::Withdrawn));
    assert!(bench.client.machine.list(&def("Doc")).is_none());
    assert_eq!(bench.client.machine.memory().documents().count(), 0);
}
