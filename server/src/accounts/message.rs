//! The messages of the endpoint `account` (R74): one map in, one map out.

use std::collections::BTreeMap;

use escale::codec::pack;
use escale::limits::TEXT_CHARS_MAX;
use escale::model::Value;
use escale::{Code, Error, Result};

use super::enter::{Proof, SignInForm, SignUp, SignUpForm};
use super::login::check_login;
use super::manage::ChangeForm;
use super::record::{WRAPS_MAX, bad};
use super::tokens::SignedIn;
use crate::engine::{Engine, Restrictions, Wrap, check_enters, derive_site_secret};

/// The fields of a message.
pub(super) type Fields = BTreeMap<String, Value>;

/// The fields that a proof covers by themselves, and not as `other`.
const COVERED: [&str; 7] = ["p", "do", "login", "wrap", "challenge", "nonce", "proof"];

/// A request, checked only so far that it is a map of this protocol.
pub(super) struct Request<'m> {
    map: &'m Fields,
    name: &'m str,
}

/// The parts that an answer needs.
pub(super) struct Service<'s> {
    pub(super) engine: &'s Engine,
    pub(super) org: &'s str,
    pub(super) sign_up: SignUp,
    pub(super) now_ms: u64,
    /// Signs challenges.
    pub(super) secret: [u8; 32],
}

/// A request, with every field that its form needs.
pub(super) enum Form<'m> {
    Start { login: &'m str, wrap: &'m str },
    StartSignUp(&'m str),
    SignUp(SignUpForm<'m>),
    SignIn(SignInForm<'m>),
    Wraps,
    Change(ChangeForm<'m>),
    Devices,
    Revoke(&'m str),
    SignOut,
    Close(Proof<'m>, bool),
}

/// A request whose form and challenge are right. No account was read for it, so a refusal tells nothing.
pub struct Checked<'m> {
    service: Service<'m>,
    form: Form<'m>,
    signed_in: Option<&'m SignedIn>,
}

/// How the limits count a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts<'m> {
    /// Nothing: its bearer has signed in.
    Nothing,
    /// A request of a stranger.
    Asked,
    /// An account that is made.
    SignUp,
    /// A proof of a passphrase, which can be guessed. Codes and passkeys are random, and too long for that.
    Guess {
        /// The login whose passphrase it is.
        login: &'m str,
    },
}

/// Checks a request of an org as far as it needs no account. `signed_in` is the bearer of its token, if it has a valid one.
/// Errors: `malformed`, `wrong_protocol`, `unauthorized`; `bad_login` at a sign-up; `account_closed` for a bearer; `contention` for a challenge that
/// is unknown or too old.
pub fn check<'m>(
    engine: &'m Engine,
    org: &'m str,
    sign_up: SignUp,
    message: &'m Value,
    signed_in: Option<&'m SignedIn>,
) -> Result<Checked<'m>> {
    let map = message.as_map().ok_or_else(|| bad("a map was expected"))?;
    if map.get("p").and_then(Value::as_u64) != Some(1) {
        return Err(Error::new(Code::WrongProtocol, "protocol 1 was expected"));
    }
    let name = map.get("do").and_then(Value::as_str).ok_or_else(|| bad("`do` is a string"))?;
    let request = Request { map, name };
    let secret = derive_site_secret(engine, "account challenges")?;
    let service = Service { engine, org, sign_up, now_ms: engine.clock_ms(), secret };
    let bearer = || {
        let signed_in =
            signed_in.ok_or_else(|| Error::new(Code::Unauthorized, "a valid token is required"))?;
        let caller = Restrictions::of(engine).restricted(org, signed_in.caller.clone())?;
        check_enters(engine, org, &caller).map(|()| signed_in)
    };
    let form = match name {
        "start" => match request.optional_text("wrap")? {
            Some(wrap) => Form::Start { login: request.login()?, wrap },
            None => Form::StartSignUp(request.new_login()?),
        },
        "sign-up" => Form::SignUp(service.sign_up_form(&request)?),
        "sign-in" => Form::SignIn(service.sign_in_form(&request)?),
        "wraps" => {
            let signed_in = request.of(bearer()?)?;
            if request.has("proof") {
                Form::Change(service.change_form(&request, signed_in)?)
            } else {
                Form::Wraps
            }
        }
        "devices" => bearer().map(|_| Form::Devices)?,
        "revoke" => bearer().and_then(|_| request.text("device")).map(Form::Revoke)?,
        "sign-out" => bearer().map(|_| Form::SignOut)?,
        "close" => {
            let signed_in = request.of(bearer()?)?;
            Form::Close(service.proof(&request, &signed_in.login)?, request.flag("force")?)
        }
        _ => return Err(bad("`do` names no request")),
    };
    Ok(Checked { service, form, signed_in })
}

/// Checks a request, and answers it: see [`check`] and [`Checked::answer`].
pub fn answer(
    engine: &Engine,
    org: &str,
    sign_up: SignUp,
    message: &Value,
    signed_in: Option<&SignedIn>,
) -> Result<Value> {
    check(engine, org, sign_up, message, signed_in)?.answer()
}

impl<'m> Checked<'m> {
    /// How the limits count it.
    pub fn counts(&self) -> Counts<'m> {
        match &self.form {
            Form::Start { .. } | Form::StartSignUp(_) => Counts::Asked,
            Form::SignUp(_) => Counts::SignUp,
            Form::SignIn(SignInForm { proof, .. })
            | Form::Change(ChangeForm { proof, .. })
            | Form::Close(proof, _) => {
                if proof.is_guessable() {
                    Counts::Guess { login: proof.login }
                } else {
                    Counts::Asked
                }
            }
            Form::Wraps | Form::Devices | Form::Revoke(_) | Form::SignOut => Counts::Nothing,
        }
    }

    /// Answers it. Errors: those of R74's table, and `unauthorized`.
    pub fn answer(&self) -> Result<Value> {
        let service = &self.service;
        let bearer =
            || self.signed_in.ok_or_else(|| Error::new(Code::Unauthorized, "a valid token is required"));
        let answer = match &self.form {
            Form::Start { login, wrap } => service.start(login, wrap),
            Form::StartSignUp(login) => service.start_sign_up(login),
            Form::SignUp(form) => service.sign_up(form),
            Form::SignIn(form) => service.sign_in(form),
            Form::Wraps => service.wraps(bearer()?),
            Form::Change(form) => service.change(form, bearer()?),
            Form::Devices => service.devices(bearer()?),
            Form::Revoke(device) => service.revoke(device, bearer()?),
            Form::SignOut => service.sign_out(bearer()?),
            Form::Close(proof, forces) => service.close(proof, *forces),
        };
        answer.map(Value::Map)
    }
}

