//! A reference of the engine: the effect of each request and its answer, stated again on plain maps. It knows
//! neither a database nor a seal.

use std::collections::{BTreeMap, BTreeSet};

use escale::Code;
use escale::codec::{Data, Fault, OpOk, OpResult, Row, Sub};
use escale::model::{Def, Name, Pk, Value};
use escale_server::settings::Settings;

use super::trees::{Tree, id_of, key_map, parent};

pub type Properties = BTreeMap<String, Value>;

/// The version that a write expects.
#[derive(Clone, Debug)]
pub enum If {
    At(u64),
    Of(String),
}

/// The work of an operation.
#[derive(Clone, Debug)]
pub enum Act {
    Put(&'static str, Properties, Option<If>),
    Patch(String, Properties, Vec<&'static str>, Option<If>),
    Delete(&'static str, String, Option<If>),
    Batch(Vec<Act>),
    /// Puts a note and returns the text.
    Own(String, String),
    /// Puts a note and fails with that code.
    Fault(Code),
}

impl Act {
    pub fn name(&self) -> &'static str {
        match self {
            Act::Put(..) => "doc.put",
            Act::Patch(..) => "doc.patch",
            Act::Delete(..) => "doc.delete",
            Act::Batch(_) => "batch",
            Act::Own(..) => "own.value",
            Act::Fault(_) => "own.fault",
        }
    }
}

/// An operation as a session sends it.
#[derive(Clone, Debug)]
pub struct Sent {
    pub id: String,
    pub seq: u64,
    pub act: Act,
    pub after: Option<String>,
}

/// A document or its tombstone.
#[derive(Clone, Debug)]
pub struct Doc {
    pub v: u64,
    pub is_alive: bool,
    pub max_life: Option<u64>,
    pub ttl: Option<u64>,
    pub map: Properties,
    pub defs: BTreeSet<Def>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum State {
    Alive,
    Left,
    Deleted,
}

pub type Key = (String, String, String);

/// A line of the journal: actor, state, version, cause.
pub type Line = (String, Option<Properties>, u64, String);

/// A line of the feed: org, class, pk, version, collections.
pub type Fed = (Key, u64, BTreeSet<Def>);

/// A link: its version, its state, and the end of its document's life.
pub type Link = (u64, State, Option<u64>);

/// The part of the state that a refused operation does not change.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    pub docs: BTreeMap<Key, Doc>,
    pub links: BTreeMap<(String, Def, String), Link>,
    pub journal: Vec<Line>,
    pub feed: Vec<Fed>,
    /// By the key of the parent.
    pub trees: BTreeMap<Key, Tree>,
}

/// An operation whose id is used.
#[derive(Clone, Debug)]
pub struct Known {
    pub name: &'static str,
    pub v: Option<u64>,
    pub at: u64,
    /// Until it is purged.
    pub result: Option<OpResult>,
    /// The document that it expected to be of a version.
    pub met: Option<Key>,
}

/// The counters of an org.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Head {
    pub highest: u64,
    pub promised_now: u64,
    pub horizon: u64,
    pub commits: u64,
}

/// A cursor that was given: its answer, and the position where it continues.
pub struct Cursor {
    pub text: String,
    pub org: String,
    pub sub: Sub,
    pub first_now: u64,
    pub after: (u64, String),
    pub total: u64,
}

/// Why an operation stops.
enum Stop {
    Fault(Code, Option<Row>),
    /// It met a document of this version.
    Regressed(u64),
}

type Ran<T> = Result<T, Stop>;

fn fault<T>(code: Code) -> Ran<T> {
    Err(Stop::Fault(code, None))
}

/// An operation that runs.
pub struct Run<'a> {
    asking: &'a Asking<'a>,
    id: &'a str,
    pub now: u64,
    kept: u64,
    changed: bool,
    pub own: BTreeSet<Key>,
}

/// The sender.
pub struct Asking<'a> {
    pub org: &'a str,
    pub account: &'a str,
    pub session: &'a str,
    pub may_write: bool,
}

