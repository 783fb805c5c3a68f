//! R29: local documents survive every end that operations do. Random histories of one session against a naive map. The
//! server is the model's, and no request may name the class.

use std::collections::{BTreeMap, BTreeSet};

use escale::codec::SyncRequest;
use escale::crypto::{Random, SeededRandom};
use escale::journal::make_id;
use escale::model::schema::Schema;
use escale::model::{Def, Value};
use escale::store::MemoryDevice;
use escale::sync::{Clock, Effect, Event, Machine, Mode, Refusal, Write};
use escale::{Code, Error};
use escale_testkit::backend::Backend;
use escale_testkit::client::{Call, Client, Fate, Hooks, Opening};
use escale_testkit::schema::{SCHEMA, name};
use escale_testkit::seeds;
use escale_testkit::server::{Habits, ModelServer};

const NOW: u64 = 1_700_000_000_000;
const STEPS: usize = 60;

/// The documents by id, each with its number and its box.
type Drafts = BTreeMap<String, (i64, String)>;

#[derive(Default)]
struct Surroundings {
    /// The device holds calls back, or fails them.
    is_slow: bool,
    is_failing: bool,
    saved: Vec<String>,
    ended: Vec<(String, escale::Result<u64>)>,
    amended: Vec<(String, String)>,
}

impl Hooks for Surroundings {
    fn call(&mut self, call: &Call) -> Fate {
        let is_write = matches!(call, Call::Commit(_));
        if is_write && self.is_failing {
            return Fate::Fails(Error::new(Code::StorageFull, "by the test"));
        }
        if is_write && self.is_slow { Fate::Held } else { Fate::Done }
    }

    fn request(&mut self, request: &SyncRequest, _: Option<String>) -> Option<Refusal> {
        let text = format!("{request:?}");
        assert!(!text.contains("Draft"), "R29: something of a local class is sent: {text}");
        None
    }

    fn tell(&mut self, effect: Effect, _: &Machine) {
        match effect {
            Effect::Saved { id } => self.saved.push(id),
            Effect::Accepted { id, result } => self.ended.push((id, result.map(|(v, _)| v))),
            Effect::Amended { id, by } => self.amended.push((id, by)),
            _ => {}
        }
    }
}

struct History {
    client: Client<Surroundings>,
    device: MemoryDevice,
    server: ModelServer,
    random: SeededRandom,
    now: u64,
    number: i64,
    /// The application's documents, and those that a crash must not undo.
    drafts: Drafts,
    saved: Drafts,
    /// The states after each write that was not reported as saved yet.
    open: Vec<(String, Drafts)>,
    /// By the id of a batch: the documents that it has written and nothing has since, as they were before.
    before: BTreeMap<String, BTreeMap<String, Option<(i64, String)>>>,
}

fn opened(device: &MemoryDevice, seed: u64) -> Client<Surroundings> {
    let classes = SCHEMA.trim_end().strip_suffix('}').expect("classes");
    let draft = r#""Draft": { "key": ["id"], "local": true, "indexes": { "n": "integer" },
        "collections": { "box": { "key": ["box"], "mutable": true } } }"#;
    let schema = Schema::from_json(&format!("{classes}, {draft} }}")).expect("a schema");
    let opening = Opening { seed: 5, session_seed: seed ^ 0xabcd, ..Opening::of("o", "a", schema) };
    let opened = opening.open(device).expect("opened");
    assert!(!opened.damage.any(), "R7: {:?}", opened.damage);
    Client::of(opened, Clock { wall_ms: NOW, mono_ms: NOW }, Surroundings::default())
}

impl History {
    fn new(seed: u64) -> Self {
        let device = MemoryDevice::shared();
        let mut history = History {
            client: opened(&device, seed),
            device,
            server: ModelServer::new(Habits::of(seed), 1, NOW),
            random: SeededRandom::new(seed),
            now: NOW,
            number: 0,
            drafts: Drafts::new(),
            saved: Drafts::new(),
            open: Vec::new(),
            before: BTreeMap::new(),
        };
        history.begin();
        for def in [Def::class_of(&name("Draft")), Def::class_of(&name("Doc")), box_of("in"), box_of("out")] {
            history.feed(Event::Subscribe(def));
        }
        history
    }

