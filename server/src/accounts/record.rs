//! The parts of an account as requests make and change them (R73).

use escale::limits::KDF_ROUNDS;
use escale::model::Value;
use escale::{Code, Error, Result};

use crate::engine::{Account, Caller, Device, Properties, Wrap};

/// Wraps of one account.
pub(super) const WRAPS_MAX: usize = 16;

/// Devices of one account. A sign-in beyond them ends the device that was unused longest.
pub(super) const DEVICES_MAX: usize = 64;

/// Challenges that one account may have used within their life.
pub(super) const USED_MAX: usize = 256;

/// Characters of a device's label.
const LABEL_BYTES_MAX: usize = 256;

/// Bytes of a sealed K: nonce, key and tag.
const WRAPPED_BYTES: usize = 12 + 32 + 16;

impl Wrap {
    /// Reads a wrap of a request. Errors: `malformed`.
    pub(super) fn of_request(map: &Properties, now_ms: u64) -> Result<Self> {
        let wrap = Wrap { at: now_ms, ..Wrap::decode(map).ok_or_else(|| bad("a wrap lacks a field"))? };
        let is_known = match wrap.by.as_str() {
            "passphrase" => {
                wrap.id == "passphrase"
                    && wrap.kdf == "pbkdf2"
                    && (KDF_ROUNDS.0..=KDF_ROUNDS.1).contains(&wrap.rounds)
            }
            "code" | "passkey" => wrap.id != "passphrase" && wrap.kdf == "none" && wrap.rounds == 0,
            _ => false,
        };
        if !is_known {
            return Err(bad("a wrap of no known kind, or with other rounds than its kind takes"));
        }
        if wrap.wrapped.len() != WRAPPED_BYTES || wrap.id.is_empty() || wrap.id.len() > 1_024 {
            return Err(bad("a wrap of another length"));
        }
        Ok(wrap)
    }
}

impl Device {
    /// Reads the label of a request. Errors: `malformed`, `too_large`.
    pub(super) fn label_of(value: &Value) -> Result<String> {
        match value {
            Value::String(label) if label.len() <= LABEL_BYTES_MAX => Ok(label.clone()),
            Value::String(_) => {
                Err(Error::new(Code::TooLarge, format!("a label has at most {LABEL_BYTES_MAX} bytes")))
            }
            _ => Err(bad("`label` is a string")),
        }
    }
}

impl Account {
    /// The account as a caller, restricted by nothing.
    pub(super) fn caller(&self) -> Caller {
        Caller {
            account: self.id.clone(),
            may_write: self.role != "read",
            is_admin: self.role == "admin",
            ..Caller::default()
        }
    }

    /// The wrap of that id.
    pub(super) fn wrap(&self, id: &str) -> Option<&Wrap> {
        self.wraps.iter().find(|wrap| wrap.id == id)
    }

    /// Puts wraps in the place of those of the same id, and removes others. Errors: `bad_value` if no passphrase and no
    /// code would be left (R76); `too_large`.
    pub(super) fn change_wraps(&mut self, put: Vec<Wrap>, remove: &[String]) -> Result<()> {
        let mut wraps = self.wraps.clone();
        wraps.retain(|wrap| !remove.contains(&wrap.id) && !put.iter().any(|put| put.id == wrap.id));
        wraps.extend(put);
        if !wraps.iter().any(|wrap| wrap.by != "passkey") {
            return Err(Error::new(
                Code::BadValue,
                "a passphrase or a code must be left: a passkey can be lost",
            ));
        }
        if wraps.len() > WRAPS_MAX {
            return Err(Error::new(Code::TooLarge, format!("an account has at most {WRAPS_MAX} wraps")));
        }
        self.wraps = wraps;
        Ok(())
    }
}

/// The refusal of a request that is no message of the protocol.
pub(super) fn bad(what: &str) -> Error {
    Error::new(Code::Malformed, what)
}
