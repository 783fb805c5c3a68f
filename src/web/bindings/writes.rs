//! The methods with which JavaScript issues operations and follows their state.

use serde::{Deserialize, Serialize};
use wasm_bindgen::prelude::*;

use super::core::Core;
use super::error::{ErrorJson, thrown};
use crate::crypto::SystemRandom;
use crate::error::{Code, Error, Result, fail};
use crate::journal::{Action, OpId, PendingOp, Retention, iso8601, make_id};
use crate::model::Value;
use crate::sync::{Event, Machine, Swept, Write, error_of};
use crate::web::clock::now_ms;
use crate::web::driver::Driver;

type Thrown<T> = std::result::Result<T, JsValue>;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WriteOptions {
    #[serde(default)]
    touches: Vec<(String, Vec<String>)>,
    #[serde(default)]
    after: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct SweepOptions {
    #[serde(default)]
    count: Option<u32>,
    #[serde(default)]
    before: Option<String>,
    #[serde(default)]
    days: Option<u32>,
    #[serde(default)]
    max: Option<u32>,
    #[serde(default)]
    apply: bool,
}

#[derive(Serialize)]
struct OpJson<'a> {
    id: &'a str,
    name: &'a str,
    args: &'a Value,
    at: u64,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorJson>,
    /// The server's current document, if the server refused the operation because of that document.
    #[serde(skip_serializing_if = "Option::is_none")]
    theirs: Option<TheirsJson>,
}

#[derive(Serialize)]
struct TheirsJson {
    class: String,
    v: u64,
    /// Null if it is deleted.
    data: Option<Value>,
}

#[derive(Serialize)]
struct PastJson<'a> {
    rowid: i64,
    op: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    at: u64,
    /// The version that the server assigned; null until the server accepts the operation.
    commit: Option<u64>,
    data: Option<Value>,
}

#[derive(Serialize)]
struct SweptJson {
    removed: usize,
    rowids: Vec<i64>,
}

#[wasm_bindgen]
impl Core {
    /// Issues an operation. Gives its id.
    pub fn write(&self, name: String, args: &str, options: &str) -> Thrown<String> {
        let driver = self.inner().driver.clone();
        issue(&driver, name, args, options).map_err(thrown)
    }

    /// Issues a refused operation again, with other arguments or the same. Gives the id of the new operation.
    pub fn amend(&self, id: String, args: Option<String>) -> Thrown<String> {
        let driver = self.inner().driver.clone();
        amend(&driver, id, args).map_err(thrown)
    }

    /// Discards a refused operation.
    pub fn discard(&self, id: String) -> Thrown<()> {
        let driver = self.inner().driver.clone();
        let found = driver.with(|machine| machine.refused_op(&id).map(|_| ()));
        found.and_then(|found| found).map_err(thrown)?;
        driver.post(Event::Discard(id));
        Ok(())
    }

    /// The operations that are not over, in order, as JSON.
    pub fn operations(&self) -> Thrown<String> {
        self.inner().driver.with(operations_json).map_err(thrown)
    }

    /// Ids of accepted operations that a later epoch of the server's database does not contain.
    #[wasm_bindgen(js_name = lostByServer)]
    pub fn lost_by_server(&self) -> Thrown<Vec<String>> {
        self.inner().driver.with(|machine| machine.lost_by_server().to_vec()).map_err(thrown)
    }

    /// The past states of a document, the oldest first, as JSON.
    pub async fn history(&self, class: String, key: Vec<String>) -> Thrown<String> {
        let driver = self.inner().driver.clone();
        let key = driver.with(|machine| machine.key_of(&class, &key)).and_then(|key| key).map_err(thrown)?;
        let past = driver.history(key).await.map_err(thrown)?;
        past_json(&past).map_err(thrown)
    }

    /// Sweeps the journal, or lists the actions that a sweep would remove, as JSON.
    pub async fn sweep(&self, options: String) -> Thrown<String> {
        let driver = self.inner().driver.clone();
        let (retention, apply) = retention(&options).map_err(thrown)?;
        let Swept { rowids } = driver.sweep(retention, apply).await.map_err(thrown)?;
        Ok(serde_json::to_string(&SweptJson { removed: rowids.len(), rowids }).unwrap_or_default())
    }
}

