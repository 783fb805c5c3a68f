//! R9: after recovery, each subscribed collection equals the server's, data included. The stored state equals
//! the memory (R7).

use std::collections::BTreeMap;

use escale::codec::Data;
use escale::journal::PendingOp;
use escale::memory::{Content, Memory};
use escale::model::{Def, Pk};
use escale::store::conformance::block_on;
use escale::store::{Device, Store, Table};
use escale::sync::{Effect, Event, Machine, Mode, Phase, StorageState};

use super::World;
use super::client::Client;
use crate::backend::Backend;
use crate::client::Duty;

/// Long enough for a pull of everything and the longest delays.
pub const HEALING_MS: u64 = 7 * 60_000;

/// The time in which every write moves: a request that is lost counts as such after 60 s, and the longest delay follows.
const PATIENCE_MS: u64 = 100_000;

impl<S: Backend> World<S> {
    /// Ends all faults, opens all clients, and lets time pass.
    pub fn heal(&mut self) {
        note!(self, "healing");
        self.faults = super::Faults::default();
        self.contention = 0;
        self.refusals = (0, 0);
        self.finish_transactions();
        self.server.heal();
        for number in 0..self.clients.len() {
            self.clients[number].fail_commits = 0;
            self.clients[number].crash_in = None;
            self.cut_one_way(number, false, false);
            self.open(number);
            if self.clients[number].mode == Mode::Avion {
                self.clients[number].mode = Mode::Synced;
                self.feed(number, Event::SetMode(Mode::Synced));
            }
            self.set_network(number, true);
        }
        self.run_for(PATIENCE_MS);
        self.check_moved();
        // Long enough for the clocks that were ahead, and for all late messages.
        self.run_for(HEALING_MS);
        // A record read for the first time may prove damaged, and is then fetched again.
        for number in 0..self.clients.len() {
            self.read_everything(number);
        }
        self.run_for(HEALING_MS);
        // Not at the edge of a minute, where a document's life may end between two checks.
        self.run_until(self.now / 60_000 * 60_000 + 90_000);
    }

    /// No write waits for an event that nobody guarantees: the network is good, and the server answers.
    fn check_moved(&self) {
        for (number, client) in self.clients.iter().enumerate() {
            let Some(machine) = &client.machine else { continue };
            let waits = |(op, is_held): &(&PendingOp, bool)| op.is_waiting() && !is_held;
            let stuck: Vec<_> = machine.operations().into_iter().filter(waits).collect();
            assert!(
                stuck.is_empty(),
                "client {number}: writes do not move: {stuck:#?} {:#?}",
                machine.status()
            );
        }
    }

    /// The application reads every document that is not hidden.
    pub fn read_everything(&mut self, number: usize) {
        let ids = self.clients[number].machine.as_ref().map(all_ids).unwrap_or_default();
        self.read(number, ids);
    }

    pub fn compare(&mut self) {
        for number in 0..self.clients.len() {
            self.settle(number);
            self.compare_rights(number);
            self.compare_documents(number);
            self.compare_rest(number);
        }
    }

    /// A pull may be in progress, and the server may be slow: it has as long as a request may take.
    pub fn settle(&mut self, number: usize) {
        for _ in 0..3000 {
            let client = &self.clients[number];
            let machine = client.machine.as_ref().expect("an open client");
            let is_at_rest = machine.memory().is_clean() && !machine.is_committing();
            if is_at_rest && client.sending.is_none() {
                return;
            }
            self.run_for(20);
        }
        panic!("client {number} never comes to rest");
    }

