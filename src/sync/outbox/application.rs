//! The functions that the application supplies to the machine: the optimistic parts of its operations, and
//! its custom way to resolve conflicts. The machine calls both synchronously, and both must be deterministic:
//! equal input gives equal output.

use crate::error::{Code, Result, fail};
use crate::journal::{Change, PendingOp, Policy, Settlement, State, batched, changes_of};
use crate::memory::DocKey;
use crate::model::schema::Schema;
use crate::model::{Name, Value};

/// Reads a document as it is before the operation.
pub type Reader<'a> = dyn FnMut(&DocKey) -> Option<State> + 'a;

/// The functions that the application supplies.
pub trait Application {
    /// The changes that one of the application's own operations makes; `None` if it has no optimistic part.
    fn optimistic(&self, name: &str, args: &Value, read: &mut Reader<'_>) -> Option<Result<Vec<Change>>>;

    /// The conflict policy of a class.
    fn policy(&self, _class: &Name) -> Policy {
        Policy::default()
    }

    /// Resolves a conflict of a class whose policy is [`Policy::Custom`]: `base`, `mine`, `theirs`. An application
    /// without such a policy is never called.
    fn settle(
        &self,
        _class: &Name,
        _base: Option<&State>,
        _mine: Option<&State>,
        _theirs: Option<&State>,
    ) -> Result<Settlement> {
        Ok(Settlement::Theirs)
    }
}

/// The policy by which a conflict of an operation is resolved: that of the release which issued it. If this release has no
/// function where that one has, the user decides.
#[inline(never)] // Several callers: copies of it cost the page a kilobyte.
pub fn policy_of(app: &dyn Application, op: &PendingOp, class: &Name) -> Policy {
    let here = app.policy(class);
    match op.state.issued.policy(class) {
        Some(Policy::Custom) if here != Policy::Custom => Policy::Ask,
        Some(policy) => policy,
        None => here,
    }
}

/// The result of running an operation's optimistic part.
pub struct Ran {
    /// The changes to documents, as far as this session can compute them.
    pub changes: Result<Vec<Change>>,
    /// True if the operation, or a part of the batch, has no optimistic part.
    pub is_blind: bool,
}

/// Runs the optimistic part of an operation that is not entirely built in. In a batch, each part sees the
/// changes of the parts before it.
pub fn run(
    application: &dyn Application,
    schema: &Schema,
    (name, args): (&str, &Value),
    read: &mut Reader<'_>,
) -> Ran {
    if name != "batch" {
        let changes = only_synced(schema, application.optimistic(name, args, read));
        return Ran { is_blind: changes.is_none(), changes: changes.unwrap_or(Ok(Vec::new())) };
    }
    let mut made: Vec<Change> = Vec::new();
    let mut is_blind = false;
    for (name, args) in batched(args) {
        let changes = changes_of(schema, name, args).transpose().or_else(|| {
            let mut read_within = |key: &DocKey| {
                let before = read(key);
                made.iter()
                    .filter(|change| change.key == *key)
                    .fold(before, |state, change| change.kind.apply(state))
            };
            only_synced(schema, application.optimistic(name, args, &mut read_within))
        });
        match changes {
            Some(Ok(changes)) => made.extend(changes),
            Some(Err(error)) => return Ran { changes: Err(error), is_blind },
            None => is_blind = true,
        }
    }
    Ran { changes: Ok(made), is_blind }
}

/// The changes of the application's own operation. The server runs it, so that it changes no local document (R29).
fn only_synced(schema: &Schema, changes: Option<Result<Vec<Change>>>) -> Option<Result<Vec<Change>>> {
    let is_local = |change: &Change| schema.classes()[usize::from(change.key.0)].is_local();
    let check = |changes: Vec<Change>| {
        if changes.iter().any(is_local) {
            let why = "an operation of the application changes a local document: batch it with a put";
            return fail(Code::BadValue, why);
        }
        Ok(changes)
    };
    Some(changes?.and_then(check))
}

/// An application that supplies no functions.
pub struct NoApplication;

impl Application for NoApplication {
    fn optimistic(&self, _: &str, _: &Value, _: &mut Reader<'_>) -> Option<Result<Vec<Change>>> {
        None
    }
}
