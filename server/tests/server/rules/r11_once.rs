//! R11: an operation is executed once, however often it is sent, and its result is kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use escale::codec::{Op, OpResult, SyncRequest};
use escale::model::{Epoch, Value};
use escale_server::clock::ManualClock;
use escale_server::engine::{Engine, renew_epoch_of};
use escale_server::seal::Seal;
use escale_server::settings::Settings;
use proptest::prelude::*;

use crate::support::operating::*;
use crate::support::world::*;

fn add(n: u64) -> Op {
    op(&format!("op-{n}"), n, "counter.add", add_args("c", n as i64))
}

#[test]
fn r11_an_operation_sent_again_gives_its_result_and_nothing_more() {
    let world = operating();
    let first = send(&world.engine, vec![add(1), add(2)]);
    assert_eq!(told(&first), [("op-1", "ok"), ("op-2", "ok")]);
    assert_eq!(first.results[1].ok.as_ref().unwrap().value.as_ref().unwrap().as_f64(), Some(3.0));
    let world = reopened(world);
    for ops in [vec![add(1), add(2)], vec![add(2)], vec![add(2), add(1), add(2)]] {
        let again = send(&world.engine, ops.clone());
        for (op, result) in ops.iter().zip(&again.results) {
            assert_eq!(*result, first.results[op.seq as usize - 1], "also after a restart");
        }
        assert_eq!((again.results.len(), again.seq), (ops.len(), 2));
    }
    assert_eq!(counted(&world.engine, "c"), 3);
}

#[test]
fn r11_a_refusal_is_a_result_as_well() {
    let world = operating();
    let patch = op("p", 1, "doc.patch", with(key_args("a"), "set", 1));
    assert_eq!(told(&send(&world.engine, vec![patch.clone()])), [("p", "bad_value")]);
    let delete = op("d", 2, "doc.delete", key_args("a"));
    assert_eq!(
        told(&send(&world.engine, vec![delete.clone(), add(3)])),
        [("d", "not_found"), ("op-3", "ok")]
    );
    put(&world.engine, note("a", "one")).unwrap();
    let again = send(&world.engine, vec![patch, delete]);
    assert_eq!(told(&again), [("p", "bad_value"), ("d", "not_found")], "what it was told then");
    assert_eq!(again.seq, 3);
    assert!(document(&world.engine, "Note", "a").is_some());
}

#[test]
fn r11_a_gap_executes_nothing_and_ends_the_results() {
    let world = operating();
    let reply = send(&world.engine, vec![add(1), add(3), add(2)]);
    assert_eq!(told(&reply), [("op-1", "ok"), ("op-3", "order_gap")]);
    assert_eq!((reply.seq, counted(&world.engine, "c")), (1, 1));
    assert_eq!(told(&send(&world.engine, vec![add(2), add(3)])), [("op-2", "ok"), ("op-3", "ok")]);
}

#[test]
fn r11_a_store_that_was_rolled_back_is_told() {
    let world = operating();
    send(&world.engine, vec![add(1), add(2), add(3)]);
    // Restored from a copy made after the first: the numbers come again under other ids.
    let other = |n: u64, seq| Op { seq, ..add(n) };
    let reply = send(&world.engine, vec![other(12, 2), other(13, 3), other(14, 4)]);
    assert_eq!(told(&reply), [("op-12", "session_reused")], "none of what follows is executed before it");
    assert_eq!((reply.seq, counted(&world.engine, "c")), (3, 6));
    // A new name, new numbers, the same ids; one of them was executed before.
    let renamed = vec![other(3, 1), other(12, 2), other(13, 3), other(14, 4)];
    let reply = send_as(&world.engine, "", "renamed", renamed.clone());
    assert!(told(&reply).iter().all(|(_, code)| *code == "ok"), "{:?}", told(&reply));
    assert_eq!((reply.seq, counted(&world.engine, "c")), (4, 45));
    assert_eq!(send_as(&world.engine, "", "renamed", renamed).results, reply.results);
    // The number that was used for an operation executed before belongs to that operation.
    let reply = send_as(&world.engine, "", "renamed", vec![other(99, 1)]);
    assert_eq!(told(&reply), [("op-99", "session_reused")]);
    assert_eq!(counted(&world.engine, "c"), 45);
}

