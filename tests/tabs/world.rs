//! The tabs of one browser, the model of the server, and a random scheduler that does one thing at a time.

mod compare;
mod heal;
mod in_step;
mod local;
pub mod releases;
mod rights;

use std::collections::{BTreeMap, BTreeSet};

use escale::Code;
use escale::codec::SyncReply;
use escale::crypto::{Random, SeededRandom};
use escale::journal::{Policy, Retention, make_id};
use escale::model::{Def, Value};
use escale::storage::Limits;
use escale::store::MemoryDevice;
use escale::sync::{Event, Phase, Refusal, StorageState, TabEvent, Write};

use self::local::Locals;
use self::releases::Release;
use super::tab::{Fault, LOCAL, Tab, Task, store_name};
use super::told::{Reports, Told};
use escale_testkit::backend::Backend;
use escale_testkit::schema::{data, key, name};
use escale_testkit::server::{Habits, ModelServer, Write as ServerWrite};
use escale_testkit::world::rights::take_withdrawn;

const NOW: u64 = 1_700_000_000_000;
/// Counters, which only the tabs write. The server writes other documents too.
const COUNTERS: usize = 3;
const DOCS: usize = 6;

/// The events that may happen in addition to counting.
#[derive(Clone, Copy)]
pub struct Plan {
    pub tabs: usize,
    pub steps: usize,
    /// Local documents are written (R29).
    pub has_locals: bool,
    /// Refused operations, decisions about them, and documents that others write.
    pub is_wild: bool,
    /// Sweeps of the journal, which may remove how an operation ended before each tab has read it.
    pub sweeps: bool,
    /// Half of the messages between tabs are lost.
    pub loses_words: bool,
    /// Commits fail, written or not.
    pub has_faults: bool,
    /// All tabs end at once, and the browser drops one of the two databases.
    pub drops: bool,
    /// Each slot of tabs has a release of the application of its own, and writes all that it knows.
    pub releases: bool,
}

pub struct World {
    plan: Plan,
    device: MemoryDevice,
    server: ModelServer,
    tabs: Vec<Option<Tab>>,
    now: u64,
    /// The number of batches of state that the device has written.
    stored: u64,
    random: SeededRandom,
    /// The release of the application in each slot of tabs.
    releases: Vec<Release>,
    limits: Limits,
    editions: u64,
    /// Operations that some tab reported as saved; and those that the application has decided about.
    saved: BTreeSet<String>,
    decided: BTreeSet<String>,
    /// The operations that the application issued in the place of each refused one.
    amendments: BTreeMap<String, Vec<String>>,
    /// The reports of tabs that have ended.
    told: Vec<Reports>,
    /// The defs to which the account has no right any more.
    withdrawn: BTreeSet<Def>,
    locals: Locals,
    pub takeovers: u64,
    pub drops: u64,
    pub writes: u64,
    /// How often a session in step with the device was compared with one opened then.
    pub in_step: u64,
}

impl World {
    pub fn new(plan: Plan, seed: u64) -> Self {
        let mut random = SeededRandom::new(seed);
        let mut pick = |n: u64| random.below(n).expect("random");
        let mut server = ModelServer::new(Habits::of(80), 1, NOW);
        for number in 0..DOCS {
            put(&mut server, number, 0);
        }
        let limits = Limits {
            log_bytes_min: [300, 2_000, 256 << 10][pick(3) as usize],
            changes_min: [0, 5, 1_000][pick(3) as usize],
            sparse_pages: [2, 6, 64][pick(3) as usize],
        };
        let policies =
            [Policy::Overwrite, Policy::Ask, Policy::Server, Policy::Client, Policy::Merge, Policy::Custom];
        let policy = if plan.is_wild { policies[pick(6) as usize] } else { Policy::Overwrite };
        let release = Release { policy, ..Release::newest() };
        let mut releases = vec![release; plan.tabs];
        if plan.releases {
            let any = [Release::any(&mut pick), Release::any(&mut pick)];
            releases = (0..plan.tabs).map(|slot| any[slot % 2].clone()).collect();
        }
        let mut world = World {
            plan,
            device: MemoryDevice::shared(),
            server,
            tabs: (0..plan.tabs).map(|_| None).collect(),
            now: NOW + 10_000,
            stored: 0,
            random,
            releases,
            limits,
            editions: 0,
            saved: BTreeSet::new(),
            decided: BTreeSet::new(),
            amendments: BTreeMap::new(),
            told: Vec::new(),
            withdrawn: BTreeSet::new(),
            locals: Locals::default(),
            takeovers: 0,
            drops: 0,
            writes: 0,
            in_step: 0,
        };
        world.open(0);
        world.tab(0).tasks.push_back(Task::TakeOver);
        world.tab(0).arrived.push_back(Event::Subscribe(Def::class_of(&name("Doc"))));
        world
    }

