//! The translation of effects: who carries each out, and the call to the device that it means. A new effect does not
//! compile until it has its place here.

use escale::Error;
use escale::storage::{Expected, StateReader, reopen, with_copies};
use escale::store::conformance::block_on;
use escale::store::{Batch, RecordKey, Store, Table};
use escale::sync::{Effect, Event, Inbox, Machine, TabEffect, TabEvent};

/// More requests than any test leaves in an inbox.
const INBOX_MAX: usize = 10_000;

/// An effect, by who carries it out.
pub enum Duty {
    /// The device.
    Device(Call),
    /// The network: `Send`, `CancelSend`, `OpenSocket`, `Say`, `CloseSocket`, or `AskToken`.
    Network(Effect),
    /// The timer.
    Timer(Option<u64>),
    /// The application: a report to it.
    Application(Effect),
}

impl Duty {
    /// The duty that an effect of this machine means.
    pub fn of(effect: Effect, machine: &Machine) -> Self {
        match effect {
            Effect::Commit(batch) => Duty::Device(Call::Commit(batch)),
            Effect::Reopen(expected) => Duty::Device(Call::Reopen(expected)),
            Effect::ReadPages { ticket, keys } => Duty::Device(Call::Pages { ticket, keys }),
            Effect::ReadJournal { ticket, keys } => Duty::Device(Call::Journal { ticket, keys }),
            Effect::Tab(TabEffect::Poll { number, keys }) => Duty::Device(Call::Poll { number, keys }),
            Effect::Tab(TabEffect::Read(number)) => {
                let reader = machine.reader().expect("a device");
                Duty::Device(Call::State { number, reader })
            }
            Effect::Tab(TabEffect::ReadInbox { with_copies }) => Duty::Device(Call::Inbox { with_copies }),
            Effect::WakeAt(at) => Duty::Timer(at),
            effect @ (Effect::Send { .. }
            | Effect::CancelSend(_)
            | Effect::OpenSocket(_)
            | Effect::Say { .. }
            | Effect::CloseSocket(_)
            | Effect::AskToken { .. }) => Duty::Network(effect),
            effect @ (Effect::Answer { .. }
            | Effect::Matched { .. }
            | Effect::Past { .. }
            | Effect::Swept { .. }
            | Effect::Files { .. }
            | Effect::Saved { .. }
            | Effect::Accepted { .. }
            | Effect::Refused { .. }
            | Effect::Amended { .. }
            | Effect::Changed { .. }
            | Effect::StatusChanged
            | Effect::Tab(TabEffect::Leads | TabEffect::Deposed)) => Duty::Application(effect),
        }
    }
}

/// A call to the device.
pub enum Call {
    Commit(Batch),
    Reopen(Expected),
    Pages { ticket: u64, keys: Vec<RecordKey> },
    Journal { ticket: u64, keys: Vec<RecordKey> },
    Poll { number: u64, keys: Vec<RecordKey> },
    State { number: u64, reader: StateReader },
    Inbox { with_copies: bool },
}

impl Call {
    /// Makes the call. Returns the event that answers it.
    pub fn make(self, store: &impl Store) -> Event {
        let read = |table: Table, keys: &[RecordKey]| block_on(store.get(table, keys));
        match self {
            Call::Commit(batch) => Event::Committed(block_on(store.commit(batch))),
            Call::Reopen(expected) => Event::Reopened(block_on(reopen(store, &expected))),
            Call::Pages { ticket, keys } => Event::PagesRead { ticket, pages: read(Table::Pages, &keys) },
            Call::Journal { ticket, keys } => {
                Event::JournalRead { ticket, records: read(Table::Journal, &keys) }
            }
            Call::Poll { number, keys } => {
                Event::Tab(TabEvent::Polled { number, found: read(Table::State, &keys) })
            }
            Call::State { number, reader } => {
                let opened = block_on(reader.read(store)).map(Box::new);
                Event::Tab(TabEvent::Read { number, opened })
            }
            Call::Inbox { with_copies: is_whole } => {
                let inbox = async {
                    let generation = store.generation().await?;
                    let found = store.scan(Table::Inbox, None, INBOX_MAX).await?;
                    let requests = if is_whole { with_copies(store, found).await? } else { found };
                    Ok(Inbox { generation, requests })
                };
                Event::Tab(TabEvent::Inbox(block_on(inbox)))
            }
        }
    }

    /// The event that reports the call as failed.
    pub fn failed(&self, error: Error) -> Event {
        match *self {
            Call::Commit(_) => Event::Committed(Err(error)),
            Call::Reopen(_) => Event::Reopened(Err(error)),
            Call::Pages { ticket, .. } => Event::PagesRead { ticket, pages: Err(error) },
            Call::Journal { ticket, .. } => Event::JournalRead { ticket, records: Err(error) },
            Call::Poll { number, .. } => Event::Tab(TabEvent::Polled { number, found: Err(error) }),
            Call::State { number, .. } => Event::Tab(TabEvent::Read { number, opened: Err(error) }),
            Call::Inbox { .. } => Event::Tab(TabEvent::Inbox(Err(error))),
        }
    }
}
