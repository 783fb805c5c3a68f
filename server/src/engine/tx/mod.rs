//! Writes: their lock, their version, their view for operations, and their commit.

pub(in crate::engine) mod budget;
pub(in crate::engine) mod checks;
pub(in crate::engine) mod feed;
pub(in crate::engine) mod hooks;
pub(in crate::engine) mod journal;
pub(in crate::engine) mod lock;
pub(in crate::engine) mod now;
pub(in crate::engine) mod operation;
pub(in crate::engine) mod outcome;
pub(in crate::engine) mod reads;
pub(in crate::engine) mod shown;
pub(in crate::engine) mod system_records;
pub(in crate::engine) mod trees;
pub(in crate::engine) mod write_tx;
