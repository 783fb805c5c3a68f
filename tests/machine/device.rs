//! The machine and its device: batches that fail, pages read and rewritten, damage.

use std::collections::BTreeSet;

use escale::codec::{Data, Row};
use escale::crypto::{DerivedKey, SeededRandom, WrapKind};
use escale::model::Value;
use escale::rest::{AccountOptions, Damage, Limits, open_account};
use escale::store::conformance::block_on;
use escale::store::{Batch, MemoryDevice, MemoryStore, Store, Table};
use escale::sync::{Config, Effect, Event, Machine, Mode, StorageState};
use escale::{Code, Error};

use crate::bench::{Bench, config, def, fault, part, pk, reply, row, schema, section, these};

/// A bench whose batches and readings reach a device at once.
struct Desk {
    bench: Bench,
    device: MemoryDevice,
    store: MemoryStore,
    batches: usize,
    readings: usize,
}

impl Desk {
    fn open(device: &MemoryDevice, config: Config, limits: Limits) -> (Self, Damage) {
        let account = AccountOptions { org: "o", account: "a", by: WrapKind::Key, rounds: 0, create: true };
        let x = async |_| Ok(DerivedKey::from_bytes([3; 32]));
        let random = &mut SeededRandom::new(device.total() as u64 + 5);
        let mut opened = block_on(open_account(device, &account, schema(), x, random)).expect("opened");
        opened.rest.set_limits(limits);
        let source = Box::new(SeededRandom::new(device.total() as u64 + 77));
        let machine =
            Machine::new(config, opened.memory, Some(opened.rest), opened.damage, String::new(), source);
        let bench = Bench::of(machine);
        let desk = Desk { bench, device: device.clone(), store: opened.store, batches: 0, readings: 0 };
        (desk, opened.damage)
    }

    fn new() -> Self {
        Desk::open(&MemoryDevice::new(), config(), Limits::default()).0
    }

    /// Carries effects for the device out until there are none. Gives the answers to reads.
    fn work(&mut self) -> Vec<Vec<(escale::model::Pk, u64)>> {
        let mut answers = Vec::new();
        for round in 0.. {
            assert!(round < 300, "the device is never left in peace");
            let mut events = Vec::new();
            let mut others = Vec::new();
            for effect in self.bench.take_all() {
                match effect {
                    Effect::Commit(batch) => {
                        self.batches += 1;
                        events.push(Event::Committed(block_on(self.store.commit(batch))));
                    }
                    Effect::ReadPages { ticket, keys } => {
                        self.readings += 1;
                        let pages = block_on(self.store.get(Table::Pages, &keys));
                        events.push(Event::PagesRead { ticket, pages });
                    }
                    Effect::Answer { rows, .. } => {
                        let rows = rows.expect("rows").into_iter().map(|row| (row.pk, row.v));
                        answers.push(rows.collect());
                    }
                    other => others.push(other),
                }
            }
            others.into_iter().for_each(|effect| self.bench.put_back(effect));
            if events.is_empty() {
                return answers;
            }
            events.into_iter().for_each(|event| self.bench.feed(event));
        }
        unreachable!("rounds are counted")
    }

    fn load(&mut self, rows: Vec<Row>) {
        self.bench.subscribe(&def("Doc"));
        self.work();
        let (number, _) = self.bench.request();
        self.bench.answer(number, reply(10_000, vec![part(&def("Doc"), rows)]));
        self.work();
    }

    fn read_all(&mut self) -> Vec<(escale::model::Pk, u64)> {
        let (ids, _, _) = self.bench.machine.list(&def("Doc")).expect("subscribed");
        self.bench.feed(Event::Read { ticket: 2, ids });
        let mut rows = self.work().pop().expect("an answer");
        rows.sort_unstable();
        rows
    }

    fn name() -> String {
        escale::crypto::store_name("o", "a")
    }

