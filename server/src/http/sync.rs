//! `POST {base}/{org}/sync`: reads a request, and answers it on a suitable thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::Body;
use axum::http::{HeaderMap, Request, Response, StatusCode, header};
use escale::codec::{Format, SyncRequest, decode};
use escale::limits::REQUEST_BYTES_MAX;
use escale::{Code, Error};
use tracing::Span;

use super::admission::{HEAVY_BYTES_MAX, Holder, LIGHT_BYTES_MAX, Traffic, Visit, memory_of};
use super::auth::{Admitted, bearer};
use super::entering::{Connection, Peer};
use super::headers::text;
use super::reply::{Refusal, format_of, message};
use super::state::Server;
use crate::engine::answer_while;

/// Bytes of a body that is small enough to be estimated on this thread.
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
    let (admitted, visit) =
        enter(&server, &server.requests, org, (peer, &connection, request.headers())).await?;
    let format =
        format.ok_or_else(|| malformed("Content-Type must be application/msgpack or application/json"))?;
    let bytes = visit.body(request, REQUEST_BYTES_MAX).await?;
    let memory = estimate(format, &bytes).await?;
    // The place is kept during the work: a caller that hangs up must not make room for more work than the gate allows.
    let is_heavy = memory > LIGHT_BYTES_MAX;
    let work = if is_heavy { visit.work_in_turn()? } else { visit.work()? };
    let waits = Waits::default();
    let run = {
        let (server, org, span) = (Arc::clone(&server), org.to_owned(), Span::current());
        let has_gone = Arc::clone(&waits.has_gone);
        move || {
            let _in = span.enter();
            let request: SyncRequest = decode(format, &bytes, REQUEST_BYTES_MAX)?;
            request.check()?;
            let reply = answer_while(&server.engine, (&org, &admitted.caller), &request, &has_gone)?;
            server.metrics.ended(&reply.results);
            Ok::<_, Error>(message(StatusCode::OK, format, &reply).map(|bytes| work.leave(bytes)))
        }
    };
    let reply = if is_heavy {
        server.in_time(server.heavy.run(run)).await?
    } else {
        // An error here is a panic of the task, which is in the log.
        let panicked = |_| Error::new(Code::ServerError, "a request ended by a panic");
        server.in_time(tokio::task::spawn_blocking(run)).await?.map_err(panicked)
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

/// Admits a caller, and begins its request. The caller is checked before anything else is read.
pub(super) async fn enter(
    server: &Arc<Server>,
    traffic: &Arc<Traffic>,
    org: &str,
    (peer, connection, headers): (Peer, &Arc<Connection>, &HeaderMap),
) -> escale::Result<(Admitted, Visit)> {
    let admitted = server.admit(bearer(text(headers, &header::AUTHORIZATION)), org).await?;
    let visit = traffic.visit(&Holder::of_admitted(&admitted, peer), connection)?;
    Ok((admitted, visit))
}

/// Estimates the memory of the decoded message. Refuses the request if that is too much.
async fn estimate(format: Format, bytes: &axum::body::Bytes) -> Result<usize, Refusal> {
    let memory = if bytes.len() < IN_PASSING {
        memory_of(format, bytes)
    } else {
        let bytes = bytes.clone();
        let estimated = tokio::task::spawn_blocking(move || memory_of(format, &bytes)).await;
        estimated.map_err(|error| Error::new(Code::ServerError, error.to_string()))?
    };
    if memory > HEAVY_BYTES_MAX {
        let what = "the request has too many values: send fewer operations at once";
        return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, Code::TooLarge, what));
    }
    Ok(memory)
}
