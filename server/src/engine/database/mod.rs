//! The database as a whole: the server that runs it, and how far its heads had come.

mod reached;
mod server;

pub(super) use reached::ReachedHeads;
pub use server::adopt_server;
pub(super) use server::has_lost;
