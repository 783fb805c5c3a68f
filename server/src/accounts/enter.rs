//! Sign-up and sign-in (R72 to R75).

use escale::limits::KDF_ROUNDS;
use escale::model::{Value, sha_s};
use escale::{Code, Error, Result};

use super::challenge;
use super::formulas::{Auth, account_id, b64, hmac, is_proven, signature};
use super::key::{SealedToken, is_shown, random, seal_token, server_key_of};
use super::message::{Fields, Request, Service};
use super::record::{DEVICES_MAX, USED_MAX, bad};
use super::tokens::digest_of;
use crate::engine::{
    Account, AccountId, Device, Invitation, NewAccount, SystemRecord, Token, Wrap, WriteTx, entries_of,
    number, read_system_record_or_like, write_system_record,
};

/// How long a token is valid, in milliseconds (R74).
const TOKEN_MS: u64 = 7 * 86_400_000;

/// The place of a sign-up's challenge, where those of others have the id of a wrap, which is never empty.
const SIGN_UP: &str = "";

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
    challenge: [u8; 32],
    /// Shows the key of the account, over the bytes of [`Auth::bytes`] in `auth`.
    shown: [u8; 32],
    auth: Vec<u8>,
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

/// The account of a login.
pub(super) fn stored(write: &WriteTx<'_>, login: &str) -> Result<Option<Account>> {
    write.record(&sha_s(login))
}

impl Device {
    /// Ends its token. It keeps the last use that is noted at the token.
    pub(super) fn end_token(&mut self, write: &mut WriteTx<'_>) -> Result<()> {
        self.last = self.last_use(|token| write.record(token))?;
        match self.token.take() {
            Some(token) => write.remove_record::<Token>(&token),
            None => Ok(()),
        }
    }

    /// Its last sign-in, or a later use of its token that is noted.
    pub(super) fn last_use(&self, stored: impl Fn(&str) -> Result<Option<Token>>) -> Result<u64> {
        let token = self.token.as_deref().map(stored).transpose()?.flatten();
        Ok(token.map_or(self.last, |token| token.used.max(self.last)))
    }
}

impl Account {
    /// Ends the device that was unused longest, if a further one has no room.
    fn make_room(&mut self, write: &mut WriteTx<'_>) -> Result<()> {
        while self.devices.len() >= DEVICES_MAX {
            let uses = self.devices.iter().map(|device| device.last_use(|token| write.record(token)));
            let uses = uses.collect::<Result<Vec<_>>>()?;
            let unused = (0..uses.len()).min_by_key(|place| uses[*place]).unwrap_or(0);
            self.devices.remove(unused).end_token(write)?;
        }
        Ok(())
    }
}

