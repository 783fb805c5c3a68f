//! The decision: does a rule hold for a caller and a subject?

use std::collections::BTreeMap;

use escale::Result;
use escale::model::schema::Schema;
use escale::model::{Name, Pk, Value, sha_s};

use super::{Membership, Parent, Rule};

/// The one who asks.
#[derive(Clone, Copy, Debug)]
pub struct Asker<'a> {
    /// The account; empty if the server knows none, which then owns nothing and is a member of nothing.
    pub account: &'a str,
    /// Whether it administers the org.
    pub is_admin: bool,
}

/// The part that is known of the decided documents.
#[derive(Clone, Copy, Debug)]
pub enum Subject<'a> {
    /// Nothing: they are all documents of a class.
    Class,
    /// They share the value of one property, whose `shaS` is known.
    Hash {
        /// The property.
        property: &'a Name,
        /// The `shaS` of its value.
        hash: &'a str,
        /// Whether the value is one of a list.
        is_of_list: bool,
    },
    /// They share these properties. Of any other property nothing is known.
    Shared(&'a BTreeMap<String, Value>),
    /// One document, whole.
    Document(&'a BTreeMap<String, Value>),
}

/// Answers questions about other documents: the caller's memberships, and the parents of items.
pub trait Related {
    /// Whether the caller is a member of this group, as the rule wants it.
    fn has(&mut self, rule: &Membership, group: &str) -> Result<bool>;

    /// The same for a group of which only the `shaS` is known.
    fn has_hashed(&mut self, rule: &Membership, hash: &str) -> Result<bool>;

    /// Whether the caller has the right to the parent of the decided items.
    fn allows_parent(&mut self, parent: &Parent, items: Subject) -> Result<bool>;
}

impl Rule {
    /// Whether the rule holds. A rule that the subject does not decide does not hold.
    pub fn holds(&self, asker: Asker, subject: Subject, related: &mut dyn Related) -> Result<bool> {
        match self {
            Rule::Org => Ok(true),
            Rule::None => Ok(false),
            Rule::Admin => Ok(asker.is_admin),
            Rule::Own(property) => Ok(!asker.account.is_empty() && subject.names(property, asker.account)),
            Rule::Unset(property) => Ok(subject.lacks(property)),
            Rule::In(membership) => {
                if asker.account.is_empty() {
                    return Ok(false);
                }
                match subject {
                    Subject::Hash { property, hash, is_of_list: false } if *property == membership.by => {
                        related.has_hashed(membership, hash)
                    }
                    Subject::Shared(map) | Subject::Document(map) => match map.get(membership.by.as_str()) {
                        Some(Value::String(group)) => related.has(membership, group),
                        _ => Ok(false),
                    },
                    Subject::Class | Subject::Hash { .. } => Ok(false),
                }
            }
            Rule::Parent(parent) => related.allows_parent(parent, subject),
            Rule::Any(rules) => {
                for rule in rules {
                    if rule.holds(asker, subject, related)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Rule::All(rules) => {
                for rule in rules {
                    if !rule.holds(asker, subject, related)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }

    /// Whether the rule holds for every account and every document.
    pub fn is_open(&self) -> bool {
        match self {
            Rule::Org => true,
            Rule::Any(rules) => rules.iter().any(Rule::is_open),
            Rule::All(rules) => rules.iter().all(Rule::is_open),
            Rule::None | Rule::Admin | Rule::Own(_) | Rule::Unset(_) | Rule::In(_) | Rule::Parent(_) => false,
        }
    }

    /// The memberships that the rule asks for.
    pub(super) fn memberships(&self) -> Vec<&Membership> {
        match self {
            Rule::In(membership) => vec![membership],
            Rule::Any(rules) | Rule::All(rules) => rules.iter().flat_map(Rule::memberships).collect(),
            Rule::Org | Rule::None | Rule::Admin | Rule::Own(_) | Rule::Unset(_) | Rule::Parent(_) => {
                Vec::new()
            }
        }
    }

    /// Whether the rule asks for a right to the parent.
    pub(super) fn asks_parent(&self) -> bool {
        match self {
            Rule::Parent(_) => true,
            Rule::Any(rules) | Rule::All(rules) => rules.iter().any(Rule::asks_parent),
            Rule::Org | Rule::None | Rule::Admin | Rule::Own(_) | Rule::Unset(_) | Rule::In(_) => false,
        }
    }
}

impl Subject<'_> {
    /// Whether the property is that account, or a list that contains it.
    fn names(self, property: &Name, account: &str) -> bool {
        match self {
            Subject::Class => false,
            Subject::Hash { property: known, hash, .. } => known == property && hash == sha_s(account),
            Subject::Shared(map) | Subject::Document(map) => match map.get(property.as_str()) {
                Some(Value::String(owner)) => owner == account,
                Some(Value::Array(owners)) => owners.iter().any(|owner| owner.as_str() == Some(account)),
                _ => false,
            },
        }
    }

    /// Whether the property is known to be absent.
    fn lacks(self, property: &Name) -> bool {
        match self {
            Subject::Document(map) => matches!(map.get(property.as_str()), None | Some(Value::Null)),
            Subject::Class | Subject::Hash { .. } | Subject::Shared(_) => false,
        }
    }
}

impl Parent {
    /// The pk of the parent of the decided items, and its key as far as it is known. None if the items are not known to
    /// have one parent.
    pub fn of(&self, schema: &Schema, items: Subject) -> Result<Option<(Pk, BTreeMap<String, Value>)>> {
        match items {
            Subject::Class => Ok(None),
            Subject::Hash { property, hash, is_of_list } => match &self.key[..] {
                // The pk of a key of one property is the hash of its value.
                [(name, _)] if name == property && !is_of_list => {
                    Ok(Some((Pk::parse(hash)?, BTreeMap::new())))
                }
                _ => Ok(None),
            },
            Subject::Shared(map) | Subject::Document(map) => {
                let value = |name: &Name| map.get(name.as_str()).and_then(Value::as_str);
                let parts: Option<Vec<&str>> = self.key.iter().map(|(name, _)| value(name)).collect();
                let Some(parts) = parts else { return Ok(None) };
                let pk = schema.class(self.class.as_str())?.pk_of(&parts)?;
                let own = self.key.iter().zip(parts).map(|((_, own), part)| (own.to_string(), part.into()));
                Ok(Some((pk, own.collect())))
            }
        }
    }
}

impl Membership {
    /// Whether a membership with these properties is one that the rule wants.
    pub fn is_met_by(&self, membership: &BTreeMap<String, Value>) -> bool {
        self.wanted
            .iter()
            .all(|(name, values)| membership.get(name.as_str()).is_some_and(|value| values.contains(value)))
    }
}
