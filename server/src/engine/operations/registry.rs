//! The operations by their names: built in, or registered by the application.
// A fault is as large as the information that the session needs. Refusals are rare.
#![allow(clippy::result_large_err)]

use std::collections::BTreeMap;

use escale::codec::Fault;
use escale::limits::TEXT_CHARS_MAX;
use escale::model::Value;
use escale::{Code, Error, Result};

use crate::engine::operations::built_in;
use crate::engine::tx::budget::Growth;
use crate::engine::tx::operation::OperationTx;
use crate::engine::tx::outcome::{Ran, own_fault};

type Run = Box<dyn Fn(&mut OperationTx<'_>, &Value) -> Ran + Send + Sync>;

/// The registered operations, by name.
#[derive(Default)]
pub(in crate::engine) struct Operations {
    by_name: BTreeMap<String, Run>,
}

impl Operations {
    pub(in crate::engine) fn register(&mut self, name: &str, run: Run) -> Result<()> {
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
    pub(in crate::engine) fn run(&self, tx: &mut OperationTx<'_>, name: &str, args: &Value) -> Ran {
        if name == "batch" {
            return built_in::batch(self, tx, args);
        }
        if built_in::NAMES.contains(&name) {
            return built_in::run(tx, name, args);
        }
        tx.write.check_level(None)?;
        let Some(run) = self.by_name.get(name) else {
            return Err(Fault::new(Code::UnknownOperation, "no operation of that name is registered"));
        };
        let counted = std::mem::replace(&mut tx.write.notes.growth, Growth::of_application());
        let ran = run(tx, args).map_err(|fault| own_fault(name, fault));
        tx.write.notes.growth = counted.after_application();
        ran
    }
}
