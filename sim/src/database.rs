//! The database under the instances: in memory, or for some of the seeds an SQLite file.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use escale::crypto::SeededRandom;
use escale::model::Epoch;
use escale_server::mark::MemoryMark;
use escale_server::provider::{MemoryCopy, MemoryDatabase, MemoryProvider, Provider, Site, SqliteProvider};
use tempfile::TempDir;

use crate::record::Life;
use crate::tap::{Tap, Wire};

/// One in this many seeds runs on SQLite, which takes about a hundred times as long.
const SQLITE_OF: u64 = 400;

/// The SQLite file, and its log.
const FILES: [&str; 2] = ["escale.db", "escale.db-wal"];

/// A database with its watermark (`MemoryMark`).
pub struct Database {
    place: Place,
    mark: Arc<MemoryMark>,
    /// A number in place of a file's identity: another number is another file.
    file: u64,
}

enum Place {
    Memory(Arc<MemoryDatabase>),
    Sqlite { folder: TempDir, first: Box<Site> },
}

/// A copy of a database and of its watermark, and of the record at that time.
pub struct Backup {
    copy: Copied,
    mark: Arc<MemoryMark>,
    /// The writes and results that the copy contains.
    pub life: Life,
}

enum Copied {
    Memory(MemoryCopy),
    Sqlite(TempDir),
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.place {
            Place::Memory(_) => "in memory",
            Place::Sqlite { .. } => "on SQLite",
        })
    }
}

impl Database {
    pub fn new(now: u64, random: &mut SeededRandom) -> Self {
        let epoch = Epoch::new(now, "first").expect("an epoch");
        let first = Site {
            last_epoch: epoch.clone(),
            epoch,
            generation: 0,
            commits: 0,
            promised_now: 0,
            cursor_key: random.next_u64().to_be_bytes().repeat(4),
            schema: String::new(),
            seal_check: Vec::new(),
            server: None,
        };
        let mark = Arc::new(MemoryMark::default());
        mark.replaced_by(1);
        let place = if random.next_u64().is_multiple_of(SQLITE_OF) {
            Place::Sqlite { folder: folder(), first: Box::new(first) }
        } else {
            Place::Memory(MemoryDatabase::new(first))
        };
        Database { place, mark, file: 1 }
    }

    /// A connection whose calls pass through the simulator.
    pub fn provider(&self, wire: &Arc<Wire>) -> Box<dyn Provider> {
        match &self.place {
            Place::Memory(database) => Box::new(Tap::on(MemoryProvider::open(database), wire)),
            Place::Sqlite { folder, first } => {
                let provider = SqliteProvider::open(&folder.path().join(FILES[0]), first);
                Box::new(Tap::on(provider.expect("a database that opens"), wire))
            }
        }
    }

    /// Its watermark.
    pub fn mark(&self) -> &Arc<MemoryMark> {
        &self.mark
    }

    /// Copies the database while the instances use it.
    pub fn back_up(&self, life: &Life) -> Backup {
        let copy = match &self.place {
            Place::Memory(database) => Copied::Memory(database.copy()),
            Place::Sqlite { folder, .. } => Copied::Sqlite(copied(folder.path())),
        };
        Backup { copy, mark: Arc::new(self.mark.copy()), life: life.clone() }
    }

    /// Replaces the database by a copy. `keeps_mark` keeps the present watermark; with `elsewhere` the copy
    /// is another file.
    pub fn put_back(&mut self, backup: &Backup, keeps_mark: bool, elsewhere: bool) {
        match (&mut self.place, &backup.copy) {
            (Place::Memory(database), Copied::Memory(copy)) => *database = MemoryDatabase::restored(copy),
            // Instances that are about to end still have the old folder open.
            (Place::Sqlite { folder, .. }, Copied::Sqlite(copy)) => *folder = copied(copy.path()),
            _ => unreachable!("a copy of another kind"),
        }
        if !keeps_mark {
            self.mark = Arc::new(backup.mark.copy());
        }
        if elsewhere {
            self.file += 1;
        }
        self.mark.replaced_by(self.file);
    }
}

/// A folder in memory if the system has one. The effect of a power failure on SQLite is not simulated.
fn folder() -> TempDir {
    let memory = PathBuf::from("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.expect("a folder")
}

fn copied(from: &Path) -> TempDir {
    let to = folder();
    for name in FILES {
        let from = from.join(name);
        if from.exists() {
            fs::copy(from, to.path().join(name)).expect("a copy");
        }
    }
    to
}
