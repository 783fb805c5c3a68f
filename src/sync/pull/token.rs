//! The bearer token: requested from the application, and replaced when the server refuses it. Tokens are
//! numbered. A request with an earlier token may be refused after the application supplied the next one, and
//! that refusal says nothing about the new token.

use crate::error::{Code, Error};
use crate::sync::context::Ctx;
use crate::sync::facts::Bearer;
use crate::sync::message::{Effect, Mode};

#[derive(Debug, Default)]
pub struct Token {
    bearer: Bearer,
    /// The application was asked for a token, and has supplied none since.
    is_awaited: bool,
}

impl Token {
    /// The token to send.
    pub fn bearer(&self) -> &Bearer {
        &self.bearer
    }

    /// Whether the application was asked for a token, and has supplied none since.
    pub fn is_awaited(&self) -> bool {
        self.is_awaited
    }

    /// Another session talks to the server.
    pub fn await_no_more(&mut self) {
        self.is_awaited = false;
    }

    /// Asks the application for a token if it can supply one. Only a session that contacts the server asks.
    pub fn ask(&mut self, ctx: &mut Ctx) {
        if ctx.config.has_token && ctx.mode != Mode::Avion && self.bearer.value.is_none() {
            self.is_awaited = true;
            ctx.effects.push(Effect::AskToken { refused: false });
        }
    }

    /// Asks once more if none was supplied: there is a reason to try at once.
    pub fn ask_again(&self, ctx: &mut Ctx) {
        if self.is_awaited && ctx.config.has_token && ctx.mode != Mode::Avion {
            ctx.effects.push(Effect::AskToken { refused: true });
        }
    }

    /// The application supplied a token, or has none. Returns false for the answer to an earlier question,
    /// if a later one was answered with a token.
    pub fn give(&mut self, ctx: &mut Ctx, value: Option<String>) -> bool {
        if value.is_none() && !self.is_awaited {
            return false;
        }
        self.is_awaited = value.is_none();
        self.bearer = Bearer { value, number: self.bearer.number + 1 };
        if self.is_awaited && ctx.errors.last().is_none() {
            ctx.errors.report(Error::new(Code::Unauthorized, "the server asks for a token"));
        }
        true
    }

    /// Whether another token has replaced that one: its refusal says nothing.
    pub fn is_replaced(&self, number: u64) -> bool {
        number != self.bearer.number
    }

    /// The server refused the current token.
    pub fn refused(&mut self, ctx: &mut Ctx) {
        self.bearer.value = None;
        if !self.is_awaited {
            self.is_awaited = true;
            ctx.effects.push(Effect::AskToken { refused: true });
        }
    }
}
