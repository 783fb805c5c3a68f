//! An account as the server stores it (R73).

use std::collections::BTreeMap;

use escale::limits::KDF_ROUNDS;
use escale::model::Value;
use escale::{Code, Error, Result};

use crate::engine::Caller;

type Map = BTreeMap<String, Value>;

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

/// K, wrapped under one secret, and the values that check a proof of that secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrap {
    /// Its id: `passphrase`, or a hash of the code, or the id of a credential.
    pub id: String,
    /// The kind of secret.
    pub by: String,
    /// The key derivation.
    pub kdf: String,
    /// Its rounds; 0 for `none`.
    pub rounds: u32,
    /// The sealed K.
    pub wrapped: Vec<u8>,
    /// Checks a proof.
    pub stored: [u8; 32],
    /// Signs the server's answer.
    pub server: [u8; 32],
    /// When it was put here, in milliseconds since 1970.
    pub at: u64,
}

/// A device that has signed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its id, made by the server.
    pub id: String,
    /// The name that its application gave it.
    pub label: String,
    /// Its first sign-in, in milliseconds since 1970.
    pub first: u64,
    /// Its last sign-in, or the last use that was noted when its token ended.
    pub last: u64,
    /// The digest of its token, if it has one.
    pub token: Option<String>,
}

/// An account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The account id (R72).
    pub id: String,
    /// The login.
    pub login: String,
    /// The public key.
    pub public: [u8; 32],
    /// `read`, `write` or `admin`.
    pub role: String,
    /// Whether it was closed: then only its id and its login are left.
    pub is_closed: bool,
    /// K, wrapped under each secret.
    pub wraps: Vec<Wrap>,
    /// The devices.
    pub devices: Vec<Device>,
    /// The challenges used, each with the time at which it ends anyway.
    pub used: Vec<(Vec<u8>, u64)>,
}

impl Wrap {
    /// Reads a wrap of a request. Errors: `malformed`.
    pub(super) fn of_request(map: &Map, now_ms: u64) -> Result<Self> {
        let wrap = Wrap { at: now_ms, ..Wrap::of_map(map).ok_or_else(|| bad("a wrap lacks a field"))? };
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

    fn of_map(map: &Map) -> Option<Self> {
        let text = |name: &str| map.get(name).and_then(Value::as_str).map(str::to_owned);
        Some(Wrap {
            id: text("id")?,
            by: text("by")?,
            kdf: text("kdf")?,
            rounds: map.get("rounds").and_then(Value::as_u64)?.try_into().ok()?,
            wrapped: bytes(map, "wrapped")?,
            stored: bytes(map, "stored")?.try_into().ok()?,
            server: bytes(map, "server")?.try_into().ok()?,
            at: map.get("at").and_then(Value::as_u64).unwrap_or(0),
        })
    }

    fn to_map(&self) -> Value {
        map_of([
            ("id", Value::from(self.id.as_str())),
            ("by", Value::from(self.by.as_str())),
            ("kdf", Value::from(self.kdf.as_str())),
            ("rounds", Value::from(i64::from(self.rounds))),
            ("wrapped", Value::Bytes(self.wrapped.clone())),
            ("stored", Value::Bytes(self.stored.to_vec())),
            ("server", Value::Bytes(self.server.to_vec())),
            ("at", number(self.at)),
        ])
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

    fn of_map(map: &Map) -> Option<Self> {
        let text = |name: &str| map.get(name).and_then(Value::as_str).map(str::to_owned);
        let time = |name: &str| map.get(name).and_then(Value::as_u64);
        Some(Device {
            id: text("id")?,
            label: text("label")?,
            first: time("first")?,
            last: time("last")?,
            token: text("token"),
        })
    }

    fn to_map(&self) -> Value {
        let token = self.token.as_deref().map_or(Value::Null, Value::from);
        map_of([
            ("id", Value::from(self.id.as_str())),
            ("label", Value::from(self.label.as_str())),
            ("first", number(self.first)),
            ("last", number(self.last)),
            ("token", token),
        ])
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

    /// Reads a stored account. Errors: `storage_failed`.
    pub(super) fn of_map(map: &Map) -> Result<Self> {
        Account::read(map).ok_or_else(|| Error::new(Code::StorageFailed, "a stored account is damaged"))
    }

    fn read(map: &Map) -> Option<Self> {
        let text = |name: &str| map.get(name).and_then(Value::as_str).map(str::to_owned);
        let maps = |name: &str| map.get(name).and_then(Value::as_array).unwrap_or_default();
        let used = maps("used").iter().map(|pair| match pair.as_array() {
            Some([Value::Bytes(challenge), until]) => Some((challenge.clone(), until.as_u64()?)),
            _ => None,
        });
        Some(Account {
            id: text("id")?,
            login: text("login")?,
            public: bytes(map, "pub")?.try_into().ok()?,
            role: text("role")?,
            is_closed: map.get("closed") == Some(&Value::Bool(true)),
            wraps: maps("wraps").iter().map(|wrap| Wrap::of_map(wrap.as_map()?)).collect::<Option<_>>()?,
            devices: maps("devices")
                .iter()
                .map(|one| Device::of_map(one.as_map()?))
                .collect::<Option<_>>()?,
            used: used.collect::<Option<_>>()?,
        })
    }

    /// The record to store.
    pub(super) fn to_map(&self) -> Map {
        let used = self
            .used
            .iter()
            .map(|(challenge, until)| Value::Array(vec![Value::Bytes(challenge.clone()), number(*until)]));
        entries_of([
            ("id", Value::from(self.id.as_str())),
            ("login", Value::from(self.login.as_str())),
            ("pub", Value::Bytes(self.public.to_vec())),
            ("role", Value::from(self.role.as_str())),
            ("closed", Value::Bool(self.is_closed)),
            ("wraps", Value::Array(self.wraps.iter().map(Wrap::to_map).collect())),
            ("devices", Value::Array(self.devices.iter().map(Device::to_map).collect())),
            ("used", Value::Array(used.collect())),
        ])
    }
}

/// The bytes of a field.
pub(super) fn bytes(map: &Map, name: &str) -> Option<Vec<u8>> {
    match map.get(name) {
        Some(Value::Bytes(bytes)) => Some(bytes.clone()),
        _ => None,
    }
}

/// A map of these entries.
pub(super) fn entries_of<const N: usize>(entries: [(&str, Value); N]) -> Map {
    entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The same as a value.
pub(super) fn map_of<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::Map(entries_of(entries))
}

/// A time or a count.
pub(super) fn number(n: u64) -> Value {
    Value::Number(escale::model::Number::from_u64(n))
}

/// The refusal of a request that is no message of the protocol.
pub(super) fn bad(what: &str) -> Error {
    Error::new(Code::Malformed, what)
}
