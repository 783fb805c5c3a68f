//! One instance on the network, from its start to its end.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use escale::{Code, Error, Result};
use tokio::net::{TcpListener, TcpSocket, lookup_host};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinSet;

use super::admission::{Gate, HeavyLane, Traffic};
use super::auth::{Accounts, Tokens};
use super::entering::{self, ConnectionLimits, Proxies, Tls};
use super::feed::Follower;
use super::hub::Hub;
use super::operating::{self, Health, Metrics};
use super::origin::Origins;
use super::router::router;
use super::state::Server;
use super::stopped::stopped;
use crate::accounts::SignUp;
use crate::engine::Engine;

/// How often the database is checked while nobody asks for anything (R39).
const CHECK_EVERY: Duration = Duration::from_secs(60);

/// How often old tombstones are purged.
const PURGE_EVERY: Duration = Duration::from_secs(3_600);

/// Connections that the system holds until they are accepted: after a restart, all sessions come back together. The
/// system may allow fewer.
pub(super) const BACKLOG: u32 = 4_096;

/// How long connections may take to end when the server stops.
const STOP_MAX: Duration = Duration::from_secs(5);

/// The usual bounds of [`ServeOptions`]. Those in pairs are for each caller, and for all together.
pub(super) const CONNECTIONS_MAX: usize = 2_048;
pub(super) const REQUESTS_MAX: (usize, usize) = (32, 128);
pub(super) const TRANSFERS_MAX: (usize, usize) = (8, 64);
pub(super) const SOCKETS_MAX: (usize, usize) = (128, 12_000);
pub(super) const PULLS: u64 = 400;

/// Bytes of the names of defs that a socket may follow, unless the operator gives another number.
pub const DEFS_BYTES_MAX: usize = 64 << 10;

/// The options of an instance on the network.
pub struct ServeOptions {
    /// The engine that answers.
    pub engine: Arc<Engine>,
    /// The address to listen on; port 0 takes a free one.
    pub listen: String,
    /// A path before `/{org}`, such as `/api`, or nothing.
    pub base: String,
    /// The tokens that open orgs.
    pub tokens: Tokens,
    /// Who may make an account; there are no accounts without it.
    pub sign_up: Option<SignUp>,
    /// The pages that may call.
    pub origins: Origins,
    /// The proxies in front of the server.
    pub proxies: Proxies,
    /// The certificate of the listener. Without one it speaks plain HTTP.
    pub tls: Option<Tls>,
    /// Where operators ask for health and metrics; nowhere, if there is no address.
    pub admin: Option<String>,
    /// How long sockets take to close when the server stops: not all of them come back in the same moment.
    pub drain: Duration,
    /// Whether replies are compressed for callers that accept it (R91).
    pub compresses: bool,
    /// How long a request's header, or a socket's first message, may take to arrive.
    pub header_max: Duration,
    /// How long a request's body may be silent, and how long it may be slower than the least rate.
    pub body_max: Duration,
    /// How long a request may take, beyond the time that the least rate allows its body.
    pub request_max: Duration,
    /// How long a caller may leave sent data unread.
    pub stall_max: Duration,
    /// How long a frame may take to be sent over a socket: a slower reader is disconnected.
    pub send_max: Duration,
    /// How often a socket gets a sign of life. Sessions expect one every 10 s.
    pub alive_every: Duration,
    /// How often the token of an open socket is checked, in addition to the check at each hint.
    pub token_every: Duration,
    /// Connections open at once, without admitted sockets. Above that, a new connection takes the place of
    /// the one that has been silent for longest, or waits.
    pub connections_max: usize,
    /// Requests in progress at once: for each account (or address, if there are no tokens), and in all.
    pub requests_max: (usize, usize),
    /// Uploads of objects in progress, counted in the same way, and downloads apart from them.
    pub transfers_max: (usize, usize),
    /// Sockets open at once, counted in the same way.
    pub sockets_max: (usize, usize),
    /// Bytes of the names of defs that a socket may follow.
    pub defs_bytes_max: usize,
    /// Pulls that hints and confirmations may cause in a second (R42).
    pub pulls: u64,
}