#[test]
fn r11_results_are_forgotten_in_time_and_the_order_is_not() {
    let world = operating();
    send(&world.engine, vec![add(1), add(2)]);
    world.clock.advance(80 * DAY);
    send(&world.engine, vec![add(3)]);
    world.clock.advance(11 * DAY);
    world.engine.purge().unwrap();
    let world = reopened(world);
    let reply = send(&world.engine, vec![add(3), add(2), add(4)]);
    let expected = [("op-3", "ok"), ("op-2", "forgotten"), ("op-4", "ok")];
    assert_eq!(told(&reply), expected, "executed, and its result gone");
    assert_eq!((reply.seq, counted(&world.engine, "c")), (4, 10));
    world.clock.advance(91 * DAY);
    world.engine.purge().unwrap();
    let reply = send(&world.engine, vec![add(5)]);
    assert_eq!((told(&reply), reply.seq), (vec![("op-5", "ok")], 5));
}

/// The fault would claim that the operation without a result was not executed.
#[test]
fn r11_a_fault_is_left_out_if_a_known_result_has_no_room() {
    let World { folder, clock, engine } = operating();
    send(&engine, vec![add(1), add(2)]);
    let sent = || vec![add(9), add(1), add(2)];
    assert_eq!(told(&send(&engine, sent())), [("op-9", "order_gap"), ("op-1", "ok"), ("op-2", "ok")]);
    drop(engine);
    let settings = Settings { page_bytes: 1, ..Settings::default() };
    let engine = open_with(folder.path(), &clock, settings, Seal::clear());
    assert_eq!(told(&send(&engine, sent())), [("op-1", "ok")], "the first result takes all room");
    assert_eq!(counted(&engine, "c"), 3);
}

/// Operations of a session that waited for longer than results are kept.
fn purged(ops: Vec<Op>) -> World {
    let world = operating();
    send(&world.engine, ops);
    world.clock.advance(91 * DAY);
    world.engine.purge().unwrap();
    reopened(world)
}

#[test]
fn r11_an_id_is_known_for_ever() {
    let world = purged(vec![add(1), add(2), op("op-3", 3, "doc.delete", key_args("none"))]);
    let again = |n, seq| Op { seq, ..add(n) };
    // A session that has forgotten its numbers continues from the one in the reply; then under another name.
    let reply = send(&world.engine, vec![again(2, 4), again(4, 5)]);
    assert_eq!((told(&reply), reply.seq), (vec![("op-2", "forgotten"), ("op-4", "ok")], 5));
    let reply = send_as(&world.engine, "", "renamed", vec![again(1, 1), again(2, 2), again(4, 3)]);
    let expected = [("op-1", "forgotten"), ("op-2", "forgotten"), ("op-4", "ok")];
    assert_eq!((told(&reply), reply.seq), (expected.to_vec(), 3));
    // The same holds for operations behind one that is not executed.
    let reply = send(&world.engine, vec![again(6, 9), again(1, 10)]);
    assert_eq!(told(&reply), [("op-6", "order_gap"), ("op-1", "forgotten")]);
    assert_eq!(counted(&world.engine, "c"), 7, "nothing is executed twice");
    let reply = send(&world.engine, vec![op("op-3", 3, "doc.delete", key_args("none"))]);
    assert_eq!(told(&reply), [("op-3", "internal")], "it was refused, and that is all that is known of it");
}

#[test]
fn r11_a_number_of_old_is_no_other_operations() {
    let world = purged(vec![add(1), add(2)]);
    let reply = send(&world.engine, vec![Op { seq: 2, ..add(9) }]);
    assert_eq!((told(&reply), reply.seq), (vec![("op-9", "session_reused")], 2));
    assert_eq!(counted(&world.engine, "c"), 3);
}

#[test]
fn r11_what_was_executed_long_ago_can_be_waited_for() {
    let world = purged(vec![op("made", 1, "doc.put", put_args("a", "one")), add(2)]);
    let after = Op { after: Some("op-2".into()), ..add(3) };
    let named = with(
        with(key_args("a"), "set", map([("text", "b".into())].map(|(n, v)| (n.to_owned(), v)).into())),
        "ifVersion",
        [("op", Value::from("made"))],
    );
    let reply = send(&world.engine, vec![after, op("then", 4, "doc.patch", named)]);
    assert_eq!(told(&reply), [("op-3", "ok"), ("then", "ok")]);
}

#[test]
fn r11_a_session_belongs_to_one_account() {
    let world = operating();
    assert_eq!(told(&send_as(&world.engine, "ann", "s", vec![add(1)])), [("op-1", "ok")]);
    for ops in [vec![add(1)], vec![add(2)]] {
        let reply = send_as(&world.engine, "bob", "s", ops);
        assert_eq!((reply.results.len(), code_of(&reply.results[0]), reply.seq), (1, "session_reused", 0));
    }
    // An id is known within its account only.
    assert_eq!(told(&send_as(&world.engine, "bob", "t", vec![add(1)])), [("op-1", "ok")]);
    assert_eq!(counted(&world.engine, "c"), 2);
    let who = send_as(&world.engine, "bob", "t", vec![op("who", 2, "who", 0)]);
    assert_eq!(who.results[0].ok.as_ref().unwrap().value.as_ref().unwrap().as_str(), Some("o/bob"));
    assert_eq!(send_as(&world.engine, "ann", "s", Vec::new()).seq, 1);
}

