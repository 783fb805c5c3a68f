//! Opening a session.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use js_sys::Function;
use wasm_bindgen::prelude::*;

use super::application::JsApplication;
use super::core::{Core, DeviceSide};
use super::error::thrown;
use super::host::JsHost;
use super::options::{Options, Secret};
use crate::crypto::{DerivedKey, Random, SystemRandom, WrapKind, kdf_salt};
use crate::error::{Code, Result, fail};
use crate::limits::KDF_ROUNDS;
use crate::memory::Memory;
use crate::storage::{AccountOptions, Damage, JournalAtRest, Layout, Requests, Tail, open_account};
use crate::sync::{Config, Event, Inbox, Machine, Mode, TabEvent};
use crate::web::adapter::Adapter;
use crate::web::address::Address;
use crate::web::claim::Claim;
use crate::web::driver::{Driver, Host};
use crate::web::idb::{IdbDevice, IdbStore};
use crate::web::kdf::pbkdf2;
use crate::web::require_secure_context;
use crate::web::server::Server;
use crate::web::tabs::lead_of;

/// Opens a session: resolves when the device is open, and never waits for the network.
#[wasm_bindgen]
pub async fn open(options: JsValue, host: JsValue) -> std::result::Result<Core, JsValue> {
    open_session(&options, host).await.map_err(thrown)
}

async fn open_session(options_object: &JsValue, host: JsValue) -> Result<Core> {
    crate::web::panic::tell_where();
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
        // Kept on the other side as long as the session is open: an instance that dies is opened again with it.
        let derive = async |rounds| {
            let x = options.secret.derive(&salt, rounds).await?;
            Host::derived(&host, &x);
            Ok(x)
        };
        let name = crate::crypto::store_name(&options.org, &options.account);
        // Before anything is read: where the lead is free, nobody writes the state any more.
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
        // Before anybody asks what is pending: it may hold what a tab that did not lead was told to be saved.
        driver.post(Event::Tab(TabEvent::Inbox(Ok(Inbox { generation, requests: inbox }))));
    }
    if let Role::IsToLead(generation) = role {
        driver.post(Event::Tab(TabEvent::Lead(generation)));
    }
    Ok(Core::new(driver, device, has_server))
}

/// What a session is among those that have the store open.
#[derive(Clone, Copy)]
enum Role {
    Follows,
    /// It has begun this generation, and must read the state in it first.
    IsToLead(u64),
    /// The state that it has read is that of this generation, which it has begun.
    Leads(u64),
}

/// What a session is that holds the lock of the lead, and has opened the store as it was in `seen`.
async fn role_of(store: &IdbStore, layout: &Layout, seen: u64) -> Role {
    // It has made the store.
    if seen > 0 && store.begun() == seen {
        return Role::Leads(seen);
    }
    let keys = layout.look_keys();
    let Ok(Some((generation, found))) = store.take_over_looking(seen, &keys).await else {
        return Role::Follows;
    };
    match layout.looked(&found) {
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

    /// X.
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
