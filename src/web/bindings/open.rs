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
use crate::rest::{AccountOptions, Damage, JournalAtRest, open_account};
use crate::session::Memory;
use crate::sync::{Config, Machine, Mode};
use crate::web::adapter::Adapter;
use crate::web::address::Address;
use crate::web::driver::{Driver, Host};
use crate::web::idb::IdbDevice;
use crate::web::kdf::pbkdf2;
use crate::web::require_secure_context;
use crate::web::server::Server;

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
    };
    let mut random = SystemRandom;
    let session = random.text()?;
    let (machine, device) = if options.mode == Mode::Incognito {
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
        let opened = open_account(&IdbDevice::new(), &account, options.schema, derive, &mut random).await?;
        let store = Rc::new(opened.store);
        let machine = Machine::new(
            config,
            opened.memory,
            Some(opened.rest),
            opened.damage,
            session,
            Box::new(SystemRandom),
        )
        .with_writes(opened.journal, application);
        let name = crate::crypto::store_name(&options.org, &options.account);
        (machine, Some(DeviceSide { store, name, salt, by, header: RefCell::new(opened.header) }))
    };
    let store = device.as_ref().map(|device| device.store.clone());
    let has_server = server.is_some();
    let driver = Driver::new(machine, store, server, Box::new(host));
    *slot.borrow_mut() = Rc::downgrade(&driver);
    driver.start();
    Ok(Core::new(driver, device, has_server))
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
