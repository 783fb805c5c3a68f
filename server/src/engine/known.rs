//! Looks up an operation by its id. The server keeps the result for a while, and for ever the fact that it
//! was executed or refused (R11).

use escale::Result;
use escale::model::Version;

use crate::provider::{Operation, Snapshot, Spent};

/// An operation whose id is used.
pub(super) enum Known {
    /// Its result is kept.
    Kept(Operation),
    /// Its result was purged.
    Spent(Spent),
}

impl Known {
    /// The version that it gave; none if it was refused.
    pub(super) fn v(&self) -> Option<Version> {
        match self {
            Known::Kept(operation) => operation.v,
            Known::Spent(spent) => spent.v,
        }
    }
}

/// The operation of that id, if there was one.
pub(super) fn known(
    tx: &(impl Snapshot + ?Sized),
    org: &str,
    account: &str,
    id: &str,
) -> Result<Option<Known>> {
    if let Some(operation) = tx.operation(org, account, id)? {
        return Ok(Some(Known::Kept(operation)));
    }
    Ok(tx.spent(org, account, id)?.map(Known::Spent))
}