impl ServeOptions {
    /// The ordinary limits, without tokens.
    pub fn new(engine: Arc<Engine>, listen: &str) -> Self {
        ServeOptions {
            engine,
            listen: listen.to_owned(),
            base: String::new(),
            tokens: Tokens::none(),
            sign_up: None,
            origins: Origins::default(),
            proxies: Proxies::default(),
            tls: None,
            admin: None,
            drain: Duration::ZERO,
            compresses: true,
            header_max: Duration::from_secs(10),
            body_max: Duration::from_secs(30),
            request_max: Duration::from_secs(60),
            stall_max: Duration::from_secs(30),
            send_max: Duration::from_secs(10),
            alive_every: Duration::from_secs(8),
            token_every: Duration::from_secs(2),
            connections_max: CONNECTIONS_MAX,
            requests_max: REQUESTS_MAX,
            transfers_max: TRANSFERS_MAX,
            sockets_max: SOCKETS_MAX,
            defs_bytes_max: DEFS_BYTES_MAX,
            pulls: PULLS,
        }
    }
}

/// A running instance.
pub struct Running {
    /// The address that it listens on.
    pub address: SocketAddr,
    /// The address for operators, if there is one.
    pub admin: Option<SocketAddr>,
    server: Arc<Server>,
    tasks: JoinSet<()>,
}

/// Starts listening. Errors: `bad_option` for an address that is not available.
pub async fn start(options: ServeOptions) -> Result<Running> {
    let base = check_base(&options.base)?;
    let (listener, address) = bind("--listen", &options.listen).await?;
    let admin = match &options.admin {
        Some(admin) => Some(bind("--admin", admin).await?),
        None => None,
    };
    let hub = Arc::new(Hub::new(options.pulls, u64::from_le_bytes(random()?)));
    let needs_tokens = options.sign_up.is_some() || options.tokens.are_required();
    let traffic = |most, lines_max| Traffic::new(most, lines_max, needs_tokens, options.body_max);
    let server = Arc::new(Server {
        engine: Arc::clone(&options.engine),
        tokens: if options.sign_up.is_some() { options.tokens.required() } else { options.tokens },
        accounts: options.sign_up.map(Accounts::new),
        origins: options.origins,
        proxies: options.proxies,
        compresses: options.compresses,
        first_max: options.header_max,
        body_max: options.body_max,
        is_tls: options.tls.is_some(),
        request_max: options.request_max,
        send_max: options.send_max,
        alive_every: options.alive_every,
        token_every: options.token_every,
        defs_bytes_max: options.defs_bytes_max,
        hub: Arc::clone(&hub),
        requests: traffic(options.requests_max, usize::MAX),
        uploads: traffic(options.transfers_max, options.transfers_max.1),
        downloads: traffic(options.transfers_max, options.transfers_max.1),
        sockets: Gate::new(options.sockets_max, needs_tokens),
        heavy: HeavyLane::new()?,
        large_messages: Semaphore::new(1),
        decisions: Semaphore::new(1),
        health: Health::default(),
        metrics: Metrics::new(&options.engine.figures),
        drain: options.drain,
        pulls: options.pulls,
        open: Arc::default(),
        stop: watch::Sender::new(false),
    });
    let committed = Arc::new(Notify::new());
    options.engine.on_commit({
        let (committed, commits) = (Arc::clone(&committed), server.metrics.commits.clone());
        move || {
            commits.inc();
            committed.notify_one();
        }
    });
    let mut tasks = JoinSet::new();
    tasks.spawn(hub.run(server.stop.subscribe()));
    let follower = Follower::new(Arc::clone(&server))?;
    tasks.spawn(follower.run(committed, server.stop.subscribe()));
    tasks.spawn(purge(Arc::clone(&server), server.stop.subscribe()));
    tasks.spawn(check(Arc::clone(&server), server.stop.subscribe()));
    let limits = ConnectionLimits {
        header: options.header_max,
        stall: options.stall_max,
        places: options.connections_max,
        tls: options.tls,
    };
    let router = router(Arc::clone(&server), &base);
    tasks.spawn(entering::run(listener, Arc::clone(&server), router, limits));
    let admin = admin.map(|(listener, address)| {
        tasks.spawn(operating::serve(listener, Arc::clone(&server)));
        address
    });
    Ok(Running { address, admin, server, tasks })
}

