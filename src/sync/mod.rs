//! The sync machine: events and a clock in, effects out (ARCHITECTURE.md). It decides everything and does nothing: the
//! browser's driver and the simulator carry its effects out.

mod application;
mod backoff;
mod check;
mod commits;
mod event;
mod follow;
mod heal;
mod held;
mod history;
mod inbox;
mod live;
mod machine;
mod missing;
mod mistakes;
mod optimistic;
mod outbox;
mod pace;
mod past;
mod pins;
mod pull;
mod reads;
mod refused;
mod replies;
mod request;
mod room;
mod status;
mod tabs;
mod token;
mod unfenced;
mod views;
mod wishes;
mod writes;

pub use application::{Application, NoApplication, Reader};
pub use backoff::Backoff;
pub use event::{Clock, Effect, Event, Mode, ReadRow, Refusal};
pub use history::Swept;
pub use machine::{Config, Machine};
pub use replies::error_of;
pub use status::{Damaged, Phase, Progress, Status, StorageState, Updates};
pub use tabs::{Inbox, TabEffect, TabEvent};
pub use writes::Write;
