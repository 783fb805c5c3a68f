//! The state of the socket. The machine opens it again after delays, closes it after a silence, and keeps its
//! registrations in step with the subscriptions.

use super::backoff::Backoff;
use super::pace::Pace;
use crate::error::Error;
use crate::model::{Def, SortedSet};

#[derive(Debug, Default, PartialEq, Eq, Clone, Copy)]
pub(super) enum SocketState {
    #[default]
    Closed,
    Opening,
    Open,
}

#[derive(Debug, Default)]
pub(super) struct Live {
    pub state: SocketState,
    /// The socket's number, which distinguishes its events from those of an earlier one.
    pub socket: u64,
    pub backoff: Backoff,
    /// No opening before this time.
    pub not_before_ms: u64,
    /// Limits the openings: a server may confirm and close at once, over and over.
    pub pace: Pace,
    pub last_heard_ms: u64,
    /// Whether a socket has opened since the session began: this server has one.
    pub has_opened: bool,
    /// Defs last sent to the server; `None` if none were sent on this socket.
    pub said: Option<SortedSet<Def>>,
    /// The number of the token last sent.
    pub said_token: u64,
    /// Why the server closed the last socket, until another is registered.
    pub error: Option<Error>,
    /// Defs that the server has confirmed.
    pub registered: Option<SortedSet<Def>>,
}

impl Live {
    /// When the next socket may be opened.
    pub fn free_at_ms(&self) -> u64 {
        self.not_before_ms.max(self.pace.free_at_ms())
    }

    /// Counts a new socket that is being opened, and returns its number.
    pub fn open(&mut self, now_ms: u64) -> u64 {
        self.pace.take(now_ms);
        self.socket += 1;
        self.state = SocketState::Opening;
        self.last_heard_ms = now_ms;
        self.said = None;
        self.registered = None;
        self.socket
    }

    /// The socket is gone. Returns its number if it was not closed yet.
    pub fn close(&mut self) -> Option<u64> {
        let was = std::mem::take(&mut self.state);
        self.said = None;
        self.registered = None;
        (was != SocketState::Closed).then_some(self.socket)
    }

    /// Whether events of that socket still count.
    pub fn is_current(&self, socket: u64) -> bool {
        self.socket == socket && self.state != SocketState::Closed
    }
}