    fn below(&mut self, n: u64) -> u64 {
        self.random.below(n).expect("random")
    }

    fn tab(&mut self, number: usize) -> &mut Tab {
        self.tabs[number].as_mut().expect("an open tab")
    }

    fn open(&mut self, number: usize) {
        if self.tabs[number].is_none() {
            let seed = self.below(1 << 40);
            let opened = Tab::open_as(&self.device, seed, &self.releases[number], self.limits);
            let (tab, damage) = opened.expect("a store");
            assert!(self.plan.drops || !damage.any(), "R7: {damage:?}");
            let is_ahead = tab.machine.is_ahead();
            self.tabs[number] = Some(tab);
            if is_ahead {
                self.take_over(number);
            }
        }
    }

    pub fn run(&mut self) {
        for _ in 0..self.plan.steps {
            self.step();
        }
        self.heal();
        self.compare();
    }

    fn step(&mut self) {
        self.now += self.random.below(40).expect("random");
        let number = self.below(self.tabs.len() as u64) as usize;
        if self.tabs[number].is_none() {
            if self.below(8) == 0 {
                self.open(number);
            }
            return;
        }
        if self.below(16) == 0 {
            self.come_in_step(number);
            return self.note(number);
        }
        match self.below(100) {
            0..=34 => self.work(number),
            35..=64 => self.deliver(number),
            65..=74 => self.network(number),
            75..=86 => self.act(number),
            87 => self.tab(number).is_frozen = true,
            88..=89 => self.tab(number).is_frozen = false,
            90 => self.kill(number),
            91..=92 => self.take_over(number),
            93..=96 => self.wake(number),
            97 if self.plan.is_wild => {
                self.editions += 1;
                let (number, edition) = (COUNTERS + self.below(3) as usize, self.editions);
                put(&mut self.server, number, edition);
            }
            97 if self.plan.drops && self.below(4) == 0 => self.drop_one(),
            99 if self.plan.is_wild && self.below(4) == 0 => self.server.renew(self.now),
            98 => self.tab(number).arrived.push_back(Event::Tab(TabEvent::Poll)),
            _ => self.now += 500,
        }
        self.note(number);
    }

    /// The device carries out the tab's request, even if the tab is frozen.
    fn work(&mut self, number: usize) {
        let fault = self.fault();
        self.tab(number).stored = self.stored;
        let is_written = self.tab(number).work(fault);
        self.stored = self.tab(number).stored;
        if is_written {
            self.tell_others(number);
        }
    }

    /// Whether the device fails this time. It may have written nevertheless.
    fn fault(&mut self) -> Option<Fault> {
        if !self.plan.has_faults || self.below(12) != 0 {
            return None;
        }
        let codes = [Code::StorageFull, Code::StorageFailed, Code::StorageClosed];
        let code = codes[self.below(3) as usize];
        Some(Fault { code, is_written: self.below(2) == 0 })
    }

    fn tell_others(&mut self, number: usize) {
        for other in (0..self.tabs.len()).filter(|other| *other != number) {
            let is_lost = self.plan.loses_words && self.below(2) == 0;
            if let Some(tab) = self.tabs[other].as_mut().filter(|_| !is_lost) {
                tab.arrived.push_back(Event::Tab(TabEvent::Poll));
            }
        }
    }

    fn deliver(&mut self, number: usize) {
        let now = self.now;
        let tab = self.tab(number);
        if !tab.is_frozen
            && let Some(event) = tab.arrived.pop_front()
        {
            tab.feed(event, now);
        }
    }

    /// A request reaches the server, even from a frozen tab. The answer may be lost.
    fn network(&mut self, number: usize) {
        let Some((request_number, request)) = self.tab(number).sent.take() else { return };
        let now = self.now;
        let lost = self.below(8);
        let reply = if lost == 0 {
            Err(Refusal::from(escale::Error::new(Code::Offline, "lost on the way")))
        } else {
            let reply = self.answer(&request, now);
            if lost == 1 { Err(Refusal::from(escale::Error::new(Code::Timeout, "lost"))) } else { Ok(reply) }
        };
        self.tab(number).arrived.push_back(Event::Replied { number: request_number, reply });
    }

