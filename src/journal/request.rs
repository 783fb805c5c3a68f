//! The requests of followers to the leader of a store (docs/format.md): each is a record of the inbox.

use serde::{Deserialize, Serialize};

use super::op::OpId;
use super::planner::Retention;
use crate::codec::{Data, pack_named, unpack};
use crate::error::{Code, Error, Result};
use crate::model::{Def, Name, Pk, Value};

/// A request. Carrying it out twice has no further effect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Its position among all requests: those of one session ascend.
    pub stamp: u64,
    /// The command.
    pub wanted: Wanted,
    /// In a beat: the leader's phase. The last field, absent in others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
}

/// A command to the leader.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Wanted {
    /// Issue an operation.
    Write(WantedWrite),
    /// Issue a refused operation again, under a new id.
    Amend {
        /// The refused operation.
        id: OpId,
        /// The id of the new one.
        new: OpId,
        /// Its arguments, if they change.
        args: Option<Value>,
    },
    /// Discard a refused operation.
    Discard(OpId),
    /// Begin a subscription.
    Subscribe(Def),
    /// End a subscription.
    Unsubscribe(Def),
    /// Sweep the journal.
    Sweep(Retention),
    /// A signal to every session of the store, in its own record that the next signal replaces.
    Signal(Signal),
}

/// A signal to every session of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Signal {
    /// The leader is alive.
    Beat,
    /// Forget the key and the memory.
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
    /// Its arguments, with the version that it expects if its class resolves conflicts.
    pub args: Value,
    /// Milliseconds since 1970 by the device's clock when it was issued.
    pub at: u64,
    /// The documents that it touches.
    pub touches: Vec<(Name, Pk)>,
    /// Operations that it waits for.
    pub after: Vec<OpId>,
    /// Its document's state when it was issued, for conflicts.
    pub base: Option<Data>,
    /// The same for each document of a batch.
    pub bases: Vec<(Name, Pk, Data)>,
    /// Positions of the changes whose expected version the application set itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub insists: Vec<u32>,
}

impl Request {
    /// The plain bytes.
    pub fn encode(&self) -> Result<Vec<u8>> {
        pack_named(self)
    }

    /// Decodes a request; `record_damaged` if the bytes are not one.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        unpack(bytes).ok_or_else(|| Error::new(Code::RecordDamaged, "not a request"))
    }
}
