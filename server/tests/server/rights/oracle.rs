//! R86, R99 and R100 next to an oracle, [`model`]: it says of each answer whether it is right, and whether it may be said.

mod model;
mod wire;

use std::collections::BTreeMap;

use escale::codec::{Part, SyncRequest};
use escale::model::Value;
#[cfg(feature = "postgres")]
use escale::model::schema::Schema;
use escale_server::engine::Engine;
#[cfg(feature = "postgres")]
use escale_server::{clock::ManualClock, engine::Opening, seal::Seal, settings::Settings};

use self::model::{ACCOUNTS, Asked, At, Model, ORGS, names_of_key, parent_of, text};
use super::support::*;
#[cfg(feature = "postgres")]
use crate::support::base::Base;
use crate::support::chance::Chance;
use crate::support::proof::times;
use crate::support::world::{NOON, def as parsed, sub};

const GROUPS: [&str; 2] = ["g", "h"];
const IDS: [&str; 3] = ["1", "2", "3"];

/// Requests to one database. In memory, each write copies the journal.
const REQUESTS_MAX: usize = 6_000;

/// Lives end at minutes, and no request is so near to one that clock and versions could be on two sides of it.
const MARGIN_MS: u64 = 10_000;

const CLASSES: [&str; 17] = [
    "Member", "Note", "Diary", "Letter", "Board", "Draft", "Open", "Team", "Task", "Area", "Plot", "Yard",
    "Bed", "Leaf", "Case", "Step", "Sign",
];

fn owned(parts: &[&str]) -> Vec<String> {
    parts.iter().map(|part| (*part).to_owned()).collect()
}

/// An account: `who` in most cases, because most rules say something of the caller's own documents.
fn some_account(chance: &mut Chance, who: &'static str) -> &'static str {
    if chance.is(60) { who } else { chance.pick(&ACCOUNTS) }
}

/// A document with random properties, as `who` may write it. Some end soon, or have ended.
fn some_document(chance: &mut Chance, class: &'static str, who: &'static str, now: u64) -> (At, Map) {
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
        "Case" => {
            map.insert("owner".into(), some_account(chance, who).into());
            let seen: Vec<&str> = ACCOUNTS.into_iter().filter(|_| chance.is(30)).collect();
            map.insert("seen".into(), texts(&seen));
        }
        "Sign" => drop(map.insert("owner".into(), some_account(chance, who).into())),
        _ => {}
    }
    map.insert("n".into(), Value::from(chance.below(1_000) as i64));
    // A parent has no end.
    if chance.is(20) && !["Team", "Area", "Yard", "Case"].contains(&class) {
        let minute = Value::from((now / 60_000 + chance.below(6)) as i64 - 1);
        map.insert("maxLife".into(), if chance.is(80) { minute } else { Value::Null });
    }
    ((class, key), map)
}

