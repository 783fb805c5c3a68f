//! `POST {org}/files`, and `PUT` and `GET` of `{org}/file/{sha}`: objects under their hashes.
//!
//! An object has at most a mebibyte, so each is in memory once. A slow line may take minutes for one. So uploads have lines of
//! their own, and so have downloads.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use escale::codec::{FileReply, FilesRequest, Format, decode};
use escale::limits::CHUNK_BYTES;
use escale::model::Pk;
use escale::model::schema::is_sha;
use escale::{Code, Error};
use tracing::Span;

use super::entering::{Connection, Peer};
use super::headers::text;
use super::reply::{Refusal, format_of, message};
use super::state::Server;
use super::sync::enter;
use crate::engine::{Filing, Object, Put};

/// Bytes of a request about objects: 1,000 names, in JSON.
const HAVE_BYTES_MAX: usize = 64 << 10;

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
    let (admitted, visit) =
        enter(server, &server.requests, org, (peer, &connection, request.headers())).await?;
    let format =
        format.ok_or_else(|| malformed("Content-Type must be application/msgpack or application/json"))?;
    let bytes = visit.body(request, HAVE_BYTES_MAX).await?;
    let asked: FilesRequest = decode(format, &bytes, HAVE_BYTES_MAX)?;
    asked.check()?;
    let (engine, org, work) = (Arc::clone(&server.engine), org.to_owned(), visit.work()?);
    let answer = blocking(server, move || {
        let reply = Filing::of(&engine).have(&org, &admitted.caller, &asked)?;
        Ok(message(StatusCode::OK, format, &reply).map(|bytes| work.leave(bytes)))
    });
    Ok(answer.await?)
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
    let (admitted, visit) =
        enter(server, &server.uploads, org, (peer, &connection, request.headers())).await?;
    check_name(&sha)?;
    let list = list_in(query)?;
    if !admitted.caller.may_write {
        let what = "the token's role does not allow uploads";
        return Err(Refusal::new(StatusCode::FORBIDDEN, Code::Forbidden, what));
    }
    let bytes = visit.body(request, CHUNK_BYTES).await?;
    let (engine, org, work) = (Arc::clone(&server.engine), org.to_owned(), visit.work()?);
    let put = blocking(server, move || {
        let object = Object::new(&sha, list, bytes.into(), engine.settings().file_bytes_max)?;
        Ok((Filing::of(&engine).put_object(&org, &admitted.caller, &object)?, work))
    });
    let (put, work) = put.await?;
    match put {
        Put::Kept(until) => {
            let reply = message(StatusCode::OK, Format::Json, &FileReply { until });
            Ok(reply.map(|bytes| work.leave(bytes)))
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
    let (admitted, visit) = enter(server, &server.downloads, org, (peer, &connection, headers)).await?;
    check_name(&sha)?;
    let (engine, org, work) = (Arc::clone(&server.engine), org.to_owned(), visit.work()?);
    let read = move || Ok((Filing::of(&engine).object(&org, &admitted.caller, &sha)?, work));
    let (bytes, work) = blocking(server, read).await?;
    let mut response = ranged(bytes, text(headers, &header::RANGE)).map(|bytes| work.leave(bytes));
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

/// Runs work that waits for disks on a suitable thread.
async fn blocking<T: Send + 'static>(
    server: &Server,
    run: impl FnOnce() -> escale::Result<T> + Send + 'static,
) -> escale::Result<T> {
    let span = Span::current();
    let run = move || {
        let _in = span.enter();
        run()
    };
    // An error here is a panic of the task, which is in the log.
    let panicked = |_| Error::new(Code::ServerError, "a request ended by a panic");
    server.in_time(tokio::task::spawn_blocking(run)).await?.map_err(panicked)?
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