    fn begin(&mut self) {
        self.feed(Event::Started);
    }

    fn below(&mut self, n: u64) -> u64 {
        self.random.below(n).expect("random")
    }

    fn feed(&mut self, event: Event) {
        self.client.clock = Clock { wall_ms: self.now, mono_ms: self.now };
        self.client.feed(event);
        self.note();
    }

    /// A write that was reported as saved holds, and so do those before it: the journal has them in one order.
    fn note(&mut self) {
        let hooks = &mut self.client.hooks;
        for (old, by) in std::mem::take(&mut hooks.amended) {
            self.open.iter_mut().filter(|(id, _)| *id == old).for_each(|(id, _)| id.clone_from(&by));
        }
        for id in std::mem::take(&mut hooks.saved) {
            if let Some(last) = self.open.iter().rposition(|(own, _)| *own == id) {
                self.saved = self.open.drain(..=last).next_back().expect("it is there").1;
            }
        }
        for (id, end) in std::mem::take(&mut hooks.ended) {
            assert!(end.is_ok(), "{id} ended as {end:?}");
        }
    }

    /// One part of a write, in the application's words, and its effect on the naive map.
    fn part(&mut self, drafts: &mut Drafts) -> (String, Value) {
        self.number += 1;
        let n = self.number;
        let id = format!("d{}", self.below(4));
        let section = ["in", "out"][self.below(2) as usize];
        let key = ("key", Value::Array(vec![id.as_str().into()]));
        let (op, what) = match self.below(7) {
            0..=2 => {
                drafts.insert(id.clone(), (n, section.to_owned()));
                let data =
                    Value::from([("id", id.as_str().into()), ("n", n.into()), ("box", section.into())]);
                ("doc.put", vec![("data", data)])
            }
            3 => {
                drafts.entry(id).and_modify(|draft| draft.0 = n);
                ("doc.patch", vec![key, ("set", Value::from([("n", Value::from(n))]))])
            }
            4 => {
                drafts.entry(id).and_modify(|draft| section.clone_into(&mut draft.1));
                ("doc.patch", vec![key, ("set", Value::from([("box", section.into())]))])
            }
            _ => {
                drafts.remove(&id);
                ("doc.delete", vec![key])
            }
        };
        let mut args: BTreeMap<String, Value> = what.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
        args.insert("class".to_owned(), "Draft".into());
        (op.to_owned(), Value::Map(args))
    }

    /// A write of the server's class. Some are refused.
    fn of_server(&mut self) -> (String, Value) {
        self.number += 1;
        let mut data = BTreeMap::from([
            ("id".to_owned(), Value::from(format!("id{}", self.below(3)).as_str())),
            ("size".to_owned(), Value::from(self.number)),
        ]);
        if self.below(3) == 0 {
            data.insert("poison".to_owned(), true.into());
        }
        ("doc.put".to_owned(), Value::from([("class", "Doc".into()), ("data", Value::Map(data))]))
    }

    fn write(&mut self) {
        let mut drafts = self.drafts.clone();
        let (mut written, mut put): (BTreeSet<String>, BTreeSet<String>) = Default::default();
        let mut is_sent = false;
        let (op, args) = if self.below(3) == 0 {
            let mut parts = Vec::new();
            for _ in 0..=self.below(3) {
                let is_of_server = self.below(3) == 0;
                let part = if is_of_server { self.of_server() } else { self.part(&mut drafts) };
                is_sent |= is_of_server;
                written.extend(id_of(&part.1).filter(|_| !is_of_server));
                put.extend(id_of(&part.1).filter(|_| !is_of_server && part.0 == "doc.put"));
                parts.push(Value::from([("name", part.0.as_str().into()), ("args", part.1)]));
            }
            ("batch".to_owned(), Value::from([("ops", Value::Array(parts))]))
        } else {
            let part = self.part(&mut drafts);
            written.extend(id_of(&part.1));
            put.extend(id_of(&part.1).filter(|_| part.0 == "doc.put"));
            part
        };
        if let Err(error) = self.client.machine.check_write(&op, &args) {
            assert_eq!(error.code(), Code::NotFound, "a patch or a deletion of no draft: {args:?}");
            return;
        }
        let id = make_id(self.now, &mut self.random).expect("an id");
        // A patch or a deletion of no draft writes nothing.
        written.retain(|id| self.drafts.contains_key(id) || put.contains(id));
        self.keep_written(&written);
        if is_sent {
            let before = written.into_iter().map(|id| (id.clone(), self.drafts.get(&id).cloned()));
            self.before.insert(id.clone(), before.collect());
        }
        self.drafts.clone_from(&drafts);
        self.open.push((id.clone(), drafts));
        self.feed(Event::Write(Write { id, name: op, args, touches: vec![], after: vec![] }));
    }

