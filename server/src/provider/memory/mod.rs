//! The provider in memory: for tests, and for simulations, which open thousands of databases a second.
//!
//! Every instance shares one [`MemoryDatabase`]. Its tables are shared until they are written. So a snapshot
//! is a handful of reference counts, and nobody sees the changes of a transaction before its commit. Writes
//! of different orgs can overlap, as on a database with a lock for each row. Nothing is durable here. A copy
//! of the database is a backup.

mod database;
mod files;
mod maintenance;
mod provider;
mod snapshot;
mod tables;
mod transaction;
mod turns;

pub use database::{MemoryCopy, MemoryDatabase};
pub use provider::MemoryProvider;
