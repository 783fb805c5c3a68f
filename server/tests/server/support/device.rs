//! A device as in browsers: the session's own machine, with a network that delivers answers late, or never.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use escale::Code;
use escale::codec::{Format, LiveRequest, ServerFrame, ServerParts, SyncReply, SyncRequest, decode, encode};
use escale::journal::OpId;
use escale::memory::Content;
use escale::model::schema::Schema;
use escale::model::{Def, Epoch, Value};
use escale::sync::{Clock, Config, Effect, Event, Phase, Refusal, Write};
use escale_server::engine::Engine;
use escale_testkit::client::{Client, Hooks, Opening, config};

use crate::support::world::{NOON, SCHEMA, caller};

/// The contents of a def: each id with its version and the number in its data.
pub type Shown = BTreeMap<String, (u64, u64)>;

pub struct Device {
    client: Client<Live>,
    /// Answers in transit.
    answers: VecDeque<(u64, SyncReply)>,
}

/// A socket that opens and confirms subscriptions at once.
#[derive(Default)]
struct Live {
    /// The socket, once its subscriptions are confirmed.
    socket: Option<u64>,
}

impl Hooks for Live {
    fn network(&mut self, effect: Effect) -> Option<Event> {
        match effect {
            Effect::OpenSocket(socket) => Some(Event::SocketOpened { socket }),
            Effect::Say { socket, request: LiveRequest { subs, .. } } => {
                self.socket = Some(socket);
                let frame = Ok(ServerFrame::confirm(subs, Vec::new()));
                Some(Event::Frame { socket, frame })
            }
            _ => None,
        }
    }
}

impl Device {
    /// A device that is subscribed to these defs.
    pub fn new(defs: &[Def]) -> Self {
        Device::of("s", NOON, 7, defs)
    }

    /// The same under a session's name, at a time, from a seed.
    pub fn of(session: &str, wall_ms: u64, session_seed: u64, defs: &[Def]) -> Self {
        let config = Config { has_live: true, ..config() };
        let schema = Schema::from_json(SCHEMA).unwrap();
        let opening = Opening { config, session_seed, ..Opening::of("o", "a", schema) };
        let clock = Clock { wall_ms, mono_ms: 0 };
        let client = Client::new(opening.incognito(session), None, clock, Live::default());
        let mut device = Device { client, answers: VecDeque::new() };
        device.feed(Event::Started);
        for def in defs {
            device.feed(Event::Subscribe(def.clone()));
        }
        device
    }

    fn feed(&mut self, event: Event) {
        self.client.feed(event);
        self.client.machine.memory().check_links();
    }

    /// Lets time pass on the device.
    pub fn pass(&mut self, ms: u64) {
        self.client.clock.mono_ms += ms;
        self.feed(Event::Woke);
    }

    /// Gives a hint for every def. The device pulls them all as soon as no request is in flight.
    pub fn hint(&mut self) {
        let hints = self.client.machine.memory().collections().map(|(def, _)| (def.clone(), 1)).collect();
        if let Some(socket) = self.client.hooks.socket {
            self.feed(Event::Frame { socket, frame: Ok(ServerFrame::Hints(hints)) });
        }
    }

    /// Delivers a push, through the codec.
    pub fn take_push(&mut self, parts: ServerParts) {
        let bytes = encode(Format::Json, &ServerFrame::Parts(parts)).unwrap();
        let frame: ServerFrame = decode(Format::Json, &bytes, 1 << 20).unwrap();
        let socket = self.client.hooks.socket.expect("a socket");
        self.feed(Event::Frame { socket, frame: Ok(frame) });
    }

    /// Delivers the request to a server, if there is one. The answer is then in transit, and is returned as
    /// well.
    pub fn ask(&mut self, engine: &Engine) -> Option<SyncReply> {
        let (number, request) = self.client.sent.take()?;
        let bytes = encode(Format::Msgpack, &request).unwrap();
        let request: SyncRequest = decode(Format::Msgpack, &bytes, 1 << 20).unwrap();
        request.check().unwrap();
        let reply = engine.sync("o", &caller(), &request).unwrap();
        reply.check().unwrap();
        let bytes = encode(Format::Json, &reply).unwrap();
        self.answers.push_back((number, decode(Format::Json, &bytes, 1 << 20).unwrap()));
        Some(reply)
    }

    /// Delivers the oldest answer. With `again` it stays in transit, so that it arrives twice.
    pub fn hear(&mut self, again: bool) {
        let Some((number, reply)) = self.answers.pop_front() else { return };
        if again {
            self.answers.push_back((number, reply.clone()));
        }
        self.feed(Event::Replied { number, reply: Ok(reply) });
    }

    /// The device's request times out. Its answer may still arrive, when nobody awaits it.
    pub fn give_up(&mut self) {
        let number = match (&self.client.sent, self.answers.back()) {
            (Some((number, _)), _) | (None, Some((number, _))) => *number,
            (None, None) => return,
        };
        let refusal = Refusal::from(escale::Error::new(Code::Timeout, "no answer"));
        self.feed(Event::Replied { number, reply: Err(refusal) });
    }

    /// The network has recovered: all late answers arrive, then every def is pulled until nothing is left.
    /// Then all are pulled once more, as a session does every five minutes: a load in progress began before
    /// the last write, whose changes may be behind its cursor.
    pub fn catch_up(&mut self, engine: &Engine) {
        while !self.answers.is_empty() {
            self.hear(false);
        }
        self.feed(Event::Visible);
        for _ in 0..2 {
            self.hint();
            self.finish(engine);
        }
        assert_eq!(self.client.machine.status().phase, Phase::Live, "{:?}", self.client.machine.status());
    }

    fn finish(&mut self, engine: &Engine) {
        for _ in 0..1_000 {
            if self.ask(engine).is_none() {
                return;
            }
            self.hear(false);
        }
        panic!("a device that asks for ever");
    }

    /// Writes, with no network yet.
    pub fn write(&mut self, id: OpId, name: &str, args: Value) {
        let write = Write { id, name: name.into(), args, touches: Vec::new(), after: Vec::new() };
        self.feed(Event::Write(write));
    }

    /// How many operations wait for their answer.
    pub fn pending(&self) -> u64 {
        self.client.machine.status().pending
    }

    /// The operations that the server had accepted, and has lost since.
    pub fn lost_by_server(&self) -> BTreeSet<OpId> {
        self.client.machine.lost_by_server().iter().cloned().collect()
    }

    /// The epoch of the device's memory.
    pub fn epoch(&self) -> Option<&Epoch> {
        self.client.machine.memory().epoch().0
    }

    /// The defs that it is subscribed to.
    pub fn defs(&self) -> Vec<Def> {
        self.client.machine.memory().collections().map(|(def, _)| def.clone()).collect()
    }

    /// The contents of a def.
    pub fn shown(&self, def: &Def) -> Shown {
        let (ids, _, _) = self.client.machine.list(def).unwrap();
        ids.iter()
            .map(|id| {
                let (_, document) = self.client.machine.memory().by_id(*id).unwrap();
                let Content::Resident(data) = &document.content else { panic!("a document without data") };
                let map = data.to_map().unwrap();
                let number = map["size"].as_u64().unwrap();
                (map["id"].as_str().unwrap().to_owned(), (document.at.v, number))
            })
            .collect()
    }

    /// Whether a complete load of a def has finished.
    pub fn is_ready(&self, def: &Def) -> bool {
        self.client.machine.list(def).unwrap().1
    }
}