pub struct Reference {
    pub settings: Settings,
    /// The collections of notes, and whether each is of a list.
    pub collections: Vec<(&'static str, bool)>,
    pub tables: Tables,
    pub sessions: BTreeMap<(String, String), (String, u64)>,
    pub known: BTreeMap<(String, String, String), Known>,
    pub tries: BTreeMap<(String, String), (String, u32)>,
    /// Of each org in which something was executed.
    pub heads: BTreeMap<String, Head>,
    /// The highest `now` given in other orgs.
    pub promised_now: u64,
    pub cursors: Vec<Cursor>,
    /// The document that the last operation expected to be of a version, and the highest number that left nothing.
    pub met: Option<Key>,
    pub passed: u64,
}

pub fn pk(id: &str) -> Pk {
    Pk::from_key(&id.split('/').collect::<Vec<_>>()).unwrap()
}

pub fn data(map: &Properties) -> Data {
    Data::from_map(map).unwrap()
}

fn passed(id: &str, ok: OpOk) -> OpResult {
    OpResult { id: id.to_owned(), ok: Some(ok), fault: None }
}

pub fn failed(id: &str, code: Code, doc: Option<Row>) -> OpResult {
    OpResult { id: id.to_owned(), ok: None, fault: Some(Fault { doc, ..Fault::new(code, "") }) }
}

impl Reference {
    pub fn new(settings: Settings) -> Self {
        Reference {
            settings,
            collections: vec![("shelf", false), ("tags", true), ("author", false)],
            tables: Tables::default(),
            sessions: BTreeMap::new(),
            known: BTreeMap::new(),
            met: None,
            passed: 0,
            tries: BTreeMap::new(),
            heads: BTreeMap::new(),
            promised_now: 0,
            cursors: Vec::new(),
        }
    }

    /// The counters of an org, as its next write finds them.
    pub fn head(&self, org: &str) -> Head {
        self.heads.get(org).copied().unwrap_or(Head { promised_now: self.promised_now, ..Head::default() })
    }

    /// The collections that hold a document with this data.
    pub fn defs(&self, class: &str, map: &Properties) -> BTreeSet<Def> {
        let mut defs = BTreeSet::new();
        let collections: &[(&str, bool)] = match class {
            "Log" => &[("shelf", false)],
            "Note" => &self.collections,
            "Adh" | "Sta" => &[("asso", false)],
            _ => &[],
        };
        for (name, is_list) in collections {
            let values: Vec<&Value> = match map.get(*name) {
                Some(value) if *is_list => value.as_array().unwrap().iter().collect(),
                Some(value) => vec![value],
                None => Vec::new(),
            };
            let of = |value: &Value| {
                let name = if *name == "asso" { "in" } else { name };
                let (class, name) = (Name::new(class).unwrap(), Name::new(name).unwrap());
                Def::collection(&class, &name, &[value.as_str().unwrap()]).unwrap()
            };
            defs.extend(values.into_iter().map(of));
        }
        defs
    }

    fn read(&self, run: &Run, key: &Key) -> Ran<Option<Doc>> {
        let doc = self.tables.docs.get(key);
        match doc {
            Some(doc) if doc.v >= run.now && !run.own.contains(key) => Err(Stop::Regressed(doc.v)),
            doc => Ok(doc.cloned()),
        }
    }

    fn put(&mut self, run: &mut Run, class: &str, mut map: Properties) -> Ran<()> {
        if map.keys().any(|name| name.starts_with('_')) {
            return fault(Code::BadValue);
        }
        map.entry("release".into()).or_insert(Value::from(1));
        let key = (run.asking.org.to_owned(), class.to_owned(), pk(&id_of(class, &map)).to_string());
        let defs = self.defs(class, &map);
        if let Some(parent) = parent(&key, &map)
            && self.read(run, &parent)?.is_none_or(|doc| !doc.is_alive)
        {
            return fault(Code::NotFound);
        }
        let before = self.read(run, &key)?;
        let is_new = before.as_ref().is_none_or(|doc| !self.lives(&key, doc));
        if let Some(doc) = before.as_ref().filter(|_| !is_new) {
            if doc.map == map {
                run.kept = run.kept.max(doc.v);
                return Ok(());
            }
            let fixed = |map: &Properties| match class {
                "Note" => map.get("author").cloned(),
                "Log" => map.get("shelf").cloned(),
                _ => None,
            };
            if fixed(&doc.map) != fixed(&map) {
                return fault(Code::ImmutableKey);
            }
        }
        for (name, is_global) in [("mail", false), ("isbn", true)] {
            let Some(value) = map.get(name).filter(|_| class == "Note") else { continue };
            let is_taken = self.tables.docs.iter().any(|(other, doc)| {
                let is_in_scope = is_global || other.0 == key.0;
                *other != key
                    && other.1 == class
                    && is_in_scope
                    && doc.is_alive
                    && doc.map.get(name) == Some(value)
            });
            if is_taken {
                return fault(Code::NotUnique);
            }
        }
        let max_life = map.get("maxLife").and_then(Value::as_u64);
        let ttl = max_life.map(|minute| (minute * 60_000).max(run.now) + self.settings.retention_ms());
        let doc = Doc { v: run.now, is_alive: true, max_life, ttl, map, defs };
        self.store(run, key.clone(), before.as_ref(), doc);
        if class == "Asso" && is_new {
            self.raise_floor(&key, run.now, false);
        }
        Ok(())
    }