    /// Alters every page.
    fn damage_pages(&self) {
        self.device.tamper(&Desk::name(), |records| {
            for ((table, _), bytes) in records {
                if *table == Table::Pages {
                    let middle = bytes.len() / 2;
                    bytes[middle] ^= 1;
                }
            }
        });
    }

    fn storage(&self) -> StorageState {
        self.bench.machine.status().storage
    }
}

trait Total {
    fn total(&self) -> usize;
}

impl Total for MemoryDevice {
    /// Bytes at rest: enough for another seed at each opening.
    fn total(&self) -> usize {
        let mut total = 0;
        self.tamper(&Desk::name(), |records| total = records.values().map(Vec::len).sum());
        total
    }
}

fn big(id: &str, v: u64, bytes: usize) -> Row {
    let noise: Vec<u8> = {
        let mut random = SeededRandom::new(v);
        (0..bytes).map(|_| random.next_u64() as u8).collect()
    };
    let map = [("id".to_owned(), Value::from(id)), ("raw".to_owned(), Value::Bytes(noise))];
    Row { data: Some(Data::from_map(&map.into()).expect("data")), ..row(id, v) }
}

#[test]
fn a_batch_that_fails_is_written_later_and_the_status_says_so() {
    for (code, state) in
        [(Code::StorageFull, StorageState::Full), (Code::StorageFailed, StorageState::Memory)]
    {
        let mut desk = Desk::new();
        desk.bench.subscribe(&def("Doc"));
        let batch = |effect: &Effect| match effect {
            Effect::Commit(batch) => Some(batch.clone()),
            _ => None,
        };
        let mut delays = Vec::new();
        for _ in 0..8 {
            let batches: Vec<Batch> = desk.bench.take(batch);
            assert_eq!(batches.len(), 1, "one batch at a time");
            desk.bench.feed(Event::Committed(Err(Error::new(code, "by the test"))));
            assert_eq!(desk.storage(), state);
            assert!(desk.bench.take(batch).is_empty(), "not tried again at once");
            let at = desk.bench.wake_at().expect("tried again");
            delays.push(at - desk.bench.now);
            desk.bench.wake(at);
        }
        assert!(delays[0] >= 1_000 && delays.iter().all(|ms| *ms <= 30_000), "{delays:?}");
        desk.work();
        assert_eq!(desk.storage(), StorageState::Ok);
        assert!(desk.bench.machine.memory().is_clean());
    }
}

#[test]
fn data_rests_on_the_device_and_is_read_from_there() {
    let mut desk = Desk::new();
    desk.load((0..500).map(|n| row(&format!("d{n}"), 1_000 + n)).collect());
    let (pages, rows) = desk.bench.machine.rest().expect("a device").page_counts();
    assert!(pages < 20 && rows == 500, "{rows} documents in {pages} pages");
    assert_eq!(desk.read_all().len(), 500);
    assert!(desk.readings > 0, "nothing was kept in memory");
}

#[test]
fn a_device_that_cannot_be_read_is_an_error_of_the_read_and_no_damage() {
    let mut desk = Desk::new();
    desk.load(vec![row("a", 1)]);
    let (ids, _, _) = desk.bench.machine.list(&def("Doc")).expect("subscribed");
    desk.bench.feed(Event::Read { ticket: 2, ids });
    let read = |effect: &Effect| match effect {
        Effect::ReadPages { ticket, .. } => Some(*ticket),
        _ => None,
    };
    let ticket = desk.bench.take(read)[0];
    let pages = Err(Error::new(Code::StorageFailed, "by the test"));
    desk.bench.feed(Event::PagesRead { ticket, pages });
    let answer = |effect: &Effect| match effect {
        Effect::Answer { rows, .. } => Some(rows.as_ref().map(Vec::len).map_err(Error::code)),
        _ => None,
    };
    assert_eq!(desk.bench.take(answer), [Err(Code::StorageFailed)]);
    assert_eq!(desk.storage(), StorageState::Ok);
    assert_eq!(desk.read_all(), these(&[("a", 1)]));
}

