//! R92: chains of pending writes of one document, against the rule as `testkit/src/rebase.rs` tells it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::time::Instant;

use escale::crypto::SeededRandom;
use escale::journal::{Change, Policy, Settlement, State};
use escale::model::{Name, Value};
use escale::store::MemoryDevice;
use escale::sync::{Application, Effect, Event, Mode, Reader};
use escale::{Code, Error, Result};
use escale_testkit::rebase::{Answer, Chain, Doc, Expected, Kind, Pending, Site, Step};
use escale_testkit::schema::{Map, key};
use escale_testkit::seeds;
use escale_testkit::server::{Habits, ModelServer};

use crate::driver::{Driver, NOW, doc_key, id, put};

const DOCUMENTS: usize = 3;
const PROPERTIES: [&str; 3] = ["a", "b", "c"];

pub type Calls = Rc<RefCell<Vec<(Doc, Doc, Doc)>>>;

/// An application whose function decides differently for each conflict, and notes its calls.
struct Deciding {
    policy: Policy,
    calls: Calls,
}

impl Application for Deciding {
    fn optimistic(&self, _: &str, _: &Value, _: &mut Reader<'_>) -> Option<Result<Vec<Change>>> {
        None
    }

    fn policy(&self, _: &Name) -> Policy {
        self.policy
    }

    fn settle(
        &self,
        _: &Name,
        base: Option<&State>,
        mine: Option<&State>,
        theirs: Option<&State>,
    ) -> Result<Settlement> {
        let (base, mine, theirs) = (base.cloned(), mine.cloned(), theirs.cloned());
        Ok(match decide(&self.calls, &base, &mine, &theirs) {
            None => Settlement::Theirs,
            Some(None) => Settlement::Delete,
            Some(Some(state)) => Settlement::Put(state),
        })
    }
}

fn decide(calls: &Calls, base: &Doc, mine: &Doc, theirs: &Doc) -> Option<Doc> {
    calls.borrow_mut().push((base.clone(), mine.clone(), theirs.clone()));
    let mut hasher = DefaultHasher::new();
    format!("{base:?} {mine:?} {theirs:?}").hash(&mut hasher);
    match hasher.finish() % 6 {
        0 => None,
        1 => Some(None),
        2 => Some(mine.clone()),
        _ => Some(match (mine, theirs) {
            (Some(mine), Some(theirs)) => Some(theirs.clone().into_iter().chain(mine.clone()).collect()),
            _ => mine.clone().or(theirs.clone()),
        }),
    }
}

/// A device, and the same device by the rule.
struct Device {
    driver: Option<Driver>,
    policy: Policy,
    calls: Calls,
    /// The numbers of its writes, by the ids of their operations.
    numbers: BTreeMap<String, usize>,
    amended: BTreeMap<usize, usize>,
    ended: BTreeMap<usize, bool>,
    chain: Chain,
    known: BTreeMap<usize, (u64, Doc)>,
    said: Calls,
}

impl Device {
    fn driver(&mut self) -> &mut Driver {
        self.driver.as_mut().expect("an open session")
    }

    /// A document as the application sees it, by the rule.
    fn shown(&self, doc: usize) -> Doc {
        let steps = self.chain.writes.iter().flat_map(|write| &write.steps).filter(|(of, _)| *of == doc);
        let known = self.known.get(&doc).and_then(|(_, state)| state.clone());
        steps.flat_map(|(_, step)| &step.kinds).fold(known, |state, kind| kind.on(state))
    }

    /// Takes the reports of the session.
    fn take_told(&mut self) {
        for effect in std::mem::take(&mut self.driver().hooks.told) {
            match effect {
                Effect::Amended { id, by } => {
                    let number = self.numbers[&id];
                    self.numbers.insert(by, number);
                    *self.amended.entry(number).or_default() += 1;
                }
                Effect::Accepted { id, result } => {
                    if let Err(error) = &result {
                        assert_eq!(error.code(), Code::VersionConflict);
                    }
                    self.ended.insert(self.numbers[&id], result.is_ok());
                }
                Effect::Refused { error, .. } => panic!("a write is refused: {error}"),
                _ => {}
            }
        }
    }
}

