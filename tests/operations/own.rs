//! Application-defined operations: within a batch, and those of which nothing is known.

use escale::journal::Policy;
use escale::model::Value;
use escale::sync::{Event, Mode};

use super::driver::{Driver, id, server, stored};

fn op(name: &str, args: &[(&str, Value)]) -> Value {
    let args = args.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    Value::from([("name", Value::from(name)), ("args", Value::Map(args))])
}

fn add(number: usize, by: i64) -> Value {
    op("add", &[("class", "Doc".into()), ("key", id(number)), ("property", "n".into()), ("by", by.into())])
}

fn set(number: usize, n: i64) -> Value {
    let set = Value::from([("n", Value::from(n))]);
    op("doc.patch", &[("class", "Doc".into()), ("key", id(number)), ("set", set)])
}

/// Each operation of a batch is shown on the result of those before it, application-defined ones included.
#[test]
fn a_batch_shows_what_its_own_operations_do() {
    let mut server = server(2);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Ask);
    driver.subscribe(&mut server);
    driver.feed(Event::Network(false));
    driver.add(1, 100);
    let ops = Value::Array(vec![add(0, 1), set(0, 10), add(0, 5), add(1, 7)]);
    driver.write("batch", Value::from([("ops", ops)]));
    assert_eq!((driver.seen(0, "n"), driver.seen(1, "n")), (Some(15), Some(107)));
    driver.add(0, 2);
    let mut driver = driver.reopen(Mode::Synced, Policy::Ask);
    assert_eq!((driver.seen(0, "n"), driver.seen(1, "n")), (Some(17), Some(107)), "after a restart as well");
    driver.settle(&mut server);
    assert_eq!((stored(&server, 0, "n"), stored(&server, 1, "n")), (Some(17), Some(107)));
    assert_eq!((driver.seen(0, "n"), driver.seen(1, "n")), (Some(17), Some(107)));
}

/// The optimistic part reads a document whose data is still at rest. It has no effect before the data is there.
#[test]
fn an_operation_has_no_effect_before_the_document_that_it_reads_is_there() {
    let mut server = server(1);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Ask);
    driver.subscribe(&mut server);
    driver.add(0, 5);
    driver.settle(&mut server);
    let mut driver = driver.reopen(Mode::Synced, Policy::Ask);
    driver.settle(&mut server);
    driver.feed(Event::Network(false));
    driver.hooks.holds_pages_back = true;
    driver.add(0, 1);
    let op = driver.machine.operations()[0].0.clone();
    assert!(op.changes.is_none() && !op.prepared, "{op:?}");
}

/// An operation that neither declares its documents nor shows anything waits for nothing. It was once never
/// sent.
#[test]
fn an_operation_that_touches_nothing_is_sent() {
    for mode in [Mode::Synced, Mode::Incognito] {
        let mut server = server(1);
        let mut driver = Driver::new(0, mode, Policy::Ask);
        driver.subscribe(&mut server);
        driver.feed(Event::Network(false));
        let blind = [("class", "Doc".into()), ("key", id(0)), ("property", "n".into()), ("by", 3_i64.into())];
        let issued = driver.write("blind", Value::from(blind));
        let op = driver.machine.operations()[0].0.clone();
        assert!(op.keys.is_empty() && op.prepared && op.saved, "{op:?}");
        driver.feed(Event::Network(true));
        driver.settle(&mut server);
        assert_eq!(stored(&server, 0, "n"), Some(3));
        assert!(server.db.operations.executed.iter().any(|(_, id)| *id == issued));
        assert!(driver.machine.operations().is_empty());
    }
}