#[test]
fn a_first_load_cut_in_the_middle_goes_on_from_its_cursor() {
    let device = MemoryDevice::new();
    let doc = def("Doc");
    let (mut desk, _) = Desk::open(&device, config(), Limits::default());
    desk.bench.subscribe(&doc);
    desk.work();
    let (number, _) = desk.bench.request();
    let first = escale::codec::Part { next: Some("c1".into()), ..part(&doc, vec![row("a", 1)]) };
    desk.bench.answer(number, reply(10_000, vec![first]));
    desk.work();
    drop(desk);
    let (mut desk, damage) = Desk::open(&device, config(), Limits::default());
    assert!(!damage.any());
    assert_eq!(desk.bench.shown(&doc), these(&[("a", 1)]), "R7: the page and its cursor");
    let (number, request) = desk.bench.request();
    assert_eq!((request.subs[0].v, request.subs[0].cursor.as_deref()), (0, Some("c1")));
    desk.bench.answer(number, reply(99_000, vec![part(&doc, vec![row("b", 2)])]));
    assert_eq!(desk.bench.v(&doc), 9_900);
    assert_eq!(desk.bench.shown(&doc), these(&[("a", 1), ("b", 2)]));
}

#[test]
fn r14_damaged_documents_are_asked_for_one_by_one() {
    let mut desk = Desk::new();
    desk.load(vec![row("a", 1), row("b", 2)]);
    desk.damage_pages();
    assert!(desk.read_all().is_empty());
    assert_eq!(desk.storage(), StorageState::Lost);
    assert_eq!(desk.bench.machine.status().damaged.documents, 2);
    assert_eq!(desk.bench.error(), Some(Code::RecordDamaged));
    let (number, request) = desk.bench.request();
    let asked: BTreeSet<String> = request.subs.iter().map(|sub| sub.def.to_string()).collect();
    let wanted: BTreeSet<String> = ["a", "b"].map(|id| format!("Doc@{}", pk(id))).into();
    assert_eq!(asked, wanted);
    assert!(request.subs.iter().all(|sub| sub.v == 0));
    let rows = |sub: &escale::codec::Sub| {
        if sub.def.to_string().ends_with(pk("a").as_str()) { row("a", 1) } else { row("b", 9_000) }
    };
    let parts = request.subs.iter().map(|sub| part(&sub.def, vec![rows(sub)])).collect();
    desk.bench.answer(number, reply(20_000, parts));
    desk.work();
    assert_eq!(desk.read_all(), these(&[("a", 1), ("b", 9_000)]));
    assert_eq!(desk.storage(), StorageState::Ok);
    assert_eq!(desk.bench.v(&def("Doc")), 9_900, "the collection is not loaded again");
}

#[test]
fn r14_a_damaged_document_that_is_no_more_leaves() {
    let mut desk = Desk::new();
    desk.load(vec![row("a", 1)]);
    desk.damage_pages();
    desk.read_all();
    let (number, request) = desk.bench.request();
    desk.bench.answer(number, reply(20_000, vec![part(&request.subs[0].def, vec![])]));
    desk.work();
    assert!(desk.bench.shown(&def("Doc")).is_empty());
    assert_eq!(desk.storage(), StorageState::Ok);
}

/// The repair's part may be cut by a full reply: that says nothing of the document.
#[test]
fn r14_an_unfinished_answer_does_not_remove_the_document() {
    let mut desk = Desk::new();
    desk.load(vec![row("a", 1)]);
    desk.damage_pages();
    desk.read_all();
    let (number, request) = desk.bench.request();
    let cut = escale::codec::Part { next: Some("c".into()), ..part(&request.subs[0].def, vec![]) };
    desk.bench.answer(number, reply(20_000, vec![cut]));
    assert_eq!(desk.bench.shown(&def("Doc")), these(&[("a", 1)]));
    let (_, request) = desk.bench.request();
    assert_eq!(request.subs[0].def.to_string(), format!("Doc@{}", pk("a")), "asked again");
}

