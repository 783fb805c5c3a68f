//! Whose databases a store is kept in: the origin's, or those that the page has in memory for a rehearsal.

use web_sys::IdbFactory;

use super::bucket::factory_beside;
use super::connect::factory;
use crate::error::Result;

/// Where databases are opened. Those that are given are there whenever they are opened: none is ever made.
#[derive(Clone, Debug, Default)]
pub(super) struct Databases {
    given: Option<IdbFactory>,
}

impl Databases {
    /// Those of `given`, both of a store and beside it; the origin's where there is none.
    pub fn new(given: Option<IdbFactory>) -> Self {
        Databases { given }
    }

    /// Whether they are those of a rehearsal.
    pub fn are_given(&self) -> bool {
        self.given.is_some()
    }

    /// Those of stores.
    pub fn of_stores(&self) -> Result<IdbFactory> {
        self.given.clone().map_or_else(factory, Ok)
    }

    /// Those of what stands beside stores.
    pub async fn beside(&self) -> Result<IdbFactory> {
        match &self.given {
            Some(given) => Ok(given.clone()),
            None => factory_beside().await,
        }
    }
}
