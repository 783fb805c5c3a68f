//! The interface between the machine and its driver: events in, effects out. Its files use no part of the
//! machine.

mod event;
mod fault;
mod status;
mod tabs;
mod value;

pub use event::{Effect, Event};
pub use fault::{error_of, error_of_outcome};
pub use status::{Damaged, Phase, Progress, Status, StorageState, Updates, role_of};
pub use tabs::{Inbox, TabEffect, TabEvent};
pub use value::{Clock, FileWord, Mode, ReadRow, Refusal, Swept, Write};
