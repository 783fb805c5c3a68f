//! Reads and callers that are refused: by schedules (R89), and by the application's own functions.

use escale::model::Def;
use escale::{Code, Error, Result};

use crate::engine::caller::{Caller, NO_ENTRY, NO_WRITES};
use crate::engine::instance::context::Instance;

/// The one who asks to read.
#[derive(Clone, Copy, Debug)]
pub struct HookContext<'a> {
    /// The org.
    pub org: &'a str,
    /// The caller.
    pub caller: &'a Caller,
}

/// The answer of a function that may refuse a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing speaks against it.
    Allowed,
    /// The def is `withdrawn` for this caller.
    Refused,
}

type OnSubscribe = Box<dyn Fn(&HookContext<'_>, &Def) -> Verdict + Send + Sync>;
type Restrict = Box<dyn Fn(&HookContext<'_>) -> u8 + Send + Sync>;

/// The functions of the application that refuse reads or restrict callers. They need no transaction.
#[derive(Default)]
pub struct ReadHooks {
    pub(in crate::engine) subscribe: Option<OnSubscribe>,
    pub(in crate::engine) restriction: Option<Restrict>,
}

impl ReadHooks {
    pub(in crate::engine) fn decide_reads(&self) -> bool {
        self.subscribe.is_some()
    }

    pub(in crate::engine) fn verdict(&self, ask: &HookContext, def: &Def) -> Verdict {
        self.subscribe.as_ref().map_or(Verdict::Allowed, |hook| hook(ask, def))
    }

    fn restriction_of(&self, ask: &HookContext<'_>) -> u8 {
        self.restriction.as_ref().map_or(0, |hook| hook(ask))
    }
}

/// The level at which a caller is restricted, by schedules and by the application's own function.
pub(in crate::engine) fn level_of(instance: &Instance, org: &str, caller: &Caller) -> u8 {
    instance.read_hooks.restriction_of(&HookContext { org, caller }).min(NO_ENTRY).max(caller.level())
}

/// Refuses a caller that may not enter. Errors: `account_closed`.
pub fn check_enters(instance: &Instance, org: &str, caller: &Caller) -> Result<()> {
    if level_of(instance, org, caller) < NO_ENTRY {
        return Ok(());
    }
    Err(Error::new(Code::AccountClosed, "an administrator has closed the account, or the org, for now"))
}

/// The refusal of a write or of a part.
pub(in crate::engine) fn blocked(level: u8) -> Error {
    let what = match level {
        0 | NO_WRITES => "the account is restricted: it may not write",
        _ => "the account is restricted: it may neither read nor write",
    };
    Error::new(Code::Blocked, what)
}
