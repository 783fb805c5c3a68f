//! A session whose server lies: replies and frames made of any bytes, then a server that is honest again.
//!
//! The session may have believed well-formed lies. So the honest server begins a later epoch than any in the
//! lies (R8). From then on the session must show the server's documents, and get rid of its operations.

use std::collections::HashMap;

use escale::codec::{
    Data, Fault, Format, OpOk, OpResult, Part, Row, ServerFrame, SyncReply, SyncRequest, decode,
};
use escale::crypto::SeededRandom;
use escale::journal::make_id;
use escale::limits::{REPLY_BYTES_MAX, VERSION_MAX};
use escale::model::schema::Schema;
use escale::model::{Def, Epoch, Pk, Value};
use escale::sync::{Clock, Config, Effect, Event, Machine, Mode, Refusal, Write};
use escale::{Code, Result};

use crate::client::{Client, Hooks, Opening, config};

const SCHEMA: &str = r#"{"Doc":{"key":["id"],"collections":{"section":{"key":["section"],"mutable":true}}}}"#;

/// The start, by the device's clock.
pub const WALL: u64 = 1_700_000_000_000;

/// The number of messages in one input.
const MESSAGES_MAX: usize = 6;

/// The application's subscriptions.
pub const DEFS: [&str; 2] = ["Doc", "Doc/section@h3TFcr2KJa2-sb_NXAJWrg"];

/// The most requests to the honest server until all is well.
const ROUNDS_MAX: usize = 400;

struct Harness {
    client: Client<Open>,
    random: SeededRandom,
}

/// Each socket opens at once.
#[derive(Default)]
struct Open {
    socket: Option<u64>,
    read: Vec<Data>,
}

impl Hooks for Open {
    fn network(&mut self, effect: Effect) -> Option<Event> {
        match effect {
            Effect::OpenSocket(socket) => {
                self.socket = Some(socket);
                return Some(Event::SocketOpened { socket });
            }
            Effect::CloseSocket(_) => self.socket = None,
            _ => {}
        }
        None
    }

    fn tell(&mut self, effect: Effect, _machine: &Machine) {
        if let Effect::Answer { rows, .. } = effect {
            self.read.extend(rows.into_iter().flatten().map(|row| row.data));
        }
    }
}

/// A server that executes each operation once, without effect, and has two documents.
struct Honest {
    epoch: Epoch,
    /// The operations executed for each session, in order.
    sessions: HashMap<String, Vec<String>>,
}

/// Feeds a session the messages in the bytes. Each has a kind, a length in two bytes, and its content.
pub fn session(bytes: &[u8]) -> bool {
    thread_local!(static PARSED: Schema = Schema::from_json(SCHEMA).expect("a schema"));
    let mut harness = Harness::new(PARSED.with(Clone::clone));
    let mut honest = Honest { epoch: epoch(1, "r"), sessions: HashMap::new() };
    harness.settle(&mut honest);
    harness.put("a");
    harness.settle(&mut honest);
    harness.put("b");
    harness.put("a");
    let mut is_read = false;
    for (kind, message) in messages(bytes) {
        is_read |= harness.lie(kind, message);
        harness.read_shown();
        harness.wake();
    }
    let told = harness.client.machine.memory().epoch().0.cloned();
    honest.epoch = later(told.filter(|told| *told > honest.epoch).as_ref().unwrap_or(&honest.epoch));
    harness.settle(&mut honest);
    harness.discard();
    harness.put("c");
    harness.settle(&mut honest);
    let status = harness.client.machine.status();
    assert_eq!(status.pending, 0, "the queue is stuck: {status:?}");
    for def in DEFS {
        let shown = harness.shown(&def.parse().expect("a def"));
        assert_eq!(shown, Honest::documents(&honest.epoch), "{def} shows something else");
    }
    is_read
}

