//! What a device keeps: sealed records under opaque keys, written by batches that are whole or not at all.
//!
//! The trait is narrow so that the browser's database has a twin in memory, and one conformance suite holds for
//! both. Nothing here knows what a record means; `rest` lays documents out in records and is the only one to do so.

mod batch;
#[cfg(any(test, feature = "testing"))]
pub mod conformance;
mod failure;
mod memory;

pub use batch::{Batch, Durability, RecordKey, Table};
pub use failure::Failure;
pub use memory::{MemoryDevice, MemoryStore};

use crate::error::Result;

/// Where stores live: an origin's databases, or a map in memory.
#[allow(async_fn_in_trait)] // single-threaded by design: the browser's types are not Send
pub trait Device {
    /// An open store.
    type Store: Store;

    /// Opens the store of that name and owns it until it is closed; `None` where there is none and `create` is
    /// false, in which case nothing was written.
    ///
    /// Errors: `store_in_use` while another holder owns it, `store_too_new` where a newer version of the code
    /// wrote it (left untouched), `storage_failed`.
    async fn open(&self, name: &str, create: bool) -> Result<Option<Self::Store>>;

    /// Deletes the store of that name, if there is one, and what stands beside it. Errors: `store_in_use`, `storage_failed`.
    async fn delete(&self, name: &str) -> Result<()>;
}

/// What stands beside a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Witness {
    /// A copy of the header: it opens the mark where the store is gone.
    pub header: Option<Vec<u8>>,
    /// The sealed mark of how far the store had come.
    pub mark: Option<Vec<u8>>,
}

/// An open store, owned by its holder alone.
#[allow(async_fn_in_trait)]
pub trait Store {
    /// The header: the one record in clear, which tells how K is wrapped. `None` in a new store.
    async fn header(&self) -> Result<Option<Vec<u8>>>;

    /// Reads records by key, in the order of the keys; `None` for one that is not there.
    async fn get(&self, table: Table, keys: &[RecordKey]) -> Result<Vec<Option<Vec<u8>>>>;

    /// Reads at most `limit` records of a table, in the order of their keys, those after `after`.
    async fn scan(
        &self,
        table: Table,
        after: Option<RecordKey>,
        limit: usize,
    ) -> Result<Vec<(RecordKey, Vec<u8>)>>;

    /// Writes a batch: resolved once all of it is written, an error once none of it will be. Errors:
    /// `storage_full`, `storage_failed`, `closed`.
    async fn commit(&self, batch: Batch) -> Result<()>;

    /// What is kept beside the store, in a place of its own: what was last written there by a batch's `header` and
    /// `mark`. It may be behind the store, never ahead of it, unless the store was put back or lost.
    async fn witness(&self) -> Result<Witness>;

    /// Drops the handle, whatever became of it, and opens the store again; made anew, empty, where it is gone. The
    /// holder owns it all the while. Errors: `storage_closed`, `storage_failed`, `store_too_new`, `closed`; the old handle
    /// is not used again either way.
    async fn reopen(&self) -> Result<()>;

    /// Lets go of the store; later calls give `closed`.
    async fn close(&self);
}
