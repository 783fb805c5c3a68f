//! R11: exactly once, whichever answers are lost.

use std::time::Instant;

use escale::codec::{Fault, SyncReply, SyncRequest};
use escale::crypto::SeededRandom;
use escale::journal::Policy;
use escale::sync::{Event, Mode, Refusal};
use escale::{Code, Error};

use super::driver::{Driver, server, stored};
use escale_testkit::seeds;
use escale_testkit::server::ModelServer;

const OPERATIONS: usize = 100_000;
const CLIENTS: usize = 20;
const COUNTERS: usize = 5;

fn seed() -> u64 {
    seeds::given().unwrap_or(11)
}

/// Counts of messages, by their fate.
#[derive(Debug, Default)]
struct Figures {
    requests: usize,
    requests_lost: usize,
    requests_repeated: usize,
    requests_delayed: usize,
    answers_lost: usize,
    answers_repeated: usize,
    answers_delayed: usize,
    processes_ended: usize,
}

/// Messages in transit between one client and the server: each is due after a number of other requests.
#[derive(Default)]
struct Wire {
    trips: u64,
    requests: Vec<(u64, u64, SyncRequest)>,
    replies: Vec<(u64, u64, SyncReply)>,
}

/// Takes the messages that are due.
fn due<T>(queue: &mut Vec<(u64, u64, T)>, trips: u64) -> Vec<(u64, T)> {
    let (now, later) = std::mem::take(queue).into_iter().partition(|(due, ..)| *due <= trips);
    *queue = later;
    let now: Vec<(u64, u64, T)> = now;
    now.into_iter().map(|(_, number, message)| (number, message)).collect()
}

impl Wire {
    /// Delivers the messages that are due: requests that nobody waits for any more, and answers to such
    /// requests.
    fn deliver(&mut self, driver: &mut Driver, server: &mut ModelServer, later: u64) {
        for (number, request) in due(&mut self.requests, self.trips) {
            let reply = driver.answer(server, &request);
            self.replies.push((self.trips + later, number, reply));
        }
        for (number, reply) in due(&mut self.replies, self.trips) {
            driver.feed(Event::Replied { number, reply: Ok(reply) });
        }
    }
}

