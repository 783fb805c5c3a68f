//! The world: virtual time, a queue of messages in transit, and the actions of a history.

/// Writes to the log, only if somebody will read it: formatting costs more than the history itself.
macro_rules! note {
    ($world:expr, $($text:tt)*) => {
        if $world.logs {
            let text = format!($($text)*);
            $world.push_note(text);
        }
    };
}

mod act;
mod check;
pub mod client;
pub mod compare;
mod devices;
mod effects;
pub mod files;
mod follow;
mod intents;
mod overlay;
mod query;
pub mod rights;
mod trees;
mod watch;
mod wire;
pub mod writes;

pub use client::Client;

use std::collections::{BTreeMap, BTreeSet};

use escale::codec::{Part, ServerFrame};
use escale::crypto::SeededRandom;
use escale::model::Def;

use super::backend::{Backend, Tenant, Write};
use super::plan::{Action, Plan};
use client::Setup;
use wire::Job;

/// The time at which every history begins: a Tuesday.
pub const BEGINNING: u64 = 1_700_000_000_000;

/// How the network treats messages, as shares of 255.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    pub loss: u8,
    pub twice: u8,
    pub late: u8,
}

/// Counts of events.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    pub events: u64,
    pub crashes: u64,
    /// Messages that never arrived.
    pub lost: u64,
    /// Operations that applications issued.
    pub ops: u64,
    /// Servers restored from a backup.
    pub restores: u64,
    /// Devices that lost data: their newest batches, everything, or everything after a copy.
    pub devices: u64,
    /// Answers of queries that were compared.
    pub answers: u64,
    /// Objects that servers took.
    pub uploads: u64,
    /// Whole trees with documents that were compared with the server's states, after each event.
    pub whole: u64,
    /// Items that an operation hid, after each event.
    pub hidden: u64,
}

impl Figures {
    pub fn add(&mut self, other: &Figures) {
        self.events += other.events;
        self.crashes += other.crashes;
        self.lost += other.lost;
        self.ops += other.ops;
        self.restores += other.restores;
        self.devices += other.devices;
        self.answers += other.answers;
        self.uploads += other.uploads;
        self.whole += other.whole;
        self.hidden += other.hidden;
    }
}

pub struct World<S> {
    pub now: u64,
    pub server: S,
    pub clients: Vec<Client>,
    pub faults: Faults,
    /// Changes are pushed, not hinted.
    pub pushes: bool,
    /// The number of requests that the server is about to refuse, and how.
    pub refusals: (u8, u8),
    /// This share of 255 operations meets contention.
    pub contention: u8,
    /// The defs to which an account has no right any more (R22).
    pub withdrawn: BTreeSet<(Tenant, Def)>,
    /// Parts of the answers that are being made, by call: of the defs to which there was no right.
    taken: BTreeMap<u64, Vec<Part>>,
    /// The server was restored from a backup.
    pub was_restored: bool,
    watches_flicker: bool,
    orgs: u64,
    /// Whether events are logged.
    pub logs: bool,
    pub log: Vec<String>,
    pub figures: Figures,
    /// One source of randomness for each client and one for the server, so that leaving out an action
    /// disturbs the others little.
    sources: Vec<SeededRandom>,
    /// The source in use.
    who: usize,
    queue: BTreeMap<(u64, u64), Box<Job>>,
    last_job: u64,
    /// Pushes that come after the next one of their client.
    late_pushes: Vec<(usize, u64, ServerFrame)>,
    editions: u64,
}

impl<S: Backend> World<S> {
    pub fn new(plan: &Plan, seed: u64) -> Self {
        World::with_log(plan, seed, true)
    }

    /// Like `new`, but without `logs` nothing is logged.
    pub fn with_log(plan: &Plan, seed: u64, logs: bool) -> Self {
        let mut sources: Vec<SeededRandom> =
            (0..=plan.clients).map(|n| SeededRandom::new(seed ^ (0x5eed << (8 * n)))).collect();
        let server = S::open(plan, sources[0].next_u64(), BEGINNING);
        let log = vec![format!("seed {seed}, {}", server.describe())];
        let mut world = World {
            now: BEGINNING + 1_000,
            server,
            clients: Vec::new(),
            faults: Faults::default(),
            pushes: false,
            refusals: (0, 0),
            contention: 0,
            withdrawn: BTreeSet::new(),
            taken: BTreeMap::new(),
            was_restored: false,
            watches_flicker: plan.watches_flicker,
            orgs: plan.tenants.iter().map(|(org, _)| *org as u64 + 1).max().unwrap_or(1),
            logs,
            log,
            figures: Figures::default(),
            sources,
            who: 0,
            queue: BTreeMap::new(),
            last_job: 0,
            late_pushes: Vec::new(),
            editions: 0,
        };
        for number in 0..if plan.watches_flicker { 3 } else { 0 } {
            let data = super::schema::data(number, None, 0, 0);
            let put = Write::Put { key: super::schema::key(number), data, max_life: None };
            world.server.begin_with(&[put]);
        }
        for number in 0..plan.clients {
            let incognito = plan.incognito && number + 1 == plan.clients;
            world.who = number + 1;
            let mut setup = Setup::of(number, incognito, world.next());
            if let Some((org, account)) = plan.tenants.get(number).copied() {
                setup.tenant = Tenant { org, account };
            }
            note!(world, "client {number}: {setup:?}");
            world.clients.push(Client::new(setup));
            world.open(number);
        }
        world
    }

    fn push_note(&mut self, text: String) {
        self.log.push(format!("{:>9} {text}", self.now - BEGINNING));
    }

    fn next(&mut self) -> u64 {
        self.sources[self.who].next_u64()
    }

    /// A random number below `bound`.
    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// Whether an event happens that has this likelihood of 255.
    fn chance(&mut self, of_255: u8) -> bool {
        self.below(255) < u64::from(of_255)
    }

    /// Plays a history, then lets everything recover, and compares.
    pub fn play(&mut self, actions: &[Action]) {
        for action in actions {
            self.act(*action);
        }
        self.heal();
        self.drain();
        // The effects of that reach every client.
        self.run_for(compare::HEALING_MS);
        self.run_until(self.now / 60_000 * 60_000 + 90_000);
        self.compare();
        self.compare_operations();
        for number in 0..self.clients.len() {
            self.let_go(number);
        }
        self.server.end_files(self.now);
    }

    fn at(&mut self, time: u64, job: Job) {
        self.last_job += 1;
        self.queue.insert((time.max(self.now), self.last_job), Box::new(job));
    }

    /// Lets time pass, and delivers the messages in transit.
    pub fn run_until(&mut self, end: u64) {
        while let Some(entry) = self.queue.first_entry() {
            let (time, _) = *entry.key();
            if time > end {
                break;
            }
            let job = entry.remove();
            self.now = self.now.max(time);
            self.who = job.client().map_or(0, |client| client + 1);
            self.carry(*job);
        }
        self.now = self.now.max(end);
    }

    pub fn run_for(&mut self, ms: u64) {
        self.run_until(self.now + ms);
    }
}
