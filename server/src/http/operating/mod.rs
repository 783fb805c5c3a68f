//! Tells the operator whether the server is ready, and counts its work. Its own listener answers, never the public port.

mod admin;
mod health;
mod metrics;

pub(super) use admin::serve;
pub(super) use health::Health;
pub(super) use metrics::{Metrics, route_of};
