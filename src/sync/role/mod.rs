//! The role of this session among those of the store.

mod commands;
mod follower;
mod inbox;
mod leader;
mod outcome;
mod polls;
mod state;

pub use follower::{Follower, Poll, Provisional, wanted_of};
pub use leader::{Fence, Leader};
pub use outcome::{result_of, tell_news, tell_outcome, tell_replaced};
pub use polls::Polled;
pub use state::{Next, Role, Tabs};