struct History {
    random: SeededRandom,
    server: ModelServer,
    site: Site,
    devices: Vec<Device>,
    now: u64,
    writes: usize,
    /// The chains: each begins with a write while none of its device is pending.
    chains: u64,
}

impl History {
    fn new(seed: u64) -> Self {
        let mut random = SeededRandom::new(seed);
        // A reply has all rows in one page.
        let mut server = ModelServer::new(Habits::of(64), 1, NOW);
        let mut site = Site::default();
        for doc in 0..DOCUMENTS - 1 {
            let data = document(doc, &[("a", 0), ("b", 0)]);
            put(&mut server, doc, data.clone());
            site.put(doc, server.db.docs[&key(doc)].v, Some(data));
        }
        let policies = [Policy::Server, Policy::Client, Policy::Merge, Policy::Merge, Policy::Custom];
        let count = 2 + random.next_u64() as usize % 3;
        let mut devices = Vec::new();
        for account in 0..count {
            let policy = policies[random.next_u64() as usize % policies.len()];
            let (calls, said) = (Calls::default(), Calls::default());
            let application = Box::new(Deciding { policy, calls: calls.clone() });
            let mut driver = Driver::with(account, Mode::Synced, application, MemoryDevice::new(), NOW);
            driver.subscribe(&mut server);
            go_offline(&mut driver);
            let known = site.docs.clone();
            devices.push(Device {
                driver: Some(driver),
                policy,
                calls,
                numbers: BTreeMap::new(),
                amended: BTreeMap::new(),
                ended: BTreeMap::new(),
                chain: Chain::default(),
                known,
                said,
            });
        }
        History { random, server, site, devices, now: NOW + 1_000_000, writes: 0, chains: 0 }
    }

    fn draw(&mut self, below: usize) -> usize {
        self.random.next_u64() as usize % below
    }

    fn step(&mut self) {
        let device = self.draw(self.devices.len());
        match self.draw(8) {
            0..=2 => {
                for _ in 0..=self.draw(5) {
                    self.write(device);
                }
            }
            3 => self.exchange(device, false),
            4 => self.exchange(device, true),
            5 | 6 => self.settle(device),
            _ => self.reopen(device),
        }
        for doc in 0..DOCUMENTS {
            let (shown, seen) = (self.devices[device].shown(doc), self.seen(device, doc));
            assert_eq!(seen, shown, "document {doc} as device {device} shows it");
        }
    }

    /// A put, a patch or a delete of a document.
    fn change(&mut self, doc: usize, before: &Doc) -> (Kind, Value, &'static str) {
        let mut changed = BTreeMap::new();
        for _ in 0..=self.draw(2) {
            changed.insert(PROPERTIES[self.draw(3)].to_owned(), Value::from(self.draw(3) as i64));
        }
        let class = ("class", Value::from("Doc"));
        match (before, self.draw(8)) {
            (Some(_), 0) => (Kind::Delete, Value::from([class, ("key", id(doc))]), "doc.delete"),
            (Some(_), 1..=3) => {
                let unset =
                    if self.draw(3) == 0 { vec![PROPERTIES[self.draw(3)].to_owned()] } else { Vec::new() };
                changed.retain(|name, _| !unset.contains(name));
                let names = Value::Array(unset.iter().map(|name| Value::from(name.as_str())).collect());
                let args = [class, ("key", id(doc)), ("set", Value::Map(changed.clone())), ("unset", names)];
                (Kind::Patch(changed, unset), Value::from(args), "doc.patch")
            }
            (before, how) => {
                // A form saves the whole document, or somebody makes it new.
                let mut data = before.clone().filter(|_| how > 4).unwrap_or_else(|| document(doc, &[]));
                data.extend(changed);
                let args = Value::from([class, ("data", Value::Map(data.clone()))]);
                (Kind::Put(data), args, "doc.put")
            }
        }
    }

