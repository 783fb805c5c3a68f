//! Sessions, clients, instances and worlds that the other modules use.

pub mod base;
pub mod chance;
pub mod client;
pub mod cluster;
pub mod device;
pub mod items;
pub mod operating;
pub mod outside;
pub mod page;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod proof;
pub mod schedules;
pub mod session;
pub mod world;
