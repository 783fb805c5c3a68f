//! Many sessions at one instance: `make crowd SOCKETS=10000`, and a short form in the usual tests.

mod figures;
mod follower;
mod sockets;
