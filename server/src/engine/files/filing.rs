//! Files: objects under their hashes, the documents that reference them, and the end of those that nobody references.
//!
//! The bytes are in a store of their own, and the database has the rest. Each step can end anywhere: a line in `purges`
//! then remembers the name of an object that may be in the store. A name is never used twice, so a late deletion never
//! meets a later upload. References are looked up, and never counted (R25).

use std::ops::Deref;

use escale::{Code, Error, Result};

use crate::engine::caller::Caller;
use crate::engine::instance::context::Instance;
use crate::engine::rights::read::Access;
use crate::files::Files;

/// The work of an instance with files.
pub struct Filing<'e>(pub(in crate::engine) &'e Instance);

impl Deref for Filing<'_> {
    type Target = Instance;

    fn deref(&self) -> &Instance {
        self.0
    }
}

impl<'e> Filing<'e> {
    /// That of this instance.
    pub fn of(instance: &'e Instance) -> Self {
        Filing(instance)
    }

    /// The store. Errors: `not_supported`.
    pub(in crate::engine) fn store(&self) -> Result<&'e dyn Files> {
        self.0.files.as_deref().ok_or_else(|| {
            Error::new(
                Code::NotSupported,
                "this server keeps no files: its operator chooses a folder with --files",
            )
        })
    }

    /// Whether a read may be refused at all.
    pub(in crate::engine) fn decides_reads(&self) -> bool {
        Access::of(self.0).is_decided()
    }

    /// Whether a read of this caller may be refused.
    pub(in crate::engine) fn decides_reads_of(&self, org: &str, caller: &Caller) -> bool {
        Access::of(self.0).is_decided_for_caller(org, caller)
    }
}
