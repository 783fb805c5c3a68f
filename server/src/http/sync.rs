//! `POST {base}/{org}/sync`: reads a request, and answers it on a suitable thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, Response, StatusCode, header};
use escale::codec::{Format, SyncRequest, decode};
use escale::limits::REQUEST_BYTES_MAX;
use escale::{Code, Error};
use tracing::Span;

use super::auth::{Guest, bearer};
use super::entering::Connection;
use super::linger::leaving;
use super::rate_limit::{Full, Gate, Slot};
use super::reply::{Refusal, format_of, message};
use super::request_cost::{HEAVY_BYTES_MAX, LIGHT_BYTES_MAX, weight};
use super::state::{Peer, Server};
use crate::engine::answer_while;

/// Bytes of a body that is small enough to be weighed on this thread.
const IN_PASSING: usize = 16 << 10;

pub(super) async fn sync(
    server: Arc<Server>,
    org: &str,
    from: (Peer, Arc<Connection>),
    request: Request<Body>,
) -> Response<Body> {
    let format = format_of(request.headers());
    let answered = answer(server, org, from, format, request).await;
    answered.unwrap_or_else(|refusal| refusal.into_response(format.unwrap_or(Format::Json)))
}

async fn answer(
    server: Arc<Server>,
    org: &str,
    (peer, connection): (Peer, Arc<Connection>),
    format: Option<Format>,
    request: Request<Body>,
) -> Result<Response<Body>, Refusal> {
    let malformed = |what: &str| Refusal::new(StatusCode::BAD_REQUEST, Code::Malformed, what);
    let (guest, slot) = enter(&server, &server.requests, org, (peer, request.headers())).await?;
    let engaged = connection.engage();
    let format =
        format.ok_or_else(|| malformed("Content-Type must be application/msgpack or application/json"))?;
    let bytes = body(request, REQUEST_BYTES_MAX, server.body_max).await?;
    let weight = weigh(format, &bytes).await?;
    let waits = Waits::default();
    let run = {
        let (server, org, span) = (Arc::clone(&server), org.to_owned(), Span::current());
        let has_gone = Arc::clone(&waits.has_gone);
        move || {
            let _in = span.enter();
            let request: SyncRequest = decode(format, &bytes, REQUEST_BYTES_MAX)?;
            request.check()?;
            let reply = answer_while(&server.engine, (&org, &guest.caller), &request, &has_gone)?;
            server.metrics.ended(&reply.results);
            // The place is kept during the work: a caller that hangs up must not make room for more work than
            // the gate allows. It is kept while the reply is read, too: slow readers must not hold more
            // replies than that.
            Ok::<_, Error>(
                message(StatusCode::OK, format, &reply).map(|bytes| leaving(bytes, (slot, engaged))),
            )
        }
    };
    let reply = if weight > LIGHT_BYTES_MAX {
        server.heavy.run(run).await
    } else {
        // An error here is a panic of the task, which is in the log.
        let panicked = |_| Error::new(Code::ServerError, "a request ended by a panic");
        tokio::task::spawn_blocking(run).await.map_err(panicked)
    };
    Ok(reply??)
}

/// A caller that waits for its answer. It is dropped with the request, also if the connection closes. The work is on
/// another thread, which learns of it here.
#[derive(Default)]
struct Waits {
    has_gone: Arc<AtomicBool>,
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.has_gone.store(true, Ordering::Relaxed);
    }
}

/// Admits a caller, and takes a place for it. The caller is checked before anything else is read.
pub(super) async fn enter(
    server: &Arc<Server>,
    gate: &Arc<Gate>,
    org: &str,
    (peer, headers): (Peer, &HeaderMap),
) -> escale::Result<(Guest, Slot)> {
    let guest = server.admit(bearer(text(headers, &header::AUTHORIZATION)), org).await?;
    let caller = guest.account.clone().unwrap_or_else(|| peer.0.to_string());
    let slot = place(gate, &caller)?;
    Ok((guest, slot))
}

/// Takes a place for a caller. Errors: `too_many`, `unavailable`.
pub(super) fn place(gate: &Arc<Gate>, caller: &str) -> escale::Result<Slot> {
    gate.enter(caller).map_err(|full| match full {
        Full::Caller => Error::new(Code::TooMany, "too many requests at once"),
        Full::Server => Error::new(Code::Unavailable, "the server is busy"),
    })
}

/// Estimates the memory of the decoded message. Refuses the request if that is too much.
async fn weigh(format: Format, bytes: &axum::body::Bytes) -> Result<usize, Refusal> {
    let weight = if bytes.len() < IN_PASSING {
        weight(format, bytes)
    } else {
        let bytes = bytes.clone();
        let weighed = tokio::task::spawn_blocking(move || weight(format, &bytes)).await;
        weighed.map_err(|error| Error::new(Code::ServerError, error.to_string()))?
    };
    if weight > HEAVY_BYTES_MAX {
        let what = "the request has too many values: send fewer operations at once";
        return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, Code::TooLarge, what));
    }
    Ok(weight)
}

/// Reads the body of a request, of at most so many bytes.
pub(super) async fn body(
    request: Request<Body>,
    bytes_max: usize,
    body_max: Duration,
) -> Result<axum::body::Bytes, Refusal> {
    let too_large = || {
        let text = format!("a request has at most {bytes_max} bytes");
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, Code::TooLarge, text)
    };
    let announced = text(request.headers(), &header::CONTENT_LENGTH).and_then(|n| n.parse::<u64>().ok());
    if announced.is_some_and(|n| n > bytes_max as u64) {
        return Err(too_large());
    }
    let read = to_bytes(request.into_body(), bytes_max);
    match tokio::time::timeout(body_max, read).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) if is_length_limit(&error) => Err(too_large()),
        Ok(Err(_)) => Err(Refusal::new(StatusCode::BAD_REQUEST, Code::Malformed, "the body is cut short")),
        Err(_) => {
            Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, Code::Timeout, "the body took too long to arrive"))
        }
    }
}

fn is_length_limit(error: &axum::Error) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        if inner.is::<http_body_util::LengthLimitError>() {
            return true;
        }
        source = inner.source();
    }
    false
}

pub(super) fn text<'h>(headers: &'h HeaderMap, name: &header::HeaderName) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}
