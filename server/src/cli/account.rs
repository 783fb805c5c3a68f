//! The command `account`: invitations and roles, without a server.

use clap::{Subcommand, ValueEnum};
use escale::Result;

use crate::accounts::{SignUp, invite, set_role};
use crate::engine::Engine;

/// Who may make an account.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub(crate) enum SignUpPolicy {
    /// Anyone who reaches the server.
    Open,
    /// The bearer of an invitation.
    Invited,
    /// Nobody.
    Closed,
}

impl From<SignUpPolicy> for SignUp {
    fn from(policy: SignUpPolicy) -> Self {
        match policy {
            SignUpPolicy::Open => SignUp::Open,
            SignUpPolicy::Invited => SignUp::Invited,
            SignUpPolicy::Closed => SignUp::Closed,
        }
    }
}

/// The action.
#[derive(Subcommand)]
pub(crate) enum AccountAction {
    /// Prints the id of a new invitation, for one sign-up within 14 days.
    Invite {
        /// The role of the account: read, write or admin.
        #[arg(long, default_value = "write")]
        role: String,
    },
    /// Gives an account another role.
    Role {
        /// The account's login.
        #[arg(long)]
        login: String,
        /// The role: read, write or admin.
        #[arg(long)]
        role: String,
    },
}

impl AccountAction {
    /// Does it.
    pub(crate) fn run(&self, engine: &Engine, org: &str, say: fn(&str) -> Result<()>) -> Result<()> {
        match self {
            AccountAction::Invite { role } => say(&invite(engine, org, role)?),
            AccountAction::Role { login, role } => {
                set_role(engine, org, login, role)?;
                say(&format!("{login}: {role}"))
            }
        }
    }
}
