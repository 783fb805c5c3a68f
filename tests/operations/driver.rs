//! A session on a device in memory, driven by hand: nothing is sent or answered until the test says so.

use std::ops::{Deref, DerefMut};

use escale::codec::{SyncReply, SyncRequest};
use escale::crypto::{SeededRandom, store_name};
use escale::journal::{Policy, Retention, make_id};
use escale::memory::DocKey;
use escale::model::schema::Schema;
use escale::model::{Def, Value};
use escale::store::MemoryDevice;
use escale::sync::{Application, Clock, Config, Effect, Event, Machine, Mode, Refusal, Write};
use escale::{Code, Error};

use escale_testkit::client::{Call, Client, Fate, Hooks, Opening, config};
use escale_testkit::schema::{Key, Map, SCHEMA, data, key, name};
use escale_testkit::server::{Habits, ModelServer, Write as ServerWrite};
use escale_testkit::world::writes::Counters;

pub const NOW: u64 = 1_700_000_000_000;

pub struct Driver {
    client: Client<Told>,
    pub device: MemoryDevice,
    pub now: u64,
    pub account: usize,
    pub random: SeededRandom,
}

/// The events of a session, and the faults of its device.
#[derive(Default)]
pub struct Told {
    pub requests: u64,
    /// The token of the last request.
    pub token: Option<String>,
    /// The records of the journal that were read.
    pub records_read: usize,
    /// The machine's reports on operations.
    pub told: Vec<Effect>,
    /// Requested pages do not arrive.
    pub holds_pages_back: bool,
    /// Batches wait to be written.
    pub holds_commits_back: bool,
    /// The device is full: batches are not written.
    pub is_full: bool,
}

impl Hooks for Told {
    fn call(&mut self, call: &Call) -> Fate {
        match call {
            Call::Commit(_) if self.is_full => Fate::Fails(Error::new(Code::StorageFull, "by the test")),
            Call::Commit(_) if self.holds_commits_back => Fate::Held,
            Call::Pages { .. } if self.holds_pages_back => Fate::Held,
            Call::Journal { ticket, keys } => {
                self.records_read += keys.len();
                assert_eq!(ticket % 2, 1, "even tickets are the driver's");
                Fate::Done
            }
            _ => Fate::Done,
        }
    }

    fn request(&mut self, _request: &SyncRequest, token: Option<String>) -> Option<Refusal> {
        self.requests += 1;
        self.token = token;
        None
    }

    fn network(&mut self, effect: Effect) -> Option<Event> {
        if !matches!(effect, Effect::CancelSend(_)) {
            self.told.push(effect);
        }
        None
    }

    fn tell(&mut self, effect: Effect, _machine: &Machine) {
        if !matches!(effect, Effect::Changed { .. } | Effect::StatusChanged) {
            self.told.push(effect);
        }
    }
}

impl Deref for Driver {
    type Target = Client<Told>;

    fn deref(&self) -> &Client<Told> {
        &self.client
    }
}

impl DerefMut for Driver {
    fn deref_mut(&mut self) -> &mut Client<Told> {
        &mut self.client
    }
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

impl Driver {
    pub fn new(account: usize, mode: Mode, policy: Policy) -> Self {
        Driver::open(account, mode, policy, MemoryDevice::new(), NOW)
    }

    pub fn open(account: usize, mode: Mode, policy: Policy, device: MemoryDevice, now: u64) -> Self {
        Driver::with(account, mode, Box::new(Counters { policy }), device, now)
    }

    /// A session with the functions of another application.
    pub fn with(
        account: usize,
        mode: Mode,
        application: Box<dyn Application>,
        device: MemoryDevice,
        now: u64,
    ) -> Self {
        let (has_live, has_token) = (account == LIVE_ACCOUNT, account == TOKEN_ACCOUNT);
        let name = format!("account{account}");
        let opening = Opening {
            x: [9; 32],
            config: Config { mode, has_live, has_token, ..config() },
            application,
            seed: now,
            session_seed: now ^ account as u64,
            ..Opening::of("org", &name, Schema::from_json(SCHEMA).expect("a schema"))
        };
        let client = if mode == Mode::Incognito {
            let machine = opening.incognito(&format!("incognito{account}"));
            Client::new(machine, None, Clock::default(), Told::default())
        } else {
            Client::of(opening.open(&device).expect("a store"), Clock::default(), Told::default())
        };
        let mut driver = Driver { client, device, now, account, random: SeededRandom::new(now ^ 7) };
        driver.feed(Event::Started);
        driver
    }

    /// The process ends, and another one begins.
    pub fn reopen(self, mode: Mode, policy: Policy) -> Self {
        self.reopen_with(mode, Box::new(Counters { policy }))
    }

    /// The same, with the functions of another application.
    pub fn reopen_with(self, mode: Mode, application: Box<dyn Application>) -> Self {
        let Driver { client, device, now, account, .. } = self;
        drop(client);
        Driver::with(account, mode, application, device, now)
    }

    pub fn store_name(&self) -> String {
        store_name("org", &format!("account{}", self.account))
    }

    pub fn feed(&mut self, event: Event) {
        self.read_clock();
        self.client.feed(event);
    }

    fn read_clock(&mut self) {
        self.client.clock = Clock { wall_ms: self.now, mono_ms: self.now - NOW + 1_000 };
    }

    /// Makes the oldest call that was kept back.
    pub fn make_held(&mut self) {
        let call = self.held.pop_front().expect("a call that was kept back");
        let event = self.make(call);
        self.feed(event);
    }

    /// Time passes. Before the machine is to be woken, it does nothing.
    pub fn wait(&mut self, ms: u64) {
        self.read_clock();
        self.client.wait(ms);
        self.now += ms;
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
        operations.iter().find(|(op, _)| op.state.refused.is_some()).map(|(op, _)| op.state.issued.id.clone())
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
        let mut args = self.machine.refused_op(id).expect("refused").state.issued.args.clone();
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
        self.seen_whole(number)?.get(property)?.as_f64().map(|n| n as i64)
    }

    /// A document, as the application sees it.
    pub fn seen_whole(&mut self, number: usize) -> Option<Map> {
        let key = key(number);
        let id = self.machine.find(&key.0, &key.1)?;
        self.feed(Event::Read { ticket: 6, ids: vec![id] });
        match self.hooks.told.pop() {
            Some(Effect::Answer { rows, .. }) => {
                Some(rows.expect("a device that reads").pop()?.data.to_map().expect("a map"))
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
        let told = self.hooks.told.iter().rposition(|effect| matches!(effect, Effect::Swept { .. }))?;
        match self.hooks.told.remove(told) {
            Effect::Swept { swept, .. } => Some(swept.map(|swept| swept.rowids)),
            _ => unreachable!(),
        }
    }

    pub fn history(&mut self, number: usize) -> Vec<(String, escale::journal::Action)> {
        self.feed(Event::History { ticket: 4, key: doc_key(number) });
        match self.hooks.told.pop() {
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
