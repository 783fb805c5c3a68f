//! `POST {base}/{org}/sync`.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, Response, StatusCode, header};
use escale::codec::{Format, SyncRequest, decode};
use escale::limits::REQUEST_BYTES_MAX;
use escale::{Code, Error};

use super::auth::bearer;
use super::gate::Full;
use super::reply::{Refusal, format_of, message};
use super::serve::{Peer, Server};

/// How long a request's body may take to arrive.
const BODY_MAX: Duration = Duration::from_secs(30);

pub(super) async fn sync(
    server: Arc<Server>,
    org: &str,
    peer: Peer,
    request: Request<Body>,
) -> Response<Body> {
    let format = format_of(request.headers());
    let answered = answer(server, org, peer, format, request).await;
    answered.unwrap_or_else(|refusal| refusal.into_response(format.unwrap_or(Format::Json)))
}

async fn answer(
    server: Arc<Server>,
    org: &str,
    peer: Peer,
    format: Option<Format>,
    request: Request<Body>,
) -> Result<Response<Body>, Refusal> {
    let malformed = |what: &str| Refusal::new(StatusCode::BAD_REQUEST, Code::Malformed, what);
    // Who asks is checked before anything else is read.
    let guest = server.tokens.admit(bearer(text(request.headers(), &header::AUTHORIZATION)), org)?;
    let caller = guest.account.clone().unwrap_or_else(|| peer.0.to_string());
    let place = server.requests.enter(&caller).map_err(|full| match full {
        Full::Caller => {
            Refusal::new(StatusCode::TOO_MANY_REQUESTS, Code::TooMany, "too many requests at once")
        }
        Full::Server => {
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, Code::Unavailable, "the server is busy")
        }
    })?;
    let format =
        format.ok_or_else(|| malformed("Content-Type must be application/msgpack or application/json"))?;
    let bytes = body(request).await?;
    let reply = tokio::task::spawn_blocking({
        let org = org.to_owned();
        move || {
            // Held here: a caller who hangs up does not make room for more work than the gate allows.
            let _place = place;
            let request: SyncRequest = decode(format, &bytes, REQUEST_BYTES_MAX)?;
            request.check()?;
            let reply = server.engine.sync(&org, &guest.caller, &request)?;
            Ok::<_, Error>(message(StatusCode::OK, format, &reply))
        }
    });
    // An error here is a panic of the task, which the log has.
    let panicked = |_| Error::new(Code::ServerError, "a request ended by a panic");
    Ok(reply.await.map_err(panicked)??)
}

async fn body(request: Request<Body>) -> Result<axum::body::Bytes, Refusal> {
    let too_large = || {
        let text = format!("a request has at most {REQUEST_BYTES_MAX} bytes");
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, Code::TooLarge, text)
    };
    let announced = text(request.headers(), &header::CONTENT_LENGTH).and_then(|n| n.parse::<u64>().ok());
    if announced.is_some_and(|n| n > REQUEST_BYTES_MAX as u64) {
        return Err(too_large());
    }
    let read = to_bytes(request.into_body(), REQUEST_BYTES_MAX);
    match tokio::time::timeout(BODY_MAX, read).await {
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
