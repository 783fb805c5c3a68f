//! Sign-up and sign-in (R72 to R75).

use escale::limits::KDF_ROUNDS;
use escale::model::{Value, sha_s};
use escale::{Code, Error, Result};

use super::formulas::{Auth, account_id, b64, hmac, is_proven, signature};
use super::message::{Fields, Request, Service};
use super::record::{Account, DEVICES_MAX, Device, USED_MAX, Wrap, bad, entries_of, number};
use super::tokens::{digest_of, used_of};
use super::{INVITATIONS, TOKENS, challenge};
use crate::engine::{
    ACCOUNT_IDS, ACCOUNTS, KeptWrite, NewAccount, put_account, read_kept_or_like, write_kept,
};

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

/// The form of `sign-up`.
pub(super) struct SignUpForm<'m> {
    account: Account,
    invite: Option<&'m str>,
}

/// The form of `sign-in`.
pub(super) struct SignInForm<'m> {
    pub(super) proof: Proof<'m>,
    /// The id of the device, if it has signed in before.
    known: Option<&'m str>,
    /// Its label, if the request has one.
    label: Option<String>,
}

/// A proof that was not checked, for a challenge that is right.
pub(super) struct Proof<'m> {
    name: &'m str,
    pub(super) login: &'m str,
    wrap: &'m str,
    challenge: [u8; 32],
    nonce: [u8; 32],
    shown: [u8; 32],
    /// The other fields of the request, as canonical msgpack.
    other: Vec<u8>,
    /// When the challenge ends.
    until: u64,
}

