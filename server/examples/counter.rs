//! A server with an application-defined operation: `counter.add`, which adds to a number that many devices
//! change at once.
//!
//! Run it like `escale-server` itself, with the schema next to it:
//!
//! ```text
//! cargo run -p escale-server --example counter -- serve --schema server/examples/counter.schema.json --data /tmp/c
//! ```
//!
//! A session then calls `session.run("counter.add", { key: ["visits"], by: 1 })`. With `doc.patch`, two
//! devices that each read 5 would both write 6. Here the server adds to its own number, once for each
//! operation.
// A fault is as large as the information that the session needs. Refusals are rare.
#![allow(clippy::result_large_err)]

use std::process::ExitCode;

use escale::Code;
use escale::codec::Fault;
use escale::model::{Number, Value};
use escale_server::engine::{OperationTx, Ran};

fn main() -> ExitCode {
    match escale_server::cli::run_with(|engine| engine.operation("counter.add", add)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("counter: {error}\n  {}", error.code().cure());
            ExitCode::FAILURE
        }
    }
}

/// Adds `by` to `n` of the counter with this `key`, which begins at 0, and returns the new number.
pub fn add(tx: &mut OperationTx<'_>, args: &Value) -> Ran {
    let bad = |message: &str| Fault::new(Code::BadValue, message);
    let args = args.as_map().ok_or_else(|| bad("{ key, by } expected"))?;
    let key = args.get("key").and_then(Value::as_array).ok_or_else(|| bad("`key` must be a list"))?;
    let key: Vec<&str> =
        key.iter().map(Value::as_str).collect::<Option<_>>().ok_or_else(|| bad("`key` must hold strings"))?;
    let Some(Value::Number(Number::Int(by))) = args.get("by") else {
        return Err(bad("`by` must be an integer"));
    };
    let mut counter = tx.get("Counter", &key)?.unwrap_or_default();
    let n = match counter.get("n") {
        Some(Value::Number(Number::Int(n))) => *n,
        _ => 0,
    };
    // Both are exact integers, far from where an i64 ends; their sum must be exact too.
    let sum = Value::from(n + by);
    if !matches!(sum, Value::Number(Number::Int(_))) {
        return Err(bad("the counter would be beyond what a number holds exactly"));
    }
    counter.insert("id".into(), Value::from(*key.first().ok_or_else(|| bad("`key` is empty"))?));
    counter.insert("n".into(), sum.clone());
    tx.put("Counter", counter)?;
    Ok(Some(sum))
}
