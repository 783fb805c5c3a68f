//! The database under the instances: in memory, or for some of the seeds a file of SQLite.

use std::fmt;
use std::sync::Arc;

use escale::crypto::SeededRandom;
use escale::model::Epoch;
use escale_server::mark::MemoryMark;
use escale_server::provider::{MemoryCopy, MemoryDatabase, MemoryProvider, Provider, State};

use crate::record::Life;
use crate::support::plan::Plan;
use crate::tap::{Tap, Wire};

/// A database with its mark.
pub struct Database {
    memory: Arc<MemoryDatabase>,
    mark: Arc<MemoryMark>,
    /// The number of the file that it stands for.
    file: u64,
}

/// A copy of a database and of its mark, and what had been done by then.
pub struct Backup {
    copy: MemoryCopy,
    mark: Arc<MemoryMark>,
    /// What the database holds.
    pub life: Life,
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("in memory")
    }
}

impl Database {
    /// An empty database.
    pub fn new(_: &Plan, now: u64, random: &mut SeededRandom) -> Self {
        let first = State {
            epoch: Epoch::new(now, "first").expect("an epoch"),
            commits: 0,
            highest: 0,
            told: 0,
            horizon: 0,
            cursor_key: random.next_u64().to_be_bytes().repeat(4),
            schema: String::new(),
            seal_check: Vec::new(),
        };
        let mark = Arc::new(MemoryMark::default());
        mark.stands_beside(1);
        Database { memory: MemoryDatabase::new(first), mark, file: 1 }
    }

    /// A connection, tapped.
    pub fn provider(&self, wire: &Arc<Wire>) -> Box<dyn Provider> {
        Box::new(Tap::on(MemoryProvider::open(&self.memory), wire))
    }

    /// Its mark.
    pub fn mark(&self) -> &Arc<MemoryMark> {
        &self.mark
    }

    /// Copies it while it is served.
    pub fn back_up(&self, life: &Life) -> Backup {
        Backup { copy: self.memory.copy(), mark: Arc::new(self.mark.copy()), life: life.clone() }
    }

    /// Puts a copy in its place; `keeps_mark` leaves the mark that is there, `elsewhere` is another file.
    pub fn put_back(&mut self, backup: &Backup, keeps_mark: bool, elsewhere: bool) {
        self.memory = MemoryDatabase::restored(&backup.copy);
        if !keeps_mark {
            self.mark = Arc::new(backup.mark.copy());
        }
        if elsewhere {
            self.file += 1;
        }
        self.mark.stands_beside(self.file);
    }
}
