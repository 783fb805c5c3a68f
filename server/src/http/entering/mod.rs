//! The ways in: the server accepts connections, limits their number, and finds the address of each caller.

mod accept;
mod connection_limiter;
mod proxies;
mod tls;

pub(super) use accept::{ConnectionLimits, run};
#[cfg(test)]
pub(super) use connection_limiter::ConnectionLimiter;
pub(super) use connection_limiter::{Active, Busy, Connection};
pub(super) use proxies::Peer;
pub use proxies::Proxies;
pub use tls::Tls;
