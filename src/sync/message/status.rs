//! The status of the session, which the application shows.

use super::value::Mode;
use crate::error::Error;
use crate::model::{Def, SortedMap};

/// The phase of the session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Just opened: the server has not answered yet.
    #[default]
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
    /// Local documents (R29).
    pub drafts: u64,
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
    /// The level at which the server restricts the account, as of its last reply (R89).
    pub restriction: u64,
    /// The role of the account, as of the server's last reply: one of [`ROLES`].
    pub role: Option<&'static str>,
}

/// The roles of accounts.
pub const ROLES: [&str; 3] = ["read", "write", "admin"];

/// The role of that name.
pub fn role_of(name: &str) -> Option<&'static str> {
    ROLES.into_iter().find(|role| *role == name)
}