fn some_def(chance: &mut Chance, class: &'static str, who: &'static str) -> (Asked, String) {
    let ((_, key), _) = some_document(chance, class, who, NOON);
    let parts: Vec<&str> = key.iter().map(String::as_str).collect();
    let kinds: &[&str] = match class {
        "Member" => &["", "@", "account", "group"],
        "Note" => &["", "@", "group", "owner", "pair"],
        "Diary" | "Case" => &["", "@", "owner"],
        "Letter" => &["", "@", "to"],
        "Task" | "Plot" | "Bed" | "Leaf" | "Step" | "Sign" => &["@", "in"],
        _ => &["", "@"],
    };
    match chance.pick(kinds) {
        "" => (Asked::Class, class.to_owned()),
        "@" => (Asked::Document(key.clone()), single(class, &parts)),
        name => {
            let of = match name {
                "in" => parent_of(&(class, key.clone())).expect("an item").1,
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

/// The answer to a read from 0, or from the version 1, which tells all that has gone.
fn read(client: &Client, def: &str, v: u64) -> Part {
    let request = SyncRequest { subs: vec![sub(&parsed(def), v)], ..SyncRequest::of("r") };
    client.sync(&request).unwrap().parts.remove(0)
}

/// The difference of a part to the model, if there is one.
fn difference(
    model: &Model,
    (org, who): (&str, &str),
    of: (&'static str, &Asked),
    part: &Part,
    v: u64,
) -> Option<String> {
    let expected = model.read(org, of, who);
    let pks = |deleted: bool| {
        let rows = part.rows.iter().filter(|row| row.deleted == deleted);
        let mut pks: Vec<String> = rows.map(|row| row.pk.to_string()).collect();
        pks.sort();
        pks
    };
    let is_right = match (&part.fault, &expected) {
        // A refusal says nothing else.
        (Some(fault), Err(code)) => {
            let is_bare = part.rows.is_empty() && part.left.is_empty() && part.present.is_none();
            fault.code == *code && is_bare && part.total.is_none() && part.floor.is_none()
        }
        (None, Ok((living, gone))) => {
            let told = pks(true);
            let is_exact = !matches!(of.1, Asked::Document(_)) || v == 0 || told == *gone;
            pks(false) == *living && told.iter().all(|pk| gone.contains(pk)) && is_exact
        }
        _ => false,
    };
    (!is_right).then(|| format!("{who} reads {of:?} from {v}: {part:?}, {expected:?} expected"))
}

/// A part of a write: its operation, with arguments.
fn operation(
    at: &At,
    (set, by_patch): (Option<&Map>, bool),
    if_version: Option<u64>,
) -> (&'static str, Value) {
    let key = Value::Array(at.1.iter().map(|part| Value::from(&**part)).collect());
    let mut args = vec![("class", Value::from(at.0))];
    let name = match set {
        None => "doc.delete",
        Some(_) if by_patch => "doc.patch",
        Some(_) => "doc.put",
    };
    args.extend((name != "doc.put").then_some(("key", key)));
    args.extend(set.map(|set| (if by_patch { "set" } else { "data" }, Value::Map(set.clone()))));
    args.extend(if_version.map(|v| ("ifVersion", Value::from(v as i64))));
    (name, Value::Map(args.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()))
}

/// Lets some time pass in the model. Returns the milliseconds.
fn pass(model: &mut Model, chance: &mut Chance) -> u64 {
    let mut ms = if chance.is(3) { chance.below(60_000) } else { chance.below(3) };
    if (model.now + ms) % 60_000 > 60_000 - MARGIN_MS {
        ms += MARGIN_MS;
    }
    model.now += ms;
    ms
}

/// Makes so many random requests. Returns the first difference.
fn play(schema: &str, chance: &mut Chance, requests: usize) -> Result<[usize; 5], String> {
    let (engine, clock) = engine_of(schema);
    play_on(&engine, &|ms| clock.advance(ms), chance, requests)
}

/// The same on that engine. `wait` lets so many milliseconds pass.
fn play_on(
    engine: &Engine,
    wait: &dyn Fn(u64),
    chance: &mut Chance,
    requests: usize,
) -> Result<[usize; 5], String> {
    let mut clients: BTreeMap<(&str, &str), Client> = BTreeMap::new();
    let mut model = Model::at(NOON);
    for org in ORGS {
        clients.extend(ACCOUNTS.map(|account| ((org, account), Client::new(engine, org, account))));
    }
    // Allowed and refused reads, then writes; and conflicts.
    let mut counts = [0; 5];
    for n in 0..requests {
        let (org, who, class) = (chance.pick(&ORGS), chance.pick(&ACCOUNTS), chance.pick(&CLASSES));
        wait(pass(&mut model, chance));
        let now = model.now;
        if chance.is(1) {
            // Some account is restricted for some time, or no longer.
            let restricted = chance.pick(&ACCOUNTS[1..]);
            let dates: Vec<(u64, u8)> =
                (0..chance.below(3)).map(|n| (now + n * 20_000, chance.below(3) as u8)).collect();
            let pairs = dates.iter().map(|(from, level)| {
                Value::Array(vec![Value::from(*from as i64), Value::from(i64::from(*level))])
            });
            let args =
                Value::from([("account", restricted.into()), ("schedule", Value::Array(pairs.collect()))]);
            let code = clients.get_mut(&(org, "root")).unwrap().code("account.set", args);
            assert_eq!(code, "ok", "{n}: {dates:?}");
            model.orgs.get_mut(org).unwrap().schedules.insert(restricted, dates);
            continue;
        }
        let client = clients.get_mut(&(org, who)).unwrap();
        if chance.is(50) {
            let (asked, def) = some_def(chance, class, who);
            let v = chance.below(2);
            let part = read(client, &def, v);
            counts[usize::from(part.fault.is_some())] += 1;
            if let Some(difference) = difference(&model, (org, who), (class, &asked), &part, v) {
                return Err(format!("{n}: {difference}"));
            }
            continue;
        }
        let (at, map) = some_document(chance, class, who, now);
        let if_version = chance.is(20).then(|| chance.pick(&[0, 7]));
        let (set, by_patch) = match chance.below(4) {
            0 => (None, false),
            1 => (Some(&map), true),
            _ => (Some(&map), false),
        };
        // A patch changes the stored document.
        let before = model.orgs[org].docs.get(&at).cloned().unwrap_or_default();
        let after = set
            .map(|set| if by_patch { before.into_iter().chain(set.clone()).collect() } else { set.clone() });
        let (name, args) = operation(&at, (set, by_patch), if_version);
        let fault = client.fault(name, args);
        let expected = model.write(org, &at, after.as_ref(), (by_patch, if_version), who);
        let doc = fault.as_ref().and_then(|fault| fault.doc.as_ref()).map(|row| row.deleted);
        let code = fault.as_ref().map_or("ok", |fault| &*fault.code);
        counts[if code == "version_conflict" { 4 } else { 2 + usize::from(code != "ok") }] += 1;
        if (code, doc) != (expected.code, expected.doc) {
            return Err(format!("{n}: {who} {name} {at:?} {map:?}: {fault:?}, {expected:?} expected"));
        }
    }
    Ok(counts)
}

/// `ESCALE_RIGHTS` sets the number of requests.
#[test]
fn r86_random_requests_get_the_answers_of_the_oracle() {
    let requests = times("ESCALE_RIGHTS", 6_000) as usize;
    let (mut chance, mut sums) = (Chance::new(), [0; 5]);
    for first in (0..requests).step_by(REQUESTS_MAX) {
        let counts = play(RIGHTS, &mut chance, (requests - first).min(REQUESTS_MAX));
        let counts = counts.unwrap_or_else(|difference| panic!("{difference}"));
        sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    eprintln!("reads allowed and refused, writes allowed and refused, conflicts: {sums:?}");
    assert!(sums.iter().all(|count| *count * 40 > requests), "each kind of answer is tried: {sums:?}");
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
    assert!(counts.iter().all(|count| *count > 5), "each kind of answer is tried: {counts:?}");
}

/// The class whose items follow their parent, with a rule of its own in place of that.
const LEAF: &str = r#""Leaf": { "in": "Yard", "key": ["group", "yard", "id"],
        "rights": { "read": { "in": "Member", "by": "group", "where": { "role": ["read", "write"] } } } }"#;

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
        (r#"{ "own": "to" }, "delete": "none""#, r#"{ "own": "to" }, "delete": "admin""#),
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
        (r#""Leaf": { "in": "Yard", "key": ["group", "yard", "id"], "rights": { "read": "parent" } }"#, LEAF),
        (r#""rights": { "read": "parent", "create""#, r#""rights": { "read": "org", "create""#),
        (r#""create": "parent", "update""#, r#""create": "org", "update""#),
        (r#""update": "parent", "delete": "parent""#, r#""update": { "own": "owner" }, "delete": "parent""#),
        (r#""delete": "parent""#, r#""delete": "none""#),
        (r#"["parent", "admin"]"#, r#""admin""#),
        (r#"{ "all": ["parent", { "own": "owner" }] }"#, r#"["parent", { "own": "owner" }]"#),
    ] {
        assert_eq!(RIGHTS.matches(rule).count(), 1, "{rule}");
        let planted = RIGHTS.replace(rule, mistake);
        // Some are met once in some 20,000 requests.
        let is_noticed = (0..100).any(|_| play(&planted, &mut chance, REQUESTS_MAX).is_err());
        assert!(is_noticed, "not noticed: {mistake}");
    }
}