#[test]
fn r11_an_id_does_not_change_its_operation() {
    let world = operating();
    send(&world.engine, vec![add(1)]);
    let other = op("op-1", 1, "doc.delete", key_args("a"));
    assert_eq!(told(&send(&world.engine, vec![other, add(2)])), [("op-1", "bad_value")]);
}

#[test]
fn r11_a_new_epoch_keeps_what_was_executed() {
    let world = operating();
    let first = send(&world.engine, vec![add(1), add(2)]);
    renew_epoch_of(&Engine::database_in(world.folder.path()), None, NOON).unwrap();
    let again = send(&world.engine, vec![add(2), add(3)]);
    assert!(again.epoch > first.epoch);
    assert_eq!(again.results[0], first.results[1]);
    assert_eq!((again.seq, counted(&world.engine, "c")), (3, 6));
}

/// A copy of a request arrives late, after the server was restored. It would execute operations that were
/// refused since.
#[test]
fn r11_what_was_sent_in_another_epoch_is_not_executed() {
    let world = operating();
    let first = send(&world.engine, vec![add(1)]);
    let sent = |epoch: &Epoch, ops| {
        let request = SyncRequest { epoch: Some(epoch.clone()), ops, ..SyncRequest::of("s") };
        world.engine.sync("o", &caller(), &request).unwrap()
    };
    assert_eq!(told(&sent(&first.epoch, vec![add(2)])), [("op-2", "ok")]);
    let renewed = renew_epoch_of(&Engine::database_in(world.folder.path()), None, NOON).unwrap();
    for (ops, codes) in [
        (vec![add(3)], vec![("op-3", "contention")]),
        (vec![add(2), add(3)], vec![("op-2", "ok"), ("op-3", "contention")]),
    ] {
        let reply = sent(&first.epoch, ops);
        assert_eq!((&reply.epoch, told(&reply), reply.seq), (&renewed, codes, 2));
    }
    assert_eq!(counted(&world.engine, "c"), 1 + 2);
    assert_eq!(told(&sent(&renewed, vec![add(2), add(3)])), [("op-2", "ok"), ("op-3", "ok")]);
    let later = Epoch::new(renewed.ms() + 1, "of another database").unwrap();
    assert_eq!(told(&sent(&later, vec![add(4)])), [("op-4", "contention")]);
}

/// A session that writes the first data of an org asks for the epoch before.
#[test]
fn r11_the_epoch_is_told_to_whoever_asks_for_nothing_else() {
    let world = operating();
    let ask = SyncRequest::of("s");
    let reply = world.engine.sync("nobody-yet", &caller(), &ask).unwrap();
    assert_eq!(reply.epoch, send(&world.engine, Vec::new()).epoch);
}

#[test]
fn r11_a_database_put_back_tells_how_far_it_had_come() {
    let World { folder, clock, engine } = operating();
    let first = send(&engine, vec![add(1)]);
    drop(engine);
    let aside = tempfile::tempdir().unwrap();
    for name in ["escale.db", "escale.mark"] {
        std::fs::copy(folder.path().join(name), aside.path().join(name)).unwrap();
    }
    let engine = open_with(folder.path(), &clock, Settings::default(), Seal::clear());
    send(&engine, vec![add(2), add(3)]);
    drop(engine);
    std::fs::copy(aside.path().join("escale.db"), folder.path().join("escale.db")).unwrap();
    let engine = open_with(folder.path(), &clock, Settings::default(), Seal::clear());
    let reply = send(&engine, vec![add(4)]);
    assert!(reply.epoch > first.epoch);
    assert_eq!((told(&reply), reply.seq), (vec![("op-4", "order_gap")], 1));
    assert!(told(&send(&engine, vec![add(2), add(3), add(4)])).iter().all(|(_, code)| *code == "ok"));
    assert_eq!(counted(&engine, "c"), 10);
}

