//! R86 next to an oracle: the rules of [`RIGHTS`] written as plain code, over a model of the documents.
//!
//! The oracle shares nothing with the server: no rule is interpreted, and no hash decides.

use std::collections::{BTreeMap, BTreeSet};

use escale::model::Value;
#[cfg(feature = "postgres")]
use escale::model::schema::Schema;
use escale_server::engine::Engine;
#[cfg(feature = "postgres")]
use escale_server::{clock::ManualClock, engine::Opening, seal::Seal, settings::Settings};

use super::support::*;
#[cfg(feature = "postgres")]
use crate::support::base::Base;
use crate::support::chance::Chance;
#[cfg(feature = "postgres")]
use crate::support::world::NOON;

const ORGS: [&str; 3] = ["o", "p", "q"];

/// An administrator of the org, one of a group, a writer, a reader, and one that is a member of nothing.
const ACCOUNTS: [&str; 5] = ["root", "lea", "bob", "ada", "out"];
const GROUPS: [&str; 2] = ["g", "h"];
const IDS: [&str; 3] = ["1", "2", "3"];

/// Requests to one database. In memory, each write copies the journal.
const REQUESTS_MAX: usize = 6_000;

const CLASSES: [&str; 11] =
    ["Member", "Note", "Diary", "Letter", "Board", "Draft", "Open", "Team", "Task", "Area", "Plot"];

#[derive(Clone, Copy, PartialEq)]
enum Verb {
    Read,
    Create,
    Update,
    Delete,
}
use Verb::{Create, Delete, Read, Update};

/// The living documents of an org, by class and key.
type Docs = BTreeMap<(&'static str, Vec<String>), Map>;

fn text<'m>(map: &'m Map, name: &str) -> &'m str {
    map.get(name).and_then(Value::as_str).unwrap_or("")
}

fn role<'d>(docs: &'d Docs, group: &str, who: &str) -> &'d str {
    let key = ("Member", vec![group.to_owned(), who.to_owned()]);
    docs.get(&key).map_or("", |member| text(member, "role"))
}

fn is_member(docs: &Docs, group: &str, who: &str) -> bool {
    docs.contains_key(&("Member", vec![group.to_owned(), who.to_owned()]))
}

fn listed(map: &Map, name: &str, who: &str) -> bool {
    map.get(name).and_then(Value::as_array).is_some_and(|list| list.iter().any(|v| v.as_str() == Some(who)))
}

/// Whether the rules let somebody do that with a document in that state.
fn may(docs: &Docs, (class, verb): (&str, Verb), who: &str, map: &Map) -> bool {
    let root = who == "root";
    let role = role(docs, text(map, "group"), who);
    let member = is_member(docs, text(map, "group"), who);
    let writes = role == "write" || role == "admin";
    match (class, verb) {
        ("Member", Read) => text(map, "account") == who || member || root,
        ("Member", Create | Update) => root || role == "admin",
        ("Member", Delete) => root || role == "admin" || text(map, "account") == who,
        ("Note" | "Team" | "Task" | "Plot", Read) => member,
        ("Note", Create) => writes && text(map, "owner") == who,
        ("Note", Update) => writes && (!map.contains_key("only") || text(map, "only") == who),
        ("Note", Delete) => text(map, "owner") == who || role == "admin",
        ("Diary", _) => text(map, "owner") == who,
        ("Letter", Read | Update) => listed(map, "to", who),
        ("Letter", Delete) => false,
        ("Board", Create | Update | Delete) | ("Draft", Read) | ("Team", Create) => root,
        ("Task", Update) => writes,
        _ => true,
    }
}

