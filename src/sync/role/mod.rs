//! The role of this session among those of the store.

mod commands;
mod outcome;
mod polls;
mod requests;
mod state;

pub use outcome::{tell_news, tell_outcome, tell_replaced};
pub use state::{Next, ORDER_FLOOR, Provisional, Tabs, wanted_of};
