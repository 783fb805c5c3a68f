//! Maintenance of the database: opening, the purge, and the sweep of the journal.

pub(in crate::engine) mod adopt;
pub(in crate::engine) mod purge;
pub(in crate::engine) mod sweep;
