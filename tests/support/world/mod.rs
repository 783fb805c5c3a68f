//! The world: virtual time, a queue of what is on its way, and the actions of a history.

mod act;
mod check;
mod client;
mod compare;
mod effects;
mod overlay;
mod wire;
pub mod writes;

pub use client::Client;

use std::collections::BTreeMap;

use escale::crypto::SeededRandom;

use super::plan::{Action, Plan};
use super::server::{Habits, ModelServer, Write};
use client::Setup;
use wire::Job;

/// When every history begins: some Tuesday.
pub const BEGINNING: u64 = 1_700_000_000_000;

/// How the network treats messages, of 255.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    pub loss: u8,
    pub twice: u8,
    pub late: u8,
}

pub struct World {
    pub now: u64,
    pub server: ModelServer,
    pub clients: Vec<Client>,
    pub faults: Faults,
    /// Changes are pushed, not hinted.
    pub pushes: bool,
    /// Requests that the server is about to refuse, and how.
    pub refusals: (u8, u8),
    /// Of 255 operations so many meet contention.
    pub contention: u8,
    /// The server was restored from a backup.
    pub was_restored: bool,
    watches_flicker: bool,
    pub log: Vec<String>,
    /// One source for each client and one for the server, so that leaving an action out disturbs the others little.
    sources: Vec<SeededRandom>,
    /// Whose source is drawn from.
    who: usize,
    queue: BTreeMap<(u64, u64), Job>,
    last_job: u64,
    editions: u64,
}

impl World {
    pub fn new(plan: &Plan, seed: u64) -> Self {
        let mut sources: Vec<SeededRandom> =
            (0..=plan.clients).map(|n| SeededRandom::new(seed ^ (0x5eed << (8 * n)))).collect();
        let habits = Habits::of(sources[0].next_u64());
        let server = ModelServer::new(habits, plan.instances, BEGINNING);
        let mut world = World {
            now: BEGINNING + 1_000,
            server,
            clients: Vec::new(),
            faults: Faults::default(),
            pushes: false,
            refusals: (0, 0),
            contention: 0,
            was_restored: false,
            watches_flicker: plan.watches_flicker,
            log: vec![format!("seed {seed}, {habits:?}")],
            sources,
            who: 0,
            queue: BTreeMap::new(),
            last_job: 0,
            editions: 0,
        };
        for number in 0..if plan.watches_flicker { 3 } else { 0 } {
            let data = super::schema::data(number, None, 0, 0);
            let put = Write::Put { key: super::schema::key(number), data, max_life: None };
            world.server.db.write(BEGINNING, &[put]);
        }
        for number in 0..plan.clients {
            let incognito = plan.incognito && number + 1 == plan.clients;
            world.who = number + 1;
            let setup = Setup::of(number, incognito, world.next());
            world.note(format!("client {number}: {setup:?}"));
            world.clients.push(Client::new(setup));
            world.open(number);
        }
        world
    }

    pub fn note(&mut self, text: impl Into<String>) {
        let text = text.into();
        self.log.push(format!("{:>9} {text}", self.now - BEGINNING));
    }

    fn next(&mut self) -> u64 {
        self.sources[self.who].next_u64()
    }

    /// A number below that one.
    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// Whether something of that likelihood, of 255, happens.
    fn chance(&mut self, of_255: u8) -> bool {
        self.below(255) < u64::from(of_255)
    }

    /// Plays a history, then heals everything and compares.
    pub fn play(&mut self, actions: &[Action]) {
        for action in actions {
            self.act(*action);
        }
        self.heal();
        self.drain();
        // What came of that reaches everybody.
        self.run_for(compare::HEALING_MS);
        self.run_until(self.now / 60_000 * 60_000 + 90_000);
        self.compare();
        self.compare_operations();
    }

    fn at(&mut self, time: u64, job: Job) {
        self.last_job += 1;
        self.queue.insert((time.max(self.now), self.last_job), job);
    }

    /// Lets time pass, and what is on its way arrive.
    pub fn run_until(&mut self, end: u64) {
        while let Some(entry) = self.queue.first_entry() {
            let (time, _) = *entry.key();
            if time > end {
                break;
            }
            let job = entry.remove();
            self.now = self.now.max(time);
            self.who = job.client().map_or(0, |client| client + 1);
            self.carry(job);
        }
        self.now = self.now.max(end);
    }

    pub fn run_for(&mut self, ms: u64) {
        self.run_until(self.now + ms);
    }
}
