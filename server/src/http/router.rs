//! The routes, and the headers that every answer carries.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::extract::{Path, State, WebSocketUpgrade};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use escale::codec::Format;
use escale::limits::REQUEST_BYTES_MAX;
use escale::model::Pk;
use escale::{Code, Error};
use tower::ServiceExt;
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::SizeAbove;
use tracing::Instrument;

use super::admission::{LEAST_RATE, message_bytes_max};
use super::auth::bearer;
use super::entering::{Connection, Peer};
use super::headers::text;
use super::operating::{route_of, span_of};
use super::reply::{Refusal, format_of};
use super::state::Server;
use super::{account, files, live, sync};
use crate::spans;

/// Bytes of the smallest reply that is compressed (R91). A smaller one gains less than its encoding costs.
const COMPRESSED_BYTES_MIN: u16 = 1 << 10;

const PRIVATE_NETWORK: HeaderName = HeaderName::from_static("access-control-allow-private-network");

pub(super) fn router(server: Arc<Server>, base: &str) -> Router {
    let sync = if server.compresses { post(post_sync).layer(compression()) } else { post(post_sync) };
    let routes = Router::new()
        .route("/", get(hello))
        .route("/{org}/sync", sync)
        .route("/{org}/live", get(get_live))
        .route("/{org}/account", post(post_account))
        .route("/{org}/files", post(files::post_files))
        .route("/{org}/file/{sha}", get(files::get_file).put(files::put_file))
        .method_not_allowed_fallback(async |headers: HeaderMap| {
            refuse(&headers, StatusCode::METHOD_NOT_ALLOWED, "another method belongs to this path")
        })
        .with_state(server);
    let router = if base.is_empty() { routes } else { Router::new().nest(base, routes) };
    router.fallback(async |headers: HeaderMap| {
        let what = "nothing here: POST {org}/sync, GET {org}/live, POST {org}/account, and files";
        refuse(&headers, StatusCode::NOT_FOUND, what)
    })
}

/// R91. A session on a fast line must not wait for the encoder. The demonstration's packages are 10 MB. With zstd they
/// are 3.7 MB at level 1, after 64 ms; 3.5 at level 3, after 89 ms; and 3.4 at level 5, after 146 ms.
fn compression() -> CompressionLayer<SizeAbove> {
    CompressionLayer::new()
        .quality(CompressionLevel::Precise(3))
        .compress_when(SizeAbove::new(COMPRESSED_BYTES_MIN))
}

fn refuse(headers: &HeaderMap, status: StatusCode, what: &str) -> Response<Body> {
    Refusal::new(status, Code::NotFound, what).into_response(format_of(headers).unwrap_or(Format::Json))
}

async fn hello() -> &'static str {
    "Escale server, protocol 1\n"
}

async fn post_sync(
    State(server): State<Arc<Server>>,
    Path(org): Path<String>,
    axum::Extension(peer): axum::Extension<Peer>,
    axum::Extension(connection): axum::Extension<Arc<Connection>>,
    request: Request<Body>,
) -> Response<Body> {
    if Pk::parse(&org).is_err() {
        return refuse_org(request.headers());
    }
    sync::sync(server, &org, (peer, connection), request).await
}

async fn post_account(
    State(server): State<Arc<Server>>,
    Path(org): Path<String>,
    axum::Extension(peer): axum::Extension<Peer>,
    axum::Extension(connection): axum::Extension<Arc<Connection>>,
    request: Request<Body>,
) -> Response<Body> {
    if Pk::parse(&org).is_err() {
        return refuse_org(request.headers());
    }
    account::account(server, &org, (peer, connection), request).await
}

