//! One tab: a machine over the shared store, with its pending tasks and events. Its requests to the device
//! are carried out even while it is frozen. Their results reach it in order, once it has thawed.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use escale::codec::SyncRequest;
use escale::crypto::{Random, SeededRandom};
use escale::journal::{PendingOp, Policy};
use escale::memory::{Content, DocKey};
use escale::storage::{Damage, FoundPage, Limits};
use escale::store::conformance::block_on;
use escale::store::{Batch, MemoryDevice, MemoryStore, Store, Table};
use escale::sync::{Clock, Effect, Event, Machine, Mode, TabEffect, TabEvent};
use escale::{Code, Error};

use super::told::{Reports, Told};
use super::world::releases::Release;
use escale_testkit::asleep::check_asleep;
use escale_testkit::client::{Call, Duty, Opening};

/// A request of a tab to the device.
pub enum Task {
    Device(Call),
    TakeOver,
    /// A message from another tab.
    Told(Event),
}

/// How a commit fails.
#[derive(Clone, Copy)]
pub struct Fault {
    pub code: Code,
    /// It was written nevertheless.
    pub is_written: bool,
}

impl Fault {
    fn error(self) -> Error {
        Error::new(self.code, "by the test")
    }
}

/// The random numbers of a machine. The system may have none for a while.
struct Source {
    random: SeededRandom,
    is_empty: Rc<Cell<bool>>,
}

impl Random for Source {
    fn fill(&mut self, bytes: &mut [u8]) -> escale::Result<()> {
        if self.is_empty.get() {
            return Err(Error::new(Code::StorageFailed, "no random bytes, by the test"));
        }
        self.random.fill(bytes)
    }
}

pub struct Tab {
    pub machine: Machine,
    pub store: MemoryStore,
    pub tasks: VecDeque<Task>,
    pub arrived: VecDeque<Event>,
    pub sent: Option<(u64, SyncRequest)>,
    pub wake_at: Option<u64>,
    pub is_frozen: bool,
    /// The reports that its application received.
    pub issued: BTreeSet<String>,
    pub saved: BTreeSet<String>,
    pub ended: BTreeMap<String, escale::Result<u64>>,
    pub refused: BTreeSet<String>,
    /// The refused operation that each amendment of its application replaces.
    pub amends: BTreeMap<String, String>,
    /// The counters last seen. They never decrease, except when the tab is deposed.
    pub counters: BTreeMap<DocKey, i64>,
    pub rows: Option<Vec<(DocKey, BTreeMap<String, escale::model::Value>)>>,
    pub generation: Option<u64>,
    /// The operations that it showed after the last event.
    pub shown: BTreeSet<String>,
    /// Readings that were asked for, and are not answered yet.
    pub awaited: usize,
    now: u64,
    /// The number of batches that the device has written, as of this tab's last request; and as of the last one that
    /// read the state, if none has failed since.
    pub stored: u64,
    pub read_at: Option<u64>,
    /// The device failed, as if its handle were dead: the machine waits before it opens the store again.
    is_closed: bool,
    has_begun: bool,
    /// It was deposed, and has not read the stored state since.
    has_led: bool,
    /// All reports on operations that its application received.
    pub told: Reports,
    /// The ends of its sweeps.
    pub swept: Vec<escale::Result<()>>,
    /// The histories that it received, each as its length.
    pub past: Vec<escale::Result<usize>>,
    /// Whether the system has no random bytes.
    pub lacks_random: Rc<Cell<bool>>,
}

/// The local class of the tabs. The server has none, and its name is the last one: positions of the others stay.
pub const LOCAL: &str = "Zettel";

pub const ORG: &str = "org";
pub const ACCOUNT: &str = "account0";

pub fn store_name() -> String {
    escale::crypto::store_name(ORG, ACCOUNT)
}

impl Tab {
    pub fn open(device: &MemoryDevice, seed: u64, policy: Policy, limits: Limits) -> Self {
        let (tab, damage) = Tab::open_damaged(device, seed, policy, limits);
        assert!(!damage.any(), "R7: {damage:?}");
        tab
    }

    /// The same after a database was dropped. Returns the damage found as well.
    pub fn open_damaged(device: &MemoryDevice, seed: u64, policy: Policy, limits: Limits) -> (Self, Damage) {
        let release = Release { policy, ..Release::newest() };
        Tab::open_as(device, seed, &release, limits).expect("a store")
    }

