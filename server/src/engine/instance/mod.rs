//! The context of all work: it names no other part but records.

pub(in crate::engine) mod context;
pub(in crate::engine) mod epochs;
pub(in crate::engine) mod heads_seen;
pub(in crate::engine) mod identity;
pub(in crate::engine) mod refusals;
pub(in crate::engine) mod schedules;
pub(in crate::engine) mod work;
