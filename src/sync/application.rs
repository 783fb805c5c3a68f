//! What the application gives to the machine beside events: the optimistic parts of its operations, and its own way
//! to settle conflicts. Both are called at once and must give the same for the same.

use crate::error::Result;
use crate::journal::{Change, Policy, Settlement, State};
use crate::model::{Name, Value};
use crate::session::DocKey;

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

/// An application with no functions of its own.
pub struct NoApplication;

impl Application for NoApplication {
    fn optimistic(&self, _: &str, _: &Value, _: &mut Reader<'_>) -> Option<Result<Vec<Change>>> {
        None
    }

    fn policy(&self, _: &Name) -> Policy {
        Policy::Ask
    }

    fn settle(&self, _: &Name, _: Option<&State>, _: Option<&State>, _: Option<&State>) -> Result<Settlement> {
        Ok(Settlement::Theirs)
    }
}
