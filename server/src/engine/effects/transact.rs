//! A write from its begin to its commit, as one transaction.

use escale::model::Version;
use escale::{Code, Error, Result};

use crate::engine::caller::Caller;
use crate::engine::instance::context::Instance;
use crate::engine::tx::hooks::Hooks;
use crate::engine::tx::operation::OperationTx;

/// How often a write restarts with a later version before it fails.
pub(in crate::engine) const RESTARTS_MAX: usize = 16;

/// The result of a write.
#[derive(Clone, Debug, PartialEq)]
pub struct Written<T> {
    /// The version of the documents written, except those of the clock `sequence`; none if nothing was written.
    pub v: Option<Version>,
    /// The closure's return value.
    pub value: T,
}

/// Runs `run` as one transaction on an org, in the name of a caller.
pub(in crate::engine) fn write_as<T>(
    (instance, hooks): (&Instance, &Hooks),
    (org, caller): (&str, &Caller),
    mut run: impl FnMut(&mut OperationTx<'_>) -> Result<T>,
) -> Result<Written<T>> {
    let mut at_least = Version::default();
    for _ in 0..RESTARTS_MAX {
        let mut lock = instance.begin(org, instance.settings.write_wait)?;
        let mut tx = OperationTx { write: lock.write(instance, caller, at_least)?, hooks };
        let result = run(&mut tx).and_then(|value| tx.write.finish().map(|()| value));
        let (now, in_time, notes) = (tx.write.now, tx.write.check_time(), tx.write.notes);
        if let Some(v) = notes.regressed {
            at_least = v + 1;
            continue;
        }
        let value = result?;
        if !notes.changed {
            return Ok(Written { v: None, value });
        }
        in_time?;
        lock.keep(now, &notes);
        instance.commit(lock)?;
        if notes.restricts {
            instance.known_schedules.forget(org);
        }
        instance.after_commit();
        return Ok(Written { v: Some(now), value });
    }
    Err(Error::new(Code::Contention, "the documents read kept a version above the write's"))
}
