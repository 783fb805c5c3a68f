//! Many sessions at one instance: `make crowd SOCKETS=10000`, and a short form in the usual tests.

mod figures;
#[cfg(feature = "postgres")]
mod flood;
mod follower;
mod sockets;
