//! A session over a device that fails, driven by hand. It acts like a browser's driver, with an application
//! that opens again if its page has died.

use std::collections::{BTreeMap, VecDeque};

use escale::codec::{Data, SyncReply, SyncRequest};
use escale::crypto::{DerivedKey, Header, SeededRandom, WrapKind, store_name};
use escale::journal::{Policy, Retention, make_id};
use escale::model::schema::Schema;
use escale::model::{Def, Value};
use escale::storage::{AccountOptions, Damage, Limits, open_account, reopen, rewrap};
use escale::store::Store;
use escale::store::conformance::block_on;
use escale::sync::{Clock, Config, Effect, Event, Machine, Mode, Refusal, StorageState, Write};
use escale::{Code, Error};

use crate::device::{FaultyDevice, FaultyStore};
use escale_testkit::asleep::check_asleep;
use escale_testkit::schema::{SCHEMA, key};
use escale_testkit::server::ModelServer;
use escale_testkit::world::writes::Counters;

pub const NOW: u64 = 1_700_000_000_000;

pub struct Client {
    pub device: FaultyDevice,
    pub server: ModelServer,
    pub machine: Option<Machine>,
    pub store: Option<FaultyStore>,
    pub header: Option<Header>,
    /// The secret of X; and the other possible secret, if a change of it was interrupted.
    pub secret: u8,
    pub other_secret: Option<u8>,
    pub now: u64,
    pub sent: Option<(u64, SyncRequest)>,
    pub is_offline: bool,
    pub limits: Limits,
    /// The operations issued, and whether they were reported as saved.
    pub issued: BTreeMap<String, bool>,
    pub accepted: Vec<String>,
    pub refused: Vec<String>,
    /// Operations that the application discarded, or that another one replaced.
    pub left: Vec<String>,
    /// The number of operations that sessions reported as possibly lost.
    pub told_lost: u64,
    pub was_told: bool,
    /// The store may have been restored to an earlier state.
    pub has_lost_tail: bool,
    pub damage: Damage,
    /// Every state of the storage that was reported.
    pub states: Vec<StorageState>,
    pub reopenings: u64,
    pub openings: u64,
    /// A missing store is not made, as in avion.
    pub makes_none: bool,
    pub answers: Vec<escale::Result<usize>>,
    /// The contents that the last read of pages gave.
    pub rows: BTreeMap<String, Data>,
    random: SeededRandom,
    wish: Option<u64>,
}

impl Client {
    pub fn new(device: FaultyDevice, server: ModelServer, limits: Limits) -> Self {
        Client {
            device,
            server,
            machine: None,
            store: None,
            header: None,
            secret: 1,
            other_secret: None,
            now: NOW,
            sent: None,
            is_offline: false,
            limits,
            issued: BTreeMap::new(),
            accepted: Vec::new(),
            refused: Vec::new(),
            left: Vec::new(),
            told_lost: 0,
            was_told: false,
            has_lost_tail: false,
            damage: Damage::default(),
            states: Vec::new(),
            reopenings: 0,
            openings: 0,
            makes_none: false,
            answers: Vec::new(),
            rows: BTreeMap::new(),
            random: SeededRandom::new(11),
            wish: None,
        }
    }

    pub fn store_name() -> String {
        store_name("org", "account")
    }

