//! `POST {base}/{org}/account`: sign-up, sign-in, devices (R74).

use std::sync::Arc;

use axum::body::Body;
use axum::http::{Request, Response, StatusCode, header};
use escale::codec::{Format, decode};
use escale::model::Value;
use escale::{Code, Error};
use tracing::Span;

use super::admission::{Holder, LIGHT_BYTES_MAX, memory_of};
use super::auth::{Accounts, bearer};
use super::entering::{Connection, Peer};
use super::headers::text;
use super::reply::{Refusal, format_of, message};
use super::state::Server;
use crate::accounts::Network;
use crate::accounts::{AccountTokens, Attempt, Counts, Failures, Late, SignedIn, check};

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
    // The limits are the account's, so the token is looked up before anything else. One that this instance does not know
    // costs a look into the database by its digest, and connections are limited.
    let signed_in = server.signed_in(token.as_deref(), org).await?;
    let holder = Holder::of(signed_in.as_ref().map(|signed_in| signed_in.caller.account.as_str()), peer);
    let visit = server.requests.visit(&holder, &connection)?;
    let format =
        format.ok_or_else(|| malformed("Content-Type must be application/msgpack or application/json"))?;
    let bytes = visit.body(request, BYTES_MAX).await?;
    if memory_of(format, &bytes) > LIGHT_BYTES_MAX {
        return Err(Error::new(Code::TooLarge, "the request has too many values").into());
    }
    let (waits, org) = (Arc::clone(&server), org.to_owned());
    let (work, span) = (visit.work()?, Span::current());
    let run = move || {
        let _in = span.enter();
        let asked = decode(format, &bytes, BYTES_MAX).map_err(refused)?;
        let answer = Arrived { server, org, token, signed_in, from: peer.0, asked }.answer()?;
        Ok(message(StatusCode::OK, format, &answer).map(|bytes| work.leave(bytes)))
    };
    let panicked = |_| Error::new(Code::ServerError, "a request ended by a panic");
    let answer = waits.in_time(tokio::task::spawn_blocking(run)).await?;
    answer.map_err(panicked)?.map_err(|refusal: Box<Refusal>| *refusal)
}

/// A request, once it has arrived.
struct Arrived {
    server: Arc<Server>,
    org: String,
    token: Option<String>,
    /// The bearer of the token, if it is valid.
    signed_in: Option<SignedIn>,
    from: Network,
    asked: Value,
}

impl Arrived {
    /// Answers it. Its form and its challenge are checked first: only then does it count as an attempt.
    fn answer(&self) -> Result<Value, Box<Refusal>> {
        let Arrived { server, org, signed_in, from, asked, .. } = self;
        let Some(Accounts { sign_up, failures, .. }) = &server.accounts else {
            return Err(refused(Error::new(Code::NotFound, "this server has no accounts")));
        };
        let checked = check(&server.engine, org, *sign_up, asked, signed_in.as_ref()).map_err(refused)?;
        let now_ms = server.engine.clock_ms();
        let attempt = match checked.counts() {
            Counts::Nothing => None,
            Counts::Asked if signed_in.is_some() => None,
            Counts::Asked => failures.asked(*from, now_ms).map(|()| None).map_err(late)?,
            Counts::SignUp => failures.sign_up(*from, now_ms).map(|()| None).map_err(late)?,
            Counts::Guess { login } => Some(self.attempt(failures, login, now_ms)?),
        };
        let answer = checked.answer();
        match (attempt, &answer) {
            (Some(attempt), Ok(_)) => attempt.succeeded(),
            (Some(attempt), Err(error)) if error.code() != Code::WrongPassphrase => attempt.undo(),
            _ => {}
        }
        answer.map_err(refused)
    }

    /// Counts a guess at a passphrase. Who has the token of a device of the login, valid or expired, is not kept waiting: so
    /// an attacker cannot block a renewal.
    fn attempt<'f>(
        &self,
        failures: &'f Failures,
        login: &str,
        now_ms: u64,
    ) -> Result<Attempt<'f>, Box<Refusal>> {
        if let Some(token) = &self.token
            && self.is_owner(token, login).map_err(refused)?
            && let Ok(attempt) = failures.begin_by((&self.org, token), now_ms)
        {
            return Ok(attempt);
        }
        failures.begin((&self.org, login), self.from, now_ms).map_err(late)
    }

    fn is_owner(&self, token: &str, login: &str) -> escale::Result<bool> {
        let owner = match &self.signed_in {
            Some(signed_in) => Some(signed_in.login.clone()),
            None => AccountTokens::login_of(&self.server.engine, &self.org, token)?,
        };
        Ok(owner.as_deref() == Some(login))
    }
}

fn refused(error: Error) -> Box<Refusal> {
    Box::new(error.into())
}

fn late(Late { seconds }: Late) -> Box<Refusal> {
    let what = format!("too many attempts: the next one may come in {seconds} s");
    Box::new(Refusal::new(StatusCode::TOO_MANY_REQUESTS, Code::TooMany, what).after(seconds))
}