    fn answer(&mut self, request: &escale::codec::SyncRequest, now: u64) -> SyncReply {
        let (results, _) = self.server.operate(0, request, (0, now), &mut || false);
        let told = self.server.tell_now(0, now);
        let mut request = request.clone();
        let refused = take_withdrawn(&mut request.subs, |def| self.withdrawn.contains(def));
        let mut reply = self.server.reply(&request, results, told);
        reply.parts.extend(refused);
        reply
    }

    fn act(&mut self, number: usize) {
        if self.tab(number).is_frozen {
            return;
        }
        let now = self.now;
        let what = self.below(20);
        let doc = self.below(if self.plan.is_wild { DOCS as u64 } else { COUNTERS as u64 }) as usize;
        match what {
            5..=10 if self.plan.releases => self.act_of_release(number),
            0 if self.plan.is_wild => {
                let pk = key(doc).1;
                let def = Def::document(&name("Doc"), &pk);
                let event = if self.below(2) == 0 { Event::Subscribe(def) } else { Event::Unsubscribe(def) };
                self.tab(number).feed(event, now);
            }
            1..=3 if self.plan.is_wild => self.decide(number),
            10 if self.plan.is_wild => self.change_right(Def::document(&name("Doc"), &key(doc).1)),
            4 if self.plan.sweeps => {
                let retention = Retention::Count(1 + self.below(3) as u32);
                self.tab(number).feed(Event::Sweep { ticket: 2, retention, apply: true }, now);
            }
            5..=7 if self.plan.is_wild && doc >= COUNTERS => {
                self.editions += 1;
                let is_poison = self.below(3) == 0;
                let mut set = BTreeMap::from([("size".to_owned(), Value::from(self.editions as i64))]);
                if is_poison {
                    set.insert("poison".into(), true.into());
                }
                let args = Value::from([("class", "Doc".into()), ("key", id(doc)), ("set", Value::Map(set))]);
                drop(self.issue(number, "doc.patch", args));
            }
            11..=15 if self.plan.has_locals => self.act_local(number),
            8..=9 => self.read(number),
            _ => {
                let doc = doc % COUNTERS;
                let args = Value::from([
                    ("class", "Doc".into()),
                    ("key", id(doc)),
                    ("property", "n".into()),
                    ("by", Value::from(1)),
                ]);
                drop(self.issue(number, "add", args));
            }
        }
    }

    /// Issues an operation, if it is possible. Returns its id.
    fn issue(&mut self, number: usize, name: &str, args: Value) -> Option<String> {
        self.issue_after(number, name, args, Vec::new())
    }

    fn issue_after(&mut self, number: usize, name: &str, args: Value, after: Vec<String>) -> Option<String> {
        let now = self.now;
        let id = make_id(now, &mut self.random).expect("an id");
        let tab = self.tab(number);
        if tab.machine.check_write(name, &args).is_err() {
            return None;
        }
        tab.issued.insert(id.clone());
        let write = Write { id: id.clone(), name: name.into(), args, touches: vec![], after };
        tab.feed(Event::Write(write), now);
        self.writes += 1;
        self.locals.issued.insert(id.clone());
        Some(id)
    }

    /// A tab's application discards or amends a refused operation.
    fn decide(&mut self, number: usize) {
        let now = self.now;
        let amends = self.below(2) == 0;
        let new = make_id(now, &mut self.random).expect("an id");
        let tab = self.tab(number);
        let operations = tab.machine.operations();
        let Some((op, _)) = operations.iter().find(|(op, _)| op.state.refused.is_some()) else { return };
        let (old, mut args) = (op.state.issued.id.clone(), op.state.issued.args.clone());
        drop(operations);
        tab.ended.entry(old.clone()).or_insert(Ok(0));
        if amends {
            if let Some(Value::Map(set)) = args.as_map_mut().and_then(|map| map.get_mut("set")) {
                set.remove("poison");
            }
            tab.issued.insert(new.clone());
            tab.amends.insert(new.clone(), old.clone());
            tab.feed(Event::Amend { id: old.clone(), new: new.clone(), args: Some(args) }, now);
            self.amendments.entry(old.clone()).or_default().push(new);
        } else {
            tab.feed(Event::Discard(old.clone()), now);
        }
        self.decided.insert(old);
    }

