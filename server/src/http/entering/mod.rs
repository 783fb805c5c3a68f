//! The ways in: the server accepts connections, limits their number, and finds the address of each caller.

mod accept;
mod crowd;
mod proxies;
mod tls;

pub(super) use accept::{ConnectionLimits, run};
#[cfg(test)]
pub(super) use crowd::Crowd;
pub(super) use crowd::{Busy, Connection, Engaged};
pub use proxies::Proxies;
pub use tls::Tls;