    fn delete(&mut self, run: &mut Run, class: &str, id: &str) -> Ran<()> {
        let key = (run.asking.org.to_owned(), class.to_owned(), pk(id).to_string());
        let Some(before) = self.read(run, &key)?.filter(|doc| self.lives(&key, doc)) else {
            return fault(Code::NotFound);
        };
        let ttl = Some(run.now + self.settings.retention_ms());
        let map = key_map(class, id);
        let defs = before.defs.clone();
        let tombstone = Doc { v: run.now, is_alive: false, max_life: None, ttl, map, defs };
        self.store(run, key.clone(), Some(&before), tombstone);
        if class == "Asso" {
            self.end_items(run, &key);
        }
        Ok(())
    }

    fn store(&mut self, run: &mut Run, key: Key, before: Option<&Doc>, after: Doc) {
        let (is_sync, v) = (key.1 != "Log", run.now);
        let link = |def: &Def| (key.0.clone(), def.clone(), key.2.clone());
        let old = before.map(|doc| doc.defs.clone()).unwrap_or_default();
        for def in &old {
            if is_sync {
                self.tables.links.insert(link(def), (v, State::Left, None));
            } else {
                self.tables.links.remove(&link(def));
            }
        }
        let actor = format!("{}/{}@{}", key.0, key.1, key.2);
        let state = after.is_alive.then(|| after.map.clone());
        self.tables.journal.push((actor, state, v, run.id.to_owned()));
        if is_sync {
            self.tables.feed.push((key.clone(), v, old.union(&after.defs).cloned().collect()));
        }
        run.changed = true;
        run.own.insert(key.clone());
        if !after.is_alive && !is_sync {
            self.tables.docs.remove(&key);
            return;
        }
        let state = if after.is_alive { State::Alive } else { State::Deleted };
        for def in &after.defs {
            self.tables.links.insert(link(def), (v, state, after.max_life));
        }
        self.tables.docs.insert(key, after);
    }

    fn expect(&mut self, run: &Run, class: &str, id: &str, wanted: Option<&If>) -> Ran<()> {
        let (wanted, may_be_older) = match wanted {
            None => return Ok(()),
            Some(If::At(v)) => (*v, false),
            Some(If::Of(id)) => match self.known_as(run.asking, id).and_then(|known| known.v) {
                Some(v) => (v, true),
                None => return fault(Code::OrderHeld),
            },
        };
        let key = (run.asking.org.to_owned(), class.to_owned(), pk(id).to_string());
        self.read(run, &key)?;
        self.met = Some(key.clone());
        let row = self.row(&key);
        let is_older = may_be_older && row.v > 0 && row.v < wanted;
        if row.v == wanted || is_older || (wanted == 0 && row.deleted) {
            return Ok(());
        }
        Err(Stop::Fault(Code::VersionConflict, Some(row)))
    }

    fn run(&mut self, run: &mut Run, act: &Act) -> Ran<Option<Value>> {
        match act {
            Act::Put(class, map, wanted) => {
                self.expect(run, class, &id_of(class, map), wanted.as_ref())?;
                self.put(run, class, map.clone())?;
            }
            Act::Patch(id, set, unset, wanted) => {
                if set.get("id").is_some_and(|own| own.as_str() != Some(id)) || unset.contains(&"id") {
                    return fault(Code::KeyMismatch);
                }
                self.expect(run, "Note", id, wanted.as_ref())?;
                let key = (run.asking.org.to_owned(), "Note".to_owned(), pk(id).to_string());
                let found = self.read(run, &key)?.filter(|doc| doc.is_alive);
                let Some(mut map) = found.map(|doc| doc.map) else { return fault(Code::NotFound) };
                map.retain(|name, _| !unset.contains(&name.as_str()));
                map.extend(set.clone());
                self.put(run, "Note", map)?;
            }
            Act::Delete(class, id, wanted) => {
                self.expect(run, class, id, wanted.as_ref())?;
                self.delete(run, class, id)?;
            }
            Act::Batch(acts) => {
                for act in acts {
                    self.run(run, act)?;
                }
            }
            Act::Own(id, text) => {
                self.put(run, "Note", crate::support::world::note(id, "one"))?;
                return Ok(Some(Value::from(text.as_str())));
            }
            Act::Fault(code) => {
                self.put(run, "Note", crate::support::world::note("half", "one"))?;
                let is_reserved =
                    matches!(code, Code::SessionReused | Code::OrderGap | Code::OrderHeld | Code::Forgotten);
                return fault(if is_reserved { Code::Internal } else { *code });
            }
        }
        Ok(None)
    }

