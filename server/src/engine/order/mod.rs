//! The order of operations: which may run, which have run, how often one was tried, and how fast they go (R11, R12).

mod attempts;
mod before;
mod pace;
mod past_operation;

pub use attempts::TRIES_MAX;
pub(super) use attempts::Tries;
pub(super) use before::{Before, before, put_seq};
pub(super) use pace::Pace;
pub(super) use past_operation::{PastOperation, past_operation};
