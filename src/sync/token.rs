//! The bearer token: requested from the application, and replaced when the server refuses it. Tokens are
//! numbered. A request with an earlier token may be refused after the application supplied the next one, and
//! that refusal says nothing about the new token.

use super::machine::Machine;
use super::message::{Effect, Mode};
use crate::error::{Code, Error};

#[derive(Debug, Default)]
pub(super) struct Token {
    value: Option<String>,
    /// How many tokens were supplied.
    number: u64,
    /// The application was asked for a token, and has supplied none since.
    pub is_awaited: bool,
}

impl Token {
    /// The token to send.
    pub fn value(&self) -> Option<String> {
        self.value.clone()
    }

    /// The number of the token that is sent now.
    pub fn number(&self) -> u64 {
        self.number
    }
}

impl Machine {
    /// Asks the application for a token if it can supply one and the session contacts the server.
    pub(super) fn ask_token(&mut self) {
        if self.ctx.config.has_token
            && !self.tabs.is_following
            && self.ctx.mode != Mode::Avion
            && self.token.value.is_none()
        {
            self.token.is_awaited = true;
            self.ctx.effects.push(Effect::AskToken { refused: false });
        }
    }

    /// Asks once more if none was supplied: there is a reason to try at once.
    pub(super) fn ask_token_again(&mut self) {
        if self.token.is_awaited && self.ctx.config.has_token && self.ctx.mode != Mode::Avion {
            self.ctx.effects.push(Effect::AskToken { refused: true });
        }
    }

    /// The application supplied a token, or has none. A new one is tried at once. If several in a row were
    /// refused, the application may have no good one. Then delays grow as after any failure; otherwise the
    /// session would ask the server without end.
    pub(super) fn token_given(&mut self, value: Option<String>) {
        if value.is_none() && !self.token.is_awaited {
            // The answer to an earlier question; a later one was answered with a token.
            return;
        }
        self.token.is_awaited = value.is_none();
        self.token.number += 1;
        self.token.value = value;
        if self.token.is_awaited && self.ctx.errors.last().is_none() {
            self.ctx.errors.report(Error::new(Code::Unauthorized, "the server asks for a token"));
        }
        if self.pull.backoff.failures() <= 1 {
            self.pull.not_before_ms = self.pull.retry_after_ms;
        }
        if self.live.backoff.failures() <= 1 {
            self.live.not_before_ms = self.pull.retry_after_ms;
        }
    }

    /// Whether another token has replaced that one: its refusal says nothing.
    pub(super) fn is_replaced(&self, number: u64) -> bool {
        number != self.token.number
    }

    /// The server refused the current token.
    pub(super) fn token_refused(&mut self) {
        self.token.value = None;
        if !self.token.is_awaited {
            self.token.is_awaited = true;
            self.ctx.effects.push(Effect::AskToken { refused: true });
        }
    }
}
