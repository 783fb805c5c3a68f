//! The messages of the endpoint `account` (R74): one map in, one map out.

use std::collections::BTreeMap;

use escale::codec::pack;
use escale::limits::TEXT_CHARS_MAX;
use escale::model::Value;
use escale::{Code, Error, Result};

use super::enter::SignUp;
use super::record::{WRAPS_MAX, Wrap, bad};
use super::tokens::Entered;
use crate::engine::{Engine, Restrictions, check_enters, site_secret};

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

/// Answers a request of an org. `entered` is the bearer of its token, if it has a valid one. Errors: those of R74's table,
/// `malformed`, `wrong_protocol`, `unauthorized`.
pub fn answer(
    engine: &Engine,
    org: &str,
    sign_up: SignUp,
    message: &Value,
    entered: Option<&Entered>,
) -> Result<Value> {
    let map = message.as_map().ok_or_else(|| bad("a map was expected"))?;
    if map.get("p").and_then(Value::as_u64) != Some(1) {
        return Err(Error::new(Code::WrongProtocol, "protocol 1 was expected"));
    }
    let name = map.get("do").and_then(Value::as_str).ok_or_else(|| bad("`do` is a string"))?;
    let request = Request { map, name };
    let secret = site_secret(engine, "account challenges")?;
    let service = Service { engine, org, sign_up, now_ms: engine.clock_ms(), secret };
    let entered = || {
        let entered = entered.ok_or_else(|| Error::new(Code::Unauthorized, "a valid token is required"))?;
        let caller = Restrictions::of(engine).restricted(org, entered.caller.clone())?;
        check_enters(engine, org, &caller).map(|()| entered)
    };
    let answer = match name {
        "start" => service.start(&request),
        "sign-up" => service.sign_up(&request),
        "sign-in" => service.sign_in(&request),
        "wraps" => service.wraps(&request, request.of(entered()?)?),
        "devices" => service.devices(entered()?),
        "revoke" => service.revoke(&request, entered()?),
        "sign-out" => service.sign_out(entered()?),
        "close" => service.close(&request, request.of(entered()?)?),
        _ => Err(bad("`do` names no request")),
    };
    answer.map(Value::Map)
}

impl Request<'_> {
    /// The name of the request.
    pub(super) fn name(&self) -> &str {
        self.name
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.map.contains_key(name)
    }

    /// The bearer of the token, unless the request names another login: no proof covers that.
    fn of<'e>(&self, entered: &'e Entered) -> Result<&'e Entered> {
        match self.optional_text("login")? {
            Some(login) if login != entered.login => Err(bad("`login` is not that of the token")),
            _ => Ok(entered),
        }
    }

    /// A text of 1 to 1,024 characters.
    pub(super) fn text(&self, name: &str) -> Result<&str> {
        self.optional_text(name)?.ok_or_else(|| bad(&format!("`{name}` is missing")))
    }

    pub(super) fn optional_text(&self, name: &str) -> Result<Option<&str>> {
        match self.map.get(name) {
            None => Ok(None),
            Some(Value::String(text)) if !text.is_empty() && text.chars().count() <= TEXT_CHARS_MAX => {
                Ok(Some(text))
            }
            Some(_) => Err(bad(&format!("`{name}` is a string of 1 to {TEXT_CHARS_MAX} characters"))),
        }
    }

    pub(super) fn login(&self) -> Result<&str> {
        self.text("login")
    }

    /// Bytes of a fixed length.
    pub(super) fn array<const N: usize>(&self, name: &str) -> Result<[u8; N]> {
        let found = match self.map.get(name) {
            Some(Value::Bytes(bytes)) => bytes.as_slice().try_into().ok(),
            _ => None,
        };
        found.ok_or_else(|| bad(&format!("`{name}` has {N} bytes")))
    }

    /// A map; empty if there is none.
    pub(super) fn map(&self, name: &str) -> Result<Fields> {
        match self.map.get(name) {
            None => Ok(Fields::new()),
            Some(Value::Map(map)) => Ok(map.clone()),
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

    fn list(&self, name: &str) -> Result<&[Value]> {
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
