//! What a device keeps: sealed records under opaque keys, written by batches that are whole or not at all.
//!
//! The trait is narrow so that the browser's database has a twin in memory, and one conformance suite holds for
//! both. Nothing here knows what a record means; `rest` lays documents out in records and is the only one to do so.

mod batch;
#[cfg(any(test, feature = "testing"))]
pub mod conformance;
mod failure;
mod memory;
mod snapshot;

pub use batch::{Batch, Durability, RecordKey, Table};
pub use failure::Failure;
pub use memory::{MemoryDevice, MemoryStore};
pub use snapshot::Snapshot;

use crate::error::Result;

/// Where stores live: an origin's databases, or a map in memory.
#[allow(async_fn_in_trait)] // single-threaded by design: the browser's types are not Send
pub trait Device {
    /// An open store.
    type Store: Store;

    /// Opens the store of that name; `None` where there is none, nor a header beside it, and `create` is false, in which
    /// case nothing was written. The holder owns it until it is closed, but on a device that is shared: there others may have it open.
    ///
    /// Errors: `store_in_use` while another holder owns it, `store_too_new` where a newer version of the code
    /// wrote it (left untouched), `storage_failed`.
    async fn open(&self, name: &str, create: bool) -> Result<Option<Self::Store>>;

    /// Deletes the store of that name, if there is one, and what stands beside it; on a shared device whoever has it open
    /// finds it gone. Errors: `store_in_use`, `storage_failed`.
    async fn delete(&self, name: &str) -> Result<()>;
}

/// What stands beside a store, but for the copy of its journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Witness {
    /// A copy of the header: it opens the mark where the store is gone.
    pub header: Option<Vec<u8>>,
    /// The sealed mark of how far the store had come.
    pub mark: Option<Vec<u8>>,
}

/// How many fences are kept: a session that slept through so many others is found out still.
pub const FENCES_KEPT: u64 = 256;

/// Records read in one go where a snapshot is put together.
const SNAPSHOT_RECORDS: usize = 256;

/// An open store: its holder's alone, or, on a shared device, one that several sessions have open, of which one leads and
/// writes under a generation.
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

    /// What is needed to open, all of one moment. As it is here it is for a store whose holder owns it: nobody else writes
    /// between the readings, and it has no inbox.
    async fn snapshot(&self) -> Result<Snapshot> {
        let header = self.header().await?;
        let mut tables = [Vec::new(), Vec::new()];
        for (table, records) in [Table::State, Table::Journal].into_iter().zip(&mut tables) {
            loop {
                let after = records.last().map(|(key, _): &(RecordKey, Vec<u8>)| *key);
                let found = self.scan(table, after, SNAPSHOT_RECORDS).await?;
                if found.is_empty() {
                    break;
                }
                records.extend(found);
            }
        }
        let [state, journal] = tables;
        Ok(Snapshot { header, state, journal, inbox: Vec::new(), generation: 0 })
    }

    /// The latest generation that has begun, by what stands beside it where the store itself is new; 0 where none has, as
    /// in every store whose holder owns it.
    async fn generation(&self) -> Result<u64> {
        Ok(0)
    }

    /// Begins the generation after `seen`, in one step: from then on no batch of an earlier one is written. Gives the
    /// new generation, or `None` where somebody else began it first.
    /// Whoever owns the store is always first.
    async fn take_over(&self, seen: u64) -> Result<Option<u64>> {
        Ok(Some(seen + 1))
    }

    /// Writes a batch: resolved once all of it is written, an error once none of it will be. Errors: `deposed` where
    /// a later generation than the batch's has begun, `storage_full`, `storage_failed`, `closed`.
    async fn commit(&self, batch: Batch) -> Result<()>;

    /// What is kept beside the store, in a place of its own: what was last written there by a batch's `header` and
    /// `mark`. It may be behind the store, never ahead of it, unless the store was put back or lost. Once a later generation
    /// has made the copy anew, an earlier one writes nothing there, however late it comes.
    async fn witness(&self) -> Result<Witness>;

    /// The copy of a table that is kept beside the store too, in any order. Of the journal: as of the batch that wrote the
    /// mark. Of the inbox: all that was handed in, and perhaps what was carried out since.
    async fn copies(&self, table: Table) -> Result<Vec<(RecordKey, Vec<u8>)>>;

    /// What an opening looks at first: the generation and the header, of one moment where the device can tell it so, and
    /// what stands beside the store, which may be of any moment since this handle was made.
    async fn look(&self) -> Result<(u64, Option<Vec<u8>>, Witness)> {
        Ok((self.generation().await?, self.header().await?, self.witness().await?))
    }

    /// Opens records by a cipher of the device's own, where it has one that is quicker than the core's: AES-256-GCM under
    /// `key`, each record with what it is bound to. Fewer than were asked, or `None`, where it does not: this is no
    /// judgement, the core tries those itself.
    async fn unseal(&self, _key: &[u8; 32], _records: &[(Vec<u8>, &[u8])]) -> Vec<Option<Vec<u8>>> {
        Vec::new()
    }

    /// Drops the handle, whatever became of it, and opens the store again; made anew, empty, where it is gone. The
    /// holder owns it all the while. Errors: `storage_closed`, `storage_failed`, `store_too_new`, `closed`; the old handle
    /// is not used again either way.
    async fn reopen(&self) -> Result<()>;

    /// Lets go of the store; later calls give `closed`.
    async fn close(&self);
}
