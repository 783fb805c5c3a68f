//! The one who asks, and the levels at which it is restricted now.

/// The level at which only exempt classes take writes.
pub(in crate::engine) const NO_WRITES: u8 = 1;

/// The level at which only exempt classes can be read.
pub(in crate::engine) const NO_READS: u8 = 2;

/// The level at which nobody enters.
pub(in crate::engine) const NO_ENTRY: u8 = 3;

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

    /// Its role in the org; none if the server knows no accounts.
    pub fn role(&self) -> Option<&'static str> {
        let role = match (self.is_admin, self.may_write) {
            (true, _) => "admin",
            (false, true) => "write",
            (false, false) => "read",
        };
        (!self.account.is_empty()).then_some(role)
    }
}

/// The caller, and its permission.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// The token's account; empty if the server requires no tokens.
    pub account: String,
    /// Whether operations are allowed.
    pub may_write: bool,
    /// Whether it administers the org (R86).
    pub is_admin: bool,
    /// The levels at which it is restricted now (R89).
    pub restriction: Restriction,
}
