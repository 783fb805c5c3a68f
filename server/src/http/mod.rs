//! HTTP and WebSocket: what carries the engine's answers.

mod accept;
mod auth;
mod feed;
mod gate;
mod hub;
mod live;
mod origin;
mod reply;
mod router;
mod serve;
mod sync;

pub use auth::{Access, Role, Tokens};
pub use origin::Origins;
pub use serve::{Running, ServeOptions, start};
