//! A test harness for the machine with a device: batches and reads reach the device at once.

use escale::codec::Row;
use escale::crypto::{DerivedKey, SeededRandom, WrapKind};
use escale::storage::{AccountOptions, Damage, Limits, open_account};
use escale::store::conformance::block_on;
use escale::store::{Batch, MemoryDevice, MemoryStore, Store, Table};
use escale::sync::{Config, Effect, Event, Machine, NoApplication, StorageState};

use crate::harness::{Bench, config, def, part, reply, schema};

/// A [`Bench`] whose batches and reads reach a device at once.
pub struct Desk {
    pub bench: Bench,
    pub device: MemoryDevice,
    pub store: MemoryStore,
    pub batches: usize,
    pub readings: usize,
}

impl Desk {
    pub fn open(device: &MemoryDevice, config: Config, limits: Limits) -> (Self, Damage) {
        let account = AccountOptions { org: "o", account: "a", by: WrapKind::Key, rounds: 0, create: true };
        let x = async |_| Ok(DerivedKey::from_bytes([3; 32]));
        let random = &mut SeededRandom::new(device.total() as u64 + 5);
        let mut opened = block_on(open_account(device, &account, schema(), x, random)).expect("opened");
        opened.layout.set_limits(limits);
        let source = Box::new(SeededRandom::new(device.total() as u64 + 77));
        let machine =
            Machine::new(config, opened.memory, Some(opened.layout), opened.damage, String::new(), source)
                .with_writes(opened.journal, Box::new(NoApplication));
        let bench = Bench::of(machine);
        let desk = Desk { bench, device: device.clone(), store: opened.store, batches: 0, readings: 0 };
        (desk, opened.damage)
    }

    pub fn new() -> Self {
        Desk::open(&MemoryDevice::new(), config(), Limits::default()).0
    }

    /// Carries out effects for the device until there are none. Returns the answers to reads.
    pub fn work(&mut self) -> Vec<Vec<(escale::model::Pk, u64)>> {
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
                        assert_eq!(ticket % 2, 1, "even tickets are the driver's");
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

    /// Writes the batches that are due now, and returns them.
    pub fn write(&mut self) -> Vec<Batch> {
        let batches: Vec<Batch> = self.bench.take(|effect| match effect {
            Effect::Commit(batch) => Some(batch.clone()),
            _ => None,
        });
        for batch in &batches {
            let result = block_on(self.store.commit(batch.clone()));
            self.bench.feed(Event::Committed(result));
        }
        batches
    }

    pub fn load(&mut self, rows: Vec<Row>) {
        self.bench.subscribe(&def("Doc"));
        self.work();
        let (number, _) = self.bench.request();
        self.bench.answer(number, reply(10_000, vec![part(&def("Doc"), rows)]));
        self.work();
    }

    pub fn read_all(&mut self) -> Vec<(escale::model::Pk, u64)> {
        let (ids, _, _) = self.bench.machine.list(&def("Doc")).expect("subscribed");
        self.bench.feed(Event::Read { ticket: 2, ids });
        let mut rows = self.work().pop().expect("an answer");
        rows.sort_unstable();
        rows
    }

    pub fn name() -> String {
        escale::crypto::store_name("o", "a")
    }

    /// Alters every page.
    pub fn damage_pages(&self) {
        self.device.tamper(&Desk::name(), |records| {
            for ((table, _), bytes) in records {
                if *table == Table::Pages {
                    let middle = bytes.len() / 2;
                    bytes[middle] ^= 1;
                }
            }
        });
    }

    pub fn storage(&self) -> StorageState {
        self.bench.machine.status().storage
    }
}

trait Total {
    fn total(&self) -> usize;
}

impl Total for MemoryDevice {
    /// The number of stored bytes: enough to give each opening another seed.
    fn total(&self) -> usize {
        let mut total = 0;
        self.tamper(&Desk::name(), |records| total = records.values().map(Vec::len).sum());
        total
    }
}
