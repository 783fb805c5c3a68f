//! The stores of this origin.

use super::connect;
use super::lock::StoreLock;
use super::store::IdbStore;
use super::witness;
use crate::error::Result;
use crate::store::Device;

/// The origin's databases, each under the name that the caller gives it; the caller makes names opaque (R13).
#[derive(Clone, Copy, Debug, Default)]
pub struct IdbDevice;

impl IdbDevice {
    /// The origin's databases. Touches nothing before a store is opened.
    pub fn new() -> Self {
        IdbDevice
    }
}

impl Device for IdbDevice {
    type Store = IdbStore;

    async fn open(&self, name: &str, create: bool) -> Result<Option<IdbStore>> {
        let lock = StoreLock::take(name).await?;
        let found = match connect::connect(name, create).await {
            // Gone, and not because anybody wanted it: it begins again by what stands beside it.
            Ok(None) if witness::is_known(name).await => connect::connect(name, true).await,
            other => other,
        };
        match found {
            Ok(Some(database)) => Ok(Some(IdbStore::new(name, database, lock))),
            other => {
                lock.free().await;
                other.map(|_| None)
            }
        }
    }

    async fn delete(&self, name: &str) -> Result<()> {
        let lock = StoreLock::take(name).await?;
        // What stands beside it first: a store without its witness raises no alarm, the other way round would.
        let result = match witness::delete(name).await {
            Ok(()) => match connect::factory() {
                Ok(factory) => connect::delete(&factory, name).await,
                Err(error) => Err(error),
            },
            other => other,
        };
        lock.free().await;
        result
    }
}