    /// Answers the request that is open, or loses it.
    fn answer(&mut self) {
        let Some((number, request)) = self.client.sent.take() else { return };
        let reply = if self.below(5) == 0 {
            Err(Refusal::from(Error::new(Code::Offline, "lost on the way")))
        } else {
            let (results, _) = self.server.operate(0, &request, (0, self.now), &mut || false);
            let told = self.server.tell_now(0, self.now);
            Ok(self.server.reply(&request, results, told))
        };
        self.feed(Event::Replied { number, reply });
    }

    /// Batches that the device held back are written.
    fn thaw(&mut self) {
        self.client.hooks.is_slow = false;
        self.client.hooks.is_failing = false;
        while let Some(call) = self.client.held.pop_front() {
            let event = self.client.make(call);
            self.feed(event);
        }
        self.now += 31_000;
        self.feed(Event::Woke);
    }

    /// The process ends, and another one opens the store. Held batches may have been written or not.
    fn restart(&mut self) {
        if self.below(2) == 0 {
            self.thaw();
        }
        let seed = self.below(1 << 40);
        self.client = opened(&self.device, seed);
        let shown = self.shown();
        let is_allowed = self.saved == shown || self.open.iter().any(|(_, drafts)| *drafts == shown);
        assert!(is_allowed, "R29: {shown:?}, and saved was {:?}", self.saved);
        self.drafts.clone_from(&shown);
        self.saved = shown;
        self.open.clear();
        // Which of the decisions were saved is seen by the operations that are left.
        let left = self.client.machine.operations();
        let of = |data: &escale::codec::Data| {
            let data = data.to_map().expect("a map");
            // No document is an empty map.
            Some((data.get("n")?.as_f64()? as i64, data["box"].as_str().expect("text").to_owned()))
        };
        let schema = self.client.machine.memory().schema();
        let class = schema.class("Draft").expect("a class");
        let ids: BTreeMap<_, _> = (0..4)
            .map(|n| format!("d{n}"))
            .map(|id| (class.pk_of(&[id.as_str()]).expect("a key"), id.clone()))
            .collect();
        let drafts = |op: &escale::journal::PendingOp| {
            let drafts = op.state.drafts.iter();
            drafts.map(|(_, pk, before)| (ids[pk].clone(), of(before))).collect()
        };
        self.before = left.iter().map(|(op, _)| (op.state.issued.id.clone(), drafts(op))).collect();
        self.begin();
    }

    fn step(&mut self) {
        self.now += self.random.below(400).expect("random");
        match self.below(20) {
            0..=8 => self.write(),
            9..=11 => self.answer(),
            12 => self.server.renew(self.now),
            13 => self.client.hooks.is_slow = true,
            14 => self.client.hooks.is_failing = true,
            15..=16 => self.thaw(),
            17 => self.restart(),
            18 => {
                let mode = if self.below(2) == 0 { Mode::Avion } else { Mode::Synced };
                self.feed(Event::SetMode(mode));
            }
            _ => self.decide(),
        }
        assert_eq!(self.shown(), self.drafts, "R29: the documents are those of the naive map");
    }

    /// No batch before it puts these documents back.
    fn keep_written(&mut self, written: &BTreeSet<String>) {
        self.before.values_mut().for_each(|before| before.retain(|id, _| !written.contains(id)));
    }

