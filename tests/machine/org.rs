//! An org that does not exist yet, or no longer. The first write, the first refusal, the first subscription
//! and a restart of an empty server come in any order. The session learns the epoch, sends, and reports each
//! result.

use escale::codec::{Fault, Op, OpOk, OpResult, SyncReply, SyncRequest};
use escale::crypto::{Random, SeededRandom};
use escale::journal::make_id;
use escale::model::Value;
use escale::sync::{Config, Effect, Event, Phase, Write};
use escale::{Code, Error};

use super::harness::{Harness, config, def, epoch, pk, refusal, reply, row, whole};
use escale_testkit::seeds;

/// A server that keeps an org once an operation was accepted for it.
struct Server {
    /// Answers an org without data by 404, except for requests without defs.
    hides: bool,
    epoch: u64,
    has_org: bool,
    last: u64,
    results: Vec<(Op, OpResult)>,
}

impl Server {
    fn new(hides: bool) -> Self {
        Server { hides, epoch: 7, has_org: false, last: 0, results: Vec::new() }
    }

    fn restart(&mut self) {
        *self = Server { epoch: self.epoch + 1, ..Server::new(self.hides) };
    }

    fn operate(&mut self, request: &SyncRequest) -> Vec<OpResult> {
        let fault = |op: &Op, code| OpResult {
            id: op.id.clone(),
            ok: None,
            fault: Some(Fault::new(code, "by the test")),
        };
        let mut results = Vec::new();
        for op in &request.ops {
            if let Some((_, known)) = self.results.iter().find(|(known, _)| known.id == op.id) {
                results.push(known.clone());
                continue;
            }
            if request.epoch.as_ref().is_some_and(|named| *named != epoch(self.epoch)) {
                results.push(fault(op, Code::Contention));
                break;
            }
            if op.seq != self.last + 1 {
                results.push(fault(op, Code::OrderGap));
                break;
            }
            let is_bad = op.args.as_map().is_some_and(|args| args.contains_key("bad"));
            let result = if is_bad {
                fault(op, Code::BadValue)
            } else {
                self.has_org = true;
                OpResult {
                    id: op.id.clone(),
                    ok: Some(OpOk { v: 5_000, value: None, trees: Vec::new() }),
                    fault: None,
                }
            };
            self.last = op.seq;
            self.results.push((op.clone(), result.clone()));
            results.push(result);
        }
        results
    }

    fn answer(&mut self, request: &SyncRequest) -> Result<SyncReply, Error> {
        let results = self.operate(request);
        if self.hides && !self.has_org && !request.subs.is_empty() {
            return Err(Error::new(Code::UnknownOrg, "by the test"));
        }
        let rows = || if self.has_org { vec![row("a", 5_000)] } else { vec![] };
        let parts = request.subs.iter().map(|sub| whole(&sub.def, rows())).collect();
        Ok(SyncReply { epoch: epoch(self.epoch), seq: self.last, results, ..reply(9_000, parts) })
    }
}

fn write(harness: &mut Harness, random: &mut SeededRandom, is_bad: bool) {
    let id = make_id(1_700_000_000_000, random).expect("an id");
    // Each write has its own document, so that none waits for another.
    let data = Value::from([
        ("id", Value::from(id.as_str())),
        ("section", "games".into()),
        ("size", Value::from(1_i64)),
    ]);
    let mut args = Value::from([("class", Value::from("Doc")), ("data", data)]);
    if is_bad {
        args.as_map_mut().expect("a map").insert("bad".to_owned(), Value::from(true));
    }
    harness.feed(Event::Write(Write { id, name: "doc.put".into(), args, touches: vec![], after: vec![] }));
}

/// Lets the server answer for that time, and asserts that no visitor sees a new org as an error.
fn serve(harness: &mut Harness, server: &mut Server, ms: u64, was_there: &mut bool) -> u64 {
    let (end, mut asked) = (harness.now + ms, 0);
    while harness.now < end {
        let Some((number, request, _)) = harness.requests.pop_front() else {
            match harness.wake_at() {
                Some(at) if at <= end => harness.wake(at),
                _ => harness.wake(end),
            }
            continue;
        };
        asked += 1;
        harness.now += 20;
        let answer = server.answer(&request).map_err(Into::into);
        *was_there |= server.has_org;
        harness.feed(Event::Replied { number, reply: answer });
        if !*was_there {
            assert_ne!(harness.error(), Some(Code::UnknownOrg), "a new org is no error");
            assert_ne!(harness.phase(), Phase::Offline);
        }
    }
    asked
}

