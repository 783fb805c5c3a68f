//! Requests of one kind each, over HTTP and WebSocket.

mod auth;
mod bad_input;
mod empty_org;
mod encodings;
mod hints;
mod limits;
mod operations;
mod patience;
mod pushes;
mod tls;
