//! The bearer token: asked of the application, refused by the server, given anew. Tokens are numbered, because what
//! went out under an earlier one may be refused after the next was given: that refuses nothing.

use super::event::{Effect, Mode};
use super::machine::Machine;
use crate::error::{Code, Error};

#[derive(Debug, Default)]
pub(super) struct Token {
    value: Option<String>,
    /// How many were given.
    number: u64,
    /// The application was asked, and has given none since.
    pub is_awaited: bool,
}

impl Token {
    /// What to send.
    pub fn value(&self) -> Option<String> {
        self.value.clone()
    }

    /// Names the token that is sent now.
    pub fn number(&self) -> u64 {
        self.number
    }
}

impl Machine {
    /// Asks the application for a token, where it has any and the network is wanted.
    pub(super) fn ask_token(&mut self) {
        if self.config.has_token
            && !self.tabs.is_following
            && self.mode != Mode::Avion
            && self.token.value.is_none()
        {
            self.token.is_awaited = true;
            self.effects.push(Effect::AskToken { refused: false });
        }
    }

    /// Asks once more where none was given: there is a reason to hope.
    pub(super) fn ask_token_again(&mut self) {
        if self.token.is_awaited && self.config.has_token && self.mode != Mode::Avion {
            self.effects.push(Effect::AskToken { refused: true });
        }
    }

    /// The application gave a token, or has none. A new one is tried at once; where several in a row were refused,
    /// whoever gives them may have no good one: delays grow as after any failure, or the server would be asked
    /// without end.
    pub(super) fn token_given(&mut self, value: Option<String>) {
        if value.is_none() && !self.token.is_awaited {
            // The answer to an earlier question; a later one was answered better.
            return;
        }
        self.token.is_awaited = value.is_none();
        self.token.number += 1;
        self.token.value = value;
        if self.token.is_awaited && self.error.is_none() {
            self.error = Some(Error::new(Code::Unauthorized, "the server asks for a token"));
        }
        if self.pull.backoff.failures() <= 1 {
            self.pull.not_before_ms = self.pull.retry_after_ms;
        }
        if self.live.backoff.failures() <= 1 {
            self.live.not_before_ms = self.pull.retry_after_ms;
        }
    }

    /// Whether a token is not the one in use any more: its refusal tells nothing.
    pub(super) fn is_replaced(&self, number: u64) -> bool {
        number != self.token.number
    }

    /// The token in use was refused.
    pub(super) fn token_refused(&mut self) {
        self.token.value = None;
        if !self.token.is_awaited {
            self.token.is_awaited = true;
            self.effects.push(Effect::AskToken { refused: true });
        }
    }
}
