//! Pulling: which defs must be pulled, the request in flight, the parts of replies, the socket and the token.

mod in_flight;
mod loads;
mod missing;
mod mistakes;
mod pace;
mod page_size;
mod parts;
mod request;
mod retries;
mod schedule;
mod socket;
mod token;
mod trees;

pub use in_flight::InFlight;
pub use mistakes::{bad_reply, mistakes_of};
pub use parts::{ReadPart, prepare};
pub use schedule::{Contact, Pull, is_beyond, is_withdrawn};
pub use socket::Live;
pub use token::Token;
pub use trees::{settle_trees, stir_trees};
