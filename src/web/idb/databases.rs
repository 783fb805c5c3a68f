//! The databases that a store uses: the origin's, or those that the page keeps in memory for a rehearsal.

use wasm_bindgen::prelude::*;
use web_sys::IdbFactory;

use super::bucket::factory_in_bucket;
use crate::error::{Code, Result, fail};
use crate::web::platform::global::global;

/// Where databases are opened. The databases of a rehearsal exist before they are opened: none is ever made.
#[derive(Clone, Debug, Default)]
pub(super) struct Databases {
    given: Option<IdbFactory>,
}

impl Databases {
    /// With `given`, the rehearsal's databases, both for stores and for backups; otherwise the origin's.
    pub fn new(given: Option<IdbFactory>) -> Self {
        Databases { given }
    }

    /// Whether they belong to a rehearsal.
    pub fn are_given(&self) -> bool {
        self.given.is_some()
    }

    /// The databases of stores.
    pub fn of_stores(&self) -> Result<IdbFactory> {
        self.given.clone().map_or_else(factory, Ok)
    }

    /// The databases of the stores' backups: in a bucket of their own, or where the stores are too.
    pub async fn backup(&self) -> Result<IdbFactory> {
        match &self.given {
            Some(given) => Ok(given.clone()),
            None => factory_in_bucket().await?.map_or_else(factory, Ok),
        }
    }
}

/// The origin's databases.
fn factory() -> Result<IdbFactory> {
    match global("indexedDB") {
        Some(factory) => Ok(factory.unchecked_into()),
        None => fail(Code::StorageFailed, "there is no IndexedDB here; `incognito` needs none"),
    }
}
