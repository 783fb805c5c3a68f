//! The events and effects about the other sessions of the store.

use super::status::Phase;
use crate::codec::Fault;
use crate::error::{Error, Result};
use crate::model::Def;
use crate::storage::Opened;
use crate::store::RecordKey;

/// An event about the other sessions of the store.
#[derive(Debug)]
pub enum TabEvent {
    /// Another session has written: the log or the inbox must be read.
    Poll,
    /// The records of [`TabEffect::Poll`] were read.
    Polled {
        /// The number from that effect.
        number: u64,
        /// The records.
        found: Result<Vec<Option<Vec<u8>>>>,
    },
    /// The whole state was read again.
    Read {
        /// The number from [`TabEffect::Read`].
        number: u64,
        /// The state.
        opened: Result<Box<Opened>>,
    },
    /// The inbox was read.
    Inbox(Result<Inbox>),
    /// This session has begun that generation: it leads from now on.
    Lead(u64),
    /// This session is to lead, but the device takes no new generation. It leads in memory until the device
    /// does.
    LeadUnfenced {
        /// The latest generation that has begun.
        seen: u64,
        /// Why no later one could begin.
        error: Error,
    },
    /// Another session has begun a later generation, or is about to.
    Depose,
    /// The leader's phase, from its beat.
    Heard(Phase),
    /// The defs that the server refuses to the leader, with the reasons; and the level at which it restricts the account.
    Refused(Vec<(Def, Fault)>, u64, Option<&'static str>),
}

/// The contents of the inbox.
#[derive(Debug)]
pub struct Inbox {
    /// The latest generation that had begun, read before the requests.
    pub generation: u64,
    /// The requests, sealed.
    pub requests: Vec<(RecordKey, Vec<u8>)>,
}

/// An effect on the other sessions of the store.
#[derive(Debug)]
pub enum TabEffect {
    /// Read these state records.
    Poll {
        /// Names the answer.
        number: u64,
        /// The keys of the records.
        keys: Vec<RecordKey>,
    },
    /// Read the whole state again, with the reader from [`Machine::reader`](crate::sync::Machine::reader).
    Read(u64),
    /// Read the latest generation, and then the inbox.
    ReadInbox {
        /// Read the requests that only the backup database has, too.
        with_copies: bool,
    },
    /// This session leads.
    Leads,
    /// This session leads no more.
    Deposed,
}
