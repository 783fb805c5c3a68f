//! The sync machine: events and a clock in, effects out (ARCHITECTURE.md). It decides everything and does nothing: the
//! browser's driver and the simulator carry its effects out.

mod backoff;
mod commits;
mod event;
mod live;
mod machine;
mod pull;
mod reads;
mod replies;
mod status;
mod token;

pub use backoff::Backoff;
pub use event::{Clock, Effect, Event, Mode, ReadRow, Refusal};
pub use machine::{Config, Machine};
pub use status::{Damaged, Phase, Progress, Status, StorageState};
