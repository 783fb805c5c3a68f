//! An engine, and the bytes of everything that it stores.
#![allow(clippy::result_large_err)] // as in the engine

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use escale::codec::{Data, Format, Op, OpResult, SyncReply, SyncRequest, decode, encode};
use escale::model::Value;
use escale::model::schema::Schema;
use escale_server::clock::ManualClock;
use escale_server::engine::{Caller, Engine, Opening, Restriction};
use escale_server::provider::Place;
use escale_server::seal::Seal;
use escale_server::settings::Settings;

use crate::support::operating::{key_args, op, put_args, with};
use crate::support::world::{NOON, note, quick_folder};

const SCHEMA: &str = r#"{
    "Note": { "key": ["id"], "quota": { "by": "owner" }, "properties": { "file": "file" },
        "collections": { "tags": { "key": ["tags"], "list": true, "mutable": true },
                         "owner": { "key": ["owner"], "mutable": true } },
        "indexes": { "size": "integer", "words": "string[]" } },
    "Book": { "key": ["id"] },
    "Page": { "in": "Book", "key": ["book", "number"] },
    "Closed": { "key": ["id"], "rights": { "create": "admin", "update": "admin", "delete": "admin" } },
    "Secret": { "key": ["id"], "rights": { "read": { "own": "owner" } } },
    "Log": { "key": ["id"], "sync": false }
}"#;

/// The states of each document, in the order of the journal.
pub type States = BTreeMap<String, Vec<Option<BTreeMap<String, Value>>>>;

/// An engine on a file, and the file as it is stored.
pub struct Stored {
    pub engine: Engine,
    pub clock: Arc<ManualClock>,
    pub raw: rusqlite::Connection,
    folder: tempfile::TempDir,
}

pub fn stored(settings: Settings, seal: Seal) -> Stored {
    let (folder, clock) = (quick_folder(), ManualClock::at(NOON));
    let engine = open(folder.path(), &clock, settings, seal);
    let raw = rusqlite::Connection::open(Engine::database_in(folder.path())).unwrap();
    Stored { engine, clock, raw, folder }
}

fn open(folder: &Path, clock: &Arc<ManualClock>, settings: Settings, seal: Seal) -> Engine {
    let schema = Schema::from_json(SCHEMA).unwrap();
    let engine = Engine::open(folder, Opening { schema, settings, seal, clock: clock.clone() }).unwrap();
    let engine = engine.operation("say", |_, args| Ok(Some(text(args.as_u64().unwrap() as usize)))).unwrap();
    let made = engine.operation("make", |tx, args| {
        for n in 0..args.as_u64().unwrap() {
            tx.put("Book", [("id".into(), word(n))].into())?;
        }
        Ok(None)
    });
    made.unwrap()
}

pub fn caller(account: &str) -> Caller {
    let may_write = account != "reader";
    let restriction = Restriction { org: 0, account: u8::from(account == "blocked") };
    Caller { account: account.into(), may_write, is_admin: account == "root", restriction }
}

impl Stored {
    /// The same folder under a new engine.
    pub fn reopened(self) -> Self {
        let Stored { engine, clock, raw, folder } = self;
        drop(engine);
        let engine = open(folder.path(), &clock, Settings::default(), Seal::clear());
        Stored { engine, clock, raw, folder }
    }

    pub fn ask(&self, account: &str, session: &str, ops: Vec<Op>) -> (SyncReply, u64) {
        let request = SyncRequest { ops, ..SyncRequest::of(session) };
        let bytes = encode(Format::Msgpack, &request).unwrap();
        let request: SyncRequest = decode(Format::Msgpack, &bytes, usize::MAX).unwrap();
        request.check().unwrap();
        let reply = self.engine.sync("o", &caller(account), &request).unwrap();
        reply.check().unwrap();
        (reply, bytes.len() as u64)
    }

    /// Sends one operation as the first of a session.
    pub fn one(&self, account: &str, session: &str, name: &str, args: Value) -> OpResult {
        self.ask(account, session, vec![op(session, 1, name, args)]).0.results.remove(0)
    }

