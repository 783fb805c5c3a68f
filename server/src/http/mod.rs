//! HTTP and WebSocket: what carries the engine's answers.

mod accept;
mod auth;
mod crowd;
mod feed;
mod gate;
mod hub;
mod leaving;
mod live;
mod origin;
mod reply;
mod router;
mod serve;
mod sync;
mod weight;

pub use auth::{Access, Role, Tokens};
pub use origin::Origins;
pub use serve::{Running, ServeOptions, start};
