//! An org with groups, members and notes, and callers of each kind.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use escale::codec::{Fault, Op, OpResult, Part, SyncReply, SyncRequest};
use escale::model::schema::Schema;
use escale::model::{Def, Pk, Value, sha_s};
use escale_server::clock::ManualClock;
use escale_server::engine::{Caller, Engine, Opening, Restrictions, first_site};
use escale_server::mark::Mark;
use escale_server::provider::{MemoryDatabase, MemoryProvider};
use escale_server::seal::Seal;
use escale_server::settings::Settings;

use crate::support::world::*;

pub type Map = BTreeMap<String, Value>;

/// A class of each kind of rule and of each kind of def.
pub const RIGHTS: &str = r#"{
    "Member": { "key": ["group", "account"],
        "collections": { "account": { "key": ["account"] }, "group": { "key": ["group"] } },
        "rights": { "read": [{ "own": "account" }, { "in": "Member", "by": "group" }, "admin"],
                    "create": ["admin", { "in": "Member", "by": "group", "where": { "role": ["admin"] } }],
                    "update": ["admin", { "in": "Member", "by": "group", "where": { "role": ["admin"] } }],
                    "delete": ["admin", { "in": "Member", "by": "group", "where": { "role": ["admin"] } },
                               { "own": "account" }] } },
    "Note": { "key": ["group", "id"],
        "collections": { "group": { "key": ["group"] }, "owner": { "key": ["owner"], "mutable": true },
                         "pair": { "key": ["group", "owner"], "mutable": true } },
        "rights": { "read": { "in": "Member", "by": "group" },
                    "create": { "all": [{ "in": "Member", "by": "group", "where": { "role": ["write", "admin"] } },
                                        { "own": "owner" }] },
                    "update": { "all": [{ "in": "Member", "by": "group", "where": { "role": ["write", "admin"] } },
                                        [{ "unset": "only" }, { "own": "only" }]] },
                    "delete": [{ "own": "owner" },
                               { "in": "Member", "by": "group", "where": { "role": ["admin"] } }] } },
    "Diary": { "key": ["owner", "id"], "collections": { "owner": { "key": ["owner"] } },
        "rights": { "read": { "own": "owner" }, "create": { "own": "owner" }, "update": { "own": "owner" },
                    "delete": { "own": "owner" } } },
    "Letter": { "key": ["id"], "collections": { "to": { "key": ["to"], "list": true, "mutable": true } },
        "rights": { "read": { "own": "to" }, "update": { "own": "to" }, "delete": "none" } },
    "Board": { "key": ["id"], "rights": { "create": "admin", "update": "admin", "delete": "admin" } },
    "Draft": { "key": ["id"], "rights": { "read": "admin" } },
    "Open": { "key": ["id"], "exempt": 2 },
    "Team": { "key": ["group"], "rights": { "read": { "in": "Member", "by": "group" }, "create": "admin" } },
    "Task": { "in": "Team", "key": ["group", "id"], "rights": { "read": { "in": "Member", "by": "group" },
        "update": { "in": "Member", "by": "group", "where": { "role": ["write", "admin"] } } } },
    "Area": { "key": ["group", "id"] },
    "Plot": { "in": "Area", "key": ["group", "area", "id"],
        "rights": { "read": { "in": "Member", "by": "group" } } },
    "Yard": { "key": ["group", "id"], "rights": { "read": { "in": "Member", "by": "group" } } },
    "Bed": { "in": "Yard", "key": ["group", "yard", "id"],
        "rights": { "read": { "in": "Member", "by": "group" } } },
    "Leaf": { "in": "Yard", "key": ["group", "yard", "id"], "rights": { "read": "parent" } },
    "Case": { "key": ["id"], "collections": { "owner": { "key": ["owner"], "mutable": true } },
        "rights": { "read": [{ "own": "owner" }, { "own": "seen" }], "update": { "own": "owner" },
                    "delete": { "own": "owner" } } },
    "Step": { "in": "Case", "key": ["case", "id"],
        "rights": { "read": "parent", "create": "parent", "update": "parent", "delete": "parent" } },
    "Sign": { "in": "Case", "key": ["case"],
        "rights": { "read": ["parent", "admin"], "create": { "all": ["parent", { "own": "owner" }] },
                    "update": "parent", "delete": "none" } }
}"#;

/// An engine over a database in memory.
pub fn engine_of(schema: &str) -> (Engine, Arc<ManualClock>) {
    let clock = ManualClock::at(NOON);
    let schema = Schema::from_json(schema).unwrap();
    let settings = Settings::default();
    let opening = Opening { schema, settings, seal: Seal::clear(), clock: clock.clone() };
    let provider = MemoryProvider::open(&MemoryDatabase::new(first_site(1).unwrap()));
    (Engine::over(Box::new(provider), Mark::none(), opening, 7).unwrap(), clock)
}

