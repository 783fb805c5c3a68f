//! The tokens of accounts, as an instance knows them. The follower of the feed tells it of each account that has
//! changed, so an open socket needs no look into the database.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use escale::Result;
use sha2::{Digest, Sha256};

use super::formulas::b64;
use crate::engine::{Account, Caller, Engine, SystemRecord, Token, read_system_record, write_system_record};
use crate::lock::lock;

/// Entries above which those go that nobody asked for within [`KEPT_MS`].
const ENTRIES: usize = 10_000;

/// How long an entry stays that nobody asks for. An open socket asks every 2 s.
const KEPT_MS: u64 = 60_000;

/// How long a noted use stands for later ones: a write for each use would cost too much.
const NOTED_MS: u64 = 86_400_000;

/// The bearer of a valid token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedIn {
    /// The login.
    pub login: String,
    /// The device.
    pub device: String,
    /// The account, and its permissions.
    pub caller: Caller,
    /// When the token ends, in milliseconds since 1970.
    pub until: u64,
    /// The last use of the token that is noted, or its sign-in.
    used: u64,
}

impl SignedIn {
    /// Whether the use of the token is to be noted again.
    pub fn is_to_be_noted(&self, now_ms: u64) -> bool {
        is_to_be_noted(self.used, now_ms)
    }
}

fn is_to_be_noted(used: u64, now_ms: u64) -> bool {
    used.saturating_add(NOTED_MS) <= now_ms
}

struct Known {
    /// The key of the account's record.
    account: String,
    signed_in: Option<SignedIn>,
    asked_ms: u64,
}

/// The tokens that an instance has met.
#[derive(Default)]
pub struct AccountTokens {
    /// By org and digest.
    known: Mutex<HashMap<(String, String), Known>>,
    /// How often accounts have changed: a token that was read before such a change may be void since.
    changes: AtomicU64,
}

/// The digest by which a token is stored.
pub(super) fn digest_of(token: &str) -> String {
    b64(&Sha256::digest(token.as_bytes()))
}

impl AccountTokens {
    /// The bearer of the token, if this instance knows the token: `Some(None)` if it is known to be void.
    pub fn known(&self, org: &str, token: &str, now_ms: u64) -> Option<Option<SignedIn>> {
        let mut known = self.lock();
        let entry = known.get_mut(&(org.to_owned(), digest_of(token)))?;
        entry.asked_ms = now_ms;
        Some(entry.signed_in.clone().filter(|signed_in| now_ms < signed_in.until))
    }

    /// The bearer of the token. It reads the database if this instance does not know the token.
    pub fn enter(&self, engine: &Engine, org: &str, token: &str) -> Result<Option<SignedIn>> {
        let now_ms = engine.clock_ms();
        if let Some(signed_in) = self.known(org, token, now_ms) {
            return Ok(signed_in);
        }
        let digest = digest_of(token);
        let changes = self.changes.load(Ordering::SeqCst);
        let Some((account, signed_in)) = read(engine, org, &digest)? else { return Ok(None) };
        // Void tokens are not noted: strangers could fill the table with them.
        let mut known = self.lock();
        if signed_in.is_some() && self.changes.load(Ordering::SeqCst) == changes {
            if known.len() >= ENTRIES {
                known.retain(|_, known| now_ms < known.asked_ms + KEPT_MS);
            }
            let entry = Known { account, signed_in: signed_in.clone(), asked_ms: now_ms };
            known.insert((org.to_owned(), digest), entry);
        }
        Ok(signed_in.filter(|signed_in| now_ms < signed_in.until))
    }

    /// Notes that a token is in use, so that its device counts as used. Of several requests at once, one writes. Errors:
    /// those of the database.
    pub fn note_use(&self, engine: &Engine, org: &str, token: &str) -> Result<()> {
        let (now_ms, digest) = (engine.clock_ms(), digest_of(token));
        {
            let mut known = self.lock();
            let signed_in =
                known.get_mut(&(org.to_owned(), digest.clone())).and_then(|one| one.signed_in.as_mut());
            let Some(signed_in) = signed_in.filter(|signed_in| signed_in.is_to_be_noted(now_ms)) else {
                return Ok(());
            };
            signed_in.used = now_ms;
        }
        write_system_record(engine, org, |tx| match tx.write.record::<Token>(&digest)? {
            Some(token) if is_to_be_noted(token.used, now_ms) => {
                tx.write.put_record(&digest, &Token { used: now_ms, ..token })
            }
            _ => Ok(()),
        })
    }

    /// The login that a stored token belongs to, valid or expired.
    pub fn login_of(engine: &Engine, org: &str, token: &str) -> Result<Option<String>> {
        Ok(read(engine, org, &digest_of(token))?
            .and_then(|(_, signed_in)| signed_in)
            .map(|signed_in| signed_in.login))
    }

    /// Reads the known tokens of these accounts again, because they have changed; without accounts, all tokens.
    pub fn invalidate(&self, engine: &Engine, of: Option<(&str, &BTreeSet<String>)>) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        let is_concerned = |(org, _): &(String, String), known: &Known| {
            of.is_none_or(|(changed, accounts)| org == changed && accounts.contains(&known.account))
        };
        let keys: Vec<(String, String)> = self
            .lock()
            .iter()
            .filter(|(key, known)| is_concerned(key, known))
            .map(|(key, _)| key.clone())
            .collect();
        for key in keys {
            let signed_in = read(engine, &key.0, &key.1);
            let mut known = self.lock();
            match signed_in {
                Ok(Some((_, signed_in))) => {
                    if let Some(known) = known.get_mut(&key) {
                        known.signed_in = signed_in;
                    }
                }
                // It is void, or cannot be read: the next request tries again.
                Ok(None) => drop(known.remove(&key)),
                Err(error) => {
                    tracing::warn!(%error, "a token could not be read again");
                    known.remove(&key);
                }
            }
        }
    }

    /// Whether a row of the feed says that an account has changed.
    pub fn is_relevant(class: &str) -> bool {
        class == Account::CLASS
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(String, String), Known>> {
        lock(&self.known)
    }
}

/// The key of a token's account, and its bearer if the account is open.
fn read(engine: &Engine, org: &str, digest: &str) -> Result<Option<(String, Option<SignedIn>)>> {
    let Some(Token { account: pk, device, until, used }) = read_system_record(engine, org, digest)? else {
        return Ok(None);
    };
    let Some(account) = read_system_record::<Account>(engine, org, &pk)? else { return Ok(None) };
    let caller = account.caller();
    let signed_in =
        (!account.is_closed).then_some(SignedIn { login: account.login, device, caller, until, used });
    Ok(Some((pk, signed_in)))
}