#[test]
fn r14_a_repair_that_is_refused_is_tried_again_or_done_by_the_collection() {
    let mut desk = Desk::new();
    desk.load(vec![row("a", 1)]);
    desk.damage_pages();
    desk.read_all();
    let (number, request) = desk.bench.request();
    let single = request.subs[0].def.clone();
    desk.bench.answer(number, reply(20_000, vec![fault(&single, Code::Contention)]));
    if desk.bench.requests.is_empty() {
        let at = desk.bench.wake_at().expect("tried again");
        desk.bench.wake(at);
    }
    let (number, request) = desk.bench.request();
    assert_eq!(request.subs[0].def, single, "a passing fault");
    // This server lets nobody ask for one document: the collection that holds it is loaded anew.
    desk.bench.answer(number, reply(20_000, vec![fault(&single, Code::Forbidden)]));
    desk.work();
    let (number, request) = desk.bench.request();
    assert_eq!((request.subs[0].def.to_string().as_str(), request.subs[0].v), ("Doc", 0));
    desk.bench.answer(number, reply(20_000, vec![part(&def("Doc"), vec![row("a", 1)])]));
    desk.work();
    assert_eq!(desk.read_all(), these(&[("a", 1)]));
    assert_eq!(desk.storage(), StorageState::Ok);
}

#[test]
fn r14_above_a_hundred_the_collection_is_loaded_anew() {
    let mut desk = Desk::new();
    let rows: Vec<Row> = (0..150).map(|n| row(&format!("d{n}"), 1_000 + n)).collect();
    desk.load(rows.clone());
    desk.damage_pages();
    assert!(desk.read_all().is_empty());
    desk.work();
    let (number, request) = desk.bench.request();
    assert_eq!(request.subs.len(), 1);
    assert_eq!((request.subs[0].def.to_string().as_str(), request.subs[0].v), ("Doc", 0));
    desk.bench.answer(number, reply(20_000, vec![part(&def("Doc"), rows)]));
    desk.work();
    assert_eq!(desk.read_all().len(), 150);
    assert_eq!(desk.storage(), StorageState::Ok);
}

#[test]
fn r14_in_avion_damage_is_listed_until_the_next_synced() {
    let device = MemoryDevice::new();
    let (mut desk, _) = Desk::open(&device, config(), Limits::default());
    desk.load(vec![row("a", 1), row("b", 2)]);
    desk.damage_pages();
    drop(desk);
    let avion = Config { mode: Mode::Avion, ..config() };
    let (mut desk, damage) = Desk::open(&device, avion, Limits::default());
    assert!(!damage.any(), "pages are read on demand");
    assert!(desk.read_all().is_empty());
    assert_eq!(desk.storage(), StorageState::Lost);
    assert_eq!(desk.bench.machine.status().damaged.documents, 2);
    assert!(desk.bench.requests.is_empty());
    desk.bench.feed(Event::SetMode(Mode::Synced));
    let (number, request) = desk.bench.request();
    let of = |def: &escale::model::Def| {
        let rows = [row("a", 1), row("b", 2)];
        rows.into_iter().filter(|row| def.to_string().ends_with(row.pk.as_str())).collect::<Vec<_>>()
    };
    let parts = request.subs.iter().map(|sub| part(&sub.def, of(&sub.def))).collect();
    desk.bench.answer(number, reply(20_000, parts));
    desk.work();
    assert_eq!(desk.storage(), StorageState::Ok);
    assert_eq!(desk.read_all().len(), 2);
}

