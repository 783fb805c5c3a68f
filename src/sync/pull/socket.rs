//! The socket. The session opens it again after delays, closes it after a silence, and keeps its registrations
//! in step with the subscriptions.

use super::pace::Pace;
use crate::codec::LiveRequest;
use crate::error::{Code, Error, Result};
use crate::limits::{BACKOFF_MS, FIRST_SUBS_MAX, SOCKET_SILENCE_MS, SPREAD_MAX_MS, SUBS_MAX};
use crate::memory::synced;
use crate::model::{Def, SortedSet, order};
use crate::sync::backoff::Backoff;
use crate::sync::context::Ctx;
use crate::sync::facts::Bearer;
use crate::sync::message::{Effect, Updates};

/// The close code of a refused token (docs/protocol.md).
const CLOSE_TOKEN: u16 = 4401;

#[derive(Debug, Default, PartialEq, Eq, Clone, Copy)]
enum SocketState {
    #[default]
    Closed,
    Opening,
    Open,
}

#[derive(Debug, Default)]
pub struct Live {
    state: SocketState,
    /// The socket's number, which distinguishes its events from those of an earlier one.
    socket: u64,
    backoff: Backoff,
    /// No opening before this time.
    not_before_ms: u64,
    /// The same, if no delay of the backoff counts: the server named the time.
    asked_ms: u64,
    /// The server was away and is back: how changes will be reported is not known until the next socket is registered
    /// or fails.
    is_back: bool,
    /// No socket is opened ahead of its delay before this time.
    ahead_not_before_ms: u64,
    /// Limits the openings: a server may confirm and close at once, over and over.
    pace: Pace,
    last_heard_ms: u64,
    /// Whether a socket has opened since the session began: this server has one.
    has_opened: bool,
    /// Defs last sent to the server; `None` if none were sent on this socket.
    said: Option<SortedSet<Def>>,
    /// The number of the token last sent.
    said_token: u64,
    /// Why the server closed the last socket, until another is registered.
    error: Option<Error>,
    /// Defs that the server has confirmed.
    registered: Option<SortedSet<Def>>,
}

/// A socket that has closed.
pub struct Closed {
    /// The number of the token for which the server closed it.
    pub refused_token: Option<u64>,
    /// Whether this server had a socket open before.
    pub had_opened: bool,
    /// Whether the server said how long its sessions take to come back.
    pub is_restart: bool,
}

impl Live {
    /// Does the work that is due for the socket while the server may be contacted.
    pub fn advance(&mut self, ctx: &mut Ctx, bearer: &Bearer) -> Result<()> {
        if !ctx.config.has_live {
            return Ok(());
        }
        let now = ctx.clock.mono_ms;
        if ctx.config.watches_silence
            && self.state != SocketState::Closed
            && now >= self.last_heard_ms + SOCKET_SILENCE_MS
            && let Some(socket) = self.shut()
        {
            ctx.effects.push(Effect::CloseSocket(socket));
            self.not_before_ms = now + self.backoff.next_ms(&mut *ctx.random)?;
        }
        match self.state {
            SocketState::Closed if now >= self.free_at_ms() && has_subs(ctx) => {
                let socket = self.open(now);
                ctx.effects.push(Effect::OpenSocket(socket));
            }
            SocketState::Open => self.register(ctx, bearer),
            SocketState::Closed | SocketState::Opening => {}
        }
        Ok(())
    }

    /// Sends the registrations if they have changed. A message names at most `SUBS_MAX` defs. The others are
    /// pulled, as they would be without a socket. The first message names fewer: a server does not wait for it long.
    fn register(&mut self, ctx: &mut Ctx, bearer: &Bearer) {
        let subs: SortedSet<Def> = order::set_of(synced(&ctx.memory).map(|(def, _)| def.clone()));
        let subs_max = if self.registered.is_none() { FIRST_SUBS_MAX } else { SUBS_MAX };
        let subs: SortedSet<Def> = order::set_of(subs.into_iter().take(subs_max));
        if self.said.as_ref() == Some(&subs) {
            return;
        }
        let request = LiveRequest {
            token: bearer.value.clone(),
            session: ctx.session().to_owned(),
            subs: subs.iter().cloned().collect(),
        };
        self.said = Some(subs);
        self.said_token = bearer.number;
        ctx.effects.push(Effect::Say { socket: self.socket, request });
    }

    /// When the next socket may be opened.
    fn free_at_ms(&self) -> u64 {
        self.not_before_ms.max(self.pace.free_at_ms())
    }

    /// When the socket has work to do next.
    pub fn next_wake(&self, ctx: &Ctx) -> Option<u64> {
        if !ctx.config.has_live {
            return None;
        }
        match self.state {
            SocketState::Closed if !has_subs(ctx) => None,
            SocketState::Closed => Some(self.free_at_ms()),
            _ => ctx.config.watches_silence.then_some(self.last_heard_ms + SOCKET_SILENCE_MS),
        }
    }

    /// Counts a new socket that is being opened, and returns its number.
    fn open(&mut self, now_ms: u64) -> u64 {
        self.pace.take(now_ms);
        self.socket += 1;
        self.state = SocketState::Opening;
        self.last_heard_ms = now_ms;
        self.socket
    }

    /// The socket is gone. Returns its number if it was not closed yet.
    fn shut(&mut self) -> Option<u64> {
        let was = std::mem::take(&mut self.state);
        self.said = None;
        self.registered = None;
        self.is_back = false;
        (was != SocketState::Closed).then_some(self.socket)
    }

