//! R89: the account is restricted, and the restriction ends.

use escale::Code;
use escale::codec::{Fault, OpResult, SyncReply};
use escale::sync::Event;

use crate::harness::{Bench, config, def, fault, patch, reply, row, row_in, these, whole};

fn session() -> Bench {
    let mut bench = Bench::new(config());
    bench.subscribe(&def("Doc"));
    bench.serve(50_000, |of| whole(of, vec![row("a", 100), row_in("b", 200, "news")]));
    bench
}

/// Answers the request in flight: its operations are blocked, and so are its defs from level 2 on.
fn answer(bench: &mut Bench, now: u64, level: u64) {
    let (number, request) = bench.request();
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
    bench.answer(number, SyncReply { results, seq, restriction, ..reply(now, parts) });
}

#[test]
fn r89_a_blocked_write_is_parked_and_goes_again() {
    let mut bench = session();
    patch(&mut bench, ("a", 3), 1);
    answer(&mut bench, 60_000, 1);
    assert_eq!(bench.client.machine.status().restriction, 1);
    let operations = bench.client.machine.operations();
    assert_eq!(operations.len(), 1);
    let (op, _) = operations[0];
    let old = op.state.id.clone();
    assert_eq!(op.state.refused.as_ref().expect("parked").code, "blocked");
    assert_eq!(bench.shown(&def("Doc")), these(&[("a", 100), ("b", 200)]), "nothing leaves");
    // Another document's write does not wait for it.
    patch(&mut bench, ("b", 4), 2);
    let (number, request) = bench.request();
    assert_eq!(request.ops.len(), 1, "it is not sent by itself again");
    assert_ne!(request.ops[0].id, old);
    bench.requests.push_back((number, request, None));
    answer(&mut bench, 70_000, 0);
    // The restriction has ended, so everything is pulled at once.
    answer(&mut bench, 80_000, 0);
    // The application sends it again: under a new id, because the server keeps results.
    let new = escale::journal::make_id(1_700_000_100_000, &mut escale::crypto::SeededRandom::new(9));
    let new = new.expect("an id");
    bench.feed(Event::Amend { id: old, new: new.clone(), args: None });
    let sent = bench.requests.iter().flat_map(|(_, request, _)| &request.ops);
    assert_eq!(sent.map(|op| op.id.clone()).collect::<Vec<_>>(), [new]);
}

#[test]
fn r89_a_restriction_that_falls_has_everything_pulled_at_once() {
    let mut bench = session();
    let at = bench.wake_at().expect("a time for the next pull");
    bench.wake(at);
    answer(&mut bench, 110_000, 2);
    let status = bench.client.machine.status();
    assert_eq!((status.restriction, status.faults[&def("Doc")].code()), (2, Code::Blocked));
    assert_eq!(bench.shown(&def("Doc")), these(&[("a", 100), ("b", 200)]), "nothing leaves");
    // A request about something else tells that the restriction has ended: the blocked def is asked for again.
    bench.subscribe(&def("Note"));
    let (number, request) = bench.request();
    assert!(request.subs.iter().all(|sub| sub.def == def("Note")));
    bench.answer(number, reply(120_000, vec![whole(&def("Note"), vec![])]));
    assert_eq!(bench.client.machine.status().restriction, 0);
    bench.feed(Event::Woke);
    let (number, request) = bench.request();
    assert!(request.subs.iter().any(|sub| sub.def == def("Doc")));
    let parts = request.subs.iter().map(|sub| whole(&sub.def, vec![])).collect();
    bench.answer(number, reply(130_000, parts));
    assert!(bench.client.machine.status().faults.is_empty());
}
