//! The rules of [`RIGHTS`] as plain code, over a model of the documents, of those that have gone, and of time.
//!
//! It shares nothing with the server: no rule is interpreted, and no hash decides.

use std::collections::BTreeMap;

use escale::model::Value;

use crate::rights::support::*;

pub const ORGS: [&str; 3] = ["o", "p", "q"];

/// An administrator of the org, one of a group, a writer, a reader, and one that is a member of nothing.
pub const ACCOUNTS: [&str; 5] = ["root", "lea", "bob", "ada", "out"];

/// Class and key.
pub type At = (&'static str, Vec<String>);

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verb {
    Read,
    Create,
    Update,
    Delete,
}
use Verb::{Create, Delete, Read, Update};

/// A document that was there, with its last properties.
pub enum Gone {
    /// It was deleted.
    Deleted(Map),
    /// It ended with its parent.
    Ended(Map),
}

impl Gone {
    /// Its last properties.
    pub fn last(&self) -> &Map {
        let (Gone::Deleted(last) | Gone::Ended(last)) = self;
        last
    }
}

/// The documents of an org.
#[derive(Default)]
pub struct Org {
    /// Those that are stored, also past their lives.
    pub docs: BTreeMap<At, Map>,
    pub gone: BTreeMap<At, Gone>,
    /// The moments and levels of each account that is restricted.
    pub schedules: BTreeMap<&'static str, Vec<(u64, u8)>>,
}

pub struct Model {
    pub now: u64,
    pub orgs: BTreeMap<&'static str, Org>,
}

/// A def with the values that it is of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Asked {
    Class,
    Document(Vec<String>),
    Collection(&'static str, Vec<String>),
}

/// The answer that a write must get: a code, and for a conflict the document, if it may be said: whether it is a deletion.
#[derive(Debug, PartialEq)]
pub struct Told {
    pub code: &'static str,
    pub doc: Option<bool>,
}

pub fn text<'m>(map: &'m Map, name: &str) -> &'m str {
    map.get(name).and_then(Value::as_str).unwrap_or("")
}

fn listed(map: &Map, name: &str, who: &str) -> bool {
    map.get(name).and_then(Value::as_array).is_some_and(|list| list.iter().any(|v| v.as_str() == Some(who)))
}

/// The minute in which its life ends; a late one if it has no end.
fn end(map: &Map) -> u64 {
    map.get("maxLife").and_then(Value::as_u64).unwrap_or(u64::MAX / 60_000)
}

/// Whether a document is in a def.
pub fn is_in(class: &str, asked: &Asked, key: &[String], map: &Map) -> bool {
    match asked {
        Asked::Class => true,
        Asked::Document(of) => of == key,
        Asked::Collection("to", of) => listed(map, "to", &of[0]),
        Asked::Collection("in", of) => key[..of.len()] == of[..],
        Asked::Collection("pair", of) => text(map, "group") == of[0] && text(map, "owner") == of[1],
        Asked::Collection(name, of) => {
            assert!(["account", "group", "owner"].contains(name), "{class}/{name}");
            text(map, name) == of[0]
        }
    }
}

pub fn names_of_key(class: &str) -> &'static [&'static str] {
    match class {
        "Member" => &["group", "account"],
        "Note" | "Area" | "Yard" | "Task" => &["group", "id"],
        "Diary" => &["owner", "id"],
        "Team" => &["group"],
        "Plot" => &["group", "area", "id"],
        "Bed" | "Leaf" => &["group", "yard", "id"],
        "Step" => &["case", "id"],
        "Sign" => &["case"],
        _ => &["id"],
    }
}

/// The parent of an item.
pub fn parent_of((class, key): &At) -> Option<At> {
    match *class {
        "Task" => Some(("Team", key[..1].to_vec())),
        "Plot" => Some(("Area", key[..2].to_vec())),
        "Bed" | "Leaf" => Some(("Yard", key[..2].to_vec())),
        "Step" | "Sign" => Some(("Case", key[..1].to_vec())),
        _ => None,
    }
}

/// The properties of a key.
fn map_of((class, key): &At) -> Map {
    names_of_key(class).iter().zip(key).map(|(name, part)| ((*name).into(), Value::from(&**part))).collect()
}

impl Org {
    fn role(&self, now: u64, group: &str, who: &str) -> &str {
        let key = ("Member", vec![group.to_owned(), who.to_owned()]);
        self.docs
            .get(&key)
            .filter(|member| end(member) * 60_000 > now)
            .map_or("", |member| text(member, "role"))
    }

    /// The level at which an account is restricted.
    pub fn level(&self, now: u64, who: &str) -> u8 {
        let mut dates = self.schedules.get(who).into_iter().flatten().rev();
        dates.find(|(from, _)| *from <= now).map_or(0, |(_, level)| *level)
    }