    /// Opens the session, and again if that fails, as a user who reloads the page.
    pub fn open(&mut self) {
        for _ in 0..6 {
            if self.machine.is_some() {
                return;
            }
            self.openings += 1;
            self.device.revive();
            let (by, create) = (WrapKind::Key, !self.makes_none);
            let options = AccountOptions { org: "org", account: "account", by, rounds: 0, create };
            let secret = self.secret;
            let derive = async move |_| Ok(DerivedKey::from_bytes([secret; 32]));
            let schema = Schema::from_json(SCHEMA).expect("a schema");
            let random = &mut SeededRandom::new(self.openings * 31 + 7);
            match block_on(open_account(&self.device, &options, schema, derive, random)) {
                Ok(mut opened) => {
                    opened.layout.set_limits(self.limits);
                    let config = Config {
                        mode: Mode::Synced,
                        has_live: false,
                        watches_silence: false,
                        has_token: false,
                        poll_every_ms: escale::limits::PULL_EVERY_MS,
                    };
                    let source = Box::new(SeededRandom::new(self.openings * 77 + 5));
                    self.damage = opened.damage;
                    let machine = Machine::new(
                        config,
                        opened.memory,
                        Some(opened.layout),
                        opened.damage,
                        String::new(),
                        source,
                    );
                    let application = Box::new(Counters { policy: Policy::Ask });
                    self.machine = Some(machine.with_writes(opened.journal, application));
                    self.store = Some(opened.store);
                    self.wish = None;
                    self.header = Some(opened.header);
                    let damaged = self.machine().status().damaged;
                    self.told_lost += damaged.operations + opened.damage.journal;
                    let error = self.machine().status().error;
                    self.was_told |= error.is_some_and(|error| error.code() == Code::LocalDataLost);
                    self.feed(Event::Started);
                }
                Err(error) if error.code() == Code::WrongPassphrase => {
                    // An interrupted change of the secret is either done or not; an older store still has its
                    // secret of that time.
                    let other = self.other_secret.take().or(self.has_lost_tail.then_some(1));
                    self.secret = other.expect("the secret opens the store");
                }
                Err(error) => assert!(
                    matches!(error.code(), Code::StorageClosed | Code::StorageFailed | Code::StorageFull),
                    "opening: {error}"
                ),
            }
        }
        assert!(self.machine.is_some(), "a store that never opens");
    }

    pub fn machine(&self) -> &Machine {
        self.machine.as_ref().expect("an open session")
    }

    /// The page dies: everything in progress is lost.
    pub fn die(&mut self) {
        self.machine = None;
        self.store = None;
        self.sent = None;
    }

    /// The page is closed in order: everything due is written first.
    pub fn close(&mut self) {
        if let Some(store) = &self.store {
            block_on(store.close());
        }
        self.die();
    }

    pub fn feed(&mut self, event: Event) {
        let mut events = VecDeque::from([event]);
        let mut rounds = 0;
        while let Some(event) = events.pop_front() {
            rounds += 1;
            assert!(rounds < 5_000, "a loop: {event:?}");
            if self.device.is_dead() {
                self.die();
            }
            let clock = Clock { wall_ms: self.now, mono_ms: self.now - NOW + 1_000 };
            let Some(machine) = &mut self.machine else { return };
            let effects = machine.handle(event, clock);
            machine.memory().check_links();
            for effect in effects {
                if self.machine.is_none() {
                    return;
                }
                self.carry_out(effect, &mut events);
            }
        }
    }

    fn carry_out(&mut self, effect: Effect, events: &mut VecDeque<Event>) {
        let store = self.store.as_ref().expect("a device");
        match effect {
            Effect::Commit(batch) => events.push_back(Event::Committed(block_on(store.commit(batch)))),
            Effect::Reopen(expected) => {
                self.reopenings += 1;
                events.push_back(Event::Reopened(block_on(reopen(store, &expected))));
            }
            Effect::ReadPages { ticket, keys } => {
                let pages = block_on(store.get(escale::store::Table::Pages, &keys));
                events.push_back(Event::PagesRead { ticket, pages });
            }
            Effect::ReadJournal { ticket, keys } => {
                let records = block_on(store.get(escale::store::Table::Journal, &keys));
                events.push_back(Event::JournalRead { ticket, records });
            }
            Effect::Send { number, request, .. } => {
                if self.is_offline {
                    let refusal = Refusal::from(Error::new(Code::Offline, "by the test"));
                    events.push_back(Event::Replied { number, reply: Err(refusal) });
                } else {
                    self.sent = Some((number, request));
                }
            }
            Effect::CancelSend(_) => self.sent = None,
            Effect::Answer { rows, .. } => {
                self.rows.clear();
                self.answers.push(rows.as_ref().map(Vec::len).map_err(Clone::clone));
                for row in rows.into_iter().flatten() {
                    self.rows.insert(row.pk.to_string(), row.data);
                }
            }
            Effect::Matched { ids, .. } => self.answers.push(ids.map(|ids| ids.len())),
            Effect::Past { actions, .. } => self.answers.push(actions.map(|actions| actions.len())),
            Effect::Swept { swept, .. } => self.answers.push(swept.map(|swept| swept.rowids.len())),
            Effect::Saved { id } => {
                self.issued.insert(id, true);
            }
            Effect::Accepted { id, result } => match result {
                Ok(_) => self.accepted.push(id),
                Err(_) => self.left.push(id),
            },
            Effect::Refused { id, .. } => self.refused.push(id),
            Effect::Amended { id, .. } => self.left.push(id),
            Effect::StatusChanged => {
                let storage = self.machine().status().storage;
                if self.states.last() != Some(&storage) {
                    self.states.push(storage);
                }
            }
            Effect::WakeAt(at) => self.wish = at,
            Effect::Tab(_) => panic!("a session alone on its device has no others"),
            Effect::Changed { .. }
            | Effect::OpenSocket(_)
            | Effect::Say { .. }
            | Effect::CloseSocket(_)
            | Effect::AskToken { .. } => {}
        }
    }

