//! The methods with which JavaScript issues operations and follows their state.

use js_sys::Promise;
use wasm_bindgen::prelude::*;

use super::core::Core;
use super::error::{ErrorJson, promise_of, thrown, value};
use super::host::texts;
use crate::codec::Presence::{Optional, Required};
use crate::codec::{Data, Encode, Writer, read_json, reads, write_json};
use crate::crypto::SystemRandom;
use crate::error::{Code, Result, fail};
use crate::journal::{Action, ChangeKind, Issued, OpId, PendingOp, Retention, State, iso8601, make_id};
use crate::model::Value;
use crate::sync::{Event, FileWord, Machine, Swept, Write, error_of};
use crate::web::driver::Driver;
use crate::web::platform::clock::now_ms;

type Thrown<T> = std::result::Result<T, JsValue>;

#[derive(Default)]
struct WriteOptions {
    touches: Vec<(String, Vec<String>)>,
    after: Vec<String>,
}

reads!(only WriteOptions { touches default, after default });

#[derive(Default)]
struct SweepOptions {
    count: Option<u32>,
    before: Option<String>,
    days: Option<u32>,
    max: Option<u32>,
    apply: bool,
}

reads!(only SweepOptions { count, before, days, max, apply default });

struct OpJson<'a> {
    op: &'a Issued,
    state: &'static str,
    error: Option<ErrorJson>,
    /// The server's current document, if the server refused the operation because of that document.
    theirs: Option<TheirsJson<'a>>,
}

impl Encode for OpJson<'_> {
    fn encode(&self, out: &mut Writer) {
        out.record(&[
            ("id", Required, &self.op.id),
            ("name", Required, &self.op.name),
            ("args", Required, &self.op.args),
            ("at", Required, &self.op.at),
            ("state", Required, &self.state),
            ("error", Optional, &self.error),
            ("theirs", Optional, &self.theirs),
        ]);
    }
}

struct TheirsJson<'a> {
    class: &'a str,
    v: u64,
    /// Null if it is deleted.
    data: Option<Value>,
    /// The document on which the session made the operation, and its result. None if the application set the version.
    own: Option<Value>,
}

impl Encode for TheirsJson<'_> {
    fn encode(&self, out: &mut Writer) {
        out.record(&[
            ("class", Required, &self.class),
            ("v", Required, &self.v),
            ("data", Required, &self.data),
            ("own", Optional, &self.own),
        ]);
    }
}

struct PastJson<'a> {
    op: &'a OpId,
    action: &'a Action,
    data: Option<Value>,
}

impl Encode for PastJson<'_> {
    fn encode(&self, out: &mut Writer) {
        out.record(&[
            ("rowid", Required, &self.action.rowid),
            ("op", Required, self.op),
            ("type", Required, &self.action.kind.as_str()),
            ("at", Required, &self.action.at),
            // The version that the server assigned; null until the server accepts the operation.
            ("commit", Required, &self.action.commit),
            ("data", Required, &self.data),
        ]);
    }
}

struct SweptJson(Vec<i64>);

impl Encode for SweptJson {
    fn encode(&self, out: &mut Writer) {
        out.record(&[("removed", Required, &(self.0.len() as u64)), ("rowids", Required, &self.0)]);
    }
}

#[wasm_bindgen]
impl Core {
    /// Issues an operation. Gives its id.
    pub fn write(&self, name: String, args: &str, options: &str) -> Thrown<JsValue> {
        let driver = self.inner().driver.clone();
        value(issue(&driver, name, args, options))
    }

