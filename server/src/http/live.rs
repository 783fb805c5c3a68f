//! `GET {base}/{org}/live`: hints over a WebSocket.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::ws::{CloseFrame, Message, WebSocket};
use escale::codec::{Fault, Format, LiveRequest, ServerFrame, encode};
use escale::model::{Def, DefKind, Version};
use escale::{Code, Error};
use tokio::sync::SemaphorePermit;
use tokio::time::{Instant, timeout};

use super::admission::{Holder, read_message, turn_of_message};
use super::entering::{Connection, Peer};
use super::hub::{Doubt, Seat, Turn};
use super::state::Server;
use super::stopped::stopped;
use crate::engine::{Access, Caller, Follower, Readable, head, single_items};

/// Bytes that a socket reads at once. It keeps room for them as long as it is open, and most sockets send one small
/// message.
pub(super) const READ_BYTES: usize = 8 << 10;

/// Messages that a session may send within [`MESSAGES_EVERY`]. It sends one for each change of its
/// subscriptions.
const MESSAGES_MAX: u32 = 100;
const MESSAGES_EVERY: Duration = Duration::from_secs(10);

/// Confirmations that a socket may wait for. A session that says more keeps the latest ones.
const UNCONFIRMED_MAX: usize = 4;

/// Close codes: first those of the protocol, then those registered for WebSocket (RFC 6455).
const CLOSE_TOKEN: u16 = 4401;
const CLOSE_TOO_MANY: u16 = 4429;
const CLOSE_POLICY: u16 = 1008;
const CLOSE_ERROR: u16 = 1011;
const CLOSE_RESTART: u16 = 1012;

/// The reason for closing a socket.
struct Closing {
    code: u16,
    reason: String,
}

impl Closing {
    fn new(code: u16, reason: &str) -> Self {
        Closing { code, reason: reason.to_owned() }
    }
}

impl Closing {
    /// A reason that ends in the milliseconds over which the sessions of this instance come back (R43).
    fn spread(code: u16, reason: &str, server: &Server) -> Self {
        let sockets = u64::try_from(server.metrics.sockets.get()).unwrap_or(0);
        Closing::new(code, &format!("{reason} {}", sockets * 1_000 / server.pulls.max(1)))
    }
}

impl From<Error> for Closing {
    fn from(error: Error) -> Self {
        let code = match error.code() {
            Code::Unauthorized | Code::Forbidden | Code::AccountClosed => CLOSE_TOKEN,
            Code::TooMany => CLOSE_TOO_MANY,
            Code::Malformed | Code::TooLarge | Code::TooDeep | Code::WrongProtocol | Code::UnknownOrg => {
                CLOSE_POLICY
            }
            _ => {
                tracing::error!(%error, "a socket failed");
                return Closing::new(CLOSE_ERROR, Code::ServerError.as_str());
            }
        };
        Closing::new(code, error.code().as_str())
    }
}

/// One socket, from its upgrade to its end.
struct Live {
    server: Arc<Server>,
    org: String,
    token: Option<String>,
    /// The caller, as the token was last admitted.
    caller: Caller,
    socket: WebSocket,
    format: Format,
    messages: (Instant, u32),
    /// Confirmations that wait for the first turn of the socket.
    unconfirmed: Vec<ServerFrame>,
    /// Defs that the session asked for, and that a restriction keeps from it for now (R89).
    withheld: HashSet<Def>,
    /// When time ends the first of its rights (R99).
    until: Option<Version>,
}

