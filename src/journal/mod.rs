//! Operations and their actions: the application's writes until the server has answered, and the history of
//! each document. Plain types and functions; the sync machine (`src/sync`) decides with them.

mod action;
mod change;
mod files;
mod issued;
mod op;
mod planner;
mod policy;
mod record;
mod request;

pub use action::{Action, ActionType, iso8601};
pub use change::{
    Change, ChangeKind, IfVersion, batched, changes_of, is_built_in, key_of, operation_to, part_of, tree_of,
};
pub use files::files_of;
pub use issued::Issued;
pub use op::{Draft, OpId, OpState, PendingOp, Unsendable, Whole, make_id};
pub use planner::{ActionMeta, ActorSweep, Protect, Retention, plan};
pub use policy::{Policy, Settlement, State, settle};
pub use record::{JournalRecord, Outcome};
pub use request::{Request, Signal, Wanted};
