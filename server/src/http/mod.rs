//! HTTP and WebSocket: the transport of the engine's answers.

mod accept;
mod auth;
mod connections;
mod feed;
mod hub;
mod linger;
mod live;
mod operating;
mod origin;
mod proxies;
mod rate_limit;
mod reply;
mod request_cost;
mod router;
mod serve;
mod state;
mod sync;

pub use auth::{Access, Role, Tokens};
pub use origin::Origins;
pub use proxies::Proxies;
pub use serve::{Running, ServeOptions, start};
