//! A client: its device, its machine while it is open, and the state that the driver would keep for it.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use escale::codec::Format;
use escale::crypto::store_name;
use escale::journal::Policy;
use escale::memory::{DocKey, Stamp};
use escale::model::Def;
use escale::storage::{Damage, Limits};
use escale::store::{MemoryDevice, MemoryStore};
use escale::sync::{Clock, Config, Effect, Event, Machine, Mode};

use super::World;
use super::devices::Copied;
use super::files::{AtHand, Module};
use super::follow::Views;
use super::query::Asked;
use super::writes::{Counters, Ledger};
use crate::asleep::check_asleep;
use crate::backend::{Backend, Tenant};
use crate::client::{Opening, config};
use crate::schema::schema;

/// The fixed properties of a client.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub number: usize,
    pub tenant: Tenant,
    pub incognito: bool,
    pub format: Format,
    pub has_live: bool,
    /// Milliseconds that its own clock is ahead; behind if negative.
    pub ahead_ms: i64,
    pub limits: Limits,
    /// The conflict policy of its application.
    pub policy: Policy,
    /// Its application has the module for files.
    pub has_files: bool,
}

impl Setup {
    pub fn of(number: usize, incognito: bool, random: u64) -> Self {
        Setup {
            number,
            tenant: Tenant { org: 0, account: number },
            incognito,
            format: if random & 1 == 0 { Format::Msgpack } else { Format::Json },
            has_live: random >> 1 & 3 != 0,
            ahead_ms: [0, 0, 3_600_000, -86_400_000][(random >> 3 & 3) as usize],
            limits: Limits {
                log_bytes_min: [300, 2_000, 256 << 10][(random >> 5) as usize % 3],
                changes_min: [0, 5, 1_000][(random >> 17) as usize % 3],
                sparse_pages: [2, 6, 64][(random >> 9) as usize % 3],
            },
            policy: [Policy::Overwrite, Policy::Server, Policy::Client, Policy::Merge, Policy::Custom]
                [(random >> 13) as usize % 5],
            has_files: random >> 20 & 7 != 0,
        }
    }
}

/// The client's side of a socket.
#[derive(Clone, Debug, Default)]
pub struct Socket {
    pub number: u64,
    /// Frames arrive in the order sent.
    pub last_frame_at: u64,
    /// The defs that the server has registered.
    pub registered: BTreeSet<Def>,
    /// The server's side still exists.
    pub is_up: bool,
}

pub struct Client {
    pub setup: Setup,
    pub device: MemoryDevice,
    pub store: Option<MemoryStore>,
    pub machine: Option<Machine>,
    /// Counts its openings: messages in transit for an earlier one are lost.
    pub life: u64,
    pub mode: Mode,
    pub mono_base: u64,
    pub wake_at: Option<u64>,
    pub socket: Option<Socket>,
    pub sending: Option<u64>,
    pub is_writing: bool,
    pub fail_commits: u8,
    pub fails_full: bool,
    pub crash_in: Option<u8>,
    pub network: bool,
    pub last_ticket: u64,
    pub awaited: BTreeSet<u64>,
    /// Queries that wait for their answers, by ticket.
    pub asked: BTreeMap<u64, Asked>,
    /// For R1: the version last seen of each document that has stayed in memory since.
    pub seen: BTreeMap<DocKey, Stamp>,
    /// The ids that the application has received, without those reported as gone.
    pub named: BTreeSet<u32>,
    pub views: Views,
    /// For R11: the store's name.
    pub session: Option<String>,
    /// The store was damaged on purpose. Some checks do not hold for a store that lost its last record.
    pub was_damaged: bool,
    /// The damage that the last opening found.
    pub damage: Damage,
    pub commits: u64,
    pub sends: u64,
    /// Reads of pages in progress.
    pub reading: u32,
    /// The session for which the server's side of the socket is registered.
    pub said_session: String,
    pub ledger: Ledger,
    /// The operations stored on the device, once they were asked for. Valid until the next write or opening.
    pub at_rest: OnceCell<BTreeSet<String>>,
    /// `mute`: messages from it are lost. `deaf`: messages to it are lost.
    pub mute: bool,
    pub deaf: bool,
    /// The time since which it has had something to send, and did nothing.
    pub idle_since: Option<u64>,
    pub copied: Option<Copied>,
    /// The files on its device.
    pub at_hand: AtHand,
    pub module: Module,
    /// Its device was once restored from a copy, or lost its newest batches.
    pub was_put_back: bool,
}

/// The code of the org with that number.
pub fn org_name(number: usize) -> String {
    if number == 0 { "org".to_owned() } else { format!("org{number}") }
}

impl Client {
    pub fn new(setup: Setup) -> Self {
        Client {
            setup,
            device: MemoryDevice::new(),
            store: None,
            machine: None,
            life: 0,
            mode: if setup.incognito { Mode::Incognito } else { Mode::Synced },
            mono_base: 0,
            wake_at: None,
            socket: None,
            sending: None,
            is_writing: false,
            fail_commits: 0,
            fails_full: false,
            crash_in: None,
            network: true,
            last_ticket: 0,
            awaited: BTreeSet::new(),
            asked: BTreeMap::new(),
            seen: BTreeMap::new(),
            named: BTreeSet::new(),
            views: Views::new(),
            session: None,
            was_damaged: false,
            damage: Damage::default(),
            commits: 0,
            sends: 0,
            reading: 0,
            said_session: String::new(),
            ledger: Ledger::default(),
            at_rest: OnceCell::new(),
            mute: false,
            deaf: false,
            idle_since: None,
            copied: None,
            at_hand: AtHand::default(),
            module: Module::default(),
            was_put_back: false,
        }
    }

