//! A reference for the session's contact with the server.

mod parts;
mod pulls;
mod sender;
mod socket;

pub use parts::Shown;
pub use pulls::Reference;
pub use socket::State;
