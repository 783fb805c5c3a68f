//! `POST {org}/files`, and `PUT` and `GET` of `{org}/file/{sha}`: objects under their hashes.
//!
//! An object has at most a mebibyte, so each is in memory once. A slow line may take minutes for one. So transfers have
//! places of their own, and a body may continue as long as it brings something.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use escale::codec::{FileReply, FilesRequest, Format, decode};
use escale::limits::CHUNK_BYTES;
use escale::model::Pk;
use escale::model::schema::is_sha;
use escale::{Code, Error};
use http_body_util::BodyExt;
use tracing::Span;

use super::entering::Connection;
use super::linger::leaving;
use super::reply::{Refusal, format_of, message};
use super::state::{Peer, Server};
use super::sync::{body, enter, text};
use crate::engine::{Filing, Object, Put};

/// Bytes of a request about objects: 1,000 names, in JSON.
const HAVE_BYTES_MAX: usize = 64 << 10;

/// Bytes a second that a body must bring on average.
const BYTES_PER_SECOND: usize = 5_000;

/// How long the body of the largest object may take, beyond the time of any request.
pub(super) const TRANSFER_MAX: Duration = Duration::from_secs((CHUNK_BYTES / BYTES_PER_SECOND) as u64 + 60);

type From<'a> = (Peer, Arc<Connection>, &'a HeaderMap);

pub(super) async fn post_files(
    State(server): State<Arc<Server>>,
    Path(org): Path<String>,
    axum::Extension(peer): axum::Extension<Peer>,
    axum::Extension(connection): axum::Extension<Arc<Connection>>,
    request: Request<Body>,
) -> Response<Body> {
    let format = format_of(request.headers());
    let answered = have(&server, &org, (peer, connection), format, request).await;
    answered.unwrap_or_else(|refusal| refusal.into_response(format.unwrap_or(Format::Json)))
}

async fn have(
    server: &Arc<Server>,
    org: &str,
    (peer, connection): (Peer, Arc<Connection>),
    format: Option<Format>,
    request: Request<Body>,
) -> Result<Response<Body>, Refusal> {
    let malformed = |what: &str| Refusal::new(StatusCode::BAD_REQUEST, Code::Malformed, what);
    check_org(org)?;
    let (guest, slot) = enter(server, &server.requests, org, (peer, request.headers())).await?;
    let engaged = connection.engage();
    let format =
        format.ok_or_else(|| malformed("Content-Type must be application/msgpack or application/json"))?;
    let bytes = body(request, HAVE_BYTES_MAX, server.body_max).await?;
    let asked: FilesRequest = decode(format, &bytes, HAVE_BYTES_MAX)?;
    asked.check()?;
    let (server, org) = (Arc::clone(server), org.to_owned());
    let reply = blocking(move || Filing::of(&server.engine).have(&org, &guest.caller, &asked)).await?;
    Ok(message(StatusCode::OK, format, &reply).map(|bytes| leaving(bytes, (slot, engaged))))
}

pub(super) async fn put_file(
    State(server): State<Arc<Server>>,
    Path((org, sha)): Path<(String, String)>,
    RawQuery(query): RawQuery,
    axum::Extension(peer): axum::Extension<Peer>,
    axum::Extension(connection): axum::Extension<Arc<Connection>>,
    request: Request<Body>,
) -> Response<Body> {
    let answered = put(&server, (&org, sha), query.as_deref(), (peer, connection), request).await;
    answered.unwrap_or_else(|refusal| refusal.into_response(Format::Json))
}

