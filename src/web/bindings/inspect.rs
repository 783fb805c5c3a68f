//! The data that inspectors show: the collections in memory, and the sealed records on the device.

use std::collections::BTreeMap;
use std::fmt::Write;

use js_sys::{Object, Reflect, Uint8Array};
use serde::Serialize;
use wasm_bindgen::prelude::*;

use super::core::{Inner, array_of, to_js};
use super::error::thrown;
use crate::memory::tree::asked_v;
use crate::model::order;
use crate::store::{Store, Table};

/// Records read at a time.
const SCAN_RECORDS: usize = 64;

#[derive(Serialize)]
struct MemoryJson {
    documents: usize,
    collections: Vec<CollectionJson>,
}

#[derive(Serialize)]
struct CollectionJson {
    def: String,
    v: u64,
    size: usize,
    ready: bool,
}

pub(super) fn in_memory(inner: &Inner) -> Result<JsValue, JsValue> {
    let json = inner.driver.with(|machine| {
        let memory = machine.memory();
        let mut collections: Vec<CollectionJson> = memory
            .collections()
            .map(|(def, c)| CollectionJson {
                def: def.to_string(),
                v: asked_v(memory, def),
                size: c.set.len(),
                ready: c.ready,
            })
            .collect();
        order::sort_by(&mut collections, |a, b| a.def.cmp(&b.def));
        MemoryJson { documents: memory.documents().count(), collections }
    });
    to_js(&json.map_err(thrown)?)
}

/// Counts every record, and gives `limit` of them whole, spread over the tables.
pub(super) async fn at_rest(inner: &Inner, limit: usize) -> Result<JsValue, JsValue> {
    inner.driver.with(|_| ()).map_err(thrown)?;
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    let mut records = Vec::new();
    let mut total = 0_u64;
    let name = inner.device.as_ref().map_or("", |device| device.name.as_str());
    if let Some(device) = &inner.device {
        // Requests in the inbox are on their way: they are in the other tables soon.
        for table in Table::ALL.into_iter().filter(|table| !table.is_shared()) {
            let mut after = None;
            let mut shown = 0;
            loop {
                let found = device.store.scan(table, after, SCAN_RECORDS).await.map_err(thrown)?;
                let Some((last, _)) = found.last() else { break };
                after = Some(*last);
                for (key, bytes) in found {
                    *counts.entry(table.name()).or_default() += 1;
                    total += bytes.len() as u64;
                    if shown < limit.div_ceil(2) && records.len() < limit {
                        shown += 1;
                        records.push(record(table, &key.0, &bytes)?);
                    }
                }
            }
        }
    }
    let object = Object::new();
    Reflect::set(&object, &"name".into(), &name.into())?;
    Reflect::set(&object, &"records".into(), &array_of(records))?;
    Reflect::set(&object, &"counts".into(), &to_js(&counts)?)?;
    Reflect::set(&object, &"bytes".into(), &(total as f64).into())?;
    Ok(object.into())
}

fn record(table: Table, key: &[u8], bytes: &[u8]) -> Result<JsValue, JsValue> {
    let mut hex = String::with_capacity(key.len() * 2);
    for byte in key {
        let _ = write!(hex, "{byte:02x}");
    }
    let object = Object::new();
    Reflect::set(&object, &"table".into(), &table.name().into())?;
    Reflect::set(&object, &"key".into(), &hex.into())?;
    Reflect::set(&object, &"bytes".into(), &Uint8Array::from(bytes))?;
    Ok(object.into())
}
