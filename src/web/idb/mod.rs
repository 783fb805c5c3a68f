//! The device's store on IndexedDB: one database for each store, one object store for each table and one for the
//! header. Keys are the records' 16 bytes, values are bytes; both are opaque here (R13).
//!
//! One page owns a store, by a Web Lock that bears the store's name and is held until the store is closed.

mod bucket;
mod connect;
mod connection;
mod device;
mod failure;
mod lock;
mod records;
mod store;
#[cfg(test)]
mod tests;
mod witness;

pub use device::IdbDevice;
pub use store::IdbStore;