    /// Issues a refused operation again, with other arguments or the same. Gives the id of the new operation.
    pub fn amend(&self, id: String, args: Option<String>) -> Thrown<JsValue> {
        let driver = self.inner().driver.clone();
        value(amend(&driver, id, args))
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
    pub fn operations(&self) -> Thrown<JsValue> {
        value(self.inner().driver.with(operations_json))
    }

    /// The word on objects of files: `there` with the epoch of the confirmation, `absent`, or the code of an error.
    #[wasm_bindgen(js_name = settleFiles)]
    pub fn settle_files(&self, shas: Vec<String>, word: &str, epoch: Option<String>) -> Thrown<()> {
        let word = word_of(word, epoch.as_deref()).map_err(thrown)?;
        self.inner().driver.post(Event::FilesSettled { shas, word });
        Ok(())
    }

    /// The objects of files that operations on the device reference, or those of local documents alone.
    pub fn files(&self, local: bool) -> Thrown<JsValue> {
        value(self.inner().driver.with(|machine| texts(&machine.files(local))))
    }

    /// The keys of the files, 32 bytes each: to seal, and to name. Empty in incognito.
    #[wasm_bindgen(js_name = fileKeys)]
    pub fn file_keys(&self) -> Thrown<JsValue> {
        let keys = |machine: &Machine| machine.layout().map(|layout| layout.keys_of_files().concat());
        let keys = self.inner().driver.with(keys).map(Option::unwrap_or_default);
        value(keys.map(|keys| js_sys::Uint8Array::from(keys.as_slice())))
    }

    /// Ids of accepted operations that a later epoch of the server's database does not contain.
    #[wasm_bindgen(js_name = lostByServer)]
    pub fn lost_by_server(&self) -> Thrown<JsValue> {
        value(self.inner().driver.with(|machine| texts(machine.lost_by_server())))
    }

    /// The past states of a document, the oldest first, as JSON.
    pub fn history(&self, class: String, key: Vec<String>) -> Promise {
        let driver = self.inner().driver.clone();
        promise_of(Box::pin(async move {
            let key = driver.with(|machine| machine.key_of(&class, &key))??;
            Ok(past_json(&driver.history(key).await?)?.into())
        }))
    }

    /// Sweeps the journal, or lists the actions that a sweep would remove, as JSON.
    pub fn sweep(&self, options: String) -> Promise {
        let driver = self.inner().driver.clone();
        promise_of(Box::pin(async move {
            let (retention, apply) = retention(&options)?;
            let Swept { rowids } = driver.sweep(retention, apply).await?;
            Ok(write_json(&SweptJson(rowids))?.into())
        }))
    }
}

fn issue(driver: &std::rc::Rc<Driver>, name: String, args: &str, options: &str) -> Result<OpId> {
    let args: Value = read_json(args, Code::BadValue)?;
    let options: WriteOptions = read_json(options, Code::BadOption)?;
    let touches = driver.with(|machine| {
        machine.check_write(&name, &args)?;
        options.touches.iter().map(|(class, key)| machine.key_of(class, key)).collect::<Result<Vec<_>>>()
    })??;
    let id = make_id(now_ms(), &mut SystemRandom)?;
    driver.post(Event::Write(Write { id: id.clone(), name, args, touches, after: options.after }));
    Ok(id)
}

fn amend(driver: &std::rc::Rc<Driver>, id: OpId, args: Option<String>) -> Result<OpId> {
    let args: Option<Value> = args.map(|args| read_json(&args, Code::BadValue)).transpose()?;
    driver.with(|machine| machine.check_amendment(&id, args.as_ref()))??;
    let new = make_id(now_ms(), &mut SystemRandom)?;
    driver.post(Event::Amend { id, new: new.clone(), args });
    Ok(new)
}

fn word_of(word: &str, epoch: Option<&str>) -> Result<FileWord> {
    Ok(match word {
        "there" => FileWord::There(read_json(epoch.unwrap_or_default(), Code::BadOption)?),
        "absent" => FileWord::Absent,
        code => FileWord::Failed(Code::parse(code).unwrap_or(Code::Internal)),
    })
}

fn operations_json(machine: &Machine) -> String {
    let ops: Vec<OpJson> = machine
        .operations()
        .into_iter()
        .map(|(op, held)| {
            let state = match (&op.state.refused, op.state.accepted, held, op.saved) {
                (Some(_), ..) => "refused",
                (None, Some(_), ..) => "accepted",
                (None, None, true, _) if machine.is_uploading(op) => "uploading",
                (None, None, true, _) => "held",
                (None, None, false, true) => "saved",
                (None, None, false, false) => "unsaved",
            };
            let error = op.state.refused.as_ref().map(|fault| ErrorJson::from(&error_of(fault)));
            OpJson { op: &op.state.issued, state, error, theirs: theirs(op) }
        })
        .collect();
    write_json(&ops).unwrap_or_default()
}

/// The server's document in a conflict, which is about one of the documents that the operation touched.
fn theirs(op: &PendingOp) -> Option<TheirsJson<'_>> {
    let row = op.state.refused.as_ref()?.doc.as_ref()?;
    let (class, _) = op.state.issued.touches.iter().find(|(_, pk)| *pk == row.pk)?;
    let state = |data: Option<&Data>| data.map(Data::to_map).transpose().ok();
    let whole = |state: Option<State>| state.map_or(Value::Null, Value::Map);
    let own = op.expected_at(&row.pk).filter(|key| !op.insists_on(key)).and_then(|key| {
        let base = state(op.base_of(class, &row.pk))?;
        let mine = op.result_on(key, base.clone());
        // The result of a patch is unknown if the document is not known here.
        let last = op.changes_on(key).next_back();
        let is_known = mine.is_some() || last.is_some_and(|change| change.kind == ChangeKind::Delete);
        is_known.then(|| Value::Array(vec![whole(base), whole(mine)]))
    });
    let data = state(row.data.as_ref().filter(|_| !row.deleted))?.map(Value::Map);
    Some(TheirsJson { class: class.as_str(), v: row.v, data, own })
}

fn past_json(past: &[(OpId, Action)]) -> Result<String> {
    let mut rows = Vec::with_capacity(past.len());
    for (op, action) in past {
        let data = action.data.as_ref().map(|data| data.to_map().map(Value::Map)).transpose()?;
        rows.push(PastJson { op, action, data });
    }
    write_json(&rows)
}

/// The rule of a sweep: by count, by date, or by days (by default 30 days, at most 10 actions).
fn retention(options: &str) -> Result<(Retention, bool)> {
    let options: SweepOptions = read_json(options, Code::BadOption)?;
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
