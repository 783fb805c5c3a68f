//! The device's store on IndexedDB: one database for each store, with one object store for each table and one
//! for the header. Keys are the records' 16 bytes, values are bytes; both are opaque here (R13).
//!
//! Several tabs can have a store open. Each of them holds a shared Web Lock with the store's name until it
//! closes the store. So a deletion from outside notices that the store is in use. Generations decide which
//! tab may write the state.

mod backup;
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

pub use connection::Closed;
pub use device::IdbDevice;
pub use store::IdbStore;