    fn write(&mut self, device: usize) {
        let count = if self.draw(3) == 0 { 2 + self.draw(2) } else { 1 };
        let (mut steps, mut parts): (Vec<(usize, Step)>, Vec<Value>) = Default::default();
        let mut single = None;
        for _ in 0..count {
            let doc = self.draw(DOCUMENTS);
            let at = steps.iter().position(|(of, _)| *of == doc);
            let before = at.map_or_else(|| self.devices[device].shown(doc), |at| steps[at].1.mine.clone());
            let (kind, args, name) = self.change(doc, &before);
            let mine = kind.on(before.clone());
            parts.push(Value::from([("name", Value::from(name)), ("args", args.clone())]));
            single = Some((name, args));
            if let Some(at) = at {
                let step = &mut steps[at].1;
                step.kinds.push(kind);
                step.mine = mine;
                continue;
            }
            let of_doc = |write: &&Pending| write.steps.iter().any(|(of, _)| *of == doc);
            let last = self.devices[device].chain.writes.iter().rfind(of_doc);
            let known = self.devices[device].known.get(&doc).filter(|(_, state)| state.is_some());
            let v = known.map_or(0, |(v, _)| *v);
            let expected = last.map_or(Expected::At(v), |last| Expected::By(last.number));
            steps.push((doc, Step { kinds: vec![kind], base: before, mine, expected }));
        }
        let (name, args) = match single {
            Some(single) if count == 1 => single,
            _ => ("batch", Value::from([("ops", Value::Array(parts))])),
        };
        self.now += 1;
        self.writes += 1;
        let (number, now) = (self.writes, self.now);
        let device = &mut self.devices[device];
        device.driver().now = now;
        let id = device.driver().write(name, args);
        println!("write {number}, {id}: {steps:?}");
        device.numbers.insert(id, number);
        self.chains += u64::from(device.chain.writes.is_empty());
        device.chain.writes.push(Pending { number, amended: 0, steps });
        device.take_told();
    }

    /// One request of a device, and its answer, which may be lost.
    fn exchange(&mut self, device: usize, is_lost: bool) {
        let History { server, site, now, .. } = self;
        *now += 10;
        let name = device;
        let device = &mut self.devices[device];
        let driver = device.driver.as_mut().expect("an open session");
        driver.now = *now;
        driver.feed(Event::Network(true));
        for _ in 0..100 {
            if driver.sent.is_some() {
                break;
            }
            driver.wait(10_000);
        }
        *now = driver.now + 1;
        let (number, request) = driver.sent.take().expect("a request");
        let reply = driver.answer(server, &request);
        println!("device {name} says {:?} and hears {:?}: {}", request.ops, reply.parts, !is_lost);
        let (mut answers, mut is_numbered_again) = (Vec::new(), false);
        for result in &reply.results {
            let number = device.numbers[&result.id];
            let Some(write) = device.chain.writes.iter().find(|write| write.number == number) else {
                continue;
            };
            let code = result.fault.as_ref().map(|fault| fault.code.as_str());
            if matches!(code, Some("session_reused" | "order_gap")) {
                // The session does not know how far it has come: it numbers it again.
                is_numbered_again = !is_lost;
                continue;
            }
            let answer = site.execute(name, write, driver.now);
            assert!(!matches!((&answer, &result.ok), (Answer::Accepted(v), Some(ok)) if *v != ok.v));
            let expected = match &answer {
                Answer::Accepted(_) => None,
                Answer::Refused(..) => Some("version_conflict"),
                Answer::Held => Some("order_held"),
            };
            assert_eq!(code, expected, "write {number}: {write:?}");
            println!("device {name}: write {number} is {answer:?}");
            answers.push((number, answer));
        }
        if !is_lost {
            device.driver().feed(Event::Replied { number, reply: Ok(reply) });
            let (policy, said) = (device.policy, device.said.clone());
            let mut function = |base: &Doc, mine: &Doc, theirs: &Doc| decide(&said, base, mine, theirs);
            for (number, answer) in answers {
                device.chain.take(number, answer, policy, &mut function);
            }
            device.known = site.docs.clone();
        } else {
            device.driver().feed(lost(number));
        }
        go_offline(device.driver());
        device.take_told();
        for write in &device.chain.writes {
            let amended = device.amended.get(&write.number).copied().unwrap_or(0);
            assert_eq!(amended, write.amended, "how often {write:?} was amended");
        }
        if is_numbered_again || (!is_lost && self.is_behind(name)) {
            self.exchange(name, false);
        }
    }

