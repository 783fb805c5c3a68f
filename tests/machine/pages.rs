//! Sparse pages are rewritten together; all other pages are left alone.

use escale::codec::{Data, Row};
use escale::crypto::SeededRandom;
use escale::model::Value;
use escale::storage::Limits;
use escale::store::conformance::block_on;
use escale::store::{MemoryDevice, Store, Table};
use escale::sync::{Config, Effect, Event, Mode, StorageState};
use escale::{Code, Error};
use escale_testkit::client::Call;
use escale_testkit::schema::by_key;

use crate::harness::{config, def, part, reply, row};
use crate::harness_with_device::Desk;

fn big(id: &str, v: u64, bytes: usize) -> Row {
    let noise: Vec<u8> = {
        let mut random = SeededRandom::new(v);
        (0..bytes).map(|_| random.next_u64() as u8).collect()
    };
    let map = [("id".to_owned(), Value::from(id)), ("raw".to_owned(), Value::Bytes(noise))];
    Row { data: Some(Data::from_map(&map.into()).expect("data")), ..row(id, v) }
}

/// Pages of a few large documents are full, not sparse: rewriting them would never end.
#[test]
fn large_documents_leave_the_device_in_peace() {
    for bytes in [4_200, 70_000] {
        let limits = Limits { sparse_pages: 4, ..Limits::default() };
        let (mut desk, _) = Desk::open(&MemoryDevice::new(), config(), limits);
        desk.load((0..70).map(|n| big(&format!("d{n}"), 1_000 + n, bytes)).collect());
        let written = desk.batches;
        desk.harness.feed(Event::Woke);
        desk.work();
        assert_eq!(desk.batches, written, "nothing more to write");
        assert_eq!(desk.read_all().len(), 70);
    }
}

/// A query over many pages reads some at a time: its memory is bounded. It finds the documents of all.
#[test]
fn a_query_reads_a_bounded_number_of_pages_at_a_time() {
    let mut desk = Desk::new();
    desk.load((0..70).map(|n| big(&format!("d{n}"), 1_000 + n, 70_000)).collect());
    let class = escale::model::Name::new("Doc").expect("a name");
    desk.harness.feed(Event::Query { ticket: 2, class, query: by_key() });
    let mut read = Vec::new();
    loop {
        let keys = |call: &Call| match call {
            Call::Pages { ticket, keys } => Some((*ticket, keys.clone())),
            _ => None,
        };
        let Some((ticket, keys)) = desk.harness.take_calls(keys).pop() else { break };
        read.push(keys.len());
        let pages = block_on(desk.store().get(Table::Pages, &keys));
        desk.harness.feed(Event::PagesRead { ticket, pages });
    }
    let (pages, _) = desk.harness.client.machine.layout().expect("a device").page_counts();
    assert_eq!(read.iter().sum::<usize>(), pages, "each page once");
    assert!(pages > 32 && read.iter().all(|keys| *keys <= 32) && read[0] == 32, "{read:?}");
    let found = desk.harness.take(|effect| match effect {
        Effect::Matched { ids, .. } => Some(ids.as_ref().expect("ids").len()),
        _ => None,
    });
    assert_eq!(found, [70]);
}

#[test]
fn sparse_pages_are_rewritten_together() {
    let limits = Limits { sparse_pages: 4, ..Limits::default() };
    let (mut desk, _) = Desk::open(&MemoryDevice::new(), config(), limits);
    desk.load(vec![]);
    for n in 0..40 {
        desk.harness.wake(desk.harness.now + 5 * 60_000);
        let (number, _) = desk.harness.request();
        let one = part(&def("Doc"), vec![row(&format!("d{n}"), 20_000 + n)]);
        desk.harness.answer(number, reply(20_000 + n, vec![one]));
        desk.work();
    }
    let (pages, rows) = desk.harness.client.machine.layout().expect("a device").page_counts();
    assert_eq!(rows, 40);
    assert!(pages < 5, "{pages} pages for 40 small documents");
    assert_eq!(desk.read_all().len(), 40);
}

/// Damaged pages cannot be rewritten. In avion nothing repairs them, and they must not be read for ever.
#[test]
fn damaged_sparse_pages_leave_the_device_in_peace() {
    let device = MemoryDevice::new();
    let limits = Limits { sparse_pages: 64, ..Limits::default() };
    let (mut desk, _) = Desk::open(&device, config(), limits);
    desk.load(vec![]);
    for n in 0..6 {
        desk.harness.wake(desk.harness.now + 5 * 60_000);
        let (number, _) = desk.harness.request();
        let one = part(&def("Doc"), vec![row(&format!("d{n}"), 20_000 + n)]);
        desk.harness.answer(number, reply(20_000 + n, vec![one]));
        desk.work();
    }
    desk.damage_pages();
    drop(desk);
    let limits = Limits { sparse_pages: 3, ..Limits::default() };
    let (mut desk, _) = Desk::open(&device, Config { mode: Mode::Avion, ..config() }, limits);
    desk.work();
    assert!(desk.readings < 5, "{} readings", desk.readings);
    assert_eq!(desk.storage(), StorageState::Lost);
}

/// A device that fails to read is not asked again at once, for ever.
#[test]
fn a_device_that_fails_to_rewrite_is_left_in_peace() {
    let limits = Limits { sparse_pages: 2, ..Limits::default() };
    let (mut desk, _) = Desk::open(&MemoryDevice::new(), config(), limits);
    desk.load(vec![]);
    let read = |call: &Call| match call {
        Call::Pages { ticket, .. } => Some(*ticket),
        _ => None,
    };
    let mut ticket = None;
    for n in 0..3 {
        desk.harness.wake(desk.harness.now + 5 * 60_000);
        let (number, _) = desk.harness.request();
        let one = part(&def("Doc"), vec![row(&format!("d{n}"), 20_000 + n)]);
        desk.harness.answer(number, reply(20_000 + n, vec![one]));
        // The mark of the round before, then this round's rows.
        for _ in 0..2 {
            desk.write();
        }
        ticket = ticket.or(desk.harness.take_calls(read).pop());
    }
    let ticket = ticket.expect("sparse pages are read");
    desk.harness
        .feed(Event::PagesRead { ticket, pages: Err(Error::new(Code::StorageFailed, "by the test")) });
    assert!(desk.harness.take_calls(read).is_empty(), "not at once");
    assert_eq!(desk.harness.error(), Some(Code::StorageFailed), "the application learns of it");
}
