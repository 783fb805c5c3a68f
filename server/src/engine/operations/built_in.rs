//! The built-in operations: `doc.put`, `doc.patch`, `doc.delete`, `batch` (docs/protocol.md).
// A fault is as large as the information that the session needs. Refusals are rare.
#![allow(clippy::result_large_err)]

use escale::codec::{Fault, Format, Row, encode};
use escale::limits::{DOCUMENT_BYTES_MAX, OPS_MAX};
use escale::model::schema::Class;
use escale::model::{Pk, Value, Version};
use escale::{Code, Error, Result};

use crate::engine::operations::administer::{set_account, set_org};
use crate::engine::operations::order::past_operation::{PastOperation, past_operation};
use crate::engine::operations::quota::{quota_get, quota_set};
use crate::engine::operations::registry::Operations;
use crate::engine::operations::result::read_result;
use crate::engine::records::record::Properties;
use crate::engine::tx::operation::OperationTx;
use crate::engine::tx::outcome::{Ran, WORKING, key_map, working};
use crate::engine::tx::trees::{given_in, tree_of_key};
use crate::engine::tx::write_tx::WriteTx;
use crate::rights::Right;

/// Their names.
pub(in crate::engine) const NAMES: [&str; 8] =
    ["doc.put", "doc.patch", "doc.delete", "batch", "quota.set", "quota.get", "account.set", "org.set"];

/// The version that a document must have.
enum IfVersion<'a> {
    /// This version; 0 if there must be no living document.
    At(Version),
    /// No version above the one that this earlier operation gave: nobody has written to the document since.
    Of(&'a str),
}

/// Runs a built-in operation on one document, or one for administrators.
pub(in crate::engine) fn run(tx: &mut OperationTx<'_>, name: &str, args: &Value) -> Ran {
    match name {
        "quota.set" => {
            tx.write.check_level(None)?;
            return quota_set(tx, args);
        }
        "quota.get" => return quota_get(tx, args),
        // The org's own schedule does not restrict these two: nobody could end it.
        "account.set" => return set_account(tx, args),
        "org.set" => return set_org(tx, args),
        _ => {}
    }
    let class = tx.class(text(args, "class").map_err(working)?)?;
    tx.write.check_level(Some(class))?;
    let wanted = if_version(args).map_err(working)?;
    match name {
        "doc.put" => {
            let data = map(args, "data").map_err(working)?;
            let pk = class.columns(data).map_err(working)?.pk;
            if tx.decides(class) {
                let before = living(&mut tx.write, class, &pk)?;
                tx.check_change(class, before.as_ref(), Some(data))?;
            }
            check_version(&mut tx.write, class, (&pk, data), wanted)?;
            // Checked before it is copied: a small message can be large in memory.
            check_size(data).map_err(working)?;
            tx.put(class.name().as_str(), data.clone())?;
        }
        "doc.patch" => {
            let (pk, key) = key(class, args).map_err(working)?;
            let (set, unset) = (map(args, "set").map_err(working)?, names(args, "unset").map_err(working)?);
            check_key_kept(&key, set, &unset).map_err(working)?;
            let patched = |mut document: Properties| {
                for name in &unset {
                    document.remove(*name);
                }
                document.extend(set.iter().map(|(name, value)| (name.clone(), value.clone())));
                document
            };
            if tx.decides(class) {
                match living(&mut tx.write, class, &pk)? {
                    Some(before) => {
                        let after = patched(before.clone());
                        tx.check_change(class, Some(&before), Some(&after))?;
                    }
                    None => tx.write.check_absent((class, Right::Update), (&pk, &key))?,
                }
            }
            check_version(&mut tx.write, class, (&pk, &key), wanted)?;
            let document = patched(living(&mut tx.write, class, &pk)?.ok_or_else(|| not_found(class))?);
            tx.put(class.name().as_str(), document)?;
        }
        "doc.delete" => {
            let (pk, key) = key(class, args).map_err(working)?;
            if tx.decides(class) {
                match living(&mut tx.write, class, &pk)? {
                    Some(before) => tx.check_change(class, Some(&before), None)?,
                    None => tx.write.check_absent((class, Right::Delete), (&pk, &key))?,
                }
            }
            check_version(&mut tx.write, class, (&pk, &key), wanted)?;
            tx.write.delete(class.name().as_str(), &key).map_err(working)?;
        }
        _ => {
            return Err(working(Error::new(
                Code::UnknownOperation,
                format!("no operation is called {name}"),
            )));
        }
    }
    Ok(None)
}

