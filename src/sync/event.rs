//! What happens to the machine, and what it wants done.

use super::journal::Swept;
use super::tabs::{TabEffect, TabEvent};
use super::writes::Write;
use crate::codec::{Data, LiveRequest, ServerFrame, SyncReply, SyncRequest};
use crate::error::{Error, Result};
use crate::journal::{Action, OpId, Retention};
use crate::memory::DocKey;
use crate::memory::query::Predicate;
use crate::model::{Def, Name, Pk, Value, Version};
use crate::storage::{Expected, FoundPage, Reopened};
use crate::store::{Batch, RecordKey};

/// The time as the driver knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// Milliseconds since 1970 by the device's clock, which may be wrong and may jump.
    pub wall_ms: u64,
    /// Milliseconds since some moment, never going back: what delays are counted in.
    pub mono_ms: u64,
}

/// How the session works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Server and device.
    Synced,
    /// Server only: nothing is ever written.
    Incognito,
    /// Device only: the server is never contacted.
    Avion,
}

impl Mode {
    /// The name that the application uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Synced => "synced",
            Mode::Incognito => "incognito",
            Mode::Avion => "avion",
        }
    }
}

/// Why a request has no reply.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// What was found.
    pub error: Error,
    /// Milliseconds that the server asked to wait.
    pub retry_after_ms: Option<u64>,
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Refusal { error, retry_after_ms: None }
    }
}

/// What happened.
#[derive(Debug)]
pub enum Event {
    /// The session was opened: work begins.
    Started,
    /// The application subscribes.
    Subscribe(Def),
    /// The application ends a subscription.
    Unsubscribe(Def),
    /// A request was answered, or was not.
    Replied {
        /// The number that [`Effect::Send`] gave.
        number: u64,
        /// The reply.
        reply: std::result::Result<SyncReply, Refusal>,
    },
    /// A socket is open.
    SocketOpened {
        /// The number that [`Effect::OpenSocket`] gave.
        socket: u64,
    },
    /// A socket brought a frame; `Err` where it was none.
    Frame {
        /// Which socket.
        socket: u64,
        /// The frame.
        frame: Result<ServerFrame>,
    },
    /// A socket closed, or could not be opened.
    SocketClosed {
        /// Which socket.
        socket: u64,
        /// The close code; 1006 where there was none.
        code: u16,
        /// What the server said of it; often nothing.
        reason: String,
    },
    /// The batch in flight was written, or was not.
    Committed(Result<()>),
    /// The store was opened anew ([`crate::storage::reopen`]), or could not be.
    Reopened(Result<Reopened>),
    /// The handle of the store died without being asked anything: the browser closed it.
    DeviceClosed(Error),
    /// K was wrapped anew: the header as it rests from now on.
    Rewrapped(Vec<u8>),
    /// Pages were read, in the order asked; `None` for one that is not there.
    PagesRead {
        /// The ticket that [`Effect::ReadPages`] gave.
        ticket: u64,
        /// The sealed pages.
        pages: Result<Vec<Option<Vec<u8>>>>,
    },
    /// The same of a device that has a cipher of its own, and may have opened them.
    PagesOpened {
        /// The ticket that [`Effect::ReadPages`] gave.
        ticket: u64,
        /// The pages.
        pages: Result<Vec<Option<FoundPage>>>,
    },
    /// The application wants the data of documents.
    Read {
        /// Names the answer; chosen by the driver, even numbers only.
        ticket: u64,
        /// Which versions of which documents.
        ids: Vec<u32>,
    },
    /// The application wants the documents of a class that satisfy every predicate.
    Query {
        /// Names the answer; chosen by the driver, even numbers only.
        ticket: u64,
        /// The class.
        class: Name,
        /// The conditions.
        predicates: Vec<Predicate>,
    },
    /// The application gave a token, or has none.
    Token(Option<String>),
    /// The device says that it has a network, or none.
    Network(bool),
    /// The page became visible.
    Visible,
    /// The application changed the mode: `synced` and `avion` alternate.
    SetMode(Mode),
    /// The application issues an operation, checked by `Machine::check_write`.
    Write(Write),
    /// The application issues a refused operation again, under a new id, with other arguments or the same.
    Amend {
        /// The refused one.
        id: OpId,
        /// The new one's id.
        new: OpId,
        /// Its arguments, where they change.
        args: Option<Value>,
    },
    /// The application forgets a refused operation.
    Discard(OpId),
    /// The application wants a document's past states.
    History {
        /// Names the answer; even.
        ticket: u64,
        /// Which document.
        key: DocKey,
    },
    /// The application sweeps the journal.
    Sweep {
        /// Names the answer; even.
        ticket: u64,
        /// The rule.
        retention: Retention,
        /// False only tells what would go.
        apply: bool,
    },
    /// Journal records were read, in the order asked; `None` for one that is not there.
    JournalRead {
        /// The ticket that [`Effect::ReadJournal`] gave.
        ticket: u64,
        /// The sealed records.
        records: Result<Vec<Option<Vec<u8>>>>,
    },
    /// The moment of [`Effect::WakeAt`] has come.
    Woke,
    /// What concerns the other sessions of the store.
    Tab(TabEvent),
}

