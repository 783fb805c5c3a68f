//! The two ways to reach a server: its address, or the application's adapter.

use std::rc::Rc;

use super::adapter::Adapter;
use super::address::Address;
use super::http::{Abort, Post, post};
use super::reply::sync_reply;
use crate::codec::{Format, SyncReply, SyncRequest, encode};
use crate::limits::{REQUEST_TIMEOUT_MS, line_ms};
use crate::sync::Refusal;

/// How the session reaches its server.
#[derive(Clone)]
pub enum Server {
    /// By HTTP and a WebSocket.
    Address(Rc<Address>, Format),
    /// Through the application's own object.
    Adapter(Rc<Adapter>),
}

impl Server {
    /// Whether the server can announce changes at once.
    pub fn can_listen(&self) -> bool {
        match self {
            Server::Address(..) => super::socket::Socket::is_supported(),
            Server::Adapter(adapter) => adapter.can_listen(),
        }
    }

    /// Sends a request and reads its reply.
    pub async fn sync(
        &self,
        request: &SyncRequest,
        token: Option<&str>,
        abort: &Abort,
    ) -> Result<SyncReply, Refusal> {
        match self {
            Server::Address(address, format) => {
                let body = encode(*format, request)?;
                let timeout_ms = REQUEST_TIMEOUT_MS + line_ms(body.len());
                let message = Post { url: &address.sync, token, format: *format, body: &body, timeout_ms };
                sync_reply(&post(message, abort).await?)
            }
            Server::Adapter(adapter) => {
                abort.check()?;
                adapter.sync(request, REQUEST_TIMEOUT_MS).await
            }
        }
    }
}
