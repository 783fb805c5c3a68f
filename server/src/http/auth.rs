//! Bearer tokens: they decide who may enter which org. The file is read again when it changes.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};

use escale::{Code, Error, Result};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::accounts::{AccountTokens, Failures, SignUp, SignedIn};
use crate::engine::Caller;
use crate::file_stamp::FileStamp;
use crate::lock::lock;

/// The permissions of a token in its orgs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Pulls and hints.
    Read,
    /// Operations too.
    Write,
    /// Everything.
    Admin,
}

/// The access that a token gives.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Access {
    /// The account that it belongs to.
    pub account: String,
    /// The orgs that it opens.
    pub orgs: Vec<String>,
    /// Its permissions there.
    pub role: Role,
    /// Its expiry, in milliseconds since 1970 by the server's clock. Without one it is valid until it is
    /// withdrawn.
    #[serde(default)]
    pub until: Option<u64>,
}

/// The tokens of a file, or none at all: then anyone may enter, unless there are accounts.
pub struct Tokens {
    file: Option<PathBuf>,
    /// Whether a caller without a token of the file is refused.
    is_required: bool,
    table: Mutex<TokenTable>,
}

#[derive(Default)]
struct TokenTable {
    /// By the SHA-256 of the token. Comparing digests takes a time that reveals nothing of a token.
    by_digest: HashMap<[u8; 32], Access>,
    stamp: FileStamp,
}

/// A caller that may enter an org.
#[derive(Clone, Debug)]
pub struct Admitted {
    /// The account, if there are tokens.
    pub account: Option<String>,
    /// The caller's permissions.
    pub caller: Caller,
}

/// The accounts of an instance.
pub(super) struct Accounts {
    pub(super) sign_up: SignUp,
    pub(super) tokens: AccountTokens,
    pub(super) failures: Failures,
}

impl Accounts {
    pub(super) fn new(sign_up: SignUp) -> Self {
        Accounts { sign_up, tokens: AccountTokens::default(), failures: Failures::default() }
    }
}

impl From<SignedIn> for Admitted {
    fn from(signed_in: SignedIn) -> Self {
        Admitted { account: Some(signed_in.caller.account.clone()), caller: signed_in.caller }
    }
}

impl Tokens {
    /// Anyone may enter.
    pub fn none() -> Self {
        Tokens { file: None, is_required: false, table: Mutex::default() }
    }

    /// The tokens of a file, `{token: {account, orgs, role}}`.
    pub fn from_file(path: PathBuf) -> Result<Self> {
        let tokens = Tokens { table: Mutex::new(read(&path)?), file: Some(path), is_required: true };
        Ok(tokens)
    }

    /// Whether a token is required.
    pub fn are_required(&self) -> bool {
        self.is_required
    }

    /// The same tokens where accounts have tokens of their own: nobody enters without any.
    #[must_use]
    pub(super) fn required(self) -> Self {
        Tokens { is_required: true, ..self }
    }

    /// Admits the bearer of `token` to `org` at `now_ms`, or not. Errors: `unauthorized`, `forbidden`.
    pub fn admit(&self, token: Option<&str>, org: &str, now_ms: u64) -> Result<Admitted> {
        self.refresh();
        self.admit_again(token, org, now_ms)
    }

    /// Reads the file again if it has changed. It is for one caller in each moment, and not for each of thousands of
    /// sockets.
    pub(super) fn refresh(&self) {
        let Some(path) = &self.file else { return };
        let mut table = self.lock();
        let stamp = FileStamp::of(path);
        if stamp.may_differ_from(&table.stamp) {
            match read(path) {
                Ok(fresh) => *table = fresh,
                // The tokens read before stay in force until the file can be read.
                Err(error) => {
                    tracing::error!(%error, "the tokens file was not taken over");
                    table.stamp = stamp;
                }
            }
        }
    }

    /// Like [`Tokens::admit`], by the tokens as they were when the file was last looked at.
    pub(super) fn admit_again(&self, token: Option<&str>, org: &str, now_ms: u64) -> Result<Admitted> {
        if !self.is_required {
            let caller = Caller { may_write: true, ..Caller::default() };
            return Ok(Admitted { account: None, caller });
        }
        let Some(token) = token else {
            return Err(Error::new(Code::Unauthorized, "a bearer token is required"));
        };
        let table = self.lock();
        let digest: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        let access = table.by_digest.get(&digest);
        match access.filter(|access| access.until.is_none_or(|until| now_ms < until)) {
            None => Err(Error::new(Code::Unauthorized, "the token is unknown or no longer valid")),
            Some(access) if access.orgs.iter().any(|open| open == org) => Ok(Admitted {
                account: Some(access.account.clone()),
                caller: Caller {
                    account: access.account.clone(),
                    may_write: access.role != Role::Read,
                    is_admin: access.role == Role::Admin,
                    ..Caller::default()
                },
            }),
            Some(_) => Err(Error::new(Code::Forbidden, "the token does not open this org")),
        }
    }

    fn lock(&self) -> MutexGuard<'_, TokenTable> {
        lock(&self.table)
    }
}

/// The token of an `Authorization` header.
pub fn bearer(header: Option<&str>) -> Option<&str> {
    let (scheme, token) = header?.split_once(' ')?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.trim().is_empty()).then(|| token.trim())
}

fn read(path: &std::path::Path) -> Result<TokenTable> {
    let bad = |what: String| Error::new(Code::BadOption, format!("--tokens {}: {what}", path.display()));
    let stamp = FileStamp::of(path);
    let text = std::fs::read_to_string(path).map_err(|e| bad(e.to_string()))?;
    // serde's message would quote the file, so only the line number is given.
    let tokens: HashMap<String, Access> = serde_json::from_str(&text)
        .map_err(|e| bad(format!("{{token: {{account, orgs, role}}}} expected; see line {}", e.line())))?;
    if tokens.keys().any(|token| token.trim().is_empty()) {
        return Err(bad("an empty token".into()));
    }
    let by_digest =
        tokens.into_iter().map(|(token, access)| (Sha256::digest(token.as_bytes()).into(), access)).collect();
    Ok(TokenTable { by_digest, stamp })
}
