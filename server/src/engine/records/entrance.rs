//! The records of those who may enter: tokens of accounts, and open invitations.

use escale::Result;
use escale::model::Value;

use crate::engine::records::fields::{entries_of, natural, number, text};
use crate::engine::records::record::Properties;
use crate::engine::records::system::SystemRecord;

/// A token (R74), under its digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The key of the account's record.
    pub account: String,
    /// The device.
    pub device: String,
    /// When it ends, in milliseconds since 1970.
    pub until: u64,
    /// The last use that is noted, or its sign-in.
    pub used: u64,
}

/// An open invitation, under the hash of its id.
#[derive(Clone, Debug, PartialEq)]
pub struct Invitation {
    /// The role of the account that it is for; without one, that of any account.
    pub role: Option<String>,
    /// When it ends, in milliseconds since 1970.
    pub until: u64,
    /// Further properties, which an application gave it.
    pub others: Properties,
}

impl SystemRecord for Token {
    const CLASS: &'static str = "#token";

    fn encode(&self) -> Properties {
        entries_of([
            ("account", Value::from(self.account.as_str())),
            ("device", Value::from(self.device.as_str())),
            ("until", number(self.until)),
            ("used", number(self.used)),
        ])
    }

    fn decode(stored: &Properties) -> Result<Self> {
        Ok(Token {
            account: text(stored, "account").unwrap_or_default(),
            device: text(stored, "device").unwrap_or_default(),
            until: natural(stored, "until").unwrap_or(0),
            used: natural(stored, "used").unwrap_or(0),
        })
    }
}

impl SystemRecord for Invitation {
    const CLASS: &'static str = "#invitation";

    fn encode(&self) -> Properties {
        let mut map = self.others.clone();
        map.extend(self.role.as_deref().map(|role| ("role".to_owned(), Value::from(role))));
        map.insert("until".to_owned(), number(self.until));
        map
    }

    fn decode(stored: &Properties) -> Result<Self> {
        let (role, until) = (text(stored, "role"), natural(stored, "until").unwrap_or(0));
        let mut others = stored.clone();
        others.retain(|name, _| name != "role" && name != "until");
        Ok(Invitation { role, until, others })
    }
}