impl<'m> Request<'m> {
    /// The name of the request.
    pub(super) fn name(&self) -> &'m str {
        self.name
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.map.contains_key(name)
    }

    /// The bearer of the token, unless the request names another login: no proof covers that.
    fn of<'e>(&self, signed_in: &'e SignedIn) -> Result<&'e SignedIn> {
        match self.optional_text("login")? {
            Some(login) if login != signed_in.login => Err(bad("`login` is not that of the token")),
            _ => Ok(signed_in),
        }
    }

    /// A text of 1 to 1,024 characters.
    pub(super) fn text(&self, name: &str) -> Result<&'m str> {
        self.optional_text(name)?.ok_or_else(|| bad(&format!("`{name}` is missing")))
    }

    pub(super) fn optional_text(&self, name: &str) -> Result<Option<&'m str>> {
        match self.map.get(name) {
            None => Ok(None),
            Some(Value::String(text)) if !text.is_empty() && text.chars().count() <= TEXT_CHARS_MAX => {
                Ok(Some(text))
            }
            Some(_) => Err(bad(&format!("`{name}` is a string of 1 to {TEXT_CHARS_MAX} characters"))),
        }
    }

    pub(super) fn login(&self) -> Result<&'m str> {
        self.text("login")
    }

    /// The login of a new account. Errors: `bad_login`.
    pub(super) fn new_login(&self) -> Result<&'m str> {
        let login = self.login()?;
        check_login(login).map(|()| login)
    }

    /// Bytes of a fixed length.
    pub(super) fn array<const N: usize>(&self, name: &str) -> Result<[u8; N]> {
        let found = match self.map.get(name) {
            Some(Value::Bytes(bytes)) => bytes.as_slice().try_into().ok(),
            _ => None,
        };
        found.ok_or_else(|| bad(&format!("`{name}` has {N} bytes")))
    }

    /// A map, if there is one.
    pub(super) fn map(&self, name: &str) -> Result<Option<&'m Fields>> {
        match self.map.get(name) {
            None => Ok(None),
            Some(Value::Map(map)) => Ok(Some(map)),
            Some(_) => Err(bad(&format!("`{name}` is a map"))),
        }
    }

    /// A list of texts; empty if there is none.
    pub(super) fn texts(&self, name: &str) -> Result<Vec<String>> {
        let items = self.list(name)?;
        items
            .iter()
            .map(|item| item.as_str().map(str::to_owned))
            .collect::<Option<_>>()
            .ok_or_else(|| bad(&format!("`{name}` is a list of strings")))
    }

    /// A list of wraps.
    pub(super) fn wraps(&self, name: &str, now_ms: u64) -> Result<Vec<Wrap>> {
        let wrap_of = |item: &Value| {
            let map = item.as_map().ok_or_else(|| bad("a wrap is a map"))?;
            Wrap::of_request(map, now_ms)
        };
        self.list(name)?.iter().map(wrap_of).collect()
    }

    /// Whether a flag is set.
    pub(super) fn flag(&self, name: &str) -> Result<bool> {
        match self.map.get(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(bad(&format!("`{name}` is true or false"))),
        }
    }

    fn list(&self, name: &str) -> Result<&'m [Value]> {
        match self.map.get(name) {
            None => Ok(&[]),
            Some(Value::Array(items)) if items.len() <= WRAPS_MAX => Ok(items),
            Some(_) => Err(bad(&format!("`{name}` is a list of at most {WRAPS_MAX}"))),
        }
    }

    /// The other fields as canonical msgpack: keys in byte order, shortest encodings.
    pub(super) fn other(&self) -> Result<Vec<u8>> {
        let other: Fields = self
            .map
            .iter()
            .filter(|(name, _)| !COVERED.contains(&name.as_str()))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        pack(&other)
    }
}