impl Proof<'_> {
    /// Whether the secret may be guessed: a passphrase. Codes and passkeys are random.
    pub(super) fn is_guessable(&self) -> bool {
        self.wrap == "passphrase"
    }
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
    /// The account of a login, or another account of the org, and whether it is the first. Both take the same time. The
    /// other one is always the same, unless accounts come.
    fn look(&self, login: &str) -> Result<(Option<Account>, bool)> {
        let like =
            hmac(&self.secret, &[b"another account", &[0], self.org.as_bytes(), &[0], login.as_bytes()]);
        let of = (self.org, ACCOUNTS);
        let (map, is_own) = read_kept_or_like(self.engine, of, &sha_s(login), &b64(&like[..16]))?;
        Ok((map.map(|map| Account::of_map(&map)).transpose()?, is_own))
    }

    /// `start`: a challenge. An unknown login gets one too, with the parameters of another account of the org.
    pub(super) fn start(&self, login: &str, wrap: &str) -> Result<Fields> {
        let (account, is_own) = self.look(login)?;
        // Nobody guesses the id of another kind of wrap, so an unknown one has the parameters of its kind.
        let found = account.as_ref().filter(|_| is_own || wrap == "passphrase");
        let (kdf, rounds) = match found.and_then(|account| account.wrap(wrap)) {
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

    /// The form of `sign-up`. Errors: `malformed`; `bad_value` without a passphrase and a code.
    pub(super) fn sign_up_form<'m>(&self, request: &Request<'m>) -> Result<SignUpForm<'m>> {
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
        Ok(SignUpForm { account, invite: request.optional_text("invite")? })
    }

    /// `sign-up`: makes an account. A repeat gets the same answer.
    pub(super) fn sign_up(&self, form: &SignUpForm<'_>) -> Result<Fields> {
        let mut account = form.account.clone();
        let login = form.account.login.as_str();
        let answer = || Ok(entries_of([("account", Value::from(form.account.id.as_str()))]));
        if let Err(refusal) = self.check_invite(form.invite) {
            // Without the lock of writes, and for every login alike: a stranger without an invitation learns nothing.
            let (before, is_own) = self.look(login)?;
            let is_again = before.is_some_and(|before| !before.is_closed && is_repeat(&before, &account));
            return if is_own && is_again { answer() } else { Err(refusal) };
        }
        write_kept(self.engine, self.org, |kept| {
            let before = stored(kept, login)?;
            if before.as_ref().is_some_and(|before| !before.is_closed && is_repeat(before, &account)) {
                return answer();
            }
            // Before the rest: a stranger without an invitation learns nothing of logins.
            let invitation = self.invited(kept, form.invite)?;
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

    /// Whether this server takes an account with or without an invitation. Errors: `invitation_needed`.
    fn check_invite(&self, invite: Option<&str>) -> Result<()> {
        let what = match (self.sign_up, invite) {
            (SignUp::Open, _) | (SignUp::Invited, Some(_)) => return Ok(()),
            (SignUp::Invited, None) => "this server takes no accounts without an invitation",
            (SignUp::Closed, _) => "this server takes no new accounts",
        };
        Err(Error::new(Code::InvitationNeeded, what))
    }

    /// The invitation of that id, if there is an id. It is used up.
    fn invited(&self, kept: &mut KeptWrite<'_, '_>, invite: Option<&str>) -> Result<Option<Fields>> {
        let Some(invite) = invite else { return Ok(None) };
        let pk = sha_s(invite);
        let unknown = || Error::new(Code::InvitationUnknown, "no open invitation has this id");
        let found = kept.get(INVITATIONS, &pk)?.ok_or_else(unknown)?;
        if found.get("until").and_then(Value::as_u64).is_none_or(|until| until <= self.now_ms) {
            return Err(unknown());
        }
        kept.remove(INVITATIONS, &pk)?;
        Ok(Some(found))
    }

    /// The proof of a request, whose challenge must be one of this site for this place. Errors: `malformed`; `contention` for
    /// another challenge, and for one that has ended.
    pub(super) fn proof<'m>(&self, request: &Request<'m>, login: &'m str) -> Result<Proof<'m>> {
        let (name, wrap) = (request.name(), request.text("wrap")?);
        let (challenge, nonce) = (request.array("challenge")?, request.array("nonce")?);
        let (shown, other) = (request.array("proof")?, request.other()?);
        let place = [self.org, login, wrap];
        let until = challenge::until(&self.secret, &place, self.now_ms, &challenge).ok_or_else(again)?;
        Ok(Proof { name, login, wrap, challenge, nonce, shown, other, until })
    }

    /// Checks a proof without the lock of writes, which a stranger could make others wait for. It takes the same time for a
    /// login that has no account. Errors: those of [`Service::prove`].
    pub(super) fn check_proof(&self, proof: &Proof<'_>) -> Result<()> {
        let (account, is_own) = self.look(proof.login)?;
        self.judge(proof, account, is_own).map(drop)
    }

    /// Checks a proof, and uses up its challenge. Errors: `contention` for a challenge that was used; `wrong_passphrase`;
    /// `account_closed`.
    pub(super) fn prove(&self, kept: &KeptWrite<'_, '_>, proof: &Proof<'_>) -> Result<Proven> {
        self.judge(proof, stored(kept, proof.login)?, true)
    }

    fn judge(&self, proof: &Proof<'_>, account: Option<Account>, is_own: bool) -> Result<Proven> {
        let wrong = || Error::new(Code::WrongPassphrase, "no account has this login and this secret");
        let own = account.as_ref().filter(|_| is_own);
        if own.is_some_and(|account| account.is_closed) {
            return Err(Error::new(Code::AccountClosed, "the account was closed"));
        }
        let wrap = own.and_then(|account| account.wrap(proof.wrap)).cloned();
        // All of this is computed without a wrap, too.
        let (rounds, kdf) = wrap.as_ref().map_or((0, "none"), |wrap| (wrap.rounds, wrap.kdf.as_str()));
        let auth = Auth {
            request: proof.name,
            org: self.org,
            login: proof.login,
            wrap: proof.wrap,
            challenge: &proof.challenge,
            nonce: &proof.nonce,
            rounds,
            kdf,
            other: &proof.other,
        };
        let auth = auth.bytes();
        let checks = wrap.as_ref().map_or([0; 32], |wrap| wrap.stored);
        let is_right = is_proven(&checks, &auth, &proof.shown);
        let (Some(mut account), Some(wrap), true) = (account, wrap, is_right) else { return Err(wrong()) };
        account.used.retain(|(_, until)| self.now_ms < *until);
        if account.used.iter().any(|(used, _)| used[..] == proof.challenge[..]) {
            return Err(again());
        }
        if account.used.len() >= USED_MAX {
            return Err(Error::new(Code::TooMany, "the account signs in too often"));
        }
        // The clocks of other instances may be behind: to them the challenge is valid for longer.
        account.used.push((proof.challenge.to_vec(), proof.until + challenge::VALID_MS));
        Ok(Proven { account, wrap, auth })
    }

    /// The form of `sign-in`.
    pub(super) fn sign_in_form<'m>(&self, request: &Request<'m>) -> Result<SignInForm<'m>> {
        let login = request.login()?;
        let asked = request.map("device")?;
        let label = asked.and_then(|asked| asked.get("label")).map(Device::label_of).transpose()?;
        let known = match asked.and_then(|asked| asked.get("id")) {
            None => None,
            Some(id) => Some(id.as_str().ok_or_else(|| bad("`device.id` is a string"))?),
        };
        Ok(SignInForm { proof: self.proof(request, login)?, known, label })
    }

    /// `sign-in`: K as the server holds it, and a token.
    pub(super) fn sign_in(&self, form: &SignInForm<'_>) -> Result<Fields> {
        let SignInForm { proof, known, label } = form;
        let login = proof.login;
        let token = b64(&random::<32>()?);
        let fresh = b64(&random::<16>()?);
        self.check_proof(proof)?;
        write_kept(self.engine, self.org, |kept| {
            let Proven { mut account, wrap, auth } = self.prove(kept, proof)?;
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
                    let (id, label) = (fresh.clone(), label.clone().unwrap_or_default());
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
            if let Some(label) = label {
                device.label.clone_from(label);
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
