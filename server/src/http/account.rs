//! `POST {base}/{org}/account`: sign-up, sign-in, devices (R74).

use std::net::IpAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{Request, Response, StatusCode, header};
use escale::codec::{Format, decode};
use escale::model::Value;
use escale::{Code, Error};
use tracing::Span;

use super::auth::{Accounts, bearer};
use super::entering::Connection;
use super::reply::{Refusal, format_of, message};
use super::state::{Peer, Server};
use super::sync::{body, place, text};
use crate::accounts::{AccountTokens, Entered, Failures, Late, answer as answer_of};

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
    let address = peer.0;
    // The places are the account's, so the token is looked up before one is taken. One that this instance does not know
    // costs a look into the database by its digest, and connections are limited.
    let entered = server.entered(token.as_deref(), org).await?;
    let caller =
        entered.as_ref().map_or_else(|| address.to_string(), |entered| entered.caller.account.clone());
    let slot = place(&server.requests, &caller)?;
    let engaged = connection.engage();
    let format =
        format.ok_or_else(|| malformed("Content-Type must be application/msgpack or application/json"))?;
    let bytes = body(request, BYTES_MAX, server.body_max).await?;
    let asked: Value = decode(format, &bytes, BYTES_MAX)?;
    let attempt = Attempt { server, org: org.to_owned(), token, entered, address, asked };
    let span = Span::current();
    let work = move || {
        let (_held, _in) = ((slot, engaged), span.enter());
        attempt.answer()
    };
    let panicked = |_| Error::new(Code::ServerError, "a request ended by a panic");
    let answer = tokio::task::spawn_blocking(work).await.map_err(panicked)?.map_err(|refusal| *refusal)?;
    Ok(message(StatusCode::OK, format, &answer).map(Body::from))
}

/// A request, once it has arrived.
struct Attempt {
    server: Arc<Server>,
    org: String,
    token: Option<String>,
    /// The bearer of the token, if it is valid.
    entered: Option<Entered>,
    address: IpAddr,
    asked: Value,
}

impl Attempt {
    fn answer(&self) -> Result<Value, Box<Refusal>> {
        let Attempt { server, org, entered, address, asked, .. } = self;
        let Some(Accounts { sign_up, failures, .. }) = &server.accounts else {
            return Err(Box::new(Error::new(Code::NotFound, "this server has no accounts").into()));
        };
        let now_ms = server.engine.clock_ms();
        let request = self.field("do").unwrap_or_default();
        let late = |Late { seconds }| {
            let what = format!("too many attempts: the next one may come in {seconds} s");
            Box::new(Refusal::new(StatusCode::TOO_MANY_REQUESTS, Code::TooMany, what).after(seconds))
        };
        if request == "sign-up" {
            failures.sign_up(*address, now_ms).map_err(late)?;
        }
        // Each proof counts as a failure until it has succeeded: many at once must not all pass the check.
        let proves = self.proves(request);
        let is_owner = proves && self.is_owner(failures, now_ms).map_err(|error| Box::new(error.into()))?;
        let (login, token) = (self.login(request), self.token.as_deref().unwrap_or_default());
        if proves && !is_owner {
            failures.begin((org, login), *address, now_ms).map_err(late)?;
        }
        let answer = answer_of(&server.engine, org, *sign_up, asked, entered.as_ref());
        if proves {
            match &answer {
                Ok(_) => failures.succeeded((org, login), *address),
                Err(error) if error.code() != Code::WrongPassphrase => {
                    if !is_owner {
                        failures.undo((org, login), *address);
                    }
                }
                Err(_) if is_owner => failures.failed_by((org, token), now_ms),
                Err(_) => {}
            }
        }
        answer.map_err(|error| Box::new(error.into()))
    }

    /// Whether the request has a proof that is to be checked.
    fn proves(&self, request: &str) -> bool {
        let has_proof = self.asked.as_map().is_some_and(|map| map.contains_key("proof"));
        match request {
            "sign-in" => true,
            "wraps" | "close" => has_proof && self.entered.is_some(),
            _ => false,
        }
    }

    /// Whether the caller has the token of a device of the login, valid or expired. It is not kept waiting, so an attacker
    /// cannot block a renewal.
    fn is_owner(&self, failures: &Failures, now_ms: u64) -> escale::Result<bool> {
        let Some(token) = &self.token else { return Ok(false) };
        if failures.is_spent((&self.org, token), now_ms) {
            return Ok(false);
        }
        let owner = match &self.entered {
            Some(entered) => Some(entered.login.clone()),
            None => AccountTokens::login_of(&self.server.engine, &self.org, token)?,
        };
        Ok(owner.as_deref() == Some(self.login(self.field("do").unwrap_or_default())))
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.asked.as_map()?.get(name)?.as_str()
    }

    /// The login whose secret is proven: that of the token, except for a sign-in.
    fn login(&self, request: &str) -> &str {
        match &self.entered {
            Some(entered) if request != "sign-in" => &entered.login,
            _ => self.field("login").unwrap_or_default(),
        }
    }
}