    /// Time passes. Before the machine is to be woken, it does nothing.
    pub fn wait(&mut self, ms: u64) {
        for now in [self.now, self.now + ms / 2, self.now + ms.saturating_sub(1)] {
            let clock = Clock { wall_ms: now, mono_ms: now - NOW + 1_000 };
            self.machine.iter_mut().for_each(|machine| check_asleep(machine, self.wish, clock));
        }
        self.now += ms;
        self.feed(Event::Woke);
    }

    /// When the machine wants to be woken, in milliseconds from now.
    pub fn wish_in(&self) -> Option<u64> {
        self.wish.map(|at| at.saturating_sub(self.now - NOW + 1_000))
    }

    fn reply(&mut self, request: &SyncRequest) -> SyncReply {
        let now = self.now;
        let (results, _) = self.server.operate(0, request, (0, now), &mut || false);
        let told = self.server.tell_now(0, now);
        self.server.reply(request, results, told)
    }

    /// Continues until nothing is left to do. A page that died is opened again.
    pub fn settle(&mut self) {
        for round in 0.. {
            assert!(round < 400, "a session that never settles: {:?}", self.machine().status());
            self.open();
            if let Some((number, request)) = self.sent.take() {
                self.now += 5;
                let reply = self.reply(&request);
                self.feed(Event::Replied { number, reply: Ok(reply) });
                continue;
            }
            let Some(machine) = &self.machine else { continue };
            let is_at_rest = machine.memory().is_clean() && !machine.is_committing();
            let status = machine.status();
            let waits = machine.operations().iter().any(|(op, held)| !*held && op.is_waiting());
            let is_away = matches!(status.storage, StorageState::Memory | StorageState::Full);
            let loads = machine.memory().collections().any(|(_, c)| c.is_loading(machine.memory().epoch().1));
            let misses = status.damaged.documents + status.damaged.collections > 0;
            if is_at_rest && !is_away && (self.is_offline || !(waits || loads || misses)) {
                return;
            }
            self.wait(1_000);
        }
    }

    pub fn write(&mut self, name: &str, args: Value) -> Option<String> {
        self.open();
        self.machine().check_write(name, &args).ok()?;
        let id = make_id(self.now, &mut self.random).expect("an id");
        let write =
            Write { id: id.clone(), name: name.to_owned(), args, touches: Vec::new(), after: Vec::new() };
        self.issued.insert(id.clone(), false);
        self.feed(Event::Write(write));
        Some(id)
    }

    pub fn read(&mut self, def: &Def) {
        self.open();
        let Some((ids, _, _)) = self.machine().list(def) else { return };
        self.feed(Event::Read { ticket: 2, ids });
    }

    pub fn sweep(&mut self) {
        self.open();
        self.feed(Event::Sweep { ticket: 4, retention: Retention::Count(1), apply: true });
    }

    pub fn history(&mut self, number: usize) {
        self.open();
        self.feed(Event::History { ticket: 6, key: (0, key(number).1) });
    }

    /// Changes the secret, as the browser's side does.
    pub fn change_secret(&mut self) {
        self.open();
        let (old, next) = (self.secret, self.secret + 1);
        let x = |secret: u8| DerivedKey::from_bytes([secret; 32]);
        let (header, store) =
            (self.header.clone().expect("a header"), self.store.as_ref().expect("a device"));
        let random = &mut SeededRandom::new(self.now);
        match block_on(rewrap(store, &header, WrapKind::Key, &x(old), &x(next), 0, random)) {
            Ok(header) => {
                self.secret = next;
                let bytes = header.to_bytes();
                self.header = Some(header);
                self.feed(Event::Rewrapped(bytes));
            }
            Err(error) => {
                self.other_secret = Some(next);
                self.feed(Event::DeviceClosed(error));
            }
        }
    }
}
