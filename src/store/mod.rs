//! The traits of a device and of its stores: sealed records under opaque keys, written in batches that are
//! whole or not at all.
//!
//! The traits are narrow so that the browser's database has a twin in memory, and one conformance suite holds
//! for both. Nothing here knows the meaning of a record. Only `src/storage` lays documents out in records.

mod batch;
#[cfg(any(test, feature = "testing"))]
pub mod conformance;
mod failure;
mod memory;
mod snapshot;

pub use batch::{Batch, Durability};
pub use failure::Failure;
pub use memory::{MemoryDevice, MemoryStore};
pub use snapshot::Snapshot;

pub use crate::model::{RecordKey, Table};

use crate::crypto::Sealed;
use crate::error::Result;

/// Opens and deletes stores: an origin's databases, or a map in memory.
#[allow(async_fn_in_trait)] // single-threaded by design: the browser's types are not Send
pub trait Device {
    /// An open store.
    type Store: Store;

    /// Opens the store of that name. `None` if `create` is false and neither the store nor a header in its
    /// backup exists; then nothing was written. Unless the device is shared, the holder owns the store until
    /// it closes it. On a shared device other sessions may have it open.
    ///
    /// Errors: `store_in_use` while another holder owns it, `store_too_new` if a newer version of the code
    /// wrote it (it is left untouched), `storage_failed`.
    async fn open(&self, name: &str, create: bool) -> Result<Option<Self::Store>>;

    /// Deletes the store of that name, if there is one, and its backup. On a shared device, a session that
    /// has it open then gets `closed`. Errors: `store_in_use`, `storage_failed`.
    async fn delete(&self, name: &str) -> Result<()>;
}

/// The part of a store's backup that an opening reads: everything but the copies of records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackupHeader {
    /// A copy of the header: it opens the high-water mark if the store is gone.
    pub header: Option<Vec<u8>>,
    /// The sealed high-water mark: how far the store had come.
    pub mark: Option<Vec<u8>>,
}

/// How many fences are kept. A leader that slept through this many generations is still stopped.
pub const FENCES_KEPT: u64 = 256;

/// Records read at a time while a snapshot is put together.
const SNAPSHOT_RECORDS: usize = 256;

/// An open store. It belongs to its holder alone, or, on a shared device, several sessions have it open. One
/// of those leads and writes under a generation.
#[allow(async_fn_in_trait)]
pub trait Store {
    /// The header: the one record in clear, which says how K is wrapped. `None` in a new store.
    async fn header(&self) -> Result<Option<Vec<u8>>>;

    /// Reads records by key, in the order of the keys; `None` for a record that does not exist.
    async fn get(&self, table: Table, keys: &[RecordKey]) -> Result<Vec<Option<Vec<u8>>>>;

    /// Reads at most `limit` records of a table, in the order of their keys, beginning after `after`.
    async fn scan(
        &self,
        table: Table,
        after: Option<RecordKey>,
        limit: usize,
    ) -> Result<Vec<(RecordKey, Vec<u8>)>>;

    /// All records that an opening needs, from one point in time. This default is for a store whose holder
    /// owns it: no session writes between the reads, and there are no shared tables.
    async fn snapshot(&self) -> Result<Snapshot> {
        let header = self.header().await?;
        let mut found = Snapshot { header, ..Snapshot::default() };
        for table in Table::ALL.into_iter().filter(|table| table.is_read_whole() && !table.is_shared()) {
            let records = &mut found.records[table];
            loop {
                let after = records.last().map(|(key, _)| *key);
                let read = self.scan(table, after, SNAPSHOT_RECORDS).await?;
                if read.is_empty() {
                    break;
                }
                records.extend(read);
            }
        }
        Ok(found)
    }

    /// The latest generation that has begun. In a store that is new, the latest one that its backup knows. 0
    /// if none has begun, as in every store whose holder owns it.
    async fn generation(&self) -> Result<u64> {
        Ok(0)
    }

    /// Begins the generation after `seen`, in one step. From then on no batch of an earlier generation is
    /// written. Gives the new generation, or `None` if another session began it first. A holder that owns the
    /// store is always first.
    async fn take_over(&self, seen: u64) -> Result<Option<u64>> {
        Ok(Some(seen + 1))
    }

    /// Writes a batch. Resolves once all of it is written; gives an error once it is certain that none of it
    /// will be. Errors: `deposed` if a later generation than the batch's has begun, `storage_full`,
    /// `storage_failed`, `closed`.
    async fn commit(&self, batch: Batch) -> Result<()>;

    /// The header and the high-water mark that batches last wrote to the store's backup, which is kept
    /// separately from the store. The backup may be older than the store. It is newer only if the store was
    /// put back or lost. Once a later generation has made the copies again, an earlier one writes nothing
    /// there, however late it comes.
    async fn backup_header(&self) -> Result<BackupHeader>;

    /// The backup's copy of a table, in any order. The journal is as of the batch that wrote the high-water
    /// mark. The inbox has all requests, and perhaps some that the leader has carried out since. These are the
    /// only stored records that a batch may contain again, so they are typed as sealed.
    async fn copies(&self, table: Table) -> Result<Vec<(RecordKey, Sealed)>>;

    /// The first read of an opening: the generation and the header, from one point in time if the device can.
    /// Also the backup's header and high-water mark, from any time since this handle was made.
    async fn peek(&self) -> Result<(u64, Option<Vec<u8>>, BackupHeader)> {
        Ok((self.generation().await?, self.header().await?, self.backup_header().await?))
    }

    /// Opens records with the device's own cipher, if it has one that is faster than the core's: AES-256-GCM
    /// under `key`, each record with its associated data. A shorter list, or `None` for a record, is no
    /// verdict: the core tries those records itself.
    async fn unseal(&self, _key: &[u8; 32], _records: &[(Vec<u8>, &[u8])]) -> Vec<Option<Vec<u8>>> {
        Vec::new()
    }

    /// Drops the handle in any case, and opens the store again. If the store is gone, it is made again,
    /// empty. The holder owns it all the while. The old handle is never used again, even after an error.
    ///
    /// Errors: `storage_closed`, `storage_failed`, `store_too_new`, `closed`.
    async fn reopen(&self) -> Result<()>;

    /// Closes the store; later calls give `closed`.
    async fn close(&self);
}
