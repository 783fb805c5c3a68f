//! A test harness for the machine: the test feeds events by hand, and collects the effects.

use std::collections::VecDeque;

use escale::codec::{
    Data, Fault, LiveRequest, Op, OpOk, OpResult, Part, Row, ServerFrame, SyncReply, SyncRequest,
};
use escale::crypto::SeededRandom;
use escale::journal::make_id;
use escale::model::schema::Schema;
use escale::model::{Def, Epoch, Name, Pk, Value};
use escale::store::MemoryStore;
use escale::sync::{Clock, Config, Effect, Event, Machine, Phase, Refusal, Write};
use escale::{Code, Error};

use escale_testkit::asleep::check_asleep;
use escale_testkit::client::{self, Call, Client, Fate, Hooks, Opened, Opening};

pub const WALL: u64 = 1_700_000_000_000;

pub const SCHEMA: &str = r#"{
    "Doc": {
        "key": ["id"],
        "collections": { "section": { "key": ["section"], "mutable": true } },
        "indexes": { "size": "integer" }
    },
    "Note": { "key": ["id"] }
}"#;

pub struct Harness {
    pub client: Client<ByHand>,
    pub now: u64,
    pub wall: u64,
    /// Requests that the test has not taken yet.
    pub requests: VecDeque<(u64, SyncRequest, Option<String>)>,
}

/// Nothing is carried out: the test takes it.
#[derive(Default)]
pub struct ByHand {
    token: Option<String>,
    effects: Vec<Effect>,
}

impl Hooks for ByHand {
    fn call(&mut self, _call: &Call) -> Fate {
        Fate::Held
    }

    fn request(&mut self, _request: &SyncRequest, token: Option<String>) -> Option<Refusal> {
        self.token = token;
        None
    }

    fn network(&mut self, effect: Effect) -> Option<Event> {
        self.effects.push(effect);
        None
    }

    fn tell(&mut self, effect: Effect, _machine: &Machine) {
        self.effects.push(effect);
    }
}

pub fn config() -> Config {
    Config { watches_silence: true, ..client::config() }
}

pub fn schema() -> Schema {
    Schema::from_json(SCHEMA).expect("a schema")
}

pub fn def(text: &str) -> Def {
    text.parse().expect("a def")
}

/// The def of a section.
pub fn section(value: &str) -> Def {
    let name = |text| Name::new(text).expect("a name");
    Def::collection(&name("Doc"), &name("section"), &[value]).expect("a def")
}

pub fn pk(id: &str) -> Pk {
    Pk::from_key(&[id]).expect("a pk")
}

pub fn epoch(ms: u64) -> Epoch {
    Epoch::new(ms, "r").expect("an epoch")
}

/// The row of a document of the section "games".
pub fn row(id: &str, v: u64) -> Row {
    row_in(id, v, "games")
}

pub fn row_in(id: &str, v: u64, section: &str) -> Row {
    let map = [
        ("id".to_owned(), Value::from(id)),
        ("section".to_owned(), Value::from(section)),
        ("size".to_owned(), Value::from(v as i64)),
    ];
    let data = Data::from_map(&map.into()).expect("data");
    Row { pk: pk(id), v, deleted: false, max_life: None, data: Some(data) }
}

pub fn gone(id: &str, v: u64) -> Row {
    Row { pk: pk(id), v, deleted: true, max_life: None, data: None }
}

pub fn part(def: &Def, rows: Vec<Row>) -> Part {
    Part { rows, ..Part::empty(def.clone()) }
}

/// The last part of a pull from 0.
pub fn whole(def: &Def, rows: Vec<Row>) -> Part {
    let present = rows.iter().filter(|row| !row.deleted).map(|row| row.pk.clone()).collect();
    Part { present: Some(present), ..part(def, rows) }
}

pub fn reply(now: u64, parts: Vec<Part>) -> SyncReply {
    SyncReply::of(epoch(1), now, 100, parts)
}

pub fn refusal(code: Code) -> Refusal {
    Refusal::from(Error::new(code, "refused by the test"))
}

pub fn fault(def: &Def, code: Code) -> Part {
    Part { fault: Some(Fault::new(code, "by the test")), ..Part::empty(def.clone()) }
}

impl Harness {
    /// A machine without a device, started.
    pub fn new(config: Config) -> Self {
        let opening = Opening { config, session_seed: 7, ..Opening::of("o", "a", schema()) };
        Harness::of(opening.incognito("session"))
    }

    pub fn of(machine: Machine) -> Self {
        Harness::start(Client::new(machine, None, Clock::default(), ByHand::default()))
    }

    /// A machine over a device.
    pub fn over(opened: Opened<MemoryStore>) -> Self {
        Harness::start(Client::of(opened, Clock::default(), ByHand::default()))
    }

    fn start(client: Client<ByHand>) -> Self {
        let mut harness = Harness { client, now: 1_000, wall: WALL, requests: VecDeque::new() };
        harness.feed(Event::Started);
        harness
    }

    pub fn feed(&mut self, event: Event) {
        self.client.clock = Clock { wall_ms: self.wall, mono_ms: self.now };
        self.client.feed(event);
        if let Some((number, request)) = self.client.sent.take() {
            self.requests.push_back((number, request, self.client.hooks.token.take()));
        }
        self.client.machine.memory().check_links();
    }