fn issue(driver: &std::rc::Rc<Driver>, name: String, args: &str, options: &str) -> Result<OpId> {
    let args: Value = serde_json::from_str(args).map_err(|e| Error::new(Code::BadValue, e.to_string()))?;
    let options: WriteOptions =
        serde_json::from_str(options).map_err(|e| Error::new(Code::BadOption, e.to_string()))?;
    let touches = driver.with(|machine| {
        machine.check_write(&name, &args)?;
        options.touches.iter().map(|(class, key)| machine.key_of(class, key)).collect::<Result<Vec<_>>>()
    })??;
    let id = make_id(now_ms(), &mut SystemRandom)?;
    driver.post(Event::Write(Write { id: id.clone(), name, args, touches, after: options.after }));
    Ok(id)
}

fn amend(driver: &std::rc::Rc<Driver>, id: OpId, args: Option<String>) -> Result<OpId> {
    let args: Option<Value> = args
        .map(|args| serde_json::from_str(&args).map_err(|e| Error::new(Code::BadValue, e.to_string())))
        .transpose()?;
    driver.with(|machine| machine.check_amendment(&id, args.as_ref()))??;
    let new = make_id(now_ms(), &mut SystemRandom)?;
    driver.post(Event::Amend { id, new: new.clone(), args });
    Ok(new)
}

fn operations_json(machine: &Machine) -> String {
    let ops: Vec<OpJson> = machine
        .operations()
        .into_iter()
        .map(|(op, held)| {
            let state = match (&op.state.refused, op.state.accepted, held, op.saved) {
                (Some(_), ..) => "refused",
                (None, Some(_), ..) => "accepted",
                (None, None, true, _) => "held",
                (None, None, false, true) => "saved",
                (None, None, false, false) => "unsaved",
            };
            let error = op.state.refused.as_ref().map(|fault| ErrorJson::from(&error_of(fault)));
            OpJson {
                id: &op.state.id,
                name: &op.state.name,
                args: &op.state.args,
                at: op.state.at,
                theirs: theirs(op),
                state,
                error,
            }
        })
        .collect();
    serde_json::to_string(&ops).unwrap_or_default()
}

/// The server's document in a conflict, which is about one of the documents that the operation touched.
fn theirs(op: &PendingOp) -> Option<TheirsJson> {
    let row = op.state.refused.as_ref()?.doc.as_ref()?;
    let (class, _) = op.state.touches.iter().find(|(_, pk)| *pk == row.pk)?;
    let data = row.data.as_ref().filter(|_| !row.deleted).map(|data| data.to_map().map(Value::Map));
    Some(TheirsJson { class: class.as_str().to_owned(), v: row.v, data: data.transpose().ok()? })
}

fn past_json(past: &[(OpId, Action)]) -> Result<String> {
    let mut rows = Vec::with_capacity(past.len());
    for (op, action) in past {
        let data = action.data.as_ref().map(|data| data.to_map().map(Value::Map)).transpose()?;
        let (rowid, kind) = (action.rowid, action.kind.as_str());
        rows.push(PastJson { rowid, op, kind, at: action.at, commit: action.commit, data });
    }
    serde_json::to_string(&rows).map_err(|e| Error::new(Code::Internal, e.to_string()))
}

/// The rule of a sweep: by count, by date, or by days (by default 30 days, at most 10 actions).
fn retention(options: &str) -> Result<(Retention, bool)> {
    let options: SweepOptions =
        serde_json::from_str(options).map_err(|e| Error::new(Code::BadOption, e.to_string()))?;
    let retention = match (options.count, options.before, options.days) {
        (Some(count), None, None) => Retention::Count(count),
        (None, Some(before), None) => Retention::Before(before),
        (None, None, days) => {
            let ms = u64::from(days.unwrap_or(30)) * 86_400_000;
            Retention::Days { max: options.max.unwrap_or(10), before: iso8601(now_ms().saturating_sub(ms)) }
        }
        _ => return fail(Code::BadOption, "sweep by `count`, by `before` or by `days`: one of them"),
    };
    retention.check()?;
    Ok((retention, options.apply))
}