/// One client issues its share. Each request and each answer is lost, arrives twice, arrives after others, or
/// arrives normally. Returns the operations in the order issued, and the sum of their additions.
fn run(
    account: usize,
    random: &mut SeededRandom,
    server: &mut ModelServer,
    figures: &mut Figures,
) -> (Vec<String>, [i64; COUNTERS]) {
    let mut issued = Vec::new();
    let mut added = [0; COUNTERS];
    let mut driver = Driver::new(account, Mode::Synced, Policy::Overwrite);
    driver.now += account as u64 * 1_000_000;
    driver.subscribe(server);
    let mut wire = Wire::default();
    let mut left = OPERATIONS / CLIENTS;
    while left > 0 || driver.machine.status().pending > 0 {
        for _ in 0..(random.next_u64() % 40).min(left as u64) {
            let (counter, by) = (random.next_u64() as usize % COUNTERS, 1 + (random.next_u64() % 3) as i64);
            issued.push(driver.add(counter, by));
            added[counter] += by;
            left -= 1;
        }
        let Some((number, request)) = driver.sent.take() else {
            driver.wait(40_000);
            continue;
        };
        wire.trips += 1;
        figures.requests += 1;
        driver.now += 1 + random.next_u64() % 50;
        let later = wire.trips + 1 + random.next_u64() % 12;
        let mut is_heard = false;
        match random.next_u64() % 16 {
            0 => figures.requests_lost += 1,
            1 | 2 => {
                figures.requests_delayed += 1;
                wire.requests.push((later, number, request));
            }
            3 | 4 => {
                figures.answers_lost += 1;
                driver.answer(server, &request);
            }
            5 | 6 => {
                figures.answers_delayed += 1;
                let reply = driver.answer(server, &request);
                wire.replies.push((later, number, reply));
            }
            7 | 8 => {
                figures.answers_repeated += 1;
                let reply = driver.answer(server, &request);
                driver.feed(Event::Replied { number, reply: Ok(reply.clone()) });
                wire.replies.push((later, number, reply));
                is_heard = true;
            }
            9 | 10 => {
                figures.requests_repeated += 1;
                let reply = driver.answer(server, &request);
                wire.requests.push((later, number, request));
                driver.feed(Event::Replied { number, reply: Ok(reply) });
                is_heard = true;
            }
            11 if random.next_u64().is_multiple_of(4) => {
                figures.processes_ended += 1;
                driver.answer(server, &request);
                // Sent requests stay in transit all the same; nobody receives the answers.
                driver = driver.reopen(Mode::Synced, Policy::Overwrite);
                wire.replies.clear();
                wire.requests.iter_mut().for_each(|(_, number, _)| *number = 0);
                is_heard = true;
            }
            _ => {
                let reply = driver.answer(server, &request);
                driver.feed(Event::Replied { number, reply: Ok(reply) });
                is_heard = true;
            }
        }
        if !is_heard {
            let refusal = Refusal::from(Error::new(Code::Timeout, "lost"));
            driver.feed(Event::Replied { number, reply: Err(refusal) });
            driver.wait(40_000);
        }
        wire.deliver(&mut driver, server, 1 + random.next_u64() % 12);
    }
    driver.settle(server);
    // Messages that arrive after the end change nothing.
    wire.trips = u64::MAX - 12;
    wire.deliver(&mut driver, server, 0);
    driver.settle(server);
    for (number, added) in added.iter().enumerate() {
        assert!(driver.seen(number, "n").unwrap_or(0) >= *added, "what the application sees");
    }
    assert!(driver.machine.operations().is_empty(), "{:#?}", driver.machine.operations());
    (issued, added)
}

/// `cargo test --test operations r11_exactly_once -- --nocapture` prints the figures.
#[test]
fn r11_exactly_once() {
    let (seed, began) = (seed(), Instant::now());
    println!("ESCALE_SEED={seed}");
    let mut random = SeededRandom::new(seed);
    let mut server = server(COUNTERS);
    let (mut issued, mut added, mut figures) = (Vec::new(), [0; COUNTERS], Figures::default());
    for account in 0..CLIENTS {
        // The past is for other tests.
        let keep = server.db.history.len().saturating_sub(1);
        server.db.history.drain(..keep);
        let (ids, of_one) = run(account, &mut random, &mut server, &mut figures);
        issued.extend(ids.into_iter().map(|id| (account, id)));
        added.iter_mut().zip(of_one).for_each(|(all, one)| *all += one);
    }
    let counters: Vec<Option<i64>> = (0..COUNTERS).map(|number| stored(&server, number, "n")).collect();
    let executed = &server.db.operations.executed;
    let distinct: std::collections::BTreeSet<_> = executed.iter().collect();
    println!("{OPERATIONS} operations of {CLIENTS} clients, {} executed, {figures:?}", executed.len());
    println!("counters {counters:?}, issued {added:?}");
    assert_eq!(counters, added.map(Some));
    assert_eq!((executed.len(), distinct.len()), (OPERATIONS, OPERATIONS));
    // R12: none was refused, so each session's operations are executed in the order issued, across all
    // documents.
    let differs = executed.iter().zip(&issued).position(|(executed, issued)| executed != issued);
    assert_eq!(differs, None, "{:?}", differs.map(|at| (&executed[at], &issued[at])));
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "proof: once | each operation is executed once, whatever becomes of the answers | {OPERATIONS} operations | \
         violations 0 | {seconds:.1} s"
    );
}

