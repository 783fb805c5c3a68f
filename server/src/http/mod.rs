//! HTTP and WebSocket: the transport of the engine's answers.

mod account;
mod admission;
mod auth;
mod entering;
mod feed;
mod files;
mod headers;
mod hub;
mod live;
mod operating;
mod origin;
mod reply;
mod router;
mod serve;
mod state;
mod stopped;
mod sync;

pub use auth::{Access, Role, Tokens};
pub use entering::{Proxies, Tls};
pub use origin::Origins;
pub use serve::{DEFS_BYTES_MAX, Running, ServeOptions, start};