#[test]
fn whatever_comes_first_in_a_new_org_everything_is_sent_and_told() {
    for seed in seeds::each(1_000) {
        let mut random = SeededRandom::new(seed);
        let mut server = Server::new(seed % 2 == 0);
        let mut harness = Harness::new(Config { has_live: false, ..config() });
        let (mut was_there, mut refusals) = (false, 0);
        for _ in 0..6 {
            match random.below(5).expect("a number") {
                0 => write(&mut harness, &mut random, false),
                1 => {
                    write(&mut harness, &mut random, true);
                    refusals += 1;
                }
                2 => harness.subscribe(&def("Doc")),
                3 => server.restart(),
                _ => {
                    serve(&mut harness, &mut server, 3_000, &mut was_there);
                }
            }
        }
        // The longest delay between two attempts is 30 s.
        let asked = serve(&mut harness, &mut server, 120_000, &mut was_there);
        assert!(asked < 60, "seed {seed}: {asked} requests in two minutes");
        assert_eq!(harness.client.machine.status().pending, 0, "seed {seed}: nothing waits for ever");
        let told = harness.take(|effect| matches!(effect, Effect::Refused { .. }).then_some(()));
        let held =
            harness.client.machine.operations().iter().filter(|(op, _)| op.state.refused.is_some()).count();
        assert!(told.len() >= held && held <= refusals, "seed {seed}: each refusal is told");
        if server.has_org && harness.client.machine.list(&def("Doc")).is_some() {
            assert_eq!(harness.shown(&def("Doc")), vec![(pk("a"), 5_000)], "seed {seed}");
            assert_eq!(harness.phase(), Phase::Live, "seed {seed}");
        }
    }
}

/// A write creates the org at once, however long it did not exist.
#[test]
fn the_first_write_does_not_wait_for_the_next_look_at_a_missing_org() {
    let mut server = Server::new(true);
    let mut harness = Harness::new(config());
    let (mut random, mut was_there) = (SeededRandom::new(1), false);
    harness.subscribe(&def("Doc"));
    serve(&mut harness, &mut server, 600_000, &mut was_there);
    assert_eq!((harness.phase(), harness.error()), (Phase::Loading, None));
    let before = harness.now;
    write(&mut harness, &mut random, false);
    serve(&mut harness, &mut server, 1_000, &mut was_there);
    assert_eq!(harness.client.machine.status().pending, 0);
    assert_eq!((harness.phase(), harness.is_ready(&def("Doc"))), (Phase::Live, true));
    assert!(harness.now - before <= 1_000);
}

/// An org that existed, and no longer does, is an error.
#[test]
fn an_org_that_has_gone_is_told_of() {
    let mut server = Server::new(true);
    let mut harness = Harness::new(config());
    let (mut random, mut was_there) = (SeededRandom::new(1), false);
    harness.subscribe(&def("Doc"));
    write(&mut harness, &mut random, false);
    serve(&mut harness, &mut server, 5_000, &mut was_there);
    assert_eq!(harness.phase(), Phase::Live);
    server.restart();
    serve(&mut harness, &mut server, 10 * 60_000, &mut was_there);
    assert_eq!(harness.error(), Some(Code::UnknownOrg));
}

/// Nothing makes such an org: its name may have a typing error. A new org of a conforming server ends before this.
#[test]
fn an_org_that_no_operation_can_create_is_told_of() {
    let mut harness = Harness::new(config());
    harness.subscribe(&def("Doc"));
    let mut random = SeededRandom::new(1);
    for is_writing in [false, true] {
        if is_writing {
            write(&mut harness, &mut random, false);
        }
        let until = harness.now + 60_000;
        while harness.now < until {
            match harness.requests.pop_front() {
                Some((number, _, _)) => harness.refuse(number, refusal(Code::UnknownOrg)),
                None => harness.wake(harness.wake_at().expect("it is asked again")),
            }
        }
        assert_eq!(harness.error(), is_writing.then_some(Code::UnknownOrg));
    }
}
