//! Sign-up and sign-in (R72 to R75).

use escale::limits::KDF_ROUNDS;
use escale::model::{Value, sha_s};
use escale::{Code, Error, Result};

use super::formulas::{Auth, account_id, b64, is_proven, signature};
use super::message::{Fields, Request, Service};
use super::record::{Account, DEVICES_MAX, Device, USED_MAX, Wrap, bad, entries_of, number};
use super::tokens::{digest_of, used_of};
use super::{INVITATIONS, TOKENS, challenge};
use crate::engine::{ACCOUNT_IDS, ACCOUNTS, KeptWrite, NewAccount, put_account, read_kept, write_kept};

/// How long a token is valid, in milliseconds (R74).
const TOKEN_MS: u64 = 7 * 86_400_000;

/// Who may make an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignUp {
    /// Anyone.
    Open,
    /// The bearer of an invitation.
    Invited,
    /// Nobody.
    Closed,
}

/// A proof that was checked: the account as it is in the transaction, and the place of the wrap in it.
pub(super) struct Proven {
    pub(super) account: Account,
    pub(super) wrap: Wrap,
    pub(super) auth: Vec<u8>,
}

/// Random bytes.
pub(super) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|e| Error::new(Code::Internal, e.to_string()))?;
    Ok(bytes)
}

/// The account of a login.
pub(super) fn stored(kept: &KeptWrite<'_, '_>, login: &str) -> Result<Option<Account>> {
    kept.get(ACCOUNTS, &sha_s(login))?.map(|map| Account::of_map(&map)).transpose()
}

/// Stores an account, and tells every instance. Returns whether another account administers the org.
pub(super) fn put(kept: &mut KeptWrite<'_, '_>, account: &Account) -> Result<bool> {
    put_account(kept, &account.to_map())
}

/// Ends the token of a device. The device keeps the last use that is noted at the token.
pub(super) fn end_token(kept: &mut KeptWrite<'_, '_>, device: &mut Device) -> Result<()> {
    device.last = last_use(device, |token| kept.get(TOKENS, token))?;
    match device.token.take() {
        Some(token) => kept.remove(TOKENS, &token),
        None => Ok(()),
    }
}

/// The last sign-in of a device, or a later use of its token that is noted.
pub(super) fn last_use(device: &Device, stored: impl Fn(&str) -> Result<Option<Fields>>) -> Result<u64> {
    let token = device.token.as_deref().map(stored).transpose()?.flatten();
    Ok(token.map_or(device.last, |token| used_of(&token).max(device.last)))
}