/// A step with a request of random operations. Its answer is lost or not. It is sent once or twice, alone or
/// together with another, to one of two instances.
#[derive(Clone, Debug)]
enum Step {
    Send { from: u64, n: u64, at: usize, lost: bool },
    Twice { from: u64, n: u64 },
    Backup { first: (u64, u64), second: (u64, u64) },
    Rename,
    Restart,
    Pass { ms: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let window = || (0..6_u64, 1..8_u64);
    prop_oneof![
        4 => (window(), 0..2_usize, any::<bool>()).prop_map(|((from, n), at, lost)| Step::Send { from, n, at, lost }),
        2 => window().prop_map(|(from, n)| Step::Twice { from, n }),
        3 => (window(), window()).prop_map(|(first, second)| Step::Backup { first, second }),
        1 => Just(Step::Rename),
        1 => Just(Step::Restart),
        1 => (0..5_000_u64).prop_map(|ms| Step::Pass { ms }),
    ]
}

const COUNTERS: [&str; 3] = ["a", "b", "c"];

/// A correct session. Operation n adds n to a counter; every eleventh is refused.
struct Client {
    engines: [Arc<Engine>; 2],
    clock: Arc<ManualClock>,
    folder: tempfile::TempDir,
    name: u64,
    /// The operation that has number 1 under this name.
    first: u64,
    /// Operations whose answer was received.
    answered: u64,
    results: BTreeMap<u64, OpResult>,
}

impl Client {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::at(NOON);
        let engines = Client::open(folder.path(), &clock);
        Client { engines, clock, folder, name: 0, first: 1, answered: 0, results: BTreeMap::new() }
    }

    fn open(folder: &std::path::Path, clock: &Arc<ManualClock>) -> [Arc<Engine>; 2] {
        [(); 2].map(|()| Arc::new(open_with(folder, clock, Settings::default(), Seal::clear())))
    }

    /// The operations that begin `back` before the first unanswered one.
    fn ops(&self, (back, n): (u64, u64)) -> Vec<Op> {
        let from = (self.answered + 1).saturating_sub(back).max(self.first);
        (from..from + n)
            .map(|n| {
                let by = if n.is_multiple_of(11) { Value::Null } else { (n as i64).into() };
                let args = [("key", list(&[COUNTERS[n as usize % 3]])), ("by", by)];
                op(&format!("op-{n}"), n + 1 - self.first, "counter.add", args)
            })
            .collect()
    }

    fn name(&self) -> String {
        format!("session-{}", self.name)
    }

    fn take(&mut self, results: Vec<OpResult>) {
        for result in results {
            if ["order_gap", "contention"].contains(&code_of(&result)) {
                continue;
            }
            let n: u64 = result.id.strip_prefix("op-").unwrap().parse().unwrap();
            assert_eq!(code_of(&result), if n.is_multiple_of(11) { "bad_value" } else { "ok" });
            let held = self.results.entry(n).or_insert_with(|| result.clone());
            assert_eq!(*held, result, "a result does not change");
            self.answered = self.answered.max(n);
        }
    }

    fn send(&mut self, window: (u64, u64), at: usize) -> Vec<OpResult> {
        send_as(&self.engines[at], "x", &self.name(), self.ops(window)).results
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Send { from, n, at, lost } => {
                let results = self.send((from, n), at);
                if !lost {
                    self.take(results);
                }
            }
            Step::Twice { from, n } => {
                let first = self.send((from, n), 0);
                let second = self.send((from, n), 1);
                assert_eq!(first, second);
                self.take(second);
            }
            Step::Backup { first, second } => {
                let name = self.name();
                let (one, other) = (self.ops(first), self.ops(second));
                let (one, other) = std::thread::scope(|scope| {
                    let one = scope.spawn(|| send_as(&self.engines[0], "x", &name, one).results);
                    let other = scope.spawn(|| send_as(&self.engines[1], "x", &name, other).results);
                    (one.join().unwrap(), other.join().unwrap())
                });
                self.take(one);
                self.take(other);
            }
            // Unanswered operations are sent again under the new name, with new numbers.
            Step::Rename => {
                self.name += 1;
                self.first = self.answered + 1;
            }
            Step::Restart => self.engines = Client::open(self.folder.path(), &self.clock),
            Step::Pass { ms } => self.clock.advance(ms),
        }
    }
}

proptest! {
    #![proptest_config(cases(32))]

    #[test]
    fn r11_counters_are_exact_whatever_is_lost_or_repeated(steps in prop::collection::vec(step(), 1..24)) {
        let mut client = Client::new();
        for step in &steps {
            client.run(step);
        }
        // The network has recovered: the remaining operations are sent until they are answered.
        let sent = client.answered + 8;
        while client.answered < sent {
            let results = client.send((0, sent - client.answered), 0);
            client.take(results);
        }
        // Operations executed beyond the answered ones were sent: they are the next ones.
        let name = client.name();
        let last = send_as(&client.engines[1], "x", &name, Vec::new()).seq + client.first - 1;
        for (at, counter) in COUNTERS.iter().enumerate() {
            let expected: u64 = (1..=last).filter(|n| n % 3 == at as u64 && n % 11 != 0).sum();
            prop_assert_eq!(counted(&client.engines[0], counter), expected as i64);
        }
    }
}
