//! A faulty server: if it repeats an error, it is asked later each time; impossible replies are refused.

use escale::Code;
use escale::codec::{Fault, Op, OpOk, OpResult, Part, Row, ServerParts, SyncReply};
use escale::journal::Policy;
use escale::limits::VERSION_MAX;
use escale::model::Def;
use escale::sync::{Event, Mode};
use proptest::prelude::*;

use super::driver::{Driver, doc_key, put, server};
use escale_testkit::schema::{data, name};
use escale_testkit::seeds;

/// How often a server is asked in ten minutes if it answers each operation so, and its `seq` never advances.
fn asked(policy: Policy, answer: impl Fn(&Op) -> Option<OpResult>) -> u64 {
    let mut driver = Driver::new(0, Mode::Synced, policy);
    driver.subscribe(&mut server(1));
    driver.patch(0, &[("n", 1)]);
    let (from, before) = (driver.now, driver.hooks.requests);
    while driver.now < from + 600_000 {
        let Some((number, request)) = driver.sent.take() else {
            driver.wait(100);
            continue;
        };
        driver.now += 5;
        let mut reply = driver.answer(&mut server(1), &request);
        reply.results = request.ops.iter().filter_map(&answer).collect();
        reply.seq = 0;
        driver.feed(Event::Replied { number, reply: Ok(reply) });
    }
    assert_eq!(driver.machine.status().pending, 1, "nothing is given up");
    driver.hooks.requests - before
}

fn refused(op: &Op, code: Code) -> Option<OpResult> {
    let mut fault = Fault::new(code, "by the test");
    if code == Code::VersionConflict {
        let data = escale::codec::Data::from_map(&data(0, None, 0, 0)).expect("data");
        fault.doc = Some(Row { pk: doc_key(0).1, v: 7, deleted: false, max_life: None, data: Some(data) });
    }
    Some(OpResult { id: op.id.clone(), ok: None, fault: Some(fault) })
}

#[test]
fn what_makes_no_progress_is_tried_with_growing_delays() {
    let codes = [
        (Policy::Overwrite, Code::OrderHeld),
        (Policy::Overwrite, Code::OrderGap),
        (Policy::Overwrite, Code::Contention),
        (Policy::Overwrite, Code::SessionReused),
    ];
    for (policy, code) in codes {
        let requests = asked(policy, |op| refused(op, code));
        assert!((10..200).contains(&requests), "{code:?}: {requests} requests in ten minutes");
    }
    let requests = asked(Policy::Overwrite, |_| None);
    assert!((10..200).contains(&requests), "no results: {requests} requests in ten minutes");
    let neither = |op: &Op| Some(OpResult { id: op.id.clone(), ok: None, fault: None });
    let requests = asked(Policy::Overwrite, neither);
    assert!((10..200).contains(&requests), "results of nothing: {requests} requests in ten minutes");
}

/// A server answers with a conflict at one version, then at another, then at the first one again, without end. A policy
/// would issue operation after operation: the application decides.
#[test]
fn a_conflict_that_goes_round_is_left_to_the_application() {
    let mut db = server(1);
    put(&mut db, 0, data(0, None, 0, 0));
    let mut driver = Driver::new(0, Mode::Synced, Policy::Client);
    driver.subscribe(&mut db);
    driver.patch(0, &[("n", 1)]);
    let mut met: Vec<u64> = Vec::new();
    while let Some((number, request)) = driver.sent.take() {
        let mut reply = driver.answer(&mut db, &request);
        for (op, result) in request.ops.iter().zip(&mut reply.results) {
            let edition = 7 + met.len() as u64 % 2;
            met.push(edition);
            let mut fault = Fault::new(Code::VersionConflict, "by the test");
            let data = escale::codec::Data::from_map(&data(0, None, 0, edition)).expect("data");
            let v = 1_700_000_000_000 + edition;
            fault.doc = Some(Row { pk: doc_key(0).1, v, deleted: false, max_life: None, data: Some(data) });
            *result = OpResult { id: op.id.clone(), ok: None, fault: Some(fault) };
        }
        driver.feed(Event::Replied { number, reply: Ok(reply) });
        driver.wait(60_000);
        assert!(met.len() < 10, "it goes round for ever");
    }
    assert_eq!(met, [7, 8, 7]);
    let operations = driver.machine.operations();
    assert!(matches!(operations[..], [(op, _)] if op.state.refused.is_some()), "{operations:?}");
}

