//! A sealed database with something of each kind, and the answers of its server to every question.
#![allow(clippy::result_large_err)] // as in the engine

use std::collections::BTreeMap;

use escale::codec::{Part, Row, SyncRequest};
use escale::model::schema::Schema;
use escale::model::{Def, Number, Pk, Value, sha_s};
use escale::{Code, Error};
use escale_server::accounts::AccountTokens;
use escale_server::clock::ManualClock;
use escale_server::engine::{Caller, Engine, Opening, WriteTx};
use escale_server::seal::Seal;
use escale_server::settings::Settings;

use super::thief::Kind;
use crate::accounts::support::{Desk, ORG, Secret};
use crate::support::world::{NOON, sub};

pub type Map = BTreeMap<String, Value>;

const SCHEMA: &str = r#"{
    "Member": { "key": ["group", "account"],
        "collections": { "account": { "key": ["account"] }, "group": { "key": ["group"] } },
        "rights": { "read": [{ "own": "account" }, { "in": "Member", "by": "group" }],
                    "create": "admin", "update": "admin", "delete": "admin" } },
    "Note": { "key": ["group", "id"], "quota": { "by": "owner" },
        "collections": { "group": { "key": ["group"] }, "owner": { "key": ["owner"], "mutable": true } },
        "indexes": { "mail": { "type": "string", "unique": true }, "size": "integer", "share": "number" },
        "rights": { "read": [{ "in": "Member", "by": "group" }, { "own": "owner" }] } },
    "Sheet": { "key": ["id"],
        "collections": { "shelf": { "key": ["shelf"], "mutable": true },
                         "tags": { "key": ["tags"], "list": true, "mutable": true } } },
    "Team": { "key": ["group"], "rights": { "read": { "in": "Member", "by": "group" } } },
    "Task": { "in": "Team", "key": ["group", "id"], "rights": { "read": { "in": "Member", "by": "group" } } }
}"#;

/// Members of groups `g` and `h`, and of none; the administrator.
const CALLERS: [&str; 4] = ["ada", "bob", "eve", "root"];

pub const KEY: [u8; 32] = [7; 32];

/// The parameters of opening that database.
pub fn opening(seal: Seal) -> Opening {
    let (schema, clock) = (Schema::from_json(SCHEMA).unwrap(), ManualClock::at(NOON));
    Opening { schema, settings: Settings::default(), seal, clock }
}

