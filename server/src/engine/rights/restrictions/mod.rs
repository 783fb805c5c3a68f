//! Restrictions (R89): an administrator bars an account, or the whole org, from writing, from reading, or from entering, on
//! dates of his choice. Nothing that a session holds is touched.
//!
//! One record of each org has all schedules and the administrators. So an instance keeps the record of an org in memory,
//! and no request reads more for it.

mod known;
mod record;
mod schedule;
mod set;

pub use known::{KnownSchedules, Restrictions};
pub(in crate::engine) use record::{note_role, schedule_shown};
pub use schedule::Schedule;
pub(in crate::engine) use set::{set_account, set_org};

use escale::codec::Fault;
use escale::model::schema::Class;
use escale::{Code, Error, Result};

use self::record::OrgRecord;
use super::{Ask, KeptWrite};
use crate::engine::operation::{Tx, working};
use crate::engine::{Caller, Engine};

/// The level at which only exempt classes take writes.
pub(in crate::engine) const NO_WRITES: u8 = 1;

/// The level at which only exempt classes can be read.
pub(in crate::engine) const NO_READS: u8 = 2;

/// The level at which nobody enters.
const NO_ENTRY: u8 = 3;

/// The levels at which a caller is restricted now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restriction {
    /// By the schedule of the org.
    pub org: u8,
    /// By the schedule of the account.
    pub account: u8,
}

impl Caller {
    /// The level at which the caller is restricted. The org's schedule never keeps an administrator out: nobody else could
    /// end it.
    pub fn level(&self) -> u8 {
        let Restriction { org, account } = self.restriction;
        let org = if self.is_admin { org.min(NO_READS) } else { org };
        org.max(account)
    }
}

/// The level at which a caller is restricted, by schedules and by the application's own function.
pub(in crate::engine) fn level_of(engine: &Engine, org: &str, caller: &Caller) -> u8 {
    engine.hooks.restriction_of(&Ask { org, caller }).min(NO_ENTRY).max(caller.level())
}

/// Refuses a caller that may not enter. Errors: `account_closed`.
pub fn check_enters(engine: &Engine, org: &str, caller: &Caller) -> Result<()> {
    if level_of(engine, org, caller) < NO_ENTRY {
        return Ok(());
    }
    Err(Error::new(Code::AccountClosed, "an administrator has closed the account, or the org, for now"))
}

impl KeptWrite<'_, '_> {
    /// The same as of a transaction, for a caller whose restriction is not known yet.
    pub fn check_enters(&self, engine: &Engine, org: &str, caller: Caller) -> Result<()> {
        let restriction = OrgRecord::read(self)?.restriction(&caller, self.now());
        check_enters(engine, org, &Caller { restriction, ..caller })
    }
}

/// The refusal of a write or of a part.
pub(in crate::engine) fn blocked(level: u8) -> Error {
    let what = match level {
        0 | NO_WRITES => "the account is restricted: it may not write",
        _ => "the account is restricted: it may neither read nor write",
    };
    Error::new(Code::Blocked, what)
}

impl Tx<'_> {
    /// Refuses a write to a class, or one of no class, if the caller is restricted. Errors: `blocked`.
    #[allow(clippy::result_large_err)] // as of all operations
    pub(in crate::engine) fn check_level(&self, class: Option<&Class>) -> std::result::Result<(), Fault> {
        let is_exempt = class.is_some_and(|class| self.rights.is_exempt(class.name().as_str(), self.level));
        if self.level < NO_WRITES || is_exempt { Ok(()) } else { Err(working(blocked(self.level))) }
    }
}
