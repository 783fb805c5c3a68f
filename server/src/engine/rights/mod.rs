//! Rights in the engine (R86): reads are decided in the snapshot of a reply, writes in their transaction.
//!
//! A schema without rights costs nothing here: each question begins with a look into a map that is empty.

pub(in crate::engine) mod asker;
pub(in crate::engine) mod gone;
pub(in crate::engine) mod org;
pub(in crate::engine) mod read;
pub(in crate::engine) mod readers;
pub(in crate::engine) mod restrictions;
pub(in crate::engine) mod write;
