//! An instance of the engine, with the application's own operations, and its answers as sessions get them.
// A `Fault` is large because it contains the whole message to the session.
#![allow(clippy::result_large_err)]

use std::sync::Arc;

use escale::codec::Fault;
use escale::model::Value;
use escale::sync::Refusal;
use escale::{Code, Error, Result};
use escale_server::engine::{Caller, Engine, Opening, OperationTx, Ran, with_files};
use escale_server::mark::Mark;
use escale_server::seal::Seal;
use escale_server::settings::Settings;

use crate::clock::SimClock;
use crate::database::Database;
use crate::store::SlowFiles;
use crate::tap::Wire;
use escale_testkit::backend::{Tenant, Write};
use escale_testkit::outcome::{key_of, outcome, text};
use escale_testkit::schema::schema;

pub fn engine(
    database: &Database,
    wire: &Arc<Wire>,
    settings: &Settings,
    clock: Arc<SimClock>,
    name: u64,
    store: &SlowFiles,
) -> Arc<Engine> {
    let (schema, settings) = (schema(), settings.clone());
    let opening = Opening { schema, settings, seal: Seal::clear(), clock };
    let mark = Mark::in_memory(database.mark());
    let engine = Engine::over(database.provider(wire), mark, opening, name)
        .and_then(|engine| engine.operation("add", |tx, args| run(tx, "add", args)))
        .and_then(|engine| engine.operation("blind", |tx, args| run(tx, "blind", args)))
        .and_then(|engine| with_files(engine, Box::new(store.clone())));
    Arc::new(engine.expect("an instance that opens"))
}

/// The application's own operations.
fn run(tx: &mut OperationTx<'_>, name: &str, args: &Value) -> Ran {
    let refused = |code| Fault::new(code, "the operation of the simulation");
    let key: Vec<String> = args
        .as_map()
        .and_then(|map| map.get("key"))
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|part| part.as_str().map(str::to_owned))
        .collect();
    let key: Vec<&str> = key.iter().map(String::as_str).collect();
    let class = key_of(args).0;
    let before = tx.get(class.as_str(), &key)?;
    let Some(after) = outcome(name, args, before).map_err(refused)? else { return Ok(None) };
    let value = after.get(text(args, "property")).cloned();
    tx.put(class.as_str(), after)?;
    Ok(value.filter(|_| name == "add"))
}

pub fn caller(tenant: Tenant) -> Caller {
    Caller {
        account: format!("account{}", tenant.account),
        may_write: true,
        is_admin: false,
        ..Caller::default()
    }
}

/// The refusal that a session gets for a request that failed as a whole (docs/protocol.md).
pub fn refusal(error: &Error) -> Refusal {
    let code = match error.code() {
        Code::Malformed | Code::WrongProtocol | Code::TooDeep | Code::BadValue | Code::UnknownOrg => {
            panic!("a request that the server does not understand: {error}")
        }
        Code::Contention | Code::Unavailable => error.code(),
        _ => Code::ServerError,
    };
    let retry_after_ms = (code != Code::ServerError).then_some(1_000);
    Refusal { error: Error::new(code, "the server of the simulation"), retry_after_ms }
}

pub fn write(engine: &Engine, org: &str, writes: &[Write]) -> Result<()> {
    let written = engine.write(org, |w| {
        for write in writes {
            match write {
                Write::Put { key, data, max_life } => {
                    let mut data = data.clone();
                    if let Some(minutes) = max_life {
                        data.insert("maxLife".into(), Value::from(*minutes as i64));
                    }
                    w.put(key.0.as_str(), data)?;
                }
                Write::Delete(key) => {
                    if let Some((_, data)) = w.get(key.0.as_str(), key.1.as_str())? {
                        w.delete(key.0.as_str(), &data)?;
                    }
                }
            }
        }
        Ok(())
    });
    written.map(drop)
}