pub fn of(account: &str) -> Caller {
    Caller {
        account: account.to_owned(),
        may_write: account != "mute",
        is_admin: account == "root",
        ..Caller::default()
    }
}

/// A document from its text properties.
pub fn doc(pairs: &[(&str, &str)]) -> Map {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect()
}

pub fn texts(items: &[&str]) -> Value {
    Value::Array(items.iter().map(|item| Value::from(*item)).collect())
}

/// A client of one account, with its own session.
pub struct Client<'e> {
    pub engine: &'e Engine,
    pub org: &'static str,
    pub caller: Caller,
    session: String,
    seq: u64,
    ids: u64,
}

impl<'e> Client<'e> {
    pub fn new(engine: &'e Engine, org: &'static str, account: &str) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let session = format!("s{}", NEXT.fetch_add(1, Ordering::Relaxed));
        Client { engine, org, caller: of(account), session, seq: 0, ids: 0 }
    }

    /// Sends one operation. The reply says with which number the session goes on.
    pub fn run(&mut self, name: &str, args: Value) -> OpResult {
        self.ids += 1;
        let session = self.session.clone();
        let id = format!("{session}-{}", self.ids);
        loop {
            let seq = self.seq + 1;
            let op = Op { id: id.clone(), seq, name: name.into(), args: args.clone(), at: 0, after: None };
            let request = SyncRequest { ops: vec![op], ..SyncRequest::of(&*session) };
            let mut reply = self.sync(&request).unwrap();
            self.seq = reply.seq;
            let result = reply.results.remove(0);
            // Nothing was kept of the numbers so far. The session begins again at once.
            if seq == 1 || result.fault.as_ref().is_none_or(|fault| fault.code != "order_gap") {
                return result;
            }
        }
    }

    /// Sends a request, restricted as a transport finds the caller.
    pub fn sync(&self, request: &SyncRequest) -> escale::Result<SyncReply> {
        let caller = Restrictions::of(self.engine).restricted(self.org, self.caller.clone())?;
        let reply = self.engine.sync(self.org, &caller, request)?;
        reply.check()?;
        Ok(reply)
    }

    /// The code of the refusal of an operation, or `ok`.
    pub fn code(&mut self, name: &str, args: Value) -> String {
        self.fault(name, args).map_or("ok".into(), |fault| fault.code)
    }

    pub fn fault(&mut self, name: &str, args: Value) -> Option<Fault> {
        self.run(name, args).fault
    }

    pub fn put(&mut self, class: &str, data: Map) -> String {
        self.code("doc.put", Value::from([("class", Value::from(class)), ("data", Value::Map(data))]))
    }

    pub fn patch(&mut self, class: &str, key: &[&str], set: Map) -> String {
        self.code(
            "doc.patch",
            Value::from([("class", Value::from(class)), ("key", texts(key)), ("set", Value::Map(set))]),
        )
    }

    pub fn delete(&mut self, class: &str, key: &[&str]) -> String {
        self.code("doc.delete", Value::from([("class", Value::from(class)), ("key", texts(key))]))
    }

    /// The part of a def from 0.
    pub fn part(&self, def: &str) -> Part {
        let subs = vec![sub(&def.parse::<Def>().unwrap(), 0)];
        let request = SyncRequest { subs, ..SyncRequest::of(&self.session) };
        let mut reply = self.sync(&request).unwrap();
        reply.parts.remove(0)
    }

    /// The pks of the living rows, or the code of the fault.
    pub fn rows(&self, def: &str) -> Result<Vec<String>, String> {
        let part = self.part(def);
        if let Some(fault) = part.fault {
            assert!(part.rows.is_empty() && part.left.is_empty() && part.present.is_none());
            return Err(fault.code);
        }
        let mut pks: Vec<String> =
            part.rows.iter().filter(|row| !row.deleted).map(|row| row.pk.to_string()).collect();
        pks.sort();
        Ok(pks)
    }
}

pub fn pk(key: &[&str]) -> String {
    Pk::from_key(key).unwrap().to_string()
}

/// `Class/collection@` of these values.
pub fn collection(class: &str, name: &str, values: &[&str]) -> String {
    format!("{class}/{name}@{}", sha_s(&values.join("/")))
}

/// `Class@pk` of that key.
pub fn single(class: &str, key: &[&str]) -> String {
    format!("{class}@{}", pk(key))
}

/// Group `g` with its administrator, its writer and its reader; `out` is in group `h` alone.
pub fn members(engine: &Engine, org: &'static str) {
    for (group, account, role) in [
        ("g", "lea", "admin"),
        ("g", "bob", "write"),
        ("g", "ada", "read"),
        ("h", "out", "admin"),
        ("h", "ada", "write"),
    ] {
        let member = doc(&[("group", group), ("account", account), ("role", role)]);
        engine.write(org, |w| w.put("Member", member.clone()).map(drop)).unwrap();
    }
}
