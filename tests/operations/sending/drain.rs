//! Long queues: written offline, restored, drained.

use std::time::Instant;

use escale::journal::Policy;
use escale::sync::{Event, Mode};

use crate::driver::{Driver, server, stored};

/// The number of operations: `ESCALE_OPERATIONS`, or as many as a long journey makes.
fn operations() -> usize {
    std::env::var("ESCALE_OPERATIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000)
}

fn drained(name: &str, mut write: impl FnMut(&mut Driver, usize)) {
    let count = operations();
    let mut server = server(7);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    driver.feed(Event::Network(false));
    let began = Instant::now();
    for n in 0..count {
        write(&mut driver, n);
    }
    let written = began.elapsed();
    assert_eq!(driver.machine.status().pending, count as u64);
    let began = Instant::now();
    let mut driver = driver.reopen(Mode::Synced, Policy::Overwrite);
    let reopened = began.elapsed();
    assert_eq!(driver.machine.status().pending, count as u64);
    let (before, began) = (driver.hooks.requests, Instant::now());
    driver.settle(&mut server);
    let trips = driver.hooks.requests - before;
    println!(
        "{count} {name}: written in {written:?}, reopened in {reopened:?}, drained in {:?}, {trips} round trips",
        began.elapsed()
    );
    assert!(driver.machine.operations().is_empty());
    assert!(trips <= count as u64 / 400 + 5, "batched: {trips}");
    assert_eq!(server.db.operations.executed.len(), count);
    for number in 0..7 {
        assert_eq!(driver.seen(number, "n"), stored(&server, number, "n"));
    }
}

#[test]
fn a_long_queue_of_patches_is_drained() {
    drained("patches of seven documents", |driver, n| {
        driver.patch(n % 7, &[("n", n as i64)]);
    });
}

#[test]
fn a_long_queue_of_operations_on_one_document_is_drained() {
    drained("additions to one counter", |driver, _| {
        driver.add(0, 1);
    });
}
