//! Events in, effects out.

use super::tabs::{TabEffect, TabEvent};
use super::value::{FileWord, Mode, ReadRow, Refusal, Swept, Write};
use crate::codec::{LiveRequest, ServerFrame, SyncReply, SyncRequest};
use crate::error::{Error, Result};
use crate::journal::{Action, OpId, Retention};
use crate::memory::DocKey;
use crate::memory::query::Query;
use crate::model::{Def, Name, Value, Version};
use crate::storage::{Expected, FoundPage, Reopened};
use crate::store::{Batch, RecordKey};

/// Something that happened outside of the machine.
#[derive(Debug)]
pub enum Event {
    /// The session was opened: work begins.
    Started,
    /// The application subscribes.
    Subscribe(Def),
    /// The application ends a subscription.
    Unsubscribe(Def),
    /// The application says how long a subscription lasts.
    Lease(Def, u64),
    /// A request was answered, or has failed.
    Replied {
        /// The number from [`Effect::Send`].
        number: u64,
        /// The reply.
        reply: std::result::Result<SyncReply, Refusal>,
    },
    /// A socket is open.
    SocketOpened {
        /// The number from [`Effect::OpenSocket`].
        socket: u64,
    },
    /// A socket received a message; `Err` if it is not a valid frame.
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
        /// The close code; 1006 if there was none.
        code: u16,
        /// The reason that the server gave; often empty.
        reason: String,
    },
    /// The batch in flight was written, or writing it failed.
    Committed(Result<()>),
    /// The store was opened again ([`crate::storage::reopen`]), or opening it failed.
    Reopened(Result<Reopened>),
    /// The browser closed the handle of the store, without any request being made on it.
    DeviceClosed(Error),
    /// K was wrapped again: this is the header that is in storage from now on.
    Rewrapped(Vec<u8>),
    /// Pages were read, in the order of the request; `None` for a page that does not exist.
    PagesRead {
        /// The ticket from [`Effect::ReadPages`].
        ticket: u64,
        /// The sealed pages.
        pages: Result<Vec<Option<Vec<u8>>>>,
    },
    /// The same as `PagesRead`, from a device that has its own cipher and may have opened the pages already.
    PagesOpened {
        /// The ticket from [`Effect::ReadPages`].
        ticket: u64,
        /// The pages.
        pages: Result<Vec<Option<FoundPage>>>,
    },
    /// The application asks for the data of documents.
    Read {
        /// Names the answer; chosen by the driver, even numbers only.
        ticket: u64,
        /// Ids of documents in memory; an id names one version of one document.
        ids: Vec<u32>,
    },
    /// The application asks for the documents of a class that satisfy a query.
    Query {
        /// Names the answer; chosen by the driver, even numbers only.
        ticket: u64,
        /// The class.
        class: Name,
        /// The conditions, the order and the limit.
        query: Query,
    },
    /// The application began a live query of a class, or ended one: meanwhile the class keeps its indexes.
    Watch {
        /// The class.
        class: Name,
        /// Whether it began.
        begins: bool,
    },
    /// The application supplied a token, or has none.
    Token(Option<String>),
    /// The browser reports that the device is online or offline.
    Network(bool),
    /// The page became visible.
    Visible,
    /// The application changed the mode: `synced` and `avion` alternate.
    SetMode(Mode),
    /// The application issues an operation that `Machine::check_write` has accepted.
    Write(Write),
    /// The application issues a refused operation again, under a new id, with the same arguments or others.
    Amend {
        /// The refused operation.
        id: OpId,
        /// The id of the new operation.
        new: OpId,
        /// Its arguments, if they change.
        args: Option<Value>,
    },
    /// The application discards a refused operation.
    Discard(OpId),
    /// The application asks for a document's past states.
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
        /// The retention rule.
        retention: Retention,
        /// If false, only report the actions that would be removed.
        apply: bool,
    },
    /// The word on objects of files for which [`Effect::Files`] asked.
    FilesSettled {
        /// The objects.
        shas: Vec<String>,
        /// The word.
        word: FileWord,
    },
    /// Journal records were read, in the order of the request; `None` for a record that does not exist.
    JournalRead {
        /// The ticket from [`Effect::ReadJournal`].
        ticket: u64,
        /// The sealed records.
        records: Result<Vec<Option<Vec<u8>>>>,
    },
    /// The time of [`Effect::WakeAt`] has come.
    Woke,
    /// An event about the other sessions of the store.
    Tab(TabEvent),
}

/// A command to the driver. The driver carries out effects in order, and awaits none before the next.
#[derive(Debug)]
pub enum Effect {
    /// Send a request.
    Send {
        /// Names the reply.
        number: u64,
        /// The request.
        request: SyncRequest,
        /// The bearer token.
        token: Option<String>,
    },
    /// The machine no longer needs the reply to this request.
    CancelSend(u64),
    /// Open a socket.
    OpenSocket(u64),
    /// Send a message on a socket.
    Say {
        /// Which socket.
        socket: u64,
        /// The message.
        request: LiveRequest,
    },
    /// Close a socket.
    CloseSocket(u64),
    /// Ask the application for a token.
    AskToken {
        /// True if the last token was refused.
        refused: bool,
    },
    /// Write a batch; at most one is in flight.
    Commit(Batch),
    /// Open the store again by [`crate::storage::reopen`], which drops the handle. Until the result arrives,
    /// the machine requests nothing else from the store.
    Reopen(Expected),
    /// Read pages.
    ReadPages {
        /// Names the answer.
        ticket: u64,
        /// The keys of the pages.
        keys: Vec<RecordKey>,
    },
    /// The answer to [`Event::Read`].
    Answer {
        /// The event's ticket.
        ticket: u64,
        /// The rows that could be read, in the order of the request.
        rows: Result<Vec<ReadRow>>,
    },
    /// The answer to [`Event::Query`].
    Matched {
        /// The event's ticket.
        ticket: u64,
        /// The ids of the documents that match.
        ids: Result<Vec<u32>>,
    },
    /// Read journal records.
    ReadJournal {
        /// Names the answer.
        ticket: u64,
        /// The keys of the records.
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
        /// The actions that the sweep removes.
        swept: Result<Swept>,
    },
    /// Operations wait for a word on the objects of these files, and on no others (R24).
    Files {
        /// The objects, sorted.
        needed: Vec<String>,
    },
    /// An operation is on the device; in incognito, in memory.
    Saved {
        /// Which operation.
        id: OpId,
    },
    /// An operation is over: the version and the value that the server gave, or the reason why it was
    /// discarded.
    Accepted {
        /// Which operation.
        id: OpId,
        /// The result.
        result: Result<(Version, Option<Value>)>,
    },
    /// The server refused an operation for good: it is parked.
    Refused {
        /// Which operation.
        id: OpId,
        /// The reason.
        error: Error,
    },
    /// Another operation has taken the place of this one: a conflict was resolved, or another session amended
    /// it.
    Amended {
        /// The operation that was replaced.
        id: OpId,
        /// The operation that takes its place.
        by: OpId,
    },
    /// Tell the application which defs and documents changed.
    Changed {
        /// Defs whose members or documents changed.
        defs: Vec<Def>,
        /// Ids that are not used any more.
        gone: Vec<u32>,
    },
    /// An effect on the other sessions of the store.
    Tab(TabEffect),
    /// Tell the application that the status changed.
    StatusChanged,
    /// Send [`Event::Woke`] at this time, which replaces any earlier one; `None` for never.
    WakeAt(Option<u64>),
}