    fn last(&self, asking: &Asking) -> Option<&(String, u64)> {
        self.sessions.get(&(asking.org.to_owned(), asking.session.to_owned()))
    }

    /// The result of an operation, or the code for which it was not executed.
    pub fn operate_one(
        &mut self,
        clock: u64,
        asking: &Asking,
        op: &Sent,
    ) -> Result<OpResult, (Code, Option<Row>)> {
        let session = (asking.org.to_owned(), asking.session.to_owned());
        let last = match self.last(asking) {
            Some((account, _)) if account != asking.account => return Err((Code::SessionReused, None)),
            held => held.map_or(0, |(_, seq)| *seq),
        };
        let used = (asking.account.to_owned(), op.seq);
        if let Some(known) = self.known_as(asking, &op.id) {
            if known.result.is_some() && known.name != op.act.name() {
                return Err((Code::BadValue, None));
            }
            let result = self.known_result(known, &op.id);
            if op.seq == last + 1 && (asking.may_write || last > 0) {
                self.sessions.insert(session.clone(), used);
            }
            self.tries.remove(&session);
            return Ok(result);
        }
        if !asking.may_write {
            // Nothing is kept but the number.
            if op.seq == last + 1 {
                self.sessions.insert(session, used);
            } else if op.seq == last.max(self.passed) + 1 {
                self.passed = op.seq;
            }
            return Ok(failed(&op.id, Code::Forbidden, None));
        }
        if op.seq != last + 1 {
            return Err((if op.seq > last { Code::OrderGap } else { Code::SessionReused }, None));
        }
        let is_held = |after: &String| self.known_as(asking, after).is_none_or(|known| known.v.is_none());
        if op.after.as_ref().is_some_and(is_held) {
            return Err((Code::OrderHeld, None));
        }
        let mut at_least = 0;
        loop {
            let mut head = self.head(asking.org);
            let now = clock.max(head.promised_now).max(head.highest + 1).max(at_least);
            let mut run = Run { asking, id: &op.id, now, kept: 0, changed: false, own: BTreeSet::new() };
            let before = self.tables.clone();
            let ran = self.run(&mut run, &op.act);
            let (given, changed) = (if run.changed { now } else { run.kept }, run.changed);
            let ran = match ran {
                Ok(value) => Ok(value),
                Err(stop) => {
                    self.tables = before;
                    match stop {
                        Stop::Regressed(v) => {
                            at_least = v + 1;
                            continue;
                        }
                        Stop::Fault(code, doc) => Err((code, doc)),
                    }
                }
            };
            let ran = match ran {
                Err((code, doc)) if code.is_retryable() && !self.is_given_up(&session, &op.id, code) => {
                    return Err((code, doc));
                }
                Err((code, _)) if code.is_retryable() => Err((Code::Internal, None)),
                ran => ran,
            };
            if ran.is_ok() && changed {
                head.highest = now;
            }
            self.heads.insert(asking.org.to_owned(), head);
            let (v, result) = match ran {
                Ok(value) => (Some(given), passed(&op.id, OpOk { v: given, value, trees: Vec::new() })),
                Err((code, doc)) => (None, failed(&op.id, code, doc)),
            };
            let id = (asking.org.to_owned(), asking.account.to_owned(), op.id.clone());
            let known =
                Known { name: op.act.name(), v, at: now, result: Some(result.clone()), met: self.met.take() };
            self.known.insert(id, known);
            self.sessions.insert(session.clone(), used);
            self.tries.remove(&session);
            return Ok(result);
        }
    }
}