/// Runs a list of operations, all or none.
pub(in crate::engine) fn batch(operations: &Operations, tx: &mut OperationTx<'_>, args: &Value) -> Ran {
    let bad = |what: &str| working(Error::new(Code::BadValue, what));
    let ops = field(args, "ops").map_err(working)?;
    let ops = ops.as_array().ok_or_else(|| bad("`ops` must be a list of operations"))?;
    if ops.len() > OPS_MAX {
        let detail = format!("{} operations in a batch, {OPS_MAX} at most", ops.len());
        return Err(working(Error::new(Code::TooLarge, detail)));
    }
    for (index, op) in ops.iter().enumerate() {
        tx.write.check_time().map_err(working)?;
        let ran = text(op, "name").and_then(|name| Ok((name, field(op, "args")?))).map_err(working);
        let ran = ran.and_then(|(name, args)| match name {
            "batch" => Err(bad("a batch in a batch")),
            _ => operations.run(tx, name, args),
        });
        ran.map_err(|fault| {
            let message = format!("operation {index} of the batch: {}", fault.message);
            Fault { message, ..fault }
        })?;
    }
    Ok(None)
}

/// Refuses the operation if the document has another version than the one wanted. The fault carries the
/// current document.
fn check_version(
    write: &mut WriteTx<'_>,
    class: &Class,
    (pk, key): (&Pk, &Properties),
    wanted: Option<IfVersion>,
) -> std::result::Result<(), Fault> {
    let (wanted, may_be_older) = match wanted {
        None => return Ok(()),
        Some(IfVersion::At(v)) => (Some(v), false),
        Some(IfVersion::Of(id)) => (version_of(write, (class, key), id)?, true),
    };
    let row = write.row(class, pk).map_err(working)?;
    // Without a number, nothing shows whether somebody wrote the document since.
    let Some(wanted) = wanted else { return Err(conflict(write, class, row, key)) };
    // The operation may have changed other documents and not this one, which then is older. But a document
    // that does not exist has no version at all: nothing shows whether somebody deleted it since.
    let is_older = may_be_older && (1..wanted).contains(&row.v);
    if row.v == wanted || is_older || (wanted == 0 && row.deleted) {
        return Ok(());
    }
    Err(conflict(write, class, row, key))
}

/// The fault carries the document only if the caller may read it (R86), or that there is none if it may know that (R100).
fn conflict(write: &mut WriteTx<'_>, class: &Class, row: Row, key: &Properties) -> Fault {
    let is_readable = match &row.data {
        None => write.may_know((class, Right::Read), (&row.pk, key)),
        Some(data) => data.to_map().and_then(|map| write.has_right((class, Right::Read), &map)),
    };
    write.notes.met = Some((class.name().as_str().into(), row.pk.as_str().into()));
    let what = format!("the document of class {} is of another version", class.name());
    match is_readable {
        Ok(is_readable) => {
            let doc = is_readable.then_some(row);
            Fault { phase: WORKING, doc, ..Fault::new(Code::VersionConflict, what) }
        }
        Err(error) => working(error),
    }
}

/// The properties of the living document of that pk.
fn living(write: &mut WriteTx<'_>, class: &Class, pk: &Pk) -> std::result::Result<Option<Properties>, Fault> {
    let found = write.get(class.name().as_str(), pk.as_str()).map_err(working)?;
    Ok(found.map(|(_, map)| map))
}