/// A def with the values that it is of.
#[derive(Debug)]
enum Asked {
    Class,
    Document(Vec<String>),
    Collection(&'static str, Vec<String>),
}

/// Whether a document is in a def.
fn is_in(class: &str, asked: &Asked, key: &[String], map: &Map) -> bool {
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

/// Whether the rules let somebody read a def.
fn may_read(
    docs: &Docs,
    known: &BTreeSet<Vec<String>>,
    class: &'static str,
    asked: &Asked,
    who: &str,
) -> bool {
    let root = who == "root";
    match (class, asked) {
        ("Board" | "Open" | "Area", _) => true,
        (_, Asked::Document(key)) => {
            docs.get(&(class, key.clone())).is_none_or(|map| may(docs, (class, Read), who, map))
        }
        ("Member" | "Draft", Asked::Class) => root,
        // Two properties, and no tree.
        (_, Asked::Class) | ("Note", Asked::Collection("owner" | "pair", _)) => false,
        ("Member", Asked::Collection("account", of)) => root || of[0] == who,
        ("Member", Asked::Collection("group", of)) => root || is_member(docs, &of[0], who),
        ("Note", Asked::Collection("group", of)) | ("Task", Asked::Collection("in", of)) => {
            is_member(docs, &of[0], who)
        }
        ("Diary" | "Letter", Asked::Collection(_, of)) => of[0] == who,
        // A parent with two key properties: without it there is nothing to read.
        ("Plot", Asked::Collection(_, of)) => !known.contains(of) || is_member(docs, &of[0], who),
        _ => unreachable!("{class} {asked:?}"),
    }
}

struct Model {
    docs: BTreeMap<&'static str, Docs>,
    /// By org, the keys of areas that there ever were.
    areas: BTreeMap<&'static str, BTreeSet<Vec<String>>>,
}

fn owned(parts: &[&str]) -> Vec<String> {
    parts.iter().map(|part| (*part).to_owned()).collect()
}

fn names_of_key(class: &str) -> &'static [&'static str] {
    match class {
        "Member" => &["group", "account"],
        "Note" | "Area" | "Task" => &["group", "id"],
        "Diary" => &["owner", "id"],
        "Team" => &["group"],
        "Plot" => &["group", "area", "id"],
        _ => &["id"],
    }
}

/// An account: `who` in most cases, because most rules say something of the caller's own documents.
fn some_account(chance: &mut Chance, who: &'static str) -> &'static str {
    if chance.is(60) { who } else { chance.pick(&ACCOUNTS) }
}

/// A document with random properties, as `who` may write it.
fn some_document(chance: &mut Chance, class: &str, who: &'static str) -> (Vec<String>, Map) {
    let mut map = Map::new();
    for name in names_of_key(class) {
        let value = match *name {
            "group" => chance.pick(&GROUPS),
            "account" | "owner" => some_account(chance, who),
            _ => chance.pick(&IDS),
        };
        map.insert((*name).to_owned(), Value::from(value));
    }
    let key = names_of_key(class).iter().map(|name| text(&map, name).to_owned()).collect();
    match class {
        "Member" => drop(map.insert("role".into(), chance.pick(&["read", "write", "admin"]).into())),
        "Note" => {
            map.insert("owner".into(), some_account(chance, who).into());
            if chance.is(30) {
                map.insert("only".into(), some_account(chance, who).into());
            }
        }
        "Letter" => {
            let to: Vec<&str> = ACCOUNTS.into_iter().filter(|_| chance.is(40)).collect();
            map.insert("to".into(), texts(&to));
        }
        _ => {}
    }
    map.insert("n".into(), Value::from(chance.below(1_000) as i64));
    (key, map)
}

fn some_def(chance: &mut Chance, class: &'static str, who: &'static str) -> (Asked, String) {
    let is_item = matches!(class, "Task" | "Plot");
    let (key, _) = some_document(chance, class, who);
    let parts: Vec<&str> = key.iter().map(String::as_str).collect();
    let kinds: &[&str] = match class {
        "Member" => &["", "@", "account", "group"],
        "Note" => &["", "@", "group", "owner", "pair"],
        "Diary" => &["", "@", "owner"],
        "Letter" => &["", "@", "to"],
        "Task" | "Plot" => &["@", "in"],
        _ => &["", "@"],
    };
    match chance.pick(kinds) {
        "" => (Asked::Class, class.to_owned()),
        "@" => (Asked::Document(key.clone()), single(class, &parts)),
        name => {
            let of = match name {
                _ if is_item => owned(&parts[..parts.len() - 1]),
                "group" => owned(&[chance.pick(&GROUPS)]),
                "pair" => owned(&[chance.pick(&GROUPS), some_account(chance, who)]),
                _ => owned(&[some_account(chance, who)]),
            };
            let values: Vec<&str> = of.iter().map(String::as_str).collect();
            let def = collection(class, name, &values);
            (Asked::Collection(name, of), def)
        }
    }
}

impl Model {
    /// The expected answer to a read.
    fn read(&self, org: &str, class: &'static str, asked: &Asked, who: &str) -> Result<Vec<String>, String> {
        let docs = &self.docs[org];
        if !may_read(docs, &self.areas[org], class, asked, who) {
            return Err("withdrawn".into());
        }
        let mut pks: Vec<String> = docs
            .iter()
            .filter(|((of, key), map)| *of == class && is_in(class, asked, key, map))
            .map(|((_, key), _)| pk(&key.iter().map(String::as_str).collect::<Vec<_>>()))
            .collect();
        pks.sort();
        Ok(pks)
    }

    /// The expected answer to a write, which the model then has carried out.
    fn write(
        &mut self,
        org: &'static str,
        class: &'static str,
        key: &[String],
        after: Option<&Map>,
        who: &str,
    ) -> &'static str {
        let docs = self.docs.get_mut(org).unwrap();
        let at = (class, key.to_vec());
        let before = docs.get(&at).cloned();
        let verb = match (&before, after) {
            (None, None) => return "not_found",
            (None, Some(_)) => Create,
            (Some(_), None) => Delete,
            (Some(_), Some(_)) => Update,
        };
        if !before.iter().chain(after).all(|map| may(docs, (class, verb), who, map)) {
            return "forbidden";
        }
        let parent = match class {
            "Task" => Some(("Team", key[..1].to_vec())),
            "Plot" => Some(("Area", key[..2].to_vec())),
            _ => None,
        };
        if after.is_some() && parent.is_some_and(|parent| !docs.contains_key(&parent)) {
            return "not_found";
        }
        if let Some(map) = after {
            docs.insert(at, map.clone());
        } else {
            docs.remove(&at);
            let items = match class {
                "Team" => "Task",
                "Area" => "Plot",
                _ => "",
            };
            docs.retain(|(of, item), _| *of != items || item[..key.len()] != key[..]);
        }
        if class == "Area" {
            self.areas.get_mut(org).unwrap().insert(key.to_vec());
        }
        "ok"
    }
}

/// Makes so many random requests. Returns the first difference.
fn play(schema: &str, chance: &mut Chance, requests: usize) -> Result<[usize; 4], String> {
    let (engine, clock) = engine_of(schema);
    play_on(&engine, &|ms| clock.advance(ms), chance, requests)
}

/// The same on that engine. `wait` lets so many milliseconds pass.
fn play_on(
    engine: &Engine,
    wait: &dyn Fn(u64),
    chance: &mut Chance,
    requests: usize,
) -> Result<[usize; 4], String> {
    let mut clients: BTreeMap<(&str, &str), Client> = BTreeMap::new();
    let mut model = Model { docs: BTreeMap::new(), areas: BTreeMap::new() };
    for org in ORGS {
        model.docs.insert(org, Docs::new());
        model.areas.insert(org, BTreeSet::new());
        clients.extend(ACCOUNTS.map(|account| ((org, account), Client::new(engine, org, account))));
    }
    // Allowed and refused reads, then writes.
    let mut counts = [0; 4];
    for n in 0..requests {
        let (org, who, class) = (chance.pick(&ORGS), chance.pick(&ACCOUNTS), chance.pick(&CLASSES));
        wait(chance.below(3));
        let client = clients.get_mut(&(org, who)).unwrap();
        if chance.is(50) {
            let (asked, def) = some_def(chance, class, who);
            let (found, expected) = (client.rows(&def), model.read(org, class, &asked, who));
            counts[usize::from(found.is_err())] += 1;
            if found != expected {
                return Err(format!("{n}: {who} reads {class} {asked:?}: {found:?}, {expected:?} expected"));
            }
            continue;
        }
        let (key, map) = some_document(chance, class, who);
        let parts: Vec<&str> = key.iter().map(String::as_str).collect();
        let before = model.docs[org].get(&(class, key.clone())).cloned();
        let (found, expected) = match chance.below(4) {
            0 => (client.delete(class, &parts), model.write(org, class, &key, None, who)),
            1 => {
                // A patch changes the stored document.
                let patched = before.map(|before| {
                    let mut after = before;
                    after.extend(map.clone());
                    after
                });
                let expected = match &patched {
                    Some(after) => model.write(org, class, &key, Some(after), who),
                    None => "not_found",
                };
                (client.patch(class, &parts, map.clone()), expected)
            }
            _ => (client.put(class, map.clone()), model.write(org, class, &key, Some(&map), who)),
        };
        counts[2 + usize::from(found != "ok")] += 1;
        if found != expected {
            return Err(format!("{n}: {who} writes {class} {key:?} {map:?}: {found}, {expected} expected"));
        }
    }
    Ok(counts)
}

/// `ESCALE_RIGHTS` sets the number of requests.
#[test]
fn r86_random_requests_get_the_answers_of_the_oracle() {
    let requests = std::env::var("ESCALE_RIGHTS").map_or(6_000, |n| n.parse().expect("a number"));
    let (mut chance, mut sums) = (Chance::new(), [0; 4]);
    for first in (0..requests).step_by(REQUESTS_MAX) {
        let counts = play(RIGHTS, &mut chance, (requests - first).min(REQUESTS_MAX));
        let counts = counts.unwrap_or_else(|difference| panic!("{difference}"));
        sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    eprintln!("reads allowed and refused, writes allowed and refused: {sums:?}");
    assert!(sums.iter().all(|count| *count * 20 > requests), "each kind of answer is tried: {sums:?}");
}

#[cfg(feature = "postgres")]
#[test]
fn r86_random_requests_on_postgres() {
    let base = Base::postgres(crate::support::postgres::server(), Some(NOON));
    let clock = ManualClock::at(NOON);
    let schema = Schema::from_json(RIGHTS).unwrap();
    let seal = Seal::with_key(&[7; 32]);
    let engine =
        base.open(Opening { schema, settings: Settings::default(), seal, clock: clock.clone() }).unwrap();
    let wait = |ms| {
        clock.advance(ms);
        base.set_clock(engine.clock_ms());
    };
    let counts = play_on(&engine, &wait, &mut Chance::new(), 600);
    let counts = counts.unwrap_or_else(|difference| panic!("{difference}"));
    assert!(counts.iter().all(|count| *count > 10), "each kind of answer is tried: {counts:?}");
}

/// Mistakes in the rules that the server is given. The oracle must notice each.
#[test]
fn r86_the_oracle_notices_each_planted_mistake() {
    let mut chance = Chance::new();
    for (rule, mistake) in [
        (r#""read": [{ "own": "account" }, { "in""#, r#""read": [{ "in""#),
        (
            r#""where": { "role": ["write", "admin"] } },
                                        { "own": "owner" }"#,
            r#""where": { "role": ["write", "admin"] } }"#,
        ),
        (r#"[{ "unset": "only" }, { "own": "only" }]"#, r#"{ "unset": "only" }"#),
        (r#"[{ "unset": "only" }, { "own": "only" }]"#, r#"{ "own": "only" }"#),
        (r#""delete": [{ "own": "owner" },"#, r#""delete": ["#),
        (
            r#""Diary": { "key": ["owner", "id"], "collections": { "owner": { "key": ["owner"] } },
        "rights": { "read": { "own": "owner" }"#,
            r#""Diary": { "key": ["owner", "id"], "collections": { "owner": { "key": ["owner"] } },
        "rights": { "read": "org""#,
        ),
        (r#""update": { "own": "to" }"#, r#""update": "org""#),
        (r#""delete": "none""#, r#""delete": "admin""#),
        (r#""Draft": { "key": ["id"], "rights": { "read": "admin" } }"#, r#""Draft": { "key": ["id"] }"#),
        (
            r#""update": { "in": "Member", "by": "group", "where": { "role": ["write", "admin"] } } } },
    "Area""#,
            r#""update": { "in": "Member", "by": "group" } } },
    "Area""#,
        ),
        (
            r#""key": ["group", "area", "id"],
        "rights": { "read": { "in": "Member", "by": "group" } }"#,
            r#""key": ["group", "area", "id"],
        "rights": { "read": { "in": "Member", "by": "area" } }"#,
        ),
    ] {
        assert_eq!(RIGHTS.matches(rule).count(), 1, "{rule}");
        let planted = RIGHTS.replace(rule, mistake);
        let is_noticed = (0..10).any(|_| play(&planted, &mut chance, REQUESTS_MAX).is_err());
        assert!(is_noticed, "not noticed: {mistake}");
    }
}
