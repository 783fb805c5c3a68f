//! The backup's part of a batch, and the requests that write it.

use crate::model::{Copying, SortedSet};
use js_sys::Uint8Array;
use wasm_bindgen::prelude::*;
use web_sys::{IdbKeyRange, IdbObjectStore, IdbTransaction};

use super::records::to_key;
use crate::crypto::Sealed;
use crate::store::{BackupHeader, Batch, FENCES_KEPT, RecordKey};

/// The object stores: `TABLE` for the header, the high-water mark and the fences, `JOURNAL` and `INBOX` for
/// the copies.
pub(super) const TABLE: &str = "m";
pub(super) const JOURNAL: &str = "j";
pub(super) const INBOX: &str = "i";
pub(super) const HEADER: u32 = 0;
pub(super) const MARK: u32 = 1;

type Thrown<T> = std::result::Result<T, JsValue>;

/// Records by their keys.
pub(super) type Records = Vec<(RecordKey, Vec<u8>)>;

/// The tables of a store that are copied to its backup.
pub(super) struct Copies {
    pub journal: Records,
    pub inbox: Records,
}

/// The backup's part of a batch.
#[derive(Default)]
pub(super) struct Change {
    pub backup_header: BackupHeader,
    /// The copies are made again from the whole store.
    pub recopy: bool,
    generation: Option<u64>,
    deletes: Vec<RecordKey>,
    puts: Records,
    /// Keys of inbox requests that the leader has carried out.
    taken: Vec<RecordKey>,
    /// Requests that are in the store's inbox, if the copies are made again.
    requests: Records,
}

impl Change {
    /// Takes the backup's part out of a batch.
    pub fn of(batch: Batch) -> Self {
        let mut change = Change {
            backup_header: BackupHeader { header: batch.header, mark: batch.mark.map(Sealed::into_bytes) },
            recopy: batch.recopy || batch.clear,
            generation: batch.generation,
            ..Change::default()
        };
        for (table, key, sealed) in batch.puts {
            if table.copying() == Copying::WithMark {
                change.puts.push((key, sealed.into_bytes()));
            }
        }
        for (table, key) in batch.deletes {
            match table.copying() {
                Copying::WithMark => change.deletes.push(key),
                Copying::HandedIn => change.taken.push(key),
                Copying::Never => {}
            }
        }
        change
    }

    pub fn is_empty(&self) -> bool {
        self.backup_header == BackupHeader::default()
    }

    /// Makes the copies again. A request that is in the backup but not in the store stays: its tab may still
    /// be writing it to the store.
    pub fn replace_by(&mut self, copies: Copies) {
        self.recopy = true;
        (self.puts, self.requests, self.deletes) = (copies.journal, copies.inbox, Vec::new());
    }

    /// The object stores that the change concerns.
    pub fn tables(&self) -> Vec<&'static str> {
        let is_journal = self.recopy || !self.puts.is_empty() || !self.deletes.is_empty();
        let is_inbox = !self.taken.is_empty() || !self.requests.is_empty();
        let tables = [(TABLE, true), (JOURNAL, is_journal), (INBOX, is_inbox)];
        tables.into_iter().filter(|(_, concerns)| *concerns).map(|(table, _)| table).collect()
    }

    /// Makes the requests. The transaction fails with `ConstraintError` if a later generation has written the
    /// backup.
    pub fn request(&self, transaction: &IdbTransaction) -> Thrown<()> {
        let tables = self.tables();
        let table = transaction.object_store(TABLE)?;
        if let Some(generation) = self.generation {
            guard(&table, generation, self.recopy)?;
        }
        for (key, bytes) in [(HEADER, &self.backup_header.header), (MARK, &self.backup_header.mark)] {
            if let Some(bytes) = bytes {
                table.put_with_key(&Uint8Array::from(bytes.as_slice()), &key.into())?;
            }
        }
        if tables.contains(&JOURNAL) {
            let table = transaction.object_store(JOURNAL)?;
            if self.recopy {
                table.clear()?;
            }
            let written: SortedSet<&RecordKey> = self.puts.iter().map(|(key, _)| key).collect();
            for key in self.deletes.iter().filter(|key| !written.contains(key)) {
                table.delete(&to_key(key))?;
            }
            put_all(&table, &self.puts)?;
        }
        if tables.contains(&INBOX) {
            let table = transaction.object_store(INBOX)?;
            for key in &self.taken {
                table.delete(&to_key(key))?;
            }
            put_all(&table, &self.requests)?;
        }
        Ok(())
    }
}

pub(super) fn put_all(table: &IdbObjectStore, records: &Records) -> Thrown<()> {
    for (key, bytes) in records {
        table.put_with_key(&Uint8Array::from(bytes.as_slice()), &to_key(key))?;
    }
    Ok(())
}

/// The key of a generation's fence, above the high-water mark's key.
fn fence_key(generation: u64) -> JsValue {
    JsValue::from(f64::from(MARK) + generation as f64)
}

pub(super) fn fences() -> Thrown<IdbKeyRange> {
    IdbKeyRange::bound_with_lower_open(&MARK.into(), &JsValue::from(f64::INFINITY), true)
}

/// The generation of a fence.
pub(super) fn generation_of(key: &JsValue) -> u64 {
    (key.as_f64().unwrap_or_default() - f64::from(MARK)).max(0.0) as u64
}

/// Makes the transaction fail if a later generation has written the backup, and leaves the fence of this one.
/// A leader that makes the copies again also sets the fences of earlier generations. Some of those may never
/// have written here, and without their fences they still could.
fn guard(table: &IdbObjectStore, generation: u64, sets_all: bool) -> Thrown<()> {
    let (next, fence) = (fence_key(generation + 1), Uint8Array::new_with_length(0));
    table.add_with_key(&fence, &next)?;
    table.delete(&next)?;
    let first = generation.saturating_sub(if sets_all { FENCES_KEPT - 1 } else { 0 }).max(1);
    if sets_all && generation > 0 {
        let earlier = IdbKeyRange::bound_with_lower_open(&MARK.into(), &fence_key(generation), true)?;
        table.delete(&earlier)?;
    }
    for earlier in first..=generation {
        table.put_with_key(&fence, &fence_key(earlier))?;
    }
    Ok(())
}