    /// Opens a release of the application.
    pub fn open_as(
        device: &MemoryDevice,
        seed: u64,
        release: &Release,
        limits: Limits,
    ) -> escale::Result<(Self, Damage)> {
        let opening = Opening {
            x: [9; 32],
            limits,
            application: release.application(),
            seed,
            ..Opening::of(ORG, ACCOUNT, release.schema.clone())
        };
        let lacks_random = Rc::new(Cell::new(false));
        let (random, is_empty) = (SeededRandom::new(seed ^ 0xabcd), Rc::clone(&lacks_random));
        let source = Box::new(Source { random, is_empty });
        let opened = opening.open_with(device, source)?;
        let damage = opened.damage;
        let machine = opened.machine.following();
        let mut tab = Tab {
            machine,
            store: opened.store,
            tasks: VecDeque::new(),
            arrived: VecDeque::new(),
            sent: None,
            wake_at: None,
            is_frozen: false,
            issued: BTreeSet::new(),
            saved: BTreeSet::new(),
            ended: BTreeMap::new(),
            refused: BTreeSet::new(),
            amends: BTreeMap::new(),
            counters: BTreeMap::new(),
            rows: None,
            generation: None,
            shown: BTreeSet::new(),
            awaited: 0,
            now: 0,
            stored: 0,
            read_at: None,
            is_closed: false,
            has_begun: false,
            has_led: false,
            told: Reports::default(),
            swept: Vec::new(),
            past: Vec::new(),
            lacks_random,
        };
        tab.arrived.push_back(Event::Started);
        tab.arrived.push_back(Event::Tab(TabEvent::Poll));
        Ok((tab, damage))
    }

    /// Passes an event to the machine. Checks that the effects name each change of the status and of the role.
    fn handle(&mut self, event: Event, clock: Clock) -> Vec<Effect> {
        let before = self.machine.status();
        let written = match &event {
            Event::Write(write) if self.machine.is_following() => Some(write.id.clone()),
            _ => None,
        };
        let effects = self.machine.handle(event, clock);
        let has = |is_it: fn(&Effect) -> bool| effects.iter().any(is_it);
        let after = self.machine.status();
        let is_told = has(|effect| matches!(effect, Effect::StatusChanged));
        assert!(before == after || is_told, "nothing tells of {after:?}");
        let (leads, deposed) = (
            has(|effect| matches!(effect, Effect::Tab(TabEffect::Leads))),
            has(|effect| matches!(effect, Effect::Tab(TabEffect::Deposed))),
        );
        assert_eq!((leads, deposed), (!before.leads && after.leads, before.leads && !after.leads));
        assert_eq!(self.machine.generation().is_some(), after.leads, "only who leads has a generation");
        let operations = self.machine.operations();
        let is_placed = |(op, _): &(&PendingOp, bool)| op.state.order < 1 << 52;
        assert!(!after.leads || operations.iter().all(is_placed), "the leader has given each its place");
        if let Some(id) = written {
            let own = operations.iter().find(|(op, _)| op.state.issued.id == id);
            let is_last = own.is_none_or(|(op, _)| op.state.order >= 1 << 52);
            assert!(is_last, "an operation that the leader has not taken in comes after all others");
        }
        effects
    }

