//! What one session of a store asks of the one that leads (docs/format.md): a record of the inbox.

use serde::{Deserialize, Serialize};

use super::op::OpId;
use super::planner::Retention;
use crate::codec::{Data, pack_named, unpack};
use crate::error::{Code, Error, Result};
use crate::model::{Def, Name, Pk, Value};

/// A request. Each is safe to carry out twice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Its place among all requests: those of one session ascend.
    pub stamp: u64,
    /// What is wanted.
    pub wanted: Wanted,
    /// Of a beat: where the leader stands. The last field, absent elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
}

/// What is wanted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Wanted {
    /// An operation is to be issued.
    Write(WantedWrite),
    /// A refused operation is to be issued again, under a new id.
    Amend {
        /// The refused one.
        id: OpId,
        /// The new one.
        new: OpId,
        /// Its arguments, where they change.
        args: Option<Value>,
    },
    /// A refused operation is to be forgotten.
    Discard(OpId),
    /// A subscription.
    Subscribe(Def),
    /// Its end.
    Unsubscribe(Def),
    /// The journal is to be swept.
    Sweep(Retention),
    /// To every session of the store, in a record of its own that the next one replaces.
    Signal(Signal),
}

/// What concerns every session of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Signal {
    /// The one that leads is there.
    Beat,
    /// Forget the key and what is in memory.
    Lock,
    /// The store is being deleted.
    Wipe,
    /// Contact the server.
    Synced,
    /// Contact it no more.
    Avion,
}

/// An operation as its application issued it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WantedWrite {
    /// Its id.
    pub id: OpId,
    /// Its name.
    pub name: String,
    /// Its arguments, with the version that it expects where its class settles conflicts.
    pub args: Value,
    /// Milliseconds since 1970 by the device's clock when it was issued.
    pub at: u64,
    /// The documents that it touches.
    pub touches: Vec<(Name, Pk)>,
    /// Operations that it waits for.
    pub after: Vec<OpId>,
    /// What its document was when it was issued, for conflicts.
    pub base: Option<Data>,
    /// The same of each document of a batch.
    pub bases: Vec<(Name, Pk, Data)>,
    /// Places of the changes whose version the application itself expects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub insists: Vec<u32>,
}

impl Request {
    /// The plain bytes.
    pub fn encode(&self) -> Result<Vec<u8>> {
        pack_named(self)
    }

    /// Reads a request; `record_damaged` where the bytes are none.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        unpack(bytes).ok_or_else(|| Error::new(Code::RecordDamaged, "not a request"))
    }
}
