//! The order of operations: which may run, which have run, how often one was tried, and how fast they go (R11, R12).

pub(in crate::engine) mod attempts;
pub(in crate::engine) mod before;
pub(in crate::engine) mod pace;
pub(in crate::engine) mod past_operation;