/// A document's data, for the application.
#[derive(Clone, Debug)]
pub struct ReadRow {
    /// The id that was asked.
    pub id: u32,
    /// The document's pk.
    pub pk: Pk,
    /// Its version.
    pub v: u64,
    /// The release of its class.
    pub release: u64,
    /// Its data.
    pub data: Data,
}

/// What to do. Effects are carried out in order; none is awaited before the next.
#[derive(Debug)]
pub enum Effect {
    /// Send a request.
    Send {
        /// Names the reply.
        number: u64,
        /// What to send.
        request: SyncRequest,
        /// The bearer token.
        token: Option<String>,
    },
    /// The reply to a request is of no interest any more.
    CancelSend(u64),
    /// Open a socket.
    OpenSocket(u64),
    /// Say something on a socket.
    Say {
        /// Which socket.
        socket: u64,
        /// What to say.
        request: LiveRequest,
    },
    /// Close a socket.
    CloseSocket(u64),
    /// Ask the application for a token.
    AskToken {
        /// The last one was refused.
        refused: bool,
    },
    /// Write a batch; there is one in flight at a time.
    Commit(Batch),
    /// Open the store anew by [`crate::storage::reopen`], which drops the handle; nothing else is asked of it meanwhile.
    Reopen(Expected),
    /// Read pages.
    ReadPages {
        /// Names the answer.
        ticket: u64,
        /// Which.
        keys: Vec<RecordKey>,
    },
    /// The answer to [`Event::Read`].
    Answer {
        /// The event's ticket.
        ticket: u64,
        /// The rows that could be read, in the order asked.
        rows: Result<Vec<ReadRow>>,
    },
    /// The answer to [`Event::Query`].
    Matched {
        /// The event's ticket.
        ticket: u64,
        /// The documents.
        ids: Result<Vec<u32>>,
    },
    /// Read journal records.
    ReadJournal {
        /// Names the answer.
        ticket: u64,
        /// Which.
        keys: Vec<RecordKey>,
    },
    /// The answer to [`Event::History`]: operations' ids and actions, the oldest first.
    Past {
        /// The event's ticket.
        ticket: u64,
        /// The actions.
        actions: Result<Vec<(OpId, Action)>>,
    },
    /// The answer to [`Event::Sweep`].
    Swept {
        /// The event's ticket.
        ticket: u64,
        /// What goes.
        swept: Result<Swept>,
    },
    /// An operation is on the device; in incognito, in memory.
    Saved {
        /// Which.
        id: OpId,
    },
    /// An operation is over: the version and the value that the server gave, or why it was given up.
    Accepted {
        /// Which.
        id: OpId,
        /// How.
        result: Result<(Version, Option<Value>)>,
    },
    /// The server refused an operation for good: it is parked.
    Refused {
        /// Which.
        id: OpId,
        /// Why.
        error: Error,
    },
    /// A conflict was settled: another operation stands in the place of this one.
    Amended {
        /// Which.
        id: OpId,
        /// By which.
        by: OpId,
    },
    /// Tell the application what changed.
    Changed {
        /// Defs whose members or documents changed.
        defs: Vec<Def>,
        /// Ids of no use any more.
        gone: Vec<u32>,
    },
    /// What concerns the other sessions of the store.
    Tab(TabEffect),
    /// Tell the application that the status changed.
    StatusChanged,
    /// Send [`Event::Woke`] at that time, in place of any earlier wish; `None` for never.
    WakeAt(Option<u64>),
}