    pub fn subscribe(&mut self, def: &Def) {
        self.feed(Event::Subscribe(def.clone()));
    }

    /// Takes the effects of a kind; the others stay.
    pub fn take<T>(&mut self, pick: impl Fn(&Effect) -> Option<T>) -> Vec<T> {
        let mut taken = Vec::new();
        self.client.hooks.effects.retain(|effect| pick(effect).map(|value| taken.push(value)).is_none());
        taken
    }

    /// Takes the calls of a kind to the device; the others stay.
    pub fn take_calls<T>(&mut self, pick: impl Fn(&Call) -> Option<T>) -> Vec<T> {
        let mut taken = Vec::new();
        self.client.held.retain(|call| pick(call).map(|value| taken.push(value)).is_none());
        taken
    }

    /// Takes all effects.
    pub fn take_all(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.client.hooks.effects)
    }

    /// The single request that was sent since the last call.
    pub fn request(&mut self) -> (u64, SyncRequest) {
        let (number, request, _) = self.requests.pop_front().expect("a request");
        assert!(self.requests.is_empty(), "one request: {:?} too", self.requests);
        (number, request)
    }

    pub fn answer(&mut self, number: u64, reply: SyncReply) {
        self.feed(Event::Replied { number, reply: Ok(reply) });
    }

    pub fn refuse(&mut self, number: u64, refusal: Refusal) {
        self.feed(Event::Replied { number, reply: Err(refusal) });
    }

    /// Answers every request until there is none, at `now`, with the part that `part` makes for each sub.
    pub fn serve(&mut self, now: u64, part: impl Fn(&Def) -> Part) {
        while let Some((number, request, _)) = self.requests.pop_front() {
            let parts = request.subs.iter().map(|sub| part(&sub.def)).collect();
            self.answer(number, reply(now, parts));
        }
    }

    /// The time at which the machine wants to be woken.
    pub fn wake_at(&self) -> Option<u64> {
        self.client.wake_at
    }

    /// Sets the time to `now`, and wakes the machine.
    pub fn wake(&mut self, now: u64) {
        assert!(now >= self.now, "time does not go back");
        for before in [self.now, now.saturating_sub(1).max(self.now), self.now.midpoint(now)] {
            let clock = Clock { wall_ms: self.wall, mono_ms: before };
            check_asleep(&mut self.client.machine, self.client.wake_at, clock);
        }
        self.now = now;
        self.feed(Event::Woke);
    }

    /// The socket that the machine opened since the last call.
    pub fn opened_socket(&mut self) -> Option<u64> {
        let pick = |effect: &Effect| match effect {
            Effect::OpenSocket(socket) => Some(*socket),
            _ => None,
        };
        self.take(pick).pop()
    }

    pub fn said(&mut self) -> Vec<LiveRequest> {
        self.take(|effect| match effect {
            Effect::Say { request, .. } => Some(request.clone()),
            _ => None,
        })
    }

    pub fn frame(&mut self, socket: u64, frame: ServerFrame) {
        self.feed(Event::Frame { socket, frame: Ok(frame) });
    }

    pub fn phase(&self) -> Phase {
        self.client.machine.status().phase
    }

    /// The code of the status's error.
    pub fn error(&self) -> Option<Code> {
        self.client.machine.status().error.map(|error| error.code())
    }

    /// The ids that a def shows, and their versions.
    pub fn shown(&self, def: &Def) -> Vec<(Pk, u64)> {
        let Some((ids, _, _)) = self.client.machine.list(def) else { return Vec::new() };
        let mut shown: Vec<(Pk, u64)> = ids
            .iter()
            .map(|id| self.client.machine.memory().by_id(*id).expect("an id that was listed"))
            .map(|(key, document)| (key.1.clone(), document.at.v))
            .collect();
        shown.sort_unstable();
        shown
    }

    pub fn v(&self, def: &Def) -> u64 {
        self.client.machine.list(def).expect("a subscribed def").2
    }

    pub fn is_ready(&self, def: &Def) -> bool {
        self.client.machine.list(def).expect("a subscribed def").1
    }
}

/// Those ids at those versions, in the form of [`Harness::shown`].
pub fn these(pairs: &[(&str, u64)]) -> Vec<(Pk, u64)> {
    let mut these: Vec<(Pk, u64)> = pairs.iter().map(|(id, v)| (pk(id), *v)).collect();
    these.sort_unstable();
    these
}

/// Writes a text of that length to a document.
pub fn patch(harness: &mut Harness, (pk, chars): (&str, usize), n: u64) {
    let set = Value::from([("text", Value::from("x".repeat(chars).as_str()))]);
    let args = Value::from([("class", "Doc".into()), ("key", Value::Array(vec![pk.into()])), ("set", set)]);
    let id = make_id(1_700_000_000_000 + n, &mut SeededRandom::new(n)).expect("an id");
    harness.feed(Event::Write(Write { id, name: "doc.patch".into(), args, touches: vec![], after: vec![] }));
}

/// The result of an operation that was executed at that version.
pub fn accepted(op: &Op, v: u64) -> OpResult {
    OpResult { id: op.id.clone(), ok: Some(OpOk { v, value: None, trees: Vec::new() }), fault: None }
}
