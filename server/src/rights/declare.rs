//! The rights of each class of a schema, and the checks between classes.

use std::collections::BTreeMap;

use escale::model::schema::{Class, Schema};
use escale::model::{Name, Value};
use escale::{Code, Error, Result};

use super::parse::{exempt, quota, rules};
use super::{ACCOUNTS_CLASS, Membership, Rule};

/// A thing that a caller may be allowed to do with documents of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// Read.
    Read,
    /// Create.
    Create,
    /// Change.
    Update,
    /// Delete.
    Delete,
}

impl Right {
    /// Every right, in the order of the schema's words.
    pub const ALL: [Right; 4] = [Right::Read, Right::Create, Right::Update, Right::Delete];

    /// The schema's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Right::Read => "read",
            Right::Create => "create",
            Right::Update => "update",
            Right::Delete => "delete",
        }
    }
}

/// The property whose values documents are counted by (R88).
#[derive(Clone, Debug, PartialEq)]
pub struct Quota {
    /// The property.
    pub by: Name,
}

/// The declarations of one class.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassRights {
    /// In the order of [`Right::ALL`]; none if the class does not declare the right.
    rules: [Option<Rule>; 4],
    /// The counters that its documents count in.
    pub quota: Option<Quota>,
    /// The level of restriction up to which it stays usable (R89); 0 if no level spares it.
    pub exempt: u8,
}

impl ClassRights {
    /// The rule of a right; without one, every account of the org has it.
    pub fn rule(&self, right: Right) -> &Rule {
        self.rules[right as usize].as_ref().unwrap_or(&Rule::Org)
    }

    fn declares(&self, right: Right) -> bool {
        self.rules[right as usize].is_some()
    }
}

/// The declarations of all classes of a schema.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rights {
    classes: BTreeMap<String, ClassRights>,
    /// Classes of memberships, each with the collection that lists those of an account.
    memberships: BTreeMap<String, Name>,
}

impl Rights {
    /// The rights that a schema declares. Errors: `bad_schema`.
    pub fn of(schema: &Schema) -> Result<Self> {
        let mut rights = Rights::default();
        for class in schema.classes() {
            let declared = ClassRights {
                rules: rules(schema, class).map_err(|what| bad(class, what))?,
                quota: quota(class).map_err(|what| bad(class, what))?,
                exempt: exempt(class).map_err(|what| bad(class, what))?,
            };
            check_built_in(class, &declared)?;
            if declared != ClassRights::default() {
                rights.classes.insert(class.name().to_string(), declared);
            }
        }
        let asked: Vec<Membership> = rights
            .classes
            .values()
            .flat_map(|class| class.rules.iter().flatten())
            .flat_map(Rule::memberships)
            .cloned()
            .collect();
        for membership in asked {
            rights.check_declares(schema, &membership)?;
            rights.memberships.insert(membership.class.to_string(), membership.collection);
        }
        Ok(rights)
    }

    /// Under `org`, any account could make itself a member.
    fn check_declares(&self, schema: &Schema, membership: &Membership) -> Result<()> {
        let class = schema.class(membership.class.as_str())?;
        let declared = self.classes.get(class.name().as_str());
        let missing = [Right::Create, Right::Update, Right::Delete]
            .into_iter()
            .find(|right| !declared.is_some_and(|declared| declared.declares(*right)));
        match missing {
            None => Ok(()),
            Some(right) => {
                let what = "a class that rules ask for memberships must declare it";
                Err(bad(class, format!("rights.{}: {what}", right.as_str())))
            }
        }
    }

    /// The declarations of a class; none if it has none.
    pub fn class(&self, name: &str) -> Option<&ClassRights> {
        self.classes.get(name)
    }

    /// The quota of a class.
    pub fn quota(&self, class: &str) -> Option<&Quota> {
        self.class(class)?.quota.as_ref()
    }

    /// The classes with a quota.
    pub fn quotas(&self) -> impl Iterator<Item = (&str, &Quota)> {
        self.classes.iter().filter_map(|(class, declared)| Some((class.as_str(), declared.quota.as_ref()?)))
    }