/// Any number; the bounds occur more often.
fn number() -> impl Strategy<Value = u64> {
    let usual = prop_oneof![Just(0), Just(1), Just(VERSION_MAX / 60_000), Just(VERSION_MAX), 0..VERSION_MAX];
    prop_oneof![12 => usual, 1 => Just(VERSION_MAX + 1), 1 => Just(u64::MAX), 1 => any::<u64>()]
}

/// The numbers of a reply, as they may arrive.
#[derive(Clone, Debug)]
struct Numbers {
    now: u64,
    delta: u64,
    seq: u64,
    accepted: u64,
    current: u64,
    row: u64,
    left: u64,
    total: u64,
    max_life: u64,
}

impl Numbers {
    fn are_bounded(&self) -> bool {
        let versions =
            [self.now, self.delta, self.seq, self.accepted, self.current, self.row, self.left, self.total];
        versions.iter().all(|v| *v <= VERSION_MAX) && self.max_life <= VERSION_MAX / 60_000
    }

    fn part(&self) -> Part {
        let data = escale::codec::Data::from_map(&data(0, None, 0, 0)).expect("data");
        let max_life = Some(self.max_life);
        let row = Row { pk: doc_key(0).1, v: self.row, deleted: false, max_life, data: Some(data) };
        let left = vec![(doc_key(1).1, self.left)];
        Part { rows: vec![row], left, total: Some(self.total), ..Part::empty(Def::class_of(&name("Doc"))) }
    }

    /// A reply to two operations: one is accepted, the other conflicts.
    fn reply(&self, driver: &Driver, ops: &[Op]) -> SyncReply {
        let mut reply = driver.answer(&mut server(2), &escale::codec::SyncRequest::of("other"));
        (reply.now, reply.delta, reply.seq) = (self.now, self.delta, self.seq);
        let mut conflict = refused(&ops[1], Code::VersionConflict).expect("a result");
        if let Some(doc) = conflict.fault.as_mut().and_then(|fault| fault.doc.as_mut()) {
            (doc.v, doc.max_life) = (self.current, Some(self.max_life));
        }
        let ok = Some(OpOk { v: self.accepted, value: None, trees: Vec::new() });
        reply.results = vec![OpResult { id: ops[0].id.clone(), ok, fault: None }, conflict];
        reply.parts = vec![self.part()];
        reply
    }
}

fn numbers() -> impl Strategy<Value = Numbers> {
    proptest::array::uniform9(number()).prop_map(
        |[now, delta, seq, accepted, current, row, left, total, max_life]| Numbers {
            now,
            delta,
            seq,
            accepted,
            current,
            row,
            left,
            total,
            max_life,
        },
    )
}

proptest! {
    #![proptest_config(seeds::config(400))]

    /// A number that JavaScript cannot hold is refused with its whole reply. Other numbers never overflow.
    #[test]
    fn numbers_are_bounded_and_none_overflows(numbers in numbers(), merges in any::<bool>()) {
        let policy = if merges { Policy::Merge } else { Policy::Server };
        let mut driver = Driver::new(0, Mode::Synced, policy);
        driver.subscribe(&mut server(2));
        driver.feed(Event::Network(false));
        driver.patch(0, &[("n", 1)]);
        driver.patch(1, &[("n", 1)]);
        driver.feed(Event::Network(true));
        let (number, request) = driver.sent.take().expect("a request");
        let reply = numbers.reply(&driver, &request.ops);
        prop_assert_eq!(reply.check().is_ok(), numbers.are_bounded());
        let pushed = ServerParts {
            epoch: reply.epoch.clone(),
            now: numbers.now,
            delta: numbers.delta,
            seq: numbers.seq,
            parts: vec![numbers.part()],
        };
        let own = Numbers { accepted: 0, current: 0, ..numbers.clone() };
        prop_assert_eq!(pushed.check().is_ok(), own.are_bounded());
        driver.feed(Event::Replied { number, reply: Ok(reply) });
        if !numbers.are_bounded() {
            prop_assert_eq!(driver.machine.status().pending, 2);
        }
        // The session continues from there.
        driver.patch(0, &[("n", 2)]);
        for _ in 0..4 {
            driver.wait(40_000);
            if let Some((number, request)) = driver.sent.take() {
                let mut reply = driver.answer(&mut server(2), &request);
                (reply.seq, reply.now) = (numbers.seq, numbers.now);
                driver.feed(Event::Replied { number, reply: Ok(reply) });
            }
        }
        driver.machine.status();
    }
}
