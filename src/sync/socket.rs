//! The socket: opened again with delays, given up after a silence, its registrations followed.

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
    /// Numbers the socket, so that events of an earlier one are told apart.
    pub socket: u64,
    pub backoff: Backoff,
    /// Not before that time.
    pub not_before_ms: u64,
    /// A server may confirm and close at once, over and over.
    pub pace: Pace,
    pub last_heard_ms: u64,
    /// Whether one was open since the session began: this server has a socket.
    pub has_opened: bool,
    /// Defs last said to the server; `None` where nothing was said on this socket.
    pub said: Option<SortedSet<Def>>,
    /// Which token was said last.
    pub said_token: u64,
    /// Why the server closed the last one, until another is registered.
    pub error: Option<Error>,
    /// Defs that the server has confirmed.
    pub registered: Option<SortedSet<Def>>,
}

impl Live {
    /// When the next one may be opened.
    pub fn free_at_ms(&self) -> u64 {
        self.not_before_ms.max(self.pace.free_at_ms())
    }

    /// A new socket is being opened. Gives its number.
    pub fn open(&mut self, now_ms: u64) -> u64 {
        self.pace.take(now_ms);
        self.socket += 1;
        self.state = SocketState::Opening;
        self.last_heard_ms = now_ms;
        self.said = None;
        self.registered = None;
        self.socket
    }

    /// The socket is gone. Gives its number where it was not closed yet.
    pub fn close(&mut self) -> Option<u64> {
        let was = std::mem::take(&mut self.state);
        self.said = None;
        self.registered = None;
        (was != SocketState::Closed).then_some(self.socket)
    }

    /// Whether an event of that socket still counts.
    pub fn is_current(&self, socket: u64) -> bool {
        self.socket == socket && self.state != SocketState::Closed
    }
}
