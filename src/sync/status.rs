//! The status of the session, which the application shows.

use super::event::Mode;
use super::machine::Machine;
use crate::error::{Code, Error};
use crate::model::{Def, SortedMap};
use crate::storage::RolledBack;

/// The phase of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Just opened: the server has not answered yet.
    Opening,
    /// A first load is in progress.
    Loading,
    /// Up to date; [`Updates`] says how the session learns of changes.
    Live,
    /// The server cannot be reached; the session tries again.
    Offline,
    /// Waiting for a token.
    Paused,
    /// Working on the device alone.
    Avion,
    /// Closed.
    Closed,
}

impl Phase {
    /// The phase of that name; none for `closed`.
    pub fn parse(name: &str) -> Option<Self> {
        let all = [Phase::Opening, Phase::Loading, Phase::Live, Phase::Offline, Phase::Paused, Phase::Avion];
        all.into_iter().find(|phase| phase.as_str() == name)
    }

    /// The name that the application sees.
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Opening => "opening",
            Phase::Loading => "loading",
            Phase::Live => "live",
            Phase::Offline => "offline",
            Phase::Paused => "paused",
            Phase::Avion => "avion",
            Phase::Closed => "closed",
        }
    }
}

/// How a session learns of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Updates {
    /// A socket, or the adapter's `listen`, reports each change.
    Pushed,
    /// By pulls alone, at intervals: there is no socket, it is closed, or it does not take all subscriptions.
    Polled,
}

impl Updates {
    /// The name that the application sees.
    pub fn as_str(self) -> &'static str {
        match self {
            Updates::Pushed => "pushed",
            Updates::Polled => "polled",
        }
    }
}

/// The state of the device's storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum StorageState {
    /// Everything in memory is in storage, or is being written.
    #[default]
    Ok,
    /// Writing failed: the latest changes are in memory only.
    Memory,
    /// No room is left: the latest changes are in memory only.
    Full,
    /// Records were found damaged, and were not received again yet.
    Lost,
    /// Nothing is written, because of the mode.
    None,
}

impl StorageState {
    /// The name that the application sees.
    pub fn as_str(self) -> &'static str {
        match self {
            StorageState::Ok => "ok",
            StorageState::Memory => "memory",
            StorageState::Full => "full",
            StorageState::Lost => "lost",
            StorageState::None => "none",
        }
    }
}

/// The progress of all first loads together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Rows received.
    pub received: u64,
    /// Rows in all, if the server gave the number for each load.
    pub total: Option<u64>,
}

/// Damaged data that was not received again yet (R14).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Damaged {
    /// Documents.
    pub documents: u64,
    /// Collections.
    pub collections: u64,
    /// Operations that may be lost: the store was behind its high-water mark when it was opened.
    pub operations: u64,
}

/// The status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The mode.
    pub mode: Mode,
    /// The phase.
    pub phase: Phase,
    /// How the session learns of changes; `None` if it contacts no server itself.
    pub updates: Option<Updates>,
    /// Whether this session talks to the server; otherwise another session of the store does.
    pub leads: bool,
    /// Operations not yet accepted.
    pub pending: u64,
    /// The first loads in progress.
    pub progress: Option<Progress>,
    /// The device's storage.
    pub storage: StorageState,
    /// Damaged data.
    pub damaged: Damaged,
    /// The last error that concerns no call.
    pub error: Option<Error>,
    /// Defs that the server refused, and the reasons.
    pub faults: SortedMap<Def, Error>,
}

impl Machine {
    /// The status.
    pub fn status(&self) -> Status {
        let era = self.memory.epoch().1;
        let loading = || self.memory.collections().filter(|(_, c)| c.is_loading(era));
        let loads: Vec<_> = loading().collect();
        let progress = (self.mode != Mode::Avion && !loads.is_empty()).then(|| {
            let received = loads.iter().map(|(_, c)| c.load.as_ref().map_or(0, |load| load.received)).sum();
            let total = loads.iter().map(|(_, c)| c.load.as_ref().and_then(|load| load.total)).sum();
            Progress { received, total }
        });
        let damaged = Damaged {
            documents: self.reads.lost.len() as u64,
            collections: self.lost_collections.len() as u64,
            operations: self.rolled_back.map_or(0, |rolled_back| rolled_back.lost),
        };
        let storage = match self.storage {
            StorageState::Ok if damaged != Damaged::default() || self.records_lost > 0 => StorageState::Lost,
            other => other,
        };
        let phase = self.phase(loads.iter().any(|(def, _)| !self.faults.contains_key(*def)));
        // If no operation is lost, a restored store is reported only until the server has sent everything
        // again.
        let is_made_good = self.pull.answered && self.lost_collections.is_empty();
        let rolled_back = self.rolled_back.filter(|rolled_back| rolled_back.lost > 0 || !is_made_good);
        let rolled_back = rolled_back.map(|RolledBack { records, pending, lost }| {
            let detail = format!(
                "the store has lost its newest records, or all: {records} records were there when it was last written, \
                 and {pending} operations were pending, of which {lost} may be lost"
            );
            Error::new(Code::LocalDataLost, detail)
        });
        let lost = rolled_back.or_else(|| {
            (self.records_lost > 0).then(|| {
                let records = self.records_lost;
                let detail =
                    format!("{records} records of the journal are gone, each may have held an operation");
                Error::new(Code::LocalDataLost, detail)
            })
        });
        let error = self.error.as_ref().or(self.live.error.as_ref()).or(self.storage_error.as_ref());
        let error = lost.or_else(|| error.cloned());
        let (pending, faults) = (self.writes.pending(), self.faults.clone());
        Status {
            mode: self.mode,
            phase,
            updates: (!self.tabs.is_following && self.mode != Mode::Avion).then(|| self.updates()),
            leads: !self.tabs.is_following,
            pending,
            progress,
            storage,
            damaged,
            error,
            faults,
        }
    }

    fn phase(&self, is_loading: bool) -> Phase {
        if self.mode == Mode::Avion {
            return Phase::Avion;
        }
        if self.tabs.is_following {
            return self.tabs.phase;
        }
        if self.token.is_awaited && self.error.is_some() {
            return Phase::Paused;
        }
        let nothing_to_do = self.has_nothing_to_do();
        if self.pull.missing.is_some() && self.network && !nothing_to_do {
            return Phase::Loading;
        }
        if (self.pull.failing && !nothing_to_do) || !self.network {
            return Phase::Offline;
        }
        if !self.pull.answered && !nothing_to_do {
            return Phase::Opening;
        }
        if is_loading {
            return Phase::Loading;
        }
        // How changes will be reported is not known before the first socket is registered or has failed.
        let is_socket_due =
            self.config.has_live && self.live.registered.is_none() && self.live.backoff.failures() == 0;
        if is_socket_due && !nothing_to_do { Phase::Opening } else { Phase::Live }
    }
}
