//! How tests open a session: over a device, or without one in incognito.

use escale::Result;
use escale::crypto::{AccountKey, DerivedKey, Header, Random, SeededRandom, WrapKind};
use escale::limits::PULL_EVERY_MS;
use escale::memory::Memory;
use escale::model::schema::Schema;
use escale::storage::{Account, AccountOptions, Damage, JournalAtRest, Limits, open_account};
use escale::store::Device;
use escale::store::conformance::block_on;
use escale::sync::{Application, Config, Machine, Mode, NoApplication};

/// The configuration of a session with no socket and no tokens.
pub fn config() -> Config {
    Config {
        mode: Mode::Synced,
        has_live: false,
        watches_silence: false,
        has_token: false,
        has_files: false,
        poll_every_ms: PULL_EVERY_MS,
    }
}

/// All that a session is opened with.
pub struct Opening<'a> {
    pub org: &'a str,
    pub account: &'a str,
    /// The key that wraps K, how it was derived, and in how many rounds.
    pub x: [u8; 32],
    pub by: WrapKind,
    pub rounds: u32,
    /// Makes a store that is missing.
    pub creates: bool,
    pub schema: Schema,
    pub config: Config,
    pub limits: Limits,
    pub application: Box<dyn Application>,
    /// The seed of the opening: K and the store's name come from it if it makes the store.
    pub seed: u64,
    /// The seed of the session.
    pub session_seed: u64,
}

/// An open session.
pub struct Opened<S> {
    pub machine: Machine,
    pub store: S,
    pub header: Header,
    pub key: AccountKey,
    pub damage: Damage,
}

impl<'a> Opening<'a> {
    /// The opening of an application that resolves no conflict, with the usual limits.
    pub fn of(org: &'a str, account: &'a str, schema: Schema) -> Self {
        Opening {
            org,
            account,
            x: [7; 32],
            by: WrapKind::Key,
            rounds: 0,
            creates: true,
            schema,
            config: config(),
            limits: Limits::default(),
            application: Box::new(NoApplication),
            seed: 1,
            session_seed: 2,
        }
    }

    /// Opens the account's store, with no session over it.
    pub fn account<D: Device>(&self, device: &D) -> Result<Account<D::Store>> {
        let Opening { org, account, by, rounds, creates: create, .. } = *self;
        let options = AccountOptions { org, account, by, rounds, create };
        let derive = async |_| Ok(DerivedKey::from_bytes(self.x));
        let random = &mut SeededRandom::new(self.seed);
        block_on(open_account(device, &options, self.schema.clone(), derive, random))
    }

    /// Opens the session over a device.
    pub fn open<D: Device>(self, device: &D) -> Result<Opened<D::Store>> {
        let source = Box::new(SeededRandom::new(self.session_seed));
        self.open_with(device, source)
    }

    /// Opens the session over a device. It takes its random numbers from this source, and not from its seed.
    pub fn open_with<D: Device>(self, device: &D, source: Box<dyn Random>) -> Result<Opened<D::Store>> {
        let Account { store, header, key, memory, mut layout, journal, damage, .. } = self.account(device)?;
        layout.set_limits(self.limits);
        let machine = Machine::new(self.config, memory, Some(layout), damage, String::new(), source);
        Ok(Opened { machine: machine.with_writes(journal, self.application), store, header, key, damage })
    }

    /// Opens the session without a device, under that name.
    pub fn incognito(self, session: &str) -> Machine {
        let source = Box::new(SeededRandom::new(self.session_seed));
        let (memory, damage) = (Memory::new(self.schema), Damage::default());
        let machine = Machine::new(self.config, memory, None, damage, session.into(), source);
        machine.with_writes(JournalAtRest::default(), self.application)
    }
}
