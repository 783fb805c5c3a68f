//! R11: exactly once, whatever becomes of the answers.

use std::collections::VecDeque;

use escale::codec::SyncReply;
use escale::crypto::SeededRandom;
use escale::journal::Policy;
use escale::sync::{Event, Mode, Refusal};
use escale::{Code, Error};

use super::driver::{Driver, server, stored};
use crate::support::server::ModelServer;

const OPERATIONS: usize = 100_000;
const CLIENTS: usize = 20;
const COUNTERS: usize = 5;

fn seed() -> u64 {
    std::env::var("ESCALE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(11)
}

/// One client issues its share; each answer is lost, comes twice, comes late, or comes.
fn run(account: usize, random: &mut SeededRandom, server: &mut ModelServer) -> [i64; COUNTERS] {
    let mut added = [0; COUNTERS];
    let mut driver = Driver::new(account, Mode::Synced, Policy::Ask);
    driver.now += account as u64 * 1_000_000;
    driver.subscribe(server);
    let mut late: VecDeque<(u64, SyncReply)> = VecDeque::new();
    let mut left = OPERATIONS / CLIENTS;
    while left > 0 || driver.machine.status().pending > 0 {
        for _ in 0..(random.next_u64() % 40).min(left as u64) {
            let (counter, by) = (random.next_u64() as usize % COUNTERS, 1 + (random.next_u64() % 3) as i64);
            driver.add(counter, by);
            added[counter] += by;
            left -= 1;
        }
        let Some((number, request)) = driver.sent.take() else {
            driver.wait(40_000);
            continue;
        };
        driver.now += 1 + random.next_u64() % 50;
        let reply = driver.answer(server, &request);
        match random.next_u64() % 8 {
            // The answer is lost; sometimes the request reaches the server once more, much later.
            0 | 1 => {
                if random.next_u64().is_multiple_of(2) {
                    driver.answer(server, &request);
                }
                late.push_back((number, reply));
                let refusal = Refusal::from(Error::new(Code::Timeout, "lost"));
                driver.feed(Event::Replied { number, reply: Err(refusal) });
                driver.wait(40_000);
            }
            2 => {
                driver.feed(Event::Replied { number, reply: Ok(reply.clone()) });
                driver.feed(Event::Replied { number, reply: Ok(reply) });
            }
            3 if random.next_u64().is_multiple_of(8) => {
                // The process ends before the answer comes.
                driver = driver.reopen(Mode::Synced, Policy::Ask);
                late.clear();
            }
            _ => driver.feed(Event::Replied { number, reply: Ok(reply) }),
        }
        // What was late comes when nobody waits for it.
        if late.len() > 3
            && let Some((number, reply)) = late.pop_front()
        {
            driver.feed(Event::Replied { number, reply: Ok(reply) });
        }
    }
    driver.settle(server);
    for (number, added) in added.iter().enumerate() {
        assert!(driver.seen(number, "n").unwrap_or(0) >= *added, "what the application sees");
    }
    assert!(driver.machine.operations().is_empty(), "{:#?}", driver.machine.operations());
    added
}

#[test]
fn r11_exactly_once() {
    let seed = seed();
    println!("ESCALE_SEED={seed}");
    let mut random = SeededRandom::new(seed);
    let mut server = server(COUNTERS);
    let mut added = [0; COUNTERS];
    for account in 0..CLIENTS {
        // The past is for other tests.
        let keep = server.db.history.len().saturating_sub(1);
        server.db.history.drain(..keep);
        let of_one = run(account, &mut random, &mut server);
        added.iter_mut().zip(of_one).for_each(|(all, one)| *all += one);
    }
    for (number, added) in added.iter().enumerate() {
        assert_eq!(stored(&server, number, "n"), Some(*added), "ESCALE_SEED={seed}, counter {number}");
    }
    let executed = &server.db.operations.executed;
    let distinct: std::collections::BTreeSet<_> = executed.iter().collect();
    assert_eq!((executed.len(), distinct.len()), (OPERATIONS, OPERATIONS), "ESCALE_SEED={seed}");
}

/// A result that is no longer kept: the operation counts as accepted, and its effect is there.
#[test]
fn r11_a_forgotten_result_is_an_accepted_operation() {
    let mut server = server(1);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Ask);
    driver.subscribe(&mut server);
    let id = driver.add(0, 1);
    let (number, request) = driver.sent.take().expect("a request");
    driver.answer(&mut server, &request);
    server.db.operations.results.clear();
    let refusal = Refusal::from(Error::new(Code::Timeout, "lost"));
    driver.feed(Event::Replied { number, reply: Err(refusal) });
    driver.wait(40_000);
    driver.settle(&mut server);
    let accepted = |effect: &escale::sync::Effect| matches!(effect, escale::sync::Effect::Accepted { id: told, result: Ok((0, None)) } if *told == id);
    assert!(driver.told.iter().any(accepted), "{:?}", driver.told);
    assert_eq!((driver.seen(0, "n"), stored(&server, 0, "n")), (Some(1), Some(1)));
}

/// The store is put back as it was, behind the server: nothing is done twice, and what is new goes on from where the
/// server has come to.
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

/// Two copies of a store both go on: one of them takes another name, and nothing is lost or done twice.
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

/// A store that has sent everything, and a copy of it from before, offline.
fn rolled_back(server: &mut ModelServer) -> (Driver, Driver) {
    let mut driver = Driver::new(0, Mode::Synced, Policy::Ask);
    driver.subscribe(server);
    driver.feed(Event::Network(false));
    driver.add(0, 1);
    let earlier = driver.device.snapshot();
    driver.feed(Event::Network(true));
    driver.add(0, 10);
    driver.settle(server);
    let other = Driver::open(0, Mode::Avion, Policy::Ask, earlier, driver.now);
    (driver, other)
}
