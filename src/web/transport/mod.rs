//! The ways to a server: requests by `fetch`, a socket, or the application's own adapter.

pub mod adapter;
pub mod address;
pub(super) mod channel;
pub mod http;
pub mod reply;
pub mod server;
pub mod socket;
