//! Records that the server keeps, and their bytes.

pub(in crate::engine) mod account;
pub(in crate::engine) mod counter;
pub(in crate::engine) mod entrance;
pub(in crate::engine) mod fields;
pub(in crate::engine) mod object;
pub(in crate::engine) mod opened;
pub(in crate::engine) mod org;
pub(in crate::engine) mod reader;
pub(in crate::engine) mod record;
pub(in crate::engine) mod schedule;
pub(in crate::engine) mod system;