/// Pages of a few large documents are full, not sparse: rewriting them would never end.
#[test]
fn large_documents_leave_the_device_in_peace() {
    for bytes in [4_200, 70_000] {
        let limits = Limits { sparse_pages: 4, ..Limits::default() };
        let (mut desk, _) = Desk::open(&MemoryDevice::new(), config(), limits);
        desk.load((0..70).map(|n| big(&format!("d{n}"), 1_000 + n, bytes)).collect());
        let written = desk.batches;
        desk.bench.feed(Event::Woke);
        desk.work();
        assert_eq!(desk.batches, written, "nothing more to write");
        assert_eq!(desk.read_all().len(), 70);
    }
}

#[test]
fn sparse_pages_are_rewritten_together() {
    let limits = Limits { sparse_pages: 4, ..Limits::default() };
    let (mut desk, _) = Desk::open(&MemoryDevice::new(), config(), limits);
    desk.load(vec![]);
    for n in 0..40 {
        desk.bench.wake(desk.bench.now + 5 * 60_000);
        let (number, _) = desk.bench.request();
        let one = part(&def("Doc"), vec![row(&format!("d{n}"), 20_000 + n)]);
        desk.bench.answer(number, reply(20_000 + n, vec![one]));
        desk.work();
    }
    let (pages, rows) = desk.bench.machine.rest().expect("a device").page_counts();
    assert_eq!(rows, 40);
    assert!(pages < 5, "{pages} pages for 40 small documents");
    assert_eq!(desk.read_all().len(), 40);
}

/// Damaged pages cannot be rewritten: in avion nothing heals them, and they must not be read for ever.
#[test]
fn damaged_sparse_pages_leave_the_device_in_peace() {
    let device = MemoryDevice::new();
    let limits = Limits { sparse_pages: 64, ..Limits::default() };
    let (mut desk, _) = Desk::open(&device, config(), limits);
    desk.load(vec![]);
    for n in 0..6 {
        desk.bench.wake(desk.bench.now + 5 * 60_000);
        let (number, _) = desk.bench.request();
        let one = part(&def("Doc"), vec![row(&format!("d{n}"), 20_000 + n)]);
        desk.bench.answer(number, reply(20_000 + n, vec![one]));
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
    let read = |effect: &Effect| match effect {
        Effect::ReadPages { ticket, .. } => Some(*ticket),
        _ => None,
    };
    let mut ticket = None;
    for n in 0..3 {
        desk.bench.wake(desk.bench.now + 5 * 60_000);
        let (number, _) = desk.bench.request();
        let one = part(&def("Doc"), vec![row(&format!("d{n}"), 20_000 + n)]);
        desk.bench.answer(number, reply(20_000 + n, vec![one]));
        let commits: Vec<Batch> = desk.bench.take(|effect| match effect {
            Effect::Commit(batch) => Some(batch.clone()),
            _ => None,
        });
        for batch in commits {
            let result = block_on(desk.store.commit(batch));
            desk.bench.feed(Event::Committed(result));
        }
        ticket = ticket.or(desk.bench.take(read).pop());
    }
    let ticket = ticket.expect("sparse pages are read");
    desk.bench.feed(Event::PagesRead { ticket, pages: Err(Error::new(Code::StorageFailed, "by the test")) });
    assert!(desk.bench.take(read).is_empty(), "not at once");
}

#[test]
fn a_subscription_and_its_end_outlive_the_session() {
    let device = MemoryDevice::new();
    let (mut desk, _) = Desk::open(&device, config(), Limits::default());
    desk.load(vec![row("a", 1)]);
    desk.bench.subscribe(&section("games"));
    desk.work();
    desk.bench.feed(Event::Unsubscribe(def("Doc")));
    desk.work();
    drop(desk);
    let (mut desk, _) = Desk::open(&device, config(), Limits::default());
    let defs: Vec<_> = desk.bench.machine.memory().collections().map(|(def, _)| def.clone()).collect();
    assert_eq!(defs, [section("games")]);
    let (_, request) = desk.bench.request();
    assert_eq!(request.subs[0].def, section("games"));
}
