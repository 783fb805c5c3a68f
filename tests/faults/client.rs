//! A session over a device that fails, driven by hand. It acts like a browser's driver, with an application
//! that opens again if its page has died.

use std::collections::BTreeMap;

use escale::codec::{Data, SyncReply, SyncRequest};
use escale::crypto::{DerivedKey, Header, SeededRandom, WrapKind, store_name};
use escale::journal::{Policy, Retention, make_id};
use escale::model::schema::Schema;
use escale::model::{Def, Value};
use escale::storage::{Damage, Limits, rewrap};
use escale::store::Store;
use escale::store::conformance::block_on;
use escale::sync::{Clock, Effect, Event, Machine, Refusal, StorageState, Write};
use escale::{Code, Error};

use crate::device::{FaultyDevice, FaultyStore};
use escale_testkit::client::{self, Call, Fate, Hooks, Opening};
use escale_testkit::schema::{SCHEMA, key};
use escale_testkit::server::ModelServer;
use escale_testkit::world::writes::Counters;

pub const NOW: u64 = 1_700_000_000_000;

pub struct Client {
    pub device: FaultyDevice,
    pub server: ModelServer,
    session: Option<client::Client<Told, FaultyStore>>,
    pub header: Option<Header>,
    /// The secret of X; and the other possible secret, if a change of it was interrupted.
    pub secret: u8,
    pub other_secret: Option<u8>,
    pub now: u64,
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
}

/// The events of a session until the application looks.
struct Told {
    device: FaultyDevice,
    is_offline: bool,
    reports: Vec<Effect>,
    states: Vec<StorageState>,
    reopenings: u64,
}

impl Hooks for Told {
    fn is_alive(&self) -> bool {
        !self.device.is_dead()
    }

    fn handled(&mut self, machine: &Machine) {
        machine.memory().check_links();
    }

    fn call(&mut self, call: &Call) -> Fate {
        self.reopenings += u64::from(matches!(call, Call::Reopen(_)));
        Fate::Done
    }

    fn request(&mut self, _request: &SyncRequest, _token: Option<String>) -> Option<Refusal> {
        self.is_offline.then(|| Refusal::from(Error::new(Code::Offline, "by the test")))
    }

    fn tell(&mut self, effect: Effect, machine: &Machine) {
        match effect {
            Effect::StatusChanged => self.states.push(machine.status().storage),
            Effect::Tab(_) => panic!("a session alone on its device has no others"),
            effect => self.reports.push(effect),
        }
    }
}

impl Client {
    pub fn new(device: FaultyDevice, server: ModelServer, limits: Limits) -> Self {
        Client {
            device,
            server,
            session: None,
            header: None,
            secret: 1,
            other_secret: None,
            now: NOW,
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
        }
    }

    pub fn store_name() -> String {
        store_name("org", "account")
    }

    /// Opens the session, and again if that fails, as a user who reloads the page.
    pub fn open(&mut self) {
        for _ in 0..6 {
            if self.is_open() {
                return;
            }
            self.openings += 1;
            self.device.revive();
            let opening = Opening {
                x: [self.secret; 32],
                creates: !self.makes_none,
                limits: self.limits,
                application: Box::new(Counters { policy: Policy::Overwrite }),
                seed: self.openings * 31 + 7,
                session_seed: self.openings * 77 + 5,
                ..Opening::of("org", "account", Schema::from_json(SCHEMA).expect("a schema"))
            };
            match opening.open(&self.device) {
                Ok(opened) => {
                    self.damage = opened.damage;
                    self.header = Some(opened.header.clone());
                    let told = Told {
                        device: self.device.clone(),
                        is_offline: false,
                        reports: Vec::new(),
                        states: Vec::new(),
                        reopenings: 0,
                    };
                    self.session = Some(client::Client::of(opened, self.clock(), told));
                    let status = self.machine().status();
                    self.told_lost += status.damaged.operations + self.damage.journal;
                    self.was_told |= status.error.is_some_and(|error| error.code() == Code::LocalDataLost);
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
        assert!(self.is_open(), "a store that never opens");
    }

    pub fn is_open(&self) -> bool {
        self.session.is_some()
    }

    pub fn machine(&self) -> &Machine {
        &self.session.as_ref().expect("an open session").machine
    }

    fn clock(&self) -> Clock {
        Clock { wall_ms: self.now, mono_ms: self.now - NOW + 1_000 }
    }

    /// The page dies: everything in progress is lost.
    pub fn die(&mut self) {
        self.session = None;
    }

    /// The page is closed in order: everything due is written first.
    pub fn close(&mut self) {
        if let Some(store) = self.session.as_ref().and_then(|session| session.store.as_ref()) {
            block_on(store.close());
        }
        self.die();
    }

    pub fn feed(&mut self, event: Event) {
        self.play(|session| session.feed(event));
    }

    /// Lets the session work, and takes its reports. If its page has died meanwhile, it is over.
    fn play(&mut self, does: impl FnOnce(&mut client::Client<Told, FaultyStore>)) {
        let (clock, is_offline) = (self.clock(), self.is_offline);
        let Some(session) = &mut self.session else { return };
        (session.clock, session.hooks.is_offline) = (clock, is_offline);
        does(session);
        let told = &mut session.hooks;
        self.states.append(&mut told.states);
        self.states.dedup();
        self.reopenings += std::mem::take(&mut told.reopenings);
        for report in std::mem::take(&mut told.reports) {
            self.note(report);
        }
        if self.device.is_dead() {
            self.die();
        }
    }

    fn note(&mut self, report: Effect) {
        match report {
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
            _ => {}
        }
    }

    /// Time passes. Before the machine is to be woken, it does nothing.
    pub fn wait(&mut self, ms: u64) {
        self.play(|session| session.wait(ms));
        self.now += ms;
    }

    /// When the machine wants to be woken, in milliseconds from now.
    pub fn wish_in(&self) -> Option<u64> {
        let at = self.session.as_ref()?.wake_at?;
        Some(at.saturating_sub(self.clock().mono_ms))
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
            if let Some((number, request)) = self.session.as_mut().and_then(|session| session.sent.take()) {
                self.now += 5;
                let reply = self.reply(&request);
                self.feed(Event::Replied { number, reply: Ok(reply) });
                continue;
            }
            let Some(client::Client { machine, .. }) = &self.session else { continue };
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
        let header = self.header.clone().expect("a header");
        let store = self.session.as_ref().and_then(|session| session.store.as_ref()).expect("a device");
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
