//! `POST {base}/{org}/account`: sign-up, sign-in, devices (R74).

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::{Request, Response, StatusCode, header};
use escale::codec::{Format, decode};
use escale::model::Value;
use escale::{Code, Error};

use super::auth::bearer;
use super::entering::Connection;
use super::rate_limit::Full;
use super::reply::{Refusal, format_of, message};
use super::state::{Peer, Server};
use super::sync::text;
use crate::accounts::{Late, answer as answer_of};

/// Bytes of a request: 16 wraps with long names.
const BYTES_MAX: usize = 64 << 10;

pub(super) async fn account(
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
    if server.accounts.is_none() {
        let what = "this server has no accounts of its own: start it with --sign-up";
        return Err(Refusal::new(StatusCode::NOT_FOUND, Code::NotFound, what));
    }
    let token = bearer(text(request.headers(), &header::AUTHORIZATION)).map(str::to_owned);
    let entered = server.entered(token.as_deref(), org).await?;
    let address = peer.0;
    let place =
        entered.as_ref().map_or_else(|| address.to_string(), |entered| entered.caller.account.clone());
    let slot = server.requests.enter(&place).map_err(|full| match full {
        Full::Caller => {
            Refusal::new(StatusCode::TOO_MANY_REQUESTS, Code::TooMany, "too many requests at once")
        }
        Full::Server => {
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, Code::Unavailable, "the server is busy")
        }
    })?;
    let engaged = connection.engage();
    let format =
        format.ok_or_else(|| malformed("Content-Type must be application/msgpack or application/json"))?;
    let body = tokio::time::timeout(server.body_max, to_bytes(request.into_body(), BYTES_MAX)).await;
    let bytes = match body {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(_)) => return Err(malformed("the body is cut short, or has more than 65,536 bytes")),
        Err(_) => {
            let what = "the body took too long to arrive";
            return Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, Code::Timeout, what));
        }
    };
    let asked: Value = decode(format, &bytes, BYTES_MAX)?;
    let (server, org) = (Arc::clone(&server), org.to_owned());
    let work = move || {
        let _held = (slot, engaged);
        let Some(accounts) = &server.accounts else {
            return Err(Refusal::from(Error::new(Code::NotFound, "no accounts")));
        };
        let field = |name: &str| asked.as_map().and_then(|map| map.get(name)).and_then(Value::as_str);
        let (request, now_ms) = (field("do").unwrap_or_default(), server.engine.clock_ms());
        let login = match &entered {
            Some(entered) => entered.login.as_str(),
            None => field("login").unwrap_or_default(),
        };
        let proves = matches!(request, "sign-in" | "wraps" | "close");
        // The bearer of a valid token is not kept waiting: an attacker cannot block a renewal.
        if entered.is_none() {
            let allowed = match request {
                "sign-up" => accounts.failures.sign_up(address, now_ms),
                _ if proves => accounts.failures.check((&org, login), address, now_ms),
                _ => Ok(()),
            };
            allowed.map_err(|Late { seconds }| {
                let what = format!("too many attempts: the next one may come in {seconds} s");
                Refusal::new(StatusCode::TOO_MANY_REQUESTS, Code::TooMany, what).after(seconds)
            })?;
        }
        match answer_of(&server.engine, &org, accounts.sign_up, &asked, entered.as_ref()) {
            Ok(answer) => {
                if proves {
                    accounts.failures.succeeded((&org, login), address);
                }
                Ok(answer)
            }
            Err(error) => {
                if proves && error.code() == Code::WrongPassphrase {
                    accounts.failures.failed((&org, login), address, now_ms);
                }
                Err(error.into())
            }
        }
    };
    let panicked = |_| Error::new(Code::ServerError, "a request ended by a panic");
    let answer = tokio::task::spawn_blocking(work).await.map_err(panicked)??;
    Ok(message(StatusCode::OK, format, &answer).map(Body::from))
}
