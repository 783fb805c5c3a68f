//! A pending operation, as the session keeps it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::action::Action;
use super::change::{Change, IfVersion};
use crate::codec::{Data, Fault};
use crate::crypto::Random;
use crate::error::Result;
use crate::model::{Def, Name, Pk, Value};
use crate::session::{DocKey, Stamp};

/// The id of an operation: a UUID v7.
pub type OpId = String;

/// What is kept at rest of an operation until it is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpState {
    /// Where it stands among the others: they execute in ascending order (R12).
    pub order: u64,
    /// Its id.
    pub id: OpId,
    /// Its name.
    pub name: String,
    /// Its arguments.
    pub args: Value,
    /// Milliseconds since 1970 by the device's clock when it was issued: information.
    pub at: u64,
    /// The documents that it touches.
    pub touches: Vec<(Name, Pk)>,
    /// Operations that it waits for, by the application's word.
    pub after: Vec<OpId>,
    /// What its document was when it was issued, for conflicts.
    pub base: Option<Data>,
    /// The version that the server gave, once it has accepted; the effect may not be seen yet.
    pub accepted: Option<u64>,
    /// Its place in the session's order on the server, kept while the effect is not seen.
    pub seq: Option<u64>,
    /// Why the server refused it for good.
    pub refused: Option<Fault>,
    /// In which era what the server has told contains its effect everywhere: its overlay is dropped, for good.
    pub seen: Option<u32>,
    /// Documents whose base contains its effect already, while others' do not, and in which era.
    pub seen_on: Vec<(Name, Pk, u32)>,
}

/// An operation in memory.
#[derive(Clone, Debug)]
pub struct PendingOp {
    /// What is kept at rest.
    pub state: OpState,
    /// The keys of the documents that it touches.
    pub keys: Vec<DocKey>,
    /// What it does to documents; `None` until its optimistic part could run.
    pub changes: Option<Vec<Change>>,
    /// Whether it is on the device (in incognito, in memory): it may be sent (R10).
    pub saved: bool,
    /// The number of its journal record, once it has one.
    pub record: Option<u64>,
    /// Its place in the session's order while it is under way.
    pub seq: Option<u64>,
    /// The defs whose next pull must show its effect before its overlay is dropped; `None` before it was sent.
    pub awaits: Option<BTreeSet<Def>>,
    /// `state.seen_on` by the keys of this schema.
    pub seen_on: BTreeMap<DocKey, u32>,
    /// The actions that it causes, until it is over.
    pub actions: Vec<Action>,
    /// Whether its documents' states before it were known, so that its actions are complete.
    pub prepared: bool,
    /// The number that it was last sent under.
    pub sent_as: Option<u64>,
    /// Whether it may be executed under another number than its present one: sent before the session was opened, or
    /// numbered anew since it was sent.
    pub has_other_numbers: bool,
}

impl PendingOp {
    /// Whether it waits for the server's answer, and is not parked.
    pub fn is_waiting(&self) -> bool {
        self.state.accepted.is_none() && self.state.refused.is_none()
    }

    /// Whether the server may have it: sent now, or perhaps before the session was opened.
    pub fn may_be_sent(&self) -> bool {
        self.sent_as.is_some() || self.has_other_numbers
    }

    /// Whether its effect is laid over that document, whose base is of that version; of the present era where there is
    /// none.
    pub fn is_shown_on(&self, key: &DocKey, base: Option<Stamp>, era: u32) -> bool {
        let base = base.unwrap_or(Stamp::new(era, 0));
        let contained = self.state.accepted.is_some_and(|v| v > 0 && base.v >= v) && base.era == era;
        let is_seen = self.state.seen == Some(base.era) || self.seen_on.get(key) == Some(&base.era);
        self.state.refused.is_none() && !contained && !is_seen
    }

    /// Expects its document to be of that version, or of any.
    pub fn expect(&mut self, expected: Option<IfVersion>) {
        if let Some([change]) = self.changes.as_deref_mut() {
            change.if_version.clone_from(&expected);
        }
        let Value::Map(args) = &mut self.state.args else { return };
        let value = match expected {
            None => {
                args.remove("ifVersion");
                return;
            }
            Some(IfVersion::At(v)) => Value::from(v as i64),
            Some(IfVersion::Of(id)) => Value::from([("op", Value::from(id.as_str()))]),
        };
        args.insert("ifVersion".to_owned(), value);
    }

    /// The version that it expects of its document, where it stands on one.
    pub fn expected(&self) -> Option<&IfVersion> {
        match self.changes.as_deref() {
            Some([change]) => change.if_version.as_ref(),
            _ => None,
        }
    }

    /// An operation in memory, from what is kept at rest of it.
    pub fn new(state: OpState, keys: Vec<DocKey>) -> Self {
        PendingOp {
            state,
            keys,
            changes: None,
            saved: false,
            record: None,
            seq: None,
            awaits: None,
            seen_on: BTreeMap::new(),
            actions: Vec::new(),
            prepared: false,
            sent_as: None,
            has_other_numbers: false,
        }
    }
}

/// A UUID v7 of that time: they sort by the time of their making.
pub fn make_id(now_ms: u64, random: &mut dyn Random) -> Result<OpId> {
    let mut bytes = [0; 16];
    random.fill(&mut bytes)?;
    bytes[..6].copy_from_slice(&now_ms.to_be_bytes()[2..]);
    bytes[6] = 0x70 | (bytes[6] & 0x0f);
    bytes[8] = 0x80 | (bytes[8] & 0x3f);
    let hex = format!("{:032x}", u128::from_be_bytes(bytes));
    Ok([&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-"))
}
