//! The part of a store that several tabs share: generations, the inbox, and reads that need one consistent
//! state.
//!
//! A generation is a *fence*: a record of no bytes in the header's table, under the generation's number. A
//! leader begins a generation with `add`, which fails if another tab was first. Each batch of a leader adds
//! the fence of the next generation and deletes it again. If that generation has begun, the `add` fails and
//! aborts the whole transaction. No script runs in between, so a tab that freezes at any time leaves no
//! transaction open (`ending.rs`).

use js_sys::{Array, Uint8Array};
use wasm_bindgen::prelude::*;
use web_sys::{IdbKeyRange, IdbRequest, IdbTransaction};

use super::ending::end_writing;
use super::failure;
use super::records::{HEADER_TABLE, from_key, from_value, header_key, range_after, record_of, to_key};
use super::store::{IdbStore, READING, WRITING};
use crate::error::{Code, Result};
use crate::store::{Durability, FENCES_KEPT, RecordKey, Snapshot, Store, Table};
use crate::web::platform::patience::SILENT_MS;
use crate::web::platform::promise::Deferred;

/// Keys listed in one transaction: few enough for Chromium to deliver them in one piece.
const KEYS_AT_ONCE: u32 = 100;

/// How long the device may be silent while it reads a whole store. A slow one needs its time for a large store, and a device
/// that never answers was found silent before.
const READ_WHOLE_MS: u64 = 6 * SILENT_MS;

type Thrown<T> = std::result::Result<T, JsValue>;

/// The key of a generation's fence. Generations begin at 1; the header has key 0.
fn fence_key(generation: u64) -> JsValue {
    JsValue::from(generation as f64)
}

/// All fences and nothing else: the numbers above the header's.
fn fences() -> Thrown<IdbKeyRange> {
    IdbKeyRange::bound_with_lower_open(&header_key(), &JsValue::from(f64::INFINITY), true)
}

/// Makes the transaction fail if a later generation than that has begun. `is_cleared` says that the database was
/// emptied and is written again: then the writer's own fence is set again.
pub(super) fn guard(transaction: &IdbTransaction, generation: u64, is_cleared: bool) -> Thrown<()> {
    let table = transaction.object_store(HEADER_TABLE)?;
    let (next, fence) = (fence_key(generation + 1), Uint8Array::new_with_length(0));
    table.add_with_key(&fence, &next)?;
    table.delete(&next)?;
    if is_cleared && generation > 0 {
        table.put_with_key(&fence, &fence_key(generation))?;
    }
    Ok(())
}

impl IdbStore {
    /// The generation that this handle began last; 0 if it began none.
    pub fn begun(&self) -> u64 {
        self.begun.get()
    }

    /// The last generation and the header, read in one transaction.
    pub(super) async fn look_first(&self) -> Result<(u64, Option<Vec<u8>>)> {
        let make = |table: &web_sys::IdbObjectStore| {
            Ok(vec![table.get_all_keys_with_key(&fences()?.into())?, table.get(&header_key())?])
        };
        let found = self.read(HEADER_TABLE, true, make).await?;
        let header = found.get(1).and_then(record_of);
        Ok((self.or_backup(last_of(found.first())).await?, header))
    }

    /// A store that is restored from its backup also continues the backup's generations: a tab that led
    /// before the database was lost must not lead again.
    async fn or_backup(&self, generation: u64) -> Result<u64> {
        Ok(if generation == 0 { self.backup.generation().await } else { generation })
    }

    /// As [`Store::take_over`], and reads these state records in the same transaction. They are the state in
    /// which the generation began.
    pub async fn take_over_peeking(
        &self,
        seen: u64,
        keys: &[RecordKey],
    ) -> Result<Option<(u64, Vec<Option<Vec<u8>>>)>> {
        let failed = |exception: &JsValue| failure::of_exception(WRITING, exception);
        self.learn().await;
        let tables = [HEADER_TABLE, Table::State.name()];
        let tables = if keys.is_empty() { &tables[..1] } else { &tables };
        let transaction = self.begin(tables, "readwrite", Durability::Relaxed)?;
        let next = seen + 1;
        let request = || -> Thrown<Vec<IdbRequest>> {
            let table = transaction.object_store(HEADER_TABLE)?;
            table.add_with_key(&Uint8Array::new_with_length(0), &fence_key(next))?;
            if let Some(old) = next.checked_sub(FENCES_KEPT).filter(|old| *old > 0) {
                table.delete(&fence_key(old))?;
            }
            if keys.is_empty() {
                return Ok(Vec::new());
            }
            let state = transaction.object_store(Table::State.name())?;
            keys.iter().map(|key| state.get(&to_key(key))).collect()
        };
        let requests = match request() {
            Ok(requests) => requests,
            Err(exception) => {
                let _ = transaction.abort();
                return Err(failed(&exception));
            }
        };
        let settled = Deferred::new();
        transaction.set_oncomplete(Some(&settled.resolve));
        transaction.set_onerror(Some(&settled.reject));
        transaction.set_onabort(Some(&settled.reject));
        // Chromium reads large records later: it may report the end of the transaction before the records.
        let last_read = requests.last().map(|last| {
            let read = Deferred::new();
            last.set_onsuccess(Some(&read.resolve));
            last.set_onerror(Some(&read.reject));
            read
        });
        end_writing(&transaction);
        let mut over = self.over(SILENT_MS, settled).await;
        if let (Ok(_), Some(read)) = (&over, last_read) {
            over = self.over(SILENT_MS, read).await;
        }
        match over {
            Ok(_) => {
                self.begun.set(next);
                let found: Thrown<Vec<JsValue>> = requests.iter().map(IdbRequest::result).collect();
                Ok(Some((next, found.map_err(|e| failed(&e))?.iter().map(record_of).collect())))
            }
            Err(event) => match failure::of_transaction(WRITING, &transaction, &event) {
                error if error.code() == Code::Deposed => Ok(None),
                error => Err(self.failed(error)),
            },
        }
    }

