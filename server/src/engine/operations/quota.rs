//! The operations on quotas (R88): `quota.get` for everybody, and `quota.set` for administrators.
// A fault is as large as the information that the session needs. Refusals are rare.
#![allow(clippy::result_large_err)]

use escale::codec::Fault;
use escale::model::Value;
use escale::{Code, Error, Result};

use crate::engine::caller::NO_READS;
use crate::engine::records::counter::{Counter, OF_ORG};
use crate::engine::tx::operation::OperationTx;
use crate::engine::tx::outcome::{Ran, working};

impl OperationTx<'_> {
    /// The counter of that name, or the org's for an empty name.
    pub fn quota(&mut self, of: &str) -> std::result::Result<Counter, Fault> {
        self.write.counter(of).map_err(working)
    }

    /// Sets the limits of a counter; none takes a limit away. A limit below the present count refuses further growth only.
    pub fn set_quota(
        &mut self,
        of: &str,
        documents_max: Option<u64>,
        bytes_max: Option<u64>,
    ) -> std::result::Result<(), Fault> {
        let counter = self.write.counter(of).map_err(working)?;
        let counter = Counter { documents_max, bytes_max, ..counter };
        self.write.counters.held.insert(of.to_owned(), (counter, true));
        Ok(())
    }
}

/// The built-in operation `quota.get { of? }`: a counter and its limits, for those who may read all that it counts of a class,
/// and for administrators. Everybody may read the org's. Others get no value: a refusal would be parked in the session.
pub(in crate::engine) fn quota_get(tx: &mut OperationTx<'_>, args: &Value) -> Ran {
    let of = name_of(args, &["of"]).map_err(working)?;
    let is_open = of == OF_ORG || tx.is_admin() || tx.write.may_read_counted(of).map_err(working)?;
    if tx.write.level >= NO_READS || !is_open {
        return Ok(None);
    }
    let counter = tx.quota(of)?;
    // The limit is for all bytes, so one number tells how much room is left.
    let counter = Counter { bytes: counter.all_bytes(), ..counter };
    Ok(Some(Value::Map(counter.shown())))
}

/// The name of a counter in arguments of these names.
fn name_of<'a>(args: &'a Value, names: &[&str]) -> Result<&'a str> {
    let bad = |what: &str| Error::new(Code::BadValue, what);
    let map = args.as_map().ok_or_else(|| bad("the arguments must be a map"))?;
    if let Some(name) = map.keys().find(|name| !names.contains(&name.as_str())) {
        return Err(bad(&format!("there is no argument {name}")));
    }
    match map.get("of") {
        None | Some(Value::Null) => Ok(OF_ORG),
        Some(Value::String(of)) if !of.is_empty() => Ok(of),
        Some(_) => Err(bad("`of` is the value that documents are counted by")),
    }
}

/// The built-in operation `quota.set { of?, documents?, bytes? }`, for administrators.
pub(in crate::engine) fn quota_set(tx: &mut OperationTx<'_>, args: &Value) -> Ran {
    let bad = |what: &str| working(Error::new(Code::BadValue, what));
    if !tx.is_admin() {
        return Err(working(Error::new(Code::Forbidden, "only an administrator of the org sets quotas")));
    }
    let of = name_of(args, &["of", "documents", "bytes"]).map_err(working)?;
    let map = args.as_map().ok_or_else(|| bad("the arguments must be a map"))?;
    let before = tx.quota(of)?;
    let is_counted = tx.write.instance.rights.quotas().next().is_some();
    let counts = |name: &str| map.get(name).is_some_and(|limit| *limit != Value::Null);
    if !is_counted && (counts("documents") || (of != OF_ORG && counts("bytes"))) {
        return Err(bad(
            "no class of the schema counts its documents, as by quota: { by: property }: the limit would never hold",
        ));
    }
    let limit = |name: &str, before: Option<u64>| match map.get(name) {
        None => Ok(before),
        Some(Value::Null) => Ok(None),
        Some(value) => value.as_u64().map(Some).ok_or_else(|| bad("a limit is an integer from 0, or null")),
    };
    tx.set_quota(of, limit("documents", before.documents_max)?, limit("bytes", before.bytes_max)?)?;
    Ok(None)
}