fn map<const N: usize>(pairs: [(&str, Value); N]) -> Map {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn texts<const N: usize>(pairs: [(&str, &str); N]) -> Map {
    map(pairs.map(|(name, text)| (name, Value::from(text))))
}

fn with(mut map: Map, name: &str, value: Value) -> Map {
    map.insert(name.to_owned(), value);
    map
}

fn note(group: &str, id: &str, owner: &str, text: &str) -> Map {
    let mail = format!("{id}@{group}");
    let mut note = texts([("group", group), ("id", id), ("owner", owner), ("text", text), ("mail", &mail)]);
    note.extend(map([
        ("size", Value::from(text.len() as i64)),
        ("share", Value::Number(Number::new(0.1).unwrap())),
    ]));
    note
}

fn key<const N: usize>(names: [&str; N], values: &[&str]) -> Map {
    names.iter().zip(values).map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect()
}

/// The keys that questions are asked of, with their classes. Not each is there.
const KEYS: [(&str, &[&str]); 17] = [
    ("Member", &["g", "ada"]),
    ("Member", &["h", "bob"]),
    ("Member", &["h", "ada"]),
    ("Note", &["g", "one"]),
    ("Note", &["g", "moved"]),
    ("Note", &["g", "gone"]),
    ("Note", &["g", "over"]),
    ("Note", &["h", "one"]),
    ("Note", &["h", "two"]),
    ("Note", &["h", "gone"]),
    ("Sheet", &["a"]),
    ("Sheet", &["b"]),
    ("Sheet", &["gone"]),
    ("Team", &["g"]),
    ("Task", &["g", "old"]),
    ("Task", &["g", "new"]),
    ("Task", &["h", "gone"]),
];

fn key_of(class: &str, values: &[&str]) -> Map {
    match class {
        "Member" => key(["group", "account"], values),
        "Team" => key(["group"], values),
        "Sheet" => key(["id"], values),
        _ => key(["group", "id"], values),
    }
}

/// Something of each kind: documents that live, moved, ended by themselves or with their parent, or were deleted; those of
/// another org; an account with a token.
pub struct Filled {
    pub token: String,
    /// The version in the middle of the writes.
    middle: u64,
}

/// Fills a new database.
pub fn fill(engine: &Engine) -> Filled {
    let write = |org: &str, run: &dyn Fn(&mut WriteTx<'_>) -> escale::Result<()>| {
        engine.write(org, run).unwrap().v.unwrap()
    };
    let put = |org: &str, class: &str, map: Map| write(org, &|w| w.put(class, map.clone()).map(drop));
    let delete = |class: &str, values: &[&str]| write(ORG, &|w| w.delete(class, &key_of(class, values)));
    for (group, account) in [("g", "ada"), ("h", "bob"), ("h", "ada")] {
        put(ORG, "Member", texts([("group", group), ("account", account)]));
    }
    delete("Member", &["h", "ada"]);
    for (group, id) in
        [("g", "one"), ("g", "moved"), ("g", "gone"), ("h", "one"), ("h", "two"), ("h", "gone")]
    {
        put(ORG, "Note", note(group, id, "ada", &format!("secret of {group}")));
    }
    let over = Value::from((NOON / 60_000 + 1) as i64);
    put(ORG, "Note", with(note("g", "over", "bob", "ends soon"), "maxLife", over));
    delete("Note", &["g", "gone"]);
    for (id, shelf) in [("a", "one"), ("b", "two"), ("gone", "one")] {
        let tags = ["x", id].map(Value::from).to_vec();
        put(ORG, "Sheet", with(texts([("id", id), ("shelf", shelf)]), "tags", Value::Array(tags)));
    }
    put(ORG, "Team", texts([("group", "g")]));
    put(ORG, "Task", texts([("group", "g"), ("id", "old")]));
    let middle = put("other", "Sheet", texts([("id", "c"), ("shelf", "one")]));
    put("other", "Note", note("g", "one", "ada", "of another org"));
    delete("Team", &["g"]);
    delete("Note", &["h", "gone"]);
    delete("Sheet", &["gone"]);
    put(ORG, "Team", texts([("group", "g")]));
    put(ORG, "Task", texts([("group", "g"), ("id", "new")]));
    put(ORG, "Team", texts([("group", "h")]));
    put(ORG, "Task", texts([("group", "h"), ("id", "gone")]));
    delete("Task", &["h", "gone"]);
    put(ORG, "Note", note("g", "moved", "bob", "moved"));
    put(ORG, "Sheet", texts([("id", "b"), ("shelf", "one")]));
    let desk = Desk::new(engine);
    let one = Secret::passphrase("one");
    desk.sign_up("ada", 1, &[&one], None).unwrap();
    let (token, _) = desk.sign_in("ada", &one, None).unwrap();
    Filled { token, middle }
}

/// The answer to one question.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Part(Box<Part>),
    /// The outcome of a read or a write, or the code of its refusal.
    Outcome(String),
}

/// The answers to all questions, by the question.
pub type Answers = BTreeMap<String, Answer>;

/// The defs that are asked for.
fn defs() -> Vec<Def> {
    let of = |class: &str, name: &str, value: &str| format!("{class}/{name}@{}", sha_s(value));
    let mut defs: Vec<String> = ["Member", "Note", "Sheet", "Team", "Task"].map(str::to_owned).into();
    for value in ["g", "h"] {
        defs.extend([of("Note", "group", value), of("Member", "group", value)]);
        let team = Pk::from_key(&[value]).unwrap();
        defs.push(format!("Task/group@{team}"));
    }
    for value in ["ada", "bob"] {
        defs.extend([of("Note", "owner", value), of("Member", "account", value)]);
    }
    defs.extend(["one", "two"].map(|value| of("Sheet", "shelf", value)));
    defs.extend(["x", "a", "b"].map(|value| of("Sheet", "tags", value)));
    let single = |(class, values): &(&str, &[&str])| format!("{class}@{}", Pk::from_key(values).unwrap());
    defs.extend(KEYS.iter().map(single));
    defs.iter().map(|def| def.parse().unwrap()).collect()
}