/// The result is no longer kept: the operation counts as accepted, and its effect is there.
#[test]
fn r11_a_forgotten_result_is_an_accepted_operation() {
    let mut server = server(1);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    let id = driver.add(0, 1);
    let (number, request) = driver.sent.take().expect("a request");
    driver.answer(&mut server, &request);
    for result in server.db.operations.results.values_mut() {
        (result.ok, result.fault) = (None, Some(Fault::new(Code::Forgotten, "the model")));
    }
    let refusal = Refusal::from(Error::new(Code::Timeout, "lost"));
    driver.feed(Event::Replied { number, reply: Err(refusal) });
    driver.wait(40_000);
    driver.settle(&mut server);
    let accepted = |effect: &escale::sync::Effect| matches!(effect, escale::sync::Effect::Accepted { id: told, result: Ok((0, None)) } if *told == id);
    assert!(driver.hooks.told.iter().any(accepted), "{:?}", driver.hooks.told);
    assert_eq!((driver.seen(0, "n"), stored(&server, 0, "n")), (Some(1), Some(1)));
}

/// The store is restored to an earlier state, behind the server. Nothing is executed twice, and new
/// operations continue from the server's position.
#[test]
fn r11_a_store_rolled_back_goes_on() {
    let mut server = server(2);
    let (mut driver, mut other) = rolled_back(&mut server);
    let before = other.machine.session().to_owned();
    other.add(1, 5);
    other.feed(Event::SetMode(Mode::Synced));
    other.settle(&mut server);
    assert_eq!(other.machine.session(), before);
    assert_eq!((stored(&server, 0, "n"), stored(&server, 1, "n")), (Some(11), Some(5)));
    assert!(other.machine.operations().is_empty());
    driver.settle(&mut server);
    assert!(driver.machine.operations().is_empty());
}

/// Two copies of a store are both used. One of them takes another name, and nothing is lost or executed
/// twice.
#[test]
fn r11_a_copied_store_takes_another_name() {
    let mut server = server(2);
    let (mut driver, mut other) = rolled_back(&mut server);
    other.feed(Event::SetMode(Mode::Synced));
    for _ in 0..4 {
        for copy in [&mut driver, &mut other] {
            copy.add(1, 1);
            copy.settle(&mut server);
        }
    }
    assert_ne!(driver.machine.session(), other.machine.session());
    assert_eq!((stored(&server, 0, "n"), stored(&server, 1, "n")), (Some(11), Some(8)));
    assert!(driver.machine.operations().is_empty() && other.machine.operations().is_empty());
}

/// The store was restored. An operation is sent under a number that another of its operations had used. The
/// server has passed that number, and has not executed this operation.
#[test]
fn r12_what_meets_contention_after_a_rollback_stays_in_sight() {
    let mut server = server(2);
    let (_, mut other) = rolled_back(&mut server);
    other.add(1, 5);
    other.feed(Event::SetMode(Mode::Synced));
    for _ in 0..3 {
        let (number, request) = other.sent.take().expect("a request");
        let contended = request.ops.iter().any(|op| op.seq == 2);
        let (results, _) =
            server.execute(0, &request.session, &request.ops, (0, other.now), &mut || contended);
        let now = server.tell_now(0, other.now);
        let reply = server.reply(&request, results, now);
        other.feed(Event::Replied { number, reply: Ok(reply) });
        assert_eq!(other.seen(1, "n"), Some(5), "{request:?}");
        other.wait(40_000);
    }
    other.settle(&mut server);
    assert_eq!((other.seen(1, "n"), stored(&server, 1, "n")), (Some(5), Some(5)));
}

/// A store that has sent everything, and an earlier copy of it, offline.
fn rolled_back(server: &mut ModelServer) -> (Driver, Driver) {
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(server);
    driver.feed(Event::Network(false));
    driver.add(0, 1);
    let earlier = driver.device.snapshot();
    driver.feed(Event::Network(true));
    driver.add(0, 10);
    driver.settle(server);
    let other = Driver::open(0, Mode::Avion, Policy::Overwrite, earlier, driver.now);
    (driver, other)
}
