//! The application's own functions, which the core calls synchronously: optimistic parts, and the resolution
//! of conflicts.
//!
//! JavaScript gets the documents that it may read as values, and answers with the names of missing ones. So
//! it never holds one of our functions while the machine is at work.

use js_sys::Function;
use wasm_bindgen::prelude::*;

use crate::codec::Presence::Required;
use crate::codec::{Encode, Writer, read_json, reads, write_json};
use crate::error::{Code, Error, Result, fail};
use crate::journal::{Change, ChangeKind, Policy, Settlement, State, key_of, tree_of};
use crate::model::schema::Schema;
use crate::model::{Name, SortedMap, Value};
use crate::sync::{Application, Reader};
use crate::web::platform::global::{exception_name, method, property};

/// The number of documents that one optimistic part may read.
const READS_MAX: usize = 1_000;

/// The functions of the host object.
pub(super) struct JsApplication {
    object: JsValue,
    optimistic: Option<Function>,
    settle: Option<Function>,
    policies: SortedMap<String, Policy>,
    schema: Schema,
}

/// JavaScript's answer: the changes, or the documents that it must read first.
struct Outcome {
    changes: Vec<ChangeJson>,
    wants: Vec<(String, Vec<String>)>,
}

reads!(new Outcome { changes default, wants default });

struct ChangeJson {
    class: String,
    key: Vec<String>,
    put: Option<State>,
    set: Option<State>,
    unset: Vec<String>,
}

reads!(new ChangeJson { class, key, put, set, unset default });

/// A document that JavaScript may read; `null` if there is none.
struct DocumentJson {
    class: String,
    key: Vec<String>,
    state: Option<State>,
}

impl Encode for DocumentJson {
    fn encode(&self, out: &mut Writer) {
        out.record(&[
            ("class", Required, &self.class),
            ("key", Required, &self.key),
            ("state", Required, &self.state),
        ]);
    }
}

impl JsApplication {
    /// The application behind a host. `policies` is JSON: the conflict policy of each class that has one.
    pub(super) fn new(object: &JsValue, options: &JsValue, schema: Schema) -> Result<Self> {
        let text =
            property(options, "policies").and_then(|value| value.as_string()).unwrap_or_else(|| "{}".into());
        let wrong =
            || Error::new(Code::BadOption, "a conflict policy is ask, server, client, merge or custom");
        let named: State = read_json(&text, Code::BadOption).map_err(|_| wrong())?;
        let mut policies = SortedMap::new();
        for (class, policy) in named {
            schema.class(&class)?;
            let policy = policy.as_str().and_then(Policy::parse).ok_or_else(wrong)?;
            policies.insert(class, policy);
        }
        let (optimistic, settle) = (method(object, "optimistic"), method(object, "settle"));
        Ok(JsApplication { object: object.clone(), optimistic, settle, policies, schema })
    }

    fn run(&self, function: &Function, name: &str, args: &str, read: &mut Reader<'_>) -> Result<Vec<Change>> {
        let mut documents: Vec<DocumentJson> = Vec::new();
        loop {
            let answer = function
                .call3(&self.object, &name.into(), &args.into(), &json(&documents)?.into())
                .map_err(|e| {
                    Error::new(
                        Code::BadValue,
                        format!("an optimistic part failed with {}", exception_name(&e)),
                    )
                })?;
            let Some(answer) = answer.as_string() else { return Ok(Vec::new()) };
            let outcome: Outcome = read_json(&answer, Code::BadValue)
                .map_err(|e: Error| e.at("an optimistic part gave no changes"))?;
            if outcome.wants.is_empty() {
                return outcome.changes.into_iter().map(|change| self.change(change)).collect();
            }
            for (class, key) in outcome.wants {
                if documents.len() == READS_MAX {
                    return fail(
                        Code::TooLarge,
                        format!("an optimistic part reads more than {READS_MAX} documents"),
                    );
                }
                let state = read(&key_of(&self.schema, &class, &key)?);
                documents.push(DocumentJson { class, key, state });
            }
        }
    }

    fn change(&self, json: ChangeJson) -> Result<Change> {
        let key = key_of(&self.schema, &json.class, &json.key)?;
        let parts: Vec<&str> = json.key.iter().map(AsRef::as_ref).collect();
        let tree = tree_of(&self.schema, self.schema.class(&json.class)?, &parts)?;
        let kind = match (json.put, json.set) {
            (Some(state), None) => ChangeKind::Put(state),
            (None, Some(set)) => ChangeKind::Patch { set, unset: json.unset },
            (None, None) => ChangeKind::Delete,
            (Some(_), Some(_)) => return fail(Code::BadValue, "a change puts, patches or deletes"),
        };
        Ok(Change { key, kind, if_version: None, tree })
    }
}

impl Application for JsApplication {
    fn optimistic(&self, name: &str, args: &Value, read: &mut Reader<'_>) -> Option<Result<Vec<Change>>> {
        let function = self.optimistic.as_ref()?;
        Some(json(args).and_then(|args| self.run(function, name, &args, read)))
    }

    fn policy(&self, class: &Name) -> Policy {
        self.policies.get(class.as_str()).copied().unwrap_or_default()
    }

    fn settle(
        &self,
        class: &Name,
        base: Option<&State>,
        mine: Option<&State>,
        theirs: Option<&State>,
    ) -> Result<Settlement> {
        let Some(function) = &self.settle else { return Ok(Settlement::Theirs) };
        let arguments = js_sys::Array::of4(
            &class.as_str().into(),
            &json(&base)?.into(),
            &json(&mine)?.into(),
            &json(&theirs)?.into(),
        );
        let answer = function.apply(&self.object, &arguments).map_err(|e| {
            Error::new(Code::BadValue, format!("settling a conflict failed with {}", exception_name(&e)))
        })?;
        let Some(answer) = answer.as_string() else { return Ok(Settlement::Theirs) };
        let state: Option<State> = read_json(&answer, Code::BadValue)
            .map_err(|e: Error| e.at("settling a conflict gave no document"))?;
        Ok(state.map_or(Settlement::Delete, Settlement::Put))
    }
}

fn json(value: &dyn Encode) -> Result<String> {
    write_json(value).map_err(|e| Error::new(Code::BadValue, e.detail()))
}