    /// Whether an account that is restricted at that level still uses a class (R89).
    pub fn is_exempt(&self, class: &str, level: u8) -> bool {
        level <= self.class(class).map_or(0, |declared| declared.exempt)
    }

    /// Whether no class declares anything.
    pub fn are_empty(&self) -> bool {
        self.classes.is_empty()
    }

    /// For a class of memberships, the collection that lists those of an account.
    pub fn memberships_of(&self, class: &str) -> Option<&Name> {
        self.memberships.get(class)
    }

    /// The rule of a right, unless it holds for everybody.
    pub fn closed(&self, class: &str, right: Right) -> Option<&Rule> {
        self.class(class).map(|declared| declared.rule(right)).filter(|rule| !rule.is_open())
    }

    /// Whether the right to read an item of that class rests on its parent (R97).
    pub fn read_asks_parent(&self, class: &str) -> bool {
        self.closed(class, Right::Read).is_some_and(Rule::asks_parent)
    }

    /// Collections whose defs no caller may ever read, although somebody may read the class: `Class/collection`.
    pub fn dead_collections(&self, schema: &Schema) -> Vec<String> {
        let mut dead = Vec::new();
        for class in schema.classes().iter().filter(|class| class.is_sync()) {
            let Some(rule) = self.closed(class.name().as_str(), Right::Read) else { continue };
            if *rule == Rule::None {
                continue;
            }
            for collection in class.collections() {
                let is_items = class.items().is_some_and(|items| items.name() == collection.name());
                let known = if is_items || collection.key().len() == 1 { collection.key() } else { &[] };
                if !can_hold(rule, known, collection.is_list()) {
                    dead.push(format!("{}/{}", class.name(), collection.name()));
                }
            }
        }
        dead
    }
}

/// Whether a rule can hold for a def of which these properties are known.
fn can_hold(rule: &Rule, known: &[Name], is_list: bool) -> bool {
    match rule {
        // A class of items has one collection, that of the parent's key.
        Rule::Org | Rule::Admin | Rule::Parent(_) => true,
        Rule::None | Rule::Unset(_) => false,
        Rule::Own(property) => known.contains(property),
        Rule::In(membership) => !is_list && known.contains(&membership.by),
        Rule::Any(rules) => rules.iter().any(|rule| can_hold(rule, known, is_list)),
        Rule::All(rules) => rules.iter().all(|rule| can_hold(rule, known, is_list)),
    }
}

/// The server writes the documents of a built-in class, and nobody else may. Other names are kept for later.
fn check_built_in(class: &Class, declared: &ClassRights) -> Result<()> {
    if !class.name().as_str().starts_with("Escale") {
        return Ok(());
    }
    if class.name().as_str() != ACCOUNTS_CLASS {
        return Err(bad(class, "names that begin with Escale are the built-in classes"));
    }
    let is_closed = [Right::Create, Right::Update, Right::Delete]
        .into_iter()
        .all(|right| *declared.rule(right) == Rule::None);
    let is_plain =
        class.key().iter().map(Name::as_str).eq(["id"]) && class.parent().is_none() && !class.is_sequence();
    if is_plain && is_closed && declared.declares(Right::Read) {
        return Ok(());
    }
    Err(bad(class, "its key is id, it declares who reads it, and create, update and delete are none"))
}

/// The error for a class.
fn bad(class: &Class, what: impl AsRef<str>) -> Error {
    Error::new(Code::BadSchema, format!("class {}: {}", class.name(), what.as_ref()))
}

/// The counter of a document: the value of the property, if it is a string.
impl Quota {
    /// The name of the counter that a document counts in, in addition to the org's.
    pub fn counter<'a>(&self, document: &'a BTreeMap<String, Value>) -> Option<&'a str> {
        document.get(self.by.as_str()).and_then(Value::as_str).filter(|name| !name.is_empty())
    }
}