    /// Closes the socket, if there is one.
    pub fn close(&mut self, ctx: &mut Ctx) {
        ctx.effects.extend(self.shut().map(Effect::CloseSocket));
    }

    /// Whether events of that socket still count.
    fn is_current(&self, socket: u64) -> bool {
        self.socket == socket && self.state != SocketState::Closed
    }

    /// The socket is open.
    pub fn opened(&mut self, ctx: &Ctx, socket: u64) {
        if self.is_current(socket) {
            self.state = SocketState::Open;
            self.has_opened = true;
            self.last_heard_ms = ctx.clock.mono_ms;
        }
    }

    /// A message has arrived. Returns whether it still counts.
    pub fn heard(&mut self, ctx: &Ctx, socket: u64) -> bool {
        let is_current = self.is_current(socket);
        if is_current {
            self.last_heard_ms = ctx.clock.mono_ms;
        }
        is_current
    }

    /// The server has confirmed these defs. Returns those that it had not confirmed before.
    pub fn confirmed(&mut self, defs: Vec<Def>) -> Vec<Def> {
        self.backoff.reset();
        self.error = None;
        self.is_back = false;
        let registered: SortedSet<Def> = order::set_of(defs);
        let before = self.registered.take().unwrap_or_default();
        let new = registered.iter().filter(|def| !before.contains(*def)).cloned().collect();
        self.registered = Some(registered);
        new
    }

    /// A socket has closed, or could not be opened. Returns `None` if it was not the current one.
    pub fn closed(
        &mut self,
        ctx: &mut Ctx,
        socket: u64,
        (code, reason): (u16, &str),
        retry_after_ms: u64,
    ) -> Result<Option<Closed>> {
        if !self.is_current(socket) {
            return Ok(None);
        }
        self.shut();
        let now = ctx.clock.mono_ms;
        let delay = self.backoff.next_ms(&mut *ctx.random)?;
        let spread = spread_of(code, reason);
        if let Some(ms) = spread {
            self.asked_ms = now + ctx.random.below(ms + 1)?;
        }
        self.not_before_ms = (now + delay).max(self.asked_ms).max(retry_after_ms);
        self.error = close_error(code, reason);
        let refused_token = (code == CLOSE_TOKEN).then_some(self.said_token);
        Ok(Some(Closed { refused_token, had_opened: self.has_opened, is_restart: spread.is_some() }))
    }

    /// There is a reason to try at once.
    pub fn try_at_once(&mut self, retry_after_ms: u64) {
        self.backoff.reset();
        self.not_before_ms = retry_after_ms;
    }

    /// A pull has shown that the server is back. Until a socket is open, nothing tells of changes, so the delay of the
    /// backoff ends; but not more often than the longest delay, lest a server that comes and goes is asked all the time.
    pub fn server_is_back(&mut self, ctx: &Ctx, retry_after_ms: u64) {
        let now = ctx.clock.mono_ms;
        if self.state == SocketState::Closed && now >= self.ahead_not_before_ms {
            self.ahead_not_before_ms = now + BACKOFF_MS.1;
            self.not_before_ms = self.asked_ms.max(retry_after_ms);
            self.is_back = true;
        }
    }

    /// There is another token. If several in a row were refused, the delays stay.
    pub fn try_token(&mut self, retry_after_ms: u64) {
        if self.backoff.failures() <= 1 {
            self.not_before_ms = retry_after_ms;
        }
    }

    /// How the session learns of changes.
    pub fn updates(&self, ctx: &Ctx) -> Updates {
        let registered = self.registered.as_ref().and(self.said.as_ref());
        match registered {
            Some(said) if said.len() == synced(&ctx.memory).count() => Updates::Pushed,
            _ => Updates::Polled,
        }
    }

    /// Whether it is not known yet how changes will be reported: no socket was registered or has failed. Without a
    /// subscription none is opened.
    pub fn is_due(&self, ctx: &Ctx) -> bool {
        let is_wanted = ctx.config.has_live && has_subs(ctx);
        is_wanted && self.registered.is_none() && (self.is_back || self.backoff.failures() == 0)
    }

    /// Why the server closed the last socket.
    pub fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }
}

/// Whether anything is subscribed: otherwise no socket is opened.
fn has_subs(ctx: &Ctx) -> bool {
    synced(&ctx.memory).next().is_some()
}

/// The milliseconds over which the server's sessions come back, at the end of a close reason such as `closing 20000` (R43).
fn spread_of(code: u16, reason: &str) -> Option<u64> {
    let (_, ms) = reason.rsplit_once(' ').filter(|_| matches!(code, 1012 | 4429))?;
    ms.parse().ok().map(|ms: u64| ms.min(SPREAD_MAX_MS))
}

/// Why a server closed a socket, if it gives a reason. A refused token is handled elsewhere, and a missing
/// org is no error: nothing may have been written to it yet.
fn close_error(code: u16, reason: &str) -> Option<Error> {
    let found = match code {
        1008 => Code::parse(reason).unwrap_or(Code::ServerRefused),
        1011 => Code::ServerError,
        1012 | 1013 => Code::Unavailable,
        4429 => Code::TooMany,
        CLOSE_TOKEN => return None,
        3000..=4999 => Code::ServerRefused,
        _ => return None,
    };
    let reason: String = reason.chars().filter(|c| !c.is_control()).take(200).collect();
    let detail = format!("the server closed the socket with {code} {reason}");
    (found != Code::UnknownOrg).then(|| Error::new(found, detail.trim_end()))
}
