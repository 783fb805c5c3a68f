//! The effects of operations on documents, written from the protocol alone: for the model of the server, and
//! for the checks of the application's view.

use escale::Code;
use escale::model::{Pk, Value};

use super::schema::{Key, Map, name, with};

/// A text argument; empty if there is none.
pub fn text<'a>(args: &'a Value, name: &str) -> &'a str {
    args.as_map().and_then(|map| map.get(name)).and_then(Value::as_str).unwrap_or_default()
}

/// The document that the arguments name by its key.
pub fn key_of(args: &Value) -> Key {
    let class = name(text(args, "class"));
    let parts: Vec<&str> = match args.as_map().expect("arguments").get("key") {
        Some(key) => key.as_array().expect("a key").iter().map(|part| part.as_str().expect("text")).collect(),
        None => {
            let data = args.as_map().expect("arguments")["data"].as_map().expect("data");
            return with(|schema| {
                let class = schema.class(class.as_str()).expect("a class");
                (class.name().clone(), class.columns(data).expect("a key").pk)
            });
        }
    };
    (class, Pk::from_key(&parts).expect("a key"))
}

/// The document after an operation, for the operations of this schema; `Err` if the operation is impossible.
pub fn outcome(op: &str, args: &Value, before: Option<Map>) -> Result<Option<Map>, Code> {
    let map = args.as_map().expect("arguments");
    match op {
        "doc.put" => Ok(Some(map["data"].as_map().expect("data").clone())),
        "doc.delete" => before.ok_or(Code::NotFound).map(|_| None),
        "doc.patch" => {
            let mut state = before.ok_or(Code::NotFound)?;
            for name in map.get("unset").and_then(Value::as_array).into_iter().flatten() {
                state.remove(name.as_str().expect("a name"));
            }
            state.extend(map["set"].as_map().expect("set").clone());
            Ok(Some(state))
        }
        "add" | "blind" => {
            let mut state = before.ok_or(Code::NotFound)?;
            let property = text(args, "property").to_owned();
            let now = state.get(&property).and_then(Value::as_f64).unwrap_or(0.0) as i64;
            state.insert(property, Value::from(now + map["by"].as_f64().expect("a number") as i64));
            Ok(Some(state))
        }
        _ => Err(Code::UnknownOperation),
    }
}
