//! The requests of followers to the leader of a store (docs/format.md): each is a record of the inbox.

use super::issued::Issued;
use super::op::OpId;
use super::planner::Retention;
use crate::codec::{
    Decode, Encode, Fields, Format, Node, NodeError, Presence, Writer, content_of, names, pack_named, record,
    unknown_variant, unpack,
};
use crate::error::{Code, Error, Result};
use crate::model::{Def, Name, Pk, Value};

/// A request. Carrying it out twice has no further effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Its position among all requests: those of one session ascend.
    pub stamp: u64,
    /// The command.
    pub wanted: Wanted,
    /// In a beat: the leader's phase. The last field, absent in others.
    pub phase: Option<String>,
}

record!(Request { stamp, wanted, phase optional });

/// A command to the leader.
#[derive(Clone, Debug, PartialEq)]
pub enum Wanted {
    /// Issue an operation.
    Write(Issued),
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
    /// Say how long a subscription lasts.
    Lease(Def, u64),
    /// Sweep the journal.
    Sweep(Retention),
    /// A signal to every session of the store, in its own record that the next signal replaces.
    Signal(Signal),
}

impl Wanted {
    /// Whether an operation with these documents and trees must not be issued before this request is carried out.
    pub fn blocks(&self, write: &Issued, keys: &[(Name, Pk)], names: impl Fn(&str) -> bool) -> bool {
        let is_named = |id: &OpId| write.after.contains(id) || names(id);
        match self {
            Wanted::Write(held) => is_named(&held.id) || held.touches.iter().any(|key| keys.contains(key)),
            Wanted::Amend { new, .. } => is_named(new),
            _ => false,
        }
    }
}

impl Encode for Wanted {
    fn encode(&self, out: &mut Writer) {
        match self {
            Wanted::Write(write) => out.variant("Write", write),
            Wanted::Amend { id, new, args } => {
                let always = Presence::Required;
                out.variant_record(
                    "Amend",
                    &[("id", always, id), ("new", always, new), ("args", always, args)],
                );
            }
            Wanted::Discard(id) => out.variant("Discard", id),
            Wanted::Subscribe(def) => out.variant("Subscribe", def),
            Wanted::Unsubscribe(def) => out.variant("Unsubscribe", def),
            Wanted::Lease(def, lease) => out.variant("Lease", &(def, lease)),
            Wanted::Sweep(retention) => out.variant("Sweep", retention),
            Wanted::Signal(signal) => out.variant("Signal", signal),
        }
    }
}

impl Decode for Wanted {
    fn decode(node: Node<'_>, format: Format) -> std::result::Result<Self, NodeError> {
        let (name, content) = content_of(node)?;
        match name.as_ref() {
            "Write" => Decode::decode(content, format).map(Wanted::Write),
            "Amend" => {
                let mut fields = Fields::new(content, &["id", "new", "args"], format)?;
                let (id, new) = (fields.required()?, fields.required()?);
                Ok(Wanted::Amend { id, new, args: fields.required()? })
            }
            "Discard" => Decode::decode(content, format).map(Wanted::Discard),
            "Subscribe" => Decode::decode(content, format).map(Wanted::Subscribe),
            "Unsubscribe" => Decode::decode(content, format).map(Wanted::Unsubscribe),
            "Lease" => Decode::decode(content, format).map(|(def, lease)| Wanted::Lease(def, lease)),
            "Sweep" => Decode::decode(content, format).map(Wanted::Sweep),
            "Signal" => Decode::decode(content, format).map(Wanted::Signal),
            _ => Err(unknown_variant()),
        }
    }
}

/// A signal to every session of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// The leader is alive.
    Beat,
    /// Forget the key and the memory.
    Lock,
    /// The store is being deleted.
    Wipe,
    /// As `Lock`: the account has ended this device.
    Revoked,
    /// As `Lock`: the server has closed the account.
    Barred,
    /// Contact the server.
    Synced,
    /// Contact it no more.
    Avion,
}

names!(Signal { Beat = "Beat", Lock = "Lock", Wipe = "Wipe", Revoked = "Revoked", Barred = "Barred", Synced = "Synced", Avion = "Avion" });

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
