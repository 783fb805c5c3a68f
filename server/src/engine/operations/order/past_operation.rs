//! Looks up an operation by its id. The server keeps the result for a while, and for ever the fact that it
//! was executed or refused (R11).

use escale::Result;
use escale::codec::Op;
use escale::model::{Version, sha_s};

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
    snapshot: &dyn Snapshot,
    org: &str,
    account: &str,
    id: &str,
) -> Result<Option<PastOperation>> {
    if let Some(operation) = snapshot.operation(org, account, id)? {
        return Ok(Some(PastOperation::Kept(operation)));
    }
    Ok(snapshot.spent(org, account, id)?.map(PastOperation::Spent))
}

/// The stored name is purged together with the result.
pub(in crate::engine) fn is_of_another_name(past: &PastOperation, op: &Op) -> bool {
    matches!(past, PastOperation::Kept(operation) if operation.name != sha_s(&op.name))
}
