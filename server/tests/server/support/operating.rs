//! Engines with application-defined operations, and requests that carry operations.
#![allow(clippy::result_large_err)] // as in the engine

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use escale::Code;
use escale::codec::{Fault, Format, Op, OpResult, SyncReply, SyncRequest, decode, encode};
use escale::model::schema::Schema;
use escale::model::{Pk, Value};
use escale_server::clock::ManualClock;
use escale_server::engine::{Caller, Engine, Opening};
use escale_server::seal::Seal;
use escale_server::settings::{Settings, WRITE_MS_MAX};

use crate::support::world::*;

#[allow(dead_code)] // its `main`
#[path = "../../../examples/counter.rs"]
mod counter;

/// The notes of the other tests, and counters.
pub fn schema() -> Schema {
    Schema::from_json(&SCHEMA.replacen('{', r#"{ "Counter": { "key": ["id"] },"#, 1)).unwrap()
}

pub fn open_with(folder: &Path, clock: &Arc<ManualClock>, settings: Settings, seal: Seal) -> Engine {
    Engine::open(folder, Opening { schema: schema(), settings, seal, clock: clock.clone() })
        .unwrap()
        .operation("counter.add", counter::add)
        .unwrap()
        .operation("list.append", |tx, args| {
            let mut list = tx.get("Counter", &["list"])?.unwrap_or_else(|| key("list"));
            let mut items = list.get("items").and_then(Value::as_array).unwrap_or_default().to_vec();
            items.push(args.clone());
            list.insert("items".into(), Value::Array(items));
            tx.put("Counter", list)?;
            Ok(None)
        })
        .unwrap()
        .operation("fault", |tx, args| {
            tx.put("Note", note("half", "one"))?;
            Err(Fault::new(Code::parse(args.as_str().unwrap()).unwrap(), "as asked"))
        })
        .unwrap()
        .operation("panic", |_, _| panic!("as asked"))
        .unwrap()
        .operation("large", |_, _| Ok(Some(Value::from(&*"x".repeat(2 << 20)))))
        .unwrap()
        .operation("who", |tx, _| Ok(Some(Value::from(&*format!("{}/{}", tx.org(), tx.account())))))
        .unwrap()
        .operation("slow", {
            let clock = clock.clone();
            move |tx, _| {
                tx.put("Note", note("slow", "one"))?;
                clock.advance(WRITE_MS_MAX + 1);
                Ok(None)
            }
        })
        .unwrap()
        .operation("take", |tx, args| {
            tx.delete("Note", &[args.as_str().unwrap_or_default()])?;
            Ok(None)
        })
        .unwrap()
}

pub fn operating() -> World {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(NOON);
    let engine = Arc::new(open_with(folder.path(), &clock, Settings::default(), Seal::clear()));
    World { folder, clock, engine }
}

/// The same folder under a new engine.
pub fn reopened(world: World) -> World {
    let World { folder, clock, engine } = world;
    drop(engine);
    let engine = Arc::new(open_with(folder.path(), &clock, Settings::default(), Seal::clear()));
    World { folder, clock, engine }
}

pub fn op(id: &str, seq: u64, name: &str, args: impl Into<Value>) -> Op {
    Op { id: id.into(), seq, name: name.into(), args: args.into(), at: 0, after: None }
}

pub fn list(items: &[&str]) -> Value {
    Value::Array(items.iter().map(|item| Value::from(*item)).collect())
}

pub fn map(entries: BTreeMap<String, Value>) -> Value {
    Value::Map(entries)
}

/// The arguments of `doc.put` of a note.
pub fn put_args(id: &str, shelf: &str) -> Value {
    [("class", Value::from("Note")), ("data", map(note(id, shelf)))].into()
}

/// The arguments of `doc.delete` for a note; with `set` added, those of `doc.patch`.
pub fn key_args(id: &str) -> Value {
    [("class", Value::from("Note")), ("key", list(&[id]))].into()
}

pub fn with(mut args: Value, name: &str, value: impl Into<Value>) -> Value {
    args.as_map_mut().unwrap().insert(name.into(), value.into());
    args
}

pub fn add_args(id: &str, by: i64) -> Value {
    [("key", list(&[id])), ("by", Value::from(by))].into()
}

/// Sends a session's operations, and returns the reply, both through the codec.
pub fn send_as(engine: &Engine, account: &str, session: &str, ops: Vec<Op>) -> SyncReply {
    send_of(engine, ("o", account), session, ops)
}

/// The same for another org, without an account.
pub fn send_to(engine: &Engine, org: &str, session: &str, ops: Vec<Op>) -> SyncReply {
    send_of(engine, (org, ""), session, ops)
}

fn send_of(engine: &Engine, (org, account): (&str, &str), session: &str, ops: Vec<Op>) -> SyncReply {
    let request = SyncRequest { ops, ..SyncRequest::of(session) };
    let bytes = encode(Format::Msgpack, &request).unwrap();
    let request: SyncRequest = decode(Format::Msgpack, &bytes, usize::MAX).unwrap();
    request.check().unwrap();
    let caller = Caller { account: account.into(), may_write: true, is_admin: false, ..Caller::default() };
    let reply = engine.sync(org, &caller, &request).unwrap();
    reply.check().unwrap();
    decode(Format::Json, &encode(Format::Json, &reply).unwrap(), usize::MAX).unwrap()
}

pub fn send(engine: &Engine, ops: Vec<Op>) -> SyncReply {
    send_as(engine, "", "s", ops)
}

/// Each result as its id and `ok` or its fault's code.
pub fn told(reply: &SyncReply) -> Vec<(&str, &str)> {
    reply.results.iter().map(|result| (&*result.id, code_of(result))).collect()
}

pub fn code_of(result: &OpResult) -> &str {
    match (&result.ok, &result.fault) {
        (Some(_), None) => "ok",
        (None, Some(fault)) => &fault.code,
        _ => panic!("ok or fault: {result:?}"),
    }
}

/// The code and the result of a single operation, the session's next.
pub fn one(engine: &Engine, name: &str, args: Value) -> (String, OpResult) {
    let seq = send(engine, Vec::new()).seq + 1;
    let mut reply = send(engine, vec![op(&format!("id-{seq}"), seq, name, args)]);
    assert_eq!(reply.results.len(), 1);
    let result = reply.results.remove(0);
    (code_of(&result).to_owned(), result)
}

/// The current document of a class.
pub fn document(engine: &Engine, class: &str, id: &str) -> Option<BTreeMap<String, Value>> {
    let pk = Pk::from_key(&[id]).unwrap();
    engine.write("o", |w| w.get(class, pk.as_str())).unwrap().value.map(|(_, map)| map)
}

pub fn counted(engine: &Engine, id: &str) -> i64 {
    document(engine, "Counter", id).map_or(0, |map| map["n"].as_f64().unwrap() as i64)
}
