//! Opens a session: reads the options, opens the store, decides whether this tab leads, and starts the
//! driver.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use js_sys::{Function, Promise};
use wasm_bindgen::prelude::*;

use super::application::JsApplication;
use super::core::{Core, DeviceSide};
use super::error::promise_of;
use super::host::JsHost;
use super::options::{Options, Secret};
use crate::crypto::{DerivedKey, Random, SystemRandom, WrapKind, kdf_salt};
use crate::error::{Code, Result, fail};
use crate::limits::KDF_ROUNDS;
use crate::memory::Memory;
use crate::storage::{AccountOptions, Damage, JournalAtRest, Layout, Requests, Tail, open_account};
use crate::sync::{Config, Event, Inbox, Machine, Mode, TabEvent};
use crate::web::driver::{Driver, Host};
use crate::web::idb::{IdbDevice, IdbStore};
use crate::web::platform::kdf::pbkdf2;
use crate::web::require_secure_context;
use crate::web::tabs::claim::Claim;
use crate::web::tabs::lead_of;
use crate::web::transport::adapter::Adapter;
use crate::web::transport::address::Address;
use crate::web::transport::server::Server;

/// Opens a session: resolves when the device is open, and never waits for the network.
#[wasm_bindgen]
pub fn open(options: JsValue, host: JsValue) -> Promise {
    promise_of(Box::pin(async move { open_session(&options, host).await.map(JsValue::from) }))
}

async fn open_session(options_object: &JsValue, host: JsValue) -> Result<Core> {
    let options = Options::read(options_object)?;
    let server = options.server.as_ref().map(|server| server_of(server, &options)).transpose()?;
    let slot = Rc::new(RefCell::new(Weak::new()));
    let application = Box::new(JsApplication::new(&host, options_object, options.schema.clone())?);
    let host = JsHost::new(host, slot.clone())?;
    let config = Config {
        mode: options.mode,
        has_live: server.as_ref().is_some_and(Server::can_listen),
        watches_silence: matches!(server, Some(Server::Address(..))),
        has_token: options.has_token,
        has_files: options.has_files,
        poll_every_ms: options.poll_every_ms,
    };
    let mut random = SystemRandom;
    let session = random.text()?;
    let (mut claim, mut role, mut inbox) = (None, Role::Follows, Requests::new());
    let (machine, device) = if options.mode == Mode::Incognito || options.in_memory {
        let memory = Memory::new(options.schema);
        let machine = Machine::new(config, memory, None, Damage::default(), session, Box::new(SystemRandom));
        (machine.with_writes(JournalAtRest::default(), application), None)
    } else {
        require_secure_context()?;
        let by = options.secret.kind();
        let account = AccountOptions {
            org: &options.org,
            account: &options.account,
            by,
            rounds: if by == WrapKind::Passphrase { KDF_ROUNDS.0 } else { 0 },
            create: options.mode == Mode::Synced,
        };
        let salt = kdf_salt(&options.org, &options.account);
        // JavaScript keeps X as long as the session is open: if the instance dies, it opens the store again
        // with X.
        let derive = async |rounds| {
            let x = options.secret.derive(&salt, rounds).await?;
            Host::derived(&host, &x);
            Ok(x)
        };
        let name = crate::crypto::store_name(&options.org, &options.account);
        // Taken before anything is read: if the lead is free, no other tab still writes the state.
        claim = Claim::take(&lead_of(&name)).await;
        let device = IdbDevice::of(options.databases);
        let opened = open_account(&device, &account, options.schema, derive, &mut random).await?;
        let store = Rc::new(opened.store);
        store.open_pages_with(opened.layout.key_of_pages());
        inbox = opened.inbox;
        if claim.is_some() {
            role = role_of(&store, &opened.layout, opened.generation).await;
        }
        claim = claim.filter(|claim| claim.is_held() && !matches!(role, Role::Follows));
        if claim.is_none() {
            role = Role::Follows;
        }
        let machine = Machine::new(
            config,
            opened.memory,
            Some(opened.layout),
            opened.damage,
            session,
            Box::new(SystemRandom),
        )
        .with_writes(opened.journal, application);
        let machine = match role {
            Role::Leads(generation) => machine.leading(generation),
            Role::Follows | Role::IsToLead(_) => machine.following(),
        };
        (machine, Some(DeviceSide { device, store, name, salt, by, header: RefCell::new(opened.header) }))
    };
    let store = device.as_ref().map(|device| device.store.clone());
    let has_server = server.is_some();
    let driver = Driver::new(machine, store.clone(), server, Box::new(host));
    *slot.borrow_mut() = Rc::downgrade(&driver);
    driver.start(device.as_ref().map(|device| (device.name.as_str(), claim)));
    if let Role::Leads(generation) = role {
        // Before the application can ask for pending operations: the inbox may hold a follower's operations
        // that were reported as saved.
        driver.post(Event::Tab(TabEvent::Inbox(Ok(Inbox { generation, requests: inbox }))));
    }
    if let Role::IsToLead(generation) = role {
        driver.post(Event::Tab(TabEvent::Lead(generation)));
    }
    Ok(Core::new(driver, device, has_server))
}

/// The role of a session among the sessions that have the store open.
#[derive(Clone, Copy)]
enum Role {
    Follows,
    /// It has begun this generation, but must read the state of it first.
    IsToLead(u64),
    /// It has begun this generation, and has read the state of it.
    Leads(u64),
}

/// The role of a session that holds the leader's lock. It has opened the store in generation `seen`.
async fn role_of(store: &IdbStore, layout: &Layout, seen: u64) -> Role {
    // This session has made the store.
    if seen > 0 && store.begun() == seen {
        return Role::Leads(seen);
    }
    let keys = layout.look_keys();
    let Ok(Some((generation, found))) = store.take_over_peeking(seen, &keys).await else {
        return Role::Follows;
    };
    match layout.read_tail(&found) {
        Tail::Same => Role::Leads(generation),
        _ => Role::IsToLead(generation),
    }
}

fn server_of(server: &JsValue, options: &Options) -> Result<Server> {
    match server.as_string() {
        Some(base) => Ok(Server::Address(Rc::new(Address::new(&base, &options.org)?), options.format)),
        None if server.is_object() && !server.is_instance_of::<Function>() => {
            Ok(Server::Adapter(Rc::new(Adapter::new(server.clone())?)))
        }
        None => fail(Code::BadOption, "`server` is a URL or an adapter object"),
    }
}

impl Secret {
    pub(super) fn kind(&self) -> WrapKind {
        match self {
            Secret::Key(_) => WrapKind::Key,
            Secret::Passphrase(_) | Secret::Derived(_) | Secret::None => WrapKind::Passphrase,
        }
    }

    /// X, from which the key that wraps K is made.
    pub(super) async fn derive(&self, salt: &[u8], rounds: u32) -> Result<DerivedKey> {
        match self {
            Secret::Passphrase(passphrase) => {
                Ok(DerivedKey::from_bytes(pbkdf2(passphrase, salt, rounds).await?))
            }
            Secret::Key(key) | Secret::Derived(key) => Ok(DerivedKey::from_bytes(*key)),
            Secret::None => fail(Code::BadOption, "`passphrase` is missing"),
        }
    }
}
