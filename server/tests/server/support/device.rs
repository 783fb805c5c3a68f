//! A device as in browsers: the session's own machine, with a network that delivers answers late, or never.

use std::collections::{BTreeMap, VecDeque};

use escale::Code;
use escale::codec::{Format, ServerFrame, SyncReply, SyncRequest, decode, encode};
use escale::crypto::SeededRandom;
use escale::memory::{Content, Memory};
use escale::model::schema::Schema;
use escale::model::{Def, Epoch};
use escale::storage::Damage;
use escale::sync::{Clock, Config, Effect, Event, Machine, Mode, Phase, Refusal};
use escale_server::engine::Engine;

use crate::support::world::{NOON, SCHEMA, caller};

/// The contents of a def: each id with its version and the number in its data.
pub type Shown = BTreeMap<String, (u64, u64)>;

pub struct Device {
    machine: Machine,
    mono: u64,
    /// Sent, but not at a server yet: one at a time (R5).
    request: Option<(u64, SyncRequest)>,
    /// Answers in transit.
    answers: VecDeque<(u64, SyncReply)>,
    /// The socket, once its subscriptions are confirmed.
    socket: Option<u64>,
}

impl Device {
    /// A device that is subscribed to these defs.
    pub fn new(defs: &[Def]) -> Self {
        let memory = Memory::new(Schema::from_json(SCHEMA).unwrap());
        let config = Config {
            mode: Mode::Synced,
            has_live: true,
            watches_silence: false,
            has_token: false,
            poll_every_ms: escale::limits::PULL_EVERY_MS,
        };
        let random = Box::new(SeededRandom::new(7));
        let machine = Machine::new(config, memory, None, Damage::default(), "s".into(), random);
        let mut device = Device { machine, mono: 0, request: None, answers: VecDeque::new(), socket: None };
        device.feed(Event::Started);
        for def in defs {
            device.feed(Event::Subscribe(def.clone()));
        }
        device
    }

    fn feed(&mut self, event: Event) {
        let clock = Clock { wall_ms: NOON, mono_ms: self.mono };
        let mut events = Vec::new();
        for effect in self.machine.handle(event, clock) {
            match effect {
                Effect::Send { number, request, .. } => {
                    assert!(self.request.replace((number, request)).is_none(), "two requests in flight");
                }
                Effect::CancelSend(_) => self.request = None,
                Effect::OpenSocket(socket) => events.push(Event::SocketOpened { socket }),
                Effect::Say { socket, request } => {
                    self.socket = Some(socket);
                    let frame = Ok(ServerFrame::Live { live: request.subs, refused: Vec::new() });
                    events.push(Event::Frame { socket, frame });
                }
                _ => {}
            }
        }
        self.machine.memory().check_links();
        for event in events {
            self.feed(event);
        }
    }

    /// Lets time pass on the device.
    pub fn pass(&mut self, ms: u64) {
        self.mono += ms;
        self.feed(Event::Woke);
    }

    /// Gives a hint for every def. The device pulls them all as soon as no request is in flight.
    pub fn hint(&mut self) {
        let hints = self.machine.memory().collections().map(|(def, _)| (def.clone(), 1)).collect();
        if let Some(socket) = self.socket {
            self.feed(Event::Frame { socket, frame: Ok(ServerFrame::Hints(hints)) });
        }
    }

    /// Delivers the request to a server, if there is one. The answer is then in transit, and is returned as
    /// well.
    pub fn ask(&mut self, engine: &Engine) -> Option<SyncReply> {
        let (number, request) = self.request.take()?;
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
        let number = match (&self.request, self.answers.back()) {
            (Some((number, _)), _) | (None, Some((number, _))) => *number,
            (None, None) => return,
        };
        self.request = None;
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
        assert_eq!(self.machine.status().phase, Phase::Live, "{:?}", self.machine.status());
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

    /// The epoch of the device's memory.
    pub fn epoch(&self) -> Option<&Epoch> {
        self.machine.memory().epoch().0
    }

    /// The defs that it is subscribed to.
    pub fn defs(&self) -> Vec<Def> {
        self.machine.memory().collections().map(|(def, _)| def.clone()).collect()
    }

    /// The contents of a def.
    pub fn shown(&self, def: &Def) -> Shown {
        let (ids, _, _) = self.machine.list(def).unwrap();
        ids.iter()
            .map(|id| {
                let (_, document) = self.machine.memory().by_id(*id).unwrap();
                let Content::Resident(data) = &document.content else { panic!("a document without data") };
                let map = data.to_map().unwrap();
                let number = map["size"].as_u64().unwrap();
                (map["id"].as_str().unwrap().to_owned(), (document.at.v, number))
            })
            .collect()
    }

    /// Whether a complete load of a def has finished.
    pub fn is_ready(&self, def: &Def) -> bool {
        self.machine.list(def).unwrap().1
    }
}
