//! The watermark: a small file next to the database that records how far the database had come (R8).
//!
//! It reveals a database that was restored from a backup. A restored database has seen fewer commits than the
//! watermark says, or is another file than the one recorded. In both cases a new epoch begins.
//!
//! The commits of all orgs are counted together. Versions would not be enough: those of one org say nothing
//! of another. The watermark is written after each commit without waiting for the disk. If it is outdated or
//! lost, it only detects less.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use escale::model::Epoch;
use serde::{Deserialize, Serialize};

/// The progress of a database.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reached {
    /// The latest epoch of the site and of its orgs.
    pub epoch: Epoch,
    /// The number of transactions committed in all orgs. The first watermarks did not have it.
    #[serde(default)]
    pub commits: u64,
}

/// The contents of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Content {
    #[serde(flatten)]
    reached: Reached,
    /// The database file's inode, if the system has inodes.
    file: Option<u64>,
}

/// The watermark of one database.
#[derive(Debug)]
pub struct Mark {
    location: Location,
}

#[derive(Debug)]
enum Location {
    File { path: PathBuf, database: PathBuf },
    Memory(Arc<MemoryMark>),
    Nowhere,
}

/// A watermark in memory, for a database in memory. Instances share it.
#[derive(Debug, Default)]
pub struct MemoryMark {
    content: Mutex<Option<Content>>,
    file: AtomicU64,
}

impl MemoryMark {
    /// Records that another database takes the place of the marked one. `file` is its number, as an inode
    /// would be.
    pub fn replaced_by(&self, file: u64) {
        self.file.store(file, Ordering::SeqCst);
    }

    /// A copy, as a backup of the folder would hold it.
    pub fn copy(&self) -> Self {
        let file = AtomicU64::new(self.file.load(Ordering::SeqCst));
        MemoryMark { content: Mutex::new(self.content().clone()), file }
    }

    fn content(&self) -> MutexGuard<'_, Option<Content>> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Mark {
    /// The watermark of the database file at `database`.
    pub fn next_to(database: &Path) -> Self {
        let (path, database) = (database.with_extension("mark"), database.to_owned());
        Mark { location: Location::File { path, database } }
    }

    /// No watermark: the database shows by itself that it went back (R39).
    pub fn none() -> Self {
        Mark { location: Location::Nowhere }
    }

    /// A watermark in memory.
    pub fn in_memory(mark: &Arc<MemoryMark>) -> Self {
        Mark { location: Location::Memory(mark.clone()) }
    }

    /// The epoch that the watermark records.
    pub fn epoch(&self) -> Option<Epoch> {
        self.read().map(|content| content.reached.epoch)
    }

    fn read(&self) -> Option<Content> {
        match &self.location {
            Location::File { path, .. } => {
                let text = fs::read_to_string(path).ok()?;
                // A file cut short by a crash of the machine counts as none.
                serde_json::from_str(&text).ok()
            }
            Location::Memory(mark) => mark.content().clone(),
            Location::Nowhere => None,
        }
    }

    /// The identity of the database's file.
    fn file(&self) -> Option<u64> {
        match &self.location {
            Location::File { database, .. } => file_id(database),
            Location::Memory(mark) => Some(mark.file.load(Ordering::SeqCst)),
            Location::Nowhere => None,
        }
    }

    /// Decides whether a database with this progress is the one last written. If not, returns the reason.
    pub fn contradicts(&self, reached: &Reached) -> Option<&'static str> {
        let content = self.read()?;
        let mark = &content.reached;
        if mark.commits > reached.commits {
            Some("the database is behind its mark: it was put back from a copy")
        } else if mark.epoch > reached.epoch {
            Some("the database is of an earlier life than its mark: it was put back from a copy")
        } else if content.file.is_some() && content.file != self.file() {
            Some(
                "the database is another file than the one of its mark: it was put back from a copy, or moved",
            )
        } else {
            None
        }
    }

    /// Records the progress of the database.
    pub fn write(&self, reached: &Reached) {
        let content = Content { reached: reached.clone(), file: self.file() };
        let path = match &self.location {
            Location::File { path, .. } => path,
            Location::Memory(mark) => {
                *mark.content() = Some(content);
                return;
            }
            Location::Nowhere => return,
        };
        let fresh = path.with_extension(format!("mark-{}", std::process::id()));
        let written = serde_json::to_vec(&content)
            .map_err(std::io::Error::other)
            .and_then(|bytes| fs::write(&fresh, bytes))
            .and_then(|()| fs::rename(&fresh, path));
        if let Err(error) = written {
            tracing::warn!(path = %path.display(), %error, "the mark could not be written");
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
