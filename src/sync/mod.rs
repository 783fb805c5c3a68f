//! The sync machine: the pure core of a session. It takes events and a clock, and returns effects
//! (ARCHITECTURE.md). The machine makes every decision and does no I/O. The driver carries out its effects:
//! the browser's in production, the simulator's in tests.

mod backoff;
mod context;
mod device;
mod facts;
mod machine;
mod message;
mod outbox;
mod pull;
mod reads;
mod role;
mod router;
mod status;

pub use backoff::Backoff;
pub use context::Config;
pub use machine::Machine;
pub use message::{
    Clock, Damaged, Effect, Event, FileWord, Inbox, Mode, Phase, Progress, ReadRow, Refusal, Status,
    StorageState, Swept, TabEffect, TabEvent, Updates, Write, error_of, role_of,
};
pub use outbox::{Application, NoApplication, Reader};
pub use reads::Changes;
