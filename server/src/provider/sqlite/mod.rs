//! The provider on SQLite: one file, WAL, `synchronous=FULL`.

mod connection;
mod copy;
mod failed;
mod feed;
mod files;
mod heads;
mod maintenance;
mod open;
mod operations;
mod provider;
mod read;
mod rows;
mod transaction;
mod trees;
mod turn;

pub use copy::{copy_database, is_in_use};
pub use open::inspect;
pub use provider::SqliteProvider;
