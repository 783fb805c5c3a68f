//! Three instances on one data folder, each with its own clock. The folder can be copied, and restored from a
//! copy.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use escale_server::clock::ManualClock;
use escale_server::engine::{Engine, renew_epoch_of};
use escale_server::settings::Settings;

use crate::support::world::{NOON, open};

/// The largest difference between the clocks.
pub const SKEW: u64 = 700;

pub fn settings() -> Settings {
    Settings {
        delta_ms: 1_000 + SKEW,
        skew_ms: SKEW,
        page_bytes: 300,
        tell_wait: Duration::ZERO,
        ..Settings::default()
    }
}

/// The instances. All folders are kept to the end, so that no new file gets the inode of an old one.
pub struct Cluster {
    folders: Vec<tempfile::TempDir>,
    /// The true time, which no clock has to show.
    time: Cell<u64>,
    pub clocks: Vec<Arc<ManualClock>>,
    pub engines: Vec<Engine>,
}

/// A data folder as it was at one point in time.
#[derive(Clone)]
pub struct Copy(PathBuf);

/// The ways to restore a data folder.
#[derive(Clone, Copy, Debug)]
pub enum Way {
    /// The database alone is replaced: the watermark stays.
    UnderItsMark,
    /// The whole folder is restored, on another disk.
    Elsewhere,
    /// The whole folder is restored in place; then the epoch is renewed by command.
    ByCommand,
}

const DATABASE: &str = "escale.db";
const LOG: &str = "escale.db-wal";
const MARK: &str = "escale.mark";

pub fn cluster() -> Cluster {
    let clocks: Vec<_> = [0, SKEW / 2, SKEW].map(|ahead| ManualClock::at(NOON + ahead)).into();
    let folders = vec![tempfile::tempdir().unwrap()];
    let mut cluster = Cluster { folders, time: Cell::new(NOON), clocks, engines: Vec::new() };
    cluster.start();
    cluster
}

impl Cluster {
    pub fn folder(&self) -> &Path {
        self.folders.last().unwrap().path()
    }

    fn start(&mut self) {
        let folder = self.folder().to_owned();
        self.engines = self.clocks.iter().map(|clock| open(&folder, clock, settings()).unwrap()).collect();
    }

    /// Lets time pass on every clock.
    pub fn pass(&self, ms: u64) {
        self.time.set(self.time.get() + ms);
        self.clocks.iter().for_each(|clock| clock.advance(ms));
    }

    /// Ends the process of one instance, and starts another one in its place.
    pub fn restart(&mut self, at: usize) {
        let engine = open(self.folder(), &self.clocks[at], settings()).unwrap();
        self.engines[at] = engine;
    }

    /// Sets the clocks right again, within the skew.
    pub fn put_right(&self) {
        for (clock, ahead) in self.clocks.iter().zip([0, SKEW / 2, SKEW]) {
            clock.set(self.time.get() + ahead);
        }
    }

    /// Renews the epoch by command, on a machine whose clock is right.
    pub fn renew(&self) {
        renew_epoch_of(&Engine::database_in(self.folder()), None, self.time.get() + SKEW).unwrap();
    }

    /// Copies the folder while it is served: the database, its log, and the mark.
    pub fn copy(&mut self) -> Copy {
        let aside = tempfile::tempdir().unwrap();
        copy_files(self.folder(), aside.path(), &[DATABASE, LOG, MARK]);
        let path = aside.path().to_owned();
        // Not the last one: that is the folder in use.
        self.folders.insert(0, aside);
        Copy(path)
    }

    /// Ends every instance, restores a copy, and starts them again. If nothing records the lost epoch, only
    /// the clocks make the new one later; they are right in that case.
    pub fn restore(&mut self, copy: &Copy, way: Way) {
        self.engines.clear();
        self.pass(1_000);
        if matches!(way, Way::Elsewhere) {
            self.put_right();
        }
        let names: &[&str] = match way {
            Way::UnderItsMark => &[DATABASE, LOG],
            Way::Elsewhere | Way::ByCommand => &[DATABASE, LOG, MARK],
        };
        if matches!(way, Way::Elsewhere) {
            self.folders.push(tempfile::tempdir().unwrap());
        }
        copy_files(&copy.0, self.folder(), names);
        if matches!(way, Way::ByCommand) {
            self.renew();
        }
        self.start();
    }
}

/// Overwrites the files in `to`. A name that is not in `from` is removed from `to` as well.
fn copy_files(from: &Path, to: &Path, names: &[&str]) {
    for name in names {
        let (from, to) = (from.join(name), to.join(name));
        if from.exists() {
            std::fs::copy(from, to).unwrap();
        } else if to.exists() {
            std::fs::remove_file(to).unwrap();
        }
    }
}