/// The messages of an input.
fn messages(mut bytes: &[u8]) -> Vec<(u8, &[u8])> {
    let mut messages = Vec::new();
    while let Some(([kind, high, low], rest)) = bytes.split_first_chunk::<3>() {
        let len = usize::from(u16::from_be_bytes([*high, *low])).min(rest.len());
        let (message, rest) = rest.split_at(len);
        messages.push((*kind, message));
        bytes = rest;
        if messages.len() == MESSAGES_MAX {
            break;
        }
    }
    messages
}

/// An epoch after that one.
fn later(than: &Epoch) -> Epoch {
    match than.ms() {
        VERSION_MAX => epoch(VERSION_MAX, &"\u{10ffff}".repeat(250)),
        ms => epoch(ms + 1, "r"),
    }
}

fn epoch(ms: u64, random: &str) -> Epoch {
    Epoch::new(ms, random).expect("an epoch")
}

impl Harness {
    fn new(schema: Schema) -> Self {
        let config = Config { mode: Mode::Incognito, has_live: true, ..config() };
        let opening = Opening { config, session_seed: 7, ..Opening::of("o", "a", schema) };
        let clock = Clock { wall_ms: WALL + 1_000, mono_ms: 1_000 };
        let client = Client::new(opening.incognito("session"), None, clock, Open::default());
        let mut harness = Harness { client, random: SeededRandom::new(9) };
        harness.feed(Event::Started);
        DEFS.iter().for_each(|def| harness.feed(Event::Subscribe(def.parse().expect("a def"))));
        harness
    }

    fn feed(&mut self, event: Event) {
        self.client.feed(event);
        self.client.machine.memory().check_links();
    }

    /// Lets the time come at which the machine wants to be woken. Returns whether it wanted to be.
    fn wake(&mut self) -> bool {
        let Some(at) = self.client.wake_at else { return false };
        self.client.pass(at.saturating_sub(self.client.clock.mono_ms));
        self.feed(Event::Woke);
        true
    }

    fn put(&mut self, id: &str) {
        let data = Value::from([("id", Value::from(id)), ("section", Value::from("s"))]);
        let args = Value::from([("class", Value::from("Doc")), ("data", data)]);
        self.client.machine.check_write("doc.put", &args).expect("an operation that can be issued");
        let id = make_id(WALL, &mut self.random).expect("an id");
        self.feed(Event::Write(Write { id, name: "doc.put".into(), args, touches: vec![], after: vec![] }));
    }

    /// Discards the refused operations, as an application may.
    fn discard(&mut self) {
        let refused =
            self.client.machine.operations().into_iter().filter(|(op, _)| op.state.refused.is_some());
        let refused: Vec<String> = refused.map(|(op, _)| op.state.issued.id.clone()).collect();
        refused.into_iter().for_each(|id| self.feed(Event::Discard(id)));
    }

    /// Takes the bytes as a reply or a frame, in one of the two formats.
    fn lie(&mut self, kind: u8, message: &[u8]) -> bool {
        let format = if kind & 2 == 0 { Format::Msgpack } else { Format::Json };
        if kind & 1 == 1 {
            let Some(socket) = self.client.hooks.socket else { return false };
            let frame: Result<ServerFrame> = decode(format, message, REPLY_BYTES_MAX);
            let is_read = frame.is_ok();
            self.feed(Event::Frame { socket, frame });
            return is_read;
        }
        while self.client.sent.is_none() && self.wake() {}
        let Some((number, _)) = self.client.sent.take() else { return false };
        let reply = decode::<SyncReply>(format, message, REPLY_BYTES_MAX);
        let is_read = reply.is_ok();
        self.feed(Event::Replied { number, reply: reply.map_err(Refusal::from) });
        is_read
    }