/// Serves a socket until either side closes it. `token` is from the header of the upgrade, if it has one.
pub(super) async fn serve(
    server: Arc<Server>,
    org: String,
    (peer, connection): (Peer, Arc<Connection>),
    token: Option<String>,
    socket: WebSocket,
) {
    let _open = Arc::clone(&server.open).read_owned().await;
    let messages = (Instant::now(), 0);
    let (format, unconfirmed) = (Format::Json, Vec::new());
    let caller = Caller::default();
    let withheld = HashSet::new();
    let mut live =
        Live { server, org, token, caller, socket, format, messages, unconfirmed, withheld, until: None };
    let closing = match live.run(peer, connection).await {
        // The other side closed it, or has disappeared.
        Ok(()) => return,
        Err(closing) => closing,
    };
    let frame = CloseFrame { code: closing.code, reason: closing.reason.into() };
    // Waits for the answer to the close frame, so that the frame is not lost with the connection.
    let goodbye = async {
        if live.socket.send(Message::Close(Some(frame))).await.is_ok() {
            while let Some(Ok(_)) = live.socket.recv().await {}
        }
    };
    drop(timeout(Duration::from_secs(2), goodbye).await);
}

/// The defs of a session, as its account may read them, and the version of the org at that moment.
#[derive(Default)]
struct Decided {
    kept: HashSet<Def>,
    withdrawn: HashSet<Def>,
    blocked: HashSet<Def>,
    v: Version,
    until: Option<Version>,
}

/// A socket in the count of open ones, until it is dropped.
struct Counted(Arc<Server>);

impl Counted {
    fn new(server: &Arc<Server>) -> Self {
        server.metrics.sockets.inc();
        Counted(Arc::clone(server))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.metrics.sockets.dec();
    }
}

/// The refusal of a def that the account may not read, or not now.
fn refusal(def: Def, blocked: &HashSet<Def>) -> (Def, Fault) {
    let fault = if blocked.contains(&def) {
        Fault::new(Code::Blocked, "the account is restricted")
    } else {
        Fault::new(Code::Withdrawn, "the rules do not let this account read that")
    };
    (def, fault)
}

/// A random part of a time.
fn part_of(whole: Duration) -> Duration {
    let mut random = <[u8; 4]>::default();
    if getrandom::fill(&mut random).is_err() {
        return Duration::ZERO;
    }
    whole.mul_f64(f64::from(u32::from_be_bytes(random)) / f64::from(u32::MAX))
}

async fn until(moment: Option<Instant>) {
    if let Some(moment) = moment {
        tokio::time::sleep_until(moment).await;
    }
}

impl Live {
    async fn run(&mut self, peer: Peer, connection: Arc<Connection>) -> Result<(), Closing> {
        let first_max = self.server.first_max;
        let first = tokio::select! {
            first = timeout(first_max, self.receive()) => first,
            () = connection.must_leave() => {
                return Err(Closing::new(CLOSE_TOO_MANY, Code::TooMany.as_str()));
            }
        };
        let Ok(first) = first else {
            return Err(Closing::new(CLOSE_POLICY, Code::Timeout.as_str()));
        };
        let Some(first) = first? else { return Ok(()) };
        let server = Arc::clone(&self.server);
        let turn = turn_of_message(&server, &first).await;
        self.format = first.0;
        let first = read_message(&server, first)?;
        self.token = first.token.clone().or(self.token.take());
        let admitted = self.server.admit(self.token.as_deref(), &self.org).await?;
        self.caller = admitted.caller;
        let holder = Holder::of(admitted.account.as_deref(), peer);
        let full = |_| Closing::spread(CLOSE_TOO_MANY, Code::TooMany.as_str(), &self.server);
        let _place = self.server.sockets.enter(&holder).map_err(full)?;
        let _counted = Counted::new(&self.server);
        // From here on the socket limit applies to it, not the connection limit.
        drop(connection);
        let mut seat = self.server.hub.join(&self.org);
        self.register(&mut seat, first, turn).await?;

        let mut alive = tokio::time::interval(self.server.alive_every);
        alive.reset();
        let mut look = tokio::time::interval(self.server.token_every);
        let mut stop = self.server.stop.subscribe();
        let mut closes_at = None;
        loop {
            tokio::select! {
                turn = seat.turn() => {
                    self.check_token(&mut seat).await?;
                    match turn {
                        Turn::Rights(doubt) => self.look_at_rights(&mut seat, doubt, false).await?,
                        Turn::Live => for frame in std::mem::take(&mut self.unconfirmed) {
                            self.confirm(frame).await?;
                        },
                        // The account may have lost a def since the turn was given.
                        Turn::Pushes(frames) => for frame in frames {
                            if seat.defs().contains(&frame.def) {
                                self.send_bytes(frame.format, frame.bytes).await?;
                            }
                        },
                        Turn::Hints(mut hints) => {
                            hints.retain(|(def, _)| seat.defs().contains(def));
                            self.hint(hints).await?;
                        }
                    }
                }
                _ = look.tick() => self.check_token(&mut seat).await?,
                _ = alive.tick() => self.send(&ServerFrame::Alive).await?,
                () = stopped(&mut stop), if closes_at.is_none() => {
                    // Not all sessions come back in the same moment (R45).
                    closes_at = Some(Instant::now() + part_of(self.server.drain));
                }
                () = until(closes_at), if closes_at.is_some() => {
                    return Err(Closing::spread(CLOSE_RESTART, "closing", &self.server));
                }
                message = self.receive() => {
                    let Some(message) = message? else { return Ok(()) };
                    let turn = turn_of_message(&server, &message).await;
                    self.format = message.0;
                    let message = read_message(&server, message)?;
                    if message.token.is_some() {
                        self.token.clone_from(&message.token);
                    }
                    // Its token may be newer than the last look at the file.
                    self.caller = self.server.admit(self.token.as_deref(), &self.org).await?.caller;
                    self.register(&mut seat, message, turn).await?;
                }
            }
        }
    }