    /// A session leaves out the parts about operations that may have been executed under other numbers. It asks again.
    fn is_behind(&mut self, device: usize) -> bool {
        let memory = self.devices[device].driver.as_ref().expect("an open session").machine.memory();
        let is_behind = |doc: usize| {
            let (v, state) = self.site.doc(doc);
            memory.document(&doc_key(doc)).map_or(state.is_some(), |document| document.at.v < v)
        };
        (0..DOCUMENTS).any(is_behind)
    }

    /// Sends the writes of a device, until none is pending.
    fn settle(&mut self, device: usize) {
        for _ in 0..100 {
            self.exchange(device, false);
            if self.devices[device].chain.writes.is_empty() {
                assert_eq!(self.devices[device].driver().machine.status().pending, 0);
                return;
            }
        }
        panic!("writes that never end");
    }

    fn reopen(&mut self, device: usize) {
        println!("device {device} restarts");
        let Device { driver, policy, calls, .. } = &mut self.devices[device];
        let application = Box::new(Deciding { policy: *policy, calls: calls.clone() });
        let mut closed = driver.take().expect("an open session");
        closed.now = self.now;
        let mut opened = closed.reopen_with(Mode::Synced, application);
        go_offline(&mut opened);
        *driver = Some(opened);
    }

    /// Every write arrives, and the documents of the server are those of the rule.
    fn end(&mut self) {
        for device in 0..self.devices.len() {
            self.settle(device);
            let device = &self.devices[device];
            let (calls, said) = (device.calls.borrow(), device.said.borrow());
            for doc in 0..DOCUMENTS {
                // A batch is discarded by the first of its documents: the others need no call.
                let mut said = said.iter().filter(|call| is_about(call, doc));
                let mut calls = calls.iter().filter(|call| is_about(call, doc));
                assert!(calls.all(|call| said.any(|said| said == call)), "one call for each write, in order");
            }
            for (number, is_accepted) in &device.ended {
                assert_eq!(!is_accepted, device.chain.discarded.contains(number), "write {number}");
            }
        }
        for doc in 0..DOCUMENTS {
            let stored = self.server.db.docs.get(&key(doc)).filter(|stored| !stored.deleted);
            assert_eq!(stored.map(|stored| stored.data.clone()), self.site.doc(doc).1, "document {doc}");
        }
    }

    fn seen(&mut self, device: usize, doc: usize) -> Doc {
        self.devices[device].driver().seen_whole(doc)
    }
}

/// Two to four devices with each policy, chains of any writes, lost answers and restarts: the server's documents,
/// the documents that each device shows, the calls of the function and the end of each write are those of the rule.
#[test]
fn r92_chains_of_any_writes_end_as_the_rule_says() {
    let (played, started) = (seeds::each(300), Instant::now());
    let (histories, mut chains, mut writes) = (played.end - played.start, 0, 0);
    for seed in played {
        println!("ESCALE_SEED={seed}");
        let mut history = History::new(seed);
        for _ in 0..24 {
            history.step();
        }
        history.end();
        chains += history.chains;
        writes += history.writes;
    }
    // Cargo shows it with `--nocapture`, among the steps of all histories.
    println!(
        "proof: chains | chains of pending writes end as the rule says | {chains} chains of {writes} writes, {histories} histories | violations 0 | {:.1} s",
        started.elapsed().as_secs_f64()
    );
}

/// The request in flight does not reach the server.
fn go_offline(driver: &mut Driver) {
    driver.feed(Event::Network(false));
    while let Some((number, _)) = driver.sent.take() {
        driver.feed(lost(number));
    }
}

fn is_about((base, mine, theirs): &(Doc, Doc, Doc), doc: usize) -> bool {
    let id = Value::String(format!("id{doc}"));
    [base, mine, theirs].into_iter().flatten().any(|state| state.get("id") == Some(&id))
}

fn lost(number: u64) -> Event {
    Event::Replied { number, reply: Err(Error::new(Code::Timeout, "lost").into()) }
}

pub fn document(doc: usize, properties: &[(&str, i64)]) -> Map {
    let mut map = Map::from([("id".to_owned(), Value::String(format!("id{doc}")))]);
    map.extend(properties.iter().map(|(name, n)| ((*name).to_owned(), Value::from(*n))));
    map
}
