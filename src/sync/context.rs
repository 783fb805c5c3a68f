//! The context: the state that every part of the machine may read and change. A part takes it as an argument,
//! and takes no other part.

use super::message::{Clock, Effect, Mode};
use crate::crypto::Random;
use crate::error::Error;
use crate::memory::Memory;
use crate::model::{Def, SortedSet};
use crate::storage::Layout;

/// The configuration of a machine, which does not change.
#[allow(clippy::struct_excessive_bools)] // independent facts
pub struct Config {
    /// The mode that it starts in.
    pub mode: Mode,
    /// Whether the server can push changes: false for an adapter without `listen`.
    pub has_live: bool,
    /// Whether a silent socket is closed: false for an adapter, which sends no signs of life.
    pub watches_silence: bool,
    /// Whether the application can be asked for a token.
    pub has_token: bool,
    /// Whether the session has files: a module that holds their bytes, and gives its word on them.
    pub has_files: bool,
    /// Milliseconds between two pulls of every def while changes are not pushed.
    pub poll_every_ms: u64,
}

/// The state that all parts share.
pub(super) struct Ctx {
    pub config: Config,
    pub mode: Mode,
    pub memory: Memory,
    /// The layout of the device's storage; `None` in incognito.
    pub layout: Option<Layout>,
    /// The session's name in incognito, which lasts for one opening (R11).
    session: String,
    pub random: Box<dyn Random>,
    pub clock: Clock,
    /// Whether the role is that of a follower.
    is_following: bool,
    /// The last `now` of the server, and the monotonic time of its arrival.
    pub server_now: Option<(u64, u64)>,
    /// Whether the browser says that it is online.
    pub network: bool,
    pub errors: Errors,
    /// The effects of the event that is being handled.
    pub effects: Vec<Effect>,
    /// New collections whose members are being looked for among the documents of their class. They are not requested
    /// meanwhile.
    pub seeding: SortedSet<Def>,
}

impl Ctx {
    pub fn new(
        config: Config,
        memory: Memory,
        layout: Option<Layout>,
        session: String,
        random: Box<dyn Random>,
    ) -> Self {
        Ctx {
            mode: config.mode,
            config,
            memory,
            layout,
            session,
            random,
            clock: Clock::default(),
            is_following: false,
            server_now: None,
            network: true,
            errors: Errors::default(),
            effects: Vec::new(),
            seeding: SortedSet::new(),
        }
    }

    /// The session's random name (R11).
    pub fn session(&self) -> &str {
        self.layout.as_ref().map_or(&self.session, Layout::session)
    }

    pub fn set_session(&mut self, name: String) {
        match &mut self.layout {
            Some(layout) => layout.rename(name),
            None => self.session = name,
        }
    }

    /// Whether another session leads, or none does.
    pub fn is_following(&self) -> bool {
        self.is_following
    }

    /// The role has changed.
    pub fn set_following(&mut self, is_following: bool) {
        self.is_following = is_following;
    }

    /// The generation in which this session leads.
    pub fn generation(&self) -> Option<u64> {
        self.layout.as_ref()?.generation()
    }

    /// The time that decides the expiry of documents: the server's, or in avion the device's (docs/rules.md).
    pub fn life_now(&self) -> u64 {
        match (self.mode, self.server_now) {
            (Mode::Synced | Mode::Incognito, Some((now, at))) => now + self.clock.mono_ms.saturating_sub(at),
            _ => self.clock.wall_ms,
        }
    }
}

/// The last error that concerns no call of the application. A later error replaces an earlier one, and an
/// answer of the server ends it.
#[derive(Default)]
pub(super) struct Errors {
    last: Option<Error>,
}

impl Errors {
    pub fn report(&mut self, error: Error) {
        self.last = Some(error);
    }

    pub fn last(&self) -> Option<&Error> {
        self.last.as_ref()
    }

    /// The reason for the error has gone.
    pub fn clear(&mut self) {
        self.last = None;
    }

    /// The session contacts the server no more: it cannot learn that a temporary fault is over.
    pub fn forget_temporary(&mut self) {
        self.last.take_if(|error| error.code().is_retryable());
    }
}