    /// Closes the socket if its token was withdrawn or has expired, and looks at rights that time has ended, before anything
    /// more is sent.
    async fn check_token(&mut self, seat: &mut Seat) -> Result<(), Closing> {
        let caller = self.server.admit_again(self.token.as_deref(), &self.org).await?.caller;
        let is_over = self.until.is_some_and(|until| until <= self.server.engine.clock_ms());
        if caller == self.caller && !is_over {
            return Ok(());
        }
        let is_news = caller.level() != self.caller.level() || caller.role() != self.caller.role();
        self.caller = caller;
        self.look_at_rights(seat, Doubt::All, is_news).await
    }

    /// Gives up the defs that the account may not read any more, and takes up those that a restriction kept from it. Each
    /// gets a hint, so that the session pulls it and learns of it (R86, R89). If `is_news`, at least one def gets a hint: the
    /// reply tells the restriction and the role. The decisions of all sockets wait for one turn, so that a write which many
    /// of them follow leaves room for other work.
    async fn look_at_rights(&mut self, seat: &mut Seat, doubt: Doubt, is_news: bool) -> Result<(), Closing> {
        if !self.is_decided() && self.withheld.is_empty() && !is_news {
            return Ok(());
        }
        let until = self.until.filter(|_| matches!(doubt, Doubt::Defs(_)));
        let has = |def: &Def| seat.defs().contains(def) || self.withheld.contains(def);
        let doubtful: Vec<Def> = match doubt {
            Doubt::All => seat.defs().union(&self.withheld).cloned().collect(),
            Doubt::Defs(defs) => defs.into_iter().filter(has).collect(),
        };
        if doubtful.is_empty() && !is_news {
            return Ok(());
        }
        let server = Arc::clone(&self.server);
        let turn = server.decisions.acquire().await;
        let Decided { kept, withdrawn, blocked, v, .. } = self.decide(doubtful).await?;
        drop(turn);
        // The others may end earlier than these.
        self.until = self.until.into_iter().chain(until).min();
        let fresh: Vec<Def> = kept.difference(seat.defs()).cloned().collect();
        let gone: HashSet<&Def> =
            withdrawn.iter().chain(&blocked).filter(|def| seat.defs().contains(*def)).collect();
        let lost = withdrawn.iter().chain(blocked.difference(&self.withheld));
        let mut changed: Vec<Def> = lost.chain(&fresh).cloned().collect();
        if is_news && changed.is_empty() {
            changed.extend(kept.iter().chain(&blocked).min().cloned());
        }
        if !fresh.is_empty() || !gone.is_empty() {
            let stays = seat.defs().iter().filter(|def| !gone.contains(*def));
            seat.listen(stays.chain(&fresh).cloned().collect());
            // Their parents decide over them again.
            self.note_items(&fresh).await?;
        }
        self.withheld.retain(|def| !kept.contains(def) && !withdrawn.contains(def));
        self.withheld.extend(blocked.iter().cloned());
        if seat.is_new() {
            // The confirmation says it, and the session pulls the others after that.
            self.take_back(&gone);
            return Ok(());
        }
        changed.sort();
        self.hint(changed.into_iter().map(|def| (def, v)).collect()).await
    }

