//! The order of operations: which may run, which have run, and how often one was tried (R11, R12).

mod attempts;
mod before;
mod past_operation;

pub use attempts::TRIES_MAX;
pub(super) use attempts::Tries;
pub(super) use before::{Before, before, put_seq};
pub(super) use past_operation::{PastOperation, past_operation};