    /// Whether somebody has a right to the parent of an item with these properties.
    fn may_parent(&self, now: u64, (class, verb): (&'static str, Verb), who: &str, item: &Map) -> bool {
        let key = names_of_key(class).iter().map(|name| text(item, name).to_owned()).collect();
        let parent = parent_of(&(class, key)).expect("an item");
        match self.docs.get(&parent) {
            Some(map) => self.may(now, (parent.0, verb), who, map),
            None => [Read, verb].iter().any(|verb| self.may_know(now, &parent, *verb, true, who)),
        }
    }

    /// Whether the rules let somebody do that with a document in that state.
    fn may(&self, now: u64, (class, verb): (&'static str, Verb), who: &str, map: &Map) -> bool {
        let root = who == "root";
        let role = self.role(now, text(map, "group"), who);
        let (member, writes) = (!role.is_empty(), role == "write" || role == "admin");
        match (class, verb) {
            ("Member", Read) => text(map, "account") == who || member || root,
            ("Member", Create | Update) => root || role == "admin",
            ("Member", Delete) => root || role == "admin" || text(map, "account") == who,
            ("Note" | "Team" | "Task" | "Plot" | "Yard" | "Bed", Read) => member,
            ("Note", Create) => writes && text(map, "owner") == who,
            ("Note", Update) => writes && (!map.contains_key("only") || text(map, "only") == who),
            ("Note", Delete) => text(map, "owner") == who || role == "admin",
            ("Diary", _) | ("Case", Update | Delete) => text(map, "owner") == who,
            ("Letter", Read | Update) => listed(map, "to", who),
            ("Letter" | "Sign", Delete) => false,
            ("Board", Create | Update | Delete) | ("Draft", Read) | ("Team", Create) => root,
            ("Task", Update) => writes,
            ("Case", Read) => text(map, "owner") == who || listed(map, "seen", who),
            ("Step" | "Leaf", Read) => self.may_parent(now, (class, Read), who, map),
            ("Sign", Read) => root || self.may_parent(now, (class, Read), who, map),
            ("Step", _) | ("Sign", Update) => self.may_parent(now, (class, Update), who, map),
            ("Sign", Create) => text(map, "owner") == who && self.may_parent(now, (class, Update), who, map),
            _ => true,
        }
    }

    /// Whether somebody has that right to a document of which only this is known: its key, and its last properties, of
    /// which only those count that a collection shows.
    fn may_by(
        &self,
        now: u64,
        of: (&'static str, Verb),
        key: Option<&Map>,
        last: Option<&Map>,
        who: &str,
    ) -> bool {
        let root = who == "root";
        let parent = |verb| key.is_some_and(|key| self.may_parent(now, (of.0, verb), who, key));
        let known = |name| key.map_or("", |key| text(key, name));
        let role = self.role(now, known("group"), who);
        let member = !role.is_empty();
        match of {
            ("Member", Read) => root || known("account") == who || member,
            ("Member", Update) => root || role == "admin",
            ("Member", Delete) => root || role == "admin" || known("account") == who,
            ("Note" | "Team" | "Task" | "Plot" | "Yard" | "Bed", Read) => member,
            // The rule looks at `only`, too.
            ("Note", Update) | ("Letter" | "Sign", Delete) => false,
            ("Note", Delete) => role == "admin" || last.is_some_and(|last| text(last, "owner") == who),
            ("Diary", _) => known("owner") == who,
            ("Letter", Read | Update) => last.is_some_and(|last| listed(last, "to", who)),
            ("Board", Update | Delete) | ("Draft", Read) => root,
            ("Task", Update) => role == "write" || role == "admin",
            ("Case", Read | Update | Delete) => last.is_some_and(|last| text(last, "owner") == who),
            ("Step" | "Leaf", Read) => parent(Read),
            ("Sign", Read) => root || parent(Read),
            ("Step" | "Sign", _) => parent(Update),
            _ => true,
        }
    }

    /// Whether somebody who can name the document by its pk, or by its key, may know that it is not there.
    fn may_know(&self, now: u64, at: &At, verb: Verb, by_key: bool, who: &str) -> bool {
        let key = map_of(at);
        match self.gone.get(at) {
            Some(Gone::Ended(last)) => self.may(now, (at.0, verb), who, last),
            Some(Gone::Deleted(last)) => self.may_by(now, (at.0, verb), Some(&key), Some(last), who),
            None => {
                // The pk of one property tells that property.
                let is_known = by_key || key.len() == 1;
                self.may_by(now, (at.0, verb), Some(&key).filter(|_| is_known), None, who)
            }
        }
    }

    /// Whether the rules let somebody read a def.
    pub fn may_read(&self, now: u64, class: &'static str, asked: &Asked, who: &str) -> bool {
        let root = who == "root";
        let member = |of: &[String]| !self.role(now, &of[0], who).is_empty();
        let was_there = |at: &At| self.docs.contains_key(at) || self.gone.contains_key(at);
        match (class, asked) {
            ("Board" | "Open" | "Area", _) => true,
            (_, Asked::Document(key)) => {
                let at = (class, key.clone());
                match self.docs.get(&at) {
                    Some(map) => self.may(now, (class, Read), who, map),
                    None => self.may_know(now, &at, Read, false, who),
                }
            }
            ("Member" | "Draft", Asked::Class) => root,
            // Two properties, and no tree.
            (_, Asked::Class) | ("Note", Asked::Collection("owner" | "pair", _)) => false,
            ("Member", Asked::Collection("account", of)) => root || of[0] == who,
            ("Member", Asked::Collection("group", of)) => root || member(of),
            ("Note", Asked::Collection("group", of)) | ("Task", Asked::Collection("in", of)) => member(of),
            ("Diary" | "Letter" | "Case", Asked::Collection(_, of)) => of[0] == who,
            ("Step" | "Sign", Asked::Collection(_, of)) => {
                let item = map_of(&("Sign", of.clone()));
                (class == "Sign" && root) || self.may_parent(now, ("Sign", Read), who, &item)
            }
            // A parent with two key properties, which everybody may read: without it there is nothing to hide.
            ("Plot", Asked::Collection(_, of)) => !was_there(&("Area", of.clone())) || member(of),
            // The same for one that is closed.
            ("Bed" | "Leaf", Asked::Collection(_, of)) => was_there(&("Yard", of.clone())) && member(of),
            _ => unreachable!("{class} {asked:?}"),
        }
    }

    /// Leaves a place in that state, without asking for rights.
    pub fn set(&mut self, at: &At, after: Option<&Map>) {
        if let Some(map) = after {
            self.gone.remove(at);
            self.docs.insert(at.clone(), map.clone());
            return;
        }
        let last = self.docs.remove(at).expect("a document");
        self.gone.insert(at.clone(), Gone::Deleted(last));
        let items: Vec<At> =
            self.docs.keys().filter(|item| parent_of(item).as_ref() == Some(at)).cloned().collect();
        for item in items {
            let last = self.docs.remove(&item).expect("an item");
            self.gone.insert(item, Gone::Ended(last));
        }
    }
}

impl Model {
    pub fn at(now: u64) -> Self {
        Model { now, orgs: ORGS.map(|org| (org, Org::default())).into() }
    }

    /// The living documents of a def and those past their lives or gone that it tells of, or the code of the refusal.
    #[allow(clippy::type_complexity)] // two lists of pks
    pub fn read(
        &self,
        org: &str,
        (class, asked): (&'static str, &Asked),
        who: &str,
    ) -> Result<(Vec<String>, Vec<String>), String> {
        let held = &self.orgs[org];
        if held.level(self.now, who) >= 2 && class != "Open" {
            return Err("blocked".into());
        }
        if !held.may_read(self.now, class, asked, who) {
            return Err("withdrawn".into());
        }
        let pk_of = |key: &[String]| pk(&key.iter().map(String::as_str).collect::<Vec<_>>());
        let (mut living, mut gone) = (Vec::new(), Vec::new());
        for ((of, key), map) in &held.docs {
            if *of == class && is_in(class, asked, key, map) {
                let is_over = end(map) * 60_000 <= self.now;
                if is_over { &mut gone } else { &mut living }.push(pk_of(key));
            }
        }
        for ((of, key), last) in &held.gone {
            if *of == class && is_in(class, asked, key, last.last()) {
                gone.push(pk_of(key));
            }
        }
        living.sort();
        Ok((living, gone))
    }

    /// The expected answer to a write, which the model then has carried out.
    pub fn write(
        &mut self,
        org: &'static str,
        at: &At,
        after: Option<&Map>,
        (by_patch, if_version): (bool, Option<u64>),
        who: &str,
    ) -> Told {
        let now = self.now;
        let held = self.orgs.get_mut(org).unwrap();
        let plain = |code| Told { code, doc: None };
        if held.level(now, who) >= 1 && at.0 != "Open" {
            return plain("blocked");
        }
        let before = held.docs.get(at);
        let wanted: Vec<(Verb, &Map)> = match (before, after) {
            (None, None) => Vec::new(),
            (None, Some(_)) if by_patch => Vec::new(),
            (None, Some(after)) => vec![(Create, after)],
            (Some(before), None) => vec![(Delete, before)],
            (Some(before), Some(after)) => {
                let mut wanted = vec![(Update, before), (Update, after)];
                wanted.extend((end(after) < end(before)).then_some((Delete, before)));
                let is_revived = end(before) * 60_000 <= now && end(after) * 60_000 > now;
                wanted.extend(is_revived.then_some((Create, after)));
                wanted
            }
        };
        let is_absent = before.is_none() && (by_patch || after.is_none());
        let verb = if by_patch { Update } else { Delete };
        let may_know = !is_absent || [Read, verb].iter().any(|verb| held.may_know(now, at, *verb, true, who));
        if !may_know || !wanted.iter().all(|(verb, map)| held.may(now, (at.0, *verb), who, map)) {
            return plain("forbidden");
        }
        if if_version.is_some_and(|v| v != 0 || before.is_some()) {
            let may_read = match before {
                Some(map) => held.may(now, (at.0, Read), who, map),
                None => held.may_know(now, at, Read, true, who),
            };
            return Told { code: "version_conflict", doc: may_read.then_some(before.is_none()) };
        }
        let lacks_parent = parent_of(at).is_some_and(|parent| !held.docs.contains_key(&parent));
        if is_absent || (after.is_some() && lacks_parent) {
            return plain("not_found");
        }
        held.set(at, after);
        plain("ok")
    }
}
