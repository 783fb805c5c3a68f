//! Tells the operator whether the server is ready, and counts its work. Its own listener answers, never the public port.

mod admin;
mod health;
mod metrics;
mod trace;

pub(super) use admin::serve;
pub(super) use health::Health;
pub(super) use metrics::{Metrics, route_of};
pub(super) use trace::span_of;