    /// Reads the shown documents, as the application does.
    fn read_shown(&mut self) {
        for def in DEFS {
            let ids = self
                .client
                .machine
                .list(&def.parse().expect("a def"))
                .map(|(ids, ..)| ids)
                .unwrap_or_default();
            self.feed(Event::Read { ticket: 2, ids: ids.to_vec() });
        }
        let _ = self.client.machine.status();
        for data in std::mem::take(&mut self.client.hooks.read) {
            let _ = data.write_json(&mut Vec::new());
        }
    }

    fn shown(&self, def: &Def) -> Vec<(Pk, u64)> {
        let Some((ids, ..)) = self.client.machine.list(def) else { return Vec::new() };
        let of = |id: &u32| {
            let (key, document) = self.client.machine.memory().by_id(*id)?;
            Some((key.1.clone(), document.at.v))
        };
        let mut shown: Vec<(Pk, u64)> = ids.iter().filter_map(of).collect();
        shown.sort_unstable();
        shown
    }

    /// Lets the server answer until nothing is pending and each def has been loaded in its epoch.
    fn settle(&mut self, honest: &mut Honest) {
        for _ in 0..ROUNDS_MAX {
            if let Some((number, request)) = self.client.sent.take() {
                self.client.pass(5);
                self.feed(Event::Replied { number, reply: Ok(honest.answer(&request)) });
                continue;
            }
            let all =
                |def: &&str| self.shown(&def.parse().expect("a def")) == Honest::documents(&honest.epoch);
            if self.client.machine.status().pending == 0 && DEFS.iter().all(all) || !self.wake() {
                return;
            }
        }
    }
}

impl Honest {
    /// Its documents, which are in both defs.
    fn documents(epoch: &Epoch) -> Vec<(Pk, u64)> {
        let v = epoch.ms().min(VERSION_MAX - 10) + 1;
        let mut documents: Vec<(Pk, u64)> =
            ["a", "x"].into_iter().map(|id| (Pk::from_key(&[id]).expect("a pk"), v)).collect();
        documents.sort_unstable();
        documents
    }

    fn answer(&mut self, request: &SyncRequest) -> SyncReply {
        let v = self.epoch.ms().min(VERSION_MAX - 10) + 1;
        let executed = self.sessions.entry(request.session.clone()).or_default();
        let mut results = Vec::new();
        for op in &request.ops {
            let is_known = executed.contains(&op.id);
            if op.seq == executed.len() as u64 + 1 && !is_known {
                executed.push(op.id.clone());
            }
            let code = match executed.iter().position(|id| *id == op.id) {
                Some(_) => None,
                None if op.seq > executed.len() as u64 => Some(Code::OrderGap),
                None => Some(Code::SessionReused),
            };
            let ok = code.is_none().then_some(OpOk { v, value: None, trees: Vec::new() });
            results.push(OpResult { id: op.id.clone(), ok, fault: code.map(|code| Fault::new(code, "")) });
            if code == Some(Code::OrderGap) {
                break;
            }
        }
        let seq = executed.len() as u64;
        let parts = request.subs.iter().map(|sub| self.part(&sub.def)).collect();
        SyncReply { seq, results, ..SyncReply::of(self.epoch.clone(), v + 2, 1, parts) }
    }

    fn part(&self, def: &Def) -> Part {
        if !DEFS.contains(&def.to_string().as_str()) {
            return Part { fault: Some(Fault::new(Code::UnknownDef, "")), ..Part::empty(def.clone()) };
        }
        let documents = Honest::documents(&self.epoch);
        let present = Some(documents.iter().map(|(pk, _)| pk.clone()).collect());
        let row = |(pk, v): (Pk, u64)| {
            let id = if pk == Pk::from_key(&["a"]).expect("a pk") { "a" } else { "x" };
            let map = [("id".to_owned(), Value::from(id)), ("section".to_owned(), Value::from("s"))];
            Row { pk, v, deleted: false, max_life: None, data: Data::from_map(&map.into()).ok() }
        };
        Part { rows: documents.into_iter().map(row).collect(), present, ..Part::empty(def.clone()) }
    }
}
