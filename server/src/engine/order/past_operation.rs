//! Looks up an operation by its id. The server keeps the result for a while, and for ever the fact that it
//! was executed or refused (R11).

use escale::Result;
use escale::model::Version;

use crate::provider::{Operation, Snapshot, Spent};

/// An operation whose id is used.
pub(in crate::engine) enum PastOperation {
    /// Its result is kept.
    Kept(Operation),
    /// Its result was purged.
    Spent(Spent),
}

impl PastOperation {
    /// The version that it gave; none if it was refused.
    pub(in crate::engine) fn v(&self) -> Option<Version> {
        match self {
            PastOperation::Kept(operation) => operation.v,
            PastOperation::Spent(spent) => spent.v,
        }
    }
}

/// The operation of that id, if there was one.
pub(in crate::engine) fn past_operation(
    tx: &(impl Snapshot + ?Sized),
    org: &str,
    account: &str,
    id: &str,
) -> Result<Option<PastOperation>> {
    if let Some(operation) = tx.operation(org, account, id)? {
        return Ok(Some(PastOperation::Kept(operation)));
    }
    Ok(tx.spent(org, account, id)?.map(PastOperation::Spent))
}