impl Service<'_> {
    /// `start`: a challenge. An unknown login gets one too, with the parameters that most accounts have.
    pub(super) fn start(&self, request: &Request) -> Result<Fields> {
        let (login, wrap) = (request.login()?, request.text("wrap")?);
        let map = read_kept(self.engine, self.org, ACCOUNTS, &sha_s(login))?;
        let account = map.map(|map| Account::of_map(&map)).transpose()?;
        let known = account.as_ref().and_then(|account| account.wrap(wrap));
        let (kdf, rounds) = match known {
            Some(wrap) => (wrap.kdf.as_str(), wrap.rounds),
            None if wrap == "passphrase" => ("pbkdf2", KDF_ROUNDS.0),
            None => ("none", 0),
        };
        let made = challenge::make(&self.secret, &[self.org, login, wrap], self.now_ms, random()?);
        Ok(entries_of([
            ("challenge", Value::Bytes(made.to_vec())),
            ("kdf", Value::from(kdf)),
            ("rounds", number(rounds.into())),
        ]))
    }

    /// `sign-up`: makes an account. A repeat gets the same answer.
    pub(super) fn sign_up(&self, request: &Request) -> Result<Fields> {
        let login = request.login()?;
        let public: [u8; 32] = request.array("pub")?;
        let wraps = request.wraps("wraps", self.now_ms)?;
        let mut account = Account {
            id: account_id(self.org, &public),
            login: login.to_owned(),
            public,
            role: "write".into(),
            is_closed: false,
            wraps: Vec::new(),
            devices: Vec::new(),
            used: Vec::new(),
        };
        account.change_wraps(wraps, &[])?;
        write_kept(self.engine, self.org, |kept| {
            let answer = || Ok(entries_of([("account", Value::from(account.id.as_str()))]));
            let before = stored(kept, login)?;
            if before.as_ref().is_some_and(|before| !before.is_closed && is_repeat(before, &account)) {
                return answer();
            }
            // Before the rest: a stranger without an invitation learns nothing of logins.
            let invitation = self.invited(kept, request)?;
            let role = invitation.as_ref().and_then(|found| found.get("role")).and_then(Value::as_str);
            role.unwrap_or("write").clone_into(&mut account.role);
            if before.is_some() || kept.get(ACCOUNT_IDS, &account.id)?.is_some() {
                return Err(Error::new(Code::LoginTaken, "the login or the key belongs to another account"));
            }
            let Account { id, role, .. } = &account;
            self.check_enters(kept, &account)?;
            kept.signs_up(&NewAccount { id, login, role, invitation: invitation.as_ref() })?;
            kept.put(ACCOUNT_IDS, id, &entries_of([("login", Value::from(login))]))?;
            put(kept, &account)?;
            answer()
        })
    }

    /// Refuses an account that is restricted so far that it may not enter (R89). Errors: `account_closed`.
    fn check_enters(&self, kept: &KeptWrite<'_, '_>, account: &Account) -> Result<()> {
        kept.check_enters(self.engine, self.org, account.caller())
    }

    /// The invitation of the request. It is used up.
    fn invited(&self, kept: &mut KeptWrite<'_, '_>, request: &Request) -> Result<Option<Fields>> {
        let invite = request.optional_text("invite")?;
        let Some(invite) = invite.filter(|_| self.sign_up != SignUp::Closed) else {
            let what = match self.sign_up {
                SignUp::Open => return Ok(None),
                SignUp::Invited => "this server takes no accounts without an invitation",
                SignUp::Closed => "this server takes no new accounts",
            };
            return Err(Error::new(Code::InvitationNeeded, what));
        };
        let pk = sha_s(invite);
        let unknown = || Error::new(Code::InvitationUnknown, "no open invitation has this id");
        let found = kept.get(INVITATIONS, &pk)?.ok_or_else(unknown)?;
        if found.get("until").and_then(Value::as_u64).is_none_or(|until| until <= self.now_ms) {
            return Err(unknown());
        }
        kept.remove(INVITATIONS, &pk)?;
        Ok(Some(found))
    }

    /// The end of a request's challenge. It needs no write, which a stranger could make others wait for. Errors:
    /// `contention` for a challenge that is not this site's, for this place, or has ended.
    fn check_challenge(&self, request: &Request, login: &str) -> Result<u64> {
        let place = [self.org, login, request.text("wrap")?];
        challenge::until(&self.secret, &place, self.now_ms, &request.array("challenge")?).ok_or_else(again)
    }

    /// Checks the proof of a request, and uses up its challenge. Errors: `contention` for a challenge that is unknown, used
    /// or too old; `wrong_passphrase`; `account_closed`.
    pub(super) fn prove(&self, kept: &KeptWrite<'_, '_>, request: &Request, login: &str) -> Result<Proven> {
        let wrap_id = request.text("wrap")?;
        let (challenge, nonce) = (request.array("challenge")?, request.array("nonce")?);
        let proof: [u8; 32] = request.array("proof")?;
        let other = request.other()?;
        let until = self.check_challenge(request, login)?;
        let wrong = || Error::new(Code::WrongPassphrase, "no account has this login and this secret");
        let mut account = stored(kept, login)?.ok_or_else(wrong)?;
        if account.is_closed {
            return Err(Error::new(Code::AccountClosed, "the account was closed"));
        }
        let wrap = account.wrap(wrap_id).cloned().ok_or_else(wrong)?;
        let auth = Auth {
            request: request.name(),
            org: self.org,
            login,
            wrap: wrap_id,
            challenge: &challenge,
            nonce: &nonce,
            rounds: wrap.rounds,
            kdf: &wrap.kdf,
            other: &other,
        };
        let auth = auth.bytes();
        if !is_proven(&wrap.stored, &auth, &proof) {
            return Err(wrong());
        }
        account.used.retain(|(_, until)| self.now_ms < *until);
        if account.used.iter().any(|(used, _)| used[..] == challenge[..]) {
            return Err(again());
        }
        if account.used.len() >= USED_MAX {
            return Err(Error::new(Code::TooMany, "the account signs in too often"));
        }
        // The clocks of other instances may be behind: to them the challenge is valid for longer.
        account.used.push((challenge.to_vec(), until + challenge::VALID_MS));
        Ok(Proven { account, wrap, auth })
    }

    /// `sign-in`: K as the server holds it, and a token.
    pub(super) fn sign_in(&self, request: &Request) -> Result<Fields> {
        let login = request.login()?;
        let asked = request.map("device")?;
        let label = Device::label_of(asked.get("label"))?;
        let known = match asked.get("id") {
            None => None,
            Some(id) => Some(id.as_str().ok_or_else(|| bad("`device.id` is a string"))?),
        };
        let token = b64(&random::<32>()?);
        let fresh = b64(&random::<16>()?);
        self.check_challenge(request, login)?;
        write_kept(self.engine, self.org, |kept| {
            let Proven { mut account, wrap, auth } = self.prove(kept, request, login)?;
            self.check_enters(kept, &account)?;
            let id = known.unwrap_or(&fresh);
            let place = account.devices.iter().position(|device| device.id == id);
            let mut device = match (place, known) {
                (Some(place), _) => account.devices.remove(place),
                (None, Some(_)) => {
                    return Err(Error::new(
                        Code::DeviceRevoked,
                        "the device was signed out from another one",
                    ));
                }
                (None, None) => {
                    let (id, label) = (fresh.clone(), label.clone());
                    Device { id, label, first: self.now_ms, last: self.now_ms, token: None }
                }
            };
            end_token(kept, &mut device)?;
            make_room(kept, &mut account)?;
            let (digest, until) = (digest_of(&token), self.now_ms + TOKEN_MS);
            kept.put(
                TOKENS,
                &digest,
                &entries_of([
                    ("account", Value::from(sha_s(login).as_str())),
                    ("device", Value::from(device.id.as_str())),
                    ("until", number(until)),
                    ("used", number(self.now_ms)),
                ]),
            )?;
            device.last = self.now_ms;
            device.token = Some(digest);
            if asked.contains_key("label") {
                device.label.clone_from(&label);
            }
            let answer = entries_of([
                ("pub", Value::Bytes(account.public.to_vec())),
                ("wrapped", Value::Bytes(wrap.wrapped.clone())),
                ("token", Value::from(token.as_str())),
                ("until", number(until)),
                ("device", Value::from(device.id.as_str())),
                ("signature", Value::Bytes(sign(&wrap, &auth, &account.public))),
            ]);
            account.devices.push(device);
            put(kept, &account)?;
            Ok(answer)
        })
    }
}

