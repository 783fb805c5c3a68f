//! The device's store on IndexedDB: one database for each store, one object store for each table and one for the
//! header. Keys are the records' 16 bytes, values are bytes; both are opaque here (R13).
//!
//! Several tabs can have a store open. Each holds a Web Lock that bears the store's name, in common with the others, until
//! it closes the store: whoever deletes it from outside finds it in use. Who writes what is kept apart by generations.

mod bucket;
mod change;
mod connect;
mod connection;
mod databases;
mod device;
mod ending;
mod failure;
mod lock;
mod records;
mod shared;
mod store;
#[cfg(test)]
mod tests;
mod witness;

pub use connection::Closed;
pub use device::IdbDevice;
pub use store::IdbStore;