    async fn hint(&mut self, hints: Vec<(Def, Version)>) -> Result<(), Closing> {
        if hints.is_empty() {
            return Ok(());
        }
        self.server.metrics.hints.inc_by(hints.len() as u64);
        self.send(&ServerFrame::Hints(hints)).await
    }

    /// Confirms none of these, which the account has lost since it asked.
    fn take_back(&mut self, lost: &HashSet<&Def>) {
        for frame in &mut self.unconfirmed {
            let ServerFrame::Live { live, refused, .. } = frame else { continue };
            let lost = live.extract_if(.., |def| lost.contains(def));
            refused.extend(lost.map(|def| refusal(def, &self.withheld)));
        }
    }

    /// Whether the account may be refused any def.
    fn is_decided(&self) -> bool {
        Access::of(&self.server.engine).is_decided_for_caller(&self.org, &self.caller)
    }

    /// Which of these defs the account may read.
    async fn decide(&mut self, defs: Vec<Def>) -> Result<Decided, Closing> {
        let (server, org, caller) = (Arc::clone(&self.server), self.org.clone(), self.caller.clone());
        let decided = tokio::task::spawn_blocking(move || {
            // Each naming of a def would take as much work as another def.
            let defs: Vec<Def> = defs.into_iter().collect::<HashSet<_>>().into_iter().collect();
            let decision = Access::of(&server.engine).readable(&org, &caller, &defs)?;
            let mut decided = Decided { v: decision.v, until: decision.until, ..Decided::default() };
            for (def, readable) in defs.into_iter().zip(decision.readable) {
                match readable {
                    Readable::Yes => decided.kept.insert(def),
                    Readable::Withdrawn => decided.withdrawn.insert(def),
                    Readable::Blocked => decided.blocked.insert(def),
                };
            }
            Ok::<_, Error>(decided)
        });
        let panicked = |_| Error::new(Code::ServerError, "a decision ended by a panic");
        let decided = decided.await.map_err(panicked)??;
        self.until = decided.until;
        Ok(decided)
    }

    /// Subscribes to the defs of the message, and confirms. Every change after the confirmation is hinted. The first
    /// confirmation waits for its turn: after a restart all sessions come back together, and pull at their confirmation.
    /// The turn ends before anything is sent: a session that reads nothing must not keep it.
    async fn register(
        &mut self,
        seat: &mut Seat,
        message: LiveRequest,
        turn: Option<SemaphorePermit<'_>>,
    ) -> Result<(), Closing> {
        let mut live = Vec::new();
        let mut refused = Vec::new();
        for def in message.subs {
            match self.server.engine.schema().check_def(&def) {
                Ok(_) => live.push(def),
                Err(error) => refused.push((def, Fault::from(&error))),
            }
        }
        let follower = Follower { session: message.session, account: self.caller.account.clone() };
        seat.is_of(follower, self.format);
        self.withheld.clear();
        if self.is_decided() {
            // It listens first: a change of its rights during the decision is noticed.
            seat.listen(live.iter().cloned().collect());
            let decided = self.decide(live.clone()).await?;
            for def in std::mem::take(&mut live) {
                if decided.kept.contains(&def) {
                    live.push(def);
                } else {
                    refused.push(refusal(def, &decided.blocked));
                }
            }
            self.withheld = decided.blocked;
        }
        seat.listen(live.iter().cloned().collect::<HashSet<_>>());
        self.note_items(&live).await?;
        drop(turn);
        let confirmation = ServerFrame::confirm(live, refused);
        if seat.is_new() {
            if self.unconfirmed.len() == UNCONFIRMED_MAX {
                self.unconfirmed.remove(0);
            }
            self.unconfirmed.push(confirmation);
            return Ok(());
        }
        self.confirm(confirmation).await
    }

