//! The session memory (docs/rules.md): documents by (class, pk), collections by def, and the rules R1 to R6
//! and R8 that keep them consistent. It uses no clock, no network and no disk. The sync machine applies
//! replies to it and reads from it; the storage layout restores it and writes it.

mod apply;
mod collection;
mod defs;
mod dirty;
mod document;
mod documents;
mod overlay;
mod pins;
pub mod query;
pub mod seed;
mod set;
mod slab;
mod stamp;
mod state;
mod stored;
mod tombstones;
pub mod tree;

pub(crate) use apply::PreparedPart;
pub use apply::{PartContext, PartOutcome};
pub use collection::{Collection, Load};
pub use defs::Defs;
pub use dirty::Dirty;
pub use document::{Content, DocKey, Document, DocumentAtRest, PageRef};
pub use overlay::{Base, Shown, is_local, synced, take_touched, touch_expired};
pub use set::{Member, VersionedSet};
pub use stamp::Stamp;
pub use state::{EpochChange, Memory, lease, unready};
pub(crate) use stored::{ClassAtRest, Origin, StoredChanges};
pub use stored::{CollectionAtRest, LinkAtRest, Missing, at_rest};

#[cfg(test)]
pub(crate) mod tests;
