//! R89: the account is restricted, and the restriction ends.

use escale::Code;
use escale::codec::{Fault, OpResult, SyncReply};
use escale::sync::Event;

use crate::harness::{Harness, config, def, fault, patch, reply, row, row_in, these, whole};

fn session() -> Harness {
    let mut harness = Harness::new(config());
    harness.subscribe(&def("Doc"));
    harness.serve(50_000, |of| whole(of, vec![row("a", 100), row_in("b", 200, "news")]));
    harness
}

/// Answers the request in flight: its operations are blocked, and so are its defs from level 2 on.
fn answer(harness: &mut Harness, now: u64, level: u64) {
    let (number, request) = harness.request();
    let block = |id: &String| OpResult {
        id: id.clone(),
        ok: None,
        fault: Some(Fault::new(Code::Blocked, "the account is restricted")),
    };
    let results: Vec<_> = request.ops.iter().map(|op| block(&op.id)).collect();
    let seq = request.ops.last().map_or(0, |op| op.seq);
    let part = |of: &escale::model::Def| {
        if level > 1 { fault(of, Code::Blocked) } else { whole(of, vec![row("a", 100), row("b", 200)]) }
    };
    let parts = request.subs.iter().map(|sub| part(&sub.def)).collect();
    let restriction = Some(level).filter(|level| *level > 0);
    harness.answer(number, SyncReply { results, seq, restriction, ..reply(now, parts) });
}

#[test]
fn r89_a_blocked_write_is_parked_and_goes_again() {
    let mut harness = session();
    patch(&mut harness, ("a", 3), 1);
    answer(&mut harness, 60_000, 1);
    assert_eq!(harness.client.machine.status().restriction, 1);
    let operations = harness.client.machine.operations();
    assert_eq!(operations.len(), 1);
    let (op, _) = operations[0];
    let old = op.state.issued.id.clone();
    assert_eq!(op.state.refused.as_ref().expect("parked").code, "blocked");
    assert_eq!(harness.shown(&def("Doc")), these(&[("a", 100), ("b", 200)]), "nothing leaves");
    // Another document's write does not wait for it.
    patch(&mut harness, ("b", 4), 2);
    let (number, request) = harness.request();
    assert_eq!(request.ops.len(), 1, "it is not sent by itself again");
    assert_ne!(request.ops[0].id, old);
    harness.requests.push_back((number, request, None));
    answer(&mut harness, 70_000, 0);
    // The restriction has ended, so everything is pulled at once.
    answer(&mut harness, 80_000, 0);
    // The application sends it again: under a new id, because the server keeps results.
    let new = escale::journal::make_id(1_700_000_100_000, &mut escale::crypto::SeededRandom::new(9));
    let new = new.expect("an id");
    harness.feed(Event::Amend { id: old, new: new.clone(), args: None });
    let sent = harness.requests.iter().flat_map(|(_, request, _)| &request.ops);
    assert_eq!(sent.map(|op| op.id.clone()).collect::<Vec<_>>(), [new]);
}

/// The role is that of the last reply. A word of a later protocol is none.
#[test]
fn a_reply_tells_the_role_of_the_account() {
    let mut harness = session();
    for (told, expected) in [("admin", Some("admin")), ("owner", None), ("read", Some("read"))] {
        let at = harness.wake_at().expect("a time for the next pull");
        harness.wake(at);
        let (number, request) = harness.request();
        let parts = request.subs.iter().map(|sub| whole(&sub.def, vec![row("a", 100)])).collect();
        harness.answer(number, SyncReply { role: Some(told.into()), ..reply(110_000, parts) });
        assert_eq!(harness.client.machine.status().role, expected, "{told}");
    }
}

#[test]
fn r89_a_restriction_that_falls_has_everything_pulled_at_once() {
    let mut harness = session();
    let at = harness.wake_at().expect("a time for the next pull");
    harness.wake(at);
    answer(&mut harness, 110_000, 2);
    let status = harness.client.machine.status();
    assert_eq!((status.restriction, status.faults[&def("Doc")].code()), (2, Code::Blocked));
    assert_eq!(harness.shown(&def("Doc")), these(&[("a", 100), ("b", 200)]), "nothing leaves");
    // A request about something else tells that the restriction has ended: the blocked def is asked for again.
    harness.subscribe(&def("Note"));
    let (number, request) = harness.request();
    assert!(request.subs.iter().all(|sub| sub.def == def("Note")));
    harness.answer(number, reply(120_000, vec![whole(&def("Note"), vec![])]));
    assert_eq!(harness.client.machine.status().restriction, 0);
    harness.feed(Event::Woke);
    let (number, request) = harness.request();
    assert!(request.subs.iter().any(|sub| sub.def == def("Doc")));
    let parts = request.subs.iter().map(|sub| whole(&sub.def, vec![])).collect();
    harness.answer(number, reply(130_000, parts));
    assert!(harness.client.machine.status().faults.is_empty());
}