    /// Tells the hub the parents of single items, which end with them (R17). Those of items that come later, the feed tells.
    async fn note_items(&mut self, defs: &[Def]) -> Result<(), Closing> {
        let singles: Vec<Def> = {
            let schema = self.server.engine.schema();
            let is_item =
                |def: &Def| schema.class(def.class().as_str()).is_ok_and(|class| class.parent().is_some());
            let is_single = |def: &&Def| matches!(def.kind(), DefKind::Document(_)) && is_item(def);
            defs.iter().filter(is_single).cloned().collect()
        };
        if singles.is_empty() {
            return Ok(());
        }
        let (server, org) = (Arc::clone(&self.server), self.org.clone());
        let read = tokio::task::spawn_blocking(move || single_items(&server.engine, &org, &singles)).await;
        let panicked = |_| Error::new(Code::ServerError, "a look for parents ended by a panic");
        let found = read.map_err(panicked)??;
        for (item, items) in &found {
            self.server.hub.note_item(&self.org, item, items);
        }
        Ok(())
    }

    /// Confirms. The head of the org is read after the registration, so a session whose defs are beyond it has missed
    /// nothing, and pulls nothing (R43). Without a head it pulls all of them.
    async fn confirm(&mut self, mut confirmation: ServerFrame) -> Result<(), Closing> {
        if let ServerFrame::Live { head: known, .. } = &mut confirmation {
            let (server, org) = (Arc::clone(&self.server), self.org.clone());
            let read = tokio::task::spawn_blocking(move || head(&server.engine, &org)).await;
            // If the database is not reached, the pull tells.
            *known = read.ok().and_then(Result::ok).flatten();
        }
        self.send(&confirmation).await
    }

    /// The next message; none once the other side has closed. Cancelling the call loses nothing.
    async fn receive(&mut self) -> Result<Option<(Format, Bytes)>, Closing> {
        loop {
            let message = match self.socket.recv().await {
                Some(Ok(Message::Text(text))) => Some((Format::Json, Bytes::from(text))),
                Some(Ok(Message::Binary(bytes))) => Some((Format::Msgpack, bytes)),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => None,
                Some(Ok(Message::Close(_)) | Err(_)) | None => return Ok(None),
            };
            self.count()?;
            if message.is_some() {
                return Ok(message);
            }
        }
    }

    fn count(&mut self) -> Result<(), Closing> {
        let (since, n) = &mut self.messages;
        if since.elapsed() > MESSAGES_EVERY {
            (*since, *n) = (Instant::now(), 0);
        }
        *n += 1;
        if *n > MESSAGES_MAX { Err(Closing::new(CLOSE_TOO_MANY, Code::TooMany.as_str())) } else { Ok(()) }
    }

    async fn send(&mut self, frame: &ServerFrame) -> Result<(), Closing> {
        let bytes = encode(self.format, frame)?;
        self.send_bytes(self.format, bytes.into()).await
    }

    async fn send_bytes(&mut self, format: Format, bytes: Bytes) -> Result<(), Closing> {
        let message = match format {
            Format::Msgpack => Message::Binary(bytes),
            Format::Json => {
                let text = bytes
                    .try_into()
                    .map_err(|e: std::str::Utf8Error| Error::new(Code::Internal, e.to_string()))?;
                Message::Text(text)
            }
        };
        match timeout(self.server.send_max, self.socket.send(message)).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(Closing::new(CLOSE_POLICY, "slow_reader")),
        }
    }
}