async fn get_live(
    State(server): State<Arc<Server>>,
    Path(org): Path<String>,
    axum::Extension(peer): axum::Extension<Peer>,
    axum::Extension(connection): axum::Extension<Arc<Connection>>,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, axum::extract::ws::rejection::WebSocketUpgradeRejection>,
) -> Response<Body> {
    if Pk::parse(&org).is_err() {
        return refuse_org(&headers);
    }
    let Ok(upgrade) = upgrade else {
        let what = "a WebSocket upgrade was expected";
        return Refusal::new(StatusCode::BAD_REQUEST, Code::Malformed, what).into_response(Format::Json);
    };
    let token = bearer(text(&headers, &header::AUTHORIZATION)).map(str::to_owned);
    let bytes_max = message_bytes_max(server.defs_bytes_max);
    upgrade
        .read_buffer_size(live::READ_BYTES)
        .max_message_size(bytes_max)
        .max_frame_size(bytes_max)
        .on_upgrade(move |socket| live::serve(server, org, (peer, connection), token, socket))
}

fn refuse_org(headers: &HeaderMap) -> Response<Body> {
    Refusal::from(Error::new(Code::UnknownOrg, "not an org's code"))
        .into_response(format_of(headers).unwrap_or(Format::Json))
}

/// Answers any request: checks the page's origin first, then the path.
///
/// The layers of `tower-http` would change the protocol. Its CORS layer answers a preflight request with 200 in
/// place of 204, and lets another origin's request through. Its timeout layer answers without a fault.
pub(super) async fn answer(server: Arc<Server>, router: Router, request: Request<Body>) -> Response<Body> {
    let (began, route) = (Instant::now(), route_of(request.uri().path()));
    let span = span_of(request.headers(), route);
    let response = answered(&server, router, request).instrument(span.clone()).await;
    spans::answered(&span, response.status().as_u16());
    server.metrics.answered(route, response.status().as_u16(), began.elapsed());
    response
}

async fn answered(server: &Server, router: Router, request: Request<Body>) -> Response<Body> {
    let format = format_of(request.headers()).unwrap_or(Format::Json);
    let origin = request.headers().get(header::ORIGIN).cloned();
    let allowed = origin.as_ref().is_none_or(|o| o.to_str().is_ok_and(|o| server.origins.allows(o)));
    let bytes = request.body().size_hint().upper().unwrap_or(u64::MAX).min(REQUEST_BYTES_MAX as u64);
    let arrives_in = server.body_max + Duration::from_secs(bytes / LEAST_RATE as u64);
    let request_max = server.request_max + arrives_in;
    let mut response = if !allowed {
        let what = "pages of this origin may not call; allow it with --origin";
        return no_store(Refusal::new(StatusCode::FORBIDDEN, Code::Forbidden, what).into_response(format));
    } else if request.method() == Method::OPTIONS {
        preflight(request.headers())
    } else {
        match tokio::time::timeout(request_max, router.oneshot(request)).await {
            Ok(Ok(response)) => response.into_response(),
            Ok(Err(never)) => match never {},
            Err(_) => {
                let what = "the request took too long";
                Refusal::new(StatusCode::SERVICE_UNAVAILABLE, Code::Unavailable, what).into_response(format)
            }
        }
    };
    let headers = response.headers_mut();
    // Compression has its own `Vary`.
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
    if let Some(origin) = origin {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        let exposed = HeaderValue::from_static("Retry-After, Content-Range");
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
    }
    if server.is_tls {
        // A browser that has met the server speaks to it by TLS alone from then on (RFC 6797).
        headers.insert(header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_static("max-age=63072000"));
    }
    no_store(response)
}

fn no_store(mut response: Response<Body>) -> Response<Body> {
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn preflight(asked: &HeaderMap) -> Response<Body> {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("POST, GET, PUT"));
    headers.insert(
        header::ACCESS_CONTROL_ALLOW_HEADERS,
        HeaderValue::from_static("Authorization, Content-Type, Range"),
    );
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    if asked.contains_key("access-control-request-private-network") {
        headers.insert(PRIVATE_NETWORK, HeaderValue::from_static("true"));
    }
    response
}