impl Service<'_> {
    /// The account of a login, or another account of the org, and whether it is the first. Both take the same time. The
    /// other one is always the same, unless accounts come.
    fn look(&self, login: &str) -> Result<(Option<Account>, bool)> {
        let like =
            hmac(&self.secret, &[b"another account", &[0], self.org.as_bytes(), &[0], login.as_bytes()]);
        read_system_record_or_like(self.engine, self.org, &sha_s(login), &b64(&like[..16]))
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

    /// `start` without a wrap: a challenge for a sign-up, and a key of the server for it.
    pub(super) fn start_sign_up(&self, login: &str) -> Result<Fields> {
        let made = challenge::make(&self.secret, &[self.org, login, SIGN_UP], self.now_ms, random()?);
        Ok(entries_of([
            ("challenge", Value::Bytes(made.to_vec())),
            ("serverKey", Value::Bytes(server_key_of(&self.secret, &made).to_vec())),
        ]))
    }

    /// The form of `sign-up`. Errors: `malformed`; `bad_login`; `bad_value` without a passphrase and a code; `contention` for
    /// a challenge that is not of this site for this login, or has ended.
    pub(super) fn sign_up_form<'m>(&self, request: &Request<'m>) -> Result<SignUpForm<'m>> {
        let login = request.new_login()?;
        let public: [u8; 32] = request.array("pub")?;
        let (challenge, nonce) = (request.array("challenge")?, request.array("nonce")?);
        let shown = request.array("proof")?;
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
        let invite = request.optional_text("invite")?;
        let place = [self.org, login, SIGN_UP];
        challenge::until(&self.secret, &place, self.now_ms, &challenge).ok_or_else(again)?;
        let auth = Auth {
            request: request.name(),
            org: self.org,
            login,
            wrap: SIGN_UP,
            challenge: &challenge,
            nonce: &nonce,
            rounds: 0,
            kdf: "none",
            other: &request.other()?,
        };
        let auth = auth.bytes();
        Ok(SignUpForm { account, invite, challenge, shown, auth })
    }

    /// `sign-up`: makes an account. A repeat gets the same answer. Errors: `bad_value` without the private key of `pub`.
    pub(super) fn sign_up(&self, form: &SignUpForm<'_>) -> Result<Fields> {
        let SignUpForm { account: Account { public, .. }, challenge, shown, auth, .. } = form;
        if !is_shown(&self.secret, challenge, public, auth, shown) {
            return Err(Error::new(Code::BadValue, "`proof` does not show the private key of `pub`"));
        }
        let mut account = form.account.clone();
        let login = form.account.login.as_str();
        let answer = || Ok(entries_of([("account", Value::from(form.account.id.as_str()))]));
        if let Err(refusal) = self.check_invite(form.invite) {
            // Without the lock of writes, and for every login alike: a stranger without an invitation learns nothing.
            let (before, is_own) = self.look(login)?;
            let is_again = before.is_some_and(|before| !before.is_closed && is_repeat(&before, &account));
            return if is_own && is_again { answer() } else { Err(refusal) };
        }
        write_system_record(self.engine, self.org, |tx| {
            let write = &mut tx.write;
            let before = stored(write, login)?;
            if before.as_ref().is_some_and(|before| !before.is_closed && is_repeat(before, &account)) {
                return answer();
            }
            // Before the rest: a stranger without an invitation learns nothing of logins.
            let invitation = self.invited(write, form.invite)?;
            let role = invitation.as_ref().and_then(|found| found.role.as_deref());
            role.unwrap_or("write").clone_into(&mut account.role);
            if before.is_some() || write.record::<AccountId>(&account.id)?.is_some() {
                return Err(Error::new(Code::LoginTaken, "the login or the key belongs to another account"));
            }
            let Account { id, role, .. } = &account;
            write.check_enters(account.caller())?;
            let invitation = invitation.map(|found| found.encode());
            tx.signs_up(&NewAccount { id, login, role, invitation: invitation.as_ref() })?;
            let write = &mut tx.write;
            write.put_record(id, &AccountId { login: login.to_owned() })?;
            account.store(write)?;
            answer()
        })
    }

    /// Whether this server takes an account with or without an invitation. Errors: `invitation_needed`.
    fn check_invite(&self, invite: Option<&str>) -> Result<()> {
        let message = match (self.sign_up, invite) {
            (SignUp::Open, _) | (SignUp::Invited, Some(_)) => return Ok(()),
            (SignUp::Invited, None) => "this server takes no accounts without an invitation",
            (SignUp::Closed, _) => "this server takes no new accounts",
        };
        Err(Error::new(Code::InvitationNeeded, message))
    }

    /// The invitation of that id, if there is an id. It is used up.
    fn invited(&self, write: &mut WriteTx<'_>, invite: Option<&str>) -> Result<Option<Invitation>> {
        let Some(invite) = invite else { return Ok(None) };
        let pk = sha_s(invite);
        let unknown = || Error::new(Code::InvitationUnknown, "no open invitation has this id");
        let found: Invitation = write.record(&pk)?.ok_or_else(unknown)?;
        if found.until <= self.now_ms {
            return Err(unknown());
        }
        write.remove_record::<Invitation>(&pk)?;
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
    pub(super) fn prove(&self, write: &WriteTx<'_>, proof: &Proof<'_>) -> Result<Proven> {
        self.judge(proof, stored(write, proof.login)?, true)
    }

    fn judge(&self, proof: &Proof<'_>, account: Option<Account>, is_own: bool) -> Result<Proven> {
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

    /// `sign-in`: K as the server holds it, and a token that opens by K alone. Errors: those of [`Service::prove`].
    pub(super) fn sign_in(&self, form: &SignInForm<'_>) -> Result<Fields> {
        let SignInForm { proof, known, label } = form;
        let login = proof.login;
        let token = b64(&random::<32>()?);
        let fresh = b64(&random::<16>()?);
        self.check_proof(proof)?;
        write_system_record(self.engine, self.org, |tx| {
            let write = &mut tx.write;
            let Proven { mut account, wrap, auth } = self.prove(write, proof)?;
            write.check_enters(account.caller())?;
            let SealedToken { server_key, sealed } =
                seal_token(&account.public, &auth, &token)?.ok_or_else(wrong)?;
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
            device.end_token(write)?;
            account.make_room(write)?;
            let (digest, until) = (digest_of(&token), self.now_ms + TOKEN_MS);
            let (account_pk, used) = (sha_s(login), self.now_ms);
            write.put_record(
                &digest,
                &Token { account: account_pk, device: device.id.clone(), until, used },
            )?;
            device.last = self.now_ms;
            device.token = Some(digest);
            if let Some(label) = label {
                device.label.clone_from(label);
            }
            let answer = entries_of([
                ("pub", Value::Bytes(account.public.to_vec())),
                ("wrapped", Value::Bytes(wrap.wrapped.clone())),
                ("serverKey", Value::Bytes(server_key.to_vec())),
                ("token", Value::Bytes(sealed)),
                ("until", number(until)),
                ("device", Value::from(device.id.as_str())),
                ("role", Value::from(account.role.as_str())),
                ("signature", Value::Bytes(sign(&wrap, &auth, &account.public))),
            ]);
            account.devices.push(device);
            account.store(write)?;
            Ok(answer)
        })
    }
}

fn again() -> Error {
    Error::new(Code::Contention, "the challenge is unknown, used or too old: start again")
}

fn wrong() -> Error {
    Error::new(Code::WrongPassphrase, "no account has this login and this secret")
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
