//! The contact with the server: its token, its socket, and pulls.

use super::dispatch::Router;
use crate::error::{Code, Error, Result};
use crate::sync::context::Ctx;
use crate::sync::message::Refusal;
use crate::sync::pull::{Live, Pull, Token};

/// The parts that contact the server.
pub struct Link<'a> {
    ctx: &'a mut Ctx,
    pull: &'a mut Pull,
    live: &'a mut Live,
    token: &'a mut Token,
}

impl Router {
    /// The parts that contact the server.
    pub fn link(&mut self) -> Link<'_> {
        let Router { ctx, pull, live, token, .. } = self;
        Link { ctx, pull, live, token }
    }
}

impl Link<'_> {
    pub fn start(&mut self) {
        self.pull.need_all(self.ctx);
        self.ask_token();
    }

    /// Asks for a token, unless another session contacts the server.
    pub fn ask_token(&mut self) {
        if !self.ctx.is_following() {
            self.token.ask(self.ctx);
        }
    }

    /// The application supplied a token, or has none. A new one is tried at once.
    pub fn token_given(&mut self, token: Option<String>) {
        if self.token.give(self.ctx, token) {
            self.pull.try_token();
            self.live.try_token(self.pull.retry_after_ms);
        }
    }

    /// Handles a refusal of the server.
    pub fn refused(&mut self, refusal: Refusal) -> Result<()> {
        if refusal.error.code() == Code::Unauthorized {
            self.token.refused(self.ctx);
        }
        self.pull.refused(self.ctx, refusal)
    }

    /// A socket has closed. The server may be down: a pull finds out, and brings the changes whose hints were
    /// lost with the socket. A server that never had a socket open is asked at its own interval. One that asked its
    /// sessions to come back later is asked when they do.
    pub fn socket_closed(&mut self, socket: u64, code: u16, reason: &str) -> Result<()> {
        let retry_after_ms = self.pull.retry_after_ms;
        let closed = self.live.closed(self.ctx, socket, (code, reason), retry_after_ms)?;
        let Some(closed) = closed else { return Ok(()) };
        if closed.refused_token.is_some_and(|token| !self.token.is_replaced(token)) {
            let error = Error::new(Code::Unauthorized, "the socket was closed for its token");
            self.ctx.errors.report(error);
            self.token.refused(self.ctx);
        }
        if closed.is_restart {
            self.pull.wait_for_socket(self.ctx);
        } else if closed.had_opened {
            self.pull.need_all(self.ctx);
        }
        Ok(())
    }
}
