//! Access rights as a schema declares them (R86): their rules, and the pure decision.
//!
//! Nothing here reads a database. The engine gives the caller, the document or the part of it that a def tells, and
//! answers questions about memberships.

mod decide;
mod declare;
mod parse;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

pub use decide::{Asker, Related, Subject};
pub use declare::{ClassRights, Quota, Right, Rights};

use escale::model::{Name, Value};

/// The built-in class of the accounts, for applications whose schema declares it (R89).
pub const ACCOUNTS_CLASS: &str = "EscaleAccount";

/// Leaves in one right.
const LEAVES_MAX: usize = 16;

/// Levels of lists and `all` in one right.
const DEPTH_MAX: usize = 4;

/// The condition under which a right holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Rule {
    /// Every account of the org.
    Org,
    /// Nobody.
    None,
    /// The administrators of the org.
    Admin,
    /// The accounts that the property names.
    Own(Name),
    /// A document without the property.
    Unset(Name),
    /// The members of the group that the document names.
    In(Membership),
    /// Those who have a right to the parent of the item (R97).
    Parent(Parent),
    /// One of these rules.
    Any(Vec<Rule>),
    /// Every one of these rules.
    All(Vec<Rule>),
}

/// A membership: a living document of a class with the key `[group, account]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Membership {
    /// The class of memberships.
    pub class: Name,
    /// The first key property of that class: the group.
    pub group: Name,
    /// The collection of that class that lists the memberships of an account.
    pub collection: Name,
    /// The property of the decided document that names the group.
    pub by: Name,
    /// Properties that the membership must have, each with the values allowed.
    pub wanted: Vec<(Name, Vec<Value>)>,
}

/// The parent of the items of a class, and the right to it that gives the right to an item (R97).
#[derive(Clone, Debug, PartialEq)]
pub struct Parent {
    /// The class of the parents.
    pub class: Name,
    /// For each key property of the parent, the property of the item that holds it, and its own name.
    pub key: Vec<(Name, Name)>,
    /// The right to the parent: `read` for a read of an item, and `update` for a change of one.
    pub right: Right,
}