    pub fn account(&self) -> String {
        format!("account{}", self.setup.tenant.account)
    }

    pub fn org(&self) -> String {
        org_name(self.setup.tenant.org)
    }

    pub fn store_name(&self) -> String {
        store_name(&self.org(), &self.account())
    }

    pub fn clock(&self, now: u64) -> Clock {
        Clock { wall_ms: now.saturating_add_signed(self.setup.ahead_ms), mono_ms: now - self.mono_base }
    }

    /// How its session opens.
    fn opening<T>(&self, random: u64, with: impl FnOnce(Opening<'_>) -> T) -> T {
        let (org, account) = (self.org(), self.account());
        let config = Config {
            mode: self.mode,
            has_live: self.setup.has_live,
            watches_silence: true,
            has_files: self.setup.has_files,
            ..config()
        };
        with(Opening {
            x: [self.setup.number as u8 + 1; 32],
            config,
            limits: self.setup.limits,
            application: Box::new(Counters { policy: self.setup.policy }),
            seed: random,
            session_seed: random ^ 0xabcd,
            ..Opening::of(&org, &account, schema())
        })
    }

    /// Opens the device, or another one of the same account.
    pub fn open_device(
        &self,
        device: &MemoryDevice,
        random: u64,
    ) -> escale::Result<escale::storage::Account<MemoryStore>> {
        self.opening(random, |opening| opening.account(device))
    }
}

impl<S: Backend> World<S> {
    /// Opens a client from its device.
    pub fn open(&mut self, number: usize) {
        self.who = number + 1;
        let random = self.next();
        let now = self.now;
        let client = &mut self.clients[number];
        if client.machine.is_some() {
            return;
        }
        let mut damage = Damage::default();
        let machine = if client.setup.incognito {
            client.opening(random, |opening| opening.incognito(&format!("incognito{random}")))
        } else {
            let opened = client.opening(random, |opening| opening.open(&client.device));
            let opened = opened.expect("a device that opens");
            client.store = Some(opened.store);
            damage = opened.damage;
            opened.machine
        };
        client.damage = damage;
        // The high-water mark in the backup database shows that the newest records were lost with the power.
        let is_told = client.was_put_back && damage.rolled_back.is_some() && damage.journal == 0;
        assert!(
            client.was_damaged || is_told || !damage.any(),
            "R7: {damage:?} in a store that nobody damaged"
        );
        if !client.setup.incognito {
            let session = machine.session().to_owned();
            let before = client.session.replace(session.clone());
            let same = before.is_none_or(|before| before == session);
            // A new epoch of the server's database gives the store another name, and so does a store rolled
            // back behind the server (R8, R11).
            assert!(
                same || client.was_damaged || !client.ledger.ops.is_empty() || self.server.has_past(),
                "R11: the store's name changed"
            );
        }
        client.machine = Some(machine);
        client.life += 1;
        client.mono_base = now - 1_000;
        client.idle_since = None;
        client.wake_at = None;
        client.socket = None;
        client.sending = None;
        client.is_writing = false;
        client.crash_in = None;
        client.seen.clear();
        client.named.clear();
        client.views.clear();
        client.at_rest.take();
        client.awaited.clear();
        client.asked.clear();
        // Nothing has been read yet.
        client.reading = 1;
        client.ledger.counters.clear();
        client.module = Module::default();
        note!(self, "client {number} opens, {damage:?}");
        self.check(number);
        self.clients[number].reading = 0;
        self.feed(number, Event::Started);
    }

    /// The process ends: data that is not on the device is lost, and so are messages in transit.
    pub fn crash(&mut self, number: usize) {
        let client = &mut self.clients[number];
        if client.machine.take().is_some() {
            client.store = None;
            client.socket = None;
            client.idle_since = None;
            client.ledger.crash(client.setup.incognito);
            if client.setup.incognito {
                client.at_hand = AtHand::default();
            }
            client.life += 1;
            self.figures.crashes += 1;
            note!(self, "client {number} crashes");
        }
    }

    /// Passes an event to a client's machine, and carries out its effects.
    pub fn feed(&mut self, number: usize, event: Event) {
        let (now, logs) = (self.now, self.logs);
        self.who = number + 1;
        self.check_idle(number);
        let client = &mut self.clients[number];
        let clock = client.clock(now);
        let wake_at = client.wake_at.map(|at| at - client.mono_base);
        let Some(machine) = &mut client.machine else { return };
        if !matches!(event, Event::Started | Event::Woke) {
            check_asleep(machine, wake_at, clock);
        }
        let text = if logs { super::wire::brief(&event) } else { String::new() };
        let effects = machine.handle(event, clock);
        self.figures.events += 1;
        let life = client.life;
        client.reading +=
            effects.iter().filter(|effect| matches!(effect, Effect::ReadPages { .. })).count() as u32;
        note!(self, "client {number} < {text}");
        self.check(number);
        self.check_ids(number, &effects);
        self.check_views(number, &effects);
        for effect in effects {
            let client = &mut self.clients[number];
            if client.life != life {
                return;
            }
            match &mut client.crash_in {
                Some(0) => return self.crash(number),
                Some(effects) => *effects -= 1,
                None => {}
            }
            self.carry_out(number, effect);
        }
        self.note_idle(number);
    }
}