    /// Passes an event to the machine. Returns the messages for the other tabs.
    pub fn feed(&mut self, event: Event, now: u64) {
        // Its clock does not go back.
        self.now = self.now.max(now);
        let clock = Clock { wall_ms: self.now, mono_ms: self.now };
        if std::mem::replace(&mut self.has_begun, true) && !matches!(event, Event::Woke) {
            check_asleep(&mut self.machine, self.wake_at, clock);
        }
        let is_read = matches!(event, Event::Tab(TabEvent::Read { .. }));
        self.awaited += usize::from(matches!(event, Event::Read { .. }));
        for effect in self.handle(event, clock) {
            match Duty::of(effect, &self.machine) {
                Duty::Device(call) => {
                    if let Call::Commit(batch) = &call {
                        self.check_batch(batch);
                    }
                    self.tasks.push_back(Task::Device(call));
                }
                Duty::Network(Effect::Send { number, request, .. }) => {
                    assert!(!self.machine.is_following(), "only who leads sends");
                    self.sent = Some((number, request));
                }
                Duty::Network(Effect::CancelSend(_)) => self.sent = None,
                Duty::Network(other) => panic!("{other:?}"),
                Duty::Timer(at) => self.wake_at = at,
                Duty::Application(effect) => self.tell(effect),
            }
        }
        // Server state that a deposed leader had not written is loaded again.
        if self.has_led {
            self.counters.clear();
            self.has_led = !is_read;
        }
        assert!(self.sent.is_none() || !self.machine.is_following(), "only who leads waits for the server");
        self.machine.memory().check_links();
        let shown: BTreeSet<String> =
            self.machine.operations().iter().map(|(op, _)| op.state.issued.id.clone()).collect();
        // Who leads decides about a refused operation for another tab, and tells its own application nothing more.
        // A deposed leader did not write the refusal. Once this tab leads, it shows the refused operation, and defers
        // the amendment until the server refuses that operation again. Saved writes that depend on it rest behind it.
        let is_put_off = |new: &String, old: &String| shown.contains(old) && !shown.contains(new);
        let has_deferred = self.amends.iter().any(|(new, old)| is_put_off(new, old));
        let is_deferred = |id: &String| {
            self.amends.get(id).is_some_and(|old| shown.contains(old))
                || (has_deferred && self.saved.contains(id))
        };
        let is_told = |id: &String| {
            self.ended.contains_key(id)
                || self.refused.contains(id)
                || !self.issued.contains(id)
                || is_deferred(id)
        };
        let untold = self.shown.iter().find(|id| !shown.contains(*id) && !is_told(id));
        assert_eq!(untold, None, "an operation is gone, and its application was not told how it ended");
        self.shown = shown;
        let status = self.machine.status();
        assert_eq!(status.leads, !self.machine.is_following());
        assert_eq!(status.updates.is_some(), status.leads && status.mode != Mode::Avion, "{status:?}");
    }

    fn check_batch(&self, batch: &Batch) {
        let is_guarded = batch.generation.is_some();
        let inbox_alone =
            batch.puts.iter().all(|(table, ..)| *table == Table::Inbox) && batch.deletes.is_empty();
        assert!(is_guarded || inbox_alone, "who follows writes to the inbox alone");
        let is_fenced = !self.machine.is_unfenced() || self.machine.is_following();
        assert!(is_fenced, "who has begun no generation writes nothing");
    }

    /// A report to the application.
    fn tell(&mut self, effect: Effect) {
        match effect {
            Effect::Tab(TabEffect::Leads) => {}
            Effect::Tab(TabEffect::Deposed) => self.has_led = true,
            Effect::Answer { rows, .. } => {
                self.awaited = self.awaited.checked_sub(1).expect("one answer to each reading");
                let read = |row: escale::sync::ReadRow| ((0, row.pk), row.data.to_map().expect("a map"));
                self.rows = rows.ok().map(|rows| rows.into_iter().map(read).collect());
            }
            Effect::Saved { id } => {
                self.told.add(&id, Told::Saved);
                self.saved.insert(id);
            }
            Effect::Accepted { id, result } => {
                // Otherwise an application that waits only for `saved` would wait for ever.
                let is_told = result.is_err() || self.saved.contains(&id) || !self.issued.contains(&id);
                assert!(is_told, "R10: {id} was accepted, and never told to be saved");
                // A leader found that another tab's amendment came too late, and may be deposed before it has
                // written that. Then the next leader decides.
                let is_too_late = result.as_ref().is_err_and(|error| error.code() == Code::NotFound);
                if self.machine.is_following() || self.issued.contains(&id) || !is_too_late {
                    self.told.add(&id, Told::Ended(result.clone().map_err(|error| error.code())));
                }
                self.ended.entry(id).or_insert(result.map(|(v, _)| v));
            }
            Effect::Refused { id, error } => {
                self.told.add(&id, Told::Refused(error.code()));
                self.refused.insert(id);
            }
            Effect::Amended { id, by } => {
                self.told.add(&id, Told::Amended(by.clone()));
                self.amends.insert(by.clone(), id.clone());
                if self.saved.contains(&id) {
                    self.saved.insert(by.clone());
                }
                if self.issued.contains(&id) {
                    self.issued.insert(by);
                }
                self.ended.entry(id).or_insert(Ok(0));
            }
            Effect::Changed { .. } | Effect::StatusChanged | Effect::Matched { .. } => {}
            Effect::Past { actions, .. } => self.past.push(actions.map(|actions| actions.len())),
            Effect::Swept { swept, .. } => self.swept.push(swept.map(|_| ())),
            other => panic!("{other:?}"),
        }
    }

    /// Whether it leads, in a generation that it has begun.
    pub fn leads(&self) -> bool {
        !self.machine.is_following() && !self.is_unfenced()
    }