    pub fn compare_documents(&mut self, number: usize) {
        let now = self.now;
        let org = self.clients[number].setup.tenant.org;
        let clock = self.clients[number].clock(now);
        let was_put_back = self.clients[number].was_put_back;
        let machine = self.clients[number].machine.as_mut().expect("an open client");
        let status = machine.status();
        assert_eq!(status.phase, Phase::Live, "client {number} is healed: {status:?}");
        // Until the session ends, it reports that operations may have been lost with the newest records.
        let is_told = was_put_back && status.storage == StorageState::Lost && status.damaged.operations > 0;
        assert!(
            is_told || matches!(status.storage, StorageState::Ok | StorageState::None),
            "client {number}: {status:?}"
        );
        let ids = all_ids(machine);
        let wanted = ids.len();
        let mut effects = machine.handle(Event::Read { ticket: 0, ids: ids.clone() }, clock);
        let mut rows = None;
        while rows.is_none() {
            let mut events = Vec::new();
            let Client { machine, store, .. } = &mut self.clients[number];
            let machine = machine.as_mut().expect("an open client");
            for effect in effects {
                match Duty::of(effect, machine) {
                    Duty::Device(call) => events.push(call.make(store.as_ref().expect("an open store"))),
                    Duty::Application(Effect::Answer { ticket: 0, rows: answered }) => {
                        rows = Some(answered.expect("a device that reads"));
                    }
                    Duty::Network(_) | Duty::Timer(_) | Duty::Application(_) => {}
                }
            }
            assert!(rows.is_some() || !events.is_empty(), "a read without an answer");
            effects = events.into_iter().flat_map(|event| machine.handle(event, clock)).collect();
        }
        let rows = rows.expect("answered");
        assert_eq!(rows.len(), wanted, "client {number}: some data cannot be read");
        let data: BTreeMap<u32, (Pk, u64, Data)> =
            rows.into_iter().map(|row| (row.id, (row.pk, row.v, row.data))).collect();
        let machine = self.clients[number].machine.as_ref().expect("an open client");
        for (def, collection) in machine.memory().collections() {
            let (ids, ready, _) = machine.list(def).expect("subscribed");
            assert!(ready && collection.load.is_none(), "R9: client {number}, {def} is loaded");
            let found: BTreeMap<&Pk, (u64, &Data)> =
                ids.iter().map(|id| &data[id]).map(|(pk, v, data)| (pk, (*v, data))).collect();
            let living: Vec<(&Pk, u64, Data)> = self
                .server
                .living(org, def, now)
                .into_iter()
                .map(|(pk, v, map)| (pk, v, Data::from_map(map).expect("data")))
                .collect();
            let wanted: BTreeMap<&Pk, (u64, &Data)> =
                living.iter().map(|(pk, v, data)| (*pk, (*v, data))).collect();
            assert_eq!(found, wanted, "R9: client {number}, {def}");
        }
    }

    /// Nothing keeps a document that no subscription holds, once no operation depends on it (R2).
    pub fn let_go(&mut self, number: usize) {
        let clock = self.clients[number].clock(self.now);
        let machine = self.clients[number].machine.as_mut().expect("an open client");
        let defs: Vec<Def> = machine.memory().collections().map(|(def, _)| def.clone()).collect();
        for def in defs {
            machine.handle(Event::Unsubscribe(def), clock);
        }
        if machine.operations().is_empty() {
            assert_eq!(
                machine.memory().documents().count(),
                0,
                "R2: client {number} keeps what nothing holds"
            );
        }
    }

    /// The stored state, opened again, equals the memory; and no record is left over.
    pub fn compare_rest(&mut self, number: usize) {
        let client = &self.clients[number];
        let machine = client.machine.as_ref().expect("an open client");
        if client.setup.incognito {
            return assert_eq!(client.commits, 0, "incognito wrote");
        }
        let copy = client.device.snapshot();
        let opened = client.open_device(&copy, 99).expect("a device that opens");
        assert!(!opened.damage.any(), "R7: {:?}", opened.damage);
        let left: Vec<_> = opened.journal.records.iter().filter(|record| record.op.is_some()).collect();
        assert!(left.is_empty(), "R10: operations that are over rest: {left:?}");
        assert_eq!(
            state(&opened.memory),
            state(machine.memory()),
            "R7: client {number} at rest and in memory"
        );
        drop(opened.store);
        let (pages, _) = machine.layout().expect("a device").page_counts();
        let found = count(client, Table::Pages);
        assert_eq!(found, pages, "client {number}: pages on the device, and pages in use");
    }
}

fn count(client: &Client, table: Table) -> usize {
    let copy = client.device.snapshot();
    let store = block_on(copy.open(&client.store_name(), false)).expect("open").expect("there");
    block_on(store.scan(table, None, usize::MAX)).expect("scan").len()
}

/// The ids of every document that is not hidden.
pub(super) fn all_ids(machine: &Machine) -> Vec<u32> {
    let mut ids: Vec<u32> = machine
        .memory()
        .collections()
        .flat_map(|(def, _)| machine.list(def).map(|(ids, _, _)| ids).unwrap_or_default())
        .collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// Everything in a memory that must be stored.
pub fn state(memory: &Memory) -> (String, BTreeMap<String, String>, BTreeMap<Def, String>) {
    let documents = memory.documents().map(|(key, d)| {
        let is_here = matches!(d.content, Content::Resident(_));
        (format!("{key:?}"), format!("{:?} {:?} {:?} {:?} {is_here}", d.at, d.max_life, d.slot, d.defs))
    });
    let collections = memory.collections().map(|(def, c)| {
        let members: BTreeMap<_, _> = c.set.members().collect();
        let marks: BTreeMap<_, _> = c.set.marks().collect();
        (def.clone(), format!("{:?} {} {:?} {members:?} {marks:?}", c.set.v(), c.ready, c.load))
    });
    (format!("{:?}", memory.epoch()), documents.collect(), collections.collect())
}
