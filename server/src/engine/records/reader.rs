//! The sessions of an account without the right to write.

use escale::Result;
use escale::model::Value;

use crate::engine::records::fields::{entries_of, natural};
use crate::engine::records::record::Properties;
use crate::engine::records::system::SystemRecord;

/// Sessions of an account whose numbers are kept though they began without the right to write.
pub(in crate::engine) const SESSIONS_MAX: u64 = 16;

/// How many such sessions an account has, under the hash of its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engine) struct Reader {
    pub(in crate::engine) sessions: u64,
}

impl SystemRecord for Reader {
    const CLASS: &'static str = "#reader";

    fn encode(&self) -> Properties {
        entries_of([("sessions", Value::from(self.sessions as i64))])
    }

    fn decode(stored: &Properties) -> Result<Self> {
        Ok(Reader { sessions: natural(stored, "sessions").unwrap_or(SESSIONS_MAX) })
    }
}
