//! Application-defined operations: their registry, and their view of the database.
// A fault is as large as the information that the session needs. Refusals are rare.
#![allow(clippy::result_large_err)]

use std::collections::BTreeMap;

use escale::codec::Fault;
use escale::limits::TEXT_CHARS_MAX;
use escale::model::schema::Class;
use escale::model::{Pk, Value, Version};
use escale::{Code, Error, Result};

use super::growth::Growth;
use super::rights::Hooks;
use super::write::Writing;
use super::{Caller, built_in};
use crate::rights::Rights;

/// The outcome of an operation: a value for the session, or the fault that refuses it. A fault of kind C, O
/// or X is not stored, and the session sends the operation again; for C and X, up to [`super::TRIES_MAX`]
/// times.
pub type Ran = std::result::Result<Option<Value>, Fault>;

/// A document's properties, by name.
pub type Properties = BTreeMap<String, Value>;

type Run = Box<dyn Fn(&mut Tx<'_>, &Value) -> Ran + Send + Sync>;

/// The phase of a fault that arose while the operation ran.
pub(super) const WORKING: u8 = 1;

/// Codes about a session's order. The faults of an operation itself may not carry them.
const RESERVED: [Code; 4] = [Code::SessionReused, Code::OrderGap, Code::OrderHeld, Code::Forgotten];

/// The registered operations, by name.
#[derive(Default)]
pub(super) struct Operations {
    by_name: BTreeMap<String, Run>,
}

impl Operations {
    pub(super) fn register(&mut self, name: &str, run: Run) -> Result<()> {
        let bad = |what: &str| Err(Error::new(Code::BadOption, format!("operation {name:?}: {what}")));
        if name.is_empty() || name.len() > TEXT_CHARS_MAX {
            return bad("a name has 1 to 1024 bytes");
        }
        if built_in::NAMES.contains(&name) || self.by_name.contains_key(name) {
            return bad("the name is taken");
        }
        self.by_name.insert(name.to_owned(), run);
        Ok(())
    }

    /// Runs the operation of that name, built in or registered.
    pub(super) fn run(&self, tx: &mut Tx<'_>, name: &str, args: &Value) -> Ran {
        if name == "batch" {
            return built_in::batch(self, tx, args);
        }
        if built_in::NAMES.contains(&name) {
            return built_in::run(tx, name, args);
        }
        tx.check_level(None)?;
        let Some(run) = self.by_name.get(name) else {
            return Err(Fault::new(Code::UnknownOperation, "no operation of that name is registered"));
        };
        let counted = std::mem::replace(&mut tx.writing.growth, Growth::of_application());
        let ran = run(tx, args).map_err(|fault| own_fault(name, fault));
        tx.writing.growth = counted.after_application();
        ran
    }
}

/// The fault of a function of the application, which may give any code but those about a session's order.
pub(super) fn own_fault(name: &str, fault: Fault) -> Fault {
    match Code::parse(&fault.code) {
        Some(code) if RESERVED.contains(&code) => {
            tracing::error!(
                name,
                code = fault.code,
                "an operation's fault has a code that is not its to give"
            );
            Fault { phase: WORKING, ..Fault::new(Code::Internal, "the operation failed") }
        }
        // It did start, even if the fault was made with an earlier phase.
        _ => Fault { phase: fault.phase.max(WORKING), ..fault },
    }
}

/// The reads and writes of an operation: the documents of one org, in one transaction.
pub struct Tx<'t> {
    pub(super) writing: Writing<'t>,
    pub(super) caller: &'t Caller,
    pub(super) rights: &'t Rights,
    pub(super) hooks: &'t Hooks,
    /// The level at which the caller is restricted (R89).
    pub(super) level: u8,
}

impl Tx<'_> {
    /// The version of the documents that this operation writes: the time of the transaction's start. Documents of the
    /// clock `sequence` get the number of their tree.
    pub fn now(&self) -> Version {
        self.writing.now()
    }

    /// The org.
    pub fn org(&self) -> &str {
        self.writing.org()
    }

    /// The account of the caller; empty if the server requires no tokens.
    pub fn account(&self) -> &str {
        &self.caller.account
    }

    /// The living document with these key properties.
    pub fn get(&mut self, class: &str, key: &[&str]) -> std::result::Result<Option<Properties>, Fault> {
        Ok(self.get_with_version(class, key)?.map(|(_, map)| map))
    }

    /// Like [`Tx::get`], with the document's version.
    pub fn get_with_version(
        &mut self,
        class: &str,
        key: &[&str],
    ) -> std::result::Result<Option<(Version, Properties)>, Fault> {
        let pk = self.class(class)?.pk_of(key).map_err(working)?;
        self.writing.get(class, pk.as_str()).map_err(working)
    }

    /// Writes a document whole, key properties included.
    pub fn put(&mut self, class: &str, map: Properties) -> std::result::Result<(), Fault> {
        self.writing.put(class, map).map(drop).map_err(working)
    }

    /// Deletes a document. Fails with `not_found` if there is none.
    pub fn delete(&mut self, class: &str, key: &[&str]) -> std::result::Result<(), Fault> {
        let (_, map) = key_map(self.class(class)?, key).map_err(working)?;
        self.writing.delete(class, &map).map_err(working)
    }

    pub(super) fn class(&self, name: &str) -> std::result::Result<&'_ Class, Fault> {
        self.writing.schema().class(name).map_err(working)
    }
}

/// The pk and the key properties of a key.
pub(super) fn key_map(class: &Class, key: &[&str]) -> Result<(Pk, Properties)> {
    let pk = class.pk_of(key)?;
    let map = class.key().iter().zip(key).map(|(name, part)| (name.as_str().to_owned(), Value::from(*part)));
    Ok((pk, map.collect()))
}

/// The fault for an error that arose while the operation ran.
pub(super) fn working(error: Error) -> Fault {
    fault_of(&error, WORKING)
}

/// The fault for an error. Details of internal errors go to the log, not to the caller; the session retries.
pub(super) fn fault_of(error: &Error, phase: u8) -> Fault {
    let fault = match error.code() {
        // The service is closed until there is room again. The operation itself is not at fault.
        Code::StorageFull => {
            tracing::error!(%error, "an operation finds no room");
            Fault::new(Code::Unavailable, "the server has no room left; its log says more")
        }
        Code::Internal | Code::StorageFailed => {
            tracing::error!(%error, "an operation failed");
            Fault::new(Code::ServerError, "the server failed; its log says more")
        }
        _ => Fault::from(error),
    };
    Fault { phase, ..fault }
}
