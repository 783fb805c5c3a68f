//! A test harness for the machine with a device: batches and reads reach the device at once.

use escale::codec::Row;
use escale::storage::{Damage, Limits};
use escale::store::{Batch, MemoryDevice, MemoryStore, Table};
use escale::sync::{Config, Effect, Event, StorageState};
use escale_testkit::client::{Call, Opening};

use crate::harness::{Harness, config, def, part, reply, schema};

/// A [`Harness`] whose batches and reads reach a device at once.
pub struct Desk {
    pub harness: Harness,
    pub device: MemoryDevice,
    pub batches: usize,
    pub readings: usize,
}

impl Desk {
    pub fn open(device: &MemoryDevice, config: Config, limits: Limits) -> (Self, Damage) {
        Desk::open_as(device, Opening { x: [3; 32], config, limits, ..Opening::of("o", "a", schema()) })
    }

    pub fn open_as(device: &MemoryDevice, opening: Opening) -> (Self, Damage) {
        let seed = device.total() as u64 + 5;
        let opening = Opening { seed, session_seed: seed + 72, ..opening };
        let opened = opening.open(device).expect("opened");
        let damage = opened.damage;
        let desk = Desk { harness: Harness::over(opened), device: device.clone(), batches: 0, readings: 0 };
        (desk, damage)
    }

    pub fn new() -> Self {
        Desk::open(&MemoryDevice::new(), config(), Limits::default()).0
    }

    /// Carries out effects for the device until there are none. Returns the answers to reads.
    pub fn work(&mut self) -> Vec<Vec<(escale::model::Pk, u64)>> {
        let answer = |effect: &Effect| match effect {
            Effect::Answer { rows, .. } => {
                let rows = rows.as_ref().expect("rows").iter().map(|row| (row.pk.clone(), row.v));
                Some(rows.collect::<Vec<_>>())
            }
            _ => None,
        };
        let mut answers = Vec::new();
        for round in 0.. {
            assert!(round < 300, "the device is never left in peace");
            answers.extend(self.harness.take(answer));
            let client = &mut self.harness.client;
            let mut events = Vec::new();
            for call in std::mem::take(&mut client.held) {
                match &call {
                    Call::Commit(_) => self.batches += 1,
                    Call::Pages { ticket, .. } => {
                        self.readings += 1;
                        assert_eq!(ticket % 2, 1, "even tickets are the driver's");
                    }
                    _ => {
                        client.held.push_back(call);
                        continue;
                    }
                }
                events.push(client.make(call));
            }
            if events.is_empty() {
                return answers;
            }
            events.into_iter().for_each(|event| self.harness.feed(event));
        }
        unreachable!("rounds are counted")
    }

    pub fn store(&self) -> &MemoryStore {
        self.harness.client.store.as_ref().expect("a device")
    }

    /// Writes the batches that are due now, and returns them.
    pub fn write(&mut self) -> Vec<Batch> {
        let batches: Vec<Batch> = self.harness.take_calls(|call| match call {
            Call::Commit(batch) => Some(batch.clone()),
            _ => None,
        });
        for batch in &batches {
            let written = self.harness.client.make(Call::Commit(batch.clone()));
            self.harness.feed(written);
        }
        batches
    }

    pub fn load(&mut self, rows: Vec<Row>) {
        self.harness.subscribe(&def("Doc"));
        self.work();
        let (number, _) = self.harness.request();
        self.harness.answer(number, reply(10_000, vec![part(&def("Doc"), rows)]));
        self.work();
    }

    pub fn read_all(&mut self) -> Vec<(escale::model::Pk, u64)> {
        let (ids, _, _) = self.harness.client.machine.list(&def("Doc")).expect("subscribed");
        self.harness.feed(Event::Read { ticket: 2, ids });
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
        self.harness.client.machine.status().storage
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