    /// The application discards a refused operation: its documents are as before it, unless something has written them since.
    /// Or it issues the operation again, and they stay as they are.
    fn decide(&mut self) {
        let operations = self.client.machine.operations();
        let refused = operations.iter().find(|(op, _)| op.state.refused.is_some());
        let Some(id) = refused.map(|(op, _)| op.state.issued.id.clone()) else { return };
        drop(operations);
        let before = self.before.remove(&id).unwrap_or_default();
        if self.below(3) == 0 {
            let new = make_id(self.now, &mut self.random).expect("an id");
            self.before.insert(new.clone(), before);
            self.feed(Event::Amend { id, new, args: None });
            return;
        }
        self.keep_written(&before.keys().cloned().collect());
        for (id, before) in before {
            match before {
                Some(draft) => self.drafts.insert(id, draft),
                None => self.drafts.remove(&id),
            };
        }
        self.open.push((String::new(), self.drafts.clone()));
        let machine = &mut self.client;
        machine.feed(Event::Discard(id.clone()));
        machine.hooks.ended.retain(|(own, _)| *own != id);
        self.note();
    }

    /// The drafts as the session shows them: the list of the class, those of the boxes, and `find` must agree.
    fn shown(&self) -> Drafts {
        let machine = &self.client.machine;
        let list = |def: &Def| -> Drafts {
            let (ids, is_ready, v) = machine.list(def).expect("a subscription");
            assert!(is_ready && v == 0, "R29: ready at once, at version 0");
            let of = |id: u32| {
                let (key, shown) = machine.memory().shown_by_id(id).expect("an overlay");
                assert_eq!(machine.find(&name("Draft"), &key.1), Some(id));
                let data = shown.data.as_ref().expect("data").to_map().expect("a map");
                let text = |name: &str| data[name].as_str().expect("text").to_owned();
                (text("id"), (data["n"].as_f64().expect("a number") as i64, text("box")))
            };
            ids.into_iter().map(of).collect()
        };
        let all = list(&Def::class_of(&name("Draft")));
        for section in ["in", "out"] {
            let of_it = all.clone().into_iter().filter(|(_, (_, of))| of == section).collect::<Drafts>();
            assert_eq!(list(&box_of(section)), of_it);
        }
        all
    }
}

/// The id of the draft that a part of a write is about.
fn id_of(args: &Value) -> Option<String> {
    let args = args.as_map()?;
    let of_data = args.get("data").and_then(|data| data.as_map()?.get("id"));
    of_data.or_else(|| args.get("key")?.as_array()?.first())?.as_str().map(str::to_owned)
}

fn box_of(section: &str) -> Def {
    Def::collection(&name("Draft"), &name("box"), &[section]).expect("a def")
}

#[test]
fn r29_local_documents_equal_a_naive_map() {
    let (mut left, played) = (0, seeds::each(400));
    let count = played.end - played.start;
    for seed in played {
        let played = std::panic::catch_unwind(|| {
            let mut history = History::new(seed);
            (0..STEPS).for_each(|_| history.step());
            history.thaw();
            history.restart();
            history.drafts.len()
        });
        left += played.unwrap_or_else(|panic| {
            eprintln!("ESCALE_SEED={seed}");
            std::panic::resume_unwind(panic)
        });
    }
    println!(
        "proof: r29 | local documents equal a naive map, and survive each end | {count} histories | violations 0"
    );
    assert!(count < 20 || left as u64 > count / 2, "{left} documents at the end of {count} histories");
}

/// A server that a session does not speak to: the model has no class of that name.
#[test]
fn a_server_does_not_know_a_local_class() {
    let mut schema =
        Schema::from_json(r#"{"Note":{"key":["id"]},"Draft":{"key":["id"],"local":true}}"#).unwrap();
    assert_eq!(schema.check_def(&"Draft".parse().unwrap()).map(|class| class.is_local()), Ok(true));
    schema = schema.of_server();
    for def in ["Draft", "Draft@x"] {
        assert_eq!(schema.check_def(&def.parse().unwrap()).unwrap_err().code(), Code::UnknownClass);
    }
    assert_eq!(schema.class("Draft").unwrap_err().code(), Code::UnknownClass);
    assert_eq!(schema.check_def(&"Other".parse().unwrap()).unwrap_err().code(), Code::UnknownDef);
}
