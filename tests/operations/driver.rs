//! A session on a device in memory, driven by hand: nothing is sent or answered until the test says so.

use std::collections::VecDeque;

use escale::codec::{SyncReply, SyncRequest};
use escale::crypto::{DerivedKey, SeededRandom, WrapKind, store_name};
use escale::journal::{Policy, Retention, make_id};
use escale::memory::{DocKey, Memory};
use escale::model::{Def, Value};
use escale::storage::{AccountOptions, Damage, JournalAtRest, open_account};
use escale::store::conformance::block_on;
use escale::store::{Batch, MemoryDevice, MemoryStore, Store, Table};
use escale::sync::{Clock, Config, Effect, Event, Machine, Mode, Write};
use escale::{Code, Error};

use escale_testkit::asleep::check_asleep;
use escale_testkit::schema::{Key, Map, SCHEMA, data, key, name};
use escale_testkit::server::{Habits, ModelServer, Write as ServerWrite};
use escale_testkit::world::writes::Counters;

pub const NOW: u64 = 1_700_000_000_000;

pub struct Driver {
    pub machine: Machine,
    pub device: MemoryDevice,
    pub store: Option<MemoryStore>,
    pub now: u64,
    pub account: usize,
    /// The request that waits for its answer.
    pub sent: Option<(u64, SyncRequest)>,
    pub requests: u64,
    /// The records of the journal that were read.
    pub records_read: usize,
    /// When the machine wants to be woken.
    wake_at: Option<u64>,
    /// The token of the last request.
    pub token: Option<String>,
    /// The machine's reports on operations.
    pub told: Vec<Effect>,
    pub random: SeededRandom,
    /// Requested pages do not arrive.
    pub holds_pages_back: bool,
    /// Batches that wait to be written.
    pub held_commits: Option<Vec<Batch>>,
    /// The device is full: batches are not written.
    pub is_full: bool,
}

/// A server with that many counters.
pub fn server(counters: usize) -> ModelServer {
    let mut server = ModelServer::new(Habits::of(80), 1, NOW);
    for number in 0..counters {
        put(&mut server, number, data(number, None, 0, 0));
    }
    server
}

/// Another client's write.
pub fn put(server: &mut ModelServer, number: usize, data: Map) {
    let v = server.db.highest.max(NOW) + 1;
    server.db.write(v, &[ServerWrite::Put { key: key(number), data, max_life: None }]);
}

/// Only the sessions of this account have a socket.
pub const LIVE_ACCOUNT: usize = 77;
/// Only the sessions of this account have a token.
pub const TOKEN_ACCOUNT: usize = 78;

fn config(mode: Mode, account: usize) -> Config {
    let (has_live, has_token) = (account == LIVE_ACCOUNT, account == TOKEN_ACCOUNT);
    let poll_every_ms = escale::limits::PULL_EVERY_MS;
    Config { mode, has_live, watches_silence: false, has_token, poll_every_ms }
}

impl Driver {
    pub fn new(account: usize, mode: Mode, policy: Policy) -> Self {
        Driver::open(account, mode, policy, MemoryDevice::new(), NOW)
    }

    pub fn open(account: usize, mode: Mode, policy: Policy, device: MemoryDevice, now: u64) -> Self {
        let number = account;
        let schema = escale::model::schema::Schema::from_json(SCHEMA).expect("a schema");
        let source = Box::new(SeededRandom::new(now ^ account as u64));
        let application = Box::new(Counters { policy });
        let (machine, store) = if mode == Mode::Incognito {
            let session = format!("incognito{account}");
            let machine = Machine::new(
                config(mode, number),
                Memory::new(schema),
                None,
                Damage::default(),
                session,
                source,
            );
            (machine.with_writes(JournalAtRest::default(), application), None)
        } else {
            let account = format!("account{account}");
            let options =
                AccountOptions { org: "org", account: &account, by: WrapKind::Key, rounds: 0, create: true };
            let derive = async |_| Ok(DerivedKey::from_bytes([9; 32]));
            let mut random = SeededRandom::new(now);
            let opened =
                block_on(open_account(&device, &options, schema, derive, &mut random)).expect("a store");
            let rest = Some(opened.layout);
            let machine =
                Machine::new(config(mode, number), opened.memory, rest, opened.damage, String::new(), source);
            (machine.with_writes(opened.journal, application), Some(opened.store))
        };
        let mut driver = Driver {
            machine,
            device,
            store,
            now,
            account,
            sent: None,
            requests: 0,
            records_read: 0,
            wake_at: None,
            token: None,
            told: Vec::new(),
            random: SeededRandom::new(now ^ 7),
            holds_pages_back: false,
            held_commits: None,
            is_full: false,
        };
        driver.feed(Event::Started);
        driver
    }

