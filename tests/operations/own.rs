//! Application-defined operations: within a batch, and those of which nothing is known.

use std::cell::Cell;
use std::rc::Rc;

use escale::journal::{Change, Policy, changes_of};
use escale::model::Value;
use escale::model::schema::Schema;
use escale::store::MemoryDevice;
use escale::sync::{Application, Event, Mode, Reader};

use super::driver::{Driver, NOW, id, server, stored};
use escale_testkit::schema::SCHEMA;

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
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    driver.feed(Event::Network(false));
    driver.add(1, 100);
    let ops = Value::Array(vec![add(0, 1), set(0, 10), add(0, 5), add(1, 7)]);
    driver.write("batch", Value::from([("ops", ops)]));
    assert_eq!((driver.seen(0, "n"), driver.seen(1, "n")), (Some(15), Some(107)));
    driver.add(0, 2);
    let mut driver = driver.reopen(Mode::Synced, Policy::Overwrite);
    assert_eq!((driver.seen(0, "n"), driver.seen(1, "n")), (Some(17), Some(107)), "after a restart as well");
    driver.settle(&mut server);
    assert_eq!((stored(&server, 0, "n"), stored(&server, 1, "n")), (Some(17), Some(107)));
    assert_eq!((driver.seen(0, "n"), driver.seen(1, "n")), (Some(17), Some(107)));
}

/// The optimistic part reads a document whose data is still at rest. It has no effect before the data is there.
#[test]
fn an_operation_has_no_effect_before_the_document_that_it_reads_is_there() {
    let mut server = server(1);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    driver.add(0, 5);
    driver.settle(&mut server);
    let mut driver = driver.reopen(Mode::Synced, Policy::Overwrite);
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
        let mut driver = Driver::new(0, mode, Policy::Overwrite);
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

/// An application whose optimistic part changes another document each time that it runs.
struct Wanderer(Rc<Cell<usize>>);

impl Application for Wanderer {
    fn optimistic(&self, _: &str, _: &Value, _: &mut Reader<'_>) -> Option<escale::Result<Vec<Change>>> {
        let run = (self.0.get() + 1).min(20);
        self.0.set(run);
        let schema = Schema::from_json(SCHEMA).expect("a schema");
        let patch = set(run, 1);
        changes_of(&schema, "doc.patch", &patch.as_map().expect("a map")["args"]).transpose()
    }
}

/// The passes of one turn are bounded. The rest waited for any other event, and none may come.
#[test]
fn optimistic_parts_that_come_to_no_end_go_on_in_the_next_turn() {
    let runs = Rc::new(Cell::new(0));
    let application = Box::new(Wanderer(Rc::clone(&runs)));
    let mut driver = Driver::with(0, Mode::Synced, application, MemoryDevice::new(), NOW);
    driver.feed(Event::Network(false));
    driver.write("wander", Value::Map(std::collections::BTreeMap::new()));
    assert!((1..20).contains(&runs.get()), "it goes on");
    // It asks to be woken at once, and again in the same millisecond.
    for _ in 0..2 {
        assert_eq!(driver.wake_at.take(), Some(driver.clock.mono_ms));
        driver.feed(Event::Woke);
    }
    assert_eq!((runs.get(), driver.wake_at), (20, None));
}
