//! The entry to IndexedDB: opens and deletes the stores of this origin.

use std::rc::Rc;

use web_sys::IdbFactory;

use super::backup::{self, Backup};
use super::connect;
use super::databases::Databases;
use super::ending::learn_ahead;
use super::lock::StoreLock;
use super::store::IdbStore;
use crate::error::Result;
use crate::store::Device;

/// The origin's databases, each under the name that the caller gives it. The caller makes names opaque (R13).
/// All tabs of the origin share them. In a rehearsal, the page's own databases in memory instead.
#[derive(Clone, Debug, Default)]
pub struct IdbDevice {
    databases: Databases,
}

impl IdbDevice {
    /// The origin's databases. Touches nothing before a store is opened.
    pub fn new() -> Self {
        IdbDevice::default()
    }

    /// The databases of a rehearsal if some are given, otherwise the origin's.
    pub fn of(given: Option<IdbFactory>) -> Self {
        IdbDevice { databases: Databases::new(given) }
    }

    /// Deletes a store that no session has open. Errors: `store_in_use`, `storage_failed`.
    pub async fn delete_unused(&self, name: &str) -> Result<()> {
        let lock = StoreLock::take_alone(name).await?;
        let result = self.delete(name).await;
        lock.free().await;
        result
    }
}

impl Device for IdbDevice {
    type Store = IdbStore;

    async fn open(&self, name: &str, create: bool) -> Result<Option<IdbStore>> {
        let lock = StoreLock::take(name).await?;
        let backup = Rc::new(Backup::new(name, self.databases.clone()));
        backup.read_ahead();
        let found = match connect::connect(&self.databases, name, create).await {
            // The database is gone, and no tab deleted it: the browser dropped it. It is made again, and the
            // opening restores it from the backup database.
            Ok(None) if backup.backup_header().await.header.is_some() => {
                connect::connect(&self.databases, name, true).await
            }
            other => other,
        };
        match found {
            Ok(Some(database)) => {
                learn_ahead(&database);
                Ok(Some(IdbStore::new(name, self.databases.clone(), database, lock, backup)))
            }
            other => {
                lock.free().await;
                other.map(|_| None)
            }
        }
    }

    async fn delete(&self, name: &str) -> Result<()> {
        // The backup database goes first. A store without a backup raises no alarm, but a backup without its
        // store does. It is deleted once more in the end: until the store is gone, another tab may still
        // write the backup.
        backup::delete(&self.databases, name).await?;
        let databases = self.databases.of_stores()?;
        connect::delete(&databases, &format!("{name}-files")).await?;
        connect::delete(&databases, name).await?;
        backup::delete(&self.databases, name).await
    }
}
