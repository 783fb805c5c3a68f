//! An account as the server stores it (R73), and its id, which is taken for ever (R72).

use escale::model::Value;
use escale::{Code, Error, Result};

use crate::engine::records::fields::{bytes, entries_of, items, map_of, natural, number, text};
use crate::engine::records::record::Properties;
use crate::engine::records::system::SystemRecord;

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

/// An account, under the hash of its login.
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

/// An id that an account has taken, or had: the key of the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountId {
    /// The login of the account.
    pub login: String,
}

impl Wrap {
    /// Reads a wrap; none if a field is missing. A request has no time.
    pub(crate) fn decode(map: &Properties) -> Option<Self> {
        Some(Wrap {
            id: text(map, "id")?,
            by: text(map, "by")?,
            kdf: text(map, "kdf")?,
            rounds: natural(map, "rounds")?.try_into().ok()?,
            wrapped: bytes(map, "wrapped")?,
            stored: bytes(map, "stored")?.try_into().ok()?,
            server: bytes(map, "server")?.try_into().ok()?,
            at: natural(map, "at").unwrap_or(0),
        })
    }

    fn encode(&self) -> Value {
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
    fn decode(map: &Properties) -> Option<Self> {
        Some(Device {
            id: text(map, "id")?,
            label: text(map, "label")?,
            first: natural(map, "first")?,
            last: natural(map, "last")?,
            token: text(map, "token"),
        })
    }

    fn encode(&self) -> Value {
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
    fn read(map: &Properties) -> Option<Self> {
        let used = items(map, "used").iter().map(|pair| match pair.as_array() {
            Some([Value::Bytes(challenge), until]) => Some((challenge.clone(), until.as_u64()?)),
            _ => None,
        });
        let wraps = items(map, "wraps").iter().map(|wrap| Wrap::decode(wrap.as_map()?));
        let devices = items(map, "devices").iter().map(|device| Device::decode(device.as_map()?));
        Some(Account {
            id: text(map, "id")?,
            login: text(map, "login")?,
            public: bytes(map, "pub")?.try_into().ok()?,
            role: text(map, "role")?,
            is_closed: map.get("closed") == Some(&Value::Bool(true)),
            wraps: wraps.collect::<Option<_>>()?,
            devices: devices.collect::<Option<_>>()?,
            used: used.collect::<Option<_>>()?,
        })
    }
}

impl SystemRecord for Account {
    const CLASS: &'static str = "#account";

    fn encode(&self) -> Properties {
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
            ("wraps", Value::Array(self.wraps.iter().map(Wrap::encode).collect())),
            ("devices", Value::Array(self.devices.iter().map(Device::encode).collect())),
            ("used", Value::Array(used.collect())),
        ])
    }

    fn decode(stored: &Properties) -> Result<Self> {
        Account::read(stored).ok_or_else(|| Error::new(Code::StorageFailed, "a stored account is damaged"))
    }
}

impl SystemRecord for AccountId {
    const CLASS: &'static str = "#account-id";

    fn encode(&self) -> Properties {
        entries_of([("login", Value::from(self.login.as_str()))])
    }

    fn decode(stored: &Properties) -> Result<Self> {
        // No account has an empty login.
        Ok(AccountId { login: text(stored, "login").unwrap_or_default() })
    }
}
