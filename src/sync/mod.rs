//! The sync machine: the pure core of a session. It takes events and a clock, and returns effects
//! (ARCHITECTURE.md). The machine makes every decision and does no I/O. The driver carries out its effects:
//! the browser's in production, the simulator's in tests.

mod application;
mod backoff;
mod context;
mod dependencies;
mod device;
mod facts;
mod follow;
mod forward;
mod inbox;
mod journal;
mod journal_reads;
mod machine;
mod message;
mod optimistic;
mod outbox;
mod outcomes;
mod pull;
mod reads;
mod refused;
mod replies;
mod request_limits;
mod retained;
mod status;
mod storing;
mod subscriptions;
mod tabs;
mod unfenced;
mod validate;
mod visibility;
mod writes;

pub use application::{Application, NoApplication, Reader};
pub use backoff::Backoff;
pub use context::Config;
pub use machine::Machine;
pub use message::{
    Clock, Damaged, Effect, Event, Inbox, Mode, Phase, Progress, ReadRow, Refusal, Status, StorageState,
    Swept, TabEffect, TabEvent, Updates, Write, error_of,
};
