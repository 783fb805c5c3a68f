//! What the application gives to the machine beside events: the optimistic parts of its operations, and its own way
//! to settle conflicts. Both are called at once and must give the same for the same.

use crate::error::Result;
use crate::journal::{Change, Policy, Settlement, State, batched, changes_of};
use crate::memory::DocKey;
use crate::model::schema::Schema;
use crate::model::{Name, Value};

/// Reads a document as it is before the operation.
pub type Reader<'a> = dyn FnMut(&DocKey) -> Option<State> + 'a;

/// The application's functions.
pub trait Application {
    /// What an operation of the application's own does; `None` where it has no optimistic part.
    fn optimistic(&self, name: &str, args: &Value, read: &mut Reader<'_>) -> Option<Result<Vec<Change>>>;

    /// How a class settles its conflicts.
    fn policy(&self, class: &Name) -> Policy;

    /// Settles a conflict of a class whose policy is [`Policy::Custom`].
    fn settle(
        &self,
        class: &Name,
        base: Option<&State>,
        mine: Option<&State>,
        theirs: Option<&State>,
    ) -> Result<Settlement>;
}

/// What running an operation's optimistic part has shown.
pub(super) struct Ran {
    /// What it does to documents, as far as that is known here.
    pub changes: Result<Vec<Change>>,
    /// Whether it, or a part of the batch, has no optimistic part.
    pub is_blind: bool,
}

/// What an operation of the application's own does; in a batch each one is run on what those before it have made.
pub(super) fn run(
    application: &dyn Application,
    schema: &Schema,
    (name, args): (&str, &Value),
    read: &mut Reader<'_>,
) -> Ran {
    if name != "batch" {
        let changes = application.optimistic(name, args, read);
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
            application.optimistic(name, args, &mut read_within)
        });
        match changes {
            Some(Ok(changes)) => made.extend(changes),
            Some(Err(error)) => return Ran { changes: Err(error), is_blind },
            None => is_blind = true,
        }
    }
    Ran { changes: Ok(made), is_blind }
}

/// An application with no functions of its own.
pub struct NoApplication;

impl Application for NoApplication {
    fn optimistic(&self, _: &str, _: &Value, _: &mut Reader<'_>) -> Option<Result<Vec<Change>>> {
        None
    }

    fn policy(&self, _: &Name) -> Policy {
        Policy::Ask
    }

    fn settle(
        &self,
        _: &Name,
        _: Option<&State>,
        _: Option<&State>,
        _: Option<&State>,
    ) -> Result<Settlement> {
        Ok(Settlement::Theirs)
    }
}
