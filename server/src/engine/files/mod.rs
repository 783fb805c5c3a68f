//! Files: objects under their hashes, the documents that reference them, and the end of those that nobody references.
//!
//! The bytes are in a store of their own, and the database has the rest. Each step can end anywhere: a line in `purges`
//! then remembers the name of an object that may be in the store. A name is never used twice, so a late deletion never
//! meets a later upload. References are looked up, and never counted (R25).

mod audit;
mod collect;
mod objects;
mod read;
mod refer;
mod upload;

pub use audit::{Audit, Side};
pub use objects::{Object, sha_of};
pub(super) use refer::{Referenced, differ, refile, release};
pub use upload::Put;

use std::ops::Deref;

use escale::{Code, Error, Result};

use super::Engine;
use crate::files::Files;

/// Keeps the files of an engine in this store. If a site key is new, seals the objects that are in clear. Errors: those of
/// the database and of the store.
pub fn with_files(engine: Engine, files: Box<dyn Files>) -> Result<Engine> {
    let engine = Engine { files: Some(files), ..engine };
    Filing::of(&engine).seal_all()?;
    Ok(engine)
}

/// The work of an engine with files.
pub struct Filing<'e>(&'e Engine);

impl Deref for Filing<'_> {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        self.0
    }
}

impl<'e> Filing<'e> {
    /// That of this engine.
    pub fn of(engine: &'e Engine) -> Self {
        Filing(engine)
    }

    /// The store. Errors: `not_supported`.
    pub(super) fn store(&self) -> Result<&'e dyn Files> {
        self.0.files.as_deref().ok_or_else(|| {
            Error::new(
                Code::NotSupported,
                "this server keeps no files: its operator chooses a folder with --files",
            )
        })
    }
}
