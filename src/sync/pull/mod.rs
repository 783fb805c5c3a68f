//! Pulling: which defs must be pulled, the request in flight, the parts of replies, the socket and the token.

mod in_flight;
mod loads;
mod missing;
mod pace;
mod page_size;
mod parts;
mod request;
mod retries;
mod schedule;
mod socket;
mod token;
mod trees;
mod violations;

pub use in_flight::InFlight;
pub use parts::{ReadPart, prepare};
pub use schedule::{Contact, Pull, is_beyond, is_withdrawn};
pub use socket::Live;
pub use token::Token;
pub use trees::{confirm_trees, invalidate_trees};
pub use violations::{bad_reply, violations_of};
