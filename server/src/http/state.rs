//! The state that all connections of an instance share.

use std::sync::Arc;
use std::time::Duration;

use escale::{Code, Error, Result};
use tokio::sync::{RwLock, Semaphore, watch};

use super::admission::{Gate, HeavyLane, Traffic};
use super::auth::{Accounts, Admitted, Tokens};
use super::entering::Proxies;
use super::hub::Hub;
use super::operating::{Health, Metrics};
use super::origin::Origins;
use crate::accounts::{AccountTokens, SignedIn};
use crate::engine::{Caller, Engine, Restrictions, check_enters};

/// The state that all connections share.
pub(super) struct Server {
    pub engine: Arc<Engine>,
    pub tokens: Tokens,
    /// The accounts, if there are any.
    pub accounts: Option<Accounts>,
    pub origins: Origins,
    pub proxies: Proxies,
    pub compresses: bool,
    pub first_max: Duration,
    pub body_max: Duration,
    /// Whether callers speak TLS with this process itself.
    pub is_tls: bool,
    pub request_max: Duration,
    pub send_max: Duration,
    pub alive_every: Duration,
    pub token_every: Duration,
    /// Bytes of the names of defs that a socket may follow.
    pub defs_bytes_max: usize,
    pub hub: Arc<Hub>,
    pub requests: Arc<Traffic>,
    pub uploads: Arc<Traffic>,
    pub downloads: Arc<Traffic>,
    pub sockets: Arc<Gate>,
    pub heavy: HeavyLane,
    /// The turn of a large message of a socket.
    pub large_messages: Semaphore,
    /// The turn of a socket that looks at its rights again.
    pub decisions: Semaphore,
    pub health: Health,
    pub metrics: Metrics,
    /// How long sockets take to close, each at a moment of its own, when the server stops (R45).
    pub drain: Duration,
    /// Pulls a second that the instance causes (R42).
    pub pulls: u64,
    /// Each socket holds a read lock while it is served. A successful write lock means that there is no
    /// socket.
    pub open: Arc<RwLock<()>>,
    pub stop: watch::Sender<bool>,
}

impl Server {
    /// Admits the bearer of a token to an org, or not.
    pub(super) async fn admit(self: &Arc<Self>, token: Option<&str>, org: &str) -> Result<Admitted> {
        let admitted = match self.signed_in(token, org).await? {
            Some(signed_in) => signed_in.into(),
            None => self.tokens.admit(token, org, self.engine.clock_ms())?,
        };
        self.restrict(admitted, org).await
    }

    /// The admitted as it is restricted now (R89). Errors: `account_closed`, and those of the database.
    async fn restrict(self: &Arc<Self>, admitted: Admitted, org: &str) -> Result<Admitted> {
        let Admitted { account, caller } = admitted;
        let restriction = if let Some(known) = Restrictions::of(&self.engine).known(org, &caller) {
            known
        } else {
            let (server, org, caller) = (Arc::clone(self), org.to_owned(), caller.clone());
            let read = move || Restrictions::of(&server.engine).read(&org, &caller);
            let panicked = |_| Error::new(Code::ServerError, "a request ended by a panic");
            tokio::task::spawn_blocking(read).await.map_err(panicked)??
        };
        let caller = Caller { restriction, ..caller };
        check_enters(&self.engine, org, &caller)?;
        Ok(Admitted { account, caller })
    }

    /// The account of a token, if the token is one of an account and valid.
    pub(super) async fn signed_in(
        self: &Arc<Self>,
        token: Option<&str>,
        org: &str,
    ) -> Result<Option<SignedIn>> {
        let (Some(accounts), Some(token)) = (&self.accounts, token) else { return Ok(None) };
        let now_ms = self.engine.clock_ms();
        let is_settled =
            |signed_in: &Option<SignedIn>| signed_in.as_ref().is_none_or(|one| !one.is_to_be_noted(now_ms));
        if let Some(known) = accounts.tokens.known(org, token, now_ms).filter(is_settled) {
            return Ok(known);
        }
        let (server, token, org) = (Arc::clone(self), token.to_owned(), org.to_owned());
        let read = move || match &server.accounts {
            Some(accounts) => enter(&accounts.tokens, &server.engine, &org, &token),
            None => Ok(None),
        };
        // An error here is a panic of the task, which is in the log.
        let panicked = |_| Error::new(Code::ServerError, "a request ended by a panic");
        tokio::task::spawn_blocking(read).await.map_err(panicked)?
    }

    /// The same for a socket that is open. The follower of the feed looks at the file of tokens before it passes on any
    /// commit, and ten times a second. Only a token that is not in memory is read: it was perhaps read while an account
    /// changed, and so was not noted.
    pub(super) async fn admit_again(self: &Arc<Self>, token: Option<&str>, org: &str) -> Result<Admitted> {
        let admitted = match self.bearer_in_memory(token, org) {
            Err(error) if error.code() == Code::Unauthorized => {
                self.signed_in(token, org).await?.ok_or(error)?.into()
            }
            found => found?,
        };
        self.restrict(admitted, org).await
    }

    fn bearer_in_memory(&self, token: Option<&str>, org: &str) -> Result<Admitted> {
        if let (Some(accounts), Some(token)) = (&self.accounts, token)
            && let Some(Some(signed_in)) = accounts.tokens.known(org, token, self.engine.clock_ms())
        {
            return Ok(signed_in.into());
        }
        self.tokens.admit_again(token, org, self.engine.clock_ms())
    }
}

/// The bearer of a token, whose use is noted. A database that takes no writes keeps nobody out.
fn enter(tokens: &AccountTokens, engine: &Engine, org: &str, token: &str) -> Result<Option<SignedIn>> {
    let signed_in = tokens.enter(engine, org, token)?;
    if signed_in.is_some()
        && let Err(error) = tokens.note_use(engine, org, token)
    {
        tracing::warn!(%error, "the use of a device could not be noted");
    }
    Ok(signed_in)
}

impl Server {
    /// Waits for work on a request. Errors: `unavailable` if it takes too long; its end is not waited for.
    pub(super) async fn in_time<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        let late = |_| Error::new(Code::Unavailable, "the request took too long");
        tokio::time::timeout(self.request_max, work).await.map_err(late)
    }
}