    fn read(&mut self, number: usize) {
        let now = self.now;
        let tab = self.tab(number);
        let ids = tab.machine.list(&Def::class_of(&name("Doc"))).map(|(ids, ..)| ids).unwrap_or_default();
        tab.feed(Event::Read { ticket: 2, ids }, now);
    }

    fn kill(&mut self, number: usize) {
        // Its earlier requests to the device may still be carried out.
        while self.below(2) == 0 && self.tabs[number].as_ref().is_some_and(|tab| !tab.tasks.is_empty()) {
            self.work(number);
        }
        if let Some((_, request)) = self.tab(number).sent.take().filter(|_| self.now.is_multiple_of(2)) {
            let now = self.now;
            self.answer(&request, now);
        }
        self.note(number);
        self.told.extend(self.tabs[number].take().map(|tab| tab.told));
    }

    /// The browser ends, and drops a database as damaged: the store if its backup is whole, or the backup.
    fn drop_one(&mut self) {
        let open: Vec<usize> = (0..self.tabs.len()).filter(|number| self.tabs[*number].is_some()).collect();
        open.into_iter().for_each(|number| self.kill(number));
        let mut is_whole = false;
        self.device.tamper_backup(&store_name(), |backup_header| is_whole = backup_header.mark.is_some());
        if is_whole && self.below(2) == 0 {
            self.device.vanish(&store_name());
        } else {
            self.device.vanish_backup(&store_name());
        }
        self.drops += 1;
        self.open(0);
        self.take_over(0);
    }

    /// The lock is granted to a tab, or stolen by it. The tab that held it is informed, or finds out.
    fn take_over(&mut self, number: usize) {
        if self.tab(number).is_frozen || self.tab(number).leads() {
            return;
        }
        self.takeovers += 1;
        self.tab(number).tasks.push_back(Task::TakeOver);
        for other in (0..self.tabs.len()).filter(|other| *other != number) {
            let hears = self.below(2) == 0;
            if let Some(tab) = self.tabs[other].as_mut()
                && hears
                && !tab.machine.is_following()
            {
                tab.tasks.push_back(Task::Told(Event::Tab(TabEvent::Depose)));
            }
        }
    }

    fn wake(&mut self, number: usize) {
        let now = self.now;
        let tab = self.tab(number);
        if !tab.is_frozen && tab.wake_at.is_some_and(|at| at <= now) {
            tab.wake_at = None;
            tab.feed(Event::Woke, now);
        }
    }

    /// Notes a tab's reports, and checks that no value shown by it goes back.
    fn note(&mut self, number: usize) {
        self.note_locals(number);
        let Some(tab) = &mut self.tabs[number] else { return };
        let is_own = |id: &&String| tab.issued.contains(*id) && !self.locals.is_here_only(id);
        self.saved.extend(tab.saved.iter().filter(is_own).cloned());
        // Another tab, or a class's policy, has decided otherwise about the same refused operation.
        let of_decisions = [Code::NotFound, Code::VersionConflict];
        let undone =
            |end: &escale::Result<u64>| end.as_ref().is_err_and(|e| of_decisions.contains(&e.code()));
        self.decided.extend(tab.ended.iter().filter(|(_, end)| undone(end)).map(|(id, _)| id.clone()));
        // When a subscription ends, its documents are no longer shown.
        // A release without an operation's function does not know which documents it changes.
        let counters = if self.plan.is_wild || self.plan.releases { 0 } else { COUNTERS };
        for counter in 0..counters {
            let key = (0, key(counter).1);
            let Some(n) = tab.seen(&key) else { continue };
            let before = tab.counters.insert(key, n).unwrap_or(0);
            assert!(n >= before, "tab {number}: counter {counter} goes back from {before} to {n}");
        }
    }
}

fn id(number: usize) -> Value {
    Value::Array(vec![Value::String(format!("id{number}"))])
}

fn put(server: &mut ModelServer, number: usize, edition: u64) {
    let v = server.db.highest.max(server.db.promised_now).max(NOW) + 1;
    let data = data(number, Some(number % 3), 0, edition);
    server.db.write(v, &[ServerWrite::Put { key: key(number), data, max_life: None }]);
}
