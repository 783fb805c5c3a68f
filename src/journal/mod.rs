//! Operations and the actions that they cause: what an application wrote, until the server has
//! answered, and the history of each document.

mod action;
mod change;
mod op;
mod planner;
mod policy;
mod record;

pub use action::{Action, ActionType, iso8601};
pub use change::{Change, ChangeKind, IfVersion, changes_of, key_of};
pub use op::{OpId, OpState, PendingOp, make_id};
pub use planner::{ActionMeta, Protect, Retention, plan};
pub use policy::{Policy, Settlement, State, settle};
pub use record::JournalRecord;