async fn bind(option: &str, address: &str) -> Result<(TcpListener, SocketAddr)> {
    let bad = |e: std::io::Error| Error::new(Code::BadOption, format!("{option} {address}: {e}"));
    let mut found = lookup_host(address).await.map_err(bad)?.peekable();
    let listener = loop {
        let Some(at) = found.next() else { return Err(bad(io::ErrorKind::AddrNotAvailable.into())) };
        match listen(at) {
            Ok(listener) => break listener,
            Err(error) if found.peek().is_none() => return Err(bad(error)),
            Err(_) => {}
        }
    };
    let address = listener.local_addr().map_err(bad)?;
    Ok((listener, address))
}

fn random() -> Result<[u8; 8]> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|e| Error::new(Code::Internal, e.to_string()))?;
    Ok(bytes)
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // As `TcpListener::bind` does: otherwise an instance could not follow another one on its port at once.
    #[cfg(not(windows))]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

impl Running {
    /// Says that the instance is not ready any more: a load balancer sends no new callers (R45). Everything is still
    /// answered.
    pub fn drain(&self) {
        self.server.health.drain();
    }

    /// Stops: accepts no new connection, answers the requests in progress, and closes the sockets.
    pub async fn stop(mut self) {
        self.server.stop.send_replace(true);
        let open = Arc::clone(&self.server.open);
        let ended = async {
            while self.tasks.join_next().await.is_some() {}
            // A connection's task ends when it becomes a socket. The lock waits until the sockets have said
            // goodbye.
            drop(open.write().await);
        };
        if tokio::time::timeout(STOP_MAX + self.server.drain, ended).await.is_err() {
            tracing::warn!("some connections did not end in time");
            self.tasks.shutdown().await;
        }
    }
}

fn check_base(base: &str) -> Result<String> {
    let base = base.trim_end_matches('/');
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_' | '.');
    if base.is_empty() || (base.starts_with('/') && !base.contains("//") && base.chars().all(plain)) {
        return Ok(base.to_owned());
    }
    Err(Error::new(Code::BadOption, format!("--base {base}: write it as /api")))
}

async fn purge(server: Arc<Server>, mut stop: watch::Receiver<bool>) {
    let mut ticks = tokio::time::interval(PURGE_EVERY);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = stopped(&mut stop) => return,
        }
        let engine = Arc::clone(&server.engine);
        match tokio::task::spawn_blocking(move || engine.purge()).await {
            Ok(Ok(0)) => {}
            Ok(Ok(n)) => {
                server.metrics.purged.inc_by(n);
                tracing::info!(n, "old tombstones and departures purged");
            }
            Ok(Err(error)) => tracing::warn!(%error, "the purge failed; it is tried again in an hour"),
            Err(error) => tracing::error!(%error, "the purge failed"),
        }
    }
}

async fn check(server: Arc<Server>, mut stop: watch::Receiver<bool>) {
    let mut ticks = tokio::time::interval(CHECK_EVERY);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = stopped(&mut stop) => return,
        }
        let engine = Arc::clone(&server.engine);
        match tokio::task::spawn_blocking(move || engine.check_database()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                server.metrics.database_failures.inc();
                tracing::warn!(%error, "the database was not checked; it is tried again");
            }
            Err(error) => tracing::error!(%error, "the check of the database failed"),
        }
    }
}