/// The version that an earlier operation gave to the documents of that class, in that tree if the class has the clock
/// `sequence`. None if the operation wrote nothing in the tree. Errors: `order_held` if it was refused, or if its numbers
/// are not known any more.
fn version_of(
    write: &WriteTx<'_>,
    (class, key): (&Class, &Properties),
    id: &str,
) -> std::result::Result<Option<Version>, Fault> {
    let held =
        || Fault::new(Code::OrderHeld, "the operation that `ifVersion` names was refused, or is not known");
    let of = (write.org(), write.caller.account.as_str());
    let past = past_operation(write.tx.snapshot(), of.0, of.1, id).map_err(working)?.ok_or_else(held)?;
    let v = past.v().ok_or_else(held)?;
    if !class.is_sequence() {
        return Ok(Some(v));
    }
    let PastOperation::Kept(operation) = &past else { return Err(held()) };
    let result = read_result(&write.instance.seal, of, operation).map_err(working)?;
    let tree = tree_of_key(write.schema(), class, key).map_err(working)?;
    Ok(result.ok.and_then(|ok| given_in(&ok, &tree)))
}

fn check_key_kept(key: &Properties, set: &Properties, unset: &[&str]) -> Result<()> {
    for (name, part) in key {
        if set.get(name).is_some_and(|value| value != part) || unset.contains(&name.as_str()) {
            return Err(Error::new(Code::KeyMismatch, format!("key property {name} cannot change")));
        }
    }
    Ok(())
}

fn check_size(data: &Properties) -> Result<()> {
    let bytes = encode(Format::Msgpack, data)?.len();
    if bytes <= DOCUMENT_BYTES_MAX {
        return Ok(());
    }
    Err(Error::new(Code::TooLarge, format!("a document of {bytes} bytes, {DOCUMENT_BYTES_MAX} at most")))
}

fn not_found(class: &Class) -> Fault {
    working(Error::new(Code::NotFound, format!("no such document of class {}", class.name())))
}

fn field<'a>(args: &'a Value, name: &str) -> Result<&'a Value> {
    let found = args.as_map().and_then(|map| map.get(name));
    found.ok_or_else(|| Error::new(Code::BadValue, format!("argument `{name}` is missing")))
}

fn text<'a>(args: &'a Value, name: &str) -> Result<&'a str> {
    field(args, name)?
        .as_str()
        .ok_or_else(|| Error::new(Code::BadValue, format!("`{name}` must be a string")))
}

fn map<'a>(args: &'a Value, name: &str) -> Result<&'a Properties> {
    field(args, name)?.as_map().ok_or_else(|| Error::new(Code::BadValue, format!("`{name}` must be a map")))
}

fn names<'a>(args: &'a Value, name: &str) -> Result<Vec<&'a str>> {
    match args.as_map().and_then(|map| map.get(name)) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(value) => {
            let texts = value.as_array().and_then(|items| items.iter().map(Value::as_str).collect());
            texts.ok_or_else(|| Error::new(Code::BadValue, format!("`{name}` must be a list of names")))
        }
    }
}

fn key(class: &Class, args: &Value) -> Result<(Pk, Properties)> {
    let parts = field(args, "key")?.as_array().and_then(|items| items.iter().map(Value::as_str).collect());
    let parts: Vec<&str> = parts
        .ok_or_else(|| Error::new(Code::BadKey, "`key` is a list of strings, one for each key property"))?;
    key_map(class, &parts)
}

fn if_version(args: &Value) -> Result<Option<IfVersion<'_>>> {
    let wrong = || Error::new(Code::BadValue, "`ifVersion` is a version or { op: id }");
    match args.as_map().and_then(|map| map.get("ifVersion")) {
        None | Some(Value::Null) => Ok(None),
        Some(value @ Value::Map(_)) => {
            let id = field(value, "op").ok().and_then(Value::as_str).ok_or_else(wrong)?;
            Ok(Some(IfVersion::Of(id)))
        }
        Some(value) => value.as_u64().map(|v| Some(IfVersion::At(v))).ok_or_else(wrong),
    }
}