    /// The process ends, and another one begins.
    pub fn reopen(self, mode: Mode, policy: Policy) -> Self {
        let Driver { machine, device, store, now, account, .. } = self;
        drop((machine, store));
        Driver::open(account, mode, policy, device, now)
    }

    pub fn store_name(&self) -> String {
        store_name("org", &format!("account{}", self.account))
    }

    pub fn feed(&mut self, event: Event) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let clock = Clock { wall_ms: self.now, mono_ms: self.now - NOW + 1_000 };
            for effect in self.machine.handle(event, clock) {
                match effect {
                    Effect::Commit(_) if self.is_full => {
                        let full = Error::new(Code::StorageFull, "by the test");
                        events.push_back(Event::Committed(Err(full)));
                    }
                    Effect::Commit(batch) if self.held_commits.is_some() => {
                        self.held_commits.get_or_insert_default().push(batch);
                    }
                    Effect::Commit(batch) => {
                        let result = block_on(self.store.as_ref().expect("a device").commit(batch));
                        events.push_back(Event::Committed(result));
                    }
                    Effect::ReadPages { .. } if self.holds_pages_back => {}
                    Effect::ReadPages { ticket, keys } => {
                        let pages = block_on(self.store.as_ref().expect("a device").get(Table::Pages, &keys));
                        events.push_back(Event::PagesRead { ticket, pages });
                    }
                    Effect::ReadJournal { ticket, keys } => {
                        self.records_read += keys.len();
                        assert_eq!(ticket % 2, 1, "even tickets are the driver's");
                        let records =
                            block_on(self.store.as_ref().expect("a device").get(Table::Journal, &keys));
                        events.push_back(Event::JournalRead { ticket, records });
                    }
                    Effect::Send { number, request, token, .. } => {
                        self.requests += 1;
                        self.token = token;
                        self.sent = Some((number, request));
                    }
                    Effect::CancelSend(_) => self.sent = None,
                    Effect::WakeAt(at) => self.wake_at = at,
                    Effect::Changed { .. } | Effect::StatusChanged => {}
                    effect => self.told.push(effect),
                }
            }
        }
    }

    /// Writes a batch that was kept back.
    pub fn commit(&mut self, batch: Batch) {
        let result = block_on(self.store.as_ref().expect("a device").commit(batch));
        self.feed(Event::Committed(result));
    }

    /// Time passes. Before the machine is to be woken, it does nothing.
    pub fn wait(&mut self, ms: u64) {
        for now in [self.now, self.now + ms / 2, self.now + ms.saturating_sub(1)] {
            let clock = Clock { wall_ms: now, mono_ms: now - NOW + 1_000 };
            check_asleep(&mut self.machine, self.wake_at, clock);
        }
        self.now += ms;
        self.feed(Event::Woke);
    }

    /// The server's answer to a request.
    pub fn answer(&self, server: &mut ModelServer, request: &SyncRequest) -> SyncReply {
        let (results, _) = server.operate(self.account, request, (0, self.now), &mut || false);
        let results = server.complete(self.account, &request.ops, &results);
        let told = server.tell_now(0, self.now);
        server.reply(request, results, told)
    }

    /// Answers every request, until none is sent any more.
    pub fn settle(&mut self, server: &mut ModelServer) {
        for _ in 0..10_000 {
            let Some((number, request)) = self.sent.take() else {
                if self.machine.status().pending == 0 || self.is_stuck() {
                    return;
                }
                self.wait(1_000);
                continue;
            };
            self.now += 5;
            let reply = self.answer(server, &request);
            self.feed(Event::Replied { number, reply: Ok(reply) });
        }
        panic!("a session that never settles");
    }

    /// Whether every waiting operation is blocked by a refused one.
    fn is_stuck(&self) -> bool {
        self.machine.operations().iter().all(|(op, held)| *held || !op.is_waiting())
    }

    pub fn subscribe(&mut self, server: &mut ModelServer) {
        self.feed(Event::Subscribe(Def::class_of(&name("Doc"))));
        self.settle(server);
    }

    pub fn write(&mut self, name: &str, args: Value) -> String {
        self.write_touching(name, args, Vec::new())
    }

    /// Issues an operation that declares the documents that it touches.
    pub fn write_touching(&mut self, name: &str, args: Value, touches: Vec<DocKey>) -> String {
        self.machine.check_write(name, &args).expect("an operation that can be issued");
        let id = make_id(self.now, &mut self.random).expect("an id");
        let write = Write { id: id.clone(), name: name.to_owned(), args, touches, after: Vec::new() };
        self.feed(Event::Write(write));
        id
    }

    /// The first of the operations that the server refused.
    pub fn first_refused(&self) -> Option<String> {
        let operations = self.machine.operations();
        operations.iter().find(|(op, _)| op.state.refused.is_some()).map(|(op, _)| op.state.id.clone())
    }

    pub fn patch(&mut self, number: usize, set: &[(&str, i64)]) -> String {
        let set = set.iter().map(|(name, n)| ((*name).to_owned(), Value::from(*n))).collect();
        let class = ("class", Value::from("Doc"));
        self.write("doc.patch", Value::from([class, ("key", id(number)), ("set", Value::Map(set))]))
    }

    /// The arguments of a patch that sets a text of that many bytes.
    pub fn large(number: usize, property: &str, bytes: usize) -> Value {
        let set = Value::from([(property, Value::String("x".repeat(bytes)))]);
        Value::from([("class", "Doc".into()), ("key", id(number)), ("set", set)])
    }

    /// The arguments of a refused operation, without the property that the model of the server refuses.
    pub fn without_poison(&self, id: &str) -> Value {
        let mut args = self.machine.refused_op(id).expect("refused").state.args.clone();
        let set = args.as_map_mut().and_then(|args| args.get_mut("set")).and_then(Value::as_map_mut);
        set.expect("a patch").remove("poison");
        args
    }

    pub fn add(&mut self, number: usize, by: i64) -> String {
        let args = [("key", id(number)), ("property", "n".into()), ("by", Value::from(by))];
        let mut args = Value::from(args);
        args.as_map_mut().expect("a map").insert("class".to_owned(), "Doc".into());
        self.write("add", args)
    }

    /// A document's property, as the application sees it.
    pub fn seen(&mut self, number: usize, property: &str) -> Option<i64> {
        let key = key(number);
        let id = self.machine.find(&key.0, &key.1)?;
        self.feed(Event::Read { ticket: 6, ids: vec![id] });
        match self.told.pop() {
            Some(Effect::Answer { rows, .. }) => {
                let data = rows.expect("a device that reads").pop().expect("a document").data;
                data.to_map().expect("a map").get(property)?.as_f64().map(|n| n as i64)
            }
            other => panic!("{other:?}"),
        }
    }

    pub fn sweep(&mut self, retention: Retention, apply: bool) -> escale::Result<Vec<i64>> {
        self.feed(Event::Sweep { ticket: 2, retention, apply });
        self.swept().expect("an answer")
    }

    /// The result of the last sweep that has finished.
    pub fn swept(&mut self) -> Option<escale::Result<Vec<i64>>> {
        let told = self.told.iter().rposition(|effect| matches!(effect, Effect::Swept { .. }))?;
        match self.told.remove(told) {
            Effect::Swept { swept, .. } => Some(swept.map(|swept| swept.rowids)),
            _ => unreachable!(),
        }
    }

    pub fn history(&mut self, number: usize) -> Vec<(String, escale::journal::Action)> {
        self.feed(Event::History { ticket: 4, key: doc_key(number) });
        match self.told.pop() {
            Some(Effect::Past { actions, .. }) => actions.expect("a device that reads"),
            other => panic!("{other:?}"),
        }
    }
}

pub fn id(number: usize) -> Value {
    Value::Array(vec![Value::String(format!("id{number}"))])
}

pub fn doc_key(number: usize) -> DocKey {
    (0, key(number).1)
}

/// A property of a document on the server.
pub fn stored(server: &ModelServer, number: usize, property: &str) -> Option<i64> {
    let key: Key = key(number);
    let stored = server.db.docs.get(&key).filter(|stored| !stored.deleted)?;
    stored.data.get(property)?.as_f64().map(|n| n as i64)
}
