//! The stores of this origin.

use std::rc::Rc;

use web_sys::IdbFactory;

use super::connect;
use super::databases::Databases;
use super::ending::learn_ahead;
use super::lock::StoreLock;
use super::store::IdbStore;
use super::witness::{self, Beside};
use crate::error::Result;
use crate::store::Device;

/// The origin's databases, each under the name that the caller gives it; the caller makes names opaque (R13). They are
/// shared by the tabs of the origin. Or those of a rehearsal, which are the page's.
#[derive(Clone, Debug, Default)]
pub struct IdbDevice {
    databases: Databases,
}

impl IdbDevice {
    /// The origin's databases. Touches nothing before a store is opened.
    pub fn new() -> Self {
        IdbDevice::default()
    }

    /// The databases of a rehearsal, where there are any; the origin's otherwise.
    pub fn of(given: Option<IdbFactory>) -> Self {
        IdbDevice { databases: Databases::new(given) }
    }

    /// Deletes a store that nobody has open. Errors: `store_in_use`, `storage_failed`.
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
        let beside = Rc::new(Beside::new(name, self.databases.clone()));
        beside.read_ahead();
        let found = match connect::connect(&self.databases, name, create).await {
            // Gone, and not because anybody wanted it: it begins again by what stands beside it.
            Ok(None) if beside.witness().await.header.is_some() => {
                connect::connect(&self.databases, name, true).await
            }
            other => other,
        };
        match found {
            Ok(Some(database)) => {
                learn_ahead(&database);
                Ok(Some(IdbStore::new(name, self.databases.clone(), database, lock, beside)))
            }
            other => {
                lock.free().await;
                other.map(|_| None)
            }
        }
    }

    async fn delete(&self, name: &str) -> Result<()> {
        // What stands beside it first: a store without its witness raises no alarm, the other way round would. Then once
        // more: until the store is gone, another tab may still write there.
        witness::delete(&self.databases, name).await?;
        connect::delete(&self.databases.of_stores()?, name).await?;
        witness::delete(&self.databases, name).await
    }
}
