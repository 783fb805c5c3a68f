//! Accounts (R72 to R77): who may enter an org, by a secret that the server never learns.
//!
//! The server stores a key that only the account's owner can unwrap, and a value that checks a proof of the owner's
//! secret. Neither opens anything. docs/protocol.md has the messages, docs/security.md the reasons.

mod challenge;
mod enter;
mod failures;
mod formulas;
mod key;
mod login;
mod manage;
mod message;
mod network;
mod record;
mod tokens;

pub use enter::SignUp;
pub use failures::{Attempt, Failures, Late};
pub use formulas::{Auth, account_id, is_proven, signature};
pub use login::login_of;
pub use manage::{invite, set_role};
pub use message::{Checked, Counts, answer, check};
pub use network::{Network, Site};
pub use tokens::{AccountTokens, SignedIn};
