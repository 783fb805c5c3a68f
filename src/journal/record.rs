//! Journal records in storage: an operation with the actions that it caused.

use super::action::Action;
use super::op::OpState;
use crate::codec::{
    Decode, Encode, Fields, Format, Node, NodeError, Presence, Writer, content_of, pack_named, record,
    unknown_variant, unpack,
};
use crate::error::{Code, Error, Result};
use crate::model::Value;

/// One record. When the operation's state changes, it is written again, under another number.
#[derive(Clone, Debug, PartialEq)]
pub struct JournalRecord {
    /// Its own number.
    pub number: u64,
    /// The operation that caused the actions.
    pub op_id: String,
    /// The operation, until it is over.
    pub op: Option<OpState>,
    /// The operation's number in the session, once the server has accepted it.
    pub seq: Option<u64>,
    /// Which of the session's names the number belongs to, as the count of earlier names.
    pub name: u64,
    /// The actions, until they are swept.
    pub actions: Vec<Action>,
    /// Whether the server accepted the operation, and a later epoch does not have it (R8).
    pub lost: bool,
    /// How it ended, for the session that issued it; older records have none.
    pub outcome: Option<Outcome>,
    /// Once it is over: the operations that it replaced.
    pub replaces: Vec<String>,
}

record!(JournalRecord {
    number,
    op_id,
    op,
    seq,
    name,
    actions,
    lost optional,
    outcome optional,
    replaces optional,
});

/// How an operation ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The server has executed it.
    Accepted {
        /// The version that it gave.
        v: u64,
        /// The value that it returned.
        value: Option<Value>,
    },
    /// It was discarded: the code and the detail of the error.
    Failed(String, String),
}

impl Encode for Outcome {
    fn encode(&self, out: &mut Writer) {
        match self {
            Outcome::Accepted { v, value } => {
                out.variant_record(
                    "Accepted",
                    &[("v", Presence::Required, v), ("value", Presence::Required, value)],
                );
            }
            Outcome::Failed(code, message) => out.variant("Failed", &(code.as_str(), message.as_str())),
        }
    }
}

impl Decode for Outcome {
    fn decode(node: Node<'_>, format: Format) -> std::result::Result<Self, NodeError> {
        let (name, content) = content_of(node)?;
        match name.as_ref() {
            "Accepted" => {
                let mut fields = Fields::new(content, &["v", "value"], format)?;
                Ok(Outcome::Accepted { v: fields.required()?, value: fields.required()? })
            }
            "Failed" => {
                let (code, message) = Decode::decode(content, format)?;
                Ok(Outcome::Failed(code, message))
            }
            _ => Err(unknown_variant()),
        }
    }
}

impl JournalRecord {
    /// A record of an operation, without a number and without further facts yet.
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

    /// Decodes a record; `record_damaged` if the bytes are not one.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        unpack(bytes).ok_or_else(|| Error::new(Code::RecordDamaged, "not a journal record"))
    }
}
