//! The mark: a small file beside the database that remembers how far it had come (R8).
//!
//! A database put back from a copy has seen fewer commits than the mark, or is another file than the one that the
//! mark was made for: either way its life begins anew. Versions alone would not do: with several instances a write
//! may be stamped below an earlier one. The mark is written after each commit, without waiting for the disk: one
//! that is behind, or lost, only detects less.

use std::fs;
use std::path::{Path, PathBuf};

use escale::model::{Epoch, Version};
use serde::{Deserialize, Serialize};

/// How far a database has come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reached {
    /// Its life.
    pub epoch: Epoch,
    /// The highest version committed.
    pub v: Version,
    /// How many transactions have changed it; the first marks did not say.
    #[serde(default)]
    pub commits: u64,
}

/// What the file holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Content {
    #[serde(flatten)]
    reached: Reached,
    /// The database's inode, where the system has such a thing.
    file: Option<u64>,
}

/// The mark of one database.
#[derive(Debug)]
pub struct Mark {
    path: PathBuf,
    database: PathBuf,
}

impl Mark {
    /// The mark of the database file at `database`.
    pub fn beside(database: &Path) -> Self {
        Mark { path: database.with_extension("mark"), database: database.to_owned() }
    }

    /// The epoch that the mark remembers.
    pub fn epoch(&self) -> Option<Epoch> {
        self.read().map(|content| content.reached.epoch)
    }

    fn read(&self) -> Option<Content> {
        let text = fs::read_to_string(&self.path).ok()?;
        // Cut short by a crash of the machine: as good as none.
        serde_json::from_str(&text).ok()
    }

    /// Why a database that has come this far is not the one that was last written, if it is not.
    pub fn contradicts(&self, reached: &Reached) -> Option<&'static str> {
        let content = self.read()?;
        let mark = &content.reached;
        if mark.v > reached.v || mark.commits > reached.commits {
            Some("the database is behind its mark: it was put back from a copy")
        } else if mark.epoch > reached.epoch {
            Some("the database is of an earlier life than its mark: it was put back from a copy")
        } else if content.file.is_some() && content.file != file_id(&self.database) {
            Some(
                "the database is another file than the one of its mark: it was put back from a copy, or moved",
            )
        } else {
            None
        }
    }

    /// Remembers that the database has come to this.
    pub fn write(&self, reached: &Reached) {
        let content = Content { reached: reached.clone(), file: file_id(&self.database) };
        let fresh = self.path.with_extension(format!("mark-{}", std::process::id()));
        let written = serde_json::to_vec(&content)
            .map_err(std::io::Error::other)
            .and_then(|bytes| fs::write(&fresh, bytes))
            .and_then(|()| fs::rename(&fresh, &self.path));
        if let Err(error) = written {
            tracing::warn!(path = %self.path.display(), %error, "the mark could not be written");
        }
    }
}

#[cfg(unix)]
fn file_id(path: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).ok().map(|metadata| metadata.ino())
}

#[cfg(not(unix))]
fn file_id(_: &Path) -> Option<u64> {
    None
}