/// Asks everything. No answer changes the database.
pub fn ask_all(engine: &Engine, filled: &Filled) -> Answers {
    let mut answers = Answers::new();
    for account in CALLERS {
        let caller = Caller {
            account: account.into(),
            may_write: true,
            is_admin: account == "root",
            ..Caller::default()
        };
        for def in defs() {
            for v in [0, filled.middle] {
                let request = SyncRequest { subs: vec![sub(&def, v)], ..SyncRequest::of("s") };
                let answer = match engine.sync(ORG, &caller, &request) {
                    Ok(mut reply) => Answer::Part(Box::new(reply.parts.remove(0))),
                    Err(error) => Answer::Outcome(error.code().as_str().to_owned()),
                };
                answers.insert(format!("{account} pulls {def} from {v}"), answer);
            }
        }
    }
    for (class, values) in KEYS {
        let (key, pk) = (key_of(class, values), Pk::from_key(values).unwrap());
        let mut ask = |verb: &str, run: &dyn Fn(&mut WriteTx<'_>) -> escale::Result<String>| {
            let mut outcome = None;
            // Given up, so that nothing changes.
            let end = engine.write(ORG, |w| -> escale::Result<()> {
                outcome = Some(run(w)?);
                Err(Error::new(Code::Internal, "given up"))
            });
            let code = || end.unwrap_err().code().as_str().to_owned();
            answers
                .insert(format!("{verb} {class} {values:?}"), Answer::Outcome(outcome.unwrap_or_else(code)));
        };
        ask("get", &|w| Ok(format!("{:?}", w.get(class, pk.as_str())?)));
        ask("delete", &|w| Ok(format!("{:?}", w.delete(class, &key)?)));
        let other = if class == "Note" { note(values[0], values[1], "ada", "other") } else { key.clone() };
        ask("put", &|w| Ok(format!("{:?}", w.put(class, other.clone())?)));
    }
    let entered = AccountTokens::default().enter(engine, ORG, &filled.token);
    let entered = entered.map(|entered| entered.map(|entered| entered.caller.account));
    let text =
        entered.map_or_else(|error| error.code().as_str().to_owned(), |account| format!("{account:?}"));
    answers.insert("enter".into(), Answer::Outcome(text));
    answers
}

/// Whether a question is about a tree.
fn is_of_tree(question: &str) -> bool {
    question.contains("Task") || question.contains("Team")
}

/// The first wrong answer after alterations of these kinds, with its question. An answer is right if it is as before, if it tells
/// that the storage failed, or if it lacks no more than the kinds allow. No kind lets a caller see another document.
pub fn wrong_answer(before: &Answers, after: &Answers, kinds: &[Kind]) -> Option<String> {
    let has = |kind: Kind| kinds.contains(&kind);
    let mut both = before.iter().zip(after.values());
    let wrong = both.find(|((question, before), after)| {
        *before != *after
            && !match (before, after) {
                (_, Answer::Outcome(code)) if code == "storage_failed" => true,
                (_, Answer::Part(after)) if code_of(after) == Some("server_error") => true,
                (Answer::Part(before), Answer::Part(_)) if has(Kind::Tree) && is_of_tree(question) => {
                    before.fault.is_none()
                }
                (Answer::Part(before), Answer::Part(after)) => {
                    (has(Kind::Absent) || has(Kind::AbsentInPulls)) && lacks_only(before, after)
                }
                (Answer::Outcome(_), Answer::Outcome(_)) => {
                    has(Kind::Absent)
                        || (has(Kind::Tree) && is_of_tree(question))
                        || (has(Kind::Index) && question.starts_with("put"))
                }
                _ => false,
            }
    });
    wrong.map(|((question, before), after)| format!("{question}: {before:?} became {after:?}"))
}

fn code_of(part: &Part) -> Option<&str> {
    part.fault.as_ref().map(|fault| fault.code.as_str())
}

/// Whether a part shows no document that it did not show before: the same rows or fewer of them, or a refusal.
fn lacks_only(before: &Part, after: &Part) -> bool {
    let shown = |row: &&Row| row.data.is_some();
    let is_the_same = code_of(after) == code_of(before) || code_of(after) == Some("withdrawn");
    is_the_same && after.rows.iter().filter(shown).all(|row| before.rows.contains(row))
}