async fn put(
    server: &Arc<Server>,
    (org, sha): (&str, String),
    query: Option<&str>,
    (peer, connection): (Peer, Arc<Connection>),
    request: Request<Body>,
) -> Result<Response<Body>, Refusal> {
    check_org(org)?;
    let (guest, slot) = enter(server, &server.transfers, org, (peer, request.headers())).await?;
    let engaged = connection.engage();
    check_name(&sha)?;
    let list = list_in(query)?;
    if !guest.caller.may_write {
        let what = "the token's role does not allow uploads";
        return Err(Refusal::new(StatusCode::FORBIDDEN, Code::Forbidden, what));
    }
    let announced = text(request.headers(), &header::CONTENT_LENGTH).and_then(|n| n.parse::<u64>().ok());
    if announced.is_some_and(|n| n > CHUNK_BYTES as u64) {
        return Err(too_large());
    }
    let bytes = arrive(request.into_body(), server.body_max).await?;
    let (server, org) = (Arc::clone(server), org.to_owned());
    let put = blocking(move || {
        let object = Object::new(&sha, list, bytes, server.engine.settings().file_bytes_max)?;
        Filing::of(&server.engine).put_object(&org, &guest.caller, &object)
    });
    match put.await? {
        Put::Kept(until) => {
            let reply = message(StatusCode::OK, Format::Json, &FileReply { until });
            Ok(reply.map(|bytes| leaving(bytes, (slot, engaged))))
        }
        Put::Missing(files) => {
            let what = "the list names chunks that are not there: upload them first";
            Err(Refusal::new(StatusCode::CONFLICT, Code::FileMissing, what).with_files(files))
        }
    }
}

pub(super) async fn get_file(
    State(server): State<Arc<Server>>,
    Path((org, sha)): Path<(String, String)>,
    axum::Extension(peer): axum::Extension<Peer>,
    axum::Extension(connection): axum::Extension<Arc<Connection>>,
    headers: HeaderMap,
) -> Response<Body> {
    let answered = get(&server, (&org, sha), (peer, connection, &headers)).await;
    answered.unwrap_or_else(|refusal| refusal.into_response(Format::Json))
}

async fn get(
    server: &Arc<Server>,
    (org, sha): (&str, String),
    (peer, connection, headers): From<'_>,
) -> Result<Response<Body>, Refusal> {
    check_org(org)?;
    let (guest, slot) = enter(server, &server.transfers, org, (peer, headers)).await?;
    let engaged = connection.engage();
    check_name(&sha)?;
    let (server, org) = (Arc::clone(server), org.to_owned());
    let bytes = blocking(move || Filing::of(&server.engine).object(&org, &guest.caller, &sha)).await?;
    let mut response =
        ranged(bytes, text(headers, &header::RANGE)).map(|bytes| leaving(bytes, (slot, engaged)));
    let octets = HeaderValue::from_static("application/octet-stream");
    response.headers_mut().insert(header::CONTENT_TYPE, octets);
    response.headers_mut().insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    Ok(response)
}

/// The bytes that a range asks for. A range of another form, or several ranges, ask for all.
fn ranged(bytes: Vec<u8>, range: Option<&str>) -> Response<Vec<u8>> {
    let length = bytes.len();
    let Some((from, to)) = range.and_then(|range| span_in(range, length)) else {
        return Response::new(bytes);
    };
    let mut response = Response::new(Vec::new());
    let content_range = if from < to {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        *response.body_mut() = bytes[from..to].to_vec();
        format!("bytes {from}-{}/{length}", to - 1)
    } else {
        *response.status_mut() = StatusCode::RANGE_NOT_SATISFIABLE;
        format!("bytes */{length}")
    };
    let content_range = HeaderValue::from_str(&content_range).expect("numbers");
    response.headers_mut().insert(header::CONTENT_RANGE, content_range);
    response
}

/// The positions of `bytes=FIRST-LAST`, `bytes=FIRST-` or `bytes=-COUNT` in that many bytes, the second one excluded. Equal
/// ones are a range that is not there.
fn span_in(range: &str, length: usize) -> Option<(usize, usize)> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    // A number that is too large is behind the end of any object.
    let number = |text: &str| is_number(text).then(|| text.parse().unwrap_or(usize::MAX));
    match (first, last) {
        ("", _) => Some((length - number(last)?.min(length), length)),
        (_, "") => Some((number(first)?.min(length), length)),
        _ => {
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then(|| (first.min(length), last.saturating_add(1).min(length)))
        }
    }
}

