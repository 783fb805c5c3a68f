//! Journal records at rest: an operation with the actions that it caused.

use serde::{Deserialize, Serialize};

use super::action::Action;
use super::op::OpState;
use crate::codec::{pack_named, unpack};
use crate::error::{Code, Error, Result};
use crate::model::Value;

/// One record. It is written anew, under another number, when the operation's state changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JournalRecord {
    /// Its own number.
    pub number: u64,
    /// The operation that caused the actions.
    pub op_id: String,
    /// The operation, until it is over.
    pub op: Option<OpState>,
    /// Its place in the session's order on the server, once it has accepted.
    pub seq: Option<u64>,
    /// Under which of the session's names: how many it had before.
    pub name: u64,
    /// The actions, until they are swept.
    pub actions: Vec<Action>,
    /// The server accepted it, and a later epoch does not hold it (R8).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lost: bool,
    /// How it ended, for the session that issued it; older records have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// Once it is over: the operations that it was issued in the place of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaces: Vec<String>,
}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Outcome {
    /// The server has executed it.
    Accepted {
        /// The version that it gave.
        v: u64,
        /// What it returned.
        value: Option<Value>,
    },
    /// It was given up: the code and what was found.
    Failed(String, String),
}

impl JournalRecord {
    /// A record of an operation, without a number yet, that tells nothing.
    pub fn of(op_id: String, name: u64) -> Self {
        JournalRecord {
            number: 0,
            op_id,
            op: None,
            seq: None,
            name,
            actions: Vec::new(),
            lost: false,
            outcome: None,
            replaces: Vec::new(),
        }
    }

    /// The plain bytes.
    pub fn encode(&self) -> Result<Vec<u8>> {
        pack_named(self)
    }

    /// Reads a record; `record_damaged` where the bytes are none.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        unpack(bytes).ok_or_else(|| Error::new(Code::RecordDamaged, "not a journal record"))
    }
}