    /// All requests of the inbox. One that arrives during the read may be missing; the tab that writes it
    /// announces it afterwards. The keys are listed first, then the records are read, some at a time. Each
    /// transaction ends without the help of the page. So a leader that is frozen in the middle keeps no tab
    /// from writing its requests.
    pub async fn inbox(&self) -> Result<Vec<(RecordKey, Vec<u8>)>> {
        let mut found = Vec::new();
        let mut after: Option<JsValue> = None;
        loop {
            let make = |table: &web_sys::IdbObjectStore| {
                let range = range_after(after.as_ref())?;
                Ok(vec![table.get_all_keys_with_key_and_limit(&range, KEYS_AT_ONCE)?])
            };
            let listed = self.read(Table::Inbox.name(), true, make).await?;
            let listed = listed.first().map(Array::from).unwrap_or_default();
            let keys: Vec<RecordKey> = listed.iter().filter_map(|key| from_key(&key)).collect();
            let records = self.get(Table::Inbox, &keys).await?;
            found.extend(keys.into_iter().zip(records).filter_map(|(key, record)| Some((key, record?))));
            if listed.length() < KEYS_AT_ONCE {
                return Ok(found);
            }
            after = Some(listed.get(listed.length() - 1));
        }
    }

    pub(super) async fn read_whole(&self) -> Result<Snapshot> {
        let failed = |exception: &JsValue| failure::of_exception(READING, exception);
        let tables = || Table::ALL.into_iter().filter(|table| table.is_read_whole());
        let names: Vec<&str> = [HEADER_TABLE].into_iter().chain(tables().map(Table::name)).collect();
        let transaction = self.begin(&names, "readonly", Durability::Relaxed)?;
        let make = || -> Thrown<Vec<IdbRequest>> {
            let header = transaction.object_store(HEADER_TABLE)?;
            let mut requests =
                vec![header.get(&header_key())?, header.get_all_keys_with_key(&fences()?.into())?];
            for table in tables() {
                let (table, range) = (transaction.object_store(table.name())?, range_after(None)?);
                requests.push(table.get_all_keys_with_key(&range.clone().into())?);
                requests.push(table.get_all_with_key(&range.into())?);
            }
            Ok(requests)
        };
        let requests = make().map_err(|e| failed(&e))?;
        let done = Deferred::new();
        transaction.set_oncomplete(Some(&done.resolve));
        transaction.set_onerror(Some(&done.reject));
        transaction.set_onabort(Some(&done.reject));
        if let Err(event) = self.over(READ_WHOLE_MS, done).await {
            return Err(self.failed(failure::of_transaction(READING, &transaction, &event)));
        }
        let results: Thrown<Vec<JsValue>> = requests.iter().map(IdbRequest::result).collect();
        let results = results.map_err(|e| failed(&e))?;
        let mut found = Snapshot {
            header: record_of(&results[0]),
            generation: self.or_backup(last_of(results.get(1))).await?,
            ..Snapshot::default()
        };
        for (table, results) in tables().zip(results[2..].chunks(2)) {
            let (keys, values) = (Array::from(&results[0]), Array::from(&results[1]));
            let all = keys.iter().zip(values.iter());
            let all = all.filter_map(|(key, value)| Some((from_key(&key)?, from_value(&value))));
            found.records[table] = all.collect();
        }
        Ok(found)
    }
}

/// The last of the fences' keys, which IndexedDB gives in ascending order.
fn last_of(keys: Option<&JsValue>) -> u64 {
    keys.map(Array::from).and_then(|keys| keys.pop().as_f64()).unwrap_or(0.0) as u64
}