    /// Whether it has read everything that the device has, or has written everything to it. `stored` is the number of
    /// batches that the device has written.
    pub fn is_in_step(&self, stored: u64) -> bool {
        let is_busy = !self.tasks.is_empty() || !self.arrived.is_empty();
        if is_busy || self.is_unfenced() || self.has_led || self.is_closed {
            return false;
        }
        if self.machine.is_following() {
            return self.read_at == Some(stored);
        }
        let newest = block_on(self.store.generation()).expect("read");
        let leads = self.machine.generation() == Some(newest);
        leads && self.machine.is_at_rest().is_ok_and(|is_at_rest| is_at_rest)
    }

    pub fn is_unfenced(&self) -> bool {
        self.machine.is_unfenced()
    }

    /// The records of a table that its batches in flight delete.
    pub fn deletes_of(&self, table: Table) -> usize {
        let batches = self.tasks.iter().filter_map(|task| match task {
            Task::Device(Call::Commit(batch)) => Some(&batch.deletes),
            _ => None,
        });
        batches.flatten().filter(|(of, _)| *of == table).count()
    }

    /// Carries out the next task. One that fails does so as `fault` says. Returns whether something was written
    /// that other tabs should poll.
    pub fn work(&mut self, fault: Option<Fault>) -> bool {
        let Some(task) = self.tasks.pop_front() else { return false };
        self.is_closed |= fault.is_some_and(|fault| fault.code == Code::StorageClosed);
        let mut is_written = false;
        let event = match task {
            Task::Device(call) => {
                let event;
                (event, is_written) = self.call(call, fault);
                event
            }
            Task::TakeOver if fault.is_some_and(|fault| !fault.is_written) => {
                let seen = block_on(self.store.generation()).expect("read");
                let error = fault.expect("a fault").error();
                Event::Tab(TabEvent::LeadUnfenced { seen, error })
            }
            Task::TakeOver => {
                let seen = block_on(self.store.generation()).expect("read");
                match block_on(self.store.take_over(seen)).expect("taken") {
                    Some(generation) => {
                        self.generation = Some(generation);
                        Event::Tab(TabEvent::Lead(generation))
                    }
                    None => return false,
                }
            }
            Task::Told(event) => event,
        };
        self.arrived.push_back(event);
        is_written
    }

    /// Makes a call to the device. Returns the answer, and whether something was written. A batch that fails may
    /// have been written.
    fn call(&mut self, call: Call, fault: Option<Fault>) -> (Event, bool) {
        match &call {
            Call::Reopen(_) => self.is_closed = fault.is_some(),
            Call::Poll { .. } | Call::State { .. } => self.read_at = fault.is_none().then_some(self.stored),
            Call::Journal { .. } if fault.is_some() => self.read_at = None,
            _ => {}
        }
        let generation = match &call {
            Call::Commit(batch) => batch.generation,
            _ => None,
        };
        let failure = fault.map(|fault| call.failed(fault.error()));
        let is_made = fault.is_none_or(|fault| fault.is_written && matches!(call, Call::Commit(_)));
        let answer = is_made.then(|| call.make(&self.store));
        let mut is_written = false;
        if let Some(Event::Committed(result)) = &answer {
            is_written = result.is_ok();
            self.stored += u64::from(is_written && generation.is_some());
            let now = block_on(self.store.generation()).expect("read");
            assert!(!is_written || generation.is_none_or(|g| g == now), "a deposed leader wrote");
        }
        match failure.or(answer).expect("a call fails or is made") {
            // A device with a cipher of its own answers by the other event.
            Event::PagesRead { ticket, pages } if (ticket / 2).is_multiple_of(2) => {
                (Event::PagesOpened { ticket, pages: FoundPage::sealed(pages) }, is_written)
            }
            event => (event, is_written),
        }
    }

    /// A counter as the application sees it, if its data is in memory.
    pub fn seen(&self, key: &DocKey) -> Option<i64> {
        let memory = self.machine.memory();
        let class = memory.class(key.0).name().clone();
        let id = self.machine.find(&class, &key.1)?;
        let data = match memory.shown_by_id(id) {
            Some((_, shown)) => shown.data.clone()?,
            None => match &memory.by_id(id)?.1.content {
                Content::Resident(data) => data.clone(),
                _ => return None,
            },
        };
        data.to_map().expect("a map").get("n")?.as_f64().map(|n| n as i64)
    }
}
