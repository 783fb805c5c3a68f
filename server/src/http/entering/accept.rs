//! Accepts connections. The loop is our own because `axum::serve` installs no timer. Without a timer, a
//! caller who sends its header one byte at a time would keep a connection for ever.

use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, Sleep};
use tokio_rustls::server::TlsStream;

use super::connection_limiter::{Connection, ConnectionLimiter};
use super::tls::Tls;
use crate::accounts::Network;
use crate::http::entering::proxies::Peer;
use crate::http::router::answer;
use crate::http::state::Server;
use crate::http::stopped::stopped;

/// Bytes of a request's header in all.
const HEADER_BYTES_MAX: usize = 32 << 10;

pub(in crate::http) struct ConnectionLimits {
    /// How long a header may take to arrive.
    pub header: Duration,
    /// How long a caller may leave sent data unread.
    pub stall: Duration,
    /// How many connections there may be at once.
    pub places: usize,
    /// The certificate, if the listener speaks TLS.
    pub tls: Option<Tls>,
}

/// Accepts until the server stops, then waits for the connections to end.
pub(in crate::http) async fn run(
    listener: TcpListener,
    server: Arc<Server>,
    router: Router,
    limits: ConnectionLimits,
) {
    let limiter = ConnectionLimiter::new(limits.places);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.header).max_buf_size(HEADER_BYTES_MAX);
    let mut stop = server.stop.subscribe();
    let mut connections = JoinSet::new();
    'accepting: loop {
        let (stream, peer) = tokio::select! {
            () = stopped(&mut stop) => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => match accepted {
                // A listener of both families sees addresses of IPv4 within those of IPv6.
                Ok((stream, peer)) => (stream, peer.ip().to_canonical()),
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    // Most likely out of file descriptors: some become free as connections end.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
        };
        // If no connection can be evicted, this caller waits for a free slot, and further callers wait in
        // the system's queue.
        let entering = limiter.enter(Network::of(peer));
        tokio::pin!(entering);
        let slot = loop {
            tokio::select! {
                () = stopped(&mut stop) => break 'accepting,
                Some(_) = connections.join_next() => {}
                slot = entering.as_mut() => break slot,
            }
        };
        drop(stream.set_nodelay(true));
        let entry =
            Entry { server: Arc::clone(&server), router: router.clone(), http: http.clone(), slot, peer };
        let stream = Patient::new(stream, limits.stall);
        match &limits.tls {
            None => drop(connections.spawn(entry.serve(stream))),
            Some(tls) => {
                let shaken = tokio::time::timeout(limits.header, tls.acceptor().accept(stream));
                connections.spawn(entry.serve_after(shaken));
            }
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// A connection that has its place.
struct Entry {
    server: Arc<Server>,
    router: Router,
    http: http1::Builder,
    slot: Arc<Connection>,
    peer: IpAddr,
}

impl Entry {
    /// Serves over TLS, if both sides agree on its keys in time.
    async fn serve_after(
        self,
        handshake: impl Future<Output = Result<io::Result<TlsStream<Patient>>, Elapsed>>,
    ) {
        let mut stop = self.server.stop.subscribe();
        let agreed = tokio::select! {
            agreed = handshake => agreed,
            () = self.slot.must_leave() => return,
            () = stopped(&mut stop) => return,
        };
        match agreed {
            Ok(Ok(stream)) => self.serve(stream).await,
            Ok(Err(error)) => tracing::debug!(%error, "a caller does not speak TLS as the server does"),
            Err(_) => tracing::debug!("a caller did not finish the handshake of TLS in time"),
        }
    }

    /// Serves until the caller, the server or the limiter ends the connection.
    async fn serve(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let Entry { server, router, http, slot, peer } = self;
        let mut stop = server.stop.subscribe();
        let connection = Arc::clone(&slot);
        let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
            let (server, router) = (Arc::clone(&server), router.clone());
            let connection = Arc::clone(&connection);
            async move {
                let mut request = request.map(Body::new);
                let caller = Peer(Network::of(server.proxies.caller(peer, request.headers())));
                request.extensions_mut().insert(caller);
                request.extensions_mut().insert(connection);
                Ok::<_, Infallible>(answer(server, router, request).await)
            }
        });
        let connection = http.serve_connection(TokioIo::new(stream), service).with_upgrades();
        tokio::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            // Evicted: dropped even in the middle of an answer, because a newer connection needs the slot.
            () = slot.must_leave() => return,
            () = stopped(&mut stop) => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended");
        }
    }
}

/// A stream that fails if the peer reads none of the sent data for `stall_max`.
struct Patient {
    stream: TcpStream,
    stall_max: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Patient {
    fn new(stream: TcpStream, stall_max: Duration) -> Self {
        Patient { stream, stall_max, stalled: None }
    }

    fn bound<T>(&mut self, cx: &mut Context<'_>, poll: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if poll.is_ready() {
            self.stalled = None;
            return poll;
        }
        let until = Instant::now() + self.stall_max;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        match stalled.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.bound(cx, poll)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.bound(cx, poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
