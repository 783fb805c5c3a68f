//! The listener for operators: `/livez`, `/readyz` and `/metrics`.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;

use crate::engine::connections;
use crate::http::state::Server;
use crate::http::stopped::stopped;

/// The content type of OpenMetrics.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Answers until the server has stopped. It goes on while the instance drains: that is when it is asked most.
pub(in crate::http) async fn serve(listener: TcpListener, server: Arc<Server>) {
    let mut stop = server.stop.subscribe();
    let router = Router::new()
        .route("/livez", get(async || "alive\n"))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .with_state(server);
    let until = async move { stopped(&mut stop).await };
    if let Err(error) = axum::serve(listener, router).with_graceful_shutdown(until).await {
        tracing::error!(%error, "the listener for operators has ended");
    }
}

async fn ready(State(server): State<Arc<Server>>) -> impl IntoResponse {
    match server.health.cause(&server.engine).await {
        None => (StatusCode::OK, "ready\n".to_owned()),
        Some(cause) => (StatusCode::SERVICE_UNAVAILABLE, format!("{cause}\n")),
    }
}

async fn metrics(State(server): State<Arc<Server>>) -> impl IntoResponse {
    server.metrics.waiting.set(i64::try_from(server.hub.waiting()).unwrap_or(i64::MAX));
    server.metrics.connected(connections(&server.engine));
    ([(header::CONTENT_TYPE, OPEN_METRICS)], server.metrics.text())
}