fn check_org(org: &str) -> escale::Result<()> {
    Pk::parse(org).map(drop).map_err(|_| Error::new(Code::UnknownOrg, "not an org's code"))
}

fn check_name(sha: &str) -> escale::Result<()> {
    if is_sha(sha) {
        return Ok(());
    }
    Err(Error::new(Code::NotFound, "an object's name is the base64url of its SHA-256, without padding"))
}

/// The size of the file that the object lists, if the query says so.
fn list_in(query: Option<&str>) -> escale::Result<Option<u64>> {
    let Some(query) = query.filter(|query| !query.is_empty()) else { return Ok(None) };
    let size = query.strip_prefix("list=").filter(|size| size.bytes().all(|b| b.is_ascii_digit()));
    let size = size.and_then(|size| size.parse().ok()).map(Some);
    let what = "the query is empty, or `list=` with the size of the file that the object lists";
    size.ok_or_else(|| Error::new(Code::Malformed, what))
}

/// The body of an upload. It may continue as long as it brings enough bytes, and is not silent for long.
async fn arrive(mut body: Body, silent_max: Duration) -> Result<Vec<u8>, Refusal> {
    let began = Instant::now();
    let mut bytes = Vec::new();
    loop {
        let allowed = silent_max + Duration::from_secs((bytes.len() / BYTES_PER_SECOND) as u64);
        let left = allowed.saturating_sub(began.elapsed()).min(silent_max);
        let data: Bytes = match tokio::time::timeout(left, body.frame()).await {
            Err(_) => return Err(too_slow()),
            Ok(None) => return Ok(bytes),
            Ok(Some(Err(_))) => {
                return Err(Refusal::new(StatusCode::BAD_REQUEST, Code::Malformed, "the body is cut short"));
            }
            Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
        };
        if bytes.len() + data.len() > CHUNK_BYTES {
            return Err(too_large());
        }
        bytes.extend_from_slice(&data);
    }
}

fn too_slow() -> Refusal {
    Refusal::new(StatusCode::REQUEST_TIMEOUT, Code::Timeout, "the body took too long to arrive")
}

fn too_large() -> Refusal {
    let what = format!("an object has at most {CHUNK_BYTES} bytes: cut the file into chunks");
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, Code::TooLarge, what)
}

/// Runs work that waits for disks on a suitable thread.
async fn blocking<T: Send + 'static>(
    run: impl FnOnce() -> escale::Result<T> + Send + 'static,
) -> escale::Result<T> {
    let span = Span::current();
    let run = move || {
        let _in = span.enter();
        run()
    };
    // An error here is a panic of the task, which is in the log.
    let panicked = |_| Error::new(Code::ServerError, "a request ended by a panic");
    tokio::task::spawn_blocking(run).await.map_err(panicked)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_names_bytes_that_are_there() {
        for (range, expected) in [
            ("bytes=0-0", Some((0, 1))),
            ("bytes=2-", Some((2, 5))),
            ("bytes=1-99", Some((1, 5))),
            ("bytes=-2", Some((3, 5))),
            ("bytes=-99", Some((0, 5))),
            ("bytes=5-", Some((5, 5))),
            ("bytes=7-9", Some((5, 5))),
            ("bytes=-0", Some((5, 5))),
            ("bytes=1-18446744073709551615", Some((1, 5))),
            ("bytes=3-2", None),
            ("bytes=0-1,3-4", None),
            ("bytes=-", None),
            ("bytes=+1-2", None),
            ("chunks=0-1", None),
        ] {
            assert_eq!(span_in(range, 5), expected, "{range}");
        }
        assert_eq!(span_in("bytes=0-", 0), Some((0, 0)));
    }
}