/// Ends the device that was unused longest, if a further one has no room.
fn make_room(kept: &mut KeptWrite<'_, '_>, account: &mut Account) -> Result<()> {
    while account.devices.len() >= DEVICES_MAX {
        let uses = account.devices.iter().map(|device| last_use(device, |token| kept.get(TOKENS, token)));
        let uses = uses.collect::<Result<Vec<_>>>()?;
        let unused = (0..uses.len()).min_by_key(|place| uses[*place]).unwrap_or(0);
        let mut ended = account.devices.remove(unused);
        end_token(kept, &mut ended)?;
    }
    Ok(())
}

fn again() -> Error {
    Error::new(Code::Contention, "the challenge is unknown, used or too old: start again")
}

/// Whether a sign-up is that of the account, sent again.
fn is_repeat(before: &Account, again: &Account) -> bool {
    let checks = |account: &Account| {
        let mut checks: Vec<_> = account.wraps.iter().map(|wrap| wrap.stored).collect();
        checks.sort_unstable();
        checks
    };
    before.public == again.public && checks(before) == checks(again)
}

fn sign(wrap: &Wrap, auth: &[u8], public: &[u8; 32]) -> Vec<u8> {
    signature(&wrap.server, auth, public, &wrap.wrapped).to_vec()
}