    /// The bytes of all columns of all rows of all tables, and those of the stored objects.
    pub fn bytes(&self) -> u64 {
        let texts = |sql: &str| -> Vec<String> {
            let mut statement = self.raw.prepare(sql).unwrap();
            let rows = statement.query_map([], |row| row.get(0)).unwrap();
            rows.map(Result::unwrap).collect()
        };
        let tables =
            texts("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'");
        assert!(tables.len() >= 15, "{tables:?}");
        let of_table = |table: &String| -> u64 {
            let columns = texts(&format!("SELECT name FROM pragma_table_info('{table}')"));
            let of_column = |column: &String| {
                format!(
                    "CASE typeof({column}) WHEN 'null' THEN 0 WHEN 'text' THEN length(CAST({column} AS BLOB))
                     WHEN 'blob' THEN length({column}) ELSE 8 END"
                )
            };
            let sum = columns.iter().map(of_column).collect::<Vec<_>>().join(" + ");
            let sql = format!("SELECT coalesce(sum({sum}), 0) FROM {table}");
            self.raw.query_row(&sql, [], |row| row.get(0)).unwrap()
        };
        tables.iter().map(of_table).sum::<u64>() + bytes_in(&self.folder.path().join("files"))
    }

    /// The bytes of results and journal, as the head of the org has them, and as the rows have them.
    pub fn kept(&self) -> (u64, u64) {
        let sql = "SELECT coalesce((SELECT kept FROM heads WHERE org = 'o'), 0),
            (SELECT coalesce(sum(length(CAST(session AS BLOB)) + length(CAST(id AS BLOB)) + length(result) + 64), 0)
             FROM ops) +
            (SELECT coalesce(sum(length(goblin) + length(CAST(commitId AS BLOB)) + coalesce(length(action), 0) + 64), 0)
             FROM actions)";
        self.raw.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
    }

    /// The states of each document that the journal gives, one for each entry.
    pub fn states(&self, seal: &Seal) -> States {
        let mut statement =
            self.raw.prepare("SELECT goblin, type, version, action FROM actions ORDER BY rowid").unwrap();
        let mut rows = statement.query([]).unwrap();
        let mut states: States = BTreeMap::new();
        while let Some(row) = rows.next().unwrap() {
            let (actor, kind): (String, String) = (row.get(0).unwrap(), row.get(1).unwrap());
            let (v, action): (u64, Option<Vec<u8>>) = (row.get(2).unwrap(), row.get(3).unwrap());
            let opened =
                action.map(|bytes| seal.open_state(Place::of_actor(&actor).unwrap(), v, &bytes).unwrap());
            let own = states.entry(actor.clone()).or_default();
            let state = match (kind.as_str(), opened) {
                ("persist", opened) => {
                    opened.map(|bytes| Data::from_bytes(&bytes).unwrap().to_map().unwrap())
                }
                ("update", Some(bytes)) => {
                    let change: Value = decode(Format::Msgpack, &bytes, usize::MAX).unwrap();
                    let [Value::Map(set), Value::Array(unset)] = change.as_array().unwrap() else { panic!() };
                    let mut map = own.last().cloned().flatten().expect("a change follows a state");
                    map.retain(|name, _| !unset.contains(&Value::from(name.as_str())));
                    map.extend(set.clone());
                    Some(map)
                }
                other => panic!("{other:?}"),
            };
            own.push(state);
        }
        states
    }
}

fn bytes_in(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let of = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.unwrap().path();
        if path.is_dir() { bytes_in(&path) } else { std::fs::metadata(&path).unwrap().len() }
    };
    entries.map(of).sum()
}

pub fn patch_args(id: &str, name: &str, value: Value) -> Value {
    with(key_args(id), "set", Value::Map([(name.to_owned(), value)].into()))
}

pub fn word(text: impl ToString) -> Value {
    Value::from(&*text.to_string())
}

pub fn text(bytes: usize) -> Value {
    word("x".repeat(bytes))
}

pub fn large(id: &str, bytes: usize) -> Value {
    let mut data = note(id, "one");
    data.insert("text".into(), text(bytes));
    data.insert("owner".into(), "ann".into());
    with(put_args(id, "one"), "data", Value::Map(data))
}

/// The most that a request of so many bytes may add.
pub fn allowed(sent: u64) -> u64 {
    10 * sent + (64 << 10)
}
