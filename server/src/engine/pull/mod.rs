//! Replies and their pages, and the work that one request may cause.

mod answer;
mod cursor;
mod work;

pub(crate) use answer::connections;
pub use answer::{Caller, Follower, Pushed, answer_while, head};
pub(super) use work::{Watched, Work};
